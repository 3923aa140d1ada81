"""Folders of orders in passes: foreign data, files saved again, folders of another store, webhooks out of reach."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr
import zarr
from bench import OVEN, OVEN_CAMPAIGN, Bench, bench, ordered
from scipy.io import netcdf_file
from webhooks import Webhook

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.machinery.progress import listening
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire
from fieldcraft.storage.records import TrialState

URL_OF_NOBODY = "http://127.0.0.1:1/orders"
GOOD = "trial,strength [MPa],porosity [%]\noven-0001,30,-1\n"


@pytest.fixture(scope="module")
def _ordered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ordered(tmp_path_factory.mktemp("oven"))


@pytest.fixture
def oven(_ordered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Three orders are with the laboratory."""
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    return bench(Path(shutil.copytree(_ordered, tmp_path / "oven")), OVEN_CAMPAIGN, monkeypatch)


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    server = Webhook()
    yield server
    server.close()


def state(oven: Bench, number: int = 1) -> TrialState:
    return oven.ledger.trial(f"oven-{number:04d}").state


def why(oven: Bench) -> str:
    (file,) = (oven.results / "refused").glob("*.why.txt")
    return file.read_text()


def one(**more: object) -> str:
    return json.dumps([{"trial": "oven-0001", "values": {"strength": 1}, **more}])


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("nul.json", one(field="a\0b"), "null byte"),
        ("nul.csv", "trial,strength [MPa],field\noven-0001,1,a\0b\n", "null byte"),
        ("surrogate.json", one(field="\ud800"), "surrogates"),
        ("trial.json", one(trial="\ud800"), "No trial"),
        ("long.json", one(field="a" * 5000), "there is no such file"),
        ("digits.json", '[{"trial": "oven-0001", "values": {"strength": ' + "1" * 5000 + "}}]", "is no JSON"),
        ("key.json", one(key="oven-0001-" + "1" * 5000), "is no order of oven-0001"),
        (
            "units.json",
            one(units={"strenght": "kPa"}),
            "units names 'strenght', no variable and no output. Did you mean 'strength'",
        ),
        ("truth.json", one(values={"strength": True}), "values.strength: true and false"),
        ("ran.json", one(ran={"t": True}), "ran.t: true and false"),
        ("twice.json", '{"trial": "oven-0001", "values": {"strength": 1, "strength": 2}}', "gives 'strength' twice"),
        ("slip.json", one(values={"strength": "1_5"}), "written without an underscore"),
        ("slip.csv", "trial,strength [MPa]\noven-0001,1_5\n", "without the underscore"),
        ("line.csv", 'trial,"strength\n[MPa]","odd\nname [K"\noven-0001,x,1\n', "no number"),
        ("dear.json", one(cost=1.7e308), "cost: it is out of reach: give a number up to 1e+100 (given: 1.7e+308)"),
        ("slow.json", one(seconds=1.7e308), "seconds: it is out of reach: give a number up to 1e+100"),
        ("x" * 245 + ".csv", "trial,strength [MPa]\noven-0001,x\n", "no number"),
        ("a\nb.csv", GOOD, "the file's name"),
    ],
)
def test_foreign_data_is_refused_by_file_and_the_pass_goes_on(oven, name, text, reason):
    oven.drop(name, text)
    oven.drop("zz.csv", GOOD)
    assert oven.make_pass().harvested == 1
    assert reason in why(oven)
    assert "Nothing of this file was recorded" in why(oven)
    assert [path.name for path in oven.results.glob("taken/*.csv")] == ["zz.csv"]
    assert len(oven.ledger.campaign_results("oven")) == 1


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """What whoever makes passes may read, and whoever drops results may not."""
    (tmp_path / "secret").write_bytes(b"secret!!")
    return tmp_path / "secret"


def linked_chunk(field: Path, secret: Path) -> None:
    raw = {"u": {"compressors": None}}
    xr.Dataset({"u": ("x", np.ones(8, "u1"))}).to_zarr(field, consolidated=False, encoding=raw)
    (chunk,) = [part for part in field.rglob("*") if part.name == "0" and part.is_file()]
    chunk.unlink()
    chunk.symlink_to(secret)


def values_elsewhere(field: Path, secret: Path) -> None:
    with h5py.File(field, "w") as made:
        made.create_dataset("u", shape=(8,), dtype="u1", external=[(str(secret), 0, 8)])


