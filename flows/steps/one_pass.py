"""The pass as a plain function: harvest, dispatch, decide, collocate, train, acquire, approve.

Repeating it is always safe. ``flows.campaign`` makes the same pass as a Prefect flow, one task a step.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.machinery.profiling import measured, settled, span
from fieldcraft.flows.notices.deliver import deliver
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.steps import acquire, approve, collocate, decide, dispatch, harvest, train
from fieldcraft.flows.steps.decide import Decision
from fieldcraft.flows.steps.emulator import network
from fieldcraft.flows.steps.remote_training import Awaited
from fieldcraft.flows.steps.warm.keep import keep
from fieldcraft.flows.wiring.context import opened_once, site_of
from fieldcraft.flows.wiring.physics.networks import EMULATOR
from fieldcraft.storage.open_ledger import open_ledger

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Ref:
    """Arguments of a step: home of the stores, campaign and pass lease."""

    home: str
    name: str
    lease: Mapping[str, Any]


@dataclass(frozen=True)
class Passed:
    """Result of a pass.

    Args:
        name: The campaign.
        harvested: Number of trials settled.
        sent: Number of trials sent.
        proposed: Number of trials proposed.
        approved: Number of trials approved by policy.
        decision: Decision of the pass.
        seen: Id of the latest event when it began.
    """

    name: str
    harvested: int
    sent: int
    proposed: int
    approved: int
    decision: Decision
    seen: int


def harvest_step(ref: Mapping[str, Any]) -> int:
    """Step 1: poll, fetch, evaluate, record."""
    return harvest.harvest(site_of(**ref))


def dispatch_step(ref: Mapping[str, Any]) -> int:
    """Step 2: reconcile, retry, send."""
    return dispatch.dispatch(site_of(**ref))


def decide_step(ref: Mapping[str, Any], asked: int | None = None) -> dict[str, Any]:
    """Step 3: propose, wait or end; ``asked`` as for ``make_pass``."""
    return asdict(decide.decide(site_of(**ref), asked))


def collocate_step(ref: Mapping[str, Any], iteration: int) -> str | None:
    """Step 4: store the PDE points of the iteration. Returns their digest."""
    product = collocate.collocate(site_of(**ref), iteration)
    return product.digest if product else None


def train_step(ref: Mapping[str, Any], iteration: int, last: bool = False) -> bool:
    """Step 5: store the model of the iteration; False if it is being trained remotely, for a later pass."""
    learn = train.train_last if last else train.train
    with _explained("train", iteration):
        return not isinstance(learn(site_of(**ref), iteration), Awaited)


def warm_start_step(ref: Mapping[str, Any]) -> str:
    """Before the first design: keep the results of earlier campaigns. Returns their digest."""
    return keep(site_of(**ref)).digest


def emulator_points_step(ref: Mapping[str, Any]) -> str | None:
    """Step 4 for the network of the campaign's emulator: store its points. Returns their digest."""
    return network.collocate_emulator(site_of(**ref)).digest


def emulator_train_step(ref: Mapping[str, Any]) -> bool:
    """Step 5 for the network of the campaign's emulator; False if it is being trained remotely, for a later pass."""
    with _explained("train the emulator", EMULATOR):
        return not isinstance(network.train_emulator(site_of(**ref)), Awaited)


def acquire_step(ref: Mapping[str, Any], iteration: int, q: int, model: bool) -> int:
    """Step 6: propose designs, from the model or from the initial sequence. Returns their number."""
    propose = acquire.acquire if model else acquire.begin
    with _explained("acquire", iteration):
        return len(propose(site_of(**ref), iteration, q))


def approve_step(ref: Mapping[str, Any]) -> int:
    """Step 7: approve by policy. Returns the number approved."""
    return len(approve.approve(site_of(**ref)))


@contextmanager
def _explained(step: str, iteration: int) -> Iterator[None]:
    """Turn a ValueError of a model or its options into a FieldcraftError that names the step and iteration."""
    try:
        yield
    except ValueError as error:
        raise FieldcraftError(
            f"iteration {iteration}: {step}: {error} Nothing is lost: mend that and run again."
        ) from error


class Caller(Protocol):
    """A function that calls a step: directly, or as a Prefect task."""

    def __call__(self, step: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the step and return its result."""
        ...


def directly(step: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a step as a plain function."""
    return measured(step)(*args, **kwargs)


def make_pass(ref: Ref, call: Caller = directly, asked: int | None = None) -> Passed:
    """Make one pass over a campaign, under a lease that the caller holds; notices are sent however it ends.

    Args:
        ref: The campaign.
        call: Caller of its steps.
        asked: Number of designs to propose beside those that are out; 0 for none, None for the campaign's own batch
            once its turn has come.
    """
    settings = settings_from(home=Path(ref.home))
    ledger = open_ledger(settings.ledger)
    try:
        with opened_once(ledger):
            passed = _steps(asdict(ref), call, ledger.last_event(ref.name), asked)
        settled(passed.harvested)
        return passed
    finally:
        with span("notices"):
            deliver(settings, ledger, ref.name)


def _steps(at: Mapping[str, Any], call: Caller, seen: int, asked: int | None) -> Passed:
    harvested, sent = call(harvest_step, at), call(dispatch_step, at)
    decision = Decision(**call(decide_step, at, asked))
    proposed = approved = 0
    if decision.warm:
        call(warm_start_step, at)
    if decision.emulate:
        call(emulator_points_step, at)
        if not call(emulator_train_step, at):
            awaited = Decision(iteration=EMULATOR, wait="training", emulate=True)
            return Passed(at["name"], harvested, sent, 0, call(approve_step, at), awaited, seen)
    if decision.model:
        call(collocate_step, at, decision.iteration)
        if not call(train_step, at, decision.iteration, decision.last):
            decision = replace(decision, propose=0, last=False, wait="training")
    if decision.last:
        decision = Decision(**call(decide_step, at))
    elif decision.propose:
        proposed = call(acquire_step, at, decision.iteration, decision.propose, decision.model)
    if proposed or decision.wait:
        approved = call(approve_step, at)
    if approved:  # what a policy let through need not wait for the next tick of a schedule
        sent += call(dispatch_step, at)
    return Passed(at["name"], harvested, sent, proposed, approved, decision, seen)
