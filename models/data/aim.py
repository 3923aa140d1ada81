"""Sense of one of several objectives."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Aim:
    """Sense of one of several objectives, and the worst value that still counts.

    Args:
        maximize: True if it is maximised.
        reference: That value, in its unit; None if it is not stated.
    """

    maximize: bool
    reference: float | None = None
