"""Regret of a campaign: the optimum among its own designs, and the true value of one of them."""

from typing import Any

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.contracts import asked
from fieldcraft.flows.wiring.build import rewire
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.physics.exact_outputs import exact_points
from fieldcraft.physics.problem import Optimum, Problem, Sense
from fieldcraft.physics.space import SpaceError
from fieldcraft.storage.records import CampaignRecord, Trial, TrialSummary


def optimum_of(campaign: Campaign, sense: Sense | None = None) -> Optimum | None:
    """The known best design for a sense, the campaign's when left out; None where its space does not hold that design.

    Of several equally good optima only the one that the problem states is checked.

    Raises:
        InputError: the code of a plug-in cannot tell it.
    """
    distance: Sense | None = None if campaign.objective.goals else "minimize"  # a target or a band states no sense
    wanted = sense or campaign.spec.sense or distance
    if wanted is None:
        return None
    with asked(type(campaign.problem), "tell its optimum"):
        known = campaign.problem.optimum(wanted)
        design = None if known is None else known.design
    if design is None:
        return None
    try:
        campaign.space.check(design)
    except SpaceError:
        return None
    return known


def most_hypervolume(campaign: Campaign) -> float | None:
    """Largest hypervolume of several objectives; None where it is not known, or not for a narrowed space."""
    return campaign.problem.most_hypervolume if campaign.space == campaign.problem.space else None


def exact_value(problem: Problem, trial: Trial | TrialSummary) -> float | None:
    """The objective without noise or mesh at the design as run; None where it is not known.

    Raises:
        InputError: the code of a plug-in cannot tell it.
    """
    point = exact_points(problem, [trial.actual])
    with asked(type(problem), "tell its exact objective"):
        found = None if point is None else problem.exact(point)
        value = None if found is None else float(found[0])
    return value


def _truly_infeasible(problem: Problem, trial: Trial | TrialSummary) -> bool:
    """True if the design is known, without noise or mesh, to violate a constraint: its regret may be negative."""
    point = exact_points(problem, [trial.actual])
    with asked(type(problem), "tell its exact constraints"):
        found = None if point is None else problem.exact_constraints(point)
        violated = found is not None and bool((found > 0).any())
    return violated


def regret_of(campaign: Campaign, best: Trial | TrialSummary) -> dict[str, Any] | None:
    """Regret of the best trial; None where the optimum is not known, or the design is truly infeasible.

    Returns:
        ``value``, the regret; ``true``, the objective at the design, without noise where it is known, else the measured
        value; ``noise_free``, true if without noise; and ``optimum``. All in the objective's unit.
    """
    optimum, problem = optimum_of(campaign), campaign.problem
    if optimum is None or _truly_infeasible(problem, best):
        return None
    exact = exact_value(problem, best)
    value = float((best.outputs or {})[problem.outputs[0].name]) if exact is None else exact
    sign = 1.0 if campaign.objective.maximize else -1.0
    return {
        "value": sign * (optimum.value - value),
        "true": value,
        "optimum": optimum.value,
        "noise_free": exact is not None,
    }


def known_regret(
    settings: Settings, record: CampaignRecord, best: Trial | TrialSummary | None
) -> dict[str, Any] | None:
    """Regret of a stored campaign's best trial, as ``regret_of``; None where the problem's code is not known, too."""
    if best is None:
        return None
    try:
        return regret_of(rewire(record.spec, settings, algorithm=False), best)
    except InputError:
        return None
