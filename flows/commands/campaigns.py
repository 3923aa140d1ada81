"""Commands that begin campaigns and make passes: check, create, run, iterate."""

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any

from flows.commands.shared import Add, campaign_of, show
from flows.display import Display
from flows.settings import Settings
from storage.ledger import open_ledger


def add(command: Add) -> None:
    """Register the commands."""
    command("check", _check, "validate a campaign file and print all it says").add_argument("file", type=Path)
    command("create", _create, "write a campaign down without making a pass").add_argument("file", type=Path)
    run = command("run", _run, "run a campaign to its end, or go on with it")
    run.add_argument("file", type=Path)
    run.add_argument("--profile", action="store_true", help="say at the end where the time went")
    iterate = command("iterate", _iterate, "make one pass over a campaign")
    iterate.add_argument("name")
    for parser in (run, iterate):
        parser.add_argument("--break-lease", action="store_true", help="take over from a machine that is gone for good")


def _check(options: argparse.Namespace, settings: Settings) -> int:
    from flows.affording import warning
    from flows.equations import unused
    from flows.spec import read_campaign
    from flows.wiring import wire

    campaign = wire(read_campaign(options.file), settings)
    warned, noted = warning(campaign), unused(campaign)
    kept = [str(constraint) for constraint in campaign.space.constraints]
    data: dict[str, Any] = {"campaign": campaign.name, "digest": campaign.digest, "spec": campaign.data}
    data |= {"constraints": kept, "warning": warned, "note": noted}

    def text() -> str:
        import yaml

        plain = yaml.safe_dump(campaign.data, sort_keys=False)
        part = campaign.spec.algorithm
        words = f"{part.named.kind} stands for: {part.sentence}" if part.named else part.sentence
        valid = f"{options.file}: valid: {words}, digest {campaign.digest[:12]}"
        lines = [kept and f"every design keeps {'; '.join(kept)}", warned, noted and f"note: {noted}"]
        return "\n".join([plain, *(f"{options.file}: {line}" for line in lines if line), valid])

    show(options.json, data, text)
    return 0


def _create(options: argparse.Namespace, settings: Settings) -> int:
    from flows.running import created
    from flows.spec import read_campaign
    from flows.wiring import wire

    campaign = wire(read_campaign(options.file), settings)
    ended = created(open_ledger(settings.ledger, create=True), campaign, options.file)
    data = {"campaign": campaign.name, "digest": campaign.digest, "finished": ended}
    show(options.json, data, lambda: f"{campaign.name}: {'has ended: ' + ended if ended else 'ready for its passes'}")
    return 0


def _run(options: argparse.Namespace, settings: Settings) -> int:
    from flows.spans import profile_text, profiled

    if not options.profile:
        return _ran(options, settings)
    with profiled() as profile:
        try:
            return _ran(options, settings)
        finally:  # where it waits for people, too
            spent = profile.data()
            show(options.json, {"event": "profile", **spent}, lambda: profile_text(spent))


def _ran(options: argparse.Namespace, settings: Settings) -> int:
    from flows.running import run
    from flows.summary import summary_data, summary_text

    display = Display(lambda: open_ledger(settings.ledger), options.json)
    ran = run(options.file, settings, display, options.break_lease)
    data = summary_data(ran, settings)
    show(options.json, {"event": "summary", **data}, lambda: summary_text(data, options.file))
    return 0


def _iterate(options: argparse.Namespace, settings: Settings) -> int:
    from flows.holding import held
    from flows.identity import acting
    from flows.prefect_server import Server, without_heartbeats
    from flows.progress import listening

    acting(settings, "operate")
    ledger = open_ledger(settings.ledger)
    campaign_of(ledger, options.name)
    held_lease = held(ledger, options.name, break_lease=options.break_lease)
    with closing(Server(settings.home / "prefect")) as server, held_lease as lease:
        server.begin()
        from flows.campaign import iterate

        server.ready()
        display = Display(lambda: open_ledger(settings.ledger), options.json)
        with server.answering(), without_heartbeats(), listening(display):
            passed = iterate(options.name, str(settings.home), lease.model_dump())
    decision = passed["decision"]
    outcome = decision["finished"] or (f"waits for {decision['wait']}" if decision["wait"] else "proposed")
    show(options.json, {"event": "passed", **passed}, lambda: f"{options.name}: {outcome}")
    return 0
