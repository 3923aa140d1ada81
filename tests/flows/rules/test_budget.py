"""Budgets in trials, cost and wall time: reached, never exceeded, whatever fails, waits or is decided by people."""

import pytest
from rig import eventually, rig

from fieldcraft.flows.cli import main
from fieldcraft.flows.rules.budget import exhausted, nearly_spent, obstacle
from fieldcraft.flows.spec.campaign_file import Budget
from fieldcraft.storage.ledger import BudgetSpent
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Known, Limits, Origin, Proposal, Spending, TrialState, digest_of


@pytest.fixture(autouse=True)
def _plugins(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    monkeypatch.setenv("FIELDCRAFT_HOME", str(tmp_path / "home"))
    (tmp_path / "plugins").mkdir()


def test_a_cost_budget_is_spent_to_the_last_unit_and_failures_count(tmp_path):
    at = rig(tmp_path, problem={"kind": "rig", "each": 2.0}, budget={"trials": 9, "cost": 6.0, "unit": "EUR"})
    at.tell("answer 1", "raise", "answer 2")
    assert at.finish() == "budget: 6 of 6 EUR are spent"
    spending = at.ledger.spending("b")
    assert (spending.spent, spending.reserved, spending.trials) == (6.0, 0.0, 3)
    assert at.trials() == [("COMPLETED", None), ("FAILED", "unknown"), ("COMPLETED", None)]


def test_a_proposal_that_would_exceed_the_cost_budget_is_rejected_with_that_reason(tmp_path):
    at = rig(tmp_path, problem={"kind": "rig", "each": 2.0}, budget={"trials": 9, "cost": 5.0, "unit": "EUR"})
    reason = "budget: 4 of 5 EUR are spent and the next trial could cost 2"
    assert at.finish() == reason
    assert [state for state, _ in at.trials()] == ["COMPLETED", "COMPLETED", "REJECTED"]
    assert at.ledger.history("b", "b-0003")[-1].reason == reason
    assert at.ledger.spending("b").spent == 4.0


def test_attempts_in_passing_spend_the_budget_and_a_retry_that_it_does_not_cover_is_not_waited_for(tmp_path):
    at = rig(tmp_path, budget={"trials": 9, "cost": 2.0}, dispatcher={"attempts": 9, "backoff_s": 0.1})
    at.tell(*["transient"] * 9)
    assert at.finish() == "budget: 2 of 2 budget units are spent"
    assert (at.trials(), at.trial().attempt) == ([("FAILED", "transient")], 2)


def test_wall_time_is_reached_exactly_by_trials_that_run_into_their_limit(tmp_path):
    budget = {"trials": 9, "wall_time_h": 5.0 / 3600}
    at = rig(tmp_path, budget=budget, dispatcher={"wall_time_s": 2.0})
    at.tell(*["wait"] * 9)
    reason = at.finish()
    assert reason == "budget: 0.001111 of 0.001389 h of wall time are spent and the next trial could take 0.0005556"
    assert at.ledger.spending("b").seconds == 4.0
    assert at.trials() == [("FAILED", "unknown")] * 2, "for a third the pass proposes nothing"


def test_what_is_out_is_reserved_so_that_trials_at_once_stay_within_the_budget(tmp_path):
    at = rig(
        tmp_path,
        budget={"trials": 9, "cost": 2.0},
        algorithm={"start": {"n": 4}},
        dispatcher={"parallel": 4},
    )
    at.tell(*["wait"] * 4)
    at.steps(lambda _: sum(state == "RUNNING" for state, _ in at.trials()) == 2)
    eventually(lambda: len(at.started()) == 2)
    at.step()
    assert [state for state, _ in at.trials()] == ["RUNNING", "RUNNING", "APPROVED", "APPROVED"]
    assert at.ledger.spending("b").reserved == 2.0
    at.let_go()
    assert at.finish() == "budget: 2 of 2 budget units are spent"
    assert [state for state, _ in at.trials()] == ["COMPLETED", "COMPLETED", "REJECTED", "REJECTED"]


def test_a_rejected_proposal_leaves_its_place_to_another_and_counts_to_no_limit(tmp_path):
    at = rig(tmp_path, human=True, algorithm={"start": {"n": 2}}, budget={"trials": 2})
    assert at.steps(lambda decision: decision.wait).wait == "person"
    assert main(["reject", "b-0001", "b-0002", "--reason", "out of reach"]) == 0
    assert at.steps(lambda decision: decision.wait).wait == "person"
    designs = [trial.design for trial in at.ledger.trials("b")]
    assert len({design["x"] for design in designs}) == 4, "the sequence goes on, and proposes none again"
    assert main(["approve", "b-0003", "b-0004"]) == 0
    assert at.finish() == "budget: 2 of 2 trials"
    assert [state for state, _ in at.trials()] == ["REJECTED", "REJECTED", "COMPLETED", "COMPLETED"]


def test_imported_trials_are_data_for_the_start_and_count_to_no_limit(tmp_path):
    at = rig(tmp_path, algorithm={"start": {"n": 3}}, budget={"trials": 3, "cost": 3.0})
    known = [Known(design={"x": x}, outputs={"value": x, "excess": -1.0}) for x in (0.25, 0.75)]
    at.ledger.adopt("b", known, "0" * 64, "import", "ana")
    assert at.step().proposed == 1, "one more completes the start"
    assert at.finish() == "budget: 3 of 3 trials"
    assert [trial.origin.kind for trial in at.ledger.trials("b")] == ["imported"] * 2 + ["initial"] * 3


def test_nine_tenths_of_a_limit_leave_one_notice(tmp_path):
    at = rig(tmp_path, budget={"trials": 20, "cost": 3.3, "unit": "EUR"})
    at.tell("answer 1", "answer 1", "wait")
    at.send(2)
    assert at.ledger.notices("b") == ()
    at.send(3)
    at.step()
    at.step()
    (notice,) = at.ledger.notices("b")
    assert (notice.event, notice.payload) == (
        "budget nearly spent",
        {"limits": [{"of": "cost", "used": 3.0, "limit": 3.3, "unit": "EUR"}]},
    )
    at.let_go()


def test_each_limit_says_in_words_what_it_leaves():
    budget, limits = Budget(trials=4, unit="EUR"), Limits(trials=4, cost=1.0, seconds=7200.0, attempt_seconds=600.0)

    def spent(**values):
        empty = {"trials": 0, "spent": 0.0, "reserved": 0.0, "seconds": 0.0, "seconds_reserved": 0.0}
        return Spending(**{**empty, **values})

    assert exhausted(limits, spent(), budget) is None
    assert exhausted(limits, spent(trials=4), budget) == "4 of 4 trials"
    assert exhausted(limits, spent(spent=0.5, reserved=0.5), budget) == "1 of 1 EUR are spent"
    assert exhausted(limits, spent(spent=sum([0.1] * 10)), budget) == "1 of 1 EUR are spent", "but for rounding"
    assert exhausted(limits, spent(spent=0.9), budget) is None
    assert exhausted(limits, spent(seconds=6600.0), budget) is None
    assert exhausted(limits, spent(seconds=6601.0), budget) == (
        "1.834 of 2 h of wall time are spent and the next trial could take 0.1667"
    )
    assert nearly_spent(limits, spent(trials=3, spent=0.8, seconds=6000.0), budget) is None
    assert nearly_spent(limits, spent(seconds=5880.0, seconds_reserved=600.0), budget) == {
        "limits": [{"of": "wall time", "used": 6480.0, "limit": 7200.0, "unit": "s"}]
    }


def test_a_trial_that_was_sent_before_needs_no_place_among_the_trials(tmp_path):
    at = rig(tmp_path, budget={"trials": 1})
    at.tell("raise")
    at.steps(lambda _: (at.present(1) and at.trial().state is TrialState.FAILED) or None)
    limits, spending = at.campaign.limits, at.ledger.spending("b")
    assert spending.trials == 1
    assert obstacle(at.trial(), limits, spending, at.campaign.spec.budget) is None
    unsent = at.trial().model_copy(update={"attempt": 0})
    assert obstacle(unsent, limits, spending, at.campaign.spec.budget) == "1 of 1 trials"


def test_nobody_charges_wall_time_for_people_and_what_a_late_result_cost_more_is_charged(tmp_path):
    at = rig(tmp_path, simulator=None, dispatcher={"kind": "lab"}, budget={"trials": 1, "cost": 100.0})
    at.steps(lambda decision: decision.wait == "laboratory")
    assert main(["cancel", "b-0001", "--reason", "the oven is needed"]) == 0
    assert (at.trial().spent, at.trial().seconds) == (1.0, 0.0)
    assert main(["record", "b-0001", "--value", "value=3", "--value", "excess=-1", "--cost", "50"]) == 0
    assert at.trials() == [("COMPLETED", None)]
    assert at.ledger.spending("b").spent == 50.0
    assert at.ledger.check() == []


@pytest.mark.parametrize("cost", [0.0, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("limits", [{"trials": 1}, {"cost": 1.5}, {"seconds": 3.0, "attempt_seconds": 2.0}])
def test_a_pass_expects_of_each_limit_what_the_ledger_then_enforces(tmp_path, cost, limits):
    ledger = open_ledger(tmp_path / "ledger.sqlite", create=True)
    known = Limits(**limits)
    ledger.create_campaign("b", {}, digest_of({}), {}, "test", known)
    origins = [Origin(kind="initial", algorithm="sobol", iteration=0, slot=slot) for slot in range(2)]
    proposals = [Proposal(design={"x": 0.5}, origin=origin, cost=cost) for origin in origins]
    for trial in ledger.propose("b", 0, proposals, "test"):
        approved = ledger.approve(trial.id, trial.expect, trial.digest, "test", "", "auto", 1)
        expected = obstacle(approved, known, ledger.spending("b"), Budget(trials=9))
        try:
            ledger.move(approved.id, TrialState.STAGED, approved.expect, "test", "")
            refused = False
        except BudgetSpent:
            refused = True
        assert refused is (expected is not None)
    assert refused is ("cost" not in limits or cost > 0.75)
