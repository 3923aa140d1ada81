"""A worker of one process, for tests: Prefect's engine makes each scheduled flow run in a thread, as soon as it comes.

The worker of tests/scenarios is Prefect's own, which starts a process for each and looks every second at most.
"""

import time
from threading import Thread

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun
from prefect.flow_engine import run_flow_sync

from fieldcraft.flows.simulate import simulate

SCHEDULED = FlowRunFilter.model_validate({"state": {"type": {"any_": ["SCHEDULED"]}}})


def make(run: FlowRun) -> None:
    run_flow_sync(simulate, flow_run=run, parameters=run.parameters, return_type="state")


def main() -> None:
    taken = set()
    with get_client(sync_client=True) as client:
        while True:
            for run in client.read_flow_runs(flow_run_filter=SCHEDULED):
                if run.id not in taken:
                    taken.add(run.id)
                    Thread(target=make, args=(run,), daemon=True).start()
            time.sleep(0.3)  # each look costs the server more than it costs here


if __name__ == "__main__":
    main()
