"""Stop rules: each reads the ledger and, if it holds, returns a reason in words that begins with its name."""

from collections.abc import Sequence

from fieldcraft.flows.rules.retries import retries
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.context import Site
from fieldcraft.flows.wiring.observations import saw_all, successful
from fieldcraft.storage.objective import Objective
from fieldcraft.storage.pareto import front_of, gains
from fieldcraft.storage.records import SETTLED, TrialState, TrialSummary


def stop_reason(site: Site, known: Sequence[TrialSummary] | None = None) -> str | None:
    """The first stop rule that holds, in words; the budget is not among them.

    While one holds no trial is sent, and once no trial is out the campaign ends.

    Args:
        site: The campaign.
        known: All its trials, in brief; read from the ledger if left out and a rule is set.
    """
    stop = site.campaign.spec.stop
    if not stop.model_dump(exclude_none=True):
        return None
    trials = site.ledger.summaries(site.name) if known is None else known
    if (reason := _target(site, trials)) is not None:
        return reason
    settled = _settled(site, trials) if stop.no_improvement is not None or stop.failure_rate is not None else []
    return (
        _no_improvement(site, trials, settled)
        or _failure_rate(site, settled)
        or _certified_gap(site, trials)
        or _certified_regret(site, trials)
    )


def nothing_to_learn_from(campaign: Campaign, trials: Sequence[TrialSummary]) -> str | None:
    """Reason to stop if no trial of the start succeeded, so that no model can choose the next; else None."""
    if not campaign.chooses or campaign.start_left(trials) or successful(trials):
        return None
    tried = sum(trial.state is not TrialState.REJECTED and trial.level is None for trial in trials)
    return f"failure: none of the first {tried} trials succeeded, so there is nothing to learn from"


def mendable(trials: Sequence[TrialSummary]) -> list[TrialSummary]:
    """The trials that may still get a result: retracted ones, and failures that may be repeated."""
    return [
        trial
        for trial in trials
        if trial.level is None
        and (_retracted(trial) or (trial.state is TrialState.FAILED and trial.failure != "infeasible"))
    ]


def _retracted(trial: TrialSummary) -> bool:
    return trial.state is TrialState.COMPLETED and trial.outputs is None


def _target(site: Site, trials: Sequence[TrialSummary]) -> str | None:
    target = site.campaign.spec.stop.target
    best = None if target is None else site.campaign.objective.best(successful(trials))
    sign = 1 if site.campaign.objective.maximize else -1
    if target is None or best is None or sign * (best - target) < 0:
        return None
    return f"target: a result of {_told(site, best)} reached {_told(site, target)}"


def _told(site: Site, value: float, figures: int = 6) -> str:
    """A value of the objective to so many significant figures, with its unit."""
    output = site.campaign.objective.output
    unit = next(each.unit for each in site.campaign.problem.outputs if each.name == output)
    return f"{value:.{figures}g} {unit}".rstrip()


def _no_improvement(site: Site, trials: Sequence[TrialSummary], settled: Sequence[TrialSummary]) -> str | None:
    """Count the campaign's own completed trials since the best feasible result, in order of completion.

    Trials whose result was retracted do not count.
    """
    allowed = site.campaign.spec.stop.no_improvement
    if allowed is None:
        return None
    objective = site.campaign.objective
    imported = [trial for trial in successful(trials) if trial.imported]
    if objective.goals:
        return _no_more_hypervolume(objective, allowed, imported, settled)
    sign, best, since = (1 if objective.maximize else -1), objective.best(imported), 0
    for trial in settled:
        outputs = trial.outputs
        if not trial.counts or outputs is None:
            continue
        if objective.feasible(outputs) and (best is None or sign * (outputs[objective.output] - best) > 0):
            best, since = outputs[objective.output], 0
        elif best is not None:
            since += 1
    if best is None or since < allowed:
        return None
    told = _told(site, best)
    return f"no improvement: {since} completed trials in a row were no better than the best result of {told}"


