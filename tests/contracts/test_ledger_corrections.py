"""Results that are partial, corrected, retracted, of another design, or older than the campaign. On every back end."""

import math
from pathlib import Path

import pytest
from ledgers import (
    BACKENDS,
    S,
    approve,
    begin,
    correct,
    everything,
    finish_trial,
    proposal,
    require_same_in_brief,
    step,
    trial_in,
)

from fieldcraft.storage.ledger import ForbiddenMove, InvalidRecord, Ledger, StaleTrial
from fieldcraft.storage.ledger.standing import standing_parts
from fieldcraft.storage.records import FieldRef, Known, Trial, digest_of, result_digest

FIELD = FieldRef(digest="ab" * 32, size=1000)
OTHER = {"x": 0.125, "n": 3, "material": "steel"}
SOURCE = "cd" * 32


@pytest.fixture(params=BACKENDS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return BACKENDS[request.param](tmp_path)


def verdicts(ledger: Ledger, trial: Trial) -> list[tuple[str, int | None]]:
    return [(result.verdict, result.replaces) for result in ledger.results(trial.id)]


def test_a_correction_replaces_the_value_and_keeps_the_old_result(ledger):
    trial = trial_in(ledger, S.COMPLETED)
    fixed, result = ledger.correct(trial.id, trial.expect, 1, {"y": 2.5}, FIELD, "ann", "the gauge", {"note": "cold"})
    assert (fixed.state, fixed.version, fixed.outputs, fixed.field) == (S.COMPLETED, 6, {"y": 2.5}, FIELD)
    assert verdicts(ledger, trial) == [("accepted", None), ("accepted", 1)]
    assert [r.outputs for r in ledger.results(trial.id)] == [{"y": 1.5}, {"y": 2.5}]
    assert (result.id, result.attempt, result.source, result.details) == (2, 1, "person", {"note": "cold"})
    event = ledger.history("heat", trial.id)[-1]
    assert (event.action, event.by, event.reason, event.details["replaces"]) == ("correct", "ann", "the gauge", 1)
    assert [item.payload["outputs"] for item in ledger.pending() if item.kind == "trial"] == [{"y": 1.5}, {"y": 2.5}]
    assert ledger.check() == []


def test_corrections_form_a_chain_and_only_its_end_can_be_corrected(ledger):
    trial = correct(ledger, correct(ledger, trial_in(ledger, S.COMPLETED), 2.5), 3.5)
    assert verdicts(ledger, trial) == [("accepted", None), ("accepted", 1), ("accepted", 2)]
    before = everything(ledger)
    with pytest.raises(
        ForbiddenMove, match="Result 2 of heat-0001 cannot be corrected: result 3 is the one that counts"
    ):
        ledger.correct(trial.id, trial.expect, 2, {"y": 4.5}, None, "ann", "", {})
    with pytest.raises(ForbiddenMove, match="Result 3 of heat-0001 says this already"):
        correct(ledger, trial, 3.5)
    with pytest.raises(StaleTrial, match="is no longer COMPLETED at version 5"):
        ledger.correct(trial.id, (S.COMPLETED, 5), 3, {"y": 4.5}, None, "ann", "", {})
    with pytest.raises(InvalidRecord, match=r"outputs\.y = inf cannot be stored"):
        correct(ledger, trial, math.inf)
    with pytest.raises(InvalidRecord, match="without outputs says nothing"):
        ledger.correct(trial.id, trial.expect, 3, {}, None, "ann", "", {})
    assert everything(ledger) == before
    assert ledger.check() == []


def test_a_standard_deviation_alone_is_a_correction_once(ledger):
    trial = ledger.record(*_of(trial_in(ledger, S.RUNNING)), {"y": 1.5}, None, "pass", "lab", {"sd": {"y": 0.1}})[0]
    told = {"y": 1.5}, None, "ann", "the gauge"
    with pytest.raises(ForbiddenMove, match="Result 1 of heat-0001 says this already"):
        ledger.correct(trial.id, trial.expect, 1, *told, {"sd": {"y": 0.1}})
    fixed, result = ledger.correct(trial.id, trial.expect, 1, *told, {"sd": {"y": 0.2}})
    assert (fixed.outputs, result.details, result.replaces) == ({"y": 1.5}, {"sd": {"y": 0.2}}, 1)
    for details in ({"sd": {"y": 0.2}}, {}):
        with pytest.raises(ForbiddenMove, match="Result 2 of heat-0001 says this already"):
            ledger.correct(fixed.id, fixed.expect, 2, *told, details)
    assert ledger.check() == []


def test_a_cost_or_a_time_alone_is_a_correction_once_and_gives_back_what_was_charged_too_much(ledger):
    failed = step(ledger, trial_in(ledger, S.RUNNING), S.FAILED, cost=2.0, seconds=5.0)
    again = step(ledger, step(ledger, approve(ledger, failed), S.STAGED), S.RUNNING)
    trial = finish_trial(ledger, again, cost=1000.0, seconds=60.0)
    assert ledger.spending("heat").spent == 1002.0
    fixed = correct(ledger, trial, 1.5, cost=38.2)
    assert (fixed.outputs, fixed.spent, fixed.seconds) == ({"y": 1.5}, pytest.approx(40.2), 65.0)
    assert verdicts(ledger, trial) == [("accepted", None), ("accepted", 1)]
    with pytest.raises(ForbiddenMove, match="Result 2 of heat-0001 says this already"):
        correct(ledger, fixed, 1.5, cost=38.2, seconds=60.0)
    dearer = correct(ledger, correct(ledger, fixed, 2.5), 2.5, cost=50.0, seconds=0.0)
    assert (dearer.spent, dearer.seconds) == (pytest.approx(52.0), 5.0)
    now = ledger.spending("heat")
    assert (now.spent, now.seconds) == (pytest.approx(52.0), 5.0)
    before = everything(ledger)
    for amounts in ({"cost": -1.0}, {"cost": math.inf}, {"seconds": math.nan}):
        with pytest.raises(InvalidRecord, match="What attempt 2 of heat-0001 came to"):
            correct(ledger, dearer, 2.5, **amounts)
    assert everything(ledger) == before
    require_same_in_brief(ledger, "heat")
    assert ledger.check() == []


def test_rounding_refuses_no_correction_of_an_attempt_that_cost_nothing(ledger):
    failed = step(ledger, trial_in(ledger, S.RUNNING), S.FAILED, cost=0.1)
    again = step(ledger, step(ledger, approve(ledger, failed), S.STAGED), S.RUNNING)
    trial = finish_trial(ledger, again, cost=6.4)
    free = correct(ledger, trial, 1.5, cost=0.0)
    assert free.spent < 0.1  # by rounding
    assert correct(ledger, free, 1.5, seconds=7.0).seconds == pytest.approx(failed.seconds + 7.0)
    assert ledger.check() == []


def test_a_trial_from_before_the_campaign_has_no_cost_to_correct(ledger):
    begin(ledger)
    (trial,) = ledger.adopt("heat", [Known(design=OTHER, outputs={"y": 1.0})], SOURCE, "import", "ann")
    with pytest.raises(ForbiddenMove, match="was measured before the campaign, which paid nothing for it"):
        correct(ledger, trial, 1.0, cost=3.0)


def test_a_retraction_leaves_no_outputs_and_can_be_taken_back(ledger):
    trial = ledger.record(*_of(trial_in(ledger, S.RUNNING)), {"y": 1.5}, FIELD, "pass", "local", {})[0]
    gone = correct(ledger, trial, None)
    assert (gone.state, gone.outputs, gone.field) == (S.COMPLETED, None, None)
    assert ledger.results(trial.id)[-1].outputs == {}
    with pytest.raises(ForbiddenMove, match="says this already"):
        correct(ledger, gone, None)
    back = correct(ledger, gone, 1.5)
    assert back.outputs == {"y": 1.5}
    assert verdicts(ledger, trial) == [("accepted", None), ("retraction", 1), ("accepted", 2)]
    assert ledger.check() == []


def _of(trial: Trial):
    return trial.id, trial.expect


def test_a_retraction_says_nothing_else(ledger):
    trial = trial_in(ledger, S.COMPLETED)
    with pytest.raises(InvalidRecord, match="retraction of heat-0001 with a field or a design"):
        ledger.correct(trial.id, trial.expect, 1, None, FIELD, "ann", "", {})
    with pytest.raises(InvalidRecord, match="retraction of heat-0001 with a field or a design"):
        correct(ledger, trial, None, ran=OTHER)


@pytest.mark.parametrize("state", sorted(set(S) - {S.COMPLETED}))
def test_only_a_completed_trial_has_a_result_to_correct(ledger, state):
    trial = trial_in(ledger, state)
    with pytest.raises(ForbiddenMove, match=f"heat-0001 is {state}: only a COMPLETED trial"):
        ledger.correct(trial.id, trial.expect, 1, {"y": 1.0}, None, "ann", "", {})


def test_a_result_that_repeats_what_counts_after_a_correction_is_a_duplicate_and_what_was_before_is_not(ledger):
    trial = correct(ledger, trial_in(ledger, S.COMPLETED), 2.5)
    before = everything(ledger)
    for value, verdict in ((2.5, "duplicate"), (1.5, "superseded")):
        same, result = ledger.record(*_of(trial), {"y": value}, None, "test", "local", {})
        assert (same, result.verdict) == (trial, verdict)
    assert everything(ledger) == before


def test_a_partial_result_is_kept_and_the_trial_goes_on_waiting(ledger):
    trial = trial_in(ledger, S.RUNNING)
    for _ in range(2):  # the same one twice is stored once
        trial, part = ledger.record(
            *_of(trial), {"g": -1.0}, None, "ann", "person", {"note": "y tomorrow"}, partial=True
        )
        assert (trial.state, trial.version, part.verdict) == (S.RUNNING, 5, "partial")
    trial, _ = ledger.record(*_of(trial), {"g": -2.0}, None, "ann", "person", {}, partial=True)
    assert [r.outputs for r in ledger.results(trial.id)] == [{"g": -1.0}, {"g": -2.0}]
    assert ledger.check() == []
    done, whole = ledger.record(*_of(trial), {"y": 1.5, "g": -2.0}, None, "ann", "person", {})
    assert (done.outputs, whole.verdict) == ({"y": 1.5, "g": -2.0}, "accepted")
    assert ledger.check() == []


def test_parts_that_are_withdrawn_are_kept_and_can_be_given_again(ledger):
    trial = trial_in(ledger, S.RUNNING)
    given = {"outputs": {"g": -1.0}, "field": None, "by": "ann", "source": "person", "details": {}, "partial": True}
    trial, first = ledger.record(*_of(trial), **given)
    before, nothing = trial, {**given, "outputs": {}, "details": {"parts": [1]}}
    trial, none = ledger.record(*_of(trial), **nothing)
    assert (trial.state, trial.version, none.withdraws, first.withdraws) == (S.RUNNING, before.version + 1, True, False)
    assert standing_parts(ledger.results(trial.id), 1) == ()
    with pytest.raises(StaleTrial):
        ledger.record(*_of(before), **given)
    with pytest.raises(InvalidRecord, match="without outputs says nothing"):
        ledger.record(*_of(trial), **nothing)  # there is no part left
    trial, again = ledger.record(*_of(trial), **given)
    assert standing_parts(ledger.results(trial.id), 1) == (again,)
    assert verdicts(ledger, trial) == [("partial", None)] * 3
    assert ledger.check() == []


def test_a_withdrawal_of_what_is_finished_or_beside_a_field_is_refused(ledger):
    done = trial_in(ledger, S.COMPLETED)
    with pytest.raises(InvalidRecord, match="without outputs says nothing"):
        ledger.record(*_of(done), {}, None, "ann", "person", {}, partial=True)
    trial = trial_in(ledger, S.RUNNING, iteration=1)
    trial, _ = ledger.record(*_of(trial), {"g": -1.0}, None, "ann", "person", {}, partial=True)
    before = everything(ledger)
    for more in ({"field": FIELD}, {"field": None, "ran": OTHER}):
        with pytest.raises(InvalidRecord, match="with a field or a design says two things"):
            ledger.record(*_of(trial), {}, by="ann", source="person", details={}, partial=True, **more)
    with pytest.raises(InvalidRecord, match="without outputs says nothing"):
        ledger.record(*_of(trial), {}, None, "ann", "person", {})
    assert everything(ledger) == before


def test_a_result_said_to_be_partial_at_first_and_whole_later_completes_the_trial(ledger):
    trial = trial_in(ledger, S.HELD)
    trial, _ = ledger.record(*_of(trial), {"y": 1.5}, None, "ann", "person", {}, partial=True)
    assert finish_trial(ledger, trial).state is S.COMPLETED
    assert verdicts(ledger, trial) == [("partial", None), ("accepted", None)]


def test_a_partial_result_of_what_is_finished_or_was_never_sent_is_no_partial_result(ledger):
    done = trial_in(ledger, S.COMPLETED)
    assert ledger.record(*_of(done), {"g": 1.0}, None, "ann", "person", {}, partial=True)[1].verdict == "superseded"
    staged = trial_in(ledger, S.STAGED, iteration=1)
    with pytest.raises(ForbiddenMove, match="is only STAGED"):
        ledger.record(*_of(staged), {"g": 1.0}, None, "ann", "person", {}, partial=True)


def test_the_design_that_was_really_run_is_kept_and_is_what_a_model_learns_from(ledger):
    trial = trial_in(ledger, S.RUNNING)
    done, result = ledger.record(*_of(trial), {"y": 1.5}, None, "ann", "person", {}, ran=OTHER)
    assert done.ran == result.ran == done.actual == OTHER
    assert done.design == trial.design != OTHER
    assert result.digest == digest_of({"outputs": {"y": 1.5}, "field": None, "ran": OTHER})
    as_asked = finish_trial(ledger, trial_in(ledger, S.RUNNING, iteration=1), ran=dict(trial.design))
    assert as_asked.ran is None and as_asked.actual == as_asked.design
    assert ledger.results(as_asked.id)[0].digest == digest_of({"outputs": {"y": 1.5}, "field": None})
    fixed = correct(ledger, done, 1.5)  # it was run as asked after all
    assert fixed.ran is None
    assert ledger.check() == []


def test_a_design_that_was_run_has_the_variables_of_the_trial(ledger):
    trial = trial_in(ledger, S.RUNNING)
    with pytest.raises(InvalidRecord, match="what was run is said to have x"):
        finish_trial(ledger, trial, ran={"x": 0.5})
    with pytest.raises(InvalidRecord, match=r"ran\.x.* = nan cannot be stored"):
        finish_trial(ledger, trial, ran={**OTHER, "x": math.nan})
    assert ledger.results(trial.id) == ()


def test_the_same_value_of_another_design_is_no_duplicate(ledger):
    trial = trial_in(ledger, S.COMPLETED)
    assert ledger.record(*_of(trial), {"y": 1.5}, None, "ann", "person", {}, ran=OTHER)[1].verdict == "superseded"


def test_all_readings_of_a_campaign_are_told_in_order(ledger):
    first, second = trial_in(ledger, S.RUNNING), trial_in(ledger, S.RUNNING, iteration=1)
    done = finish_trial(ledger, second, 2.5)
    correct(ledger, done, 3.5)
    finish_trial(ledger, first)
    begin(ledger, "other")
    assert [(r.trial, r.outputs["y"]) for r in ledger.campaign_results("heat")] == [
        ("heat-0002", 2.5),
        ("heat-0002", 3.5),
        ("heat-0001", 1.5),
    ]
    assert ledger.campaign_results("other") == ()


def test_trials_and_results_in_brief_are_what_they_are_in_full(ledger):
    first, second = trial_in(ledger, S.RUNNING), trial_in(ledger, S.COMPLETED, iteration=1)
    require_same_in_brief(ledger, "heat")  # from here on it is kept
    correct(ledger, second, 3.5)
    require_same_in_brief(ledger, "heat")
    first, _ = ledger.record(*_of(first), {"g": 0.1 + 0.2}, None, "ann", "person", {}, partial=True)
    ledger.record(*_of(first), {"y": -0.0, "g": 5e-324}, FIELD, "ann", "person", {}, ran={**OTHER, "x": 1 / 3})
    require_same_in_brief(ledger, "heat")
    ledger.move(trial_in(ledger, S.RUNNING, iteration=2).id, S.FAILED, (S.RUNNING, 4), "pass", "", failure="infeasible")
    correct(ledger, ledger.trial(first.id), None)
    ledger.adopt("heat", known(0.1, 0.2), "f" * 64, "table", "ann")
    require_same_in_brief(ledger, "heat")
    assert len(ledger.summaries("heat")) == 5 and len(ledger.result_summaries("heat")) == 7


def known(*values: float) -> list[Known]:
    lines = enumerate(values, 2)
    return [Known(design={**OTHER, "x": x}, outputs={"y": 10 * x}, details={"line": line}) for line, x in lines]


def test_measurements_from_before_are_completed_trials_that_cost_nothing(ledger):
    begin(ledger, trials=1, cost=1.0)
    (proposed,) = ledger.propose("heat", 0, [proposal()], "test")
    first, second = ledger.adopt("heat", known(0.25, 0.5), SOURCE, "import of data.csv", "ann")
    assert [(t.id, t.iteration, t.slot) for t in (first, second)] == [("heat-0002", 1, 0), ("heat-0003", 1, 1)]
    assert (first.state, first.outputs, first.attempt) == (S.COMPLETED, {"y": 2.5}, 0)
    assert first.cost == first.spent == first.seconds == 0.0
    assert (first.origin.kind, first.origin.data_digest) == ("imported", SOURCE)
    (result,) = ledger.results(second.id)
    assert (result.verdict, result.source, result.details) == ("accepted", "import", {"line": 3})
    assert [(e.action, e.by) for e in ledger.history("heat", first.id)] == [("import", "ann")]
    assert ledger.spending("heat").trials == 0
    assert [i.payload["id"] for i in ledger.pending() if i.kind == "trial"] == ["heat-0002", "heat-0003"]
    fixed = correct(ledger, first, 7.5)
    assert fixed.outputs == {"y": 7.5}
    step(ledger, ledger.approve(*_of(proposed), proposed.digest, "ann", "", "manual", 1), S.STAGED)
    assert ledger.check() == []


def test_a_source_is_adopted_once_and_another_one_after_it(ledger):
    begin(ledger)
    first = ledger.adopt("heat", known(0.25, 0.5), SOURCE, "import of data.csv", "ann")
    before = everything(ledger)
    assert ledger.adopt("heat", known(0.75), SOURCE, "import of data.csv", "ann") == first
    assert everything(ledger) == before
    (later,) = ledger.adopt("heat", known(0.75), "ef" * 32, "import of more.csv", "ann")
    assert (later.id, later.iteration) == ("heat-0003", 1)


def test_measurements_are_adopted_all_or_none(ledger):
    begin(ledger)
    before = everything(ledger)
    with pytest.raises(InvalidRecord, match="Nothing was given to import into 'heat'"):
        ledger.adopt("heat", [], SOURCE, "import", "ann")
    bad = Known.model_construct(design=OTHER, outputs={"y": math.nan}, details={})
    with pytest.raises(InvalidRecord, match=r"outputs\.y = nan cannot be stored"):
        ledger.adopt("heat", [*known(0.25), bad], SOURCE, "import", "ann")
    with pytest.raises(InvalidRecord, match="without outputs says nothing"):
        ledger.adopt("heat", [Known(design=OTHER, outputs={})], SOURCE, "import", "ann")
    with pytest.raises(InvalidRecord, match=r"data_digest = 'x' cannot be stored"):
        ledger.adopt("heat", known(0.25), "x", "import", "ann")
    assert everything(ledger) == before


def test_a_later_result_of_an_imported_trial_is_kept_and_moves_nothing(ledger):
    begin(ledger)
    (trial,) = ledger.adopt("heat", known(0.25), SOURCE, "import", "ann")
    assert ledger.record(*_of(trial), {"y": 2.5}, None, "ann", "person", {})[1].verdict == "duplicate"
    assert ledger.record(*_of(trial), {"y": 9.5}, None, "ann", "person", {})[1].verdict == "superseded"
    assert ledger.check() == []


def test_the_digest_of_a_result_of_schema_1_stays_true():
    assert result_digest({"y": 1.5}, None, None) == "ae86936a9ec08f41dcabc906b031d453065e32f9b7110059a45b6ad12bc273e7"
