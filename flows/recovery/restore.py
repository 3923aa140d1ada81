"""``fieldcraft restore``: a home made from a backup. The ledger is written last, so that it is complete or absent."""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.identity import Person
from fieldcraft.flows.jobs.dispatcher import within_pass
from fieldcraft.flows.jobs.job_folder import read_json, write_json
from fieldcraft.flows.jobs.keys import attempt_key
from fieldcraft.flows.jobs.order_folder import PIN, OrderFolder
from fieldcraft.flows.recovery.backup import here, origin_of
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.registry import load
from fieldcraft.storage.backups import LEDGER, RESTORED, Backup, BackupError, BackupManifest, copy_tree, replace_text
from fieldcraft.storage.failpoints import commit_point
from fieldcraft.storage.field_store.staging import copy_file
from fieldcraft.storage.fields import FieldStore, fields_at
from fieldcraft.storage.ledger import Ledger, NoLedger, NotALedger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import OUT, CampaignRecord, FieldRef, Trial, TrialState

_SCRATCH = ".restoring-"
COMMIT_POINTS = ("restore.fields.after", "restore.files.after", "restore.taken.after")


@dataclass(frozen=True)
class Restored:
    """Result of a restore.

    Args:
        manifest: Manifest of the backup.
        campaigns: Names of the campaigns.
        lost: Trials whose jobs ran when the backup was made: held at the next pass, or repeated.
        aside: Folder to which scratch folders of later jobs were moved, if there were any.
        seconds: Wall time.
    """

    manifest: BackupManifest
    campaigns: tuple[str, ...]
    lost: tuple[str, ...]
    aside: Path | None
    seconds: float


