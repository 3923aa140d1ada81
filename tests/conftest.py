"""One thread each, for what is imported here and for every process started: the workers share the cores."""

import contextlib
import gc
import os
import tempfile
from pathlib import Path

import pytest

# What the shell says to fieldcraft is for its user, but for how long chaos goes on and where pictures are kept.
for name in [name for name in os.environ if name.startswith("FIELDCRAFT_")]:
    if not name.startswith(("FIELDCRAFT_CHAOS", "FIELDCRAFT_SCREENSHOTS")):
        del os.environ[name]
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"
# Memory that an array gave back is kept for the next one: fits leave the kernel a quarter of the pages to clear.
os.environ["MALLOC_MMAP_THRESHOLD_"], os.environ["MALLOC_TRIM_THRESHOLD_"] = str(1 << 25), str(1 << 28)
# Every client of Prefect's reads the roots it trusts, for servers of this machine, too: 17 ms for all those there are.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("one_root.pem"))


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
    """The workers of one run share a Prefect server, and the servers of processes that need not import."""
    import prefect_api
    import warm_start

    if not hasattr(node.config, "for_all"):
        at = contextlib.ExitStack()
        node.config.add_cleanup(at.close)
        folder = at.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        environment = at.enter_context(prefect_api.serving(Path(folder)))
        user = at.enter_context(prefect_api.warm(environment))
        node.config.for_all = {"warm": warm_start.served(), "prefect": environment, "user": user}
    node.workerinput.update(node.config.for_all)


def pytest_collection_finish() -> None:
    """What all tests have imported is never looked through for garbage, which would take a second each time; and a
    fork of it has few pages to copy."""
    import large_pages

    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    large_pages.gathered()


@pytest.fixture(scope="session")
def prefect_server(request, tmp_path_factory):
    """The environment of a user who has a Prefect server of his own."""
    import prefect_api

    if shared := getattr(request.config, "workerinput", {}).get("prefect"):
        yield shared
    else:
        with prefect_api.serving(tmp_path_factory.mktemp("prefect")) as environment:
            yield environment


@pytest.fixture(scope="session")
def prefect_api(request, prefect_server):
    """The same; what begins in it need not import."""
    import prefect_api
    import warm_start

    if shared := getattr(request.config, "workerinput", {}).get("user"):
        yield {**prefect_server, warm_start.NAMED: shared}
    else:
        with prefect_api.warm(prefect_server) as name:
            yield {**prefect_server, warm_start.NAMED: name}
