"""Copies of a home: ``backup`` while campaigns go on, ``move`` with the original sealed, ``restore`` at another place.

A backup holds the ledger at one instant, and all fields and results of ended jobs that this ledger refers to; these
never change. A job that still runs is not in it. In the restored copy such a job counts as lost: its trial is held for
a person, or repeated if its simulator is idempotent. It is never started a second time without notice.
"""

import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.identity import Person
from fieldcraft.flows.jobs.dispatcher import CannotTell, Running
from fieldcraft.flows.jobs.keys import attempt_key
from fieldcraft.flows.jobs.order_folder import PIN, OrderFolder
from fieldcraft.flows.recovery.field_references import field_references
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.campaign_file import Dispatch
from fieldcraft.flows.steps.leases import held
from fieldcraft.flows.wiring.campaign import dispatcher_of
from fieldcraft.storage.backups import LEDGER, Backup, BackupManifest, copy_moving, copy_tree
from fieldcraft.storage.field_store.staging import copy_file
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import OUT

LAB = "lab/"


@dataclass(frozen=True)
class BackedUp:
    """Result of a backup.

    Args:
        folder: Folder of the backup.
        manifest: Contents of the backup.
        copied: Number of fields that were not there before.
        seconds: Wall time.
    """

    folder: Path
    manifest: BackupManifest
    copied: int
    seconds: float


def back_up(settings: Settings, destination: Path, person: Person, *, sealed: bool = False) -> BackedUp:
    """Copy a home as it is now; campaigns may go on meanwhile.

    Args:
        settings: Settings of the home.
        destination: Folder of the backup; one that holds an earlier backup of the same home is added to.
        person: The person who makes it.
        sealed: True if the home is sealed, so that nothing changes any more: its scratch folders are then copied too.

    Raises:
        InputError: the destination lies in the home, or the home was moved and this is not part of that.
        storage.backups.BackupError: it holds something else, or another process is writing a backup there.
        storage.ledger.LedgerError: the ledger cannot be read.
        storage.fields.FieldError: the disk refused; an earlier backup there is as good as before.
    """
    began, ledger, store = time.monotonic(), open_ledger(settings.ledger), fields_at(settings.fields)
    if destination.resolve().is_relative_to(settings.home):
        raise InputError(
            f"{destination} lies in the home that it would be a copy of. Name a folder outside, elsewhere."
        )
    backup = Backup(destination)
    with backup.writing(ledger.created()) as state, tempfile.TemporaryDirectory() as folder:
        made = time.time()
        # SQLite's file is made on a local disk: the destination may be a network file system.
        with closing(open_ledger(Path(folder) / LEDGER, create=True)) as target:
            ledger.copy_to(target)
        copy_tree(Path(folder), state)
        copy = open_ledger(Path(folder) / LEDGER)
        try:
            if not sealed and (to := copy.sealed()) is not None:
                raise InputError(
                    f"{settings.home} was moved to {to}, and one more copy would let two places go on: restore that "
                    "one, or open this home again with 'fieldcraft move --undo --reason WHY'."
                )
            for name, source in _folders(copy, settings, sealed=sealed):
                if source.is_file():
                    copy_file(source, state / name)
                elif name.startswith(LAB):
                    copy_moving(source, state / name)
                else:  # a job's folder that goes has had its result taken
                    copy_tree(source, state / name)
            needed = {one.reference for campaign in copy.campaigns() for one in field_references(copy, campaign.name)}
            sums, missing, copied = backup.take_fields(store, needed)
        finally:
            copy.close()
        said = {"made": made, "home": str(settings.home), "by": person.name, "ledger_made": ledger.created()}
        manifest = backup.publish(state, sums, missing, sealed=sealed, **said)
    return BackedUp(destination.resolve(), manifest, copied, time.monotonic() - began)


