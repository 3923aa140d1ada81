"""One simulation in a process group of its own: ``python -m flows.simulation FOLDER``.

A light supervisor forks the process that works and outlives it, so that the wall-time limit holds even when whoever
submitted the job is gone. Nothing heavy is imported before the fork.
"""

import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage.processes import boot, start_time

if TYPE_CHECKING:
    import xarray as xr

    from storage.records import FailureKind

_POLL_S = 0.02


@dataclass(frozen=True)
class Refused:
    """A design that the simulator's gate did not let run.

    Args:
        reason: Why.
        cost: What that cost, in budget units.
    """

    reason: str
    cost: float


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

    began = time.monotonic()
    while True:
        ended, status = os.waitpid(worker, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > began + limit:
            reason = f"ran over dispatcher.wall_time_s of {limit:g} s and was killed with all it had started"
            try:
                _explain(folder, "unknown", reason, limit)
            finally:  # the limit holds also where the disk is full or the folder is gone
                os.killpg(os.getpgrp(), signal.SIGKILL)
        time.sleep(_POLL_S)
    if os.WIFSIGNALED(status) and not (folder / "result").is_dir():
        name = signal.Signals(os.WTERMSIG(status)).name
        write_json(folder / "outcome.json", {"kind": "lost", "reason": f"the simulation was killed by {name}"})
    os.killpg(os.getpgrp(), signal.SIGKILL)  # whatever the simulator left running, and this process last
    return os.waitstatus_to_exitcode(status)


def _explain(folder: Path, kind: "FailureKind", reason: str, seconds: float, **more: Any) -> None:
    from flows.dispatchers.local import write_json

    write_json(folder / "outcome.json", {"kind": kind, "reason": reason, "seconds": round(seconds, 3), **more})


def _work(folder: Path) -> int:
    began = time.monotonic()
    try:
        answer = _simulated(folder)
        if isinstance(answer, Refused):
            _explain(folder, "infeasible", answer.reason, time.monotonic() - began, cost=answer.cost)
    except (Exception, SystemExit) as error:  # the outermost edge of a user's simulator: what it raises is recorded
        traceback.print_exc()
        kind, reason = judged(error)
        _explain(folder, kind, reason, time.monotonic() - began)
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _simulated(folder: Path) -> "xr.Dataset | Refused":
    from flows.dispatchers.local import read_json
    from flows.settings import settings_from
    from storage.fields import save_group

    answer = simulate(read_json(folder / "request.json"), settings_from().plugins)
    if not isinstance(answer, Refused):
        save_group(folder / "result", answer)
    return answer


def judged(error: Exception | SystemExit) -> "tuple[FailureKind, str]":
    """The kind of failure that an exception of a simulator is, and the reason in words."""
    from physics.problem import Infeasible, Transient

    words = str(error) or type(error).__name__
    if isinstance(error, Infeasible):
        return "infeasible", words
    if isinstance(error, Transient):
        return "transient", words
    return "unknown", f"{type(error).__name__}: {error}" if str(error) else words


def simulate(request: Mapping[str, Any], plugins: Sequence[Path]) -> "xr.Dataset | Refused":
    """The fields of the design in a job's request, or why it was not run; raises what the simulator raises."""
    from flows.plugins import build
    from flows.streams import Use, stream
    from physics.problem import Infeasible

    problem = build("problems", request["problem"], plugins)
    simulator = build("simulators", request["simulator"], plugins)
    design, seed, iteration, slot = (request[name] for name in ("design", "seed", "iteration", "slot"))
    try:
        refused = simulator.gate(problem, design, stream(seed, iteration, Use.GATE, slot))
    except Infeasible as error:
        refused = str(error) or type(error).__name__
    if refused is not None:
        return Refused(f"refused by the gate: {refused}", float(simulator.gate_cost))
    fields: xr.Dataset = simulator.run(problem, design, stream(seed, iteration, Use.SIMULATE, slot))
    return fields


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
