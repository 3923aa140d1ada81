"""The local dispatcher with real child processes: what they leave behind tells what became of them.

What it has in common with others, tests/contracts/test_dispatchers.py says.
"""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from fieldcraft.flows.dispatchers.local import Local
from fieldcraft.flows.jobs import forks, remote_jobs
from fieldcraft.flows.jobs.dispatcher import Failed, Finished, Handle, Job, Lost, Outcome, Place, Running
from fieldcraft.flows.jobs.job_folder import JobFolder, write_json
from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.storage.fields import FieldDamaged
from fieldcraft.storage.processes import THREADS, boot, cores, is_alive, start_time

# A simulator that does as it is told: ``log`` gets one line for every run, ``gate`` lets a waiting one go on.
ACTING = '''\
"""Does as it is told."""
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import xarray as xr

from fieldcraft.physics.problem import Infeasible, Simulator, Transient


@dataclass(frozen=True)
class Acting(Simulator):
    """See the test."""

    folder: str
    act: Literal["answer", "wait", "raise", "die", "stall", "refuse", "impossible", "busy", "leave", "exit"] = "answer"
    gate_cost: ClassVar[float] = 0.25

    def gate(self, problem, design, rng):
        """Refuse where told to; what it draws leaves the run's own stream alone."""
        rng.random(100)
        return "x1 is too close to the wall" if self.act == "refuse" else None

    def run(self, problem, design, rng):
        """Write a line, then act."""
        descriptor = os.open(f"{self.folder}/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{os.getpid()}\\n".encode())
        print("the simulator speaks")
        Path(f"{self.folder}/environment").write_text(json.dumps(dict(os.environ)))
        if self.act == "impossible":
            raise Infeasible("the mesh does not close at x1 = 1")
        if self.act == "busy":
            raise Transient("no licence is free")
        if self.act == "raise":
            raise RuntimeError("the mesh is twisted")
        if self.act == "leave":
            raise SystemExit
        if self.act == "exit":
            raise SystemExit("the mesher returned 3")
        if self.act == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.act == "stall":
            child = subprocess.Popen(["sleep", "600"])
            os.write(descriptor, f"{child.pid}\\n".encode())
            child.wait()
        while self.act == "wait" and not Path(f"{self.folder}/gate").exists():
            time.sleep(0.01)
        value = problem.function(design)["value"]
        return xr.Dataset({"value": ((), value, {"units": ""}), "drawn": ((), rng.random(), {"units": ""})})
'''


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for jobs and for what their simulator writes; whatever it started is gone afterwards."""
    (tmp_path / "plugins" / "simulators").mkdir(parents=True)
    (tmp_path / "plugins" / "simulators" / "acting.py").write_text(ACTING)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    (tmp_path / "work").mkdir()
    yield tmp_path / "work"
    left = limited(tmp_path / "work", 1.0)
    for handle in (left.find(place.name) for place in (tmp_path / "work").iterdir()):
        if handle is not None:
            left.cancel(handle)


@pytest.fixture
def local(work: Path) -> Local:
    return limited(work, 120.0)


def limited(work: Path, seconds: float) -> Local:
    """The dispatcher with a limit of so many seconds for one job."""
    return Local(Place("t", work, seconds, "", work))


def job(work: Path, act: str, key: str = "t-0001-1") -> Job:
    request = {
        "problem": {"kind": "branin"},
        "simulator": {"kind": "acting", "act": act, "folder": str(work.parent)},
        "design": {"x1": 1.0, "x2": 2.0},
        "seed": 7,
        "iteration": 4,
        "slot": 2,
    }
    return Job("t-0001", key, request)


def runs(work: Path) -> list[int]:
    """Process ids that the simulator logged."""
    log = work.parent / "log"
    return [int(line) for line in log.read_text().splitlines()] if log.exists() else []


def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """Look again and again until a condition holds; it must before the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not come about in {seconds} s"
        time.sleep(0.01)


