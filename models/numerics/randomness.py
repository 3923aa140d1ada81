"""Generators for torch, made from the numpy generator that each function gets, without a global seed."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**63 - 1))


def torch_generator(rng: np.random.Generator) -> torch.Generator:
    """A CPU generator of torch, seeded by one draw from rng."""
    return torch.Generator().manual_seed(_seed(rng))


@contextmanager
def seeded(rng: np.random.Generator) -> Iterator[None]:
    """Seed torch's global CPU generator by one draw from rng inside the block, and restore it afterwards.

    Only for library code without a generator argument. Such code must stay on the CPU, since only its generator is
    seeded.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(_seed(rng))
        yield
