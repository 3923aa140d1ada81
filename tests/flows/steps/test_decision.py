"""What a pass decides: the stop rules by name, and for whom or what it waits."""

import pytest
from rig import eventually, rig

from fieldcraft.flows.cli import main
from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.run import awaited
from fieldcraft.flows.steps.decide import Decision
from fieldcraft.storage.records import Known

WORDS = {"surrogate": {"kind": "exact_gp"}, "acquisition": {"kind": "log_ei"}, "maximizer": {"kind": "multistart"}}
LAB = {"kind": "lab"}


@pytest.fixture(autouse=True)
def _plugins(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    monkeypatch.setenv("FIELDCRAFT_HOME", str(tmp_path / "home"))
    (tmp_path / "plugins").mkdir()


def test_a_target_is_reached_by_a_reading_that_meets_the_constraints(tmp_path):
    at = rig(tmp_path, budget={"trials": 9}, stop={"target": 5.0})
    at.tell("answer 4", "answer 6 0.5", "answer 5")
    assert at.finish() == "target: a result of 5 K reached 5 K"
    assert len(at.trials()) == 3


def test_no_improvement_counts_completed_trials_since_the_best_feasible_reading(tmp_path):
    at = rig(tmp_path, budget={"trials": 9}, stop={"no_improvement": 3})
    at.tell("answer 1 1", "answer 4", "answer 3", "raise", "answer 5", "answer 5", "answer 9 1", "answer 4")
    assert at.finish() == "no improvement: 3 completed trials in a row were no better than the best result of 5 K"
    assert len(at.trials()) == 8


def test_what_was_imported_is_the_best_reading_to_improve_on(tmp_path):
    at = rig(tmp_path, budget={"trials": 9}, stop={"no_improvement": 2})
    at.ledger.adopt("b", [Known(design={"x": 0.5}, outputs={"value": 7.0, "excess": -1.0})], "0" * 64, "import", "ana")
    at.tell("answer 6", "answer 7")
    assert at.finish() == "no improvement: 2 completed trials in a row were no better than the best result of 7 K"


def test_a_failure_rate_ends_a_campaign_whose_last_trials_fail(tmp_path):
    at = rig(tmp_path, budget={"trials": 9}, stop={"failure_rate": {"above": 0.5, "over": 4}})
    at.tell("raise", "answer 1", "infeasible", "answer 1", "answer 2", "raise", "infeasible", "raise")
    assert at.finish() == "failure rate: 3 of the last 4 trials failed, more than 0.5 of them"
    assert len(at.trials()) == 8


def test_what_a_person_cancelled_is_no_failure(tmp_path):
    at = rig(tmp_path, budget={"trials": 2}, stop={"failure_rate": {"above": 0.0, "over": 1}})
    at.tell("wait", "answer 1")
    at.send()
    assert main(["cancel", "b-0001", "--reason", "too slow"]) == 0
    assert at.finish() == "budget: 2 of 2 trials"


def test_a_start_of_which_every_design_is_infeasible_goes_on_until_one_is_feasible(tmp_path):
    at = rig(tmp_path, budget={"trials": 6}, algorithm={"start": {"n": 2}, **WORDS})
    at.tell("infeasible", "infeasible", "infeasible", "answer 4", "answer 5", "answer 6")
    assert at.finish() == "budget: 6 of 6 trials"
    made = at.ledger.trials("b")
    assert [trial.origin.kind for trial in made] == ["initial"] * 4 + [made[4].origin.kind] * 2 != ["initial"] * 6
    whole = at.campaign.algorithm.begin(at.campaign.space, 0, 4, stream(at.campaign.spec.seed, 0, Use.INITIAL))
    assert [trial.design for trial in made[:4]] == at.campaign.space.decode(whole)  # the sequence went on


@pytest.mark.parametrize(("start", "most"), [(2, 20), (5, 25)])
def test_a_start_that_finds_nothing_feasible_ends_by_its_name_in_the_end(tmp_path, start, most):
    at = rig(tmp_path, budget={"trials": 30}, batch=4, algorithm={"start": {"n": start}, **WORDS})
    at.tell(*["infeasible"] * most)
    assert at.finish() == f"failure: none of the first {most} trials succeeded, so there is nothing to learn from"


def test_a_start_that_failed_waits_for_a_person_who_may_have_it_repeated_or_give_it_up(tmp_path):
    at = rig(tmp_path, budget={"trials": 4}, algorithm={"start": {"n": 2}, **WORDS})
    at.tell("infeasible", "raise", "raise")
    assert at.steps(lambda decision: decision.wait == "person") == Decision(wait="person")
    assert str(awaited(at.campaign, at.ledger)) == (
        "Campaign 'b' waits. None of the first 2 trials succeeded, so there is nothing to learn from (all 2 trials "
        "failed, 1 of them: the mesh does not close); 'fieldcraft retry' or 'abandon' decides on what failed (b-0002). "
        "The same command then goes on; nothing is lost."
    )
    assert main(["retry", "b-0002"]) == 0
    assert at.steps(lambda decision: decision.wait == "person") == Decision(wait="person")
    assert at.trial(2).attempt == 2
    assert main(["abandon", "b-0002", "--reason", "the mesh is no good"]) == 0
    at.tell("answer 4", "answer 5")
    assert at.finish() == "budget: 4 of 4 trials"


def test_a_start_that_was_given_up_ends_by_its_name(tmp_path):
    at = rig(tmp_path, budget={"trials": 4}, algorithm={"start": {"n": 2}, **WORDS})
    at.tell("raise", "raise")
    assert at.steps(lambda decision: decision.wait == "person") == Decision(wait="person")
    assert main(["abandon", "b-0001", "b-0002", "--reason", "the mesh is no good"]) == 0
    assert at.finish() == "failure: none of the first 2 trials succeeded, so there is nothing to learn from"


def test_a_start_that_was_retracted_waits_for_its_correction(tmp_path):
    at = rig(tmp_path, budget={"trials": 2}, algorithm={"start": {"n": 1}, **WORDS}, simulator=None, dispatcher=LAB)
    at.steps(lambda decision: decision.wait == "laboratory")
    assert main(["record", "b-0001", "--value", "value=3", "--value", "excess=-1"]) == 0
    assert main(["retract", "b-0001", "--reason", "the gauge was off"]) == 0
    assert at.step().decision == Decision(wait="person")
    assert "'fieldcraft correct' gives a retracted one its result (b-0001)" in str(awaited(at.campaign, at.ledger))
    assert main(["correct", "b-0001", "--value", "value=2", "--value", "excess=-1", "--reason", "weighed again"]) == 0
    assert at.step().decision == Decision(propose=1, iteration=1, model=True)


def test_a_retracted_trial_counts_neither_way_towards_no_improvement(tmp_path):
    keys = {"algorithm": {"start": {"n": 3}}, "simulator": None, "dispatcher": LAB, "stop": {"no_improvement": 2}}
    at = rig(tmp_path, budget={"trials": 9}, **keys)
    at.steps(lambda decision: decision.wait == "laboratory")
    for number, value in ((1, 5), (2, 4), (3, 3)):
        assert main(["record", f"b-000{number}", "--value", f"value={value}", "--value", "excess=-1"]) == 0
    assert main(["retract", "b-0003", "--reason", "the gauge was off"]) == 0
    assert at.step().decision == Decision(propose=1, iteration=1)


def test_while_a_stop_rule_holds_nothing_more_is_sent_and_what_was_not_is_rejected_with_its_reason(tmp_path):
    at = rig(tmp_path, budget={"trials": 9}, algorithm={"start": {"n": 4}}, stop={"target": 5.0})
    at.tell("answer 6")
    reason = at.finish()
    assert reason == "target: a result of 6 K reached 5 K"
    assert [state for state, _ in at.trials()] == ["COMPLETED", "REJECTED", "REJECTED", "REJECTED"]
    assert at.ledger.history("b", "b-0004")[-1].reason == reason
    assert len(at.started()) == 1


def test_a_failure_in_passing_that_goes_again_is_no_failure_yet(tmp_path):
    at = rig(tmp_path, budget={"trials": 2}, stop={"failure_rate": {"above": 0.0, "over": 1}})
    at.tell("transient", "answer 1", "answer 2")
    assert at.finish() == "budget: 2 of 2 trials"


def test_a_stop_rule_waits_for_a_trial_that_is_held(tmp_path):
    at = rig(tmp_path, budget={"trials": 9}, algorithm={"start": {"n": 3}}, stop={"target": 5.0})
    at.tell("die", "answer 6")
    assert at.steps(lambda decision: decision.wait == "person") == Decision(wait="person")
    assert [state for state, _ in at.trials()] == ["HELD", "COMPLETED", "APPROVED"]
    assert main(["abandon", "b-0001", "--reason", "nobody can tell"]) == 0
    assert at.finish() == "target: a result of 6 K reached 5 K"


def test_trials_that_are_out_finish_before_a_stop_rule_ends_the_campaign(tmp_path):
    at = rig(
        tmp_path,
        budget={"trials": 9},
        algorithm={"start": {"n": 2}},
        stop={"target": 5.0},
        dispatcher={"parallel": 2},
    )
    at.tell("answer 6", "wait")
    at.steps(lambda _: sorted(state for state, _ in at.trials()) == ["COMPLETED", "RUNNING"])
    assert at.step().decision == Decision(wait="simulations")
    at.let_go()
    assert at.finish() == "target: a result of 6 K reached 5 K"
    assert [state for state, _ in at.trials()] == ["COMPLETED", "COMPLETED"]


def test_a_stop_rule_rejects_proposals_that_wait_for_a_person_and_does_not_wait_for_them(tmp_path):
    at = rig(tmp_path, human=True, budget={"trials": 9}, algorithm={"start": {"n": 2}}, stop={"target": 5.0})
    at.tell("answer 6")
    assert at.steps(lambda decision: decision.wait) == Decision(wait="person")
    assert main(["approve", "b-0001"]) == 0
    assert at.finish() == "target: a result of 6 K reached 5 K"
    assert [state for state, _ in at.trials()] == ["COMPLETED", "REJECTED"]
    assert at.ledger.history("b", "b-0002")[-1].reason == "target: a result of 6 K reached 5 K"


def test_a_campaign_with_proposals_and_a_simulation_waits_for_the_simulation(tmp_path):
    at = rig(tmp_path, human=True, algorithm={"start": {"n": 2}})
    at.tell("wait")
    at.step()
    assert main(["approve", "b-0001"]) == 0
    assert at.step().decision == Decision(wait="simulations")
    eventually(lambda: at.started())
    at.let_go()
    assert at.steps(lambda decision: decision.wait != "simulations") == Decision(wait="person")
    assert [state for state, _ in at.trials()] == ["COMPLETED", "PROPOSED"]


def test_a_batch_of_which_one_trial_is_undecided_waits_for_a_person(tmp_path):
    at = rig(tmp_path, approval="batch", algorithm={"start": {"n": 2}})
    at.step()
    first = at.trial(1)
    at.ledger.approve(first.id, first.expect, first.digest, "ana", "", "manual", 1, code=at.code)
    assert at.step().decision == Decision(wait="person")
    assert [state for state, _ in at.trials()] == ["APPROVED", "PROPOSED"]


def test_an_ended_campaign_sends_nothing_more_and_says_why_it_ended(tmp_path):
    at = rig(tmp_path, budget={"trials": 1})
    reason, history = at.finish(), len(at.ledger.history("b"))
    assert at.step().decision == Decision(finished=reason)
    assert len(at.ledger.history("b")) == history


def test_a_laboratory_is_not_waited_for(tmp_path):
    at = rig(tmp_path, simulator=None, dispatcher={"kind": "lab"}, algorithm={"start": {"n": 3}}, budget={"trials": 3})
    decision = at.steps(lambda decision: decision.wait)
    assert decision == Decision(wait="laboratory")
    assert at.trials() == [("RUNNING", None)] * 3, "people take as many orders as there are"
