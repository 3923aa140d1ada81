"""One thread each, for what is imported here and for every process started: the workers share the cores."""

import os

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"


def pytest_configure() -> None:
    """A test's name, which pytest puts into the environment, takes no new server of simulations."""
    from fieldcraft.flows.jobs import forks

    forks.ASKED_LATE = (*forks.ASKED_LATE, "PYTEST_")
