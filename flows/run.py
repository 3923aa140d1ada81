"""``fieldcraft run``: passes inside one Prefect flow until a rule ends the campaign, or it waits for people."""

import time
from collections.abc import Sequence
from typing import Literal

from fieldcraft.flows.errors import Unfinished
from fieldcraft.flows.files.yaml_data import Page
from fieldcraft.flows.identity import ACTOR, AUTOMATIC
from fieldcraft.flows.machinery.collecting import as_usual
from fieldcraft.flows.machinery.prefect_server import Server, one_client, without_heartbeats
from fieldcraft.flows.machinery.profiling import span
from fieldcraft.flows.machinery.progress import Listener, listening, tell
from fieldcraft.flows.notices.deliver import deliver
from fieldcraft.flows.rules.stopping import mendable, nothing_to_learn_from
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.steps.leases import held
from fieldcraft.flows.steps.one_pass import Passed, Ref, make_pass
from fieldcraft.flows.text import counted
from fieldcraft.flows.views.all_failed import fruitless
from fieldcraft.flows.views.export import BackgroundExport
from fieldcraft.flows.views.outcome import Ran
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.campaign_file import campaign_on
from fieldcraft.flows.wiring.create import created
from fieldcraft.flows.wiring.physics.networks import EMULATOR
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import OUT, Lease, TrialState, TrialSummary

WAIT_S = 2.0  # between looks at the ledger, while simulations run
PAUSE_S = 30.0  # between passes, at most
PASSES = 500  # in one flow of Prefect's, which keeps what it knows of its tasks in memory
_OPEN = OUT | {TrialState.PROPOSED}  # what somebody else has to act on


def run(page: Page, settings: Settings, listener: Listener, server: Server, break_lease: bool = False) -> Ran:
    """Run the campaign of a file to its end, from its present state in the ledger.

    Args:
        page: The campaign file, as it was read.
        settings: Places of the stores.
        listener: Listener to the run's events.
        server: Prefect server that has not begun.
        break_lease: True to take over from a process that is gone for good.

    Raises:
        InputError: the file is wrong, or differs from the campaign's stored specification.
        identity.Refused: the current user may not run campaigns.
        storage.ledger.LeaseHeld: another process runs the campaign; names it.
        Unfinished: the campaign waits for a person's decision or a laboratory's result.
        FieldcraftError: Prefect's server does not answer, or stopped answering.
    """
    began = time.monotonic()
    with listening(listener):
        campaign = campaign_on(page, settings)
        ledger = open_ledger(settings.ledger, create=True)
        known = created(ledger, campaign, page.path)
        if known is not None:
            deliver(settings, ledger, campaign.name)
            return Ran(campaign.name, known, False, time.monotonic() - began)
        with held(ledger, campaign.name, break_lease=break_lease) as lease:
            server.begin()
            with BackgroundExport(settings, campaign.name) as export:
                reason = _passes(campaign, ledger, lease, server)
            tell("exported", problem=export.problem)
    return Ran(campaign.name, reason, True, time.monotonic() - began)


def _passes(campaign: Campaign, ledger: Ledger, lease: Lease, server: Server) -> str:
    with span("prefect"):
        from fieldcraft.flows.campaign import flow_runs_of, in_one_flow, through_prefect

        server.ready()
    as_usual()
    ref = Ref(str(campaign.settings.home), campaign.name, lease.model_dump())

    def some() -> Passed:
        for _ in range(PASSES):
            passed = make_pass(ref, through_prefect)
            if passed.decision.finished or (passed.decision.wait in ("person", "laboratory") and not passed.approved):
                break
            if passed.sent or (passed.decision.wait and not passed.approved):
                with span("waiting"):
                    pause(campaign, ledger, passed)
        return passed

    own = flow_runs_of(ledger.campaign(campaign.name))
    with server.answering(), without_heartbeats(), one_client(), own:
        while True:
            with span("prefect"):
                passed = in_one_flow(campaign.name, some)
            if passed.decision.finished:
                return passed.decision.finished
            if passed.decision.wait in ("person", "laboratory") and not passed.approved:
                raise awaited(campaign, ledger)


