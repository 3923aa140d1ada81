"""Experiments that may be repeated without harm; the dispatcher ``faulty`` answers for them."""

from dataclasses import dataclass
from typing import ClassVar

from fieldcraft.physics.problem import Simulator


@dataclass(frozen=True)
class Repeatable(Simulator):
    """Never run here."""

    idempotent: ClassVar[bool] = True

    def run(self, problem, design, rng):
        raise NotImplementedError("the dispatcher answers instead")
