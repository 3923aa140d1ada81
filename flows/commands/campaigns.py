"""Commands to begin campaigns and make passes: check, create, run, iterate."""

import argparse
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldcraft.flows.commands.shared import Add, announce, begin, campaign_of, open_ledger, show
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import Settings

if TYPE_CHECKING:
    from fieldcraft.flows.files.yaml_data import Page
    from fieldcraft.flows.wiring.campaign import Campaign
    from fieldcraft.physics.space import SearchSpace

TITLE = "To run a campaign"


def add(command: Add) -> None:
    """Register the commands."""
    command(
        "check",
        _check,
        "validate a campaign file and print all it says",
        example="fieldcraft check campaigns/heat.yaml",
    ).add_argument("file", type=Path)
    command("create", _create, "write a campaign down without making a pass").add_argument("file", type=Path)
    run = command(
        "run", _run, "run a campaign to its end, or go on with it", example="fieldcraft run campaigns/heat.yaml"
    )
    run.add_argument("file", type=Path)
    run.add_argument("--profile", action="store_true", help="say at the end where the time went")
    iterate = command("iterate", _iterate, "make one pass over a campaign", example="fieldcraft iterate heat")
    iterate.add_argument("name")
    for parser in (run, iterate):
        parser.add_argument("--break-lease", action="store_true", help="take over from a machine that is gone for good")


def _check(options: argparse.Namespace, settings: Settings) -> int:
    announce(options.file)
    from fieldcraft.flows.files.yaml_data import read_page
    from fieldcraft.flows.views.start_cost import warning
    from fieldcraft.flows.wiring.campaign_file import campaign_on
    from fieldcraft.flows.wiring.fit import derived, partial
    from fieldcraft.flows.wiring.physics import (
        emulators,
        equations,
        folded_spaces,
        gradients,
        stated_fields,
        stated_noise,
    )
    from fieldcraft.flows.wiring.trial_designs import trial_warning
    from fieldcraft.flows.wiring.warm import sources

    page = read_page(options.file)
    campaign = campaign_on(page, settings)
    with page.told():
        warned = " ".join(filter(None, (trial_warning(campaign), warning(campaign)))) or None
        kinds = derived, partial, equations, emulators, stated_fields, gradients, stated_noise, sources, folded_spaces
        told = (each.told(campaign) for each in kinds)
        notes = equations.unused(campaign), *told, _unlearnt(campaign), _decades(campaign.space)
        noted = " ".join(filter(None, notes)) or None
    kept = [str(constraint) for constraint in campaign.space.constraints]
    data: dict[str, Any] = {"campaign": campaign.name, "digest": campaign.digest, "spec": campaign.data}
    data |= {"constraints": kept, "warning": warned, "note": noted}

    def text() -> str:
        import yaml

        plain = yaml.safe_dump(campaign.data, sort_keys=False)
        part = campaign.spec.algorithm
        words = f"{part.named.kind} stands for: {part.in_words}" if part.named else part.in_words
        valid = f"{options.file}: valid: {words}, digest {campaign.digest[:12]}"
        lines = [kept and f"every design keeps {'; '.join(kept)}", warned, noted and f"note: {noted}"]
        return "\n".join([plain, *(f"{options.file}: {line}" for line in lines if line), valid])

    show(options.json, data, text)
    return 0


def _unlearnt(campaign: "Campaign") -> str | None:
    """Note on words that have a start alone, from which no model learns; None for others."""
    part = campaign.spec.algorithm
    if part.named or part.surrogate or part.peer:
        return None
    return (
        f"no surrogate is named: all designs are those of the proposer {part.start.proposer.kind}, and nothing is "
        "learnt from results. `algorithm: {kind: auto, start: ...}` learns."
    )


def _decades(space: "SearchSpace") -> str | None:
    """Advice on variables that run over decades on a linear scale; None where there are none."""
    from fieldcraft.physics.space import Continuous, Integer

    linear = [v for v in space.variables if isinstance(v, Continuous | Integer) and not v.log]
    wide = ", ".join(v.name for v in linear if v.low > 0 and v.high >= 1000 * v.low)
    if not wide:
        return None
    return (
        f"variables over three decades or more on a linear scale: {wide}. If a factor matters more than a difference, "
        "give them a logarithmic scale: log=True in the problem, log: true where it is declared."
    )