def ended(local: Local, handle: Handle) -> Outcome:
    """What became of a job, once it has ended."""
    local.wait([handle], 60.0)
    outcome = local.poll(handle)
    assert not isinstance(outcome, Running)
    return outcome


def test_a_simulation_sees_no_secret(work, local, monkeypatch):
    kept = {name: os.environ[name] for name in ("FIELDCRAFT_PLUGINS", "PATH")} | {"FIELDCRAFT_HOME": str(work)}
    monkeypatch.setenv("FIELDCRAFT_HOME", str(work))
    secret = ("TOKEN", "PEOPLE", "WEBHOOK_TOKEN", "LAB", "LAB_URL", "NOTIFY_URL", "NOTIFY_COMMAND", "MLFLOW", "RECORDS")
    names = [f"FIELDCRAFT_{name}" for name in secret]
    names += ["PREFECT_API_AUTH_STRING", "PREFECT_API_KEY", "PREFECT_API_URL", "MLFLOW_TRACKING_PASSWORD"]
    with monkeypatch.context() as patch:
        for name in [*names, "MLFLOW_TRACKING_URI"]:
            patch.setenv(name, "s3cret")
        handle = local.submit(job(work, "wait"))
    until(lambda: runs(work))
    began_with = psutil.Process(runs(work)[0]).environ()
    (work.parent / "gate").touch()
    assert isinstance(ended(local, handle), Finished)
    seen = json.loads((work.parent / "environment").read_text())
    assert "s3cret" not in seen.values() and "s3cret" not in began_with.values()
    assert {name: seen[name] for name in kept} == kept


@pytest.mark.parametrize("parallel", [1, 2, 1000])
def test_simulations_that_may_run_at_once_share_the_cores_unless_the_environment_says_their_threads(
    work, monkeypatch, parallel
):
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    local = Local(Place("t", work, 120.0, "", work, parallel=parallel))
    assert isinstance(ended(local, local.submit(job(work, "answer"))), Finished)
    seen, share = json.loads((work.parent / "environment").read_text()), str(max(1, cores() // parallel))
    assert {name: seen[name] for name in THREADS} == {**dict.fromkeys(THREADS, share), "NUMBA_NUM_THREADS": "3"}


def test_two_keys_run_beside_each_other(work, local):
    waiting = local.submit(job(work, "wait"))
    other = local.submit(job(work, "answer", key="t-0001-2"))
    local.wait([waiting, other], 60.0)  # returns when one of them has ended
    assert isinstance(local.poll(other), Finished)
    assert isinstance(local.poll(waiting), Running)
    (work.parent / "gate").touch()
    assert isinstance(ended(local, waiting), Finished)
    assert float(local.fetch(waiting)["drawn"]) == stream(7, 4, Use.SIMULATE, 2).random()


def test_waiting_ends_at_its_deadline(work, local):
    handle = local.submit(job(work, "wait"))
    until(lambda: runs(work))
    began = time.monotonic()
    local.wait([handle], 0.2)
    assert 0.2 <= time.monotonic() - began < 30.0
    assert isinstance(local.poll(handle), Running)


def test_the_wall_time_holds_where_nothing_can_be_written_any_more(work):
    short = limited(work, 1.0)
    handle = short.submit(job(work, "wait"))
    until(lambda: psutil.Process(handle["pid"]).children())
    (worker,) = psutil.Process(handle["pid"]).children()
    short.forget("t-0001-1")
    for pid, started in ((handle["pid"], handle["started"]), (worker.pid, worker.create_time())):
        until(lambda pid=pid, started=started: not is_alive(pid, started))


def test_a_simulator_that_raises_has_failed_with_its_message(work, local):
    handle = local.submit(job(work, "raise"))
    outcome = ended(local, handle)
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.reason, outcome.cost) == ("unknown", "RuntimeError: the mesh is twisted", None)
    assert 0.0 <= (outcome.seconds or 0.0) < 60.0
    assert "the mesh is twisted" in (work / "t-0001-1" / "log.txt").read_text()
    with pytest.raises(FieldDamaged, match=r"manifest\.json is missing"):
        local.fetch(handle)


@pytest.mark.parametrize(("act", "reason"), [("leave", "SystemExit"), ("exit", "SystemExit: the mesher returned 3")])
def test_a_simulator_that_leaves_without_a_result_has_failed_and_is_not_lost(work, local, act, reason):
    outcome = ended(local, local.submit(job(work, act)))
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.reason) == ("unknown", reason)


