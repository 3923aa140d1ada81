"""The dispatcher ``replay`` over stored simulations: a replayed trial has the field and the outputs of the original."""

import csv
from pathlib import Path
from typing import Any

import bars
import numpy as np
import pytest
import yaml
from bench import Bench, bench
from small import finish

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.jobs.dispatcher import Job
from fieldcraft.flows.recovery.doctor import examine
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.storage.fields import fields_at


@pytest.fixture
def original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A campaign of cantilevers, run to its end."""
    made = bench(tmp_path, yaml.safe_dump(bars.BAR), monkeypatch)
    finish(made.file, made.settings.home, tmp_path / "plugins")
    return made


def again(**dispatcher: Any) -> dict[str, Any]:
    """The same campaign, replayed."""
    return {
        **{key: value for key, value in bars.BAR.items() if key != "simulator"},
        "name": "again",
        "dispatcher": {"kind": "replay", **dispatcher},
    }


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of records with a table of three bars and their fields, and their outputs for the first."""
    bars.three(tmp_path / "records")
    rows = list(csv.DictReader((tmp_path / "records" / "bars.csv").read_text().splitlines()))
    given = {0: repr(bars.compliance(bars.simulated(bars.DEPTHS[0])))}
    told = [
        {
            **{f"design.{name}": row[name] for name in bars.KNOTS},
            "output.compliance": given.get(n, ""),
            "field": row["field"],
        }
        for n, row in enumerate(rows)
    ]
    bars.table(tmp_path / "records" / "bars.csv", told)
    monkeypatch.setenv("FIELDCRAFT_RECORDS", str(tmp_path / "records"))
    return tmp_path / "records"


def wired(home: Path, records: Path, **dispatcher: Any) -> Campaign:
    """A replayed campaign, built; the records are checked."""
    settings = settings_from({"FIELDCRAFT_RECORDS": str(records)}, home=home)
    return wire(parse(again(file="bars.csv", **dispatcher), "again.yaml"), settings, algorithm=False)


def job(depths: tuple[float, ...]) -> Job:
    """An attempt at a bar of these depths."""
    return Job("again-0001", "again-0001-1", {"design": bars.design(depths), "outputs": {"compliance": "J"}})


@pytest.mark.parametrize("output", ["", "output."])
def test_a_campaign_over_stored_simulations_is_the_original_design_for_design_and_field_for_field(
    original, tmp_path, monkeypatch, output
):
    known = original.ledger.trials("bar")
    bars.of_trials(tmp_path / "records", known, fields_at(original.settings.fields), "design.", output)
    monkeypatch.setenv("FIELDCRAFT_RECORDS", str(tmp_path / "records"))
    other = bench(tmp_path / "other", yaml.safe_dump(again(file="bars.csv")), monkeypatch)
    while not other.make_pass().decision.finished:
        pass
    replayed = other.ledger.trials("again")
    assert [(t.design, t.outputs, t.field) for t in replayed] == [(t.design, t.outputs, t.field) for t in known]
    assert [t.origin.kind for t in replayed] == [t.origin.kind for t in known] == ["initial"] * 3 + ["model"]
    assert replayed[-1].origin.data_digest == known[-1].origin.data_digest, "the model saw the same data"
    assert examine(other.settings) == []


