"""How a job begins is tested here: each is an interpreter of its own."""

import pytest


@pytest.fixture(autouse=True)
def _warm() -> None:
    """Nothing is in the place of ``forks.begun``."""
