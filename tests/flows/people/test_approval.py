"""Step 7 under each policy, through whole passes with real simulations: what waits, what goes, and in which order."""

import time
from collections.abc import Callable
from functools import partial

import pytest
from small import alter
from waiting import PLUGINS, Waiting, campaign

from fieldcraft.flows.identity import Person
from fieldcraft.flows.people.decisions import approve, edit, prioritise, reject
from fieldcraft.flows.rules.approval_policy import ready
from fieldcraft.flows.rules.trial_labels import Choice
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.steps import acquire
from fieldcraft.flows.steps.approve import _approve
from fieldcraft.flows.steps.approve import approve as policy_approves
from fieldcraft.flows.wiring.context import site_of
from fieldcraft.storage.ledgers.sqlite import close_idle
from fieldcraft.storage.records import Known, TrialState

ANA = Person("ana", "operator")
PROPOSED, APPROVED, REJECTED = TrialState.PROPOSED, TrialState.APPROVED, TrialState.REJECTED
RUNNING = TrialState.RUNNING


@pytest.fixture
def begin(tmp_path, monkeypatch) -> Callable[..., Waiting]:
    """Makes a campaign with the approval given."""
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(PLUGINS))
    return partial(campaign, tmp_path / "home")


def choices(trials) -> list[Choice]:
    return [Choice(trial.id, trial.digest) for trial in trials]


def order_of_dispatch(waiting: Waiting) -> list[str]:
    events = waiting.ledger.history(waiting.name)
    return [event.trial for event in events if event.after is TrialState.STAGED]


def test_auto_approves_every_proposal_for_exactly_what_will_run(begin):
    waiting = begin("auto")
    waiting.make_pass()
    for trial in waiting.trials():
        (approval,) = waiting.ledger.approvals(trial.id)
        assert (approval.by, approval.policy, approval.digest) == ("policy:auto", "auto", trial.digest)
        assert (approval.attempts, approval.expires) == (3, None)
    assert waiting.ledger.notices(waiting.name) == ()


def test_what_a_policy_approves_is_sent_in_the_same_pass_as_far_as_there_is_room(begin):
    waiting = begin("auto")
    passed = waiting.make_pass()
    assert (passed.proposed, passed.approved, passed.sent) == (3, 3, 2)
    assert waiting.states() == ["RUNNING", "RUNNING", "APPROVED"]


def test_human_leaves_every_proposal_to_a_person_and_sends_what_was_approved(begin):
    waiting = begin("human")
    assert waiting.make_pass().proposed == 3
    first, second, _ = waiting.trials()
    assert waiting.make_pass().decision.wait == "person"
    assert waiting.states() == ["PROPOSED"] * 3
    approve(waiting.ledger, waiting.settings, ANA, choices([first]), "go")
    reject(waiting.ledger, ANA, choices([second]), "too hot")
    assert waiting.make_pass().sent == 1
    waiting.settle()
    assert waiting.states() == ["COMPLETED", "REJECTED", "PROPOSED"]
    (approval,) = waiting.ledger.approvals(first.id)
    assert (approval.by, approval.comment, approval.policy, approval.digest) == ("ana", "go", "manual", first.digest)


def test_a_notice_tells_of_trials_that_no_earlier_one_told_of(begin):
    waiting = begin("human")
    waiting.make_pass()
    (notice,) = waiting.ledger.notices(waiting.name)
    assert (notice.event, notice.payload["trials"]) == ("approval waiting", [t.id for t in waiting.trials()])
    waiting.make_pass()
    assert len(waiting.ledger.notices(waiting.name)) == 1
    edit(waiting.ledger, waiting.settings, ANA, Choice("priced-0001"), {"t": "30"})
    waiting.make_pass()
    assert len(waiting.ledger.notices(waiting.name)) == 2
    reject(waiting.ledger, ANA, choices(waiting.trials()[:2]), "no")
    waiting.make_pass()
    assert len(waiting.ledger.notices(waiting.name)) == 2, "fewer that wait are no news"
    for notice in waiting.ledger.notices(waiting.name):
        waiting.ledger.told(notice.id, success=True)
    waiting.make_pass()
    assert waiting.ledger.notices(waiting.name) == (), "what was told is known, too"


def test_auto_below_cost_leaves_the_dear_ones_to_a_person(begin):
    waiting = begin({"auto_below_cost": 4})
    waiting.make_pass()
    cheap, dear = ([t for t in waiting.trials() if (t.cost < 4) is below] for below in (True, False))
    assert cheap and dear, "the start must hold both, or nothing is tested"
    assert {trial.state for trial in cheap} <= {APPROVED, RUNNING}
    assert {trial.state for trial in dear} == {PROPOSED}
    (approval,) = waiting.ledger.approvals(cheap[0].id)
    assert (approval.by, approval.policy) == ("policy:auto_below_cost", "auto_below_cost")
    assert approval.comment == f"its cost {cheap[0].cost:g} is below 4"


