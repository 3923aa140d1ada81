"""Expected improvement of a distance from a band or a target: against fifty digits, Monte Carlo and differences."""

import mpmath
import numpy as np
import pytest

from fieldcraft.models.scoring.bands import LogBandImprovement

MEANS, SDS = np.array([-40.0, -1.0, 0.3, 2.5]), np.array([0.01, 0.3, 4.0])
CASES = [(0.0, 0.0, 1.0), (0.0, 0.0, 1e-3), (-1.0, 2.0, 0.5), (-1.0, 2.0, 1e-4)]


def exact(low, high, level, mean, sd):
    """Its logarithm, by the four terms in 350 digits, in which nothing is lost."""
    with mpmath.workdps(350):
        z = [(mpmath.mpf(mean) - mpmath.mpf(a)) / mpmath.mpf(sd) for a in (low - level, low, high, high + level)]
        h = [mpmath.npdf(each) + each * mpmath.erfc(-each / mpmath.sqrt(2)) / 2 for each in z]
        total = h[0] - h[1] - h[2] + h[3]
        return float(mpmath.log(total) + mpmath.log(sd)) if total > mpmath.mpf(10) ** -300 else None


@pytest.mark.parametrize(("low", "high", "level"), CASES)
def test_values_are_those_of_many_digits_and_derivatives_those_of_differences(low, high, level):
    score = LogBandImprovement(low, high, level)
    for mean in MEANS:
        for sd in SDS:
            value, by_mean, by_sd = (float(each[0]) for each in score(np.array([mean]), np.array([sd])))
            assert np.isfinite([value, by_mean, by_sd]).all()
            true = exact(low, high, level, mean, sd)
            if true is None:
                continue
            assert value == pytest.approx(true, rel=1e-9, abs=1e-6)
            h = 1e-4 * sd
            for slope, at in ((by_mean, ((mean - h, sd), (mean + h, sd))), (by_sd, ((mean, sd - h), (mean, sd + h)))):
                ends = [exact(low, high, level, *each) for each in at]
                if None not in ends:
                    assert slope == pytest.approx((ends[1] - ends[0]) / (2 * h), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(("low", "high", "level"), CASES[::2])
def test_values_are_those_of_monte_carlo_within_its_error(low, high, level):
    rng = np.random.default_rng(0)
    for mean, sd in ((-1.5, 1.0), (0.2, 0.5), (2.0, 2.0)):
        f = mean + sd * rng.standard_normal(200_000)
        gains = np.maximum(level - np.maximum(np.maximum(low - f, f - high), 0), 0)
        value = np.exp(LogBandImprovement(low, high, level)(np.array([mean]), np.array([sd]))[0][0])
        assert abs(value - gains.mean()) < 4 * gains.std() / np.sqrt(len(f))
