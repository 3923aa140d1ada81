"""One thread each, for what is imported here and for every process started: the workers share the cores."""

import gc
import os

import pytest

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"


def pytest_configure() -> None:
    """A test's name, which pytest puts into the environment, takes no new server of simulations."""
    from fieldcraft.flows.jobs import forks

    forks.ASKED_LATE = (*forks.ASKED_LATE, "PYTEST_")


def pytest_collection_finish() -> None:
    """What all tests have imported is never looked through for garbage, which would take a second each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def prefect_api(tmp_path_factory):
    """The environment of a user who has a Prefect server of his own."""
    import prefect_api

    with prefect_api.serving(tmp_path_factory.mktemp("prefect")) as environment:
        yield environment
