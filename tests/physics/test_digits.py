"""Digits: the likeness of images to a digit of the bundled set, and its known best."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fieldcraft.physics.problems.digits import Digits

BUNDLE = load_digits()


@pytest.mark.parametrize("digit", range(10))
def test_images_of_the_digit_look_more_like_it_than_those_of_any_other(digit):
    likeness = Digits(digit).likeness(BUNDLE.images)
    means = [likeness[BUNDLE.target == other].mean() for other in range(10)]
    assert int(np.argmax(means)) == digit and means[digit] > 0.8


def test_the_likeness_is_the_correlation_of_pixels_whatever_brightness_and_contrast():
    problem, image = Digits(7), BUNDLE.images[5]
    expected = np.corrcoef(image.ravel(), problem.mean.ravel())[0, 1]
    np.testing.assert_allclose(problem.likeness(np.stack([image, 3 + image / 2])), expected, rtol=1e-12)
    assert problem.likeness(np.full((1, 8, 8), 4.0)) == 0.0


@pytest.mark.parametrize(("sense", "value"), [("maximize", 1.0), ("minimize", -1.0)])
def test_the_known_best_image_uses_the_whole_range_and_reaches_the_limit(sense, value):
    problem = Digits(3)
    best = problem.optimum(sense)
    problem.space.check(best.design)
    assert problem.function(best.design)["likeness"] == pytest.approx(value, abs=1e-12) == best.value
    (image,) = problem.space.variables
    assert image.pixels(best.design["image"]).min() == 0 and image.pixels(best.design["image"]).max() == 16


def test_random_images_hardly_look_like_a_digit():
    images = np.random.default_rng(0).uniform(0, 16, (20_000, 8, 8))
    likeness = Digits().likeness(images)
    assert likeness.std() == pytest.approx(Digits().sd, rel=0.02)
    assert likeness.max() < 0.55


def test_a_digit_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="no digit 10: choose one from 0 to 9"):
        Digits(10)
