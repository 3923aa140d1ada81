"""What the ledger's contract tests share: the back ends, short ways to a trial in a state, and children that die."""

import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from postgres_server import url_of

from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import (
    COUNTING,
    SETTLED,
    FieldRef,
    Grant,
    Limits,
    Origin,
    Proposal,
    Trial,
    TrialState,
    digest_of,
)

BACKENDS: dict[str, Callable[[Path], Ledger]] = {
    "sqlite": lambda folder: open_ledger(folder / "ledger.db", create=True),
    "postgresql": lambda folder: open_ledger(url_of(folder), create=True),
}
SPEC = {"problem": {"kind": "heat"}, "seed": 7, "noise": 0.02}
S = TrialState


def proposal(slot: int = 0, iteration: int = 0, level: int | None = None, **design: Any) -> Proposal:
    origin = Origin(kind="initial", algorithm="sobol", seed=7, iteration=iteration, slot=slot, level=level)
    return Proposal(design=design or {"x": 0.1 + 0.2 * slot, "n": 3, "material": "steel"}, origin=origin)


def begin(ledger: Ledger, name: str = "heat", **limits: Any) -> None:
    ledger.create_campaign(name, SPEC, digest_of(SPEC), {"commit": "abc"}, by="test", limits=Limits(**limits))


def approve(ledger: Ledger, trial: Trial, attempts: int = 2, expires: float | None = None) -> Trial:
    return ledger.approve(trial.id, trial.expect, trial.digest, "test", "looks right", "manual", attempts, expires)


def grant(trial: Trial) -> Grant:
    return Grant(trial=trial.id, expect=trial.expect, digest=trial.digest)


def edit(ledger: Ledger, trial: Trial, **design: Any) -> Trial:
    changed = {**trial.design, **(design or {"x": 0.75})}
    return ledger.edit(trial.id, trial.expect, changed, trial.cost, "test", "a better place")


def step(ledger: Ledger, trial: Trial, to: TrialState, **more: Any) -> Trial:
    if to is S.FAILED:
        more.setdefault("failure", "transient")
    return ledger.move(trial.id, to, trial.expect, "test", f"to {to}", **more)


def finish_trial(ledger: Ledger, trial: Trial, value: float = 1.5, **more: Any) -> Trial:
    return ledger.record(trial.id, trial.expect, {"y": value}, None, "test", "local", {}, **more)[0]


def correct(ledger: Ledger, trial: Trial, value: float | None, **more: Any) -> Trial:
    """Correct the result that counts; None retracts it."""
    counting = [result for result in ledger.results(trial.id) if result.verdict in COUNTING][-1]
    outputs = None if value is None else {"y": value}
    return ledger.correct(trial.id, trial.expect, counting.id, outputs, None, "test", "the gauge", {}, **more)[0]


def trial_in(
    ledger: Ledger, state: TrialState, attempts: int = 2, iteration: int = 0, level: int | None = None
) -> Trial:
    """A new trial of campaign heat that has been brought to ``state`` on a permitted way."""
    begin(ledger)
    trial = ledger.propose("heat", iteration, [proposal(iteration=iteration, level=level)], "test")[0]
    ways = {
        S.PROPOSED: [],
        S.REJECTED: [S.REJECTED],
        S.APPROVED: [S.APPROVED],
        S.STAGED: [S.APPROVED, S.STAGED],
        S.RUNNING: [S.APPROVED, S.STAGED, S.RUNNING],
        S.COMPLETED: [S.APPROVED, S.STAGED, S.RUNNING, S.COMPLETED],
        S.FAILED: [S.APPROVED, S.STAGED, S.RUNNING, S.FAILED],
        S.HELD: [S.APPROVED, S.STAGED, S.RUNNING, S.HELD],
        S.ABANDONED: [S.APPROVED, S.STAGED, S.RUNNING, S.ABANDONED],
    }
    for to in ways[state]:
        if to is S.APPROVED:
            trial = approve(ledger, trial, attempts)
        elif to is S.COMPLETED:
            trial = finish_trial(ledger, trial)
        else:
            trial = step(ledger, trial, to)
    return trial


def require_same_in_brief(ledger: Ledger, campaign: str) -> None:
    """Compare what a process may have kept of earlier readings with what the ledger says in full now."""
    events, trials, results = ledger.history(campaign), ledger.trials(campaign), ledger.campaign_results(campaign)
    came = {e.trial: e.id for e in events if e.trial and e.after in SETTLED and e.before is not e.after}
    assert ledger.settled(campaign) == came
    assert ledger.parts(campaign) == tuple(result for result in results if result.verdict == "partial")
    for brief, full in ((ledger.summaries(campaign), trials), (ledger.result_summaries(campaign), results)):
        assert [repr(one) for one in brief] == [
            repr(type(one)(*(getattr(whole, name) for name in one._fields))._replace(field=_digest(whole.field)))
            for one, whole in zip(brief, full, strict=True)
        ]


def _digest(field: FieldRef | None) -> str | None:
    return None if field is None else field.digest


def everything(ledger: Ledger) -> dict[str, Any]:
    """All that the ledger tells, without times: two ledgers with the same history are equal."""
    told: dict[str, Any] = {
        "outbox": [(item.kind, _timeless(item.payload)) for item in ledger.pending()],
        "notices": [_timeless(notice.model_dump()) for notice in ledger.notices()],
    }
    for campaign in ledger.campaigns():
        require_same_in_brief(ledger, campaign.name)
        told[campaign.name] = {
            "campaign": _timeless(campaign.model_dump()),
            "trials": [_timeless(trial.model_dump()) for trial in ledger.trials(campaign.name)],
            "events": [_timeless(event.model_dump()) for event in ledger.history(campaign.name)],
            "products": [_timeless(product.model_dump()) for product in ledger.products(campaign.name)],
            "results": [_timeless(result.model_dump()) for result in ledger.campaign_results(campaign.name)],
            "approvals": [
                _timeless(a.model_dump()) for t in ledger.trials(campaign.name) for a in ledger.approvals(t.id)
            ],
        }
    return told


def _timeless(record: Any) -> dict[str, Any]:
    told = {name: value for name, value in record.items() if name not in ("created", "updated")}
    return told | {name: told[name] is not None for name in ("heard", "expires") if name in told}


def in_child(action: Callable[[], object], **environment: str) -> int:
    """Run ``action`` in a forked child and return how it ended: 0, 1 for an exception, or minus a signal's number."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.environ.update(environment)
            action()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed_at(point: str, action: Callable[[], object]) -> bool:
    """Whether a child that ran ``action`` passed ``point`` for the first time, where it was killed."""
    return in_child(action, FIELDCRAFT_DIE_AT=f"{point}#1") == -signal.SIGKILL
