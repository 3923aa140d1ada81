import numpy as np
import torch

from fieldcraft.models.numerics.randomness import seeded, torch_generator


def test_torch_generator_follows_the_numpy_generator():
    first, again, other = (torch.rand(3, generator=torch_generator(np.random.default_rng(s))) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_seeded_block_repeats_itself_and_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    draws = []
    for _ in range(2):
        with seeded(np.random.default_rng(5)):
            draws.append(torch.rand(4))
    assert torch.equal(draws[0], draws[1])
    assert torch.equal(torch.get_rng_state(), before)
