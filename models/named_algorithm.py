"""Named algorithms: a name for a whole algorithm, and the parts it stands for."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol

Words = dict[str, Any]
"""Plain data in the shape of a campaign file's ``algorithm``: start, and the three words or a rival."""

MULTISTART: Mapping[str, Any] = {"kind": "multistart"}

EVERYWHERE: Mapping[str, Any] = {"kind": "thompson", "search": "everywhere"}
"""Thompson sampling as the papers state it: the minimiser of a draw in the whole space."""

RAW_TRAINING: Mapping[str, Any] = {
    "hyperparameters": "fixed",
    "normalised": False,
    "activation": "relu",
    "noise": 0.01,
    "steps": 50,
    "rate": 0.001,
    "refinements": 0,
}
"""The tangent kernel as the papers use it, neither normalised nor fitted, and their 50 gradient steps."""


class NamedAlgorithm(Protocol):
    """A name for an algorithm: a frozen dataclass whose fields are what a campaign file may set beside ``kind``.

    Each has ``preset``: ``default`` has the options that this project found to work, ``paper`` those that the method's
    authors published. Parts that a campaign file states override the named algorithm's.
    """

    def words(self, dimension: int, batch: int) -> Words:
        """The parts of the algorithm as plain data.

        Args:
            dimension: Encoded coordinates of the search space.
            batch: Designs of one iteration, for each of which some surrogates train a network of its own.
        """
        ...


@dataclass(frozen=True)
class OnePreset:
    """A named algorithm with only one preset.

    Args:
        preset: ``default``: the options that this project found to work.
    """

    preset: Literal["default"] = "default"


@cache
def rival(kind: str) -> type[NamedAlgorithm]:
    """The named algorithm of a rival, by the rival's name, after this project's own initial designs."""

    @dataclass(frozen=True)
    class Rival(OnePreset):
        def words(self, dimension: int, batch: int) -> Words:
            return {"start": start(dimension), "peer": {"kind": kind}}

    return Rival


def start(dimension: int, proposer: str = "sobol") -> Words:
    """The designs before any model: 2 (d + 1) of them (a campaign's budget may allow fewer)."""
    return {"proposer": {"kind": proposer}, "n": 2 * (dimension + 1)}


_MANY = 10

MIDDLE_FIRST = ("auto", "gp_ei")
"""Named algorithms that begin in the middle of a space of many coordinates."""


def middle_first(dimension: int) -> Words:
    """The designs of ``short_start``; in ten coordinates and more the middle of the space is the first of them."""
    said = short_start(dimension)
    return {**said, "proposer": {"kind": "centred"}} if dimension >= _MANY else said


def short_start(dimension: int) -> Words:
    """The designs before a Gaussian process that soon chooses better ones: d + 1, at least 6 (of one variable 4)."""
    return {"proposer": {"kind": "sobol"}, "n": max(dimension + 1, min(6, 2 * (dimension + 1)))}
