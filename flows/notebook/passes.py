"""Passes of a notebook: their lease, and their flow run where PREFECT_API_URL names a server of Prefect's.

A notebook starts no server of its own.
"""

import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from itertools import islice

from fieldcraft.flows.machinery.prefect_server import Server, one_client, without_heartbeats
from fieldcraft.flows.run import PASSES
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.steps.leases import held
from fieldcraft.flows.steps.one_pass import Caller, directly
from fieldcraft.storage.ledger import LeaseHeld, Ledger
from fieldcraft.storage.records import Lease

_LEASE_S = 600.0  # how long a call waits for another process's pass to end
_LOOK_S = 0.2


@contextmanager
def pass_lease(ledger: Ledger, name: str) -> Iterator[Lease]:
    """The pass lease of a campaign, once no other process makes passes."""
    deadline = time.monotonic() + _LEASE_S
    with ExitStack() as stack:
        while True:
            try:
                lease = stack.enter_context(held(ledger, name))
                break
            except LeaseHeld:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOOK_S)
        yield lease


def shown(name: str, settings: Settings, passes: Callable[[Caller], Generator[None, None, None]]) -> None:
    """Make passes inside a flow run named after their campaign; without Prefect where no server is named.

    Args:
        name: The campaign.
        settings: Settings of its stores.
        passes: Function of a caller of steps; makes one pass before each item that it yields.

    Raises:
        FieldcraftError: Prefect's server does not answer, or stopped answering.
    """
    if not os.environ.get("PREFECT_API_URL"):
        _say_so()
        for _ in passes(directly):
            pass
        return
    with closing(Server(settings.home / "prefect")) as server:
        from fieldcraft.flows.campaign import in_one_flow, through_prefect

        server.ready()
        made = passes(through_prefect)  # closed also by what is raised between two passes: it holds the pass lease
        with closing(made), server.answering(), without_heartbeats(), one_client():
            while in_one_flow(name, lambda: sum(1 for _ in islice(made, PASSES))) == PASSES:
                pass


@cache
def _say_so() -> None:
    print("These passes do not show in Prefect: PREFECT_API_URL names no server.")