def _folders(ledger: Ledger, settings: Settings, *, sealed: bool) -> Iterator[tuple[str, Path]]:
    """Folders and files beside the stores that belong to a backup, with their names in it."""
    for campaign in ledger.campaigns():
        name, work = campaign.name, settings.work / campaign.name
        orders = OrderFolder(name, (settings.lab or settings.home / "lab") / name, work / PIN)
        if orders.pin.exists() and orders.folder.is_dir() and orders.obstacle() is None:
            yield f"{LAB}{name}", orders.folder
            yield f"work/{name}/{PIN}", orders.pin
        if sealed:
            yield f"work/{name}", work
            continue
        for key in map(attempt_key, ledger.trials(name, states=OUT)):
            if any((work / key / end).exists() for end in ("result", "outcome.json")):
                yield f"work/{name}/{key}", work / key


def move(settings: Settings, destination: Path, person: Person, reason: str) -> BackedUp:
    """Back a home up and seal it: its campaigns go on where the backup is restored, and nowhere else.

    Most data are copied before the seal. A move that was interrupted is finished by the same command.

    Raises:
        InputError: a simulation still runs, or the home was moved to another place.
        storage.ledger.LeaseHeld: a process makes passes.
        storage.fields.FieldError: as ``back_up``; where the ledger is sealed by then, the same command goes on.
    """
    ledger, to = open_ledger(settings.ledger), str(destination.resolve())
    known = ledger.sealed()
    if known is not None:
        _require_same(known, to, Backup(destination))
        return back_up(settings, destination, person, sealed=True)
    with ExitStack() as stack:
        leases = [stack.enter_context(held(ledger, campaign.name)) for campaign in ledger.campaigns()]
        _require_quiet(ledger, settings)
        back_up(settings, destination, person)
        ledger.seal(to, leases, person.name, reason or f"moved to {to}")
        return back_up(settings, destination, person, sealed=True)


def _require_same(known: str, to: str, backup: Backup) -> None:
    if known != to:
        raise InputError(
            f"This home was moved to {known} already. 'fieldcraft move {known}' repeats that; if it never arrived, "
            "'fieldcraft move --undo --reason WHY' opens this one again."
        )
    if (taken := backup.restored()) is not None:
        raise InputError(f"{to} was restored to {taken['home']} on {taken['host']} already: go on there.")


def _require_quiet(ledger: Ledger, settings: Settings) -> None:
    """Accept a home in which no simulation runs."""
    for campaign in ledger.campaigns():
        dispatcher = dispatcher_of(campaign.name, Dispatch.model_validate(campaign.spec["dispatcher"]), settings)
        for trial in ledger.trials(campaign.name, states=OUT):
            try:
                handle = trial.handle or dispatcher.find(attempt_key(trial))
                runs = handle is not None and isinstance(dispatcher.look(handle), Running)
            except CannotTell as error:
                raise InputError(
                    f"{trial.id} cannot be moved, because its dispatcher cannot say whether it runs ({error}). Let it "
                    "answer, or abandon the trial. Nothing was changed."
                ) from None
            if runs and not dispatcher.by_people:
                raise InputError(
                    f"{trial.id} still runs, and its result would be lost on the way: wait for it, or end it with "
                    f"'fieldcraft cancel {trial.id}'. Nothing was changed."
                )


def undo_move(settings: Settings, person: Person, reason: str) -> str:
    """Open a sealed home again. Returns the place it had been moved to.

    Raises:
        InputError: it is not sealed, no reason is given, or its copy was restored and may be in use.
    """
    ledger = open_ledger(settings.ledger)
    to = ledger.sealed()
    if to is None:
        raise InputError(f"{settings.home} was not moved, so there is nothing to undo.")
    if not reason.strip():
        raise InputError("Two places that go on would do experiments twice: give the --reason for going on here.")
    if (taken := Backup(Path(to)).restored()) is not None:
        raise InputError(
            f"{to} was restored to {taken['home']} on {taken['host']}, and both would go on. If that copy is gone for "
            f"good, delete {Path(to) / 'restored.json'} and repeat."
        )
    ledger.unseal(person.name, reason)
    return to


def origin_of(manifest: BackupManifest) -> Mapping[str, Any]:
    """Origin of a backup, as the ledger records it."""
    return {"host": manifest.host, "home": manifest.home, "made": manifest.made, "sealed": manifest.sealed}


def here() -> str:
    """Name of this machine."""
    return socket.gethostname()
