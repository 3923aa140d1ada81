"""Sensitive samples: the image whose classification changes most with the weights of a classifier of digits."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.problem import Optimum, Output, Problem, Sense
from fieldcraft.physics.problems.digits import IMAGE, Digits
from fieldcraft.physics.space import Design, SearchSpace

Array = NDArray[np.float64]

_LEAST_LIKENESS = 0.6
# The best of 3,000 ascents from uniform images, and of 400 from disturbed digits, to three decimals of a pixel.
_BEST = """
16 16 16 13.828 16 16 16 16; 16 16 16 16 16 16 16 16; 16 16 16 16 16 16 16 16; 16 16 16 16 16 16 16 16;
16 16 16 16 16 16 16 16; 16 16 16 16 16 16 16 16; 16 16 16 16 16 0 16 16; 16 16 16 0 0 0 16 16
"""
_BEST_REALISTIC = """
12.71 12.936 15.555 16 16 15.034 14.494 16; 12.701 13.495 16 16 16 16 15.442 13.717;
12.599 11.932 14.092 14.835 16 16 16 13.567; 12.783 15.351 16 12.146 16 16 16 12.878;
12.71 16 16 16 16 16 16 12.71; 12.804 16 16 16 16 16 14.878 12.688;
12.935 15.36 12.921 16 16 6.055 7.883 12.031; 12.709 12.94 16 15.091 9.125 5.797 9.494 11.869
"""


@dataclass(frozen=True)
class SensitiveSamples(Problem):
    """Frobenius norm of the derivative of a classifier's probabilities by its weights, |dp / dW|_F (He et al., 2018).

    Whoever hosts the classifier may have changed its weights. An image of a great norm is likely to be put under
    another digit then, so that a few of them tell it (Neural-BO: Phan-Trong et al., 2023, section 7.2.1; Neural-CBO:
    5.5).
    The classifier is a softmax regression, p = softmax(W (x, 1)), with x the 64 pixels over 16: with n = |(x, 1)|,

        |dp / dW|_F = n |diag(p) - p p^T|_F = n sqrt(sum p^2 - 2 sum p^3 + (sum p^2)^2) <= n / 2.

    It is trained, with the penalty |W|^2 / 2 (the constants apart), on two of three of scikit-learn's bundled digits.
    That is a convex problem, so that everyone has the same weights. The papers do not say what their classifier is.

    Args:
        realistic: With the constraint ``unreal`` <= 0 that the image be like a digit, as attackers sort out strange
            ones. In the papers people rate it. Here it is the likeness to the mean image of one digit (see ``Digits``),
            to be 0.6: 99% of the images of the set have that, and no random one.
    """

    realistic: bool = False

    @property
    def space(self) -> SearchSpace:
        """The image, 8 x 8 pixels from 0 to 16."""
        return SearchSpace((IMAGE,))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The norm, a pure number, and 0.6 less the likeness to a digit if it is to be realistic."""
        return (Output("sensitivity"), *([Output("unreal")] if self.realistic else []))

    @property
    def sd(self) -> float:
        """Standard deviation of the norm over uniform images."""
        return 0.498

    @property
    def weights(self) -> Array:
        """W: of each digit those of the 64 pixels, row by row, and the constant, shape (10, 65)."""
        return _trained()

    def sensitivity(self, images: Array) -> Array:
        """|dp / dW|_F of the images (n, 8, 8), shape (n,)."""
        x = _with_one(images)
        p = probabilities(self.weights, images)
        squares, cubes = (p**2).sum(axis=1), (p**3).sum(axis=1)
        return np.asarray(np.linalg.norm(x, axis=1) * np.sqrt(np.maximum(squares - 2 * cubes + squares**2, 0.0)))

    def realism(self, images: Array) -> Array:
        """Greatest likeness of the images (n, 8, 8) to one of the ten digits, shape (n,)."""
        return np.asarray(np.max([Digits(digit).likeness(images) for digit in range(10)], axis=0))

    def function(self, design: Design) -> Mapping[str, float]:
        """The outputs of a design, for the simulator ``function``."""
        image = IMAGE.pixels(design["image"])[None]
        found = {"sensitivity": float(self.sensitivity(image)[0])}
        return {**found, "unreal": _LEAST_LIKENESS - float(self.realism(image)[0])} if self.realistic else found

    def optimum(self, sense: Sense) -> Optimum | None:
        """The best image known of the greatest norm, which ascents agree upon; None for the least."""
        if sense == "minimize":
            return None
        image = IMAGE.pixels((_BEST_REALISTIC if self.realistic else _BEST).strip())
        return Optimum({"image": IMAGE.text(image)}, float(self.sensitivity(image[None])[0]))


def probabilities(weights: Array, images: Array) -> Array:
    """Probability of each digit by weights (10, 65) for the images (n, 8, 8), shape (n, 10)."""
    scores = _with_one(images) @ weights.T
    grown = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True))


def held_out() -> tuple[Array, NDArray[np.int64]]:
    """Images (n, 8, 8) on which the classifier was not trained, each third of the set, and their digits (n,)."""
    images, digits = _bundle()
    return images[2::3], digits[2::3]


def _with_one(images: Array) -> Array:
    pixels = np.asarray(images, dtype=np.float64).reshape(-1, IMAGE.width) / IMAGE.high
    return np.hstack([pixels, np.ones((len(pixels), 1))])


@lru_cache
def _bundle() -> tuple[Array, NDArray[np.int64]]:
    # Imported here: it takes a second, which only the process that reads the images should pay.
    from sklearn.datasets import load_digits

    bundle = load_digits()
    return np.asarray(bundle.images, dtype=np.float64), np.asarray(bundle.target, dtype=np.int64)


@lru_cache
def _trained() -> Array:
    from sklearn.linear_model import LogisticRegression

    images, digits = _bundle()
    known = np.arange(len(images)) % 3 != 2
    pixels = _with_one(images[known])[:, :-1]
    fitted = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(pixels, digits[known])
    weights: Array = np.hstack([fitted.coef_, fitted.intercept_[:, None]])
    weights.setflags(write=False)
    return weights
