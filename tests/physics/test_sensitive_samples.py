"""Sensitive samples: the norm against finite differences and its bound, the known best, and what tampering does."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_digits

from fieldcraft.physics.problems.digits import IMAGE
from fieldcraft.physics.problems.sensitive_samples import SensitiveSamples, held_out, probabilities

FREE, REALISTIC = SensitiveSamples(), SensitiveSamples(realistic=True)
BUNDLE = load_digits()
SOME = np.concatenate([BUNDLE.images[:6], np.random.default_rng(0).uniform(0, 16, (6, 8, 8))])


def test_the_norm_is_that_of_the_probabilities_differences_by_each_weight():
    step, squares = 1e-5, np.zeros(len(SOME))
    for place in np.ndindex(FREE.weights.shape):
        moved = np.zeros_like(FREE.weights)
        moved[place] = step
        ahead, behind = (probabilities(FREE.weights + sign * moved, SOME) for sign in (1, -1))
        squares += (((ahead - behind) / (2 * step)) ** 2).sum(axis=1)
    np.testing.assert_allclose(FREE.sensitivity(SOME), np.sqrt(squares), rtol=1e-7)


def test_the_norm_is_at_most_half_the_length_of_the_pixels_and_the_constant():
    lengths = np.sqrt(((SOME / 16) ** 2).sum(axis=(1, 2)) + 1)
    assert np.all(FREE.sensitivity(SOME) <= lengths / 2)


def test_the_weights_are_those_at_which_the_penalised_likelihood_is_stationary():
    known = np.arange(len(BUNDLE.images)) % 3 != 2
    x = np.hstack([BUNDLE.images[known].reshape(-1, 64) / 16, np.ones((known.sum(), 1))])
    missed = probabilities(FREE.weights, BUNDLE.images[known]) - np.eye(10)[BUNDLE.target[known]]
    penalty = np.hstack([FREE.weights[:, :64], np.zeros((10, 1))])
    assert np.abs(missed.T @ x + penalty).max() < 1e-4
    assert not FREE.weights.flags.writeable


def test_digits_that_were_not_shown_are_mostly_recognised():
    images, digits = held_out()
    right = probabilities(FREE.weights, images).argmax(axis=1) == digits
    assert len(images) == 599 and right.mean() == pytest.approx(0.957, abs=0.002)


@pytest.mark.parametrize(("problem", "value"), [(FREE, 3.86444), (REALISTIC, 3.49330)])
def test_the_known_best_image_is_within_the_space_and_reaches_its_value(problem, value):
    best = problem.optimum("maximize")
    problem.space.check(best.design)
    found = problem.function(best.design)
    assert found["sensitivity"] == best.value == pytest.approx(value, abs=1e-5)
    assert all(found[name] <= 0 for name in found if name == "unreal")
    assert problem.optimum("minimize") is None


def test_no_ascent_from_a_random_image_ends_higher_than_the_known_best():
    rng, best = np.random.default_rng(1), FREE.optimum("maximize").value

    def fall(x):
        scores = FREE.weights @ np.append(x, 1.0)
        p = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        squares, length = p @ p, x @ x + 1
        shape = squares - 2 * (p**3).sum() + squares**2
        by_p = 2 * p - 6 * p**2 + 4 * squares * p
        by_x = FREE.weights[:, :64].T @ (p * (by_p - p @ by_p))
        norm = np.sqrt(length * shape)
        return -norm, -(2 * shape * x + length * by_x) / (2 * norm)

    ends = [minimize(fall, rng.random(64), jac=True, method="L-BFGS-B", bounds=[(0, 1)] * 64) for _ in range(100)]
    reached = np.array([-end.fun for end in ends])
    assert reached.max() < best + 1e-6 and np.sum(reached > best - 0.03) >= 3
    np.testing.assert_allclose(FREE.sensitivity(np.array([16 * end.x for end in ends])), reached, rtol=1e-9)


def test_images_of_the_set_are_realistic_and_random_ones_are_not():
    random = np.random.default_rng(2).uniform(0, 16, (20_000, 8, 8))
    assert np.mean(REALISTIC.realism(BUNDLE.images) >= 0.6) > 0.99
    assert REALISTIC.realism(random).max() < 0.6
    assert FREE.sensitivity(random).std() == pytest.approx(FREE.sd, rel=0.02)


def test_the_constraint_is_what_the_image_lacks_in_likeness_to_a_digit():
    found = REALISTIC.function({"image": IMAGE.text(BUNDLE.images[3])})
    assert found["unreal"] == pytest.approx(0.6 - REALISTIC.realism(BUNDLE.images[3:4])[0], abs=1e-15)
    assert list(found) == [output.name for output in REALISTIC.outputs] == ["sensitivity", "unreal"]
    assert list(FREE.function({"image": IMAGE.text(BUNDLE.images[3])})) == ["sensitivity"]


def test_changed_weights_put_a_sensitive_image_under_another_digit_more_often_than_one_of_the_set():
    rng = np.random.default_rng(3)
    sensitive = IMAGE.pixels(REALISTIC.optimum("maximize").design["image"])
    both = np.concatenate([sensitive[None], BUNDLE.images[:200]])
    told = probabilities(FREE.weights, both).argmax(axis=1)
    changed = [FREE.weights + 0.25 * rng.normal(size=FREE.weights.shape) for _ in range(300)]
    differs = np.mean([probabilities(each, both).argmax(axis=1) != told for each in changed], axis=0)
    assert differs[0] > 0.4 and differs[1:].mean() < 0.1
