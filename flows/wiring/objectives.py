"""Checks of a campaign whose problem has several objectives: what of its file takes one number."""

from typing import TYPE_CHECKING

from fieldcraft.flows.errors import Faults, InputError
from fieldcraft.flows.spec.campaign_file import CampaignSpec
from fieldcraft.physics.outputs.distance import Distance
from fieldcraft.physics.problem import Problem

if TYPE_CHECKING:
    from fieldcraft.flows.wiring.campaign import Campaign


def require_sense(spec: CampaignSpec, problem: Problem) -> None:
    """Accept a problem with one objective if the file states its sense, and one with several if it states none.

    A target or a band needs none: its distance is minimised.

    Raises:
        InputError: the sense is missing or given twice, the problem marks one output or a constraint comes before an
            objective, or noise or a stop rule is stated in the unit of one objective.
    """
    marked, first = problem.objectives, problem.outputs[: len(problem.objectives)]
    if not marked:
        distance = isinstance(problem.outputs[0].formula, Distance)
        if spec.sense is None and not distance:
            raise InputError("sense: missing. Give it: minimize or maximize.")
        if spec.sense == "maximize" and distance:
            raise InputError(
                f"sense: 'maximize' is given, and {problem.outputs[0].name!r} is a distance, which is made small. "
                "Leave sense out."
            )
        return
    if len(marked) == 1:
        raise InputError(
            f"problem: only the output {marked[0].name!r} is marked as an objective. Mark two or more, or none: then "
            "the first output is the objective, and the campaign file states its sense."
        )
    if marked != first:
        raise InputError(
            f"problem: the outputs {', '.join(output.name for output in marked)} are marked as objectives, and the "
            f"first outputs are {', '.join(output.name for output in first)}. Name the objectives first, then the "
            "constraints."
        )
    faults, many = Faults(), f"the problem has {len(marked)} objectives: {in_words(problem)}"
    refused = {
        f"sense: {spec.sense!r} is given, and {many}. Leave sense out: each is marked with its own.": (spec.sense),
        f"noise: it is in the unit of one objective, and {many}. Let the simulator add noise, or say noise: fitted.": (
            spec.noise is not None and not spec.noise.fitted
        ),
        f"stop.target: it is a value of one objective, and {many}. Use no_improvement, which means hypervolume.": (
            spec.stop.target is not None
        ),
        f"stop.certified_gap: it is proven for one objective, and {many}. Use no_improvement.": (
            spec.stop.certified_gap is not None
        ),
        f"stop.certified_regret: it is proven for one objective, and {many}. Use no_improvement.": (
            spec.stop.certified_regret is not None
        ),
    }
    for fault, holds in refused.items():
        with faults.noted():
            if holds:
                raise InputError(fault)
    faults.tell()


def in_words(problem: Problem) -> str:
    """``minimize branin, maximize yield``: the objectives of a problem with several."""
    return ", ".join(f"{output.objective} {output.name}" for output in problem.objectives)


def require_start(campaign: "Campaign") -> None:
    """Accept a start that takes no single best design of an emulator where there are several objectives.

    Raises:
        InputError: it does.
    """
    from fieldcraft.models.proposer import TakesEmulators

    if campaign.objective.goals and isinstance(campaign.algorithm.initial, TakesEmulators):
        raise InputError(
            f"algorithm.start.proposer: {campaign.spec.algorithm.start.proposer.kind!r} begins with the best design by "
            f"one objective, and the problem has {len(campaign.objective.goals)}. Use sobol."
        )
