"""One simulation in a process group of its own: ``python -m flows.simulation FOLDER``.

A light supervisor forks the process that works and outlives it, so that the wall-time limit holds even when whoever
submitted the job is gone. Nothing heavy is imported before the fork.
"""

import os
import signal
import sys
import time
import traceback
from pathlib import Path

from flows.processes import boot, start_time

_POLL_S = 0.02


def main(folder: Path) -> int:
    """Run the job in ``folder`` unless another process has begun it.

    Returns:
        Exit status: 0 when this or another process took the job.
    """
    from flows.dispatchers.local import read_json, write_json

    me = {"pid": os.getpid(), "started": start_time(os.getpid()), "boot": boot(), "at": time.time()}
    try:
        write_json(folder / "started.json", me, once=True)
    except FileExistsError:
        return 0
    limit = read_json(folder / "request.json")["wall_time_s"]
    worker = os.fork()
    if worker == 0:
        os._exit(_work(folder))
    return _supervise(folder, worker, limit)


def _supervise(folder: Path, worker: int, limit: float) -> int:
    from flows.dispatchers.local import write_json

    deadline = time.monotonic() + limit
    while True:
        ended, status = os.waitpid(worker, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            reason = f"ran over dispatcher.wall_time_s of {limit:g} s and was killed with all it had started"
            try:
                write_json(folder / "outcome.json", {"kind": "unknown", "reason": reason})
            finally:  # the limit holds also where the disk is full or the folder is gone
                os.killpg(os.getpgrp(), signal.SIGKILL)
        time.sleep(_POLL_S)
    if os.WIFSIGNALED(status) and not (folder / "result").is_dir():
        name = signal.Signals(os.WTERMSIG(status)).name
        write_json(folder / "outcome.json", {"kind": "lost", "reason": f"the simulation was killed by {name}"})
    os.killpg(os.getpgrp(), signal.SIGKILL)  # whatever the simulator left running, and this process last
    return os.waitstatus_to_exitcode(status)


def _work(folder: Path) -> int:
    from flows.dispatchers.local import write_json

    try:
        _simulate(folder)
    except Exception as error:  # the outermost edge of a user's simulator: whatever it raises is recorded
        traceback.print_exc()
        reason = f"{type(error).__name__}: {error}"
        write_json(folder / "outcome.json", {"kind": "unknown", "reason": reason})
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _simulate(folder: Path) -> None:
    from flows.dispatchers.local import read_json
    from flows.plugins import build
    from flows.settings import settings_from
    from flows.streams import Use, stream
    from storage.fields import save_group

    request, plugins = read_json(folder / "request.json"), settings_from().plugins
    problem = build("problems", request["problem"], plugins)
    simulator = build("simulators", request["simulator"], plugins)
    rng = stream(request["seed"], request["iteration"], Use.SIMULATE, request["slot"])
    save_group(folder / "result", simulator.run(problem, request["design"], rng))


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