def link_elsewhere(field: Path, secret: Path) -> None:
    with h5py.File(secret, "w") as other:
        other["u"] = np.zeros(8)
    with h5py.File(field, "w") as made:
        made["u"] = h5py.ExternalLink(str(secret), "u")


def view_of_another(field: Path, secret: Path) -> None:
    with h5py.File(secret, "w") as other:
        other["u"] = np.zeros(8)
    layout = h5py.VirtualLayout(shape=(8,), dtype="f8")
    layout[:] = h5py.VirtualSource(str(secret), "u", shape=(8,))
    with h5py.File(field, "w") as made:
        made.create_virtual_dataset("u", layout)


@pytest.mark.parametrize("make", [linked_chunk, values_elsewhere, link_elsewhere, view_of_another])
def test_a_field_that_reads_from_other_files_is_refused(oven, secret, make):
    make(oven.results / "map.nc", secret)
    oven.drop("m.json", one(field="map.nc", values={"strength": 1, "porosity": -1}))
    oven.make_pass()
    assert "is a link, or lies in another file" in why(oven)
    assert oven.ledger.trial("oven-0001").field is None


def test_a_field_that_would_fill_the_memory_is_refused_before_it_is_read(oven):
    group = zarr.open_group(str(oven.results / "map.zarr"), mode="w")
    group.create_array("x", shape=(10**12,), chunks=(10**6,), dtype="f8", dimension_names=("x",))  # its own coordinate
    group.create_array("u", shape=(1,), dtype="f8", dimension_names=("y",))
    oven.drop("m.json", one(field="map.zarr"))
    oven.make_pass()
    assert "takes 8000008000016 bytes of memory" in why(oven)


def test_a_named_pipe_is_not_waited_for(oven):
    os.mkfifo(oven.results / "map.nc")
    oven.drop("m.json", one(field="map.nc"))
    oven.make_pass()
    assert "there is no such file" in why(oven)


def test_a_table_of_any_size_is_refused_before_it_is_read_whole(oven):
    with oven.drop("a.csv", GOOD).open("ab") as file:
        file.truncate(10**13)
    os.utime(file.name, (1, 1))
    oven.make_pass()
    assert "too large for a table" in why(oven)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("a.xlsx", b"PK\x03\x04"),
        ("a.XLS", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
        ("a.ods", b"PK\x03\x04"),
        ("a.csv", b"PK\x03\x04"),
    ],
)
def test_a_workbook_is_refused_by_name_and_its_lock_is_left_alone(oven, name, head):
    lock = oven.drop(f"~${name}", "")
    workbook = oven.drop(name, "")
    workbook.write_bytes(head + bytes(100))
    os.utime(workbook, (1, 1))
    assert oven.make_pass().harvested == 0
    assert "Save its sheet as CSV (UTF-8)" in why(oven)
    assert lock.exists()


def test_a_table_of_tabs_is_taken(oven):
    oven.drop("a.tsv", GOOD.replace(",", "\t"))
    assert oven.make_pass().harvested == 1


def test_a_file_whose_name_is_no_text_is_refused(oven):
    path = os.fsencode(oven.results) + b"/\xff.csv"
    Path(os.fsdecode(path)).write_text(GOOD)
    os.utime(path, (1, 1))
    assert oven.make_pass().harvested == 0
    assert "the file's name" in why(oven)


@pytest.mark.parametrize("at", range(4, 40, 3))
def test_a_damaged_netcdf_is_refused_or_read_and_never_ends_a_pass(oven, at):
    file = oven.results / "map.nc"
    xr.Dataset({"T": (("x", "y"), np.ones((4, 5)))}, {"x": np.arange(4)}).to_netcdf(file, engine="scipy")
    raw = bytearray(file.read_bytes())
    raw[at] = 255 - raw[at]
    file.write_bytes(bytes(raw))
    oven.drop("m.json", one(field="map.nc"))
    oven.make_pass()
    assert len(list(oven.results.glob("*/m.json"))) == 1


def test_times_stay_the_numbers_that_a_file_holds(oven, tmp_path):
    with netcdf_file(tmp_path / "t.nc", "w") as made:
        made.createDimension("x", 2)
        for name, values in (("t", [0.0, 1.0]), ("strength", [3.0, 4.0])):
            made.createVariable(name, "d", ("x",))[:] = values
        made.variables["t"].units = "days since 2000-01-01"
    words = ["--value", "strength=1", "--value", "porosity=-1", "--field", tmp_path / "t.nc"]
    assert oven.run("record", "oven-0001", *words)[0] == 0
    stored = oven.site.fields.read(oven.ledger.trial("oven-0001").field)
    assert stored["t"].values.tolist() == [0.0, 1.0]
    assert stored["t"].attrs["units"] == "days since 2000-01-01"