def test_a_trial_that_an_edit_made_cheap_is_approved_by_policy_and_one_made_dear_waits(begin):
    waiting = begin({"auto_below_cost": 4}, algorithm={"start": {"n": 6}}, dispatcher={"parallel": 1})
    waiting.make_pass()
    cheap = next(trial for trial in waiting.trials(APPROVED) if trial.cost < 4)
    dear = next(trial for trial in waiting.trials() if trial.cost >= 4)
    edit(waiting.ledger, waiting.settings, ANA, Choice(cheap.id), {"n": "3"})
    edit(waiting.ledger, waiting.settings, ANA, Choice(dear.id), {"n": "1", "t": "25"})
    waiting.make_pass()
    assert waiting.ledger.trial(cheap.id).state is PROPOSED
    live = next(approval for approval in waiting.ledger.approvals(dear.id) if approval.live)
    assert (live.revision, live.digest) == (2, waiting.ledger.trial(dear.id).digest)


def test_after_first_asks_a_person_for_the_first_trials_by_number_and_then_nobody(begin):
    waiting = begin({"after_first": 2})
    waiting.make_pass()
    assert waiting.states() == ["PROPOSED", "PROPOSED", "RUNNING"]
    assert waiting.ledger.approvals("priced-0003")[0].comment == "it comes after the first 2 trials"
    reject(waiting.ledger, ANA, choices(waiting.trials(PROPOSED)), "not these")
    waiting.make_pass()
    waiting.settle()
    waiting.make_pass()
    assert "PROPOSED" not in waiting.states()
    assert {a.by for t in waiting.trials()[2:] for a in waiting.ledger.approvals(t.id)} == {"policy:after_first"}


def test_a_proposal_changed_behind_the_ledgers_back_is_not_approved_by_policy_and_holds_up_no_other(begin):
    waiting = begin("auto")
    lease = waiting.ledger.acquire(waiting.name)
    site = site_of(str(waiting.settings.home), waiting.name, lease.model_dump())
    acquire.begin(site, 0, 3)
    close_idle()
    alter(waiting.settings.home, "UPDATE trials SET design = json_set(design, '$.t', 30.5) WHERE number = 1")
    assert len(policy_approves(site)) == 2
    assert waiting.states() == ["PROPOSED", "APPROVED", "APPROVED"]
    waiting.ledger.release(lease)


def test_imported_trials_are_not_among_the_first(begin):
    waiting = begin({"after_first": 2})
    design = {"t": 30.0, "n": 1, "alloy": "steel"}
    known = [Known(design={**design, "t": t}, outputs={"strength": t}) for t in (30.0, 40.0)]
    waiting.ledger.adopt(waiting.name, known, "a" * 64, "earlier.csv", "ana")
    waiting.make_pass()
    own = [trial.state for trial in waiting.trials() if trial.origin.kind != "imported"]
    assert own[:2] == [PROPOSED, PROPOSED][: len(own)]
    assert all(state is APPROVED for state in own[2:])
    assert own


def test_batch_sends_nothing_of_an_iteration_before_all_of_it_is_decided(begin):
    waiting = begin("batch")
    waiting.make_pass()
    one = waiting.trials()[0]
    # Behind the command's back, which refuses it: even then nothing goes while two are undecided.
    waiting.ledger.approve(one.id, one.expect, one.digest, "ana", "", "manual", 1, code=waiting.code)
    passed = waiting.make_pass()
    assert (passed.sent, passed.decision.wait) == (0, "person")
    approve(waiting.ledger, waiting.settings, ANA, choices(waiting.trials(PROPOSED)))
    assert waiting.make_pass().sent == 2  # dispatcher.parallel


def test_what_expired_of_a_batch_takes_the_rest_of_it_back_so_that_all_of_it_is_decided_at_once(begin):
    waiting = begin({"policy": "batch", "expires_h": 2})
    waiting.make_pass()
    one = waiting.trials()[0]
    waiting.ledger.approve(one.id, one.expect, one.digest, "ana", "", "manual", 1, time.time() - 1, waiting.code)
    approve(waiting.ledger, waiting.settings, ANA, choices(waiting.trials(PROPOSED)))
    assert waiting.make_pass().sent == 0
    assert waiting.states() == ["PROPOSED"] * 3
    approve(waiting.ledger, waiting.settings, ANA, choices(waiting.trials()))
    assert waiting.make_pass().sent == 2  # dispatcher.parallel


