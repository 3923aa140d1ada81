"""One simulation in a process group of its own: ``python -m fieldcraft.flows.jobs.simulation FOLDER``, or a fork.

A supervisor forks the process that works and outlives it, so that the wall-time limit holds even when the pass that
submitted the job is gone. It imports nothing heavy itself.
"""

import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr

    from fieldcraft.flows.jobs.job_folder import JobFolder
    from fieldcraft.storage.records import FailureKind

_POLL_S = 0.02
_BEAT_S = 2.0


@dataclass(frozen=True)
class Refused:
    """A design that the simulator's gate did not let run.

    Args:
        reason: Reason of the gate.
        cost: Cost of the gate, in budget units.
    """

    reason: str
    cost: float


def main(folder: Path) -> int:
    """Run the job in ``folder`` unless another process has begun it.

    Returns:
        Exit status: 0 when this or another process took the job.
    """
    from fieldcraft.flows.jobs.job_folder import JobFolder

    job = JobFolder(folder)
    if not job.begin():
        return 0
    limit = job.request["wall_time_s"]
    worker = os.fork()
    if worker == 0:
        os._exit(_work(job))
    return _supervise(job, worker, limit)


def _supervise(job: "JobFolder", worker: int, limit: float) -> int:
    from fieldcraft.storage.processes import signal_name

    began = time.monotonic()
    heard = began
    while True:
        ended, status = os.waitpid(worker, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > began + limit:
            reason = f"ran over dispatcher.wall_time_s of {limit:g} s and was killed with all it had started"
            reason += "; begin a campaign with a longer one"
            try:
                job.fail("unknown", reason, limit)
            finally:  # the limit holds also where the disk is full or the folder is gone
                os.killpg(os.getpgrp(), signal.SIGKILL)
        if time.monotonic() > heard + _BEAT_S:
            heard = time.monotonic()
            _answer(job)
        time.sleep(_POLL_S)
    if os.WIFSIGNALED(status) and not job.result.is_dir():
        job.lose(f"the simulation was killed by {signal_name(os.WTERMSIG(status))}")
    os.killpg(os.getpgrp(), signal.SIGKILL)  # whatever the simulator left running, and this process last
    return os.waitstatus_to_exitcode(status)


def _answer(job: "JobFolder") -> None:
    """Write a heartbeat, and end if the job was recalled. Disk errors are ignored, so that the time limit holds."""
    with suppress(OSError):
        job.beat()
    if job.recalled:
        try:
            job.lose("it was cancelled")
        finally:
            os.killpg(os.getpgrp(), signal.SIGKILL)


def _work(job: "JobFolder") -> int:
    from fieldcraft.flows.jobs.programs import ProgramEnded, run_program
    from fieldcraft.flows.spec.source_files import require_approved

    began, request = time.monotonic(), job.request
    answer: xr.Dataset | Refused
    try:
        if "program" in request:
            require_approved(request, ())
            answer = run_program(job, request)
        else:
            answer = simulate(request, _plugins(request))
        if isinstance(answer, Refused):
            job.fail("infeasible", answer.reason, time.monotonic() - began, answer.cost)
        else:
            job.save(answer, time.monotonic() - began)
    except ProgramEnded as ended:
        ended.tell(job, time.monotonic() - began)
        return 1
    except (Exception, SystemExit) as error:  # the outermost edge of a user's simulator: what it raises is recorded
        traceback.print_exc()
        kind, reason, cost = judged(error)
        job.fail(kind, reason, time.monotonic() - began, cost)
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _plugins(request: Mapping[str, Any]) -> Sequence[Path]:
    """Directories of plug-ins: those in the request, or else those of this process's environment."""
    from fieldcraft.flows.settings import settings_from

    given = request.get("plugins")
    return settings_from().plugins if given is None else tuple(map(Path, given))


def judged(error: Exception | SystemExit) -> "tuple[FailureKind, str, float | None]":
    """Kind of failure, reason in words, and cost where it is known, of an exception that a simulator raised."""
    from fieldcraft.flows.spec.source_files import NotApproved
    from fieldcraft.physics.problem import Infeasible, Transient

    words = str(error) or type(error).__name__
    if isinstance(error, Infeasible):
        return "infeasible", words, None
    if isinstance(error, Transient):
        return "transient", words, None
    if isinstance(error, NotApproved):
        return "transient", words, 0.0
    return "unknown", f"{type(error).__name__}: {error}" if str(error) else words, None


def simulate(request: Mapping[str, Any], plugins: Sequence[Path]) -> "xr.Dataset | Refused":
    """The fields of the design in a job's request, or the gate's refusal; raises what the simulator raises.

    Raises:
        flows.spec.source_files.NotApproved: the code that would run is not the approved code, or cannot be loaded here;
            checked before and after it is imported.
    """
    from fieldcraft.flows.errors import InputError
    from fieldcraft.flows.machinery.random_streams import Use, stream
    from fieldcraft.flows.spec.contracts import require_dataset
    from fieldcraft.flows.spec.registry import build
    from fieldcraft.flows.spec.source_files import NotApproved, require_approved
    from fieldcraft.physics.problem import Infeasible

    try:
        require_approved(request, plugins)
        problem = build("problems", request["problem"], plugins)
        simulator = build("simulators", request["simulator"], plugins)
        require_approved(request, plugins)
    except InputError as error:  # the pass has built both: this machine lacks something
        raise NotApproved(f"it could not begin on {socket.gethostname()}: {error}") from error
    design, seed, iteration, slot = (request[name] for name in ("design", "seed", "iteration", "slot"))
    try:
        refused = simulator.gate(problem, design, stream(seed, iteration, Use.GATE, slot))
    except Infeasible as error:
        refused = str(error) or type(error).__name__
    if refused is not None:
        return Refused(f"refused by the gate: {refused}", float(simulator.gate_cost))
    fields: xr.Dataset = simulator.run(problem, design, stream(seed, iteration, Use.SIMULATE, slot))
    require_dataset(simulator, fields)
    return fields


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