def test_a_field_that_cannot_be_stored_refuses_its_file_before_anything_of_it_is_recorded(oven):
    xr.Dataset({"m": (("x",), np.array(["a", "bb"]))}).to_netcdf(oven.results / "bad.nc", engine="scipy")
    oven.drop("m.csv", "trial,strength [MPa],porosity [%],field\noven-0001,30,-1,\noven-0002,30,-1,bad.nc\n")
    assert oven.make_pass().harvested == 0
    assert "fields hold numbers only" in why(oven)
    assert oven.ledger.campaign_results("oven") == ()


def test_a_file_saved_again_while_it_is_recorded_is_read_again(oven):
    path = oven.drop("monday.csv", GOOD)

    def save_again(event: str, details: object) -> None:
        if event == "completed" and path.read_text() == GOOD:
            oven.drop("monday.csv", f"{GOOD}oven-0002,31,-1\n", age_s=10)

    with listening(save_again):
        assert oven.make_pass().harvested == 1
        assert path.exists()
        assert oven.make_pass().harvested == 1
    assert state(oven, 2) is TrialState.COMPLETED
    assert "a duplicate" in (oven.results / "taken/monday.csv.said.txt").read_text()


def test_a_file_taken_away_while_it_is_recorded_ends_no_pass(oven):
    path = oven.drop("monday.csv", GOOD)
    with listening(lambda event, details: path.unlink(missing_ok=True)):
        assert oven.make_pass().harvested == 1
    assert not (oven.results / "taken").exists()


