"""The contract of models/acquisition.py, for every file in models/acquisitions."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from kinds import is_frozen_dataclass, kinds, public_class

from fieldcraft.models.capability import Capability, required
from fieldcraft.models.constraints import Constraints
from fieldcraft.models.observations import Aim, Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.grouped_gp import GroupedGP

PACKAGE = "fieldcraft.models.acquisitions"
RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (10, 2))
DATA = Observations(X=X, y=100 - 10 * ((X - 0.4) ** 2).sum(axis=1), maximize=True, noise_sd=2.0)
POSTERIORS = {
    grouped: surrogate(noise="known").fit(DATA, np.random.default_rng(0), None, no_report)
    for grouped, surrogate in ((False, ExactGP), (True, GroupedGP))
}
# The same objective, and another with its best a little away.
SEVERAL = replace(DATA, aims=(Aim(True), Aim(False)), further=((X - 0.2) ** 2).sum(axis=1, keepdims=True))
OF_SEVERAL = Constraints().fit(ExactGP(noise="known"), SEVERAL, np.random.default_rng(0), None, no_report)
Z = torch.tensor(RNG.uniform(-1, 1, (6, 2)))
NONE = torch.empty(0, 2, dtype=torch.float64)


@pytest.fixture(params=kinds(PACKAGE))
def acquisition(request):
    return public_class(PACKAGE, request.param)()


def score(acquisition, pending=NONE, q=2, seed=1):
    if Capability.SEVERAL in required(acquisition):
        return acquisition.score(OF_SEVERAL, SEVERAL, pending, q, np.random.default_rng(seed))
    posterior = POSTERIORS[Capability.GROUPED in required(acquisition)]
    return acquisition.score(posterior, DATA, pending, q, np.random.default_rng(seed))


def test_an_acquisition_is_one_public_frozen_dataclass(acquisition):
    assert is_frozen_dataclass(type(acquisition))


@pytest.mark.parametrize("pending", [NONE, Z[:2]])
def test_a_score_is_finite_and_of_the_right_shape_in_every_place(acquisition, pending):
    found = score(acquisition, pending)
    for slot, chosen in ((0, NONE), (1, Z[3:4])):
        value = found.value(Z, slot, chosen)
        assert value.shape == (6,)
        assert value.dtype == torch.float64
        assert torch.isfinite(value).all()


def test_higher_is_better(acquisition):
    best, worst = torch.tensor(X[[DATA.y.argmax(), DATA.y.argmin()]])
    value = score(acquisition).value(torch.stack([best, worst]), 0, NONE)
    assert value[0] > value[1]


def test_each_candidate_is_judged_by_itself(acquisition):
    found = score(acquisition)
    together = found.value(Z, 0, NONE)
    apart = torch.cat([found.value(z.unsqueeze(0), 0, NONE) for z in Z])
    torch.testing.assert_close(together, apart, rtol=1e-6, atol=1e-9)


def test_the_gradient_equals_finite_differences(acquisition):
    found = score(acquisition, Z[:1])
    points = Z[1:].clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(found.value(points, 0, NONE).sum(), points)
    step = torch.tensor([1e-6, -2e-6], dtype=torch.float64)
    with torch.no_grad():
        difference = (found.value(Z[1:] + step, 0, NONE) - found.value(Z[1:] - step, 0, NONE)) / 2
    torch.testing.assert_close(gradient @ step, difference, rtol=1e-3, atol=1e-9)


def test_the_same_seed_gives_the_same_score_bit_for_bit(acquisition):
    first, again = (score(acquisition, Z[:1]).value(Z, 1, Z[2:3]) for _ in range(2))
    assert torch.equal(first, again)


def test_asking_twice_gives_the_same_values(acquisition):
    found = score(acquisition, Z[:1])
    first = found.value(Z, 1, Z[2:3])
    found.value(Z, 0, NONE)
    assert torch.equal(first, found.value(Z, 1, Z[2:3]))
