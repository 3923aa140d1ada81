"""Draw a digit: the image of 8 x 8 pixels that looks most like one of scikit-learn's handwritten digits."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.problem import Optimum, Output, Problem, Sense
from fieldcraft.physics.space import Design, Image, SearchSpace

Array = NDArray[np.float64]

IMAGE = Image("image", (8, 8), 0.0, 16.0)
"""The design: 64 pixels, as in the bundled set."""


@dataclass(frozen=True)
class Digits(Problem):
    """Likeness of an image to a digit: its correlation, over the 64 pixels, with the digit's mean image.

    The mean is that of all images of the digit in scikit-learn's bundled set (Alpaydin and Kaynak, 1998), whose pixels
    run from 0 to 16. The greatest likeness, 1, is that of the mean itself, whatever its brightness and contrast; an
    image without contrast has the likeness 0. Random images reach 0.3, and images of the set 0.9.

    Args:
        digit: Which digit, from 0 to 9.

    Raises:
        ValueError: another number.
    """

    digit: int = 3

    def __post_init__(self) -> None:
        if self.digit not in range(10):
            raise ValueError(f"The problem digits has no digit {self.digit!r}: choose one from 0 to 9.")

    @property
    def space(self) -> SearchSpace:
        """The image, 8 x 8 pixels from 0 to 16."""
        return SearchSpace((IMAGE,))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The likeness, a pure number from -1 to 1."""
        return (Output("likeness"),)

    @property
    def sd(self) -> float:
        """Standard deviation over uniform images: that of a correlation over 64 independent pixels."""
        return float(63**-0.5)

    @property
    def mean(self) -> Array:
        """The digit's mean image, shape (8, 8)."""
        return _mean_image(self.digit)

    def likeness(self, images: Array) -> Array:
        """Likeness of the images (n, 8, 8), shape (n,)."""
        shapes = np.asarray(images, dtype=np.float64).reshape(-1, IMAGE.width)
        shapes = shapes - shapes.mean(axis=1, keepdims=True)
        wanted = self.mean.reshape(-1) - self.mean.mean()
        sizes = np.linalg.norm(shapes, axis=1) * np.linalg.norm(wanted)
        return np.asarray(np.divide(shapes @ wanted, sizes, out=np.zeros(len(shapes)), where=sizes > 0))

    def function(self, design: Design) -> Mapping[str, float]:
        """The outputs of a design, for the simulator ``function``."""
        return {"likeness": float(self.likeness(IMAGE.pixels(design["image"])[None])[0])}

    def optimum(self, sense: Sense) -> Optimum:
        """The mean image, stretched to the whole range of a pixel, or its negative."""
        brightness = (self.mean - self.mean.min()) / np.ptp(self.mean)
        if sense == "minimize":
            return Optimum({"image": IMAGE.text(IMAGE.high * (1 - brightness))}, -1.0)
        return Optimum({"image": IMAGE.text(IMAGE.high * brightness)}, 1.0)


@lru_cache
def _mean_image(digit: int) -> Array:
    # Imported here: it takes a second, which only the process that reads the images should pay.
    from sklearn.datasets import load_digits

    bundle = load_digits()
    mean: Array = np.asarray(bundle.images[bundle.target == digit], dtype=np.float64).mean(axis=0)
    mean.setflags(write=False)
    return mean
