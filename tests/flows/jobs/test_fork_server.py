"""Jobs forked by a real server: each is as a fresh interpreter would have been, and none is tied to the server's life.

That the dispatchers' contract holds with it, tests/contracts/test_dispatchers.py says.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fieldcraft.flows.jobs import forks
from fieldcraft.flows.jobs.job_folder import JobFolder
from fieldcraft.storage.processes import is_alive

ROOT = Path(__file__).resolve().parents[3]
SIMULATOR = '''\
"""Tells what it finds, and stays while a file says so."""
import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from fieldcraft.physics.problem import Simulator

VERSION = 1


@dataclass(frozen=True)
class Telling(Simulator):
    """See the test."""

    folder: str

    def run(self, problem, design, rng):
        """Write what is found to a file of this process."""
        found = {
            "version": VERSION,
            "global": np.random.random(),
            "environment": dict(os.environ),
            "cwd": os.getcwd(),
            "argv": sys.argv,
            "input": os.read(0, 1).decode(),
            "files": [n for n in range(3, 64) if os.path.exists(f"/proc/self/fd/{n}")],
            "session": os.getsid(0),
            "threads": threading.active_count(),
            "children": signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL,
        }
        (Path(self.folder) / f"{os.getpid()}.json").write_text(json.dumps(found))
        while (Path(self.folder) / "stay").exists():
            time.sleep(0.01)
        return xr.Dataset({"value": ((), problem.function(design)["value"], {"units": ""})})
'''


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "plugins" / "simulators").mkdir(parents=True)
    (tmp_path / "plugins" / "simulators" / "telling.py").write_text(SIMULATOR)
    (tmp_path / "told").mkdir()
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    yield tmp_path
    (tmp_path / "told" / "stay").unlink(missing_ok=True)


def prepared(place: Path, key: str) -> JobFolder:
    folder = JobFolder(place / "work" / key)
    folder.prepare(
        {
            "problem": {"kind": "branin"},
            "simulator": {"kind": "telling", "folder": str(place / "told")},
            "design": {"x1": 1.0, "x2": 2.0},
            "seed": 7,
            "iteration": 4,
            "slot": 2,
            "key": key,
            "wall_time_s": 60.0,
        }
    )
    return folder


def told(place: Path, key: str) -> dict:
    """What one job found, once it has ended."""
    before = set((place / "told").glob("*.json"))
    folder = prepared(place, key)
    process = folder.start()
    until(lambda: not is_alive(process["pid"], process["started"]))
    assert folder.result.is_dir(), folder.log.read_text()
    (file,) = set((place / "told").glob("*.json")) - before
    return json.loads(file.read_text()) | {"pid": process["pid"]}


def until(condition) -> None:
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def server() -> psutil.Process:
    (running,) = forks._servers
    return psutil.Process(running.child.pid)


def test_a_job_is_forked_into_a_session_of_its_own_and_holds_nothing_of_the_servers(place, monkeypatch):
    first = told(place, "a-1")
    then = server().pid
    monkeypatch.chdir(place)
    monkeypatch.setenv("FIELDCRAFT_HOME", str(place / "home"))
    second = told(place, "a-2")
    assert server().pid == then, "fieldcraft's own variables take no new server"
    for found in (first, second):
        assert found["session"] == found["pid"] != then
        assert (found["input"], found["files"], found["threads"], found["children"]) == ("", [], 1, True)
    assert second["argv"][1:] == [str(place / "work" / "a-2")]
    assert second["cwd"] == str(place)
    assert second["environment"]["FIELDCRAFT_HOME"] == str(place / "home")
    assert "FIELDCRAFT_HOME" not in first["environment"]


def test_numpys_own_generator_is_another_in_each_job(place):
    assert told(place, "a-1")["global"] != told(place, "a-2")["global"]


def test_a_plugin_that_changed_is_imported_afresh(place):
    assert told(place, "a-1")["version"] == 1
    then = server().pid
    file = place / "plugins" / "simulators" / "telling.py"
    file.write_text(file.read_text().replace("VERSION = 1", "VERSION = 2"))
    assert told(place, "a-2")["version"] == 2
    assert server().pid == then


def test_another_environment_takes_a_new_server(place, monkeypatch):
    told(place, "a-1")
    then = server()
    monkeypatch.setenv("A_LIBRARYS_SWITCH", "on")
    assert told(place, "a-2")["environment"]["A_LIBRARYS_SWITCH"] == "on"
    assert server() != then and not then.is_running()


TWO_JOBS = """
import sys
from pathlib import Path
from fieldcraft.flows.dispatchers.local import Local
from fieldcraft.flows.jobs.dispatcher import Job, Place
work, branin = Path(sys.argv[1]), Path(sys.argv[2])
local = Local(Place("t", work, 60.0, "", work))
for key in ("t-1-1", "t-1-2"):
    request = {"problem": {"kind": "branin"}, "simulator": {"kind": "function"}, "design": {"x1": 1.0, "x2": 2.0}}
    handle = local.submit(Job("t-1", key, {**request, "seed": 0, "iteration": 0, "slot": 0}))
    while type(local.poll(handle)).__name__ == "Running":
        local.wait([handle], 60.0)
    print(float(local.fetch(handle)["value"]))
    branin.write_text(branin.read_text() + "\\nBranin.function = lambda self, design: {'value': 7.0}\\n")
