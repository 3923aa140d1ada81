"""The flow ``simulate`` for workers of the work pool ``simulations``: one simulation a run."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from fieldcraft.flows.jobs.remote_jobs import run_job
from fieldcraft.flows.text import one_line


@flow(name="simulate", persist_result=False, retries=0)
def simulate(folder: str) -> State[Any]:
    """Run a job's simulation and wait for its end.

    Args:
        folder: The job's folder, which this worker must see.

    Returns:
        A completed state with the job's outcome, or that another process runs it; its folder has the rest.

    Raises:
        flows.errors.FieldcraftError: the worker does not see the folder, or cannot start a process.
    """
    return Completed(message=one_line(run_job(folder)))
