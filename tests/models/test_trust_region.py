"""TuRBO's trust region over results that can be counted by hand, and the candidates within it."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fieldcraft.models.observations import Observations
from fieldcraft.models.rivals._trust_region import Region, present_run
from fieldcraft.models.rivals.turbo import TuRBO, _candidates
from fieldcraft.physics.space import Continuous, SearchSpace

FLAT = [1.0] * 4  # the start of a run in two dimensions


@pytest.mark.parametrize(
    ("results", "region"),
    [
        ([], Region(1.0)),
        ([1.0005], Region(1.0005, failures=1)),  # better, but by less than a thousandth
        ([2.0, 1.5], Region(2.0, failures=1)),
        ([1.5, 2.0], Region(2.0, successes=2)),
        ([2.0 + i for i in range(10)], Region(11.0, length=1.6)),
        ([2.0 + i for i in range(20)], Region(21.0, length=1.6)),  # 1.6 is the most
        ([0.0] * 4, Region(1.0, length=0.4)),
        ([0.0] * 27, Region(1.0, length=0.0125, failures=3)),
    ],
)
def test_the_region_doubles_after_ten_successes_in_a_row_and_halves_after_four_failures(results, region):
    assert present_run(FLAT + results, 2, 1) == (0, region)


def test_a_region_that_has_become_too_small_begins_a_new_run():
    spent = FLAT + [0.0] * 28
    assert present_run(spent, 2, 1) == (32, None)
    assert present_run([*spent, 5.0, 6.0, 5.0], 2, 1) == (32, None)
    assert present_run([*spent, -5.0, -6.0, -5.0, -4.0], 2, 1) == (32, Region(-4.0))


def test_a_batch_counts_once_and_wide_problems_have_more_patience():
    assert present_run([*FLAT, 0.0, 3.0, 0.0, 0.0], 2, 2) == (0, Region(3.0, failures=1))
    assert present_run([1.0] * 12 + [0.0] * 5, 6, 1) == (0, Region(1.0, failures=5))
    assert present_run([1.0] * 12 + [0.0] * 6, 6, 1) == (0, Region(1.0, length=0.4))


def test_candidates_lie_in_a_box_in_proportion_to_the_length_scales_and_change_twenty_coordinates():
    scales = torch.ones(40, dtype=torch.double)
    scales[0] = 4.0
    model = SimpleNamespace(covar_module=SimpleNamespace(base_kernel=SimpleNamespace(lengthscale=scales[None])))
    centre = torch.full((40,), 0.5, dtype=torch.double)
    torch.manual_seed(0)
    away = (_candidates(model, centre, 0.2, seed=1) - centre).abs()
    assert away.shape == (5000, 40)
    sides = 2 * away.max(0).values
    assert float((sides / 0.2).log().mean()) == pytest.approx(0.0, abs=0.01)  # the volume is that of the cube
    assert float(sides[0] / sides[1]) == pytest.approx(4.0, rel=0.01)
    assert float((away > 0).sum(1).double().mean()) == pytest.approx(20.0, abs=0.2)
    assert int((away > 0).sum(1).min()) >= 1


def test_proposals_close_in_on_the_optimum_of_a_bowl():
    space = SearchSpace((Continuous("x", 0.0, 1.0), Continuous("y", 0.0, 1.0)))
    X = space.sample(8, np.random.default_rng(0))
    before = np.linalg.norm(X - 0.3, axis=1).min()
    for trial in range(3):
        read = Observations(X, np.square(X - 0.3).sum(axis=1), maximize=False)
        X = np.vstack([X, TuRBO().suggest(read, np.empty((0, 2)), space, 1, np.random.default_rng(trial))])
    assert np.linalg.norm(X - 0.3, axis=1).min() < 0.3 * before
