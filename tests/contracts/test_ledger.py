"""The contract of ``storage.ledger.Ledger``, on every back end."""

import math
from pathlib import Path

import pytest
from ledgers import BACKENDS, SPEC, S, approve, begin, everything, finish_trial, proposal, step, trial_in

from fieldcraft.storage.ledger import (
    ForbiddenMove,
    InvalidRecord,
    Ledger,
    LedgerError,
    SpecChanged,
    StaleTrial,
    UnknownCampaign,
    UnknownTrial,
)
from fieldcraft.storage.records import TRANSITIONS, FieldRef, TrialState, digest_of, trial_digest

FIELD = FieldRef(digest="ab" * 32, size=1000)


@pytest.fixture(params=BACKENDS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return BACKENDS[request.param](tmp_path)


def test_a_campaign_is_created_once_and_told_to_tracking_once(ledger):
    begin(ledger)
    before = everything(ledger)
    begin(ledger)
    assert everything(ledger) == before
    assert [item.kind for item in ledger.pending()] == ["campaign"]
    assert [event.action for event in ledger.history("heat")] == ["create"]
    campaign = ledger.campaign("heat")
    assert (campaign.spec, campaign.environment, campaign.finished) == (SPEC, {"commit": "abc"}, None)


def test_a_campaign_with_another_specification_is_refused_and_the_stored_one_is_shown(ledger):
    begin(ledger)
    changed = SPEC | {"seed": 8}
    with pytest.raises(SpecChanged, match="another specification") as caught:
        ledger.create_campaign("heat", changed, digest_of(changed), {}, by="test")
    assert caught.value.stored == SPEC
    assert ledger.campaign("heat").spec == SPEC


@pytest.mark.parametrize("name", ["", ":exporter", "a/b", "-x", "a" * 101])
def test_a_name_that_is_none_is_refused(ledger, name):
    with pytest.raises(InvalidRecord, match=r"name = .* cannot be stored"):
        ledger.create_campaign(name, SPEC, digest_of(SPEC), {}, by="test")
    assert ledger.campaigns() == ()


def test_a_specification_is_refused_with_another_digest_and_when_it_is_not_json(ledger):
    with pytest.raises(InvalidRecord, match="is not that of its specification"):
        ledger.create_campaign("heat", SPEC, digest_of({}), {}, by="test")
    with pytest.raises(InvalidRecord, match="is not JSON"):
        ledger.create_campaign("heat", {"noise": math.nan}, digest_of(SPEC), {}, by="test")
    with pytest.raises(InvalidRecord, match="is not JSON"):
        ledger.create_campaign("heat", SPEC, digest_of(SPEC), {"path": object()}, by="test")
    assert ledger.campaigns() == ()


def test_what_the_ledger_does_not_hold_is_named(ledger):
    begin(ledger)
    with pytest.raises(UnknownCampaign, match=r"no campaign 'heet'\. Known: heat"):
        ledger.campaign("heet")
    with pytest.raises(UnknownCampaign, match="no campaign 'heet'"):
        ledger.trials("heet")
    with pytest.raises(UnknownCampaign, match="no campaign 'heet'"):
        ledger.propose("heet", 0, [proposal()], "test")
    with pytest.raises(UnknownTrial, match="no trial 'heat-0001'"):
        ledger.trial("heat-0001")
    with pytest.raises(UnknownTrial, match="no trial 'heat-0001'"):
        ledger.move("heat-0001", S.REJECTED, (S.PROPOSED, 1), "test", "")


def test_a_finished_campaign_keeps_its_first_reason(ledger):
    begin(ledger)
    assert (
        ledger.finish("heat", "the budget of 30 trials is spent", "pass").finished == "the budget of 30 trials is spent"
    )
    before = everything(ledger)
    assert ledger.finish("heat", "another reason", "pass").finished == "the budget of 30 trials is spent"
    assert everything(ledger) == before
    assert [item.kind for item in ledger.pending()] == ["campaign", "finish"]


def test_trials_are_numbered_on_and_proposing_an_iteration_again_writes_nothing(ledger):
    begin(ledger)
    first = ledger.propose("heat", 0, [proposal(0), proposal(1)], "test")
    second = ledger.propose("heat", 1, [proposal(0, 1)], "test")
    assert [t.id for t in first + second] == ["heat-0001", "heat-0002", "heat-0003"]
    assert [(t.iteration, t.slot) for t in first + second] == [(0, 0), (0, 1), (1, 0)]
    before = everything(ledger)
    again = ledger.propose("heat", 0, [proposal(0, x=9.0)], "test")
    assert again == first
    assert everything(ledger) == before


def test_an_iteration_without_proposals_is_refused(ledger):
    begin(ledger)
    with pytest.raises(InvalidRecord, match="has no proposals"):
        ledger.propose("heat", 0, [], "test")


def test_a_proposal_that_is_refused_leaves_none_of_its_iteration(ledger):
    begin(ledger)
    bad = proposal(1).model_copy(update={"design": {"x": object()}})
    with pytest.raises((InvalidRecord, TypeError), match=r"not JSON serializable|cannot be stored"):
        ledger.propose("heat", 0, [proposal(0), bad], "test")
    assert ledger.trials("heat") == ()
    assert [event.action for event in ledger.history("heat")] == ["create"]


@pytest.mark.parametrize("value", [0.1 + 0.2, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 3, 3.0, 2**60, "café"])
def test_a_design_comes_back_bit_for_bit(ledger, value):
    begin(ledger)
    stored = ledger.propose("heat", 0, [proposal(x=value, b=1.0, a=2.0)], "test")[0]
    read = ledger.trial(stored.id)
    assert repr(read.design["x"]) == repr(value)
    assert list(read.design) == ["x", "b", "a"]
    assert read.digest == trial_digest(read.design, digest_of(SPEC))


@pytest.mark.parametrize("value", [0.1 + 0.2, 5e-324, -0.0, 1e300])
def test_an_output_comes_back_bit_for_bit(ledger, value):
    trial = finish_trial(ledger, trial_in(ledger, S.RUNNING), value)
    assert repr(ledger.trial(trial.id).outputs) == repr({"y": value})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_an_output_that_is_no_number_is_refused_and_changes_nothing(ledger, value):
    trial = trial_in(ledger, S.RUNNING)
    before = everything(ledger)
    with pytest.raises(InvalidRecord, match=r"Result of heat-0001: outputs\.y = .* cannot be stored"):
        finish_trial(ledger, trial, value)
    assert everything(ledger) == before


def test_a_result_without_outputs_or_with_details_that_are_not_json_is_refused(ledger):
    trial = trial_in(ledger, S.RUNNING)
    before = everything(ledger)
    with pytest.raises(InvalidRecord, match="without outputs"):
        ledger.record(trial.id, trial.expect, {}, None, "test", "local", {})
    with pytest.raises(InvalidRecord, match="not JSON"):
        ledger.record(trial.id, trial.expect, {"y": 1.0}, None, "test", "local", {"wall": math.nan})
    with pytest.raises(InvalidRecord, match="not JSON"):
        ledger.move(trial.id, S.HELD, trial.expect, "test", "", handle={"job": object()})
    assert everything(ledger) == before


@pytest.mark.parametrize("before", TrialState)
def test_a_move_is_made_exactly_when_the_table_has_it(ledger, before):
    for iteration, to in enumerate(TrialState):
        trial = trial_in(ledger, before, iteration=iteration)
        told = everything(ledger)
        if to in TRANSITIONS[before]:
            moved = go(ledger, trial, to)
            assert (moved.state, moved.version) == (to, trial.version + 1)
            assert ledger.trial(trial.id) == moved
            last = ledger.history("heat", trial.id)[-1]
            assert (last.before, last.after, last.version) == (before, to, moved.version)
        else:
            with pytest.raises(ForbiddenMove, match=f"{trial.id} cannot go from {before} to {to}"):
                step(ledger, trial, to)
            assert everything(ledger) == told
    assert ledger.check() == []


def go(ledger, trial, to):
    doors = {S.COMPLETED: finish_trial, S.APPROVED: approve}
    return doors[to](ledger, trial) if to in doors else step(ledger, trial, to)


def test_a_result_of_a_staged_trial_waits_until_it_runs(ledger):
    trial = trial_in(ledger, S.STAGED)
    with pytest.raises(ForbiddenMove, match="heat-0001 is only STAGED: move it to RUNNING"):
        finish_trial(ledger, trial)
    assert ledger.results(trial.id) == ()


def test_of_two_that_move_from_the_same_snapshot_the_second_is_told_where_the_trial_stands(ledger):
    trial = trial_in(ledger, S.APPROVED)
    staged = step(ledger, trial, S.STAGED)
    before = everything(ledger)
    for late in (
        lambda: ledger.move(trial.id, S.RUNNING, (S.STAGED, staged.version - 1), "test", ""),
        lambda: step(ledger, trial, S.REJECTED),
        lambda: approve(ledger, trial),
        lambda: finish_trial(ledger, trial),
    ):
        with pytest.raises(StaleTrial, match=f"it is STAGED at version {staged.version}") as caught:
            late()
        assert caught.value.now == (S.STAGED, staged.version)
    assert everything(ledger) == before


def test_completing_and_approving_have_no_side_door(ledger):
    trial = trial_in(ledger, S.PROPOSED)
    with pytest.raises(ForbiddenMove, match="without an approval"):
        step(ledger, trial, S.APPROVED)
    running = trial_in(ledger, S.RUNNING, iteration=1)
    with pytest.raises(ForbiddenMove, match="without a result"):
        step(ledger, running, S.COMPLETED)


def test_a_failure_has_a_kind_and_only_a_failure_has(ledger):
    trial = trial_in(ledger, S.RUNNING)
    with pytest.raises(ForbiddenMove, match="give the kind of failure"):
        ledger.move(trial.id, S.FAILED, trial.expect, "test", "the mesh diverged")
    with pytest.raises(ForbiddenMove, match="give the kind of failure"):
        ledger.move(trial.id, S.HELD, trial.expect, "test", "", failure="unknown")
    failed = ledger.move(trial.id, S.FAILED, trial.expect, "test", "the mesh diverged", failure="infeasible")
    assert failed.failure == "infeasible"
    retried = step(ledger, failed, S.APPROVED)
    assert retried.failure is None


def test_the_handle_is_kept_until_the_next_attempt(ledger):
    trial = step(ledger, trial_in(ledger, S.STAGED), S.RUNNING, handle={"pid": 7})
    held = step(ledger, trial, S.HELD)
    assert held.handle == {"pid": 7}
    staged = step(ledger, step(ledger, held, S.APPROVED), S.STAGED)
    assert (staged.handle, staged.attempt) == (None, 2)


def test_an_approval_is_for_exactly_what_will_run(ledger):
    trial = trial_in(ledger, S.PROPOSED)
    with pytest.raises(ForbiddenMove, match="what would run has the digest"):
        ledger.approve(trial.id, trial.expect, "0" * 64, "test", "", "manual", 1)
    with pytest.raises(InvalidRecord, match="for 0 attempts"):
        approve(ledger, trial, attempts=0)
    assert ledger.approvals(trial.id) == ()
    approved = approve(ledger, trial)
    (approval,) = ledger.approvals(trial.id)
    assert (approval.digest, approval.attempts, approval.version) == (trial.digest, 2, approved.version)
    assert (approval.by, approval.comment, approval.policy, approval.live) == ("test", "looks right", "manual", True)


def test_going_back_to_proposed_voids_the_approval(ledger):
    trial = step(ledger, trial_in(ledger, S.APPROVED), S.PROPOSED)
    (approval,) = ledger.approvals(trial.id)
    assert not approval.live
    assert approval.voided == "moved to PROPOSED: to PROPOSED"
    again = approve(ledger, trial)
    assert [a.live for a in ledger.approvals(trial.id)] == [False, True]
    assert step(ledger, again, S.STAGED).attempt == 1


def test_a_retry_runs_under_the_same_approval_up_to_its_attempts(ledger):
    trial = trial_in(ledger, S.FAILED, attempts=2)
    trial = step(ledger, step(ledger, trial, S.APPROVED), S.STAGED)
    assert trial.attempt == 2
    failed = step(ledger, trial, S.FAILED)
    with pytest.raises(ForbiddenMove, match="2 of the 2 attempts approved are used up"):
        step(ledger, failed, S.APPROVED)
    fresh = approve(ledger, failed, attempts=1)
    assert [a.live for a in ledger.approvals(trial.id)] == [False, True]
    assert step(ledger, fresh, S.STAGED).attempt == 3


def test_every_settled_trial_is_told_to_tracking_in_order(ledger):
    for iteration, state in enumerate([S.REJECTED, S.COMPLETED, S.FAILED, S.ABANDONED]):
        trial_in(ledger, state, iteration=iteration)
    items = ledger.pending("heat")
    told = [(item.kind, item.payload.get("id"), item.payload.get("state")) for item in items]
    assert told == [
        ("campaign", None, None),
        ("trial", "heat-0001", "REJECTED"),
        ("trial", "heat-0002", "COMPLETED"),
        ("trial", "heat-0003", "FAILED"),
        ("trial", "heat-0004", "ABANDONED"),
    ]
    assert items[2].payload["outputs"] == {"y": 1.5}


def test_an_exported_item_leaves_the_outbox_and_the_others_stay(ledger):
    begin(ledger)
    begin(ledger, "other")
    first, second = ledger.pending()
    assert ledger.pending(limit=1) == (first,)
    assert ledger.pending("other") == (second,)
    ledger.exported(first.id, "run-1")
    ledger.exported(first.id, "run-2")
    assert ledger.pending() == (second,)
    assert ledger.tracked("heat") == {"campaign": "run-1"}


def test_the_tracking_run_of_a_campaign_a_trial_and_a_model_is_told(ledger):
    trial_in(ledger, S.COMPLETED)
    ledger.note("heat", 3, "train", {"loss": 0.5}, None)
    begin(ledger, "other")
    assert ledger.tracked("heat") == {}
    for item, run in zip(ledger.pending(), ["run-c", "run-t", None, "run-o"], strict=True):
        ledger.exported(item.id, run)
    assert ledger.tracked("heat") == {"campaign": "run-c", "trial:heat-0001": "run-t"}
    ledger.note("heat", 4, "train", {"loss": 0.25}, None)
    ledger.exported(ledger.pending("heat")[0].id, "run-m")
    assert ledger.tracked("heat")["surrogate:4"] == "run-m"


def test_a_product_is_noted_once_and_the_first_holds(ledger):
    begin(ledger)
    first = ledger.note("heat", 0, "train", {"metrics": {"loss": 0.125}}, FIELD)
    before = everything(ledger)
    assert ledger.note("heat", 0, "train", {"metrics": {"loss": 9.0}}, None) == first
    assert everything(ledger) == before
    assert ledger.product("heat", 0, "train") == first
    assert ledger.product("heat", 0, "collocate") is None
    assert first.ref.digest == first.digest
    ledger.note("heat", 0, "collocate", {"n": 64}, FIELD)
    assert [p.step for p in ledger.products("heat")] == ["collocate", "train"]
    assert [item.kind for item in ledger.pending()] == ["campaign", "surrogate"]
    assert ledger.pending()[1].payload["payload"] == {"metrics": {"loss": 0.125}}


def test_entries_of_all_products_of_a_step_are_read_without_the_rest(ledger):
    begin(ledger)
    told = {"seconds": 0.125, "remarks": {"fit": "twice"}, "trials": ["heat-0001"]}
    ledger.note("heat", 0, "train", told, FIELD)
    ledger.note("heat", 3, "train", {"seconds": 2.0, "metrics": {"loss": 0.1}}, None)
    ledger.note("heat", 3, "acquire", {"seconds": 9.0}, None)
    assert ledger.extracts("heat", "train", ("seconds", "remarks", "metrics")) == {
        0: {"seconds": 0.125, "remarks": {"fit": "twice"}, "metrics": None},
        3: {"seconds": 2.0, "remarks": None, "metrics": {"loss": 0.1}},
    }
    assert ledger.extracts("heat", "collocate", ("n",)) == {}
    with pytest.raises(UnknownCampaign, match="no campaign 'cold'"):
        ledger.extracts("cold", "train", ("seconds",))


def test_a_product_that_is_not_json_or_of_no_step_is_refused(ledger):
    begin(ledger)
    with pytest.raises(InvalidRecord, match="its payload is not JSON"):
        ledger.note("heat", 0, "train", {"loss": math.inf}, None)
    with pytest.raises(InvalidRecord, match="step = 'tarin' cannot be stored"):
        ledger.note("heat", 0, "tarin", {}, None)
    assert ledger.products("heat") == ()


def test_trials_are_found_by_state_and_iteration(ledger):
    for iteration, state in enumerate([S.COMPLETED, S.PROPOSED, S.COMPLETED]):
        trial_in(ledger, state, iteration=iteration)
    assert [t.number for t in ledger.trials("heat", states=[S.COMPLETED])] == [1, 3]
    assert [t.number for t in ledger.trials("heat", states={S.COMPLETED}, iteration=2)] == [3]
    assert ledger.trials("heat", states=()) == ()
    assert [t.number for t in ledger.trials("heat")] == [1, 2, 3]


def test_the_history_tells_every_move_with_its_author_and_reason(ledger):
    trial = trial_in(ledger, S.COMPLETED)
    trial_in(ledger, S.PROPOSED, iteration=1)
    told = [(e.action, e.before, e.after, e.version) for e in ledger.history("heat", trial.id)]
    assert told == [
        ("propose", None, S.PROPOSED, 1),
        ("approve", S.PROPOSED, S.APPROVED, 2),
        ("move", S.APPROVED, S.STAGED, 3),
        ("move", S.STAGED, S.RUNNING, 4),
        ("record", S.RUNNING, S.COMPLETED, 5),
    ]
    assert [e.reason for e in ledger.history("heat", trial.id)] == [
        "sobol",
        "looks right",
        "to STAGED",
        "to RUNNING",
        "local",
    ]
    assert len(ledger.history("heat")) == 7


def test_two_campaigns_in_one_ledger_do_not_mix(ledger):
    begin(ledger, "a")
    begin(ledger, "b")
    ledger.propose("a", 0, [proposal()], "test")
    ledger.propose("b", 0, [proposal(x=2.0)], "test")
    assert [t.id for t in ledger.trials("a")] == ["a-0001"]
    assert [t.id for t in ledger.trials("b")] == ["b-0001"]
    assert [c.name for c in ledger.campaigns()] == ["a", "b"]


def test_every_error_of_the_ledger_is_a_ledger_error(ledger):
    with pytest.raises(LedgerError, match=r"no campaign 'x'\. Known: none"):
        ledger.finish("x", "", "test")
