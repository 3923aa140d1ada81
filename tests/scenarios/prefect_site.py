"""A Prefect server with a process worker, as docs/operations.md sets them up, in one temporary folder.

Server and worker are forked where imports are done, Prefect's too. So are the worker's flow runs (``warm_engine.py``),
unless a deployment names another command.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import warm_start
from prefect.workers.process import ProcessWorker

from fieldcraft.storage.empty_databases import kept_of

ROOT = Path(__file__).resolve().parents[2]
WARM_ENGINE = ROOT / "tests" / "warm_engine.py"
PASSWORD = "fieldcraft:of-this-test"
# What keeps, deletes and acts on events, which nothing here asks for, is a fifth of a core.
OF_EVENTS = ("CLEANUP_RECONCILER", "EVENT_LOGGER", "EVENT_PERSISTER", "REPOSSESSOR", "TRIGGERS")
ENDED = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
# No connection is kept: the server closes idle ones, perhaps just as the next request is sent on it.
_UNKEPT = httpx.Limits(max_keepalive_connections=0)
PATIENCE_S = 300.0  # on a machine that others keep busy, too


@dataclass(frozen=True)
class Run:
    """A flow run that has ended.

    Args:
        type: Prefect's state type.
        name: Name of its state.
        message: What its state says.
        scheduled: Whether a schedule asked for it.
    """

    type: str
    name: str
    message: str
    scheduled: bool


@dataclass(frozen=True)
class Site:
    """The site.

    Args:
        home: The stores, FIELDCRAFT_HOME of the worker.
        environment: Environment of a person's shell.
        api: Speaks to the server.
    """

    home: Path
    environment: dict[str, str]
    api: httpx.Client

    def command(self, module: str, *words: str) -> "subprocess.CompletedProcess[str]":
        """A command in the checkout, as a person types it there."""
        return warm_start.run(["-m", module, *words], self.environment, PATIENCE_S, str(ROOT))

    def ask(self, path: str, body: Any = None) -> Any:
        """POST to the server's API, or GET where there is no body; a server that is busy is asked again."""

        def answer() -> httpx.Response | None:
            try:
                found = self.api.get(path) if body is None else self.api.post(path, json=body)
            except httpx.TimeoutException:  # what was asked may have been done: asking again makes no second one
                return None
            return None if found.status_code == httpx.codes.SERVICE_UNAVAILABLE else found

        found = until(answer, f"the server to answer {path}")
        there = found.status_code == httpx.codes.CONFLICT  # made when it was asked for before
        assert found.is_success or there, found.text
        return found.json()

    def deployment(self, name: str) -> Any:
        """The deployment FLOW/NAME."""
        return self.ask(f"/deployments/name/{name}")

    def ask_for(self, deployment_id: str, parameters: dict[str, Any], due: float, environment: dict[str, str]) -> str:
        """Create a flow run that is due at a time; its id."""
        when = datetime.fromtimestamp(due, UTC).isoformat()
        body = {
            "parameters": parameters,
            "state": {"type": "SCHEDULED", "state_details": {"scheduled_time": when}},
            "job_variables": {"env": environment},
            "idempotency_key": uuid4().hex,
        }
        return str(self.ask(f"/deployments/{deployment_id}/create_flow_run", body)["id"])

    def run(self, deployment: str, environment: dict[str, str] | None = None, **parameters: Any) -> Run:
        """Have the worker run a deployment now; how that ended."""
        place = self.deployment(deployment)["id"]
        return self.ended(self.ask_for(place, parameters, time.time(), environment or {}))

    def ended(self, flow_run_id: str) -> Run:
        """How a flow run ended, waiting for it."""
        return until(lambda: self._ended(self.ask(f"/flow_runs/{flow_run_id}")), f"flow run {flow_run_id} to end")

    def runs(self, deployment: str) -> list[Run]:
        """All flow runs of a deployment that have ended."""
        chosen = {"deployments": {"name": {"any_": [deployment.partition("/")[2]]}}}
        return [run for found in self.ask("/flow_runs/filter", chosen) if (run := self._ended(found))]

    def _ended(self, found: Any) -> Run | None:
        if found["state_type"] not in ENDED:
            return None
        return Run(found["state_type"], found["state_name"], found["state"]["message"] or "", found["auto_scheduled"])


