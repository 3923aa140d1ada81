"""Step 3, decide: propose, wait or end, by budget, pending trials and stop rules."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.rules.approval_policy import automatic, ready
from fieldcraft.flows.rules.budget import exhausted, nearly_spent, obstacle
from fieldcraft.flows.rules.final_model import given_up
from fieldcraft.flows.rules.retries import retries
from fieldcraft.flows.rules.stopping import mendable, nothing_to_learn_from, stop_reason
from fieldcraft.flows.steps.dispatch import room_for
from fieldcraft.flows.wiring.context import ACTOR, Site
from fieldcraft.flows.wiring.observations import saw_all, successful
from fieldcraft.flows.wiring.physics.networks import EMULATOR
from fieldcraft.flows.wiring.warm.kept import BEFORE
from fieldcraft.physics.counting import canonical_designs, designs_of
from fieldcraft.storage.ledger import StaleTrial
from fieldcraft.storage.records import Product, Spending, Trial, TrialState, TrialSummary, digest_of

_OPEN = frozenset({TrialState.PROPOSED, TrialState.APPROVED})

Wait = Literal["simulations", "retry", "laboratory", "person", "training"]


@dataclass(frozen=True)
class Decision:
    """Next action of a pass: it proposes, waits or ends.

    Args:
        propose: Number of designs to propose, 0 for none.
        iteration: The iteration they belong to.
        model: True if a surrogate chooses them.
        wait: Event that the campaign waits for: ``simulations`` also where a trial is about to be sent, ``retry`` for
            the pause after a transient failure, ``laboratory`` where people do the work, ``person`` where a person has
            to decide, ``training`` for a model that is trained remotely.
        due: Time of the soonest retry, in seconds since the epoch.
        finished: Reason why the campaign has ended.
        last: True if the iteration only trains the final model, on all results.
        emulate: True if the network of the campaign's emulator has to be trained first.
        warm: True if the results of its earlier campaigns have to be read first.
    """

    propose: int = 0
    iteration: int = 0
    model: bool = False
    wait: Wait | None = None
    due: float | None = None
    finished: str | None = None
    last: bool = False
    emulate: bool = False
    warm: bool = False


def decide(site: Site, asked: int | None = None) -> Decision:
    """Decide by the ledger; an end is recorded with the name of its rule.

    Args:
        site: The campaign.
        asked: Number of designs that somebody asks for now, beside those that are out; None for the campaign's batch,
            which waits for its results.
    """
    decision, spec = _decided(site, asked), site.campaign.spec
    if not (decision.propose or decision.model):
        return decision
    return replace(
        decision,
        emulate=spec.emulator is not None and site.ledger.product(site.name, EMULATOR, "emulate") is None,
        warm=bool(spec.warm_start) and site.ledger.product(site.name, BEFORE, "warm_start") is None,
    )


def _decided(site: Site, asked: int | None) -> Decision:
    known = site.ledger.campaign(site.name).finished
    if known is not None:
        return Decision(finished=known)
    trials, spending = site.ledger.summaries(site.name), site.ledger.spending(site.name)
    _warn(site, spending)
    if reason := stop_reason(site, trials):
        out = _out(site, trials)
        return Decision(wait=out) if out else _ended(site, trials, reason)
    waiting = site.ledger.trials(site.name, states=_OPEN)
    waits = _waits(site, trials, waiting, spending)
    if waits is not None:
        return (asked and _beside(site, trials, asked)) or waits
    if asked == 0:
        return Decision()
    if spent := _spent(site, waiting, spending):
        return _ended(site, trials, f"budget: {spent}")
    if reason := nothing_to_learn_from(site.campaign, trials):
        return Decision(wait="person") if mendable(trials) else _finished(site, reason)
    return _next(site, trials, asked)


def _waits(
    site: Site, trials: tuple[TrialSummary, ...], waiting: tuple[Trial, ...], spending: Spending
) -> Decision | None:
    """The decision to wait for something before the next proposal; None where nothing is waited for."""
    spec, dispatcher = site.campaign.spec, site.campaign.dispatcher

    def affordable(trial: Trial) -> bool:
        return obstacle(trial, site.campaign.limits, spending, spec.budget) is None

    payable = [trial for trial in waiting if affordable(trial)]
    goes = automatic(spec.approval, trials) | {trial.id for trial in ready(spec, waiting)}
    out = _out(site, trials)
    again = [retry for retry in retries(site.ledger, spec.dispatcher, site.name) if affordable(retry.trial)]
    due = again[0].due if again else None
    if any(trial.id in goes for trial in payable) and room_for(site, dispatcher, trials) > 0:
        return Decision(wait="simulations", due=due)
    if out == "simulations":
        return Decision(wait="simulations", due=due)
    if again:
        return Decision(wait="retry", due=due)
    if out is None and payable:
        return Decision(wait="person")
    return Decision(wait=out) if out else None


def _out(site: Site, trials: tuple[TrialSummary, ...]) -> Wait | None:
    """Party to wait for while trials are out (laboratory, simulations or person); None where none are."""
    states = {trial.state for trial in trials}
    if states & {TrialState.STAGED, TrialState.RUNNING}:
        return "laboratory" if site.campaign.dispatcher.by_people else "simulations"
    return "person" if TrialState.HELD in states else None


def _spent(site: Site, waiting: tuple[Trial, ...], spending: Spending) -> str | None:
    """Spent limit of the budget that keeps anything more from being sent, once no trial is out."""
    limits, budget = site.campaign.limits, site.campaign.spec.budget
    stuck = [why for trial in waiting if (why := obstacle(trial, limits, spending, budget)) is not None]
    return exhausted(limits, spending, budget) or next(iter(stuck), None)


def _ended(site: Site, trials: tuple[TrialSummary, ...], reason: str) -> Decision:
    """End the campaign; where results are noisy, first train a final model on all of them, which recommends a design.

    If that model cannot be trained, the campaign still ends; the best design is then by the latest model, or by result.
    The final model is trained on the same kind of data as any iteration's, so that a pass that was killed resumes it.
    """
    trained = site.ledger.latest(site.name, "train")
    if _untrained(site, trials, trained) and given_up(site.ledger, site.name) is None:
        iteration = max(_next_iteration(trials), -1 if trained is None else trained.iteration + 1)
        return Decision(iteration=iteration, model=True, last=True)
    return _finished(site, reason)


def _untrained(site: Site, trials: tuple[TrialSummary, ...], trained: Product | None) -> bool:
    """True if a model has to recommend the best design, and the latest one was not trained on all results.

    Of several objectives no design is best, and none is recommended.
    """
    campaign = site.campaign
    if (
        campaign.objective.goals
        or not campaign.noisy
        or campaign.spec.algorithm.surrogate is None
        or not successful(trials)
    ):
        return False
    if not campaign.chooses or campaign.start_left(trials):
        return False
    return trained is None or not saw_all(trained, trials, site.ledger.result_summaries(site.name))


def _finished(site: Site, reason: str) -> Decision:
    """Record the end; trials that can no longer run are rejected with that reason."""
    for trial in site.ledger.trials(site.name, states=_OPEN):
        try:
            site.ledger.move(trial.id, TrialState.REJECTED, trial.expect, ACTOR, reason)
        except StaleTrial:  # a person was faster: the next pass decides again
            return Decision(wait="person")
    site.ledger.finish(site.name, reason, ACTOR)
    tell("finished", reason=reason)
    return Decision(finished=reason)


def _next(site: Site, trials: tuple[TrialSummary, ...], asked: int | None) -> Decision:
    propose = _wanted(site, trials, asked)
    untried = _untried(site, trials, propose)
    if propose and not untried:
        return _ended(site, trials, "space: every design that it has was proposed")
    return _proposal(site, trials, untried)


def _beside(site: Site, trials: tuple[TrialSummary, ...], asked: int) -> Decision | None:
    """The decision to propose designs beside those that are out; None where there are none, or nothing to learn from.

    The start's designs need no results; those of a model do.
    """
    untried = _untried(site, trials, _wanted(site, trials, asked))
    decision = _proposal(site, trials, untried)
    return decision if untried and not (decision.model and not successful(trials)) else None


def _proposal(site: Site, trials: tuple[TrialSummary, ...], propose: int) -> Decision:
    model = site.campaign.chooses and not site.campaign.start_left(trials)
    return Decision(propose=propose, iteration=_next_iteration(trials), model=model)


def _wanted(site: Site, trials: tuple[TrialSummary, ...], asked: int | None) -> int:
    """Number of designs that the budget leaves of a batch, of the start's rest, or of those that are asked for."""
    spec, counted = site.campaign.spec, [trial for trial in trials if trial.state is not TrialState.REJECTED]
    left_of = site.campaign.start_left(trials)
    left = spec.budget.trials - sum(not trial.imported and trial.level is None for trial in counted)
    start = min(left_of.get(None, 0), left) + sum(n for level, n in left_of.items() if level is not None)
    if start > 0:
        return start if asked is None else min(asked, start)
    return min(spec.batch if asked is None else asked, left)


def _untried(site: Site, trials: Sequence[TrialSummary], wanted: int) -> int:
    """Number of designs without a trial of the target, at most ``wanted``; ``wanted`` where one may be run again."""
    designs = None if site.campaign.noisy else designs_of(site.campaign.space)
    own = [trial for trial in trials if trial.level is None]
    if designs is None or len(designs) - len(own) >= wanted:
        return wanted
    tried = canonical_designs(site.campaign.space, [trial.design for trial in own])
    return min(wanted, len(set(map(digest_of, designs)) - set(map(digest_of, tried))))


def _next_iteration(trials: Sequence[TrialSummary]) -> int:
    return 1 + max((trial.iteration for trial in trials), default=-1)


def _warn(site: Site, spending: Spending) -> None:
    """Leave a notice, once for each campaign, that a limit is nearly spent."""
    payload = nearly_spent(site.campaign.limits, spending, site.campaign.spec.budget)
    if payload is None or any(notice.key == "budget" for notice in site.ledger.notices(site.name)):
        return
    site.ledger.notify(site.name, "budget nearly spent", "budget", payload)
