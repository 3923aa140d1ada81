"""What people decide: several trials at once, edits, priorities, approvals that expire. On every back end."""

import math
import time
from pathlib import Path

import pytest
from ledgers import BACKENDS, SPEC, S, approve, begin, edit, everything, grant, proposal, step, trial_in

from fieldcraft.storage.code import Code
from fieldcraft.storage.ledger import ForbiddenMove, InvalidRecord, Ledger, StaleTrial
from fieldcraft.storage.records import Trial, digest_of, trial_digest


@pytest.fixture(params=BACKENDS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return BACKENDS[request.param](tmp_path)


def three(ledger: Ledger) -> tuple[Trial, ...]:
    begin(ledger)
    return ledger.propose("heat", 0, [proposal(slot) for slot in range(3)], "test")


def approve_all(ledger: Ledger, trials: tuple[Trial, ...], attempts: int = 1) -> tuple[Trial, ...]:
    return ledger.approve_all([grant(trial) for trial in trials], "ann", "as a batch", "batch", attempts)


def test_several_trials_are_approved_together_in_the_order_given(ledger):
    trials = three(ledger)
    approved = approve_all(ledger, trials[::-1])
    assert [(t.id, t.state) for t in approved] == [(f"heat-000{n}", S.APPROVED) for n in (3, 2, 1)]
    assert {ledger.approvals(t.id)[0].comment for t in trials} == {"as a batch"}


def test_a_decision_on_several_trials_is_made_for_all_or_for_none(ledger):
    trials = three(ledger)
    step(ledger, trials[2], S.REJECTED)
    before = everything(ledger)
    with pytest.raises(StaleTrial, match="heat-0003 is no longer PROPOSED at version 1"):
        approve_all(ledger, trials)
    with pytest.raises(StaleTrial, match="heat-0003 is no longer PROPOSED at version 1"):
        ledger.reject_all([grant(trial) for trial in trials], "ann", "no")
    changed = grant(trials[1]).model_copy(update={"digest": "0" * 64})
    with pytest.raises(ForbiddenMove, match="heat-0002 names the digest 0000"):
        ledger.reject_all([grant(trials[0]), changed], "ann", "no")
    with pytest.raises(InvalidRecord, match="for 0 attempts"):
        approve_all(ledger, trials[:2], attempts=0)
    assert everything(ledger) == before


def test_a_decision_on_no_trial_or_on_one_twice_is_refused(ledger):
    trials = three(ledger)
    for decide in (
        lambda grants: ledger.approve_all(grants, "ann", "", "manual", 1),
        lambda grants: ledger.reject_all(grants, "ann", ""),
    ):
        with pytest.raises(InvalidRecord, match="names no trial"):
            decide([])
        with pytest.raises(InvalidRecord, match="heat-0001 more than once"):
            decide([grant(trials[0]), grant(trials[1]), grant(trials[0])])
    assert {trial.state for trial in ledger.trials("heat")} == {S.PROPOSED}


def test_several_trials_are_rejected_together_and_what_was_approved_no_longer_is(ledger):
    first, second, _ = three(ledger)
    first = approve(ledger, first)
    rejected = ledger.reject_all([grant(first), grant(second)], "ann", "too hot")
    assert {trial.state for trial in rejected} == {S.REJECTED}
    assert [approval.live for approval in ledger.approvals(first.id)] == [False]
    assert ledger.history("heat", second.id)[-1].reason == "too hot"
    assert [item.kind for item in ledger.pending()] == ["campaign", "trial", "trial"]
    assert ledger.check() == []


def test_a_trial_is_staged_for_the_code_that_was_approved_and_for_no_other(ledger):
    begin(ledger)
    first, second = ledger.propose("heat", 0, [proposal(0), proposal(1)], "test")
    code = Code(files={"simulators/rod.py": "1" * 64, "problems/rod.py": "2" * 64})
    other = Code(files={"simulators/rod.py": "3" * 64, "problems/rod.py": "2" * 64})
    terms = ("ann", "", "manual", 2)
    first = ledger.approve(first.id, first.expect, first.digest, *terms, code=code)
    ledger.approve_all([grant(second)], *terms, code=code)
    assert set(ledger.unused("heat")) == {first.id, second.id}
    for wrong, why in ((other, r"simulators/rod\.py changed since"), (None, "which one that is was not said")):
        with pytest.raises(ForbiddenMove, match=rf"by ann does not cover the code that would run \({why}\)"):
            step(ledger, first, S.STAGED, code=wrong)
    failed = step(ledger, step(ledger, first, S.STAGED, code=code), S.FAILED)
    again = step(ledger, failed, S.APPROVED)
    with pytest.raises(ForbiddenMove, match=r"simulators/rod\.py changed since"):
        step(ledger, again, S.STAGED, code=other)
    asked = step(ledger, again, S.PROPOSED)
    fresh = ledger.approve(asked.id, asked.expect, asked.digest, *terms, code=other)
    assert step(ledger, fresh, S.STAGED, code=other).attempt == 2
    assert [approval.code for approval in ledger.approvals(first.id)] == [code.digest, other.digest]
    assert ledger.codes("heat") == {code.digest: code, other.digest: other}
    assert [event.action for event in ledger.history("heat")].count("code") == 2, "each is written down once"
    assert ledger.last_approved("heat").details["code"] == other.digest
    assert set(ledger.unused("heat")) == {second.id}
    assert ledger.check() == []


def test_an_approval_that_says_nothing_of_the_code_covers_none(ledger):
    trial = approve(ledger, trial_in(ledger, S.PROPOSED))
    assert ledger.approvals(trial.id)[0].code is None
    with pytest.raises(ForbiddenMove, match=r"does not cover the code that would run \(it does not say which\)"):
        step(ledger, trial, S.STAGED, code=Code(files={"problems/rod.py": "2" * 64}))
    assert step(ledger, trial, S.STAGED).state is S.STAGED


def test_nothing_is_staged_or_retried_under_an_approval_that_has_expired(ledger):
    trial = approve(ledger, trial_in(ledger, S.PROPOSED), expires=time.time() - 1800.0)
    with pytest.raises(ForbiddenMove, match=r"its approval by test expired 0\.5 h ago\. Approve it again"):
        step(ledger, trial, S.STAGED)
    back = step(ledger, trial, S.PROPOSED)
    kept = approve(ledger, back, expires=time.time() + 3600.0)
    assert step(ledger, kept, S.STAGED).attempt == 1
    failed = trial_in(ledger, S.FAILED, iteration=1)
    expired = step(ledger, approve(ledger, failed, expires=time.time() - 1.0), S.PROPOSED)
    assert not any(approval.live for approval in ledger.approvals(expired.id))


def test_an_approval_keeps_when_it_expires_and_that_is_a_time(ledger):
    trial = trial_in(ledger, S.PROPOSED)
    with pytest.raises(InvalidRecord, match=r"Approval of heat-0001: expires = nan cannot be stored"):
        approve(ledger, trial, expires=math.nan)
    approve(ledger, trial, expires=2e9)
    assert ledger.approvals(trial.id)[0].expires == 2e9


def test_an_edit_is_a_new_revision_linked_to_what_was_proposed(ledger):
    trial = trial_in(ledger, S.PROPOSED)
    after = ledger.edit(trial.id, trial.expect, {"n": 4, "material": "steel", "x": 0.75}, 2.5, "ann", "finer")
    assert dict(after.design) == {"x": 0.75, "n": 4, "material": "steel"} and list(after.design) == list(trial.design)
    assert (after.revision, after.version, after.state, after.cost) == (2, 2, S.PROPOSED, 2.5)
    assert after.origin == trial.origin
    assert after.digest == trial_digest(after.design, digest_of(SPEC)) != trial.digest
    event = ledger.history("heat", trial.id)[-1]
    assert (event.action, event.by, event.reason) == ("edit", "ann", "finer")
    assert event.details == {
        "revision": 2,
        "was": dict(trial.design),
        "design": dict(after.design),
        "digest": after.digest,
        "cost": 2.5,
    }
    assert ledger.check() == []


def test_an_edit_voids_the_approval_and_only_what_it_is_now_can_be_approved(ledger):
    approved = trial_in(ledger, S.APPROVED)
    edited = edit(ledger, approved)
    assert edited.state is S.PROPOSED
    assert [approval.voided for approval in ledger.approvals(edited.id)] == ["edited: a better place"]
    with pytest.raises(ForbiddenMove, match="cannot go from PROPOSED to STAGED"):
        step(ledger, edited, S.STAGED)
    with pytest.raises(ForbiddenMove, match="what would run has the digest"):
        ledger.approve(edited.id, edited.expect, approved.digest, "ann", "", "manual", 1)
    staged = step(ledger, approve(ledger, edited), S.STAGED)
    assert staged.design["x"] == 0.75
    again = edit(ledger, edit(ledger, trial_in(ledger, S.PROPOSED, iteration=1)), x=0.5)
    assert again.revision == 3
    assert ledger.check() == []


@pytest.mark.parametrize("state", sorted(set(S) - {S.PROPOSED, S.APPROVED}))
def test_what_was_sent_or_settled_cannot_be_edited(ledger, state):
    trial = trial_in(ledger, state)
    before = everything(ledger)
    with pytest.raises(ForbiddenMove, match=f"heat-0001 is {state} and cannot be edited"):
        edit(ledger, trial)
    assert everything(ledger) == before


def test_an_edit_that_is_none_or_of_other_variables_or_of_a_stale_trial_changes_nothing(ledger):
    trial = trial_in(ledger, S.PROPOSED)
    before = everything(ledger)
    with pytest.raises(ForbiddenMove, match="is this one already"):
        edit(ledger, trial, x=trial.design["x"])
    with pytest.raises(InvalidRecord, match="has the variables x, n, material, and the edited one has x"):
        ledger.edit(trial.id, trial.expect, {"x": 0.5}, 1.0, "ann", "")
    with pytest.raises(InvalidRecord, match=r"design\.x.* = nan cannot be stored"):
        edit(ledger, trial, x=math.nan)
    with pytest.raises(InvalidRecord, match=r"cost = -1.0 cannot be stored"):
        ledger.edit(trial.id, trial.expect, {**trial.design, "x": 0.5}, -1.0, "ann", "")
    with pytest.raises(StaleTrial, match="is no longer PROPOSED at version 7"):
        ledger.edit(trial.id, (S.PROPOSED, 7), {**trial.design, "x": 0.5}, 1.0, "ann", "")
    assert everything(ledger) == before


def test_a_priority_is_set_without_touching_the_approval(ledger):
    trial = trial_in(ledger, S.APPROVED)
    urgent = ledger.prioritise(trial.id, 5, "ann", "the oven is free")
    assert (urgent.priority, urgent.expect) == (5, trial.expect)
    ledger.prioritise(trial.id, 5, "ann", "again")
    told = [e for e in ledger.history("heat", trial.id) if e.action == "prioritise"]
    assert [(e.by, e.reason, e.details) for e in told] == [("ann", "the oven is free", {"priority": 5, "was": 0})]
    assert step(ledger, trial, S.STAGED).priority == 5
    with pytest.raises(InvalidRecord, match="priority = 1000001 cannot be stored"):
        ledger.prioritise(trial.id, 1_000_001, "ann", "")
    assert ledger.check() == []


def test_a_priority_for_a_revision_is_refused_once_the_trial_was_edited(ledger):
    trial = trial_in(ledger, S.PROPOSED)
    edited = edit(ledger, trial)
    with pytest.raises(StaleTrial, match="was edited: it has revision 2, and 1 was seen"):
        ledger.prioritise(trial.id, 5, "ann", "", revision=1)
    assert ledger.trial(trial.id) == edited
    assert ledger.prioritise(trial.id, 5, "ann", "", revision=2).priority == 5


@pytest.mark.parametrize("state", [S.COMPLETED, S.FAILED, S.ABANDONED, S.REJECTED])
def test_a_settled_trial_has_no_priority_any_more(ledger, state):
    trial = trial_in(ledger, state)
    with pytest.raises(ForbiddenMove, match=f"heat-0001 is {state}: it is sent no more"):
        ledger.prioritise(trial.id, 1, "ann", "")


def test_the_latest_pick_counts_and_a_repeated_one_changes_nothing(ledger):
    trial = trial_in(ledger, S.COMPLETED)
    assert ledger.picked("heat") is None
    ledger.pick(trial.id, trial.expect, "ana", "cheap", {"rule": "by name"})
    once = everything(ledger)
    ledger.pick(trial.id, trial.expect, "ana", "cheap", {"rule": "by name"})
    assert everything(ledger) == once
    ledger.pick(trial.id, trial.expect, "ben", "stiff", {"rule": "the knee"})
    picked = ledger.picked("heat")
    assert (picked.trial, picked.by, picked.reason, picked.version) == (trial.id, "ben", "stiff", trial.version)
    assert picked.details == {"how": {"rule": "the knee"}, "outputs": dict(trial.outputs)}
    assert [event.by for event in ledger.history("heat") if event.action == "pick"] == ["ana", "ben"]
    assert [item.kind for item in ledger.pending("heat")].count("pick") == 2
    assert ledger.trial(trial.id) == trial and ledger.check() == []


def test_a_pick_of_what_has_changed_or_has_no_result_is_refused(ledger):
    trial = trial_in(ledger, S.COMPLETED)
    before = everything(ledger)
    with pytest.raises(StaleTrial, match="is no longer COMPLETED at version 99"):
        ledger.pick(trial.id, (S.COMPLETED, 99), "ana", "cheap", {})
    with pytest.raises(InvalidRecord, match="is not JSON"):
        ledger.pick(trial.id, trial.expect, "ana", "cheap", {"rule": {1}})
    assert everything(ledger) == before


def test_a_pick_needs_a_result(ledger):
    trial = trial_in(ledger, S.APPROVED)
    with pytest.raises(ForbiddenMove, match="has no result: only a result can be picked"):
        ledger.pick(trial.id, trial.expect, "ana", "cheap", {})
