"""Quadratic functions of normal variables, against densities that are known or integrated."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import chi2, norm

from fieldcraft.models.selection.quadratics import Quadratics

RNG = np.random.default_rng(6)
NOISE_FREE = 1e-12


def stirling(half):
    """Logarithm of Gamma(half) over Stirling's formula, which is what the saddle point of a chi-squared law misses."""
    return math.lgamma(half) - (0.5 * math.log(2 * math.pi) + (half - 0.5) * math.log(half) - half)


def test_moments_are_those_of_draws():
    law = Quadratics(np.array([1.0, -2.0]), np.array([[0.5, 1.0], [0.0, 0.3]]), np.array([[0.2, -0.4], [1.0, 0.0]]))
    z = RNG.standard_normal((200_000, 2))
    drawn = law.middle[:, None] + law.slopes @ z.T + law.bends @ (z**2).T
    np.testing.assert_allclose(law.mean, drawn.mean(axis=1), atol=5 * (law.variance / 200_000).max() ** 0.5)
    np.testing.assert_allclose(law.variance, drawn.var(axis=1), rtol=0.03)


def test_without_bends_it_is_normal():
    law = Quadratics(np.array([1.0, 2.0, 3.0]), RNG.standard_normal((3, 4)), np.zeros((3, 4)))
    values, spreads = np.array([3.0, -40.0, 3.0]), np.array([0.25, 2.0])
    noises = np.array([[0.1, 0.2, 0.3], [1e-6, 1e-6, 5.0]])
    found = law.log_densities(values, spreads, noises)
    for s, r in np.ndindex(2, 2):
        sd = np.sqrt(spreads[s] * law.variance + noises[r])
        np.testing.assert_allclose(found[s, r], norm.logpdf(values, law.middle, sd), rtol=1e-9)


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_sums_of_squares_are_chi_squared_but_for_stirlings_formula(k, sign):
    """Also where the value lies fifty standard deviations out."""
    values, spread = np.array([0.2, 1.0, 4.0, 40.0, 200.0]), 3.0
    law = Quadratics(np.full(5, 7.0), np.zeros((5, k)), np.full((5, k), sign * 0.5))
    found = law.log_densities(7.0 + sign * values, np.array([spread]), np.full((1, 5), NOISE_FREE))[0, 0]
    expected = chi2.logpdf(values, k, scale=0.5 * spread)
    np.testing.assert_allclose(found - expected, stirling(k / 2), atol=2e-5)


def test_with_slopes_bends_and_noise_it_is_near_the_integral():
    slopes, bends, noise = np.array([0.6, -0.3]), np.array([0.25, -0.1]), 0.05
    values = np.array([-2.0, -0.5, 0.0, 0.5, 1.5, 4.0])
    grid = np.linspace(-9, 9, 1801)
    first, second = np.meshgrid(grid, grid, indexing="ij")
    at = slopes[0] * first + bends[0] * first**2 + slopes[1] * second + bends[1] * second**2
    weights = norm.pdf(first) * norm.pdf(second) * (grid[1] - grid[0]) ** 2
    exact = np.log([np.sum(weights * norm.pdf(value, at, noise**0.5)) for value in values])
    law = Quadratics(np.zeros(6), np.tile(slopes, (6, 1)), np.tile(bends, (6, 1)))
    found = law.log_densities(values, np.ones(1), np.full((1, 6), noise))[0, 0]
    np.testing.assert_allclose(found, exact, atol=0.25)
    assert np.abs(norm.logpdf(values, law.mean, np.sqrt(law.variance + noise)) - exact).max() > 1.0


@pytest.mark.parametrize("value", [-1.5, 0.4, 6.0])
def test_the_saddle_point_is_the_least_cumulant_less_its_value(value):
    slopes, bends, noise, step = np.array([0.9, -0.6]), np.array([0.25, 0.1]), 0.05, 1e-4

    def less(t):
        q = 1 - 2 * bends * t
        return np.sum(slopes**2 * t**2 / q - np.log(q)) / 2 + noise * t**2 / 2 - t * value

    t = minimize_scalar(less, bounds=(-60.0, 1.999), method="bounded", options={"xatol": 1e-10}).x
    bend = (less(t + step) + less(t - step) - 2 * less(t)) / step**2
    law = Quadratics(np.zeros(1), slopes[None], bends[None])
    found = law.log_densities(np.array([value]), np.ones(1), np.full((1, 1), noise))
    assert found.item() == pytest.approx(less(t) - 0.5 * math.log(2 * math.pi * bend), abs=1e-5)


def test_in_other_units_an_unknown_function_is_a_standard_normal_variable():
    law = Quadratics(np.array([4.0, np.nan]), np.array([[2.0], [1.0]]), np.array([[0.5], [1.0]])).scaled(1.0, 2.0)
    np.testing.assert_array_equal(law.middle, [1.5, 0.0])
    np.testing.assert_array_equal(law.slopes, [[1.0], [1.0]])
    np.testing.assert_array_equal(law.bends, [[0.25], [0.0]])
    none = Quadratics(np.array([np.nan]), np.empty((1, 0)), np.empty((1, 0))).scaled(1.0, 2.0)
    assert (none.mean, none.variance) == (pytest.approx(0.0), pytest.approx(1.0))