def test_an_edited_trial_holds_its_batch_until_it_is_approved_again(begin):
    waiting = begin("batch")
    waiting.make_pass()
    approve(waiting.ledger, waiting.settings, ANA, choices(waiting.trials()))
    edit(waiting.ledger, waiting.settings, ANA, Choice("priced-0002"), {"t": "33"})
    assert waiting.make_pass().sent == 0
    assert waiting.states() == ["APPROVED", "PROPOSED", "APPROVED"]
    approve(waiting.ledger, waiting.settings, ANA, [Choice("priced-0002")])
    waiting.make_pass()
    waiting.settle()
    assert waiting.ledger.trial("priced-0002").state is TrialState.COMPLETED
    assert waiting.ledger.trial("priced-0002").design["t"] == 33.0


def test_an_edit_voids_the_approval_and_the_next_one_binds_to_the_new_digest(begin):
    waiting = begin("human")
    waiting.make_pass()
    (before,) = approve(waiting.ledger, waiting.settings, ANA, choices(waiting.trials()[:1]))
    _, edited = edit(waiting.ledger, waiting.settings, ANA, Choice(before.id), {"alloy": "steel", "t": "21.5"})
    assert (edited.state, edited.revision) == (PROPOSED, 2)
    assert waiting.make_pass().sent == 0
    approve(waiting.ledger, waiting.settings, ANA, choices([edited]))
    old, new = waiting.ledger.approvals(before.id)
    assert (old.digest, old.live) == (before.digest, False)
    assert (new.digest, new.live, new.revision) == (edited.digest, True, 2)
    waiting.make_pass()
    waiting.settle()
    done = waiting.ledger.trial(before.id)
    assert done.design["t"] == 21.5
    assert done.outputs == {"strength": 21.5 * done.design["n"] + 3.0}


def test_an_approval_that_expired_is_put_back_and_nothing_is_sent_under_it(begin):
    waiting = begin({"policy": "human", "expires_h": 1e-9})
    waiting.make_pass()
    approve(waiting.ledger, waiting.settings, ANA, choices(waiting.trials()))
    assert waiting.make_pass().sent == 0
    assert waiting.states() == ["PROPOSED"] * 3
    event = waiting.ledger.history(waiting.name, "priced-0001")[-1]
    assert (event.before, event.after, event.reason) == (APPROVED, PROPOSED, "approval expired")
    assert [approval.live for approval in waiting.ledger.approvals("priced-0001")] == [False]


def test_an_approval_that_has_not_expired_is_used_and_says_until_when(begin):
    waiting = begin({"policy": "human", "expires_h": 2})
    waiting.make_pass()
    at = time.time()
    (trial,) = approve(waiting.ledger, waiting.settings, ANA, choices(waiting.trials()[:1]))
    assert waiting.ledger.approvals(trial.id)[0].expires == pytest.approx(at + 7200, abs=60)
    assert waiting.make_pass().sent == 1


def test_what_a_policy_approves_does_not_expire_so_that_no_pass_turns_in_circles(begin):
    waiting = begin({"policy": "auto_below_cost", "cost": 100, "expires_h": 1e-9})
    waiting.make_pass()
    assert waiting.states() == ["RUNNING", "RUNNING", "APPROVED"]
    waiting.make_pass()
    assert all(len(waiting.ledger.approvals(trial.id)) == 1 for trial in waiting.trials()[:3])
    moves = [event for event in waiting.ledger.history(waiting.name) if event.action == "move"]
    assert moves and not any(event.after is PROPOSED for event in moves)


def test_approved_trials_go_by_priority_and_then_by_number(begin):
    waiting = begin("human", dispatcher={"parallel": 1})
    waiting.make_pass()
    approve(waiting.ledger, waiting.settings, ANA, choices(waiting.trials()))
    prioritise(waiting.ledger, ANA, "priced-0003", 5)
    prioritise(waiting.ledger, ANA, "priced-0001", -1)
    spec = parse(waiting.ledger.campaign(waiting.name).spec, "test")
    assert [t.id for t in ready(spec, waiting.trials())] == ["priced-0003", "priced-0002", "priced-0001"]
    waiting.make_pass()
    waiting.settle()
    assert order_of_dispatch(waiting) == ["priced-0003", "priced-0002", "priced-0001"]


def test_a_person_who_is_faster_than_the_policy_has_the_last_word(begin):
    waiting = begin("auto")
    lease = waiting.ledger.acquire(waiting.name)
    site = site_of(str(waiting.settings.home), waiting.name, lease.model_dump())
    seen_by_policy = acquire.begin(site, 0, 3)
    reject(waiting.ledger, ANA, choices(seen_by_policy[:1]), "no")
    assert [_approve(site, trial, waiting.code, "") is None for trial in seen_by_policy] == [True, False, False]
    assert waiting.states() == ["REJECTED", "APPROVED", "APPROVED"]
    waiting.ledger.release(lease)