def test_a_design_that_the_gate_refuses_is_infeasible_at_the_cost_of_the_gate_and_never_runs(work, local):
    outcome = ended(local, local.submit(job(work, "refuse")))
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.reason) == ("infeasible", "refused by the gate: x1 is too close to the wall")
    assert outcome.cost == 0.25
    assert outcome.seconds is not None and 0.0 <= outcome.seconds < 60.0
    assert runs(work) == []


def test_a_job_whose_simulator_is_not_there_has_failed_in_passing_at_no_cost_and_names_the_machine(work, local):
    wrong = Job("t-0001", "t-0001-1", {**job(work, "answer").request, "simulator": {"kind": "actin"}})
    outcome = ended(local, local.submit(wrong))
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.cost) == ("transient", 0.0)
    said = f"it could not begin on {socket.gethostname()}: No kind 'actin' in simulators. Did you mean 'acting'?"
    assert outcome.reason.startswith(said)


def test_a_job_whose_whole_group_was_killed_is_lost_and_runs_no_more(work, local):
    handle = local.submit(job(work, "wait"))
    until(lambda: runs(work))
    os.killpg(handle["pid"], signal.SIGKILL)
    assert ended(local, handle) == Lost(f"process {handle['pid']} ended without a result or a word")
    again = local.submit(job(work, "wait"))
    until(lambda: not is_alive(again["pid"], again["started"]))
    assert isinstance(local.poll(again), Lost)
    assert len(runs(work)) == 1


def unsupervised(work, local):
    """The handle of a job whose supervisor was killed, and the processes that it left running."""
    handle = local.submit(job(work, "stall"))
    until(lambda: len(runs(work)) == 2)
    processes = [(pid, start_time(pid)) for pid in runs(work)]
    os.kill(handle["pid"], signal.SIGKILL)
    until(lambda: not is_alive(handle["pid"], handle["started"]))
    return handle, processes


def test_what_a_killed_supervisor_left_running_is_killed_before_the_job_is_called_lost(work, local):
    handle, processes = unsupervised(work, local)
    assert isinstance(ended(local, handle), Lost)
    assert not any(is_alive(pid, started) for pid, started in processes)


def test_what_a_killed_supervisor_left_running_is_killed_where_the_job_is_cancelled(work, local):
    handle, processes = unsupervised(work, local)
    local.cancel(handle)
    until(lambda: not any(is_alive(pid, started) for pid, started in processes))


def test_a_job_that_a_pass_of_another_machine_started_is_alive_while_it_gives_signs_of_life(work, local):
    handle = local.submit(job(work, "stall"))
    until(lambda: len(runs(work)) == 2)
    folder = JobFolder(work / handle["key"])
    processes = [(pid, start_time(pid)) for pid in (*runs(work), handle["pid"])]
    write_json(folder.path / "started.json", {**folder.started, "host": "elsewhere", "boot": "another"})
    assert local.poll(handle) == Running()
    long_ago = folder.heard - remote_jobs.SILENT_S
    os.kill(handle["pid"], signal.SIGSTOP)
    os.utime(folder.path / "started.json", (long_ago, long_ago))
    assert local.poll(handle) == Lost(f"process {handle['pid']} ended without a result or a word")
    assert all(is_alive(pid, started) for pid, started in processes), "here that number is another process's"
    local.cancel(handle)
    os.kill(handle["pid"], signal.SIGCONT)
    until(lambda: not any(is_alive(pid, started) for pid, started in processes))
    assert ended(local, handle) == Lost("it was cancelled")