def test_a_campaign_that_was_imported_with_its_fields_is_replayed_with_them(original, tmp_path, monkeypatch):
    known, fields = original.ledger.trials("bar"), fields_at(original.settings.fields)
    data = bars.of_trials(tmp_path / "old", known, fields)
    other = bench(tmp_path / "other", yaml.safe_dump({**bars.BAR, "name": "taken"}), monkeypatch)
    assert other.run("import", other.file, data)[0] == 0
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(again(campaign="taken")))
    third = Bench(other.settings, tmp_path / "again.yaml")
    while not third.make_pass().decision.finished:
        pass
    assert [(t.outputs, t.field) for t in third.ledger.trials("again")] == [(t.outputs, t.field) for t in known]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("fields/1.nc", "fields/9.nc", r"line 3 of 'bars\.csv': .*9\.nc: there is no such file"),
        ("fields/1.nc", "../secret.nc", r"bars\.csv: line 3: the field file '\.\./secret\.nc' lies outside"),
        ("fields/1.nc", "link.nc", r"bars\.csv: line 3: the field file 'link\.nc' lies outside"),
        ("fields/1.nc", "wrong.nc", r"line 3 of 'bars\.csv': 'moment' of the field is in 'kN m'"),
        ("fields/1.nc", "nan.nc", r"line 3 of 'bars\.csv': 'moment' of the field is nan at x 0"),
        (
            "5.35",
            "5.45",
            r"line 2 of 'bars\.csv': compliance is 5\.45.* in the table and 5\.35.* by its field\. Let both",
        ),
        ("30.0,", "deep,", r"line 3 of 'bars\.csv': d1 is 'deep', no number"),
    ],
)
def test_fields_that_cannot_serve_are_refused_before_a_campaign_begins(tmp_path, records, old, new, message):
    wrong = bars.simulated(bars.DEPTHS[1])
    bars.written(wrong, tmp_path / "secret.nc")
    (records / "link.nc").symlink_to(tmp_path / "secret.nc")
    bars.written(wrong.assign(moment=wrong["moment"] * np.nan), records / "nan.nc")
    wrong["moment"].attrs["units"] = "kN m"
    bars.written(wrong, records / "wrong.nc")
    file = records / "bars.csv"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        wired(tmp_path / "home", records)


def test_noisy_outputs_are_replayed_without_the_fields_beside_them(tmp_path, records):
    with pytest.raises(InputError, match=r"line 3 of 'bars\.csv' has no output 'compliance', which the problem has"):
        wired(tmp_path / "home", records, noisy=True)
    file = records / "bars.csv"
    first, second, *_ = file.read_text().splitlines()
    file.write_text(f"{first}\n{second.replace('5.35', '5.45')}\n")
    made = wired(tmp_path / "home", records, noisy=True)
    handle = made.dispatcher.submit(job(bars.DEPTHS[0]))
    fields = made.dispatcher.fetch(handle)
    assert list(fields) == ["compliance"] and str(float(fields["compliance"])).startswith("5.45")


def test_a_field_that_is_gone_ends_the_pass_and_costs_nothing_once_it_is_back(original, tmp_path, monkeypatch):
    known = original.ledger.trials("bar")
    bars.of_trials(tmp_path / "records", known, fields_at(original.settings.fields), "design.")
    monkeypatch.setenv("FIELDCRAFT_RECORDS", str(tmp_path / "records"))
    other = bench(tmp_path / "other", yaml.safe_dump(again(file="bars.csv")), monkeypatch)
    other.make_pass()
    gone = tmp_path / "records" / "bar-0001.nc"
    gone.rename(tmp_path / "aside.nc")
    lease = other.ledger.acquire("again")
    with pytest.raises(InputError, match=r"bar-0001\.nc: there is no such file"):
        make_pass(Ref(str(other.settings.home), "again", lease.model_dump()))
    other.ledger.release(lease)
    (tmp_path / "aside.nc").rename(gone)
    other.make_pass()
    assert other.ledger.trial("again-0001").field == known[0].field


def test_a_field_that_the_store_has_lost_ends_the_pass_and_costs_nothing_once_it_is_back(original, tmp_path):
    first, *_ = original.ledger.trials("bar")
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(again(campaign="bar")))
    other = Bench(original.settings, tmp_path / "again.yaml")
    folder = original.settings.home / "fields" / first.field.digest[:2] / first.field.digest
    folder.rename(tmp_path / "aside")
    other.make_pass()
    lease = other.ledger.acquire("again")
    with pytest.raises(
        InputError, match=r"again-0001: what bar-0001 of campaign 'bar' recorded cannot be read\. Field"
    ):
        make_pass(Ref(str(other.settings.home), "again", lease.model_dump()))
    other.ledger.release(lease)
    (tmp_path / "aside").rename(folder)
    while not other.make_pass().decision.finished:
        pass
    replayed = other.ledger.trial("again-0001")
    assert (replayed.field, replayed.attempt, replayed.spent) == (first.field, 1, 1.0)
