"""Results in parts that several people record: they add up, and a part that says otherwise is refused."""

import multiprocessing
import os
import shutil
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
from bench import OVEN_CAMPAIGN, Bench, bench, ordered

from fieldcraft.flows.analysis.incomplete import KnownOutput, incomplete, known_outputs
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.tables import Measurement
from fieldcraft.flows.people.decisions import Overtaken, one_winner
from fieldcraft.flows.results import inbox
from fieldcraft.flows.results.inbox import collect
from fieldcraft.flows.results.record import CheckedMeasurement, check, kept, record
from fieldcraft.flows.text import clock
from fieldcraft.flows.wiring.context import Site
from fieldcraft.storage.records import TrialState

CONTRADICTS = (
    r"oven-0001: the known strength 50.0 MPa (recorded by {by}, {at}) is not the 51.0 MPa given now. Nothing was "
    r"recorded. If the known value is right, leave strength out. If it is wrong, correct it: 'fieldcraft correct "
    r"oven-0001 --value strength=51.0 --reason ...', or at the desk."
)


@pytest.fixture(scope="module")
def _ordered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ordered(tmp_path_factory.mktemp("oven"))


@pytest.fixture
def oven(_ordered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Three orders are with the laboratory."""
    return bench(Path(shutil.copytree(_ordered, tmp_path / "oven")), OVEN_CAMPAIGN, monkeypatch)


def known(oven: Bench, trial: str = "oven-0001") -> dict[str, KnownOutput]:
    return known_outputs(oven.ledger.results(trial), 1)


def said_by(oven: Bench, gate: Barrier, person: str, output: str) -> None:
    """In a process: record one output of every trial, each at the same instant as another process another output."""
    for n in (1, 2, 3):
        checked = check(oven.site, Measurement(f"oven-000{n}", values={output: float(n)}))
        gate.wait(60)
        record(oven.site, checked, person, "person")
    os._exit(0)  # what other tests have left in this process to be done at its exit is not this child's


def test_two_processes_that_record_different_outputs_at_once_complete_the_trials(oven):
    fork = multiprocessing.get_context("fork")
    gate = fork.Barrier(2)
    people = [
        fork.Process(target=said_by, args=(oven, gate, person, output))
        for person, output in (("ana", "strength"), ("ben", "porosity"))
    ]
    for person in people:
        person.start()
    for person in people:
        person.join(120)
    assert [person.exitcode for person in people] == [0, 0]
    for n in (1, 2, 3):
        trial = oven.ledger.trial(f"oven-000{n}")
        assert (trial.state, trial.outputs) == (TrialState.COMPLETED, {"strength": float(n), "porosity": float(n)})
        assert [result.verdict for result in oven.ledger.results(trial.id)] == ["partial", "accepted"]
    assert oven.ledger.check() == []


def test_it_is_known_who_gave_each_output_and_when(oven):
    record(oven.site, check(oven.site, Measurement("oven-0001", values={"strength": 50.0})), "ana", "person")
    (first,) = oven.ledger.results("oven-0001")
    again = Measurement("oven-0001", values={"strength": 50.0}, sd={"strength": 0.5})
    record(oven.site, check(oven.site, again), "ben", "person")
    assert known(oven) == {"strength": KnownOutput(50.0, 0.5, "ana", first.created)}
    assert known_outputs(oven.ledger.results("oven-0001"), 2) == {}
    assert oven.run("correct", "oven-0001", "--value", "strength=51", "--reason", "misread")[0] == 0
    (output,) = known(oven).values()
    assert (output.value, output.by == "ana") == (51.0, False)


def test_a_part_that_contradicts_another_is_refused_by_name_and_nothing_is_stored(oven):
    record(oven.site, check(oven.site, Measurement("oven-0001", values={"strength": 50.0})), "ana", "person")
    (first,) = oven.ledger.results("oven-0001")
    for more in ((), ("--value", "porosity=-1")):
        status, out, error = oven.run("record", "oven-0001", "--value", "strength=51", *more)
        assert (status, out) == (2, "")
        assert CONTRADICTS.format(by="ana", at=clock(first.created)) in error
    assert oven.ledger.results("oven-0001") == (first,)


def test_a_part_that_another_person_contradicts_between_the_check_and_the_write_is_refused(oven):
    checked = check(oven.site, Measurement("oven-0001", values={"strength": 51.0}))
    record(oven.site, check(oven.site, Measurement("oven-0001", values={"strength": 50.0})), "ana", "person")
    with pytest.raises(InputError, match=r"the known strength 50\.0 MPa \(recorded by ana, "):
        record(oven.site, checked, "ben", "person")
    assert len(oven.ledger.results("oven-0001")) == 1


def test_who_gives_no_value_is_told_what_is_known_and_what_is_missing(oven):
    record(oven.site, check(oven.site, Measurement("oven-0001", values={"strength": 50.0})), "ana", "person")
    (first,) = oven.ledger.results("oven-0001")
    said = f"strength 50.0 MPa (recorded by ana, {clock(first.created)}). Still missing: porosity."
    assert f"Measured already: {said}" in oven.run("record", "oven-0001")[2]
    assert "Measured already" not in oven.run("record", "oven-0002")[2]
    queue = oven.run("queue", "oven")[1]
    assert "'fieldcraft record oven-0001 --value porosity=NUMBER' takes the rest" in queue
    assert f"strength recorded by ana, {clock(first.created)}" in queue
    assert "'fieldcraft record oven-0002 --value NAME=NUMBER' takes its result" in queue


def test_a_part_of_a_trial_that_is_out_is_no_new_order_and_no_reason_why_it_is_held(oven):
    def entry(of: str, trial: str) -> dict[str, Any]:
        return next(one for one in oven.json("queue", "oven")[0][of] if one["trial"] == trial)

    since = entry("laboratory", "oven-0001")["since"]
    oven.run("record", "oven-0001", "--value", "strength=50")
    assert entry("laboratory", "oven-0001")["since"] == since
    trial = oven.ledger.trial("oven-0001")
    oven.ledger.move(trial.id, TrialState.HELD, trial.expect, "pass", "the furnace tripped")
    oven.run("record", "oven-0001", "--value", "strength=50", "--note", "measured twice")
    assert entry("held", "oven-0001")["reason"] == "the furnace tripped"


def test_parts_of_an_attempt_that_ended_contradict_nothing(oven):
    oven.run("record", "oven-0001", "--value", "strength=50")
    trial = oven.ledger.trial("oven-0001")
    oven.ledger.move(trial.id, TrialState.ABANDONED, trial.expect, "ana", "it broke")
    status, out, _ = oven.run("record", "oven-0001", "--value", "strength=51", "--value", "porosity=-1")
    assert (status, out) == (0, "oven-0001: kept as superseded; it is ABANDONED (no value counts).\n")


def test_parts_are_corrected_with_a_reason_and_completed_with_what_was_corrected(oven):
    oven.run("record", "oven-0001", "--value", "strength=50", "--sd", "strength=2", "--cost", "3", "--ran", "t=7")
    status, out, _ = oven.run("correct", "oven-0001", "--value", "strength=55", "--reason", "scale was off")
    assert (status, out) == (
        0,
        "oven-0001: corrected to strength 55 MPa (result 2 replaces 1). No model had seen the old value.\n",
    )
    (_, second) = oven.ledger.results("oven-0001")
    assert (second.verdict, second.source, second.details["reason"]) == (
        "partial",
        "correction: scale was off",
        "scale was off",
    )
    assert oven.ledger.trial("oven-0001").state is TrialState.RUNNING
    oven.run("record", "oven-0001", "--value", "porosity=-1")
    trial = oven.ledger.trial("oven-0001")
    assert (trial.outputs, trial.spent, trial.actual["t"]) == ({"strength": 55.0, "porosity": -1.0}, 3.0, 7)
    assert oven.ledger.results("oven-0001")[-1].sd == {"strength": 2.0}
    assert oven.ledger.check() == []


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("porosity=-1", "porosity is not known yet, so there is nothing to correct: record it. Known are strength."),
        ("strength=50", "its parts say this already, so there is nothing to correct."),
    ],
)
def test_a_correction_of_parts_that_changes_nothing_known_is_refused(oven, word, said):
    oven.run("record", "oven-0001", "--value", "strength=50")
    status, _, error = oven.run("correct", "oven-0001", "--value", word, "--reason", "why")
    assert status == 2 and f"oven-0001: {said}" in error
    assert len(oven.ledger.results("oven-0001")) == 1


def test_the_cost_of_a_part_is_corrected_alone_and_is_what_the_trial_came_to(oven):
    oven.run("record", "oven-0001", "--value", "strength=50", "--cost", "1000", "--seconds", "9")
    correction = ("correct", "oven-0001", "--cost", "10", "--reason", "a slip")
    status, said, _ = oven.run(*correction)
    assert (status, said) == (0, "oven-0001: corrected to cost 10; its outputs stay (result 2 replaces 1).\n")
    status, _, error = oven.run(*correction)
    assert status == 2 and "oven-0001: its parts say this already" in error
    oven.run("record", "oven-0001", "--value", "porosity=-1")
    trial = oven.ledger.trial("oven-0001")
    assert (trial.state, trial.spent, trial.seconds) == (TrialState.COMPLETED, 10.0, 9.0)


def test_parts_that_are_retracted_are_kept_and_asked_for_again(oven):
    part = ("record", "oven-0001", "--value", "strength=50", "--sd", "strength=2", "--ran", "T=950")
    assert oven.run(*part)[0] == 0
    status, said, _ = oven.run("retract", "oven-0001", "--reason", "of another sample")
    assert (status, oven.ledger.trial("oven-0001").state) == (0, TrialState.RUNNING)
    assert "oven-0001: retracted; no model learns from it any more (result 2 replaces 1)." in said
    assert incomplete(oven.ledger, "oven", oven.ledger.trials("oven")) == []
    status, _, error = oven.run("retract", "oven-0001", "--reason", "again")
    assert status == 2 and "oven-0001 is RUNNING: it has no result that counts. Record one first." in error
    assert "parts withdrawn" in oven.run("show", "oven-0001")[1]
    assert oven.run(*part)[0] == 0  # the very part again: it was withdrawn, so it is new
    (again,) = incomplete(oven.ledger, "oven", oven.ledger.trials("oven"))
    assert (dict(again.outputs), dict(again.sd), again.result) == ({"strength": 50.0}, {"strength": 2.0}, 3)
    assert oven.run("retract", "oven-0001", "--reason", "of another sample")[0] == 0
    assert oven.run("record", "oven-0001", "--value", "porosity=0.1")[0] == 0
    (other,) = incomplete(oven.ledger, "oven", oven.ledger.trials("oven"))
    assert (dict(other.outputs), dict(other.sd), other.design) == (
        {"porosity": 0.1},
        {},
        oven.ledger.trial("oven-0001").design,
    )
    assert oven.run("record", "oven-0001", "--value", "strength=40")[0] == 0
    done = oven.ledger.trial("oven-0001")
    assert (done.state, done.outputs, done.ran) == (TrialState.COMPLETED, {"strength": 40.0, "porosity": 0.1}, None)
    assert oven.ledger.results(done.id)[-1].sd == {}
    assert oven.ledger.check() == []


def test_what_was_withdrawn_beside_a_value_is_new_when_it_is_given_again(oven):
    beside = ("--sd", "strength=2", "--note", "a crack", "--cost", "3", "--seconds", "60")
    assert oven.run("record", "oven-0001", "--value", "strength=50", *beside)[0] == 0
    assert oven.run("retract", "oven-0001", "--reason", "of another sample")[0] == 0
    assert oven.run("record", "oven-0001", "--value", "strength=50")[0] == 0
    assert oven.run("record", "oven-0001", "--value", "strength=50", *beside)[0] == 0
    last = oven.ledger.results("oven-0001")[-1]
    assert (last.id, last.sd, last.details["note"], last.details["cost"]) == (4, {"strength": 2.0}, "a crack", 3.0)
    assert oven.run("record", "oven-0001", "--value", "strength=50", *beside)[0] == 0  # this time it is known
    assert len(oven.ledger.results("oven-0001")) == 4
    assert oven.run("record", "oven-0001", "--value", "porosity=-1")[0] == 0
    done = oven.ledger.trial("oven-0001")
    assert (done.spent, done.seconds) == (3.0, 60.0)


def test_a_file_that_is_read_again_does_not_bring_back_what_was_withdrawn(oven):
    def read(name: str, table: str) -> str:
        oven.drop(name, table)
        collect(oven.site, oven.site.campaign.dispatcher)
        return sorted((oven.results / "taken").glob("*.said.txt"), key=os.path.getmtime)[-1].read_text()

    table = "trial,strength,strength sd,porosity,notes\noven-0001,50,2,,a crack\noven-0002,60,,,\n"
    read("monday.csv", table)
    assert oven.run("retract", "oven-0001", "--reason", "of another sample")[0] == 0
    said = "oven-0001: strength of this line was withdrawn; give it by 'fieldcraft record' or the desk."
    assert said in read("monday.csv", table)
    assert (known(oven), [*known(oven, "oven-0002")]) == ({}, ["strength"])
    assert said in read("monday.csv", table.replace("50,2,,", "50,2,-1,"))
    assert [*known(oven)] == ["porosity"] and oven.ledger.results("oven-0001")[-1].sd == {}
    read("monday.csv", table.replace("50,2,,", "51,2,-1,"))
    assert oven.ledger.trial("oven-0001").outputs == {"strength": 51.0, "porosity": -1.0}
    assert oven.ledger.check() == []


def test_what_a_file_gave_and_was_withdrawn_can_be_given_by_hand(oven):
    file = oven.drop("monday.csv", "trial,strength\noven-0001,50\n")
    collect(oven.site, oven.site.campaign.dispatcher)
    assert oven.run("retract", "oven-0001", "--reason", "of another sample")[0] == 0
    assert oven.run("record", "oven-0001", "--value", "strength=50")[0] == 0
    assert [*known(oven)] == ["strength"]
    oven.drop(file.name, "trial,strength\noven-0001,50\n")
    assert "nothing new; still missing: porosity" in oven.run("record", "--csv", file)[1]


def test_a_table_that_contradicts_a_part_or_itself_is_refused_whole(oven):
    oven.run("record", "oven-0002", "--value", "strength=50")
    for name, table in (
        ("other.csv", "trial,strength\noven-0001,30\noven-0002,51\n"),
        ("itself.csv", "trial,strength\noven-0001,30\noven-0001,31\n"),
    ):
        oven.drop(name, table)
        collect(oven.site, oven.site.campaign.dispatcher)
        why = (oven.results / "refused" / f"{name}.why.txt").read_text()
        assert why.endswith("Nothing of this file was recorded: mend it and drop it again.\n")
    assert "strength of oven-0001 is 31.0 here and 30.0 at " in why
    assert [result.trial for result in oven.ledger.campaign_results("oven")] == ["oven-0002"]


def test_parts_that_hid_each_other_in_an_earlier_version_are_asked_for_again_and_complete_the_trial(oven):
    for outputs in ({"strength": 50.0}, {"porosity": -1.0}):  # of two people at once, neither of whom saw the other's
        expect = oven.ledger.trial("oven-0001").expect
        oven.ledger.record("oven-0001", expect, outputs, None, "ana", "person", {}, 1, partial=True)
    error = oven.run("record", "oven-0001")[2]
    assert "Measured already: porosity -1.0 % (recorded by ana, " in error and "Still missing: strength." in error
    assert "--value strength=NUMBER' takes the rest" in oven.run("queue", "oven")[1]
    assert oven.run("record", "oven-0001", "--value", "strength=50")[0] == 0
    assert oven.ledger.trial("oven-0001").outputs == {"strength": 50.0, "porosity": -1.0}


def test_who_decides_on_a_trial_that_got_a_part_meanwhile_is_told_of_the_part(oven):
    seen = oven.ledger.trial("oven-0001")
    record(oven.site, check(oven.site, Measurement("oven-0001", values={"strength": 50.0})), "ana", "person")
    said = r"oven-0001 was given a part of its result by ana \d s ago \(person\)\. Nothing was changed\."
    with pytest.raises(Overtaken, match=said), one_winner(oven.ledger, [seen]):
        oven.ledger.move(seen.id, TrialState.ABANDONED, seen.expect, "ben", "it broke")


def test_a_line_that_is_contradicted_while_its_table_is_recorded_says_what_was_recorded_before_it(oven, monkeypatch):
    def contradicted(site: Site, one: CheckedMeasurement) -> CheckedMeasurement:
        if one.measurement.trial == "oven-0002":
            record(site, check(site, Measurement("oven-0002", values={"strength": 50.0})), "ana", "person")
        return kept(site, one)

    monkeypatch.setattr(inbox, "kept", contradicted)
    oven.drop("monday.csv", "trial,strength\noven-0001,30\noven-0002,51\n")
    collect(oven.site, oven.site.campaign.dispatcher)
    why = (oven.results / "refused" / "monday.csv.why.txt").read_text()
    assert why.endswith("1 result of the file was recorded before that, and stays.\nMend it and drop it again.\n")
    assert oven.ledger.results("oven-0001")[0].outputs == {"strength": 30.0}