def test_a_link_in_the_watched_folder_is_not_followed(oven, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("trial,strength\nTOKEN=hunter2,1\n")
    os.utime(secret, (1, 1))
    (oven.results / "x.csv").symlink_to(secret)
    oven.make_pass()
    assert [path.name for path in oven.results.iterdir()] == ["x.csv"]


def test_a_word_that_is_no_text_is_no_trial(oven):
    status, _, error = oven.run("record", "oven\udcff", "--value", "strength=1")
    assert (status, error.count("\n")) == (2, 1)
    assert r"No trial 'oven\udcff' here" in error


def test_nothing_is_sent_twice_when_a_pass_sees_another_folder_of_orders(tmp_path, monkeypatch, webhook):
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    monkeypatch.setenv("FIELDCRAFT_LAB_URL", webhook.url)
    webhook.answers = [500]
    made = bench(tmp_path, OVEN_CAMPAIGN, monkeypatch)
    made.make_pass()
    made.run("approve", "--batch", "oven:0")
    made.make_pass()
    assert state(made) is TrialState.HELD
    sent = len(webhook.got)
    monkeypatch.setenv("FIELDCRAFT_LAB", str(tmp_path / "elsewhere"))
    with pytest.raises(InputError, match=f"elsewhere/oven: holds no campaign.json.*lie in {made.orders}.*Mount"):
        made.make_pass()
    monkeypatch.delenv("FIELDCRAFT_LAB")
    (made.orders / "sending" / "oven-0001-1.json").unlink()  # and where it is gone, a person says so
    made.make_pass()
    assert state(made) is TrialState.HELD
    assert len(webhook.got) == sent


def test_an_order_that_nobody_approved_stops_the_pass_and_one_of_no_trial_is_left_alone(oven):
    file = oven.orders / "open" / "oven-0001-1.json"
    order = json.loads(file.read_text())
    (oven.orders / "open" / "kiln-0001-1.json").write_text(
        json.dumps({**order, "key": "kiln-0001-1", "trial": "kiln-0001"})
    )
    oven.make_pass()
    assert (oven.orders / "open" / "kiln-0001-1.json").exists()
    file.write_text(json.dumps({**order, "digest": "0" * 64}))
    with pytest.raises(InputError, match="order oven-0001-1 is for a design that nobody approved for oven-0001"):
        oven.make_pass()
    assert state(oven) is TrialState.RUNNING


@pytest.mark.parametrize(("word", "becomes"), [("cancel", TrialState.FAILED), ("abandon", TrialState.ABANDONED)])
def test_a_trial_is_stopped_though_the_laboratory_cannot_be_told(oven, monkeypatch, webhook, word, becomes):
    monkeypatch.setenv("FIELDCRAFT_LAB_URL", URL_OF_NOBODY)
    status, out, error = oven.run(word, "oven-0001", "--reason", "spilt")
    assert (status, out) == (2, "")
    assert f"oven-0001 is {becomes} now, but whoever does it could not be told (The webhook at 127.0.0.1" in error
    assert "the next pass tries again" in error
    assert state(oven) is becomes
    assert not (oven.orders / "open" / "oven-0001-1.json").exists()
    assert "oven-0001" not in (oven.orders / "batch-0000.csv").read_text()
    monkeypatch.setenv("FIELDCRAFT_LAB_URL", webhook.url)
    oven.make_pass()
    assert [body for *_, body in webhook.got] == [{"event": "cancelled", "key": "oven-0001-1", "trial": "oven-0001"}]
    assert (oven.orders / "cancelled" / "oven-0001-1.json").exists()


@pytest.mark.parametrize("name", ["mine.json", "oven-0001-1.json"])
def test_a_file_among_the_orders_that_is_none_is_named_and_ends_neither_a_pass_nor_a_command_otherwise(oven, name):
    stray = oven.orders / "open" / name
    for text in ("", "[1]", one(key="oven-0001-1")[1:-1]):
        stray.write_text(text)
        with pytest.raises(InputError, match=f"{name}: is not the work order that was written there. Take it away"):
            oven.make_pass()
    status, _, error = oven.run("cancel", "oven-0002", "--reason", "spilt")
    assert (status, state(oven, 2)) == (2, TrialState.FAILED)
    assert "whoever does it could not be told" in error and "the next pass tries again" in error
    stray.unlink()
    oven.make_pass()
    assert (oven.orders / "cancelled" / "oven-0002-1.json").exists()
    assert state(oven) is (TrialState.RUNNING if name == "mine.json" else TrialState.HELD)


def test_a_folder_of_orders_whose_mark_was_lost_gets_it_back_as_the_error_says(oven):
    mark = oven.orders / "campaign.json"
    assert oven.run("cancel", "oven-0001", "--reason", "spilt")[0] == oven.run("retry", "oven-0001")[0] == 0
    assert oven.make_pass().sent == 1
    for spoil in (mark.unlink, lambda: mark.write_text("{")):
        spoil()
        with pytest.raises(InputError, match="If its orders are all there and only that file was lost, write ") as told:
            oven.make_pass()
        mark.write_text(str(told.value).partition("was lost, write ")[2].partition(" into it.")[0])
        oven.make_pass()


def test_all_trials_are_given_up_though_the_folder_of_orders_takes_nothing(oven):
    (oven.orders / "cancelled").rmdir()
    (oven.orders / "cancelled").touch()
    status, _, error = oven.run("abandon", "oven-0001", "oven-0002", "--reason", "spilt")
    assert (status, state(oven), state(oven, 2)) == (2, TrialState.ABANDONED, TrialState.ABANDONED)
    for trial in ("oven-0001", "oven-0002"):
        assert f"{trial} is ABANDONED now, but whoever does it could not be told ([Errno 17] File exists" in error
    (oven.orders / "cancelled").unlink()
    oven.make_pass()
    assert len(list((oven.orders / "cancelled").iterdir())) == 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('Output("strength"', 'Output("cost"', "'cost' would be a column's name twice: the table's own column 'cost'"),
        ('"porosity"', '"strength sd"', "'strength sd' would be .* the standard deviation of 'strength'"),
        ('Continuous("T"', 'Continuous("field"', "'field' would be a column's name twice"),
        ('Continuous("T"', 'Continuous("strength"', "another variable or output 'strength'"),
        ('Continuous("T"', 'Continuous("T [C]"', r"'T \[C\]' cannot be a column"),
        ('Continuous("T"', 'Continuous("T=1"', "'T=1' cannot be a column"),
    ],
)
def test_a_name_that_a_table_cannot_bear_is_refused_for_a_laboratory(tmp_path, old, new, message):
    kinds = tmp_path / "plugins" / "problems"
    kinds.mkdir(parents=True)
    assert old in OVEN
    (kinds / "oven.py").write_text(OVEN.replace(old, new))
    settings = settings_from({"FIELDCRAFT_PLUGINS": str(tmp_path / "plugins")}, home=tmp_path)
    data = {"name": "oven", "seed": 1, "sense": "maximize", "problem": {"kind": "oven"}, "budget": {"trials": 2}}
    data |= {"algorithm": {"start": {"n": 2}}, "dispatcher": {"kind": "lab"}}
    with pytest.raises(InputError, match=message):
        wire(parse(data, "x"), settings)
