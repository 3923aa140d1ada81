"""Images as variables of a search space: one coordinate of [-1, 1] a pixel, row by row."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fieldcraft.physics.variables import Array, SpaceError, check_name, finite, narrowed_bounds

# Of a text that is no image an error shows this many characters.
_SHOWN = 60


@dataclass(frozen=True)
class ImageColumns:
    """Encoded coordinates that are the pixels of one image, row by row.

    Args:
        first: Index of the first of them.
        shape: Rows and columns of the image; their product is the number of coordinates.
    """

    first: int
    shape: tuple[int, int]


@dataclass(frozen=True)
class Image:
    """A picture of one channel: a grid of real pixels, each in [low, high].

    In a design it is text, which ledgers and tables can store and people can read: rows from the top, separated by
    ``;``, of pixels separated by spaces, as in ``0 1.5; 2 16``. ``pixels`` and ``text`` convert between the two.

    Args:
        name: Its name in designs, files and tables.
        shape: Rows and columns, each at least 2.
        low: Lower bound of a pixel, in ``unit``.
        high: Upper bound of a pixel, in ``unit``; above ``low``.
        unit: Physical unit of a pixel; empty for a pure number.

    Raises:
        SpaceError: blank name, a shape that is no grid, bounds that are not finite or not in order.
    """

    name: str
    shape: tuple[int, int]
    low: float
    high: float
    unit: str = ""

    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_name(self.name)
        low, high = (finite(f"A bound of {self.name}", bound) for bound in (self.low, self.high))
        if low >= high:
            raise SpaceError(
                f"The pixels of {self.name} have the bounds [{self.low}, {self.high}]: the lower must be below the "
                "upper; swap them."
            )
        if len(self.shape) != 2 or min(self.shape) < 2:
            raise SpaceError(f"The image {self.name} has the shape {self.shape}: give (rows, columns), 2 or more each.")

    @property
    def width(self) -> int:
        """Number of coordinates: one a pixel."""
        return self.shape[0] * self.shape[1]

    @property
    def scale(self) -> tuple[float, float]:
        """Middle and half-width, in ``unit``: an encoded coordinate is (pixel - middle) / half-width."""
        return self.low / 2 + self.high / 2, self.high / 2 - self.low / 2

    @property
    def box(self) -> Array:
        """Bounds of the coordinates, shape (2, width)."""
        return np.array([[-1.0], [1.0]]) * np.ones(self.width)

    def pixels(self, value: object) -> Array:
        """The pixels that a text holds, of this image's shape, in ``unit``; bounds are not checked.

        Raises:
            SpaceError: the value is not text, holds anything but finite numbers, or has another shape.
        """
        try:
            rows = [[float(pixel) for pixel in row.split()] for row in str(value).split(";")]
        except ValueError:
            rows = []
        if [len(row) for row in rows] != [self.shape[1]] * self.shape[0] or not np.isfinite(rows).all():
            raise SpaceError(
                f"{self.name} is {str(value)[:_SHOWN]!r}, no image of {self.shape[0]} x {self.shape[1]} finite pixels: "
                "separate rows by ';' and pixels by spaces, as in '0 1; 2 3'."
            )
        return np.array(rows)

    def text(self, pixels: ArrayLike) -> str:
        """Pixels of this image's shape, in ``unit``, as the text that ``pixels`` reads back to the same bits."""
        rows = np.asarray(pixels, dtype=np.float64).reshape(self.shape).tolist()
        return "; ".join(" ".join(repr(pixel).removesuffix(".0") for pixel in row) for row in rows)

    def encode(self, value: object) -> Array:
        """Coordinates of an image, row by row, shape (width,)."""
        middle, half = self.scale
        return np.asarray((self.pixels(value).reshape(-1) - middle) / half)

    def at(self, columns: Array) -> Array:
        """Refused: an image has no single value.

        Raises:
            SpaceError: always.
        """
        raise SpaceError(f"{self.name} is an image: leave it out of what asks for one value of each variable.")

    def decode(self, columns: Array) -> str:
        """Image of the coordinates (width,), every pixel within the bounds."""
        middle, half = self.scale
        pixels = np.clip(middle + half * np.asarray(columns), self.low, self.high)
        # The ends are taken as they are, for middle + half need not be `high` to the last digit.
        return self.text(np.where(columns <= -1, self.low, np.where(columns >= 1, self.high, pixels)))

    def uniform(self, n: int, rng: np.random.Generator) -> Array:
        """Coordinates of n images of independent uniform pixels, shape (n, width)."""
        return rng.uniform(-1, 1, size=(n, self.width))

    def snap(self, columns: Array) -> Array:
        """Coordinates (n, width) as they are."""
        return columns

    def check(self, value: object) -> None:
        """Accept an image of this shape with every pixel within the bounds, or raise SpaceError."""
        pixels = self.pixels(value)
        outside = pixels[(pixels < self.low) | (pixels > self.high)]
        if len(outside):
            raise SpaceError(
                f"A pixel of {self.name} is {outside[0]:g}, outside [{self.low:g}, {self.high:g}]: give a value within "
                "the bounds."
            )

    def narrowed(self, low: float, high: float) -> "Image":
        """Copy of the image with tighter bounds on all pixels."""
        lower, upper = narrowed_bounds(self.name, (self.low, self.high), (low, high))
        return replace(self, low=lower, high=upper)
