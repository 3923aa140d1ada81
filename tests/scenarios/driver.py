"""A process that runs campaigns in forked children: ``python driver.py`` reads one request a line, answers with one.

The children call the pass as the plain function it is. Everything slow is imported once, before the first fork, and
their simulations are processes that need not import either (``warm_start.py``).

``python driver.py FILE`` runs one campaign in this process, and prints the name of each event.

    request  {"file": campaign file, "environment": {...}, "cwd": folder, by default the driver's}
    answer   {"status": exit status of the child, negative for a signal}
"""

import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from fieldcraft.flows.jobs import forks
from fieldcraft.flows.machinery.progress import listening
from fieldcraft.flows.run import pause
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import read_campaign
from fieldcraft.flows.steps import train
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.views.export import tracker
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.open_ledger import open_ledger

LONGEST_S = 300  # of one campaign; a child that hangs ends by SIGALRM then


def drive(file: Path) -> None:
    """Run the campaign of a file to its end and export it, as ``fieldcraft run`` does, without Prefect.

    With ``EXPORT_LATER`` in the environment it is left for a later call to export; ``SAVE_EVERY_S`` is how often a
    training is saved.
    """
    train.SAVE_EVERY_S = float(os.environ.get("SAVE_EVERY_S", train.SAVE_EVERY_S))
    settings = settings_from()
    campaign = wire(read_campaign(file), settings)
    ledger = open_ledger(settings.ledger, create=True)
    if created(ledger, campaign, file) is None:
        lease = ledger.acquire(campaign.name)
        ref = Ref(str(settings.home), campaign.name, lease.model_dump())
        while not (passed := make_pass(ref)).decision.finished:
            if passed.sent and os.environ.get("FIELDCRAFT_DIE_AT", "").startswith("result."):
                del os.environ["FIELDCRAFT_DIE_AT"]  # the first simulations die; those that replace them live
            if passed.decision.wait in ("person", "laboratory") and not passed.approved:
                raise SystemExit(3)
            if passed.decision.wait and not passed.approved:
                pause(campaign, ledger, passed)
        ledger.release(lease)
    if "EXPORT_LATER" not in os.environ:
        tracker(settings).export(ledger)


def warm() -> None:
    """Import all that a campaign imports on its way, which a forked child finds out by running one."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        names = Path(folder) / "names"
        home = {"FIELDCRAFT_HOME": f"{folder}/home", "SIMULATED": f"{folder}/count"}
        plugins = {"FIELDCRAFT_PLUGINS": str(Path(__file__).parent / "plugins")}
        fork(
            Path(__file__).with_name("saddle.yaml"),
            {**home, **plugins},
            then=lambda: names.write_text(" ".join(sys.modules)),
        )
        for name in names.read_text().split():
            if not name.startswith(("_fieldcraft_plugin", "__mp_main__")):
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)


def fork(file: Path, environment: dict[str, str], cwd: str = ".", then: Callable[[], object] = lambda: None) -> int:
    """Drive a campaign in a forked child; its exit status."""
    child = os.fork()
    if child == 0:
        signal.alarm(LONGEST_S)
        os.environ.update(environment)
        status = 1
        try:
            os.chdir(cwd)
            drive(file)
            then()
            status = 0
        except SystemExit as ended:
            status = int(ended.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import warm_start

    torch.set_num_threads(1)
    forks.begun = warm_start.server
    warm()
    for line in sys.stdin:
        request = json.loads(line)
        status = fork(Path(request["file"]), request["environment"], request.get("cwd", "."))
        print(json.dumps({"status": status}), flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        with listening(lambda event, details: print(event)):
            drive(Path(sys.argv[1]))
