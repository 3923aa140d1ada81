"""A process that runs campaigns in forked children: ``python driver.py`` reads one request a line, answers with one.

The children call the pass as the plain function it is. Everything slow is imported once, before the first fork.

    request  {"file": campaign file, "home": folder, "environment": {...}}
    answer   {"status": exit status of the child, negative for a signal}
"""

import json
import os
import sys
import time
from pathlib import Path

import mlflow.tracking  # noqa: F401 - slow, and needed by every child
import torch

import flows.environment  # noqa: F401
from flows.exporting import tracker
from flows.passes import Ref, make_pass
from flows.running import created
from flows.settings import settings_from
from flows.spec import read_campaign
from flows.wiring import wire
from models.surrogates import physics_informed  # noqa: F401
from storage.ledger import open_ledger
from storage.records import TrialState


def drive(file: Path) -> None:
    """Run the campaign of a file to its end and export it, as ``fieldcraft run`` does, without Prefect."""
    settings = settings_from()
    campaign = wire(read_campaign(file), settings)
    ledger = open_ledger(settings.ledger, create=True)
    if created(ledger, campaign, file) is None:
        lease = ledger.acquire(campaign.name)
        ref = Ref(str(settings.home), campaign.name, lease.model_dump())
        while not (passed := make_pass(ref)).decision.finished:
            if passed.sent and os.environ.get("FIELDCRAFT_DIE_AT", "").startswith("result."):
                del os.environ["FIELDCRAFT_DIE_AT"]  # the first simulations die; those that replace them live
            running = ledger.trials(campaign.name, states={TrialState.RUNNING})
            campaign.dispatcher.wait([trial.handle for trial in running if trial.handle], 5.0)
        ledger.release(lease)
    tracker(settings).export(ledger)


def main() -> None:
    torch.set_num_threads(1)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            os.environ.update(request["environment"])
            status = 1
            try:
                drive(Path(request["file"]))
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)
        _, status = os.waitpid(child, 0)
        print(json.dumps({"status": os.waitstatus_to_exitcode(status), "at": time.time()}), flush=True)


if __name__ == "__main__":
    main()