def test_a_simulation_killed_by_a_signal_without_a_name_is_lost_with_all_it_started(work, local):
    handle = local.submit(job(work, "stall"))
    until(lambda: len(runs(work)) == 2)
    worker, child = [(pid, start_time(pid)) for pid in runs(work)]
    os.kill(worker[0], signal.SIGRTMIN + 1)
    until(lambda: not is_alive(handle["pid"], handle["started"]))
    assert local.look(handle) == Lost(f"the simulation was killed by signal {signal.SIGRTMIN + 1}")
    until(lambda: not is_alive(*child))


def test_a_child_that_dies_before_it_begins_is_barred_and_has_failed_in_passing(work, local, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONHOME", str(work / "nowhere"))  # the interpreter itself cannot start
        handle = local.submit(job(work, "answer"))
    until(lambda: not is_alive(handle["pid"], handle["started"]))
    assert isinstance(local.look(handle), Lost)
    assert local.find("t-0001-1") is None, "to look changes nothing"
    outcome = local.poll(handle)
    assert isinstance(outcome, Failed)
    assert outcome.kind == "transient"
    assert outcome.reason.startswith(f"process {handle['pid']} ended before it began: ")
    assert local.find("t-0001-1") == handle
    late = local.submit(job(work, "answer"))  # a child that comes late finds the key taken
    until(lambda: not is_alive(late["pid"], late["started"]))
    assert local.poll(late) == outcome
    assert runs(work) == []


def test_a_job_cancelled_before_it_begins_never_begins(work, local, monkeypatch):
    slow = work.parent / "slow"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text("import time\ntime.sleep(600)  # the interpreter never comes to its work\n")
    monkeypatch.setenv("PYTHONPATH", f"{slow}{os.pathsep}{os.environ['PYTHONPATH']}")
    monkeypatch.setattr(forks, "ANSWER_S", 0.5)  # nor does the server of simulations
    handle = local.submit(job(work, "answer"))
    assert local.find("t-0001-1") is None
    assert isinstance(local.poll(handle), Running)
    local.cancel(handle)
    until(lambda: not is_alive(handle["pid"], handle["started"]))
    assert isinstance(local.poll(handle), Failed)
    assert runs(work) == []


def test_a_handle_whose_number_now_belongs_to_another_process_is_not_taken_for_alive(work, local):
    stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        started = start_time(stranger.pid)
        (work / "t-0001-1").mkdir()
        write_json(
            work / "t-0001-1" / "started.json",
            {"pid": stranger.pid, "started": started - 3600.0, "boot": boot(), "at": 0.0},
        )
        handle = local.find("t-0001-1")
        assert handle is not None
        assert isinstance(local.poll(handle), Lost)
        local.cancel(handle)
        assert stranger.poll() is None
        stranger_then = {"pid": stranger.pid, "started": started, "boot": "an earlier boot", "at": 0.0}
        write_json(work / "t-0001-1" / "started.json", stranger_then)
        assert isinstance(local.poll(handle), Lost)
        local.cancel(handle)
        assert stranger.poll() is None
        write_json(work / "t-0001-1" / "started.json", {**stranger_then, "boot": boot()})
        assert isinstance(local.poll(handle), Running)
        local.cancel(handle)
        assert stranger.wait(60.0) == -signal.SIGKILL
    finally:
        stranger.kill()
        stranger.wait()


def test_a_result_that_was_altered_is_not_fetched(work, local):
    handle = local.submit(job(work, "answer"))
    assert isinstance(ended(local, handle), Finished)
    chunk = next(path for path in (work / "t-0001-1" / "result").rglob("c") if path.is_file())
    chunk.write_bytes(chunk.read_bytes() + b"x")
    with pytest.raises(FieldDamaged, match="truncated or altered"):
        local.fetch(handle)