def until(look: Callable[[], Any], what: str) -> Any:
    """What ``look`` returns once that is true."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.3)  # each look costs the server more than it costs here
    raise AssertionError(f"Waited {PATIENCE_S:.0f} s for {what}.")


@contextmanager
def site(folder: Path, *, pool: str = "local", pages: bool = False, **more: str) -> Iterator[Site]:
    """A server, the deployments of prefect.yaml and one worker.

    Args:
        folder: Where everything lies.
        pool: Whose flow runs the worker makes.
        pages: Whether the server has its pages, too.
        more: Further environment of the worker.
    """
    (folder / "prefect").mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "FIELDCRAFT"))}
    environment |= _settings(folder, port := _free_port()) | more
    if not kept_of("prefect").exists():
        subprocess.run([sys.executable, "-P", "-m", "fieldcraft.flows.machinery.prepare"], env=environment, check=True)
    shutil.copy(kept_of("prefect"), folder / "prefect" / "prefect.db")  # as for a run: spares 18 s of migrations
    user, _, password = PASSWORD.partition(":")
    place, ui = ("--host", "127.0.0.1", "--port", str(port)), () if pages else ("--no-ui",)
    with (
        warm_start.serving(environment, "prefect.flow_engine", "fieldcraft.flows.campaign") as warm,
        httpx.Client(base_url=f"http://127.0.0.1:{port}/api", auth=(user, password), timeout=20, limits=_UNKEPT) as api,
        _process(folder, begun := environment | {warm_start.NAMED: warm}, "server", "start", *place, *ui),
    ):
        made = Site(folder / "runs", begun, api)
        until(lambda: _healthy(api), "the server to start")
        template = ProcessWorker.get_default_base_job_template()  # as ``prefect work-pool create`` sends it
        template["variables"]["properties"]["command"]["default"] = f"{sys.executable} {WARM_ENGINE}"
        for name in ("local", "simulations", "gpu"):
            made.ask("/work_pools/", {"name": name, "type": "process", "base_job_template": template})
        done = made.command("prefect", "--no-prompt", "deploy", "--all")
        assert done.returncode == 0, done.stdout + done.stderr
        with worker(made, pool):
            yield made


@contextmanager
def worker(made: Site, pool: str) -> Iterator[None]:
    """A worker of a pool, for two flow runs at once."""
    with _process(made.home.parent, made.environment, "worker", "start", "--pool", pool, "--limit", "2"):
        yield


@contextmanager
def _process(folder: Path, environment: dict[str, str], *words: str) -> Iterator[None]:
    with (folder / f"{words[0]}.log").open("a") as log, open(os.devnull) as nothing:
        files = [nothing.fileno(), log.fileno(), log.fileno()]
        process = warm_start.Warm(["-m", "prefect", *words], files, environment, str(ROOT))
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):  # a worker told to stop between two runs may wait for ever
                process.wait(10)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _settings(folder: Path, port: int) -> dict[str, str]:
    return {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "FIELDCRAFT_HOME": str(folder / "runs"),
        "DO_NOT_TRACK": "1",
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_API_AUTH_STRING": PASSWORD,
        "PREFECT_SERVER_API_AUTH_STRING": PASSWORD,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        **{f"PREFECT_SERVER_SERVICES_{service}_ENABLED": "false" for service in OF_EVENTS},
    }


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _healthy(api: httpx.Client) -> bool:
    try:
        return api.get("/health").is_success
    except httpx.TransportError:
        return False
