"""Results from people, through commands, tables and the watched folder: judged, merged, corrected, never lost."""

import csv
import json
import math
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from bench import OVEN_CAMPAIGN, Bench, bench, ordered
from small import command

from fieldcraft.flows.files.tables import read_table
from fieldcraft.flows.results.inbox import collect
from fieldcraft.storage.records import Known, TrialState

COMPLETED, RUNNING = TrialState.COMPLETED, TrialState.RUNNING


@pytest.fixture(scope="module")
def _ordered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ordered(tmp_path_factory.mktemp("oven"))


@pytest.fixture
def oven(_ordered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Three orders are with the laboratory."""
    return bench(Path(shutil.copytree(_ordered, tmp_path / "oven")), OVEN_CAMPAIGN, monkeypatch)


def whole(trial: str, strength: float = 50.0) -> list[object]:
    return ["record", trial, "--value", f"strength={strength}", "--value", "porosity=-1"]


def filled(oven: Bench, **columns: list[str]) -> str:
    """The table of the first iteration with columns filled in."""
    rows = list(csv.reader((oven.orders / "batch-0000.csv").read_text().splitlines()))
    for name, cells in columns.items():
        index = next(i for i, title in enumerate(rows[0]) if title.partition(" ")[0] == name)
        for row, cell in zip(rows[1:], cells, strict=True):
            row[index] = cell
    return "".join(f"{','.join(row)}\n" for row in rows)


def test_a_whole_result_completes_its_trial_with_all_that_was_said(oven):
    words = ["--sd", "strength=0.5", "--cost", "2.5", "--seconds", "90", "--note", "a crack, repaired"]
    done = oven.json(*whole("oven-0001"), *words)
    assert done["waiting"] == []
    assert (done["recorded"][0]["verdict"], done["recorded"][0]["missing"]) == ("accepted", [])
    trial = oven.ledger.trial("oven-0001")
    assert (trial.state, trial.outputs) == (COMPLETED, {"strength": 50.0, "porosity": -1.0})
    assert (trial.spent, trial.seconds, trial.ran) == (2.5, 90.0, None)
    (result,) = oven.ledger.results("oven-0001")
    assert result.source == "person"
    assert result.details == {"sd": {"strength": 0.5}, "note": "a crack, repaired", "cost": 2.5, "seconds": 90.0}


def test_parts_are_kept_until_the_last_completes_the_result(oven):
    status, out, _ = oven.run("record", "oven-0001", "--value", "strength=50", "--sd", "strength=2", "--cost", "3")
    assert (status, out) == (0, "oven-0001: kept as a part; still missing: porosity.\n")
    assert oven.ledger.trial("oven-0001").state is RUNNING
    status, out, _ = oven.run("record", "oven-0001", "--value", "strength=50")
    assert (status, out) == (0, "oven-0001: nothing new; still missing: porosity.\n")
    status, out, _ = oven.run("correct", "oven-0001", "--value", "strength=51", "--reason", "misread")
    assert out.startswith("oven-0001: corrected to strength 51 MPa (result 2 replaces 1).")
    _, out, _ = oven.run("record", "oven-0001-1", "--value", "porosity=-0.5")
    assert out == "oven-0001: recorded, strength 51 MPa, porosity -0.5 %; it is COMPLETED.\n"
    *parts, last = oven.ledger.results("oven-0001")
    assert [part.verdict for part in parts] == ["partial", "partial"]
    assert last.details["parts"] == [part.id for part in parts]
    assert last.details["sd"] == {"strength": 2.0}
    assert oven.ledger.trial("oven-0001").spent == 3.0
    _, out, _ = oven.run("record", "oven-0001", "--value", "porosity=-0.5")
    assert "a duplicate" in out
    assert len(oven.ledger.results("oven-0001")) == 3


def test_a_second_result_is_a_duplicate_or_superseded_and_never_lost(oven):
    oven.run(*whole("oven-0001"))
    status, out, _ = oven.run(*whole("oven-0001"))
    assert (status, "a duplicate; it is COMPLETED" in out) == (0, True)
    status, out, _ = oven.run(*whole("oven-0001", 60.0))
    assert status == 0
    assert "kept as superseded; it is COMPLETED (strength 50 MPa, porosity -1 % counts; 'fieldcraft correct'" in out
    assert [result.verdict for result in oven.ledger.results("oven-0001")] == ["accepted", "superseded"]
    assert oven.ledger.trial("oven-0001").outputs == {"strength": 50.0, "porosity": -1.0}


def test_a_result_of_a_trial_given_up_is_kept_and_moves_nothing(oven):
    trial = oven.ledger.trial("oven-0001")
    oven.ledger.move(trial.id, TrialState.ABANDONED, trial.expect, "ana", "broke")
    _, out, _ = oven.run(*whole("oven-0001"))
    assert out == "oven-0001: kept as superseded; it is ABANDONED (no value counts).\n"
    assert oven.ledger.trial("oven-0001").state is TrialState.ABANDONED


def test_a_result_of_an_order_that_was_taken_back_counts_once_its_trial_is_sent_again(oven):
    assert oven.run("cancel", "oven-0001", "--reason", "spilt")[0] == oven.run("retry", "oven-0001")[0] == 0
    kept = "oven-0001: kept as superseded; it is"
    _, out, _ = oven.run(*whole("oven-0001"))
    assert f"{kept} APPROVED (no value counts; oven-0001 is still to be sent again: if it is to count, record" in out
    oven.make_pass()
    _, out, _ = oven.run(*whole("oven-0001-1"))
    assert (
        f"{kept} RUNNING (no value counts; it is of an earlier order: if it is to count, record it for oven-0001" in out
    )
    _, out, _ = oven.run(*whole("oven-0001"))
    assert out == "oven-0001: recorded, strength 50 MPa, porosity -1 %; it is COMPLETED.\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["oven-0101", "--value", "strength=1"], r"No trial 'oven-0101' here\. Did you mean 'oven-000\d'"),
        (["oven-0001", "--value", "strenght=1"], r"'strenght', which is no output\. Did you mean 'strength'"),
        (["oven-0001", "--value", "strength=nan"], r"strength is 'nan'\. Give a finite number"),
        (["oven-0001", "--value", "strength=1,5"], r"strength is '1,5', no number.*decimal point"),
        (["oven-0001", "--value", "strength"], "is not of the form NAME=VALUE"),
        (["oven-0001", "--value", "strength=1", "--value", "strength=2"], "gives 'strength' twice"),
        (["oven-0001", "--value", "strength=1", "--sd", "strength=-1"], "standard deviation of strength is -1"),
        (["oven-0001", "--value", "strength=1", "--cost", "-1"], "--cost: .-1. is no number from 0 to"),
        (["oven-0001", "--value", "strength=1", "--ran", "t=5.5"], r"t is '5\.5'\. Give a whole number"),
        (["oven-0001", "--value", "strength=1", "--ran", "gas=He"], "gas has no level 'He'"),
        (["oven-0001", "--value", "strength=1", "--ran", "p=1"], "'p' is no variable"),
        (["oven-0001"], "no value was given. Known outputs: strength .MPa., porosity"),
        (["oven-0001", "--value", "strength=1", "--note", "\x1b[2J"], "control character"),
        (["oven-0001", "--field", "nothing.nc"], "nothing.nc: there is no such file"),
        (
            ["oven-0001-7", "--value", "strength=1"],
            "'oven-0001-7' is no order of oven-0001 .the last is oven-0001-1",
        ),
        ([], "record takes either TRIAL"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_remedy_and_nothing_is_stored(oven, words, message):
    status, out, error = oven.run("record", *words)
    assert (status, out) == (2, "")
    assert re.search(message, error), error
    assert error.count("\n") == 1
    assert oven.ledger.campaign_results("oven") == ()


def test_a_trial_that_was_never_sent_takes_no_result(oven):
    for number in (1, 2, 3):
        oven.run(*whole(f"oven-{number:04d}"))
    assert oven.make_pass().proposed == 2
    status, _, error = oven.run(*whole("oven-0004"))
    assert status == 2
    assert "oven-0004 was never sent, so it can have no result. It is PROPOSED" in error
    assert oven.run("reject", "--batch", "oven:1", "--reason", "too dear")[0] == 0
    error = oven.run(*whole("oven-0004"))[2]
    assert "never sent, so it can have no result. It is REJECTED, which is final: import the" in error
    for words in (("retract", "oven-0004"), ("correct", "oven-0004", "--value", "strength=3")):
        status, _, error = oven.run(*words, "--reason", "why")
        assert status == 2 and "It was never sent, so there is nothing to correct or take back." in error


def test_a_result_far_from_all_others_is_kept_and_asked_about(oven):
    design = oven.ledger.trial("oven-0001").design
    strengths = (30.0, 33.0, 38.0, 41.0)
    known = [Known(design={**design, "T": 1000.0 + s}, outputs={"strength": s, "porosity": -1.0}) for s in strengths]
    oven.ledger.adopt("oven", known, "0" * 64, "import", "ana")
    far = ("--value", "strength=382", "--value", "porosity=-1")
    assert "warning" not in oven.run("record", "oven-0001", *far)[1]  # four results tell little
    oven.run("correct", "oven-0001", "--value", "strength=38.2", "--reason", "a slip")
    said = oven.run("record", "oven-0002", *far)[1]
    assert "oven-0002: recorded, strength 382 MPa" in said
    assert (
        "warning: oven-0002: strength 382 MPa is far from the 5 other results, 30 to 41 MPa. It is kept; if it is a "
        "slip, 'fieldcraft correct oven-0002' changes it." in said
    )
    assert "porosity" not in said.split("warning")[1]  # all results of it are equal
    assert "warning" not in oven.run("correct", "oven-0002", "--value", "strength=90", "--reason", "a slip")[1]


def test_what_was_really_run_is_stored_as_it_is_even_outside_the_space(oven):
    design = oven.ledger.trial("oven-0001").design
    status, out, _ = oven.run(*whole("oven-0001"), "--ran", "T=1620.5", "--ran", "gas=Ar")
    assert status == 0
    assert "warning: oven-0001: what was run lies outside the campaign's space" in out
    trial = oven.ledger.trial("oven-0001")
    assert trial.ran == {**design, "T": 1620.5, "gas": "Ar"} == trial.actual
    oven.run(*whole("oven-0002"), "--ran", f"T={float(oven.ledger.trial('oven-0002').design['T']):.12g}")
    assert oven.ledger.trial("oven-0002").ran is None  # the same, as a spreadsheet rounds it


def field(folder: Path, **more: float) -> xr.Dataset:
    grid = xr.DataArray(np.arange(6.0).reshape(2, 3), dims=("x", "y"), attrs={"units": "K", "scale": np.float64(2)})
    return xr.Dataset({"map": grid, **{name: ((), value) for name, value in more.items()}}, attrs={"made": "by hand"})


@pytest.mark.parametrize("engine", ["scipy", "h5netcdf", "zarr"])  # netCDF 3, netCDF 4, zarr
def test_a_field_file_is_stored_and_read_for_its_outputs(oven, tmp_path, engine):
    given, file = field(tmp_path, strength=41.5, porosity=-0.25), tmp_path / f"field.{engine}"
    if engine == "zarr":
        given.to_zarr(file, consolidated=False)
    else:
        given.to_netcdf(file, engine=engine)
    assert "recorded, strength 41.5 MPa" in oven.run("record", "oven-0001", "--field", file)[1]
    stored = oven.site.fields.read(oven.ledger.trial("oven-0001").field)
    np.testing.assert_array_equal(stored["map"], given["map"])
    assert (stored["map"].attrs, stored.attrs) == ({"units": "K", "scale": 2.0}, {"made": "by hand"})


def test_a_field_without_the_outputs_needs_the_values_beside_it(oven, tmp_path):
    field(tmp_path).to_netcdf(tmp_path / "map.nc", engine="scipy")
    status, _, error = oven.run("record", "oven-0001", "--field", tmp_path / "map.nc")
    assert status == 2
    assert "cannot read its outputs from the field: ValueError: The simulation gave no 'strength'" in error
    assert "recorded" in oven.run(*whole("oven-0001"), "--field", tmp_path / "map.nc")[1]
    assert oven.ledger.trial("oven-0001").field is not None


def test_a_field_in_another_unit_than_the_problems_is_refused(oven, tmp_path):
    given = field(tmp_path, strength=41.5, porosity=-0.25)
    given["strength"].attrs["units"] = "GPa"
    given.to_netcdf(tmp_path / "map.nc", engine="scipy")
    for values in ((), ("--value", "strength=41.5", "--value", "porosity=-0.25")):
        status, _, error = oven.run("record", "oven-0001", "--field", tmp_path / "map.nc", *values)
        assert status == 2
        assert "oven-0001: 'strength' of the field is in 'GPa', and the problem has it in 'MPa'" in error
    assert oven.ledger.trial("oven-0001").state is RUNNING


def test_a_file_that_is_no_field_is_refused(oven, tmp_path):
    (tmp_path / "map.nc").write_text("x,y\n1,2\n")
    status, _, error = oven.run("record", "oven-0001", "--field", tmp_path / "map.nc")
    assert (status, "map.nc: cannot be read as a field" in error) == (2, True)


def test_the_table_of_a_batch_is_recorded_and_names_what_is_still_to_come(oven, tmp_path):
    text = filled(
        oven, strength=["50", "51", ""], porosity=["-1", "", ""], gas=["Ar", "Ar", "Ar"], notes=["ok", "", ""]
    )
    (tmp_path / "mine.csv").write_text(text)
    done = oven.json("record", "--csv", tmp_path / "mine.csv")
    assert [one["verdict"] for one in done["recorded"]] == ["accepted", "partial"]
    assert done["recorded"][1]["missing"] == ["porosity"]
    assert done["waiting"] == ["oven-0002", "oven-0003"]
    again = oven.json("record", "--csv", tmp_path / "mine.csv", "--campaign", "oven")
    assert [one["verdict"] for one in again["recorded"]] == ["duplicate", "duplicate"]
    assert len(oven.ledger.campaign_results("oven")) == 2
    assert oven.ledger.trial("oven-0001").actual["gas"] == "Ar"


@pytest.mark.parametrize(
    ("separator", "end", "before"),
    [(";", "\r\n", ""), ("\t", "\r\n", ""), (",", "\r", ""), (";", "\r\n", "sep=;\r\n"), (";", "\n", '"sep=;";;;\n')],
)
def test_tables_of_other_spreadsheets_are_read(oven, tmp_path, separator, end, before):
    text = filled(oven, strength=["50", "", ""], porosity=["-1", "", ""]).replace(",", separator).replace("\n", end)
    (tmp_path / "mine.csv").write_bytes(b"\xef\xbb\xbf" + (before + text).encode())
    assert [one["verdict"] for one in oven.json("record", "--csv", tmp_path / "mine.csv")["recorded"]] == ["accepted"]


def test_json_carries_everything_that_the_command_takes(oven, tmp_path):
    result = {"key": "oven-0002-1", "values": {"strength": 7, "porosity": 0}, "units": {"strength": "MPa"}}
    result |= {"sd": {"strength": 0.1}, "ran": {"t": 9}, "cost": 2, "seconds": 3, "notes": "ok"}
    (tmp_path / "mine.json").write_text(json.dumps([result]))
    assert "recorded" in oven.run("record", "--csv", tmp_path / "mine.json")[1]
    trial = oven.ledger.trial("oven-0002")
    assert (trial.actual["t"], trial.spent, trial.seconds) == (9, 2.0, 3.0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("strength [MPa]", "strength [GPa]", "the header gives strength in 'GPa', and it is in 'MPa' here"),
        ("T [K]", "T [C]", "the header gives T in 'C'"),
        ("50,", "fifty,", "line 2: strength is 'fifty', no number"),
        ("oven-0001-1", "oven-0002-1", "'oven-0002-1' is no order of oven-0001"),
        ("key,trial", "sample,name", "has neither a column 'key' nor 'trial'"),
        (",ok", ",ok,more", "line 2 has 9 cells and the header 8"),
        ("50,-1", ",", "no result is filled in"),
        ("porosity [%]", "strength", "column 'strength' stands there twice"),
    ],
)
def test_a_table_with_a_mistake_is_refused_as_a_whole(oven, tmp_path, old, new, message):
    text = filled(oven, strength=["50", "", ""], porosity=["-1", "", ""], notes=["ok", "", ""])
    assert old in text
    oven.drop("mine.csv", text.replace(old, new))
    collect(oven.site, oven.site.campaign.dispatcher)
    assert oven.ledger.campaign_results("oven") == ()
    why = (oven.results / "refused" / "mine.csv.why.txt").read_text()
    assert message in why
    assert "mend it and drop it again" in why
    assert (oven.results / "refused" / "mine.csv").read_text() == text.replace(old, new)


def test_a_table_with_one_bad_line_records_none_of_its_good_ones(oven):
    text = filled(oven, strength=["50", "51", "52"], porosity=["-1", "-1", "-1"])
    oven.drop("mine.csv", text.replace("oven-0003-1", "oven-0003-9"))
    assert collect(oven.site, oven.site.campaign.dispatcher) == 0
    assert oven.ledger.campaign_results("oven") == ()
    assert "line 4: 'oven-0003-9' is no order" in (oven.results / "refused" / "mine.csv.why.txt").read_text()


def test_a_pass_takes_what_was_dropped_and_files_the_orders(oven):
    oven.drop("mine.csv", filled(oven, strength=["50", "51", ""], porosity=["-1", "-1", ""]))
    oven.drop("notes.txt", "not a result")
    assert oven.make_pass().harvested == 2
    assert (oven.results / "taken" / "mine.csv.said.txt").read_text() == (
        "oven-0001: recorded, strength 50 MPa, porosity -1 %; it is COMPLETED.\n"
        "oven-0002: recorded, strength 51 MPa, porosity -1 %; it is COMPLETED.\n"
        "Still to come: oven-0003.\n"
    )
    assert sorted(path.name for path in (oven.orders / "open").iterdir()) == ["oven-0003-1.json"]
    assert sorted(path.name for path in (oven.orders / "done").glob("*.json")) == [
        "oven-0001-1.json",
        "oven-0002-1.json",
    ]
    assert [row.cells["trial"] for row in read_table(oven.orders / "batch-0000.csv").rows] == ["oven-0003"]
    assert (oven.results / "notes.txt").exists()


def test_a_file_that_is_being_written_is_left_alone(oven):
    text = filled(oven, strength=["50", "", ""], porosity=["-1", "", ""])
    path = oven.drop("mine.csv", text[: len(text) // 2], age_s=0.0)
    assert collect(oven.site, oven.site.campaign.dispatcher) == 0
    assert path.exists()
    oven.drop("mine.csv", text)
    assert collect(oven.site, oven.site.campaign.dispatcher) == 1


def test_a_field_that_is_being_copied_is_waited_for(oven, tmp_path):
    copied = oven.results / "map.zarr"
    field(tmp_path, strength=1.0, porosity=0.0).to_zarr(copied, consolidated=False)
    oven.drop("mine.json", json.dumps({"trial": "oven-0001", "field": "map.zarr"}))
    (chunk,) = [part for part in (copied / "strength").rglob("*") if part.is_file() and part.name != "zarr.json"]
    whole = chunk.read_bytes()
    chunk.write_bytes(b"")
    assert collect(oven.site, oven.site.campaign.dispatcher) == 0
    assert not (oven.results / "refused").exists()
    chunk.write_bytes(whole)
    oven.drop("mine.json", json.dumps({"trial": "oven-0001", "field": "map.zarr"}))
    assert collect(oven.site, oven.site.campaign.dispatcher) == 1
    assert oven.ledger.trial("oven-0001").outputs == {"strength": 1.0, "porosity": 0.0}


def test_a_second_file_of_the_same_name_gets_a_name_of_its_own(oven):
    for n, cells in enumerate((["50", "", ""], ["50", "51", ""]), start=1):
        oven.drop("mine.csv", filled(oven, strength=cells, porosity=[cell and "-1" for cell in cells]))
        assert collect(oven.site, oven.site.campaign.dispatcher) == 1, n
        if n == 1:  # the laboratory goes on with its own copy of the table, of all three
            taken = (oven.results / "taken" / "mine.csv").read_text()
            (oven.orders / "batch-0000.csv").write_text(taken)
    assert sorted(path.name for path in (oven.results / "taken").glob("*.csv")) == ["mine-2.csv", "mine.csv"]
    assert "a duplicate" in (oven.results / "taken" / "mine-2.csv.said.txt").read_text()


def test_a_field_outside_the_watched_folder_is_not_read(oven, tmp_path):
    field(tmp_path, strength=1.0, porosity=0.0).to_netcdf(tmp_path / "secret.nc", engine="scipy")
    result = {"trial": "oven-0001", "field": "../../../../../secret.nc"}
    oven.drop("mine.json", json.dumps(result))
    assert collect(oven.site, oven.site.campaign.dispatcher) == 0
    assert "lies outside" in (oven.results / "refused" / "mine.json.why.txt").read_text()
    field(tmp_path, strength=1.0, porosity=0.0).to_netcdf(oven.results / "map.nc", engine="scipy")
    oven.drop("mine.json", json.dumps({**result, "field": "map.nc"}))
    assert collect(oven.site, oven.site.campaign.dispatcher) == 1


def test_the_result_of_an_order_that_is_only_being_sent_waits_for_the_next_pass(oven):
    held = oven.ledger.trial("oven-0001")
    held = oven.ledger.move(held.id, TrialState.FAILED, held.expect, "ana", "", failure="transient")
    again = oven.ledger.move(held.id, TrialState.APPROVED, held.expect, "ana", "again")
    staged = oven.ledger.move(again.id, TrialState.STAGED, again.expect, "ana", "claimed", code=oven.code)
    assert "oven-0001 is STAGED" in oven.run(*whole("oven-0001"))[2]
    result = {"trial": "oven-0001", "values": {"strength": 1, "porosity": 0}}
    path = oven.drop("mine.json", json.dumps(result))
    assert collect(oven.site, oven.site.campaign.dispatcher) == 0
    assert path.exists()
    oven.ledger.move(staged.id, RUNNING, staged.expect, "ana", "sent", handle={"key": "oven-0001-2"})
    assert collect(oven.site, oven.site.campaign.dispatcher) == 1


def collect_and_die(site: object, at: str) -> None:
    os.environ["FIELDCRAFT_DIE_AT"] = at
    collect(site, site.campaign.dispatcher)  # type: ignore[attr-defined, arg-type]


@pytest.mark.parametrize(
    "at",
    [
        "ledger.record.before#1",
        "ledger.record.after#1",
        "ledger.record.before#2",
        "ledger.record.after#2",
        "inbox.moved.before#1",
        "inbox.moved.after#1",
    ],
)
def test_a_pass_killed_while_it_takes_a_table_loses_and_doubles_nothing(oven, at):
    oven.run("record", "oven-0002", "--value", "porosity=-3")
    oven.drop("mine.csv", filled(oven, strength=["50", "51", ""], porosity=["-1", "", ""]))
    child = multiprocessing.get_context("fork").Process(target=collect_and_die, args=(oven.site, at))
    child.start()
    child.join(60)
    assert child.exitcode == -9
    collect(oven.site, oven.site.campaign.dispatcher)
    assert oven.ledger.trial("oven-0001").outputs == {"strength": 50.0, "porosity": -1.0}
    assert oven.ledger.trial("oven-0002").outputs == {"strength": 51.0, "porosity": -3.0}
    assert len(oven.ledger.campaign_results("oven")) == 3
    assert sorted(path.name for path in (oven.orders / "open").iterdir()) == ["oven-0003-1.json"]
    assert [path.name for path in (oven.results / "taken").glob("*.csv")] == ["mine.csv"]
    assert oven.ledger.check() == []


def test_two_people_recording_at_once_lose_nothing(oven):
    def record_one(strength: float) -> tuple[int, str]:
        done = command(*whole("oven-0001", strength), FIELDCRAFT_HOME=str(oven.settings.home))
        return done.returncode, done.stderr

    with ThreadPoolExecutor(4) as people:
        assert list(people.map(record_one, [40.0, 41.0, 42.0, 43.0])) == [(0, "")] * 4
    results = oven.ledger.results("oven-0001")
    assert sorted(result.verdict for result in results) == ["accepted", "superseded", "superseded", "superseded"]
    assert sorted(result.outputs["strength"] for result in results) == [40.0, 41.0, 42.0, 43.0]


def test_a_correction_of_what_was_run_says_it(oven):
    oven.run(*whole("oven-0001"), "--ran", "t=7")
    status, out, _ = oven.run("correct", "oven-0001", "--ran", "t=8", "--ran", "T=1000.25", "--reason", "misread")
    assert status == 0
    assert " porosity -1 %; run at T 1000.25, t 8 (result 2 replaces 1)." in out
    assert oven.ledger.trial("oven-0001").actual["t"] == 8


def test_a_correction_keeps_what_it_does_not_name(oven):
    oven.run(*whole("oven-0001"), "--ran", "t=7")
    status, out, _ = oven.run("correct", "oven-0001", "--value", "strength=55", "--reason", "scale was off")
    assert status == 0
    assert out.startswith("oven-0001: corrected to strength 55 MPa, porosity -1 % (result ")
    assert "No model had seen the old value" in out
    trial = oven.ledger.trial("oven-0001")
    assert (trial.outputs, trial.actual["t"]) == ({"strength": 55.0, "porosity": -1.0}, 7)
    old, new = oven.ledger.results("oven-0001")
    assert (old.outputs["strength"], new.replaces) == (50.0, old.id)


def test_a_retracted_result_counts_for_nothing_until_it_is_given_again(oven):
    oven.run(*whole("oven-0001"))
    assert "retracted; no model learns" in oven.run("retract", "oven-0001", "--reason", "spilt")[1]
    assert oven.ledger.trial("oven-0001").outputs is None
    assert "so there is nothing to correct" in oven.run("retract", "oven-0001", "--reason", "spilt")[2]
    for _ in range(2):
        _, out, _ = oven.run("record", "oven-0001", "--value", "strength=1")
        assert out.startswith("oven-0001: kept as superseded; it is COMPLETED (no value counts; 'fieldcraft correct'")
    words = ["correct", "oven-0001", "--reason", "found it", "--value"]
    assert "give all its outputs again; missing: porosity" in oven.run(*words, "strength=1")[2]
    assert oven.run(*words, "strength=1", "--value", "porosity=2")[0] == 0
    assert oven.ledger.trial("oven-0001").outputs == {"strength": 1.0, "porosity": 2.0}
    assert oven.ledger.check() == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["correct", "oven-0001", "--value", "strength=1", "--reason", "x"], "oven-0001 is RUNNING: it has no result"),
        (["retract", "oven-0001", "--reason", "x"], "oven-0001 is RUNNING: it has no result that counts"),
        (["correct", "oven-0001", "--reason", "x"], "nothing to correct"),
        (["correct", "oven-0001", "--sd", "strength=1", "--reason", "x"], "oven-0001 is RUNNING: it has no result"),
        (["correct", "oven-0001", "--sd", "strengh=1", "--reason", "x"], "Did you mean 'strength'?"),
        (["correct", "oven-0009", "--value", "strength=1", "--reason", "x"], "No trial 'oven-0009' here"),
        (["retract", "oven-0001"], "the following arguments are required: --reason"),
    ],
)
def test_a_correction_that_makes_no_sense_is_refused(oven, words, message):
    status, _, error = oven.run(*words)
    assert (status, message in error) == (2, True), error


def test_a_viewer_may_not_record(oven, tmp_path, monkeypatch):
    (tmp_path / "people.yaml").write_text("users: {}\n")
    (tmp_path / "people.yaml").chmod(0o600)
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(tmp_path / "people.yaml"))
    for words in (
        whole("oven-0001"),
        ["correct", "oven-0001", "--reason", "x"],
        ["retract", "oven-0001", "--reason", "x"],
    ):
        status, _, error = oven.run(*words)
        assert (status, "may not operate" in error) == (2, True), error
    assert oven.ledger.campaign_results("oven") == ()


@pytest.mark.parametrize("named", ['{"trial": 3}', '[{"key": ["oven-0001-1"]}]', '{"trial": {"trial": 1}}'])
def test_a_trial_that_is_named_by_no_text_is_one_clear_error(oven, tmp_path, named):
    (tmp_path / "mine.json").write_text(named)
    status, _, error = oven.run("record", "--csv", tmp_path / "mine.json")
    assert (status, error.count("\n"), "Input should be a valid string" in error) == (2, 1, True), error


def test_a_table_is_exported_as_utf_8_whatever_the_locale(oven, tmp_path):
    assert oven.run(*whole("oven-0001"), "--note", "850 °C")[0] == 0
    words = ["export", "oven", "--csv", str(tmp_path / "oven.csv"), "--home", str(oven.settings.home)]
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-m", "fieldcraft.flows.cli", *words], env=plain, check=True)
    assert "850 °C" in (tmp_path / "oven.csv").read_text(encoding="utf-8")


def test_no_nan_can_be_handed_in_as_json(oven):
    oven.drop("mine.json", '{"trial": "oven-0001", "values": {"strength": NaN, "porosity": 0}}')
    assert math.isnan(json.loads((oven.results / "mine.json").read_text())["values"]["strength"])
    collect(oven.site, oven.site.campaign.dispatcher)
    assert "finite number" in (oven.results / "refused" / "mine.json.why.txt").read_text()