def _create(options: argparse.Namespace, settings: Settings) -> int:
    announce(options.file)
    from fieldcraft.flows.wiring.campaign_file import read
    from fieldcraft.flows.wiring.create import created

    campaign = read(options.file, settings)
    ended = created(open_ledger(settings.ledger, create=True), campaign, options.file)
    data = {"campaign": campaign.name, "digest": campaign.digest, "finished": ended}
    show(options.json, data, lambda: f"{campaign.name}: {'has ended: ' + ended if ended else 'ready for its passes'}")
    return 0


def _run(options: argparse.Namespace, settings: Settings) -> int:
    began = begin(options.json, f"reading {options.file}")
    from fieldcraft.flows.machinery.profiling import profile_text, profiled

    if not options.profile:
        return _ran(options, settings, began)
    with profiled() as profile:
        try:
            return _ran(options, settings, began)
        finally:  # where it waits for people, too
            spent = profile.data()
            show(options.json, {"event": "profile", **spent}, lambda: profile_text(spent))


def _read(file: Path, settings: Settings) -> "Page":
    """The page of a campaign file whose keys are right: nobody waits for a server to be told of a wrong one.

    Raises:
        InputError: it cannot be read, or its keys are wrong; reports the faults of its components, too.
    """
    from fieldcraft.flows.files.yaml_data import read_page
    from fieldcraft.flows.spec.campaign_file import parse

    page = read_page(file)
    try:
        parse(page.data)
    except InputError:
        from fieldcraft.flows.wiring.campaign_file import campaign_on

        campaign_on(page, settings)
        raise
    return page


def _ran(options: argparse.Namespace, settings: Settings, began: float) -> int:
    page = _read(options.file, settings)
    from fieldcraft.flows.machinery.prefect_server import Server

    with closing(Server(settings.home / "prefect")) as server:  # first: it imports for longer than all that follows
        from fieldcraft.flows.commands.terminal import on_terminal
        from fieldcraft.flows.run import run
        from fieldcraft.flows.views.display import Display
        from fieldcraft.flows.views.summary import summary_data, summary_text

        with on_terminal(Display(lambda: open_ledger(settings.ledger), options.json, began), options.json) as listener:
            ran = run(page, settings, listener, server, options.break_lease)
    data = summary_data(ran, settings)
    show(options.json, {"event": "summary", **data}, lambda: summary_text(data, options.file))
    return 1 if data["fruitless"] else 0


def _iterate(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.machinery.prefect_server import Server, without_heartbeats
    from fieldcraft.flows.machinery.progress import listening
    from fieldcraft.flows.steps.leases import held
    from fieldcraft.flows.views.all_failed import fruitless
    from fieldcraft.flows.views.display import Display

    acting(settings, "operate")
    ledger = open_ledger(settings.ledger)
    campaign_of(ledger, options.name)
    display = Display(lambda: open_ledger(settings.ledger), options.json)
    held_lease = held(ledger, options.name, break_lease=options.break_lease)
    with closing(Server(settings.home / "prefect")) as server, held_lease as lease:
        server.begin()
        from fieldcraft.flows.campaign import iterate
        from fieldcraft.flows.machinery.collecting import as_usual

        server.ready()
        as_usual()
        with server.answering(), without_heartbeats(), listening(display):
            passed = iterate(options.name, str(settings.home), lease.model_dump())
    decision = passed["decision"]
    failed = fruitless(ledger, options.name, ledger.summaries(options.name)) if decision["finished"] else None
    outcome = decision["finished"] or (f"waits for {decision['wait']}" if decision["wait"] else "proposed")
    lines = [f"{options.name}: {outcome}", *([f"{options.name}: no result: {failed}"] if failed else [])]
    show(options.json, {"event": "passed", **passed, "fruitless": failed}, lambda: "\n".join(lines))
    return 1 if failed else 0
