"""Real schedulers on this machine: a Dask scheduler with a worker, and a Prefect server with a work pool."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.machinery.prefect_server import Server
from fieldcraft.flows.settings import without_secrets

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

PATIENCE_S = 60.0


def until(look: Callable[[], Any], what: str) -> Any:
    """What ``look`` returns once that is true; it must be before the deadline."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:g} s for {what}"
        time.sleep(0.02)
    return found


@dataclass
class DaskSite:
    """A scheduler at one port and a worker with two threads, which can be killed and started again.

    Args:
        folder: Where they write; ``plugins`` in it holds the kinds that the worker's simulations know.
        port: The scheduler's, also of one that is started anew.
        processes: What runs, by its role: ``scheduler`` and ``worker``; the latter's own process has a nanny.
    """

    folder: Path
    port: int
    processes: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def start(self, role: str) -> None:
        """Start scheduler or worker, as docs/operations.md does."""
        words = {
            "scheduler": ("--port", str(self.port)),
            "worker": (self.address, "--nworkers", "1", "--nthreads", "2", "--local-directory", str(self.folder)),
        }
        here = ("--host", "127.0.0.1", "--no-dashboard", "--dashboard-address", "127.0.0.1:0")
        with (self.folder / f"{role}.log").open("ab") as log:
            self.processes[role] = subprocess.Popen(
                [sys.executable, "-P", "-m", f"distributed.cli.dask_{role}", *words[role], *here],
                env=without_secrets(os.environ) | {"FIELDCRAFT_PLUGINS": str(self.folder / "plugins")},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def up(self) -> None:
        """Have both run, and the worker known to the scheduler."""
        from distributed import Client

        for role in ("scheduler", "worker"):
            if role not in self.processes or self.processes[role].poll() is not None:
                self.start(role)
        with Client(self.address, timeout=PATIENCE_S, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=PATIENCE_S)

    def workers(self) -> list[psutil.Process]:
        """The processes in which tasks run: the nanny's children."""
        return psutil.Process(self.processes["worker"].pid).children()

    def kill(self, role: str) -> None:
        """SIGKILL, to the worker's nanny too; simulations have process groups of their own."""
        process = self.processes.pop(role)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def dask_site(folder: Path) -> Iterator[DaskSite]:
    """A site that runs; ended afterwards."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        made = DaskSite(folder, int(listener.getsockname()[1]))
    try:
        made.up()
        yield made
    finally:
        for role in list(made.processes):
            made.kill(role)


@dataclass
class PrefectSite:
    """A server with the deployment ``simulate/simulate`` and a work pool, whose worker is the test's own hand.

    The hand has Prefect's engine make a flow run in this process; the real worker is in ``tests/scenarios``.

    Args:
        password: What the server asks for.
    """

    password: str

    @property
    def url(self) -> str:
        from prefect.settings import PREFECT_API_URL

        return str(PREFECT_API_URL.value())

    def runs(self, key: str) -> "list[FlowRun]":
        """The flow runs whose names begin so."""
        with self.client() as client:
            return [run for run in client.read_flow_runs() if run.name.startswith(key)]

    def make(self, name: str) -> "FlowRun":
        """Make the flow run of that name, and return it as it ended."""
        from prefect.flow_engine import run_flow_sync

        from fieldcraft.flows.simulate import simulate

        (found,) = self.runs(name)
        with suppress(FieldcraftError):  # which is in its state then
            run_flow_sync(simulate, flow_run=found, parameters=found.parameters, return_type="state")
        return self.runs(name)[0]

    def put(self, name: str, state: str, due: datetime | None = None) -> None:
        """Put the flow run of that name into a state, as a worker that died would leave it, or due at a time."""
        from prefect.client.schemas.objects import State, StateDetails, StateType

        with self.client() as client:
            left = State(type=StateType(state), name=state.title(), state_details=StateDetails(scheduled_time=due))
            client.set_flow_run_state(self.runs(name)[0].id, left, force=True)

    def delete(self, name: str) -> None:
        """Have Prefect forget the flow run of that name."""
        with self.client() as client:
            client.delete_flow_run(self.runs(name)[0].id)

    def client(self) -> "SyncPrefectClient":
        """Speaks to the server."""
        from prefect.client.orchestration import get_client

        return get_client(sync_client=True)


@contextmanager
def prefect_site(folder: Path) -> Iterator[PrefectSite]:
    """A site that runs; ended afterwards."""
    server = Server(folder)
    server.begin()
    server.ready()
    from prefect import settings
    from prefect.client.schemas.actions import WorkPoolCreate

    from fieldcraft.flows.simulate import simulate

    password = os.environ["PREFECT_API_AUTH_STRING"]
    reached = {
        settings.PREFECT_API_URL: os.environ["PREFECT_API_URL"],
        settings.PREFECT_API_AUTH_STRING: password,
        settings.PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,
    }
    try:
        with settings.temporary_settings(reached):
            made = PrefectSite(password)
            with made.client() as client:
                pool = WorkPoolCreate(name="simulations", type="process")
                client.request("POST", "/work_pools/", json=pool.model_dump(mode="json"))
                client.create_deployment(client.create_flow(simulate), "simulate", work_pool_name=pool.name)
            yield made
    finally:
        server.close()


@contextmanager
def prefect_hand(folder: Path) -> Iterator[PrefectSite]:
    """A site whose flow runs are made as they come, by a process of its own (``prefect_hand.py``)."""
    with prefect_site(folder) as made, (folder / "hand.log").open("w") as log:
        hand = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("prefect_hand.py"))],
            env={**os.environ, "FIELDCRAFT_PLUGINS": str(folder / "plugins")},
            stdout=log,
            stderr=log,
        )
        try:
            yield made
        finally:
            hand.kill()
            hand.wait()
