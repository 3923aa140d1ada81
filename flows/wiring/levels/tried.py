"""Designs that have been tried, by level: those that wait or gave no result, and those that are tried once more."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.flows.analysis.levels import remark_named
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.physics.space import Design, SearchSpace
from fieldcraft.storage.records import Origin, TrialSummary

if TYPE_CHECKING:
    from fieldcraft.models import maximizer
    from fieldcraft.models.surrogate import Posterior

_OF_LEVELS = ("levels", "multilevel_gp")  # last words of the names of remarks that number levels


def start_places(
    campaign: Campaign, trials: Sequence[TrialSummary], iteration: int, q: int
) -> Iterator[tuple[int | None, int]]:
    """Level and number of the designs with which an iteration goes on with the start, q in all; None is the target.

    Where the start has fewer left, the rest are of the target.
    """
    before = [trial for trial in trials if trial.iteration < iteration]
    left = {level: n for level, n in campaign.start_left(before).items() if level is not None}
    for level, n in left.items():
        if (here := min(n, q)) > 0:
            yield level, here
        q -= max(here, 0)
    if q > 0:
        yield None, q


def unseen(
    space: SearchSpace, trials: Sequence[TrialSummary], seen: Sequence[TrialSummary], level: int | None = None
) -> np.ndarray:
    """Encoded designs (k, d) of a level without a result in the model's training data, not to be proposed there again.

    They are pending, or were rejected, failed, given up or retracted: a deterministic acquisition would otherwise
    propose them again and again. Results that arrive after the training change nothing here.
    """
    known = {trial.id for trial in seen}
    return encoded(space, [trial.design for trial in trials if trial.level == level and trial.id not in known])


def encoded(space: SearchSpace, designs: Sequence[Design]) -> np.ndarray:
    """Encoded designs (k, d); k may be 0."""
    return space.encode(designs) if designs else np.empty((0, space.dimension))


def levels_of(found: "maximizer.Candidates") -> tuple[int | None, ...]:
    """Level of each design of a batch; None is the target."""
    return found.levels or (None,) * len(found.X)


def remarks_of(campaign: Campaign, posterior: "Posterior") -> dict[str, str]:
    """Remarks of a model, with the levels' options for their numbers."""
    said, levels = dict(posterior.remarks), campaign.data.get("levels", ())
    return {
        name: remark_named(levels, text) if name.rpartition(".")[2] in _OF_LEVELS else text
        for name, text in said.items()
    }


def repeats_noted(
    origins: Sequence[Origin], X: np.ndarray, space: SearchSpace, seen: Sequence[TrialSummary]
) -> list[Origin]:
    """The origins of designs X (q, d), with the remark ``repeat`` where trials that were seen ran one at its level."""
    there = {
        level: [trial for trial in seen if trial.level == level and trial.outputs is not None]
        for level in {origin.level for origin in origins}
    }
    ran = {level: encoded(space, [trial.actual for trial in trials]) for level, trials in there.items()}
    return [
        _noted(origin, x, space, there[origin.level], ran[origin.level]) for origin, x in zip(origins, X, strict=True)
    ]


def _noted(origin: Origin, x: np.ndarray, space: SearchSpace, seen: Sequence[TrialSummary], ran: np.ndarray) -> Origin:
    from fieldcraft.models.coordinates.model_coordinates import among

    same = [trial.id for trial, alike in zip(seen, among(ran, x[None], space), strict=True) if alike]
    if not same:
        return origin
    often = f"; it has {len(same)} results" if len(same) > 1 else ""
    return origin.model_copy(update={"remarks": {**origin.remarks, "repeat": f"of {same[0]}{often}"}})
