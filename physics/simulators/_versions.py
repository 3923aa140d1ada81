"""Versions of installed packages, which simulators write beside their fields."""

from functools import cache
from importlib import metadata


@cache
def version(package: str) -> str:
    """Version of an installed package; to read its description each time would take longer than some solve."""
    return metadata.version(package)
