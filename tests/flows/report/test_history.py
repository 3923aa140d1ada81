"""Events in words: one text for each action, state, step and verdict that the ledger writes."""

from typing import Any, get_args

import pytest

from fieldcraft.flows.report.history import event_text
from fieldcraft.storage.records import CampaignRecord, Event, Step, TrialState, Verdict

CAMPAIGN = CampaignRecord.model_construct(name="rod", environment={"units": {"x": "mm"}})


def event(action: str, after: TrialState | None = None, **details: Any) -> Event:
    return Event.model_construct(action=action, before=None, after=after, details=details)


def test_decisions_say_what_was_decided():
    assert event_text(CAMPAIGN, event("approve", policy="manual", attempts=1)) == "approved for 1 attempt"
    assert event_text(CAMPAIGN, event("approve", policy="auto", attempts=3)) == "approved by policy for 3 attempts"
    assert event_text(CAMPAIGN, event("edit", was={"x": 1.0}, design={"x": 2.0})) == "edited: x 1 mm became x 2 mm"
    assert event_text(CAMPAIGN, event("prioritise", priority=4)) == "priority 4"
    picked = event("pick", how={"rule": "weights", "weights": {"cost": 2.0}})
    assert event_text(CAMPAIGN, picked) == "picked from the front: by weights cost 2"
    assert event_text(CAMPAIGN, event("correct", verdict="retraction")) == "retracted"
    assert event_text(CAMPAIGN, event("record", verdict="partial", withdraws=True)) == "withdrew parts of a result"


def test_every_state_step_and_verdict_has_words_of_its_own():
    texts = [event_text(CAMPAIGN, event("move", state)) for state in TrialState]
    texts += [event_text(CAMPAIGN, event("note", step=step, iteration=7)) for step in get_args(Step)]
    texts += [
        event_text(CAMPAIGN, event("record", verdict=verdict)) for verdict in ("accepted", "partial", "duplicate")
    ]
    assert len(set(texts)) == len(texts) and "trained the model, iteration 7" in texts
    assert {"retraction"} == set(get_args(Verdict)) - {"accepted", "partial", "duplicate", "superseded"}


@pytest.mark.parametrize(
    "action",
    ["create", "propose", "import", "lease", "finish", "upgrade", "repair", "seal", "unseal", "restore", "code"],
)
def test_what_happens_to_a_campaign_is_said_with_a_verb(action):
    assert event_text(CAMPAIGN, event(action)) != action
