"""Checks that refuse numbers no surrogate can use, with the same messages everywhere."""

import math


def refuse_below(name: str, value: int, least: int = 1) -> None:
    """Raise ValueError for a count below ``least``."""
    if value < least:
        raise ValueError(f"{name} is {value}: give {least} or more.")


def refuse_non_positive(name: str, value: float) -> None:
    """Raise ValueError for a value that is not a finite number above 0."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value}: give a positive number.")
