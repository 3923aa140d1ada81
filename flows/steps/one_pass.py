"""The pass as a plain function: harvest, dispatch, decide, collocate, train, acquire, approve.

Running it again is always safe. ``flows.campaign`` makes the same pass as a Prefect flow, one task a step.
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
from fieldcraft.flows.steps.remote_training import Awaited
from fieldcraft.flows.wiring.context import site_of
from fieldcraft.storage.open_ledger import open_ledger

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Ref:
    """All that a step is given: where the stores are, which campaign, under which lease."""

    home: str
    name: str
    lease: Mapping[str, Any]


@dataclass(frozen=True)
class Passed:
    """What a pass did.

    Args:
        harvested: Trials settled.
        sent: Trials sent.
        proposed: Trials proposed.
        approved: Trials approved by policy.
        decision: What it decided.
    """

    harvested: int
    sent: int
    proposed: int
    approved: int
    decision: Decision


def harvest_step(ref: Mapping[str, Any]) -> int:
    """Step 1: poll, fetch, evaluate, record."""
    return harvest.harvest(site_of(**ref))


def dispatch_step(ref: Mapping[str, Any]) -> int:
    """Step 2: reconcile, retry, send."""
    return dispatch.dispatch(site_of(**ref))


def decide_step(ref: Mapping[str, Any]) -> dict[str, Any]:
    """Step 3: propose, wait or end."""
    return asdict(decide.decide(site_of(**ref)))


def collocate_step(ref: Mapping[str, Any], iteration: int) -> str | None:
    """Step 4: store the PDE points of the iteration; returns their digest."""
    product = collocate.collocate(site_of(**ref), iteration)
    return product.digest if product else None


def train_step(ref: Mapping[str, Any], iteration: int, last: bool = False) -> bool:
    """Step 5: store the model of the iteration; False where it is being trained elsewhere, for a later pass."""
    learn = train.train_last if last else train.train
    with _explained("train", iteration):
        return not isinstance(learn(site_of(**ref), iteration), Awaited)


def acquire_step(ref: Mapping[str, Any], iteration: int, q: int, model: bool) -> int:
    """Step 6: propose designs, from the model or from the start's sequence; returns how many."""
    propose = acquire.acquire if model else acquire.begin
    with _explained("acquire", iteration):
        return len(propose(site_of(**ref), iteration, q))


def approve_step(ref: Mapping[str, Any]) -> int:
    """Step 7: approve by policy; returns how many."""
    return len(approve.approve(site_of(**ref)))


@contextmanager
def _explained(step: str, iteration: int) -> Iterator[None]:
    """A model's complaint about its data or options, as the one clear error of the step it stopped."""
    try:
        yield
    except ValueError as error:
        raise FieldcraftError(
            f"iteration {iteration}: {step}: {error} Nothing is lost: mend that and run again."
        ) from error


class Caller(Protocol):
    """Calls a step: directly, or as a Prefect task."""

    def __call__(self, step: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The step's result."""
        ...


def directly(step: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a step as the plain function it is."""
    return measured(step)(*args, **kwargs)


def make_pass(ref: Ref, call: Caller = directly) -> Passed:
    """One pass over a campaign, under a lease that the caller holds; what needs a person is told however it ends."""
    settings = settings_from(home=Path(ref.home))
    ledger = open_ledger(settings.ledger)
    try:
        passed = _steps(asdict(ref), call)
        settled(passed.harvested)
        return passed
    finally:
        with span("notices"):
            deliver(settings, ledger, ref.name)


def _steps(at: Mapping[str, Any], call: Caller) -> Passed:
    harvested, sent = call(harvest_step, at), call(dispatch_step, at)
    decision = Decision(**call(decide_step, at))
    proposed = approved = 0
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
    return Passed(harvested, sent, proposed, approved, decision)
