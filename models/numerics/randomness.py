"""From a numpy generator, which every function is given, to torch, without a global seed."""

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
    """Torch's global CPU generator seeded by one draw from rng inside the block, and as it was after it.

    For library code that offers no generator argument. Only the CPU's: such code must stay on the CPU.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(_seed(rng))
        yield
