"""The dispatcher ``replay``: a design that was recorded is answered with its record, no other is."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
import yaml
from small import SMALL

from fieldcraft.flows.dispatchers._known_results import KnownResult, nearest, same, table_records
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.jobs.dispatcher import Failed, Finished, Job
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.steps.harvest import harvest
from fieldcraft.flows.views.export import export_csv
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.context import Site
from fieldcraft.storage.fields import FieldDamaged, fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Origin, Proposal, TrialState, digest_of

HEADER = "trial,state,corrected,feasible,design.x1,design.x2,ran.x1,ran.x2,output.value"
ROWS = """\
a-0001,COMPLETED,,yes,1.0,2.0,,,5.0
a-0002,COMPLETED,,yes,1.0,2.0,,,6.0
a-0003,COMPLETED,,yes,3.0,4.0,3.5,,7.0
a-0004,COMPLETED,retracted,,5.0,4.0,,,8.0
a-0005,FAILED,,no,6.0,4.0,,,
a-0006,FAILED,,,7.0,4.0,,,
a-0007,COMPLETED,,yes,8.0,4.0,,,1e-200
"""
_BOTH = ("again.csv", "a.csv")


def replayed(
    home: Path, records: Path | None = None, problem: str = "branin", noise: float | None = 0.5, **source: Any
) -> Any:
    spec = {**yaml.safe_load(SMALL), "name": "again", "problem": {"kind": problem}, "dispatcher": {"kind": "replay"}}
    spec["noise"] = None if noise is None else {"sd": noise}
    del spec["simulator"]
    spec["dispatcher"] |= source
    environment = {"FIELDCRAFT_RECORDS": str(records)} if records else {}
    return wire(parse(spec, "again.yaml"), settings_from(environment, home=home), algorithm=False)


def job(**design: Any) -> Job:
    return Job("again-0001", "again-0001-1", {"design": design, "outputs": {"value": ""}})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "a.csv").write_text(f"{HEADER}\n{ROWS}")
    return tmp_path / "records"


@pytest.mark.parametrize(
    ("design", "value"),
    [({"x1": 1.0, "x2": 2.0 * (1 + 9e-10)}, 5.0), ({"x1": 3.5, "x2": 4}, 7.0), ({"x1": 8.0, "x2": 4.0}, 1e-200)],
)
def test_a_recorded_design_is_answered_with_what_was_read_of_what_was_run_first(tmp_path, table, design, value):
    made = replayed(tmp_path / "home", table, file="a.csv")
    dispatcher, asked = made.dispatcher, job(**design)
    handle = json.loads(json.dumps(dispatcher.submit(asked)))
    assert dispatcher.poll(handle) == Finished(0.0)
    fields = dispatcher.fetch(handle)
    assert (float(fields["value"]), fields["value"].attrs) == (value, {"units": ""})
    assert made.idempotent and not replayed(tmp_path / "home", table, file="a.csv", noisy=False).dispatcher.by_people


@pytest.mark.parametrize(
    ("design", "kind", "reason"),
    [
        ({"x1": 1.0, "x2": 2.0 * (1 + 2e-9)}, "unknown", "the nearest is a-0001, x1=1.0, x2=2.0. Only recorded"),
        ({"x1": 3.0, "x2": 4.0}, "unknown", "the nearest is a-0003, x1=3.5, x2=4.0."),
        ({"x1": 5.2, "x2": 4.0}, "unknown", "the nearest is a-0005, x1=6.0, x2=4.0."),
        ({"x1": 7.0, "x2": 4.0}, "unknown", "'a.csv' holds no result of this design"),
        ({"x1": 6.0, "x2": 4.0}, "infeasible", "a-0005 of 'a.csv' was infeasible"),
    ],
)
def test_another_design_fails_with_the_nearest_that_was_recorded(tmp_path, table, design, kind, reason):
    dispatcher = replayed(tmp_path / "home", table, file="a.csv").dispatcher
    handle = dispatcher.submit(job(**design))
    outcome = dispatcher.poll(handle)
    assert isinstance(outcome, Failed) and outcome.kind == kind and reason in outcome.reason
    with pytest.raises(FieldDamaged, match=r"again-0001-1 has no fields: 'a.csv' holds no result of its design"):
        dispatcher.fetch(handle)


def test_designs_are_one_when_their_numbers_nearly_are_and_their_texts_exactly():
    assert same({"n": "3", "gas": "N2"}, {"n": 3, "gas": "N2"}), "a table holds text"
    assert not same({"n": "3", "gas": "N2"}, {"n": 3, "gas": "n2"})
    assert not same({"n": "three"}, {"n": 3})
    assert not same({"n": 3}, {"n": 3, "m": 1})
    records = [KnownResult("far", {"x": 0.0, "gas": "N2"}, {}), KnownResult("near", {"x": 100.0, "gas": "Ar"}, {})]
    assert nearest(records, {"x": 90.0, "gas": "Ar"}) is records[1]
    assert nearest(records, {"x": 10.0, "gas": "Ar"}) is records[1], "another gas is as far as the whole range of x"
    assert nearest([], {"x": 1.0}) is None


@pytest.mark.parametrize(
    ("source", "text", "message"),
    [
        ({}, None, "give exactly one of campaign .* and file"),
        ({"file": "a.csv", "campaign": "b"}, None, "give exactly one of campaign"),
        ({"fil": "a.csv"}, None, r"dispatcher\.fil: unknown key 'fil'\. Did you mean 'file'\?"),
        ({"campaign": "b"}, None, r"dispatcher\.campaign: the ledger has no campaign 'b'\. Known: none"),
        ({"file": "b.csv"}, None, r"dispatcher\.file: 'b\.csv' is no file in .*records, the folder that"),
        ({"file": "../secret.csv"}, None, r"'\.\./secret\.csv' is no file in .*records"),
        ({"file": "link.csv"}, None, r"'link\.csv' is no file in .*records"),
        ({"file": "a.csv"}, "a,b\n1,2\n", r"a\.csv: it has no columns design\.NAME"),
        ({"file": "a.csv"}, f"{HEADER}\n1,2\n", r"a\.csv: line 2 has 2 cells and the header 9"),
        ({"file": "a.csv"}, f"{HEADER}\na,COMPLETED,,,1,2,,,hot\n", "a.csv: line 2: value is 'hot', no number"),
        ({"file": "a.csv"}, f"{HEADER}\na,COMPLETED,,,1,2,,,nan\n", "line 2: value is 'nan'. Give a finite number"),
        ({"file": "a.csv"}, f"{HEADER},output.value\na,COMPLETED,,,1,2,,,5,6\n", "'output.value' stands there twice"),
        (
            {"file": "a.csv"},
            "design.x1 [m],design.x2,output.value\n1,2,3\n",
            "'a.csv' has 'x1' in 'm', and the problem",
        ),
        ({"file": "a.csv"}, "design.x1,design.x2,output.value [K]\n1,2,3\n", "'a.csv' has 'value' in 'K', and the"),
        (
            {"file": "a.csv"},
            "design.x1,design.x2,output.value\n1,left,3\n",
            "line 2 of 'a.csv': x2 is 'left', no number",
        ),
        ({"file": "a.csv"}, "design.x1,design.x2,output.value,output.y\n1,2,,3\n", "'a.csv' has no output 'value'"),
        ({"file": "a.csv"}, f"{HEADER}\n", "'a.csv' holds no result"),
        ({"file": "a.csv"}, "design.x1,output.value\n1,2\n", "'a.csv' has no variable 'x2', which the problem has"),
        ({"file": "a.csv"}, "design.x1,design.x2,output.y\n1,2,3\n", "'a.csv' has no output 'value'"),
    ],
)
def test_records_that_cannot_serve_are_refused_before_a_campaign_begins(tmp_path, table, source, text, message):
    (tmp_path / "secret.csv").write_text(f"{HEADER}\n{ROWS}")
    (table / "link.csv").symlink_to(tmp_path / "secret.csv")
    open_ledger(tmp_path / "home" / "ledger.sqlite", create=True)
    if text is not None:
        (table / "a.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        replayed(tmp_path / "home", table, **source)


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff{HEADER}\r\n{ROWS}",
        f"{HEADER}\n{ROWS}".replace(",", ";"),
        f"{HEADER}\n\n{ROWS},,,,,,,,\n",
        f"{HEADER}\n{ROWS}".replace("output.value", "output.value []"),
    ],
)
def test_a_table_that_a_spreadsheet_saved_again_is_read_as_every_other_table(tmp_path, table, text):
    (table / "again.csv").write_text(text)
    read = [table_records(settings_from({"FIELDCRAFT_RECORDS": str(table)}, home=tmp_path), f) for f in _BOTH]
    assert [(r.design, r.outputs) for r in read[0]] == [(r.design, r.outputs) for r in read[1]] and len(read[0]) == 5


def test_without_a_folder_of_records_no_table_can_be_named(tmp_path, table):
    with pytest.raises(InputError, match=r"'a\.csv' is given, and the operator names no folder .*FIELDCRAFT_RECORDS"):
        replayed(tmp_path / "home", file="a.csv")


def test_what_was_exported_is_read_back_to_the_bit(finished):
    ledger = open_ledger(finished / "home" / "ledger.sqlite")
    export_csv(ledger, "small", finished / "small.csv")
    read = table_records(settings_from({"FIELDCRAFT_RECORDS": str(finished)}), "small.csv")
    trials = ledger.trials("small")
    assert [(r.name, r.outputs) for r in read] == [(t.id, t.outputs) for t in trials]
    assert all(same(record.design, trial.actual) for record, trial in zip(read, trials, strict=True))
    assert len(list(csv.DictReader((finished / "small.csv").open()))) == len(read) == 3


def sent(ledger: Ledger, name: str, design: Any, handle: Any) -> Any:
    """A trial of a new campaign, under way."""
    spec = {"problem": {"kind": "peak"}, "name": name}
    environment = {"outputs": [{"name": "value", "unit": ""}], "units": {}, "by_people": False}
    ledger.create_campaign(name, spec, digest_of(spec), environment, "test")
    origin = Origin(kind="initial", algorithm="sobol", seed=3, iteration=0, slot=0)
    (trial,) = ledger.propose(name, 0, [Proposal(design=design, origin=origin)], "test")
    trial = ledger.approve(trial.id, trial.expect, trial.digest, "test", "yes", "manual", 1)
    trial = ledger.move(trial.id, TrialState.STAGED, trial.expect, "test", "claimed")
    return ledger.move(trial.id, TrialState.RUNNING, trial.expect, "test", "sent", handle=handle)


def harvested(made: Any, ledger: Ledger, design: Any) -> Any:
    """The trial of a new campaign whose only design was sent and harvested."""
    trial = sent(ledger, "again", design, made.dispatcher.submit(job(**design)))
    assert harvest(Site(made, ledger, fields_at(made.settings.fields))) == 1
    return ledger.trial(trial.id)


def test_the_fields_of_a_campaign_of_this_ledger_are_reused(finished):
    settings = settings_from({}, home=finished / "home")
    ledger = open_ledger(settings.ledger)
    first = ledger.trials("small")[0]
    done = harvested(replayed(settings.home, campaign="small"), ledger, first.design)
    assert first.field is not None and done.field == first.field, "the same content is stored once"
    assert done.outputs == first.outputs, "the same noise of the same seed on the same field"


@pytest.mark.parametrize("noisy", [True, False])
def test_noisy_records_are_answered_as_they_were_read_and_else_from_their_fields(finished, noisy):
    settings = settings_from({}, home=finished / "home")
    ledger = open_ledger(settings.ledger)
    first = ledger.trials("small")[0]
    made = replayed(settings.home, campaign="small", noise=None, noisy=noisy)
    exact = made.problem.function(first.design)
    done = harvested(made, ledger, first.design)
    assert first.outputs != exact, "the campaign added noise"
    assert done.outputs == (first.outputs if noisy else exact)
    assert (done.field == first.field) is not noisy
    assert made.noisy is noisy


def test_a_result_that_a_person_corrected_is_replayed_as_it_stands_and_not_from_its_field(finished):
    settings = settings_from({}, home=finished / "home")
    ledger = open_ledger(settings.ledger)
    first = ledger.trials("small")[0]
    (result,) = (each for each in ledger.campaign_results("small") if each.trial == first.id)
    ledger.correct(first.id, first.expect, result.id, {"value": 100.0}, first.field, "ana", "a slip", {})
    made = replayed(settings.home, campaign="small")
    fields = made.dispatcher.fetch(made.dispatcher.submit(job(**first.design)))
    assert float(fields["value"]) == 100.0


PEAK = '''\
"""The peak of a field, which a dispatcher may also have found by itself."""
from dataclasses import dataclass

from fieldcraft.physics.problem import Output
from fieldcraft.physics.problems.branin import Branin


@dataclass(frozen=True)
class Peak(Branin):
    """See the test."""

    def evaluate(self, design, fields):
        return {"value": float(fields["T"].max())}
'''


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        (xr.Dataset({"value": ((), 5.0), "T": (("x",), [1.0, 7.0])}), 5.0),
        (xr.Dataset({"T": (("x",), [1.0, 7.0])}), 7.0),
        (xr.Dataset({"value": (("x",), [5.0, 6.0]), "T": (("x",), [1.0, 7.0])}), 7.0),
    ],
)
def test_a_number_for_each_output_is_the_output_and_else_the_problem_evaluates_the_fields(tmp_path, fields, value):
    (tmp_path / "plugins" / "problems").mkdir(parents=True)
    (tmp_path / "plugins" / "problems" / "peak.py").write_text(PEAK)
    spec = {**yaml.safe_load(SMALL), "name": "again", "problem": {"kind": "peak"}, "noise": None}
    spec |= {"simulator": None, "dispatcher": {"kind": "replay", "campaign": "old"}}
    settings = settings_from({"FIELDCRAFT_PLUGINS": str(tmp_path / "plugins")}, home=tmp_path / "home")
    ledger, design = open_ledger(settings.ledger, create=True), {"x1": 1.0, "x2": 2.0}
    old, field = (
        sent(ledger, "old", design, {"key": "old-0001-1"}),
        fields_at(settings.fields).write("old-0001", fields),
    )
    ledger.record(old.id, old.expect, {"value": 1.0}, field, "test", "local", {})
    made = wire(parse(spec, "again.yaml"), settings, algorithm=False)
    assert harvested(made, ledger, design).outputs == {"value": value}
