"""Experiments that must not be repeated without a person's word; the dispatcher ``faulty`` answers for them."""

from dataclasses import dataclass
from typing import ClassVar

from fieldcraft.physics.problem import Simulator


@dataclass(frozen=True)
class Fragile(Simulator):
    """Never run here."""

    idempotent: ClassVar[bool] = False

    def run(self, problem, design, rng):
        raise NotImplementedError("the dispatcher answers instead")
