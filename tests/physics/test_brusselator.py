"""The problem brusselator: published runs, an ordinary equation, a decaying wave, and how its fields are read."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fieldcraft.physics.problems.brusselator import Brusselator
from fieldcraft.physics.problems.heat import Heat
from fieldcraft.physics.simulators.brusselator import ReactionPyPde

PROBLEM, SIMULATOR = Brusselator(), ReactionPyPde()
NAMES = ("a", "b", "D0", "D1")


def simulated(problem, *design):
    design = dict(zip(NAMES, design, strict=True))
    return design, SIMULATOR.run(problem, design, np.random.default_rng(0))


# Designs of the released runs of Bhouri et al. (2023) and the variances of their stored fields: one at rest, to which
# the noise is nothing, and one of spots that grew from it. Their steps of Euler's method leave the second's 4e-5.
@pytest.mark.parametrize(
    ("design", "variance", "within"),
    [
        ((1.8443763256072998, 2.9184141159057617, 2.3631014823913574, 0.7937877774238586), 0.2553012657453619, 1e-8),
        ((1.458403468132019, 2.3425772190093994, 0.4363173544406891, 4.816721439361572), 0.2261010219017252, 1e-4),
    ],
)
def test_the_variance_is_that_of_a_published_run(design, variance, within):
    design, run = simulated(PROBLEM, *design)
    weights = np.full((64, 64), 0.1)
    weights[[0, 1, -2, -1]] = weights[:, [0, 1, -2, -1]] = 1.0
    found = PROBLEM.evaluate(design, run)["variance"]
    assert found == pytest.approx(np.var([weights * run["u"].to_numpy(), weights * run["v"].to_numpy()]), rel=1e-12)
    assert found == pytest.approx(variance, rel=within)


@dataclass(frozen=True)
class Small(Brusselator):
    """A Brusselator on 8 x 8 cells of side 8 that begins with one wave along x."""

    wave: float = 0.0
    reacts: bool = True

    def begin(self, design):
        along = np.cos(np.pi * (np.arange(8) + 0.5) / 8)
        first = super().begin(design)[:, :8, :8]
        first[0], first[1] = design["a"], design["b"] / design["a"] + 0.1
        return first + self.wave * along[:, None]

    def reaction(self, design, values):
        return super().reaction(design, values) if self.reacts else np.zeros_like(values)


def test_without_noise_the_substances_follow_the_ordinary_equation():
    a, b = 0.6, 2.0

    def change(t, c):
        return [a - (b + 1) * c[0] + c[0] ** 2 * c[1], b * c[0] - c[0] ** 2 * c[1]]

    expected = solve_ivp(change, (0.0, 20.0), [a, b / a + 0.1], rtol=1e-10, atol=1e-12).y[:, -1]
    _, run = simulated(Small(), a, b, 0.3, 2.0)
    for name, value in zip("uv", expected, strict=True):
        np.testing.assert_allclose(run[name], value, rtol=2e-4)
    assert np.abs(expected - [a, b / a]).min() > 0.1  # it goes round in a cycle


def test_without_a_reaction_a_wave_decays_at_the_rate_of_its_substance():
    _, run = simulated(Small(wave=1.0, reacts=False), 1.0, 1.0, 0.5, 4.0)
    slowness = (2 - 2 * np.cos(np.pi / 8)) / 8.0**2
    for name, rest, rate in (("u", 1.0, 0.5), ("v", 1.1, 4.0)):
        wave = np.cos(np.pi * (np.arange(8) + 0.5) / 8) * np.exp(-rate * slowness * 20.0)
        np.testing.assert_allclose(run[name] - rest, np.broadcast_to(wave[:, None], (8, 8)), atol=1e-4)


def test_fields_that_are_even_within_larger_cells_are_read_there_as_on_their_own():
    coarse = np.random.default_rng(1).normal(size=(2, 3, 8, 16))
    fine = coarse.repeat(8, axis=2).repeat(4, axis=3)
    read = [
        PROBLEM.functional(dict(zip("uv", each, strict=True)), {"x": each[0, 0, :, 0], "y": each[0, 0, 0]}, {})
        for each in (coarse, fine)
    ]
    assert read[0].shape == (3, 1)
    np.testing.assert_allclose(*read, rtol=1e-12)


def test_a_problem_without_a_reaction_is_refused():
    with pytest.raises(ValueError, match="cannot run Heat, which states no reaction"):
        SIMULATOR.run(Heat(), {}, np.random.default_rng(0))


def test_the_best_design_has_the_stated_variance():
    best = PROBLEM.optimum("minimize")
    design, run = simulated(PROBLEM, *best.design.values())
    assert PROBLEM.evaluate(design, run)["variance"] == pytest.approx(best.value, rel=1e-6)
