"""Readings of the fields of a campaign's trials at single places, for a surrogate that calibrates by them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.flows.wiring.physics.emulators import CalibratedSolve, emulators_of, explained, no_emulator
from fieldcraft.physics.parametric.readings import NOISE, Readings, readings_of
from fieldcraft.physics.parametric.statement import ParametricEquation
from fieldcraft.physics.parametric.transfer import at_points
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.space import SearchSpace
from fieldcraft.storage.fields import FieldDamaged, fields_at
from fieldcraft.storage.records import FieldRef

if TYPE_CHECKING:
    from fieldcraft.flows.wiring.campaign import Campaign
    from fieldcraft.models.observations import Emulator, SparseFields
    from fieldcraft.models.snapshots import Predict

# Trials whose readings a process keeps.
_KEPT = 4096


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions of the stated equation for the readings of some trials.

    Args:
        problem: The problem.
        stated: Its statement.
        space: Space of real variables that encodes the designs.
        places: Places of each trial's readings, as shares of the domain from 0 to 1, each (p, d).
    """

    problem: Problem
    stated: ParametricEquation
    space: SearchSpace
    places: tuple[np.ndarray, ...]

    def of(self, values: np.ndarray) -> "Predict":
        """Function from the trials' encoded designs (n, d) to the readings (n, fields, places), 0 where one has none.

        Args:
            values: Values of the equation's coefficients, in their order and units, shape (c,).
        """
        stated = self.stated.calibrated(values.tolist())

        def readings(X: np.ndarray) -> np.ndarray:
            from fieldcraft.physics.parametric.finite_differences import solved

            with explained(self.problem, "solve its equation"):
                found = solved(stated, self.space.values(X), stated.cells)
            told = np.zeros((len(X), len(stated.fields), max(map(len, self.places))))
            for number, field in enumerate(stated.fields):
                for row, places in enumerate(self.places):
                    at = at_points(stated.domain, found[field.name][row : row + 1], places, stated.repeats)
                    told[row, number, : len(places)] = at[0]
            return told

        return readings


def uses_readings(campaign: "Campaign") -> bool:
    """True if a campaign's surrogate, or that of its constraints, may calibrate by readings of fields.

    False where noise is added to the results of simulations, whose fields have none of it, and where a network that was
    trained for the stated values is the emulator.
    """
    from fieldcraft.models.surrogate import TakesEmulator

    problem, words = campaign.problem, campaign.algorithm
    if problem.parametric is None or not problem.parametric.coefficients or problem.emulator != "equation":
        return False
    if campaign.spec.emulator is not None:
        return False
    if (campaign.noise_sd and not campaign.dispatcher.by_people) or no_emulator(problem, campaign.space) is not None:
        return False
    learners = (words.surrogate, words.constraints.surrogate if len(problem.outputs) > 1 else None)
    return any(isinstance(each, TakesEmulator) and each.uses_emulator for each in learners)


def sparse_fields_of(campaign: "Campaign", digests: Sequence[str | None], X: np.ndarray) -> "SparseFields | None":
    """The readings that trials left, of at most as many trials as a calibration fits, evenly spaced.

    Args:
        campaign: The campaign; its problem states an equation.
        digests: Digest of each of n trials' stored dataset; None for a trial without one.
        X: Encoded designs, shape (n, d).

    Returns:
        None where no trial left any. Damaged or lost ones are left out.

    Raises:
        storage.fields.FieldError: the store does not answer.
    """
    from fieldcraft.models.emulation.calibration import TRIALS
    from fieldcraft.models.numerics.milestones import thinned
    from fieldcraft.models.observations import SparseFields
    from fieldcraft.models.snapshots import Calibration

    problem, space = campaign.problem, campaign.space
    stated = problem.parametric
    assert stated is not None  # else nothing is asked
    left = []
    for row, digest in enumerate(digests):
        readings = None if digest is None else _stored(campaign.settings.fields, digest, problem)
        if digest is not None and readings is not None:
            left.append((row, digest, readings))
    if not left:
        return None
    rows, kept, all_readings = zip(*(left[i] for i in thinned(len(left), TRIALS)), strict=True)
    shape = len(rows), len(stated.fields), max(len(each.places) for each in all_readings)
    values, sd = np.full(shape, np.nan), np.full(shape, np.nan)
    for row, each in enumerate(all_readings):
        values[row, :, : len(each.places)] = each.values
        sd[row, :, : len(each.places)] = each.sd
    low, high = stated.domain.bounds
    places = tuple((each.places - low) / (high - low) for each in all_readings)
    solve = Predicted(problem, stated, space, places).of
    calibration = Calibration(stated.coefficients, values, solve, solve, noise=sd)
    return SparseFields(X[list(rows)], calibration, _emulators(problem, space), kept)


def _emulators(problem: Problem, space: SearchSpace) -> "Callable[[Sequence[float]], tuple[Emulator, ...]]":
    return lambda values: emulators_of(problem, space, CalibratedSolve(tuple(values)))


@lru_cache(maxsize=_KEPT)
def _stored(place: Path | str, digest: str, problem: Problem) -> Readings | None:
    """The readings in a stored dataset; None if it holds none, or is damaged or lost.

    Raises:
        storage.fields.FieldError: the store does not answer.
    """
    stated, store, ref = problem.parametric, fields_at(place), FieldRef(digest=digest, size=0)
    assert stated is not None  # else nothing is read
    try:
        if not {field.name + NOISE for field in stated.fields} & set(store.names(ref)):
            return None  # without reading what may be a large field
        return readings_of(stated, store.read(ref))
    except (ValueError, FieldDamaged):
        return None