"""


def test_a_built_in_problem_that_changed_is_never_run_as_it_was(tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    for name in ("fieldcraft", "flows", "models", "physics", "storage"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True)
    monkeypatch.setenv("PYTHONPATH", str(copy))
    branin = copy / "physics" / "problems" / "branin.py"
    ended = subprocess.run(
        [sys.executable, "-P", "-c", TWO_JOBS, str(tmp_path / "work"), str(branin)], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    first, second = map(float, ended.stdout.split())
    assert first != 7.0 and second == 7.0


def test_a_job_goes_on_where_its_server_is_killed_and_the_next_one_gets_a_new_server(place):
    (place / "told" / "stay").touch()
    folder = prepared(place, "a-1")
    process = folder.start()
    until(lambda: any((place / "told").glob("*.json")))
    server().kill()
    (place / "told" / "stay").unlink()
    assert told(place, "a-2")["version"] == 1
    until(lambda: not is_alive(process["pid"], process["started"]))
    assert folder.result.is_dir()


def test_a_server_that_does_not_answer_is_given_up_for_an_interpreter(place):
    told(place, "a-1")
    stopped = server()
    stopped.suspend()
    forks._servers[0].link.settimeout(0.5)
    assert told(place, "a-2")["version"] == 1
    assert not stopped.is_running() and not forks._servers


def test_what_was_forked_is_reaped(place):
    told(place, "a-1")
    until(lambda: not server().children())


ALONE = """
import os, signal, sys
from pathlib import Path
from fieldcraft.flows.jobs import forks
from fieldcraft.flows.jobs.job_folder import JobFolder
process = JobFolder(Path(sys.argv[1])).start()
print(forks._servers[0].child.pid, process["pid"], flush=True)
os.kill(os.getpid(), getattr(signal, sys.argv[2])) if len(sys.argv) > 2 else None
"""


@pytest.mark.parametrize("end", [[], ["SIGKILL"]])
def test_a_server_ends_with_the_process_that_started_it_and_the_job_goes_on(place, end):
    (place / "told" / "stay").touch()
    folder = prepared(place, "a-1")
    ended = subprocess.run([sys.executable, "-c", ALONE, str(folder.path), *end], capture_output=True, text=True)
    assert ended.returncode == (-signal.SIGKILL if end else 0), ended.stderr
    served, job = map(int, ended.stdout.split())
    until(lambda: not psutil.pid_exists(served) or psutil.Process(served).status() == psutil.STATUS_ZOMBIE)
    until(lambda: any((place / "told").glob("*.json")))
    assert psutil.Process(job).is_running() and os.getpgid(job) == job
    (place / "told" / "stay").unlink()
    until(lambda: folder.result.is_dir())


def test_a_server_has_one_thread_and_no_plugin_and_what_a_kind_imports_as_it_runs(place):
    code = f"""
import json, sys, threading
from pathlib import Path
from fieldcraft.flows.jobs import fork_server as it
for name in it._BASE: __import__(name)
it._import(Path({str(prepared(place, "a-1").path)!r}))
it._import_deep("fieldcraft.physics.simulators.heat")
there = [name for name in sys.modules if name.startswith("_fieldcraft_plugin") or name == "pde"]
print(json.dumps([threading.active_count(), *there]))
"""
    found = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert found == [1, "pde"]
