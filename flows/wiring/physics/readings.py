"""Stored fields of problems that state no equation: what the functional reads, at the places where it was simulated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.flows.wiring.physics.emulators import explained
from fieldcraft.flows.wiring.physics.equations import middle_and_half
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.space import Continuous, SearchSpace
from fieldcraft.storage.fields import FieldDamaged, fields_at
from fieldcraft.storage.records import FieldRef

if TYPE_CHECKING:
    from fieldcraft.flows.wiring.campaign import Campaign
    from fieldcraft.models.snapshots import Snapshots

# Stored datasets that a process keeps, and the share by which outputs may differ from what is read from their fields.
_KEPT, _ALIKE = 4096, 1e-9


@dataclass(frozen=True, eq=False)
class Readings:
    """Fields of a problem without an equation, from which its outputs are read.

    Args:
        problem: The problem, with a ``functional``.
        space: Space of real variables that encodes the designs.
        names: The fields, in the order of the snapshots.
        axes: Places along each axis, by name.
    """

    problem: Problem
    space: SearchSpace
    names: tuple[str, ...]
    axes: Mapping[str, np.ndarray]

    @property
    def shape(self) -> tuple[int, ...]:
        """Places along each axis."""
        return tuple(map(len, self.axes.values()))

    def read(self, fields: np.ndarray, X: np.ndarray) -> np.ndarray:
        """All outputs of fields (k, fields, cells) of encoded designs X (k, d), shape (k, outputs).

        Raises:
            ValueError: ``functional`` asks for a field or an axis that is not among them, or gives another shape.
        """
        told = {name: fields[:, i].reshape(len(X), *self.shape) for i, name in enumerate(self.names)}
        middle, half = middle_and_half(self.space)
        designs = {name: (X * half + middle)[:, [i]] for i, name in enumerate(self.space.names)}
        try:
            with explained(self.problem, "read its outputs"), np.errstate(all="ignore"):
                found = np.asarray(self.problem.functional(told, self.axes, designs), dtype=np.float64)
        except KeyError as error:
            raise ValueError(
                f"The functional asks for {error}, and the fields are {', '.join(self.names)} over "
                f"{', '.join(self.axes)}."
            ) from error
        expected = len(X), len(self.problem.outputs)
        if found.shape != expected:
            raise ValueError(f"The functional gave an array of the shape {found.shape}: it must be {expected}.")
        return found

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Nothing: no equation predicts these fields.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"{type(self.problem).__name__} states no equation of its fields: nothing predicts them.")


def no_readings(campaign: "Campaign") -> str | None:
    """Reason why the fields of a campaign's trials tell nothing; None if they do."""
    problem = campaign.problem
    if type(problem).functional is Problem.functional:
        return "the problem has no fields from which its outputs are read (`functional`)"
    others = [variable.name for variable in campaign.space.variables if not isinstance(variable, Continuous)]
    if others:
        return f"its functional takes continuous variables alone, and {', '.join(others)} are others"
    return "noise is added to the results, of which fields have none" if campaign.noise_sd else None


def readings_of(
    campaign: "Campaign", digests: Sequence[str | None], X: np.ndarray, outputs: np.ndarray
) -> "Snapshots | None":
    """The fields of trials whose problem states no equation, with these digests of their stored datasets.

    A field is what a dataset holds over all its axes, each with its places; axes are in the order of its first field.

    Args:
        campaign: The campaign.
        digests: A digest for each of n trials; None for a trial without a field.
        X: Encoded designs, shape (n, d).
        outputs: What the trials yielded, shape (n, outputs).

    Returns:
        None where the fields tell nothing (see ``no_readings``), or a trial left none from which its outputs are read:
        none or a damaged one, one at other places, or outputs that were corrected since.

    Raises:
        storage.fields.FieldError: the store does not answer.
    """
    from fieldcraft.models.snapshots import Snapshots

    known = [each for each in digests if each is not None]
    if no_readings(campaign) is not None or not known or len(known) < len(digests):
        return None
    try:
        told = [_stored(campaign.settings.fields, each) for each in known]
        (first, axes), *others = told
        if not first or any(set(each) != set(first) or not _same(axes, places) for each, places in others):
            return None
        grid = Readings(campaign.problem, campaign.space, tuple(first), axes)
        values = np.stack([[each[name].ravel() for name in first] for each, _ in told])
        apart = np.abs(grid.read(values, X) - outputs)
    except (ValueError, FieldDamaged):
        return None
    if not np.all(apart <= _ALIKE * (np.abs(outputs) + np.abs(outputs).max(axis=0))):
        return None
    return Snapshots(values, tuple(known), grid.predict, grid.read, shape=grid.shape)


def _same(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


@lru_cache(maxsize=_KEPT)
def _stored(place: Path | str, digest: str) -> tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]:
    """Fields of one stored dataset over all its axes, and the places along each axis, by name.

    Raises:
        ValueError: an axis without places, or a value that is not finite.
        storage.fields.FieldError: it is damaged or lost, or the store does not answer.
    """
    dataset = fields_at(place).read(FieldRef(digest=digest, size=0))  # a field is found by its digest alone
    over = {str(name): each for name, each in dataset.data_vars.items() if each.ndim == len(dataset.dims) > 0}
    names = [str(name) for name in next(iter(over.values())).dims] if over else []
    if missing := [name for name in names if name not in dataset.coords]:
        raise ValueError(f"The stored field {digest[:12]} has no places along {', '.join(missing)}.")
    axes = {name: np.asarray(dataset[name].values, dtype=np.float64) for name in names}
    fields = {name: np.asarray(each.transpose(*names).values, dtype=np.float64) for name, each in over.items()}
    if not all(np.isfinite(each).all() for each in (*fields.values(), *axes.values())):
        raise ValueError(f"The stored field {digest[:12]} has values that are not finite.")
    return fields, axes