def _no_more_hypervolume(
    objective: Objective, allowed: int, imported: Sequence[TrialSummary], settled: Sequence[TrialSummary]
) -> str | None:
    """Count the campaign's own completed trials since the last that added to the hypervolume, in order of completion.

    A reference that is not stated is inferred from all results.
    """
    own = [trial for trial in settled if trial.counts]
    results = [trial.outputs or {} for trial in (*imported, *own)]
    front = front_of(objective, results)
    added = gains(objective, results, front.reference) if front.reference else []
    last = max((place for place, gain in enumerate(added) if gain > 0), default=None)
    if last is None or (since := len(results) - max(last + 1, len(imported))) < allowed:
        return None
    within = " within the reference inferred from the front" if front.inferred else ""
    return (
        f"no improvement: {since} completed trials in a row added nothing to the hypervolume of {front.hypervolume:g}"
        f"{within}"
    )


def _failure_rate(site: Site, settled: Sequence[TrialSummary]) -> str | None:
    """Count failures among the last settled trials.

    A trial that a person cancelled counts as neither failure nor success. A trial that is retried automatically is not
    settled yet.
    """
    rule = site.campaign.spec.stop.failure_rate
    if rule is None:
        return None
    again = {retry.trial.id for retry in retries(site.ledger, site.campaign.spec.dispatcher, site.name)}
    judged = [t for t in settled if t.id not in again and (_failed(t) or t.state is TrialState.COMPLETED)]
    last = judged[-rule.over :]
    failed = sum(_failed(trial) for trial in last)
    if len(last) < rule.over or failed <= rule.above * rule.over:
        return None
    return f"failure rate: {failed} of the last {rule.over} trials failed, more than {rule.above:g} of them"


def _certified_gap(site: Site, trials: Sequence[TrialSummary]) -> str | None:
    """Check the certificate of the latest iteration's first design, which depends on no other design of its batch.

    The certificate holds for the results in the model's training data: a result that was added or corrected since
    requires another proof.
    """
    allowed = site.campaign.spec.stop.certified_gap
    if allowed is None or not trials:
        return None
    latest = max(trial.iteration for trial in trials)
    first = next(t.origin.certificate for t in site.ledger.trials(site.name, iteration=latest) if t.slot == 0)
    gain = None if first is None else first.improvement
    model = site.ledger.product(site.name, latest, "train")
    if gain is None or gain > allowed or model is None:
        return None
    if not saw_all(model, trials, site.ledger.result_summaries(site.name)):
        return None
    return (
        f"certified gap: in iteration {latest} no design can be expected to improve on the best believed value by more "
        f"than {_told(site, gain, 3)}"
    )


def _certified_regret(site: Site, trials: Sequence[TrialSummary]) -> str | None:
    """Check the bound of the regret that the latest iteration's first design carries, by the results of that time.

    As for ``certified_gap``, a result that was added or corrected since requires another proof.
    """
    allowed = site.campaign.spec.stop.certified_regret
    if allowed is None or not trials:
        return None
    latest = max(trial.iteration for trial in trials)
    bound = next(t.origin.regret for t in site.ledger.trials(site.name, iteration=latest) if t.slot == 0)
    model = site.ledger.product(site.name, latest, "train")
    if bound is None or model is None or bound.regret > allowed * abs(bound.best):
        return None
    if not saw_all(model, trials, site.ledger.result_summaries(site.name)):
        return None
    lower, best, regret = _told(site, bound.lower), _told(site, bound.best), _told(site, bound.regret, 3)
    return (
        f"certified regret: in iteration {latest} no design has less than {lower} by the equations, and the best "
        f"result {best} is at most {regret} above that"
    )


def _failed(trial: TrialSummary) -> bool:
    given_up = trial.state in (TrialState.FAILED, TrialState.ABANDONED)
    return given_up and trial.failure not in (None, "cancelled")


def _settled(site: Site, trials: Sequence[TrialSummary]) -> list[TrialSummary]:
    """The campaign's own settled trials of the target, in the order in which they were settled."""
    when = site.ledger.settled(site.name)
    own = [t for t in trials if not t.imported and t.level is None and t.state in SETTLED]
    return sorted(own, key=lambda trial: when[trial.id])
