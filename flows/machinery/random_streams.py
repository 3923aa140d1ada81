"""Random streams by address: each use has its own stream, named by (seed, iteration, step, slot).

A step that is redone after a crash draws the same numbers, and a new use elsewhere does not shift them
(numpy.random.SeedSequence with a spawn key).
"""

from enum import IntEnum

import numpy as np


class Use(IntEnum):
    """Purpose of a stream. The numbers are part of the address: never reuse or reorder them."""

    INITIAL = 1
    COLLOCATE = 2
    TRAIN = 3
    ACQUIRE = 4
    SIMULATE = 5
    NOISE = 6
    GATE = 7
    EMULATE = 8


def stream(seed: int, iteration: int, use: Use, slot: int = 0) -> np.random.Generator:
    """A fresh generator at an address; the same address gives the same numbers on every machine."""
    return np.random.default_rng(np.random.SeedSequence(entropy=seed, spawn_key=(iteration, int(use), slot)))
