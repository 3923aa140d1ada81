"""Simulations from before the campaign: imported with their fields all or none, and then like any other trial."""

import multiprocessing
import os
import tracemalloc
from pathlib import Path

import bars
import numpy as np
import pytest
import xarray as xr
import yaml
from bench import OVEN_CAMPAIGN, Bench, bench
from small import SMALL, finish

from fieldcraft.flows.recovery.doctor import examine
from fieldcraft.flows.settings import settings_from
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.records import TrialState


@pytest.fixture
def bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A campaign of cantilevers that is not there yet."""
    return bench(tmp_path, yaml.safe_dump(bars.BAR), monkeypatch)


def stored(campaign: Bench) -> set[str]:
    """Digests of all fields in the store."""
    return fields_at(campaign.settings.fields).digests()


def untouched(campaign: Bench) -> bool:
    """True if an import left neither a ledger nor a field."""
    return not campaign.settings.ledger.exists() and not stored(campaign) and not campaign.settings.fields.exists()


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_a_table_of_fields_is_imported_with_the_outputs_that_the_problem_reads_from_them(bar, tmp_path, suffix):
    status, out, error = bar.run("import", bar.file, bars.three(tmp_path / "old", suffix))
    assert (status, out) == (0, "bar: imported 3 trials, bar-0001 to bar-0003.\n"), error
    for trial, depths in zip(bar.ledger.trials("bar"), bars.DEPTHS, strict=True):
        fields = bars.simulated(depths)
        assert (trial.state, trial.origin.kind, trial.spent) == (TrialState.COMPLETED, "imported", 0.0)
        assert trial.outputs == {"compliance": bars.compliance(fields)} and trial.actual == bars.design(depths)
        assert trial.field is not None
        assert fields_at(bar.settings.fields).read(trial.field).identical(fields)
        (result,) = bar.ledger.results(trial.id)
        assert (result.field, result.outputs) == (trial.field, trial.outputs)
        assert result.details == {
            "place": f"bars.csv: line {trial.number + 1}",
            "columns": {"field": f"fields/{trial.number - 1}{suffix}"},
        }
    assert bar.ledger.check() == [] and examine(bar.settings) == []


def test_an_imported_field_is_the_one_that_the_simulated_trial_has_and_serves_as_it_does(bar, tmp_path, monkeypatch):
    finish(bar.file, bar.settings.home, tmp_path / "plugins")
    simulated = bar.ledger.trials("bar")
    data = bars.of_trials(tmp_path / "old", simulated, fields_at(bar.settings.fields))
    other = bench(tmp_path / "other", yaml.safe_dump({**bars.BAR, "name": "again"}), monkeypatch)
    assert other.run("import", other.file, data)[0] == 0
    imported = other.ledger.trials("again")
    assert [(t.actual, t.outputs, t.field) for t in imported] == [(t.actual, t.outputs, t.field) for t in simulated]
    assert other.make_pass().proposed == 1
    assert other.ledger.trials("again")[-1].origin.kind == "model", "the imported bars are start enough"
    assert other.json("show", "again-0002")["field"] == bar.json("show", "bar-0002")["field"]
    assert other.run("plot", "again", tmp_path / "again.png")[0] == 0 and (tmp_path / "again.png").stat().st_size > 0
    (tmp_path / "anew.yaml").write_text(yaml.safe_dump({**bars.BAR, "name": "anew"}))
    anew = other.json("retarget", "again", tmp_path / "anew.yaml")
    assert len(anew["trials"]) == 4
    assert other.ledger.trials("anew")[0].outputs == simulated[0].outputs


def test_the_same_table_with_the_same_fields_changes_nothing_and_with_other_fields_is_another_import(bar, tmp_path):
    data = bars.three(tmp_path / "old")
    assert bar.run("import", bar.file, data)[0] == 0
    kept = stored(bar)
    status, out, _ = bar.run("import", bar.file, data)
    assert (status, "this very file was imported before; nothing was changed" in out) == (0, True)
    assert len(bar.ledger.trials("bar")) == 3 and stored(bar) == kept
    bars.written(2 * bars.simulated(bars.DEPTHS[1]).assign_attrs({}), tmp_path / "old" / "fields" / "1.nc")
    assert bar.run("import", bar.file, data)[0] == 0
    trials = bar.ledger.trials("bar")
    assert len(trials) == 6 and len(stored(bar)) == 4
    assert trials[4].outputs["compliance"] == 2 * trials[1].outputs["compliance"]


def test_outputs_beside_a_field_must_agree_with_it_and_a_line_without_a_field_needs_its_own(bar, tmp_path):
    bars.three(tmp_path / "old")
    exact = [bars.compliance(bars.simulated(depths)) for depths in bars.DEPTHS]
    rows = [
        {**bars.design(depths), "compliance [J]": value, "field": ""}
        for depths, value in zip(bars.DEPTHS, exact, strict=True)
    ]
    rows[0] |= {"compliance [J]": f"{exact[0] * (1 + 9e-7):.17g}", "field": "fields/0.nc"}
    rows[1] |= {"compliance [J]": "", "field": "fields/1.nc"}
    data = tmp_path / "old" / "bars.csv"
    for wrong, message in (
        ({"compliance [J]": f"{exact[0] * (1 + 2e-6):.17g}"}, "line 2: compliance is 5.35"),
        ({"field": ""}, None),
    ):
        bars.table(data, [rows[0] | wrong, *rows[1:]])
        status, _, error = bar.run("import", bar.file, data)
        assert (status == 0) is (message is None), error
        assert message is None or (message in error and "Let both agree to 1e-06 of their size" in error)
        assert message is None or untouched(bar)
    bars.table(data, [rows[0], rows[1], rows[2] | {"compliance [J]": ""}])
    assert "line 4: compliance is empty. Fill it in, name a field or remove" in bar.run("import", bar.file, data)[2]
    bars.table(data, rows)
    assert bar.run("import", bar.file, data)[0] == 0
    trials = bar.ledger.trials("bar")[3:]
    assert [trial.outputs["compliance"] for trial in trials] == exact, "what the field says counts to the last digit"
    assert [trial.field is None for trial in trials] == [False, False, True]


def deflection(change: str) -> xr.Dataset:
    """The fields of the second bar, with something wrong."""
    fields = bars.simulated(bars.DEPTHS[1])
    match change:
        case "nan":
            fields["moment"] = fields["moment"].where(fields["x"] != fields["x"][7])
        case "unit":
            fields["deflection"].attrs["units"] = "mm"
        case "axis":
            fields["x"].attrs["units"] = "mm"
        case "dims":
            fields = fields.rename(x="s")
        case "places":
            fields = fields.assign_coords(x=fields["x"] ** 2)
        case "text":
            fields = fields.assign(note=("x", ["a"] * 50))
        case "missing":
            fields = fields.drop_vars("deflection")
    return fields


@pytest.mark.parametrize(
    ("change", "suffix", "message"),
    [
        ("nan", ".nc", "'moment' of the field is nan at x 7 (counted from 0). Give a finite number there."),
        ("unit", ".nc", "'deflection' of the field is in 'mm', and the problem has it in 'm'. Convert it"),
        ("axis", ".zarr", "'x' of the field is in 'mm', and the problem has it in 'm'. Convert it"),
        (
            "dims",
            ".zarr",
            "cannot read its outputs from the field: ValueError: The simulation gave no field 'deflection' with",
        ),
        ("places", ".nc", "The places along 'x' in the simulation are not the centres of equal cells"),
        ("missing", ".nc", "CantileverProfile cannot read its outputs from the field"),
        ("text", ".nc", "fields hold numbers only"),
    ],
)
def test_a_field_that_is_none_of_the_problems_imports_nothing_and_names_its_line(
    bar, tmp_path, change, suffix, message
):
    data = bars.three(tmp_path / "old", suffix)
    file = tmp_path / "old" / "fields" / f"1{suffix}"
    bars.written(deflection(change), file)
    status, _, error = bar.run("import", bar.file, data)
    assert (status, f"{data}: line 3: " in error, message in error) == (2, True, True), error
    assert untouched(bar)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("fields/9.nc", "there is no such file. Give a netCDF file, a zarr folder or a table of readings."),
        ("../secret.nc", "the field file '../secret.nc' lies outside"),
        ("fields/../../secret.nc", "lies outside"),
        ("{folder}/secret.nc", "lies outside"),
        ("link.nc", "the field file 'link.nc' lies outside"),
        ("linked/secret.nc", "the field file 'linked/secret.nc' lies outside"),
        ("round.nc", "the field file 'round.nc' cannot be (Symlink loop"),
        ("bars.csv", "no number. Give one, with a decimal point"),
        (".", "is a link, or lies in another file"),
    ],
)
def test_a_field_that_is_not_beside_its_table_is_not_read(bar, tmp_path, named, message):
    data = bars.three(tmp_path / "old")
    bars.written(bars.simulated(bars.DEPTHS[1]), tmp_path / "secret.nc")
    (tmp_path / "old" / "link.nc").symlink_to(tmp_path / "secret.nc")
    (tmp_path / "old" / "linked").symlink_to(tmp_path)
    (tmp_path / "old" / "round.nc").symlink_to(tmp_path / "old" / "round.nc")
    data.write_text(data.read_text().replace("fields/1.nc", named.format(folder=tmp_path)))
    status, _, error = bar.run("import", bar.file, data)
    assert (status, f"{data}: line 3: " in error, message in error) == (2, True, True), error
    assert untouched(bar)


def test_a_damaged_zarr_folder_imports_nothing(bar, tmp_path):
    data = bars.three(tmp_path / "old", ".zarr")
    (chunk,) = [
        path for path in (tmp_path / "old" / "fields" / "1.zarr" / "deflection" / "c").rglob("*") if path.is_file()
    ]
    chunk.write_bytes(chunk.read_bytes()[:20])
    status, _, error = bar.run("import", bar.file, data)
    assert (status, "line 3: " in error, "cannot be read as a field" in error) == (2, True, True), error
    chunk.unlink()
    status, _, error = bar.run("import", bar.file, data)
    assert (status, "line 3: 'deflection' of the field is nan at x 0" in error) == (2, True), error
    assert untouched(bar)


SHIFTING = '''\
"""The same cantilever; whoever evaluates it changes the file of the first bar."""
from dataclasses import dataclass
from pathlib import Path

from fieldcraft.physics.problems.cantilever_profile import CantileverProfile


@dataclass(frozen=True)
class Shifting(CantileverProfile):
    """See the test."""

    folder: str = ""

    def evaluate(self, design, fields):
        other = Path(self.folder) / "2.nc"
        (Path(self.folder) / "1.nc").write_bytes(other.read_bytes())
        return super().evaluate(design, fields)
'''


def test_a_field_that_changes_between_its_check_and_its_storing_imports_nothing(tmp_path, monkeypatch):
    data, folder = bars.three(tmp_path / "old"), tmp_path / "old" / "fields"
    text = {**bars.BAR, "problem": {"kind": "shifting", "folder": str(folder)}}
    shifting = bench(tmp_path, yaml.safe_dump(text), monkeypatch)
    (tmp_path / "plugins" / "problems" / "shifting.py").write_text(SHIFTING)
    lines = data.read_text().splitlines(keepends=True)
    data.write_text("".join([lines[0], lines[2], lines[3]]))
    bars.written(bars.simulated(bars.DEPTHS[1]), folder / "1.nc")
    status, _, error = shifting.run("import", shifting.file, data)
    assert status == 2 and "line 2: " in error, error
    assert "1.nc changed meanwhile. Nothing was imported: do it again." in error
    assert not shifting.ledger.trials("bar") and not stored(shifting)
    assert shifting.ledger.holder("bar") is None
    assert shifting.run("import", shifting.file, data)[0] == 0


def test_a_campaign_that_has_ended_keeps_no_field_of_a_table(finished):
    made = Bench(settings_from(home=finished / "home"), finished / "small.yaml")
    before = stored(made)
    xr.Dataset({"value": ((), 3.5)}).to_netcdf(finished / "one.nc", engine="h5netcdf")
    (finished / "data.csv").write_text("x1,x2,field\n0.5,1,one.nc\n")
    status, _, error = made.run("import", made.file, finished / "data.csv")
    assert (status, "Campaign 'small' has ended (budget" in error) == (2, True), error
    assert stored(made) == before and len(made.ledger.trials("small")) == 3


def test_a_column_of_another_name_holds_the_fields_where_it_is_mapped(bar, tmp_path):
    data = bars.three(tmp_path / "old")
    data.write_text(data.read_text().replace(",field\n", ",path\n").replace(",field\r", ",path\r"))
    assert "no column 'compliance'" in bar.run("import", bar.file, data)[2]
    assert bar.run("import", bar.file, data, "--map", "path=field")[0] == 0
    assert all(trial.field is not None for trial in bar.ledger.trials("bar"))


NAMED = '''\
"""Branin of a magnet: the output is called a field."""
from dataclasses import dataclass

from fieldcraft.physics.problem import Output
from fieldcraft.physics.problems.branin import Branin


@dataclass(frozen=True)
class Magnet(Branin):
    """See the test."""

    @property
    def outputs(self):
        return (Output("field", "T"),)
'''


def test_a_column_that_is_an_output_names_no_files(tmp_path, monkeypatch):
    magnet = bench(tmp_path, SMALL.replace("branin", "magnet"), monkeypatch)
    (tmp_path / "plugins" / "problems" / "magnet.py").write_text(NAMED)
    (tmp_path / "data.csv").write_text("x1,x2,field [T]\n0.5,1,20.5\n")
    status, _, error = magnet.run("import", magnet.file, tmp_path / "data.csv")
    assert status == 0, error
    (trial,) = magnet.ledger.trials("small")
    assert (trial.outputs, trial.field) == ({"field": 20.5}, None)


def test_a_laboratorys_campaign_begins_with_fields_and_the_outputs_that_they_lack(tmp_path, monkeypatch):
    oven = bench(tmp_path, OVEN_CAMPAIGN, monkeypatch)
    whole = {"strength": ((), 30.5, {"units": "MPa"}), "porosity": ((), -1.0, {"units": "%"})}
    xr.Dataset({**whole, "grain": ("x", [1.0, np.nan])}).to_netcdf(tmp_path / "map.nc", engine="h5netcdf")
    (tmp_path / "data.csv").write_text("T,t,gas,strength,field\n1000,10,N2,30.5,map.nc\n")
    status, _, error = oven.run("import", oven.file, tmp_path / "data.csv")
    assert status == 0, error
    (trial,) = oven.ledger.trials("oven")
    assert trial.outputs == {"strength": 30.5, "porosity": -1.0} and trial.field is not None
    (tmp_path / "map.nc").unlink()
    xr.Dataset({**whole, "strength": ((), 30.5, {"units": "GPa"})}).to_netcdf(tmp_path / "map.nc", engine="h5netcdf")
    assert (
        "'strength' of the field is in 'GPa', and the problem has it in 'MPa'"
        in oven.run("import", oven.file, tmp_path / "data.csv")[2]
    )


def peak(campaign: Bench, count: int, size: int) -> int:
    """Most bytes in use during an import of so many fields of so many numbers each."""
    for n in range(count):
        fields = xr.Dataset({"value": ((), float(n)), "map": ("x", np.full(size, float(n)))})
        fields.to_netcdf(campaign.file.with_name(f"{n}.nc"), engine="h5netcdf")
    rows = [{"x1": n, "x2": 1, "field": f"{n}.nc"} for n in range(count)]
    data = bars.table(campaign.file.with_name("data.csv"), rows)
    tracemalloc.start()
    status, _, error = campaign.run("import", campaign.file, data)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert status == 0, error
    return most


def test_of_many_fields_one_at_a_time_is_in_memory(tmp_path, monkeypatch):
    size = 1_000_000
    first, few, many = (bench(tmp_path / name, SMALL, monkeypatch) for name in ("first", "few", "many"))
    peak(first, 1, 1)  # loads modules, which take memory too
    assert peak(many, 8, size) < peak(few, 2, size) + 8 * size, "six more take less than the 8 MB of one"


def import_and_die(campaign: Bench, data: Path, at: str) -> None:
    os.environ["FIELDCRAFT_DIE_AT"] = at
    campaign.run("import", campaign.file, data)


@pytest.mark.parametrize(
    "at",
    [
        "field.rename.before#1",
        "field.rename.after#1",
        "field.rename.before#3",
        "field.rename.after#3",
        "ledger.adopt.before#1",
        "ledger.adopt.after#1",
    ],
)
def test_an_import_that_was_killed_is_done_by_the_same_command_once(bar, tmp_path, at):
    data = bars.three(tmp_path / "old")
    child = multiprocessing.get_context("fork").Process(target=import_and_die, args=(bar, data, at))
    child.start()
    child.join(60)
    assert child.exitcode == -9
    assert len(bar.ledger.trials("bar")) == (3 if at == "ledger.adopt.after#1" else 0), "all or none"
    assert bar.run("import", bar.file, data)[0] == 0
    trials, fields = bar.ledger.trials("bar"), fields_at(bar.settings.fields)
    assert len(trials) == 3 and stored(bar) == {trial.field.digest for trial in trials}
    for trial in trials:
        fields.verify(trial.field)
    fields.tidy()  # as every pass does
    assert examine(bar.settings) == []


def test_fields_of_an_import_that_was_killed_and_given_up_are_removed_by_a_repair(bar, tmp_path):
    data = bars.three(tmp_path / "old")
    child = multiprocessing.get_context("fork").Process(
        target=import_and_die, args=(bar, data, "ledger.adopt.before#1")
    )
    child.start()
    child.join(60)
    assert len(stored(bar)) == 3
    assert bar.run("repair", "--yes", "--reason", "given up")[0] == 0
    assert stored(bar) == set() and examine(bar.settings) == []
