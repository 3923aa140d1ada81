"""Learning from fields: what is believed of an output that is read from them, against closed forms."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from fieldcraft.models.emulation.field_posterior import Basis, followed
from fieldcraft.models.emulation.slopes import STEP
from fieldcraft.models.observations import Emulator, Observations
from fieldcraft.models.selection.predictive_score import score
from fieldcraft.models.snapshots import Snapshots
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.emulated_field import EmulatedField
from fieldcraft.models.surrogates.emulated_gp import EmulatedGP

RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (12, 4))
Z = RNG.uniform(-1, 1, (200, 4))
S = (np.arange(60) + 0.5) / 60


def field(X, width=0.1):
    """Two heaps whose places and heights follow the design, in kelvin: (n, 1, 60)."""
    x = X[:, :, None]
    low, high = 0.35 + 0.1 * x[:, 0], 0.65 + 0.1 * x[:, 1]
    heaps = [(8 + x[:, 2]) * np.exp(-(((S - low) / width) ** 2)), (8 + x[:, 3]) * np.exp(-(((S - high) / width) ** 2))]
    return (20 + sum(heaps))[:, None]


def coarse(X):
    """The heaps of a mesh that smears them, by a factor too low, beside a slope that there is not."""
    return 0.8 * field(X, 0.12) + 2 * S


def peak(fields, X):
    """The highest place, and the mean, of each field."""
    return np.stack([fields[:, 0].max(axis=1), fields[:, 0].mean(axis=1)], axis=1)


def snapshots(X=X, read=peak, output=0, values=None, predict=coarse):
    digests = tuple(f"{i:064x}" for i in range(len(X)))
    return Snapshots(field(X) if values is None else values, digests, predict, read, output)


def data(X=X, told=True, **changes):
    known = {"maximize": False, "emulators": (Emulator(lambda X: peak(coarse(X), X)[:, 0]),)}
    known["snapshots"] = snapshots(X) if told is True else told
    return Observations(X, peak(field(X), X)[:, 0], **(known | changes))


def fit(data, surrogate=None):
    return (surrogate or EmulatedField()).fit(data, np.random.default_rng(0), None, no_report)


def predicted(posterior, Z=Z):
    mean, variance = posterior.mean_var(torch.tensor(Z))
    return posterior.scaling.to_physical(mean.numpy()), posterior.scaling.sd * np.sqrt(variance.numpy())


def rmse(posterior):
    return math.sqrt(np.mean((predicted(posterior)[0] - peak(field(Z), Z)[:, 0]) ** 2))


def test_fields_teach_more_than_the_outputs_read_from_them():
    draws = [np.random.default_rng(seed).uniform(-1, 1, (12, 4)) for seed in range(5)]
    ratios = [rmse(fit(data(D))) / rmse(fit(data(D, told=None), EmulatedGP())) for D in draws]
    assert np.exp(np.mean(np.log(ratios))) < 0.7
    fields = fit(data())
    mean, sd = predicted(fields)
    assert np.mean(np.abs(mean - peak(field(Z), Z)[:, 0]) < 2 * sd) > 0.9
    assert fields.remarks["fields"].startswith("12 fields less the emulator's, in")
    assert fields.metrics["modes"] == len(fields.basis.modes) <= 10


def test_a_kind_of_field_that_the_emulator_knows_to_rounding_tells_nothing():
    def beside(fields, X, noise):
        return np.concatenate([fields, np.sqrt(300 + X[:, :1, None] * S) * (1 + 1e-16 * noise)], axis=1)

    values = beside(field(X), X, np.random.default_rng(1).integers(-2, 3, (12, 1, 60)))
    known = snapshots(values=values, predict=lambda X: beside(coarse(X), X, 0))
    found, alone = fit(data(told=known)), fit(data())
    assert found.metrics["modes"] == alone.metrics["modes"]
    for one, other in zip(predicted(found, X), predicted(alone, X), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_another_output_of_the_same_fields_is_read_by_its_number():
    other = data(constraints=peak(field(X), X)[:, 1:]).constraint(0)
    assert other.snapshots.output == 1
    mean, _ = predicted(fit(other))
    np.testing.assert_allclose(mean, peak(field(Z), Z)[:, 1], atol=0.1)


def test_a_quadratic_output_has_the_moments_of_gaussian_coefficients():
    """J = |F|^2 with F = f + sum_k c_k V_k, V_k orthonormal: each c_k adds what is known of a squared Gaussian."""
    rng = np.random.default_rng(1)
    modes = np.linalg.qr(rng.standard_normal((60, 3)))[0].T[:, None]
    offset = rng.standard_normal((1, 60))
    told = snapshots(read=lambda fields, X: (fields**2).sum(axis=(1, 2))[:, None])
    mean, sd = rng.standard_normal((5, 3)), rng.uniform(0.1, 2, (5, 3))
    basis = Basis(np.array([0.9]), offset, modes, ())
    found = followed(told, basis, X[:5], mean, sd)
    known = (0.9 * coarse(X[:5]) + offset)[:, 0]
    along = mean + known @ modes[:, 0].T
    squares = (known**2).sum(1) + (along**2 - (along - mean) ** 2).sum(1)
    np.testing.assert_allclose(found[0], squares + (sd**2).sum(1), rtol=1e-12)
    np.testing.assert_allclose(found[1], (4 * along**2 * sd**2 + 2 * sd**4).sum(1), rtol=1e-9)


def test_many_designs_are_followed_in_blocks(monkeypatch):
    posterior = fit(data())
    whole = posterior.mean_var(torch.tensor(Z))
    monkeypatch.setattr("fieldcraft.models.emulation.field_posterior._BLOCK", 7 * 60)
    for one, other in zip(whole, posterior.mean_var(torch.tensor(Z)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_modes_are_followed_some_at_a_time(monkeypatch):
    posterior = fit(data())
    assert len(posterior.basis.modes) % 3
    whole = posterior.mean_var(torch.tensor(Z[:5]))
    monkeypatch.setattr("fieldcraft.models.emulation.field_posterior._MOVED", 3 * 5 * 60)
    for one, other in zip(whole, posterior.mean_var(torch.tensor(Z[:5])), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_enough_modes_give_back_every_field_and_are_apart():
    posterior = fit(data(), EmulatedField(n_modes=50))
    basis, state = posterior.basis, posterior.state()
    found = basis.fields(coarse(X), state["coefficients"].numpy())
    np.testing.assert_allclose(found, field(X), atol=2e-3 * np.abs(field(X) - coarse(X)).max())
    gram = np.tensordot(basis.modes, basis.modes, ([1, 2], [1, 2]))
    np.testing.assert_allclose(gram / np.sqrt(np.outer(np.diag(gram), np.diag(gram))), np.eye(len(gram)), atol=1e-8)


def test_fewer_modes_are_the_best_of_their_number():
    """What K modes leave of the differences from their mean is the tail of their singular values (Eckart and Young)."""
    posterior = fit(data(), EmulatedField(n_modes=3))
    found = posterior.basis.fields(coarse(X), posterior.state()["coefficients"].numpy())
    factor = posterior.basis.factors[0]
    rows = (field(X) - factor * coarse(X))[:, 0]
    tail = np.linalg.svd(rows - rows.mean(0), compute_uv=False)[3:]
    assert np.linalg.norm(found - field(X)) == pytest.approx(np.linalg.norm(tail), rel=1e-9)
    slope, told = (each - each.mean(0) for each in (coarse(X), field(X)))
    assert factor == pytest.approx(float((slope * told).sum() / (slope**2).sum()))


def test_an_output_that_cannot_be_read_from_a_perturbed_field_goes_on_in_a_straight_line():
    """log J is not a number for J < 0: with one side alone, the slope is that of this side, and there is no bend."""

    def cold(fields, X):
        return np.log(fields[:, 0].min(axis=1))[:, None]

    told = snapshots(read=cold, predict=lambda X: np.ones((len(X), 1, 60)))
    basis = Basis(np.array([1.0]), np.zeros((1, 60)), np.ones((1, 1, 60)), ())
    with np.errstate(invalid="ignore", divide="ignore"):
        mean, variance = followed(told, basis, X[:3], np.array([[1.0], [0.0], [-2.0]]), np.array([[0.5], [1.5], [0.5]]))
    assert mean[0] == pytest.approx((math.log(2.5) + math.log(1.5)) / 2)
    assert (mean[1], variance[1]) == (pytest.approx(0.0), pytest.approx(math.log(2.5) ** 2))
    assert np.isnan(mean[2]) and np.isnan(variance[2])


def test_where_an_output_cannot_be_read_nothing_is_known():
    def partly(fields, X):
        return np.where(X[:, :1] > 0.5, np.nan, fields.mean(axis=2))

    told = snapshots(read=partly)
    posterior = fit(replace(data(told=told), y=field(X).mean(axis=(1, 2))))
    mean, variance = posterior.mean_var(torch.tensor(Z))
    lost = Z[:, 0] > 0.5
    assert lost.any() and torch.isfinite(mean).all() and (variance[lost] == 1.0 + posterior.rest).all()
    assert (variance[~lost] < 0.5).all() and torch.isfinite(posterior.log_predictive()).all()


def test_results_that_are_off_by_a_constant_shift_what_is_believed():
    told = data()
    off = replace(told, y=told.y + 5.0)
    np.testing.assert_allclose(predicted(fit(off))[0], predicted(fit(told))[0] + 5.0, atol=1e-8)


def test_units_of_a_field_do_not_matter():
    def both(fields, unit):
        return np.concatenate([fields, (fields[:, :, ::-1] ** 2) * unit], axis=1)

    def posterior(unit):
        def read(fields, X):
            return (fields[:, 0] + fields[:, 1] / unit).max(axis=1)[:, None]

        told = snapshots(values=both(field(X), unit), predict=lambda X: both(coarse(X), unit), read=read)
        return fit(replace(data(told=told), y=read(told.values, X)[:, 0]))

    kelvin, millikelvin = posterior(1.0), posterior(1e6)
    np.testing.assert_allclose(predicted(kelvin)[0], predicted(millikelvin)[0], rtol=1e-7)
    np.testing.assert_allclose(predicted(kelvin)[1], predicted(millikelvin)[1], rtol=1e-4)


@pytest.mark.parametrize(("maximize", "exact"), [(False, True), (True, False)])
def test_moments_have_their_gradients(maximize, exact):
    told = snapshots(read=lambda fields, X: (fields**2).mean(axis=2))  # smooth, unlike the highest of the cells
    known = replace(data(told=told, maximize=maximize, exact=exact), y=(field(X) ** 2).mean(axis=(1, 2)))
    posterior = fit(known).fantasize(torch.tensor(Z[50:52]))
    points = torch.tensor(Z[:4], requires_grad=True)
    at = posterior.moment_slopes(points)
    ahead, behind = (
        torch.stack(posterior.mean_var((points.detach()[:, None] + step).reshape(-1, 4))).numpy().reshape(2, -1, 4)
        for step in (STEP * torch.eye(4), -STEP * torch.eye(4))
    )
    for k, (values, slopes, found) in enumerate(
        zip(posterior.mean_var(points), (at.by_mean, at.by_variance), (at.mean, at.variance), strict=True)
    ):
        np.testing.assert_array_equal(found, values.detach())
        (gradient,) = torch.autograd.grad(values.sum(), points, retain_graph=True)
        bend = (ahead[k] + behind[k] - 2 * found[:, None]) / (2 * STEP)  # of a difference to one side
        np.testing.assert_allclose(slopes - bend, gradient, rtol=1e-7)
    far, back = (predicted(posterior, Z[:4] + np.array([step, 0, 0, 0]))[0] for step in (1e-3, -1e-3))
    sign = -1 if maximize else 1
    (gradient,) = torch.autograd.grad(posterior.mean_var(points)[0].sum(), points)
    np.testing.assert_allclose(sign * posterior.scaling.sd * gradient[:, 0], (far - back) / 2e-3, rtol=1e-4)


def test_draws_have_the_moments_of_a_linear_output():
    def mean(fields, X):
        return fields.mean(axis=2)

    told = snapshots(X[:6], read=mean)
    posterior = fit(replace(data(X[:6], told=told), y=mean(told.values, X)[:, 0]))
    points = torch.tensor(Z[:5])
    values = torch.stack([function(points) for function in posterior.draw(1500, np.random.default_rng(1))])
    expected, variance = posterior.mean_var(points)
    assert (values.mean(0) - expected).abs().max() < 4 * float(variance.max().sqrt()) / math.sqrt(1500)
    np.testing.assert_allclose(values.var(0), variance - posterior.rest, rtol=0.15)


def test_a_believed_design_is_doubted_less():
    posterior = fit(data(X[:6]))
    points = torch.tensor(Z[:3])
    later = posterior.fantasize(points)
    np.testing.assert_allclose(later.mean_var(points)[0], posterior.mean_var(points)[0], atol=0.05)
    assert (later.mean_var(points)[1] < 0.5 * posterior.mean_var(points)[1]).any()
    assert (later.mean_var(points)[1] >= posterior.rest).all()


def test_what_no_mode_represents_is_doubted_everywhere():
    rng = np.random.default_rng(9)
    ragged = field(X) + 0.5 * rng.standard_normal((len(X), 1, 60))
    told = snapshots(values=ragged)
    posterior = fit(replace(data(told=told), y=peak(ragged, X)[:, 0]), EmulatedField(n_modes=2))
    assert posterior.metrics["rest_sd"] > 0.1
    assert (posterior.mean_var(torch.tensor(Z))[1] >= posterior.rest).all()


def test_a_restored_posterior_is_the_same_bit_for_bit():
    posterior = fit(data())
    restored = EmulatedField().restore(data(), posterior.state())
    for one, other in zip(predicted(posterior), predicted(restored), strict=True):
        np.testing.assert_array_equal(one, other)
    torch.testing.assert_close(posterior.log_predictive(), restored.log_predictive(), rtol=0, atol=0)
    others = replace(snapshots(), digests=("f" * 64, *snapshots().digests[1:]))
    with pytest.raises(ValueError, match="The state is of data with digest"):
        EmulatedField().restore(data(told=others), posterior.state())


@pytest.mark.parametrize(
    ("known", "reason"),
    [(data(X[:3]), "3 trials, and 4 teach how they differ"), (data(told=None), "not every trial left one")],
    ids=["too few", "without fields"],
)
def test_the_outputs_alone_teach_where_fields_cannot(known, reason):
    posterior, other = fit(known), fit(known, EmulatedGP())
    np.testing.assert_array_equal(predicted(posterior)[0], predicted(other)[0])
    assert reason in posterior.remarks["fields"] and "emulator" in posterior.remarks
    restored = EmulatedField().restore(known, posterior.state())
    np.testing.assert_array_equal(predicted(posterior)[1], predicted(restored)[1])
    assert restored.remarks == posterior.remarks


def test_fields_that_do_not_vary_are_no_obstacle():
    told = snapshots(values=coarse(X) + 1.0)
    posterior = fit(replace(data(told=told), y=peak(told.values, X)[:, 0]))
    assert posterior.metrics["modes"] == 0
    np.testing.assert_allclose(predicted(posterior)[0], peak(coarse(Z) + 1.0, Z)[:, 0], atol=1e-9)
    assert torch.isfinite(posterior.log_predictive()).all()
    function = posterior.draw(1, np.random.default_rng(0))[0]
    np.testing.assert_allclose(function(torch.tensor(Z)), posterior.mean_var(torch.tensor(Z))[0])


def test_bad_settings_and_fields_are_refused():
    with pytest.raises(ValueError, match="n_modes is 0"):
        EmulatedField(n_modes=0)
    with pytest.raises(ValueError, match="fields of 3 trials and the designs of 12"):
        data(told=snapshots(X[:3]))


def test_refits_without_some_results_do_without_fields():
    """Each fold is fitted to some of the trials: the fields of all of them do not fit these."""
    known, surrogate = data(), EmulatedField()

    class Silent:
        """The posterior without its closed form."""

        def __init__(self, posterior):
            self.mean_var, self.scaling = posterior.mean_var, posterior.scaling

    assert math.isfinite(score(surrogate, Silent(fit(known)), known, 3, np.random.default_rng(0)))


def heaps_on(cells, read):
    """Snapshots of 12 fields of two heaps on so many equal cells, which come on fewer when asked for."""
    s = (np.arange(cells) + 0.5) / cells

    def true(X, width=0.1, factor=1.0):
        x = X[:, :, None]
        places = 0.35 + 0.1 * x[:, 0], 0.65 + 0.1 * x[:, 1]
        heaps = [(8 + x[:, 2 + i]) * np.exp(-(((s - at) / width) ** 2)) for i, at in enumerate(places)]
        return (20 + factor * sum(heaps))[:, None]

    made = snapshots(read=read, values=true(X), predict=lambda X: true(X, 0.12, 0.8), output=1)
    return replace(made, coarser=lambda most: replace(heaps_on(most, read), output=0))


def test_a_first_look_at_many_designs_takes_means_over_fewer_cells_and_believes_nearly_the_same():
    read_on = []

    def read(fields, X):
        read_on.append(fields.shape[2])
        return peak(fields, X)[:, ::-1]

    posterior = fit(data(told=heaps_on(10_000, read)))
    first, points = posterior.coarse, torch.tensor(Z)
    read_on.clear()
    mean, variance = first.mean_var(points)
    assert set(read_on) == {2500}
    told, doubt = posterior.mean_var(points)
    assert set(read_on) == {2500, 10_000}
    # Between two centres lies 9 (2e-4 / 0.1)^2 = 4e-5 K of a top, for the mean field and for the bend of each mode.
    np.testing.assert_allclose(mean, told, atol=4e-5 * (1 + 2 * len(posterior.basis.modes)) / posterior.scaling.sd)
    np.testing.assert_allclose(variance, doubt, rtol=0.02)
    assert np.corrcoef(variance, doubt)[0, 1] > 0.999


def test_a_first_look_is_the_posterior_itself_where_cells_are_few_or_no_fewer_can_be_read():
    def read(fields, X):
        if fields.shape[2] != 9000:
            raise ValueError("read on these cells alone")
        return peak(fields, X)[:, ::-1]

    for posterior in (fit(data(told=heaps_on(9000, read))), fit(data())):
        assert posterior.coarse is posterior
