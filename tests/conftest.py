"""One thread each, for what is imported here and for every process started: the workers share the cores."""

import contextlib
import gc
import os
import tempfile
from pathlib import Path

import pytest

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"


def pytest_configure(config: pytest.Config) -> None:
    """A test's name, which pytest puts into the environment, takes no new server of simulations."""
    import warm_start

    from fieldcraft.flows.jobs import forks
    from fieldcraft.flows.machinery.collecting import seldom

    forks.ASKED_LATE = (*forks.ASKED_LATE, "PYTEST_")
    if "warm" in (shared := getattr(config, "workerinput", {})):
        os.environ[warm_start.NAMED] = shared["warm"]
    seldom()  # until all that the tests import is there


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    """The workers of one run share a Prefect server, and the server of processes that need not import."""
    import prefect_api
    import warm_start

    if not hasattr(node.config, "for_all"):
        at = contextlib.ExitStack()
        node.config.add_cleanup(at.close)
        folder = at.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        environment = at.enter_context(prefect_api.serving(Path(folder)))
        node.config.for_all = {"warm": warm_start.served(), "prefect": environment}
    node.workerinput.update(node.config.for_all)


def pytest_collection_finish() -> None:
    """What all tests have imported is never looked through for garbage, which would take a second each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def prefect_api(request, tmp_path_factory):
    """The environment of a user who has a Prefect server of his own; what begins in it need not import."""
    import prefect_api
    import warm_start

    folder = tmp_path_factory.mktemp("prefect")
    with contextlib.ExitStack() as at:
        if shared := getattr(request.config, "workerinput", {}).get("prefect"):
            environment = {**shared, "PREFECT_HOME": str(folder)}
        else:
            environment = at.enter_context(prefect_api.serving(folder))
        more = ("fieldcraft.flows.campaign", "mlflow.store.tracking.sqlalchemy_store")
        yield {
            **environment,
            warm_start.NAMED: at.enter_context(warm_start.serving({**os.environ, **environment}, *more)),
        }
