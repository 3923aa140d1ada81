import hashlib

import numpy as np
import pytest

from fieldcraft.models.observations import ImageColumns, Observations, Physics, Scaling
from fieldcraft.physics.operators import laplace

X = np.array([[0.1, -0.2], [0.5, 0.9], [-1.0, 1.0], [0.0, 0.3]])
Y = np.array([310.0, 290.5, 402.25, 333.0])


def observations(**changes):
    return Observations(**({"X": X, "y": Y, "maximize": True, "noise_sd": 2.0} | changes))


def physics(**changes):
    known = {
        "equation": laplace(2),
        "points": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "center": np.array([3.0, 3.0]),
        "half": np.array([2.0, 4.0]),
    }
    return Physics(**(known | changes))


def test_targets_have_mean_zero_and_unit_sample_deviation():
    targets = observations().targets
    assert targets.mean() == pytest.approx(0.0, abs=1e-14)
    assert targets.std(ddof=1) == pytest.approx(1.0, rel=1e-14)


@pytest.mark.parametrize("maximize", [True, False])
def test_the_best_reading_has_the_least_target(maximize):
    data = observations(maximize=maximize)
    assert np.argmin(data.targets) == (np.argmax(Y) if maximize else np.argmin(Y))


@pytest.mark.parametrize("maximize", [True, False])
def test_scaling_goes_there_and_back(maximize):
    scaling = Scaling.of(Y, maximize=maximize)
    np.testing.assert_allclose(scaling.to_physical(scaling.to_target(Y)), Y, rtol=1e-15)
    assert scaling.to_physical(0.0) == pytest.approx(Y.mean(), rel=1e-15)
    assert scaling.to_physical(1.0) - scaling.to_physical(0.0) == pytest.approx(scaling.sign * Y.std(ddof=1))


@pytest.mark.parametrize("y", [[5.0], [5.0, 5.0, 5.0], [0.1 + 0.2, 0.3], [0.0, 0.0]])
def test_one_reading_or_constant_readings_keep_their_unit(y):
    scaling = Scaling.of(y, maximize=False)
    assert scaling.sd == 1.0
    assert scaling.mean == pytest.approx(y[0], rel=1e-15)


@pytest.mark.parametrize("y", [[5.0], [0.1 + 0.2, 0.3], [0.0, 1e-200]])
def test_readings_are_constant_where_their_scale_is_a_convention_and_only_there(y):
    data = observations(X=X[: len(y)], y=np.array(y))
    assert data.constant == (data.scaling.sd == 1.0)


def test_stated_noise_beyond_all_readings_is_a_finite_variance():
    assert 1e200 * 0.999 < observations(y=1e-200 * Y).noise_variance < np.inf


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_scaling_of_extreme_readings_neither_underflows_nor_overflows(size):
    scaling = Scaling.of(np.array([1.0, 2.0, 4.0]) * size, maximize=False)
    assert scaling.sd == pytest.approx(np.std([1.0, 2.0, 4.0], ddof=1) * size, rel=1e-12)


def test_scaling_does_not_depend_on_the_order_of_the_trials():
    rng = np.random.default_rng(0)
    y = rng.normal(size=200) * 10.0 ** rng.integers(-6, 6, size=200)
    scalings = {Scaling.of(rng.permutation(y), maximize=False) for _ in range(20)}
    assert len(scalings) == 1


def test_known_noise_is_scaled_with_the_readings():
    data = observations(noise_sd=3.0)
    assert data.noise_variance == pytest.approx((3.0 / Y.std(ddof=1)) ** 2)
    assert observations(noise_sd=None).noise_variance is None


def test_equal_data_have_equal_digests():
    assert observations().digest == observations().digest
    assert observations(X=np.asfortranarray(X)).digest == observations().digest
    assert observations(X=X.tolist(), y=Y.tolist()).digest == observations().digest
    assert observations(X=np.where(X == 0, -0.0, X)).digest == observations().digest
    assert len(bytes.fromhex(observations().digest)) == hashlib.sha256().digest_size


@pytest.mark.parametrize(
    "changes",
    [
        {"X": np.nextafter(X, 2)},
        {"y": np.nextafter(Y, np.inf)},
        {"maximize": False},
        {"noise_sd": None},
        {"noise_sd": 2.5},
        {"X": X[::-1], "y": Y[::-1]},
        {"X": X[:3], "y": Y[:3]},
        {"physics": physics()},
        {"images": (ImageColumns(0, (1, 2)),)},
    ],
)
def test_every_number_and_the_order_of_trials_change_the_digest(changes):
    assert observations(**changes).digest != observations().digest


def test_observations_without_images_keep_the_digest_that_earlier_ledgers_hold():
    assert observations().digest == "ca06d0d22c9e9761c4782657bbb85afba18a2d57cce80c04116848ce1462a7e3"


@pytest.mark.parametrize("name", ["points", "center", "half"])
def test_the_collocation_set_is_part_of_the_digest(name):
    known = physics()
    other = physics(**{name: getattr(known, name) * 1.5})
    assert observations(physics=other).digest != observations(physics=known).digest


def test_later_changes_of_the_source_arrays_do_not_reach_the_observations():
    source = Y.copy()
    data = observations(y=source)
    source[0] = 0.0
    assert data.y[0] == Y[0]
    with pytest.raises(ValueError, match="read-only"):
        data.y[0] = 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"y": [1.0, np.nan, 2.0, 3.0]},
            r"y holds nan at index \(1,\) \(1 such values\).*record such a trial as failed",
        ),
        ({"X": np.where(X == 0.9, np.inf, X)}, r"X holds inf at index \(1, 1\)"),
        ({"y": Y[:3]}, r"X \(4, 2\) and y \(3,\) do not fit"),
        ({"X": X[:0], "y": Y[:0]}, "at least one trial"),
        ({"noise_sd": -1.0}, r"noise_sd is -1.0: give a finite number >= 0"),
        ({"noise_sd": np.nan}, r"noise_sd is nan"),
        (
            {"images": (ImageColumns(1, (1, 2)),)},
            r"An image of \(1, 2\) pixels from coordinate 1 on does not fit",
        ),
        ({"X": X[:, :1], "physics": physics()}, "Collocation points have 2 coordinates and designs 1"),
    ],
)
def test_data_that_nothing_can_be_learnt_from_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        observations(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"half": [1.0, 0.0]}, r"half is \[1.0, 0.0\]: every half length must be positive"),
        ({"half": [1.0]}, r"half \(1,\) do not fit"),
        ({"points": np.full((2, 2), np.nan)}, "Physics.points holds nan"),
    ],
)
def test_physics_that_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        physics(**changes)


def test_physics_encodes_its_box_to_minus_one_and_one():
    known = physics()
    np.testing.assert_array_equal(known.encode([[1.0, -1.0], [5.0, 7.0]]), [[-1.0, -1.0], [1.0, 1.0]])
    np.testing.assert_allclose(known.decode(known.encode(known.points)), known.points, rtol=1e-15)
