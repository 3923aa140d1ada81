"""Cleanup after earlier attempts: late results are recorded, stray jobs are stopped, scratch files are deleted."""

import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress

from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.jobs.dispatcher import CannotTell, Dispatcher, Finished, Handle, Running, within_pass
from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.wiring.context import EMULATING, TRAINING, Site, unfinished
from fieldcraft.storage.fields import FieldDamaged, FieldError
from fieldcraft.storage.ledger import StaleTrial, UnknownTrial
from fieldcraft.storage.records import OUT, Trial, TrialState

_GIVEN_UP = frozenset(TrialState) - OUT - {TrialState.COMPLETED}
Take = Callable[[Site, Dispatcher, Trial, Handle, int, float], Trial | str]
"""Records the result of an attempt; ``flows.steps.harvest.take``."""


def tidy(site: Site, dispatcher: Dispatcher, take: Take) -> None:
    """Settle all attempts but the present ones of trials that are out.

    A job of such an attempt that still runs is stopped. A result is recorded with its attempt, for the ledger to judge.
    Scratch files of trials with a result are deleted, and so are files that dead processes left staged. Covers the
    folders in the campaign's work folder, and the last attempt of trials that were given up.
    """
    with suppress(FieldError):  # what cannot be deleted does no harm: the next pass tries again
        site.fields.tidy()
    present = {path.name for path in site.work.iterdir()} if site.work.is_dir() else set()
    for trial, attempt in _past(site, present):
        try:
            _settle(site, dispatcher, trial, attempt, take, present=f"{trial.id}-{attempt}" in present)
        except (CannotTell, StaleTrial, FieldcraftError):  # FieldcraftError: a laboratory that could not be told
            continue
    if any(name.startswith(TRAINING) for name in present):
        for name in present & {unfinished(iteration) for iteration in site.ledger.iterations(site.name, "train")}:
            shutil.rmtree(site.work / name, ignore_errors=True)
    if EMULATING in present and site.ledger.iterations(site.name, "emulate"):
        shutil.rmtree(site.work / EMULATING, ignore_errors=True)


def _past(site: Site, present: set[str]) -> Iterator[tuple[Trial, int]]:
    """Attempts that no trial waits for: those with files, and the last one of each trial that was given up."""
    for trial in _concerned(site, present):
        given_up = trial.state in _GIVEN_UP and trial.handle is not None
        for attempt in range(1, trial.attempt + 1):
            if attempt == trial.attempt and trial.state in OUT:
                continue
            if f"{trial.id}-{attempt}" in present or (given_up and attempt == trial.attempt):
                yield trial, attempt


def _concerned(site: Site, present: Collection[str]) -> list[Trial]:
    """Trials that were given up, and those with files, by number."""
    found = {trial.id: trial for trial in site.ledger.trials(site.name, states=_GIVEN_UP)}
    for key in present:
        with suppress(UnknownTrial):
            trial = site.ledger.trial(key.rpartition("-")[0])
            found[trial.id] = trial
    return sorted((t for t in found.values() if t.campaign == site.name), key=lambda trial: trial.number)


def _settle(site: Site, dispatcher: Dispatcher, trial: Trial, attempt: int, take: Take, *, present: bool) -> None:
    key = f"{trial.id}-{attempt}"
    handle = dispatcher.find(key)
    outcome = dispatcher.look(handle) if handle is not None else None
    if handle is not None and isinstance(outcome, Running):
        dispatcher.cancel(handle)
        tell("cancelled", trial=trial, reason=f"attempt {attempt} still ran")
        return
    if handle is not None and isinstance(outcome, Finished):
        kept = _kept(site, dispatcher, trial, handle, attempt, outcome.seconds, take)
    else:
        over = trial.state in (TrialState.COMPLETED, TrialState.ABANDONED)
        kept = over or within_pass(dispatcher)  # of what runs within a pass no late result comes
    if kept and present:
        dispatcher.forget(key)


def _kept(
    site: Site, dispatcher: Dispatcher, trial: Trial, handle: Handle, attempt: int, seconds: float, take: Take
) -> bool:
    """True if the attempt's files are no longer needed, since its result is stored; records it if necessary."""
    source = site.campaign.spec.dispatcher.kind
    if any(result.attempt == attempt and result.source == source for result in site.ledger.results(trial.id)):
        return True
    now = site.ledger.trial(trial.id)  # an earlier attempt of it may have been recorded just now
    try:
        done = take(site, dispatcher, now, handle, attempt, seconds)
    except (FieldDamaged, FieldcraftError) as error:
        done = str(error)
    if isinstance(done, str):  # nothing to record; as long as the trial has no other result, it stays where it is
        return now.state is TrialState.COMPLETED
    tell("late", trial=done, reason=f"a result of attempt {attempt} came late")
    return True
