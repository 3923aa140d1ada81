"""Images as variables: text in designs, pixels in the encoded space."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fieldcraft.physics.space import (
    Categorical,
    Continuous,
    Image,
    ImageColumns,
    LinearConstraint,
    SearchSpace,
    SpaceError,
)

IMAGE = Image("face", (2, 3), 0.0, 16.0, "lux")
SPACE = SearchSpace((Continuous("heat", 0.0, 1.0), Categorical("film", ("fast", "slow")), IMAGE))


def test_an_image_is_text_of_rows_and_its_pixels_are_the_coordinates():
    design = {"heat": 0.5, "film": "slow", "face": "0 8 16; 4 12 2.5"}
    X = SPACE.encode([design])
    np.testing.assert_allclose(X, [[0, 0, 1, -1, 0, 1, -0.5, 0.5, -0.6875]], atol=1e-15)
    assert SPACE.decode(X) == [design]
    assert SPACE.images == (ImageColumns(first=3, shape=(2, 3)),)
    assert SPACE.discrete.tolist() == [False, True, True] + 6 * [False]


def test_a_space_without_images_has_no_image_columns():
    assert SearchSpace((Continuous("heat", 0.0, 1.0),)).images == ()


@settings(max_examples=50, deadline=None)
@given(arrays.arrays(np.float64, (2, 3), elements=st.floats(-1e300, 1e300)))
def test_pixels_survive_the_way_into_text_and_back_to_the_bit(pixels):
    assert np.array_equal(IMAGE.pixels(IMAGE.text(pixels)), pixels)


def test_decoded_images_keep_to_the_bounds_and_take_them_as_they_are():
    image = Image("face", (2, 2), 0.1, 0.7)
    (design,) = SearchSpace((image,)).decode([[-7.0, 1.0, np.nextafter(1, 0), -1.0]])
    image.check(design["face"])
    assert design["face"].split("; ")[0] == "0.1 0.7" and design["face"].endswith(" 0.1")


def test_sampled_images_are_uniform_and_designs_of_the_space():
    space = SearchSpace((IMAGE,))
    X = space.sample(4000, np.random.default_rng(0))
    assert X.shape == (4000, 6)
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=0.04)
    np.testing.assert_allclose(X.std(axis=0), 3**-0.5, atol=0.02)
    for design in space.decode(X[:20]):
        space.check(design)
    np.testing.assert_allclose(space.encode(space.decode(X[:20])), X[:20], atol=1e-14)
    assert np.array_equal(space.repair(2 * X[:5]), np.clip(2 * X[:5], -1, 1))


def test_bounds_on_an_image_narrow_every_pixel():
    narrow = SPACE.narrowed({"face": (4.0, 8.0)})
    assert [design["face"] for design in narrow.decode([[0, 1, 0, -1, 1, 0, 0, 0, 0]])] == ["4 8 6; 6 6 6"]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Image("", (2, 2), 0.0, 1.0), "A variable is named ''"),
        (lambda: Image("face", (2, 2), 1.0, 1.0), r"pixels of face have the bounds \[1.0, 1.0\]: .* swap them"),
        (lambda: Image("face", (2, 2), 0.0, float("inf")), "A bound of face is inf: give a finite number"),
        (lambda: Image("face", (1, 9), 0.0, 1.0), r"face has the shape \(1, 9\): give \(rows, columns\), 2 or more"),
        (lambda: IMAGE.check("0 1 2; 3 4 17"), r"A pixel of face is 17, outside \[0, 16\]: give a value within"),
        (lambda: IMAGE.check("0 1 2; 3 4"), "face is '0 1 2; 3 4', no image of 2 x 3 finite pixels: separate rows"),
        (lambda: IMAGE.check("0 1; 2 3; 4 5"), "no image of 2 x 3 finite pixels"),
        (lambda: IMAGE.check("0 1 2; 3 4 nan"), "no image of 2 x 3 finite pixels"),
        (lambda: IMAGE.check("0 1 2; 3 4 cat"), "face is '0 1 2; 3 4 cat', no image"),
        (lambda: IMAGE.check(3.0), "face is '3.0', no image"),
        (lambda: SPACE.narrowed({"face": (-1.0, 2.0)}), r"The bounds \[-1.0, 2.0\] of face leave the problem's own"),
        (
            lambda: SearchSpace((IMAGE,), (LinearConstraint({"face": 1.0}, 1.0),)),
            "holds face, an image: only numbers can be summed",
        ),
    ],
)
def test_nonsense_about_images_is_refused_with_the_value_and_the_remedy(build, message):
    with pytest.raises(SpaceError, match=message):
        build()