def restore(settings: Settings, folder: Path, person: Person) -> Restored:
    """Make the home of ``settings`` from a backup. If interrupted, the same command finishes it.

    Raises:
        InputError: the home has a ledger or lies in the backup, a laboratory's folder is not the backup's, or a move
            was restored elsewhere.
        storage.backups.BackupError: the backup is not complete; nothing was changed.
        storage.fields.FieldError: the disk refused.
    """
    began, backup = time.monotonic(), Backup(folder)
    if settings.home.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{settings.home} lies in the backup {folder}. Name a --home outside of it.")
    _require_no_ledger(settings)
    manifest = backup.verify()
    _require_not_taken(backup, manifest, settings)
    settings.home.mkdir(parents=True, exist_ok=True)
    for left in settings.home.glob(f"{_SCRATCH}*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=settings.home) as scratch:
        copied = Path(scratch) / LEDGER
        copy_file(backup.file(manifest, LEDGER), copied)
        ledger = open_ledger(copied)
        try:
            _require_laboratories(backup, manifest, ledger, settings)
            _fields(backup, manifest, fields_at(settings.fields))
            aside = _set_aside(ledger, settings)
            lost = tuple(trial.id for trial in _files(backup, manifest, ledger, settings))
            commit_point("restore.files.after")
            _take(backup, manifest, settings, person)
            ledger.take_over(person.name, f"restored from {backup.folder.resolve()}", dict(origin_of(manifest)))
            with closing(open_ledger(settings.ledger, create=True)) as target:
                ledger.copy_to(target)
            names = tuple(campaign.name for campaign in ledger.campaigns())
        finally:
            ledger.close()
    return Restored(manifest, names, lost, aside, time.monotonic() - began)


def _require_no_ledger(settings: Settings) -> None:
    try:
        held = open_ledger(settings.ledger).campaigns()
    except NoLedger:
        return
    except NotALedger as error:
        raise InputError(
            f"{settings.ledger_shown} stands where the ledger goes, and is none that can be read ({error}). Move it "
            "away and restore again. Nothing was changed."
        ) from None
    if held and settings.ledger_url is not None:
        raise InputError(
            f"The ledger {settings.ledger_shown} that FIELDCRAFT_LEDGER names holds {held[0].name!r} already, and it "
            "counts for every home. Unset FIELDCRAFT_LEDGER, or let it name an empty database. Nothing was changed."
        )
    if held:
        raise InputError(
            f"{settings.home} has a ledger already, with {held[0].name!r} in it. Name another --home, or move that "
            "ledger away first, with the files beside it of the same name. Nothing was changed."
        )


def _require_not_taken(backup: Backup, manifest: BackupManifest, settings: Settings) -> None:
    taken = backup.restored() if manifest.sealed else None
    if taken is not None and (taken["host"], taken["home"]) != (here(), str(settings.home)):
        raise InputError(
            f"{backup.folder} was moved to {taken['home']} on {taken['host']} already, and two copies would do "
            f"experiments twice. If that one is gone for good, delete {backup.folder / RESTORED} and repeat."
        )


def _take(backup: Backup, manifest: BackupManifest, settings: Settings, person: Person) -> None:
    """Mark a move as arrived here, before the ledger is written."""
    if not manifest.sealed:
        return
    mark = {"host": here(), "home": str(settings.home), "by": person.name, "at": time.time()}
    try:
        replace_text(backup.folder / RESTORED, json.dumps(mark))
    except OSError as error:
        raise BackupError(
            f"{backup.folder} cannot be marked as restored ({error.strerror}), which keeps a move from arriving twice. "
            "Copy it to a place that you may write, and restore that copy."
        ) from error
    commit_point("restore.taken.after")


def _fields(backup: Backup, manifest: BackupManifest, store: FieldStore) -> None:
    for digest in manifest.fields:
        reference = FieldRef(digest=digest, size=0)
        store.take(reference, backup.fields)
    store.tidy()  # after a restore that was interrupted
    commit_point("restore.fields.after")


def _set_aside(ledger: Ledger, settings: Settings) -> Path | None:
    """Move scratch folders that the ledger does not know aside, because its next jobs will have the same names."""
    aside = settings.home / f"work-before-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    for campaign in ledger.campaigns():
        out = {attempt_key(trial) for trial in ledger.trials(campaign.name, states=OUT)}
        work = settings.work / campaign.name
        for path in work.iterdir() if work.is_dir() else ():
            if path.name not in out | {PIN} and not path.name.startswith("."):
                (aside / campaign.name).mkdir(parents=True, exist_ok=True)
                path.rename(aside / campaign.name / path.name)
    return aside if aside.exists() else None


def _files(backup: Backup, manifest: BackupManifest, ledger: Ledger, settings: Settings) -> Iterator[Trial]:
    """Put scratch folders and orders into place. Yields the trials whose jobs ran and are not in the backup."""
    for campaign in ledger.campaigns():
        work = settings.work / campaign.name
        _orders(backup, manifest, campaign, settings)
        kept = backup.file(manifest, f"work/{campaign.name}")
        for path in sorted(kept.iterdir()) if kept.is_dir() else ():
            if not (work / path.name).exists():
                _place(path, work / path.name)
        if not _has_folders(campaign, settings):
            continue
        for trial in ledger.trials(campaign.name, states=OUT):
            never_sent = manifest.sealed and trial.state is TrialState.STAGED
            if not (work / attempt_key(trial)).exists() and not never_sent:
                _bar(work / attempt_key(trial), manifest)
                yield trial


def _place(path: Path, target: Path) -> None:
    """Copy a file, or a folder atomically."""
    if path.is_file():
        copy_file(path, target)
        return
    draft = target.with_name(f".{target.name}")
    shutil.rmtree(draft, ignore_errors=True)
    copy_tree(path, draft)
    draft.rename(target)


def _orders(backup: Backup, manifest: BackupManifest, campaign: CampaignRecord, settings: Settings) -> None:
    kept, folder = backup.file(manifest, f"lab/{campaign.name}"), _order_folder(campaign, settings).folder
    if not kept.is_dir():
        return
    pin = backup.file(manifest, f"work/{campaign.name}/{PIN}")
    if pin.exists() and not (settings.work / campaign.name / PIN).exists():
        copy_file(pin, settings.work / campaign.name / PIN)
    if not folder.exists():
        _place(kept, folder)


def _order_folder(campaign: CampaignRecord, settings: Settings) -> OrderFolder:
    orders = (settings.lab or settings.home / "lab") / campaign.name
    return OrderFolder(campaign.name, orders, settings.work / campaign.name / PIN)


def _has_folders(campaign: CampaignRecord, settings: Settings) -> bool:
    """True if the campaign's jobs have folders, by which they are found again, or if that is not known."""
    try:
        dispatcher = load("dispatchers", campaign.spec["dispatcher"]["kind"], settings.plugins)
    except InputError:
        return True
    return not dispatcher.by_people and not within_pass(dispatcher)


def _bar(job: Path, manifest: BackupManifest) -> None:
    """Bar a job that ran elsewhere from beginning: its folder says that it has begun and is lost."""
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(manifest.made))
    reason = f"it was out on {manifest.host} when the backup was made ({when}), and its result is not in that"
    job.mkdir(parents=True)
    write_json(job / "outcome.json", {"kind": "lost", "reason": reason})
    started = {"pid": 0, "started": 0.0, "boot": f"of {manifest.host}", "at": manifest.made}
    write_json(job / "started.json", started, once=True)


def _require_laboratories(backup: Backup, manifest: BackupManifest, ledger: Ledger, settings: Settings) -> None:
    """Accept folders of orders that do not exist yet, or that are the backup's and hold no later order."""
    for campaign in ledger.campaigns():
        orders = _order_folder(campaign, settings)
        folder = orders.folder
        kept = backup.file(manifest, f"lab/{campaign.name}")
        if not kept.is_dir() or not folder.exists():
            continue
        if read_json(folder / "campaign.json") != read_json(kept / "campaign.json"):
            raise InputError(f"{folder} is not the folder of orders of this backup. Name another by FIELDCRAFT_LAB.")
        known = {f"{trial.id}-{n}" for trial in ledger.trials(campaign.name) for n in range(1, trial.attempt + 1)}
        later = sorted(path.stem for path in orders.files() if path.stem not in known)
        if later:
            raise InputError(
                f"The laboratory has had the order {later[0]} since this backup was made, and the restored campaign "
                f"would give that name to another: move the files of {', '.join(later)} out of {folder}, tell the "
                "laboratory, and repeat. Nothing was changed."
            )
