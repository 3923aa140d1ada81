"""Whatever is tried in whatever order, nothing is staged without leave. On every back end."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ledgers import BACKENDS, S, begin, proposal

from storage.ledger import Ledger, LedgerError
from storage.records import TRANSITIONS, Trial, TrialState

ACTIONS = st.one_of(
    st.tuples(st.just("approve"), st.integers(1, 2)),
    st.tuples(st.just("approve another digest"), st.just(1)),
    st.tuples(st.just("record"), st.integers(0, 2)),
    st.tuples(st.just("move"), st.sampled_from(TrialState)),
    # Mostly onward by the table: most moves drawn at random would be refused, and a trial never come far.
    *[st.tuples(st.just("onward"), st.integers(0, 3))] * 6,
)


@pytest.fixture(params=BACKENDS, scope="module")
def ledger(request: pytest.FixtureRequest):
    with TemporaryDirectory() as folder:
        ledger = BACKENDS[request.param](Path(folder))
        begin(ledger)
        yield ledger


def attempt(ledger: Ledger, trial: Trial, action: str, value: int | TrialState) -> None:
    if action == "approve":
        ledger.approve(trial.id, trial.expect, trial.digest, "test", "", "manual", value)
    elif action == "approve another digest":
        ledger.approve(trial.id, trial.expect, "0" * 64, "test", "", "manual", value)
    elif action == "record":
        ledger.record(trial.id, trial.expect, {"y": float(value)}, None, "test", "local", {})
    else:
        ways = sorted(TRANSITIONS[trial.state]) or [S.STAGED]
        to = ways[value % len(ways)] if action == "onward" else value
        failure = "transient" if to is S.FAILED else None
        ledger.move(trial.id, to, trial.expect, "test", "random", failure=failure)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(actions=st.lists(ACTIONS, min_size=4, max_size=16))
@example(actions=[("approve", 1), ("move", S.STAGED), ("move", S.HELD), ("move", S.APPROVED), ("move", S.STAGED)])
def test_nothing_is_staged_without_a_live_approval_with_an_attempt_left(ledger, actions):
    iteration = len(ledger.trials("heat"))
    before = ledger.propose("heat", iteration, [proposal(x=float(iteration))], "test")[0]
    leave = 0  # a model of the rule, kept beside the ledger: attempts left under the approval that holds
    for action, value in actions:
        try:
            attempt(ledger, before, action, value)
        except LedgerError:
            assert ledger.trial(before.id) == before
            assert not (action == "move" and value is S.STAGED and before.state is S.APPROVED and leave)
            continue
        assert action != "approve another digest"
        after = ledger.trial(before.id)
        if action == "approve":
            leave = value
        elif after.state in (S.PROPOSED, S.REJECTED, S.ABANDONED):
            leave = 0
            assert not any(approval.live for approval in ledger.approvals(before.id))
        elif after.state is S.APPROVED:
            assert leave > 0, "to be retried without leave"
        elif after.state is S.STAGED and before.state is not S.STAGED:
            assert before.state is S.APPROVED
            assert leave > 0, "staged without leave"
            leave -= 1
        assert after.state is before.state or after.state in TRANSITIONS[before.state]
        before = after
    assert sum(approval.live for approval in ledger.approvals(before.id)) <= 1
