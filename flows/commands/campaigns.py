"""Commands that begin campaigns and make passes: check, run, iterate."""

import argparse
from contextlib import closing
from pathlib import Path

from flows.commands.shared import Add, campaign_of, show
from flows.display import Display
from flows.settings import Settings
from storage.ledger import open_ledger


def add(command: Add) -> None:
    """Register the commands."""
    command("check", _check, "validate a campaign file and print all it says").add_argument("file", type=Path)
    run = command("run", _run, "run a campaign to its end, or go on with it")
    run.add_argument("file", type=Path)
    run.add_argument("--break-lease", action="store_true", help="take over from a machine that is gone for good")
    command("iterate", _iterate, "make one pass over a campaign").add_argument("name")


def _check(options: argparse.Namespace, settings: Settings) -> int:
    from flows.wiring import wire

    campaign = wire(read_campaign(options.file), settings)
    data = {"campaign": campaign.name, "digest": campaign.digest, "spec": campaign.data}

    def text() -> str:
        import yaml

        plain = yaml.safe_dump(campaign.data, sort_keys=False)
        return f"{plain}\n{options.file}: valid: {campaign.spec.algorithm.sentence}, digest {campaign.digest[:12]}"

    show(options.json, data, text)
    return 0


def _run(options: argparse.Namespace, settings: Settings) -> int:
    from flows.running import run
    from flows.summary import summary_data, summary_text

    display = Display(lambda: open_ledger(settings.ledger), options.json)
    ran = run(options.file, settings, display, options.break_lease)
    data = summary_data(ran, settings)
    show(options.json, {"event": "summary", **data}, lambda: summary_text(data, options.file))
    return 0


def _iterate(options: argparse.Namespace, settings: Settings) -> int:
    from flows.prefect_server import Server, without_heartbeats
    from flows.progress import listening

    campaign_of(open_ledger(settings.ledger), options.name)
    with closing(Server(settings.home / "prefect")) as server:
        server.begin()
        from flows.campaign import iterate

        server.ready()
        with without_heartbeats(), listening(Display(lambda: open_ledger(settings.ledger), options.json)):
            passed = iterate(options.name, str(settings.home))
    decision = passed["decision"]
    outcome = decision["finished"] or (f"waits for {decision['wait']}" if decision["wait"] else "proposed")
    show(options.json, {"event": "passed", **passed}, lambda: f"{options.name}: {outcome}")
    return 0
