"""``fieldcraft run``: passes inside one Prefect context until the budget or a stop rule ends the campaign."""

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from flows.deciding import Decision
from flows.errors import InputError, Unfinished
from flows.exporting import BackgroundExport
from flows.prefect_server import Server, without_heartbeats
from flows.progress import Listener, listening, tell
from flows.settings import Settings, operator
from flows.spec import differing, read_campaign
from flows.wiring import Campaign, wire
from storage.ledger import Ledger, SpecChanged, open_ledger
from storage.records import Lease, TrialState

WAIT_S = 2.0  # between looks at running simulations when none reports its end


@dataclass(frozen=True)
class Ran:
    """How a run ended.

    Args:
        name: Campaign.
        reason: Why it ended.
        anew: Whether anything was done; False for a campaign that had ended before.
        seconds: Wall time of this command.
    """

    name: str
    reason: str
    anew: bool
    seconds: float


def run(file: Path, settings: Settings, listener: Listener, break_lease: bool = False) -> Ran:
    """Run the campaign of a file to its end, from wherever the ledger says it stands.

    Raises:
        InputError: the file is wrong, or differs from the campaign's stored specification.
        storage.ledger.LeaseHeld: another process runs the campaign; names it.
        Unfinished: only held trials are left, which a person must judge.
    """
    began = time.monotonic()
    spec = read_campaign(file)
    with listening(listener), closing(Server(settings.home / "prefect")) as server:
        campaign = wire(spec, settings)
        ledger = open_ledger(settings.ledger, create=True)
        known = created(ledger, campaign, file)
        if known is not None:
            return Ran(spec.name, known, False, time.monotonic() - began)
        lease = ledger.acquire(spec.name, break_lease=break_lease)
        try:
            server.begin()
            with BackgroundExport(settings, spec.name) as export:
                reason = _passes(campaign, ledger, lease, server)
            tell("exported", problem=export.problem)
        finally:
            ledger.release(lease)
    return Ran(spec.name, reason, True, time.monotonic() - began)


def created(ledger: Ledger, campaign: Campaign, file: Path) -> str | None:
    """Create the campaign, or find it unchanged; returns why it has ended, where it has.

    Raises:
        InputError: the ledger's campaign of that name has another specification; names the keys that differ.
    """
    from flows.environment import environment_of

    try:
        known = ledger.create_campaign(
            campaign.name,
            campaign.data,
            campaign.digest,
            environment_of(campaign.problem, campaign.settings.plugins),
            operator(),
        )
    except SpecChanged as error:
        keys = "; ".join(differing(error.stored, campaign.data))
        raise InputError(
            f"{file}: campaign {campaign.name!r} was started with another specification ({keys}). "
            "Restore these keys to go on, or give the file another name to start anew."
        ) from None
    return known.finished


def _passes(campaign: Campaign, ledger: Ledger, lease: Lease, server: Server) -> str:
    from flows.campaign import iterate

    server.ready()
    home, held_lease = str(campaign.settings.home), lease.model_dump()
    with without_heartbeats():
        while True:
            passed = iterate(campaign.name, home, held_lease)
            decision = Decision(**passed["decision"])
            if decision.finished:
                return decision.finished
            if decision.wait == "person":
                raise Unfinished(held(ledger, campaign.name))
            if decision.wait == "simulations" and not passed["sent"]:
                running = ledger.trials(campaign.name, states={TrialState.RUNNING})
                campaign.dispatcher.wait([trial.handle for trial in running if trial.handle], WAIT_S)


def held(ledger: Ledger, name: str) -> str:
    """What a person has to judge before the campaign can go on."""
    trials = ledger.trials(name, states={TrialState.HELD})
    why = "; ".join(f"{trial.id}: {ledger.history(name, trial.id)[-1].reason}" for trial in trials)
    return (
        f"Campaign {name!r} waits for a person ({why}). 'fieldcraft show {trials[0].id}' tells its history; this "
        "version has no command yet that settles it, and everything is kept."
    )
