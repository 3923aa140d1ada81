"""The best design by the emulator first, then a Sobol sequence."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.emulation.slopes import emulated, with_slopes
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Array, Emulator
from fieldcraft.models.proposer import Proposer, checked_range
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.physics.space import SearchSpace

# Predictions are cheap, and may have kinks (a maximum over a field), on which gradients end early.
_SEARCH = Multistart(n_samples=8192, n_starts=64)
# How far within a constraint a design stays, in standard deviations of the constraint over so many designs.
_WITHIN, _SOME = 1e-6, 256


@dataclass(frozen=True)
class Emulated:
    """The design that is best by the problem's emulator, its constraints kept to, and then scrambled Sobol points."""

    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.EMULATOR})

    def propose(self, space: SearchSpace, start: int, q: int, rng: np.random.Generator) -> Array:
        """Refused: it needs the emulator.

        Raises:
            ValueError: always.
        """
        raise ValueError("The proposer emulated begins with the emulator's best design: give it the emulators.")

    def given(self, emulators: tuple[Emulator, ...], *, maximize: bool) -> Proposer:
        """See ``TakesEmulators``."""
        return _Sequence(emulators, -1.0 if maximize else 1.0)


@dataclass(frozen=True, eq=False)
class _Sequence:
    emulators: tuple[Emulator, ...]
    sign: float

    def propose(self, space: SearchSpace, start: int, q: int, rng: np.random.Generator) -> Array:
        """Points number start ... start + q - 1, encoded, shape (q, d) (see Proposer.propose)."""
        checked_range(start, q)
        own, rest = rng.spawn(2)
        if start:
            return Sobol().propose(space, start - 1, q, rest)
        score = _Depth(self.emulators, self.sign)
        if self.emulators[1:]:
            some = torch.from_numpy(space.sample(_SOME, np.random.default_rng(_SOME)))
            spread = torch.stack([emulated(each, some).std() for each in self.emulators[1:]])
            score = _Constrained(self.emulators, self.sign, space.dimension, _WITHIN * spread)
        best = _SEARCH.maximize(score, space, 1, own).X
        return np.vstack([best, Sobol().propose(space, 0, q - 1, rest)]) if q > 1 else best


@dataclass(frozen=True, eq=False)
class _Depth:
    """Minus the objective by its emulator, as a score."""

    emulators: tuple[Emulator, ...]
    sign: float

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """The score at X (n, d), shape (n,)."""
        return -self.sign * emulated(self.emulators[0], X)

    def value_and_grad(self, X: Tensor, slot: int, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """The score (n,) at X (n, d) with its gradients (n, d)."""
        first = self.emulators[0]
        values, slopes = with_slopes(first.predict, X.detach().numpy(), stepped=first.stepped)
        return torch.from_numpy(-self.sign * values), torch.from_numpy(-self.sign * slopes)


@dataclass(frozen=True, eq=False)
class _Constrained(_Depth):
    """The same where the emulated constraints are <= 0, by a slack (c,) that rounding does not use up."""

    dimension: int
    slack: Tensor

    @property
    def anchors(self) -> Tensor:
        """No point is known to be feasible, shape (0, d)."""
        return torch.empty((0, self.dimension), dtype=torch.float64)

    def excess(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """The emulated constraints and the slack at X (n, d), shape (n, c)."""
        return torch.stack([emulated(each, X) for each in self.emulators[1:]], dim=1) + self.slack
