"""Coefficients of an emulator fitted to the fields of runs: against known ones, closed forms and Monte Carlo."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from fieldcraft.models.emulation import calibration
from fieldcraft.models.emulation.calibration import Scale, calibrated
from fieldcraft.models.observations import Emulator, Observations
from fieldcraft.models.snapshots import Calibration, Snapshots
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates import emulated_field
from fieldcraft.models.surrogates.emulated_field import EmulatedField
from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.operators import LinearEquation
from fieldcraft.physics.parametric.finite_differences import solved
from fieldcraft.physics.parametric.statement import Condition, Field, ParametricEquation, UncertainCoefficient
from fieldcraft.physics.parametric.transfer import carried

LOSS = UncertainCoefficient("loss", 0.5, 50.0, "1/m^2", value=20.0)
SPREAD = UncertainCoefficient("spread", 0.01, 10.0, value=5.0)
TRUE = (2.0, 0.7)
X = np.random.default_rng(2).uniform(-1, 1, (80, 2))
COARSE, FINE = 12, 120
STATED = ParametricEquation(
    Domain((Axis("s", 0.0, 1.0, "m"),)),
    (Field("u", "K"),),
    lambda design: LinearEquation(
        design["loss"],
        (0.0,),
        ((-design["spread"],),),
        lambda points: design["b"] + 3 * np.exp(-(((points[:, 0] - design["a"]) / 0.2) ** 2)),
    ),
    (Condition("u", "s", "low", 1.0), Condition("u", "s", "high", value=0.0, slope=1.0)),
    (COARSE,),
    coefficients=(LOSS, SPREAD),
)


def on(cells, values, stated=STATED):
    """The field of encoded designs (n, 2) on so many cells, (n, 1, cells), as a function."""
    known = stated.calibrated(values)
    return lambda X: solved(known, {"a": 0.5 + 0.4 * X[:, :1], "b": 2 + X[:, 1:]}, (cells,))["u"][:, None]


def means(fields):
    """Means of fields over the coarse cells."""
    return fields.reshape(*fields.shape[:2], COARSE, -1).mean(axis=3)


def known(fields, coefficients=(LOSS, SPREAD), solve=None):
    solve = solve or (lambda values: on(COARSE, values))
    return Calibration(coefficients, fields, solve, solve)


@pytest.mark.parametrize("n", [1, 2, 4, 12])
def test_coefficients_of_the_same_grid_are_found_to_rounding(n):
    found = calibrated(known(on(COARSE, TRUE)(X[:n])), X[:n])
    np.testing.assert_allclose(found.values, TRUE, rtol=1e-7)
    assert np.isfinite(found.errors).all() == (n > 2) and not (found.errors > 1e-6).any()


@pytest.mark.parametrize("n", [1, 4, 12])
def test_coefficients_of_a_finer_grid_are_found_to_the_error_of_the_coarse_one(n):
    found = calibrated(known(means(on(FINE, TRUE)(X[:n]))), X[:n])
    np.testing.assert_allclose(found.values, TRUE, rtol=0.02)


def test_with_noise_the_standard_errors_are_those_of_repeated_measurements():
    exact = on(COARSE, TRUE)(X[:12])
    rng = np.random.default_rng(0)
    found = [calibrated(known(exact + 0.05 * rng.standard_normal(exact.shape)), X[:12]) for _ in range(60)]
    values, errors = np.array([each.values for each in found]), np.array([each.errors for each in found])
    # A mean of 60 has 13% of the standard deviation as its error, and a standard deviation of 60 has 9%.
    assert (np.abs(values.mean(0) - TRUE) < 4 * values.std(0) / np.sqrt(60)).all()
    np.testing.assert_allclose(np.sqrt((errors**2).mean(0)), values.std(0, ddof=1), rtol=0.35)


def test_errors_that_the_cells_of_a_run_share_count_once():
    """y_i = theta + e_i in all cells of run i: the estimate is the mean, its standard error sd(e) / sqrt(n)."""
    level = UncertainCoefficient("level", -10.0, 10.0, "K", value=3.0)
    e = np.random.default_rng(5).standard_normal(12)
    fields = np.broadcast_to((1.5 + e)[:, None, None], (12, 1, 500))
    found = calibrated(known(fields, (level,), lambda values: lambda X: np.full((len(X), 1, 500), values[0])), X[:12])
    assert found.values[0] == pytest.approx(1.5 + e.mean(), abs=1e-9)
    assert found.errors[0] == pytest.approx(e.std(ddof=1) / np.sqrt(12), rel=1e-6)


@pytest.mark.parametrize(
    ("coefficients", "values", "said"),
    [
        (
            (replace(LOSS, high=1.5, value=1.0), SPREAD),
            (1.5, None),
            "loss 1.5 1/m^2 (stated 1, the upper end of its range), spread 1.482 (stated 5, standard error 0.069)",
        ),
        (
            (replace(LOSS, low=3.0, value=9.0), SPREAD),
            (3.0, None),
            "loss 3 1/m^2 (stated 9, the lower end of its range), spread 0.4932 (stated 5, standard error 0.37)",
        ),
        (
            (replace(LOSS, low=3.0), replace(SPREAD, high=0.4, value=0.4)),
            (3.0, 0.4),
            "loss 3 1/m^2 (stated 20, the lower end of its range), spread 0.4 (stated 0.4, the upper end of its range)",
        ),
    ],
    ids=["upper", "lower", "both"],
)
def test_a_value_beyond_its_range_ends_at_the_bound_and_says_so(coefficients, values, said):
    found = calibrated(known(on(COARSE, TRUE, WIDE)(X[:12]), coefficients), X[:12])
    for coefficient, value, error, expected in zip(coefficients, found.values, found.errors, values, strict=True):
        assert coefficient.low <= value <= coefficient.high
        assert (value == expected and np.isnan(error)) if expected is not None else error > 0
    assert found.remark == said


@pytest.mark.parametrize(("least", "kept"), [(0.6, True), (0.4, False)])
def test_stated_values_stand_unless_others_leave_less_than_half(least, kept):
    """Of fields 1.5 +- e that a level of 1 is stated for, the best level leaves e^2 of 0.5^2 + e^2."""
    e = 0.5 * np.sqrt(least / (1 - least)) * np.where(np.arange(12) % 2, 1.0, -1.0)
    level = UncertainCoefficient("level", -10.0, 10.0, "K", value=1.0)
    fields = np.broadcast_to((1.5 + e)[:, None, None], (12, 1, 500))
    found = calibrated(known(fields, (level,), lambda values: lambda X: np.full((len(X), 1, 500), values[0])), X[:12])
    assert found.values[0] == (1.0 if kept else pytest.approx(1.5, abs=1e-6)) and np.isnan(found.errors[0]) == kept
    assert (found.remark == "level 1 K, as stated: no other values fit the fields much better") == kept


WIDE = replace(STATED, coefficients=tuple(replace(each, low=1e-6, high=1e6) for each in STATED.coefficients))


@pytest.mark.parametrize(("loss", "spread"), [(1e-4, 1e4), (1e4, 1e-3), (1e6, 1e-6)])
def test_ranges_of_many_decades_are_searched(loss, spread):
    wide = tuple(replace(each, value=value) for each, value in zip(WIDE.coefficients, (loss, spread), strict=True))
    found = calibrated(known(on(COARSE, TRUE)(X[:4]), wide, lambda values: on(COARSE, values, WIDE)), X[:4])
    np.testing.assert_allclose(found.values, TRUE, rtol=1e-5)


@pytest.mark.parametrize("positive", [True, False])
def test_no_value_lies_beyond_its_range_by_rounding(positive):
    rng = np.random.default_rng(0)
    for low, width in rng.lognormal(sigma=2, size=(300, 2)) * ([1, 1] if positive else [-1, 1]):
        scale = Scale(UncertainCoefficient("h", low, low + width, value=low + width / 2))
        shares = (0.0, 1e-17, scale.share(low + width / 2), np.nextafter(1.0, 0.0), 1.0)
        values = [scale.value(share) for share in shares]
        assert values[0] == low and values[-1] == low + width and values[2] == pytest.approx(low + width / 2, rel=1e-9)
        assert all(low <= value <= low + width for value in values)
        assert 0 == scale.share(low) <= scale.share(np.nextafter(low + width, low)) <= scale.share(low + width) == 1
        ahead, behind = scale.value(0.4 + 1e-6), scale.value(0.4 - 1e-6)
        assert scale.slope(0.4) == pytest.approx((ahead - behind) / 2e-6, rel=1e-6)


def test_a_search_that_did_not_end_tells_no_standard_error(monkeypatch):
    monkeypatch.setattr(calibration, "_SOLUTIONS", 2)
    found = calibrated(known(on(COARSE, TRUE)(X[:6])), X[:6])
    assert np.isnan(found.errors).all() and (found.values != (LOSS.value, SPREAD.value)).all()


def test_a_range_with_zero_in_it_is_searched_too():
    both = tuple(replace(each, low=-1.0) for each in (LOSS, SPREAD))
    stated = replace(STATED, coefficients=both)
    found = calibrated(known(on(COARSE, TRUE)(X[:4]), both, lambda values: on(COARSE, values, stated)), X[:4])
    np.testing.assert_allclose(found.values, TRUE, rtol=1e-6)


def test_a_value_well_inside_a_wide_range_is_not_taken_for_its_end():
    wide = replace(LOSS, low=0.0, high=1e5, value=1.0), replace(SPREAD, low=0.0, high=1e4, value=0.5)
    stated = replace(STATED, coefficients=wide)
    found = calibrated(known(on(COARSE, TRUE)(X[:6]), wide, lambda values: on(COARSE, values, stated)), X[:6])
    np.testing.assert_allclose(found.values, TRUE, rtol=1e-5)
    assert (found.errors > 0).all() and "end of its range" not in found.remark


def test_a_value_at_which_the_equation_has_no_solution_is_not_taken():
    level = UncertainCoefficient("level", 0.0, 10.0, "K", value=5.0)

    def solve(values):
        if values[0] == 0:
            raise ValueError("The stated equation has no unique solution.")
        return lambda X: np.full((len(X), 1, 3), values[0])

    found = calibrated(known(np.full((6, 1, 3), -1.0), (level,), solve), X[:6])
    assert 0 < found.values[0] < 1e-3


@pytest.mark.parametrize("noise", [0.0, 0.001, 0.01])
def test_coefficients_that_the_fields_do_not_tell_apart_have_no_standard_error(noise):
    factors = (UncertainCoefficient("p", 0.1, 10.0, value=5.0), UncertainCoefficient("q", 0.05, 5.0, value=0.1))
    product = replace(
        STATED, equation=lambda design: STATED.equation({**design, "loss": design["p"] * design["q"], "spread": 0.7})
    )
    product, fields = replace(product, coefficients=factors), on(COARSE, TRUE)(X[:6])
    fields = fields + noise * np.random.default_rng(0).standard_normal(fields.shape)
    found = calibrated(known(fields, factors, lambda values: on(COARSE, values, product)), X[:6])
    assert found.values.prod() == pytest.approx(TRUE[0], rel=1e-6 + 10 * noise)
    assert np.isnan(found.errors).all()
    assert found.remark.count(", standard error unknown)") == 2


def test_each_kind_of_field_counts_in_units_of_its_own_spread():
    """Two kinds of field that ask for other values of one coefficient: a unit decides nothing."""
    level = UncertainCoefficient("level", -10.0, 10.0, value=3.0)
    rows = np.random.default_rng(1).standard_normal((8, 1, 50))

    def found(unit):
        fields = np.concatenate([rows + 1, unit * (rows - 1)], axis=1)

        def solve(values):
            return lambda X: np.concatenate([rows + values[0], unit * (rows + values[0])], axis=1)

        return float(calibrated(known(fields, (level,), solve), X[:8]).values[0])

    assert found(1.0) == pytest.approx(0.0, abs=1e-9) and found(1e6) == pytest.approx(0.0, abs=1e-9)


def test_readings_count_by_their_noise_and_absent_ones_not_at_all():
    """One coefficient that the readings have as a factor: weighted least squares in closed form."""
    rng, slope = np.random.default_rng(4), UncertainCoefficient("slope", -50.0, 50.0, value=-40.0)
    places, noise = rng.uniform(1, 3, (5, 1, 7)), rng.uniform(0.1, 4, (5, 1, 7))
    told = 2 * places + noise * rng.standard_normal(noise.shape)
    for row, left in enumerate((7, 3, 5, 0, 6)):
        told[row, :, left:] = noise[row, :, left:] = np.nan

    def solve(values):
        return lambda X: np.where(np.isnan(told), 1e3 * values[0], values[0] * places)

    found = calibrated(Calibration((slope,), told, solve, solve, noise=noise), np.zeros((5, 2)))
    best = np.nansum(places * told / noise**2) / np.nansum(places**2 / noise**2 + 0 * told)
    np.testing.assert_allclose(found.values, best, rtol=1e-6)


@pytest.mark.parametrize("flat", [0.0, 25.0])
def test_a_field_that_is_flat_to_rounding_decides_nothing(flat):
    rounding = 1e-14 * flat * np.random.default_rng(3).standard_normal((4, 1, COARSE))

    def both(fields, more):
        return np.concatenate([fields, flat + more], axis=1)

    fields = both(on(COARSE, TRUE)(X[:4]), rounding)

    def solve(values):
        return lambda X: both(on(COARSE, values)(X), (1 + values[0]) * rounding[: len(X)])

    found = calibrated(known(fields, solve=solve), X[:4])
    np.testing.assert_allclose(found.values, TRUE, rtol=1e-6)


def test_of_many_runs_some_are_fitted():
    asked = []

    def solve(values):
        return lambda X: (asked.append(len(X)), on(COARSE, values)(X))[1]

    found = calibrated(known(on(COARSE, TRUE)(X), solve=solve), X)
    np.testing.assert_allclose(found.values, TRUE, rtol=1e-7)
    assert set(asked) == {64} and len(asked) < 100


def snapshots(n):
    """Fields of n runs on the finer grid, and the emulator of the coarse one carried there."""

    def predict(values):
        return lambda X: carried(on(COARSE, values)(X)[:, 0], (FINE,), (False,))[:, None]

    def read(fields, X):
        return fields.max(axis=2)

    values, stated = on(FINE, TRUE)(X[:n]), (LOSS.value, SPREAD.value)
    digests = tuple(f"{i:064x}" for i in range(n))
    return Snapshots(values, digests, predict(stated), read, 0, replace(known(means(values)), predict=predict))


def data(n=8, calibrate=True):
    told = snapshots(n) if calibrate else replace(snapshots(n), calibration=None)
    emulators = (Emulator(lambda X: told.outputs(told.predict(X), X)),)
    y = told.outputs(told.values, X[:n])
    return Observations(X[:n], y, maximize=False, emulators=emulators, snapshots=told)


def fit(data):
    return EmulatedField().fit(data, np.random.default_rng(0), None, no_report)


def predicted(posterior):
    mean, variance = posterior.mean_var(torch.tensor(X[30:]))
    return posterior.scaling.to_physical(mean.numpy()), variance.numpy()


def test_a_calibrated_emulator_predicts_better_than_a_wrong_one():
    truth = on(FINE, TRUE)(X[30:]).max(axis=(1, 2))
    error, wrong = (np.sqrt(np.mean((predicted(fit(data(calibrate=each)))[0] - truth) ** 2)) for each in (True, False))
    assert error < 0.5 * wrong


def test_the_posterior_tells_the_values():
    posterior = fit(data())
    assert posterior.metrics["coefficient.loss"] == pytest.approx(2.0, rel=0.02)
    assert posterior.metrics["coefficient.spread"] == pytest.approx(0.7, rel=0.02)
    loss, spread = posterior.remarks["coefficients"].split(", spread ")
    assert re.fullmatch(r"loss 1\.99\d 1/m\^2 \(stated 20, standard error 0\.00\d+\)", loss)
    assert re.fullmatch(r"0\.7\d* \(stated 5, standard error 0\.00\d+\)", spread)
    plain = fit(data(calibrate=False))
    assert "coefficients" not in plain.remarks and not any(name.startswith("coeff") for name in plain.metrics)
    assert not any(name.startswith("calibrated") for name in plain.state())


def test_a_restored_posterior_is_the_same_bit_for_bit_without_another_fit(monkeypatch):
    posterior = fit(data())
    monkeypatch.setattr(emulated_field, "calibrated", None)
    restored = EmulatedField().restore(data(), posterior.state())
    for one, other in zip(predicted(posterior), predicted(restored), strict=True):
        np.testing.assert_array_equal(one, other)
    assert restored.metrics == posterior.metrics and restored.remarks == posterior.remarks
    assert restored.state().keys() == posterior.state().keys()


def test_a_state_of_before_the_coefficients_were_stated_keeps_the_stated_values():
    plain = fit(data(calibrate=False))
    restored = EmulatedField().restore(data(), plain.state())
    np.testing.assert_array_equal(predicted(restored)[0], predicted(plain)[0])
    assert "coefficients" not in restored.remarks


def test_three_trials_calibrate_nothing():
    posterior = fit(data(3))
    assert "coefficients" not in posterior.remarks and "3 trials, and 4 teach" in posterior.remarks["fields"]
