"""Step 3, decide: budget, pending trials and stop rules say whether to propose, to wait or to end."""

from dataclasses import dataclass

from flows.progress import tell
from flows.sites import ACTOR, Site
from flows.wiring import successful
from storage.records import PENDING, Trial, TrialState


@dataclass(frozen=True)
class Decision:
    """What the pass does next; exactly one of the three.

    Args:
        propose: Number of designs to propose, 0 for none.
        iteration: The iteration they belong to.
        model: Whether a surrogate chooses them.
        wait: What is waited for: ``simulations`` or ``person``.
        finished: Why the campaign has ended.
    """

    propose: int = 0
    iteration: int = 0
    model: bool = False
    wait: str | None = None
    finished: str | None = None


def decide(site: Site) -> Decision:
    """Look at the ledger and decide; an end is recorded with the name of its rule."""
    trials = site.ledger.trials(site.name)
    known = site.ledger.campaign(site.name).finished
    if known is not None:
        return Decision(finished=known)
    pending = [trial for trial in trials if trial.state in PENDING]
    if pending:
        return Decision(wait=_awaited(pending))
    if reason := _end(site, trials):
        site.ledger.finish(site.name, reason, ACTOR)
        tell("finished", reason=reason)
        return Decision(finished=reason)
    return _next(site, trials)


def _awaited(pending: list[Trial]) -> str:
    if all(trial.state is TrialState.HELD for trial in pending):
        return "person"
    return "simulations"


def _end(site: Site, trials: tuple[Trial, ...]) -> str | None:
    """The first stop rule that holds, in words."""
    spec, done = site.campaign.spec, successful(trials)
    best = site.campaign.objective.best(done)
    target, sign = spec.stop.target, 1 if spec.sense == "maximize" else -1
    if target is not None and best is not None and sign * (best - target) >= 0:
        return f"target: a reading of {best:g} reached {target:g}"
    if len(trials) >= spec.budget.trials:
        return f"budget: {len(trials)} of {spec.budget.trials} trials"
    if site.campaign.algorithm.learns(len(trials)) and not done:
        return f"failure: none of the first {len(trials)} trials succeeded, so there is nothing to learn from"
    return None


def _next(site: Site, trials: tuple[Trial, ...]) -> Decision:
    spec, left = site.campaign.spec, site.campaign.spec.budget.trials - len(trials)
    model = site.campaign.algorithm.learns(len(trials))
    wanted = spec.batch if model or trials else spec.algorithm.start.n
    iteration = 1 + max((trial.iteration for trial in trials), default=-1)
    return Decision(propose=min(wanted, left), iteration=iteration, model=model)