def pause(campaign: Campaign, ledger: Ledger, passed: Passed) -> None:
    """Return when there may be something to do after a pass: nothing that is empty is worth another one.

    That is when a simulation has ended, a model is ready, a retry is due, or anybody else has changed the campaign
    since the pass began; at the latest after 30 s, or a third of ``dispatcher.lease_s``, by when news are due.
    """
    decision = passed.decision
    if decision.wait == "training":
        _await_model(ledger, campaign.name, decision.iteration)
        return
    left = min(PAUSE_S, campaign.spec.dispatcher.lease_s / 3)
    if decision.due is not None:
        left = min(left, max(0.0, decision.due - time.time()))
    running = ledger.trials(campaign.name, states={TrialState.RUNNING})
    handles = [trial.handle for trial in running if trial.handle and not campaign.dispatcher.by_people]
    if not handles and decision.wait != "retry":
        left = min(left, WAIT_S if decision.wait else 0.0)
    deadline = time.monotonic() + left
    while (left := deadline - time.monotonic()) > 0 and not _changed(ledger, passed):
        look = time.monotonic() + min(WAIT_S, left)
        if handles:
            campaign.dispatcher.wait(handles, min(WAIT_S, left))
            if time.monotonic() < look:  # one has ended
                return
        else:
            time.sleep(min(WAIT_S, left))


def _changed(ledger: Ledger, passed: Passed) -> bool:
    """True if anybody but the passes themselves has changed the campaign since the pass began."""
    events = ledger.history(passed.name, after=passed.seen)
    others = (event for event in events if event.by != ACTOR and not event.by.startswith(AUTOMATIC))
    return any(event.action != "note" for event in others)  # a note is of a product, by whoever made it


def _await_model(ledger: Ledger, name: str, iteration: int) -> None:
    deadline = time.monotonic() + PAUSE_S
    while time.monotonic() < deadline and not _stored(ledger, name, iteration):
        time.sleep(WAIT_S)


def _stored(ledger: Ledger, name: str, iteration: int) -> bool:
    """True if an iteration has its model; the network of an emulator is that of the first, which has no other."""
    steps: tuple[Literal["train", "emulate"], ...] = ("train", "emulate") if iteration == EMULATOR else ("train",)
    return any(ledger.product(name, iteration, step) is not None for step in steps)


def awaited(campaign: Campaign, ledger: Ledger) -> Unfinished:
    """The actions of a person or a laboratory that the campaign waits for, with their commands."""
    trials = ledger.trials(campaign.name, _OPEN)
    state = {wanted: [t for t in trials if t.state is wanted] for wanted in TrialState}
    waits = []
    if undecided := state[TrialState.PROPOSED]:
        proposals = counted(len(undecided), "proposal")
        waits.append(f"{proposals} to decide on: 'fieldcraft queue {campaign.name}' shows what waits")
    for trial in state[TrialState.HELD]:
        why = next(e.reason for e in reversed(ledger.history(campaign.name, trial.id)) if e.enters(TrialState.HELD))
        waits.append(
            f"{trial.id} is held ({why}): 'fieldcraft record', 'retry' or 'abandon' {trial.id} says what became of it"
        )
    if campaign.dispatcher.by_people and (out := state[TrialState.STAGED] + state[TrialState.RUNNING]):
        orders = campaign.dispatcher.place.orders
        given = counted(len(out), "work order")
        waits.append(f"{given} with the laboratory: {orders}; 'fieldcraft record' takes results")
    known = () if waits else ledger.summaries(campaign.name)
    if not waits and (reason := nothing_to_learn_from(campaign, known)) is not None:
        all_failed = fruitless(ledger, campaign.name, known)
        told = f"{reason.removeprefix('failure: n')}{f' ({all_failed})' if all_failed else ''}"
        waits.append(f"N{told}; {_mending(mendable(known))}")
    return Unfinished(campaign.name, waits)


def _mending(trials: Sequence[TrialSummary]) -> str:
    """The commands that give trials without a result one."""
    retracted = [trial.id for trial in trials if trial.state is TrialState.COMPLETED]
    failed = [trial.id for trial in trials if trial.state is TrialState.FAILED]
    ways = [f"'fieldcraft correct' gives a retracted one its result ({', '.join(retracted)})"] if retracted else []
    if failed:
        ways.append(f"'fieldcraft retry' or 'abandon' decides on what failed ({', '.join(failed)})")
    return "; ".join(ways)
