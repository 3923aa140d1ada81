"""``fieldcraft repair``: actions that mend the doctor's findings, listed first, done on a person's order, and recorded.

An action is recorded before it begins, under the pass leases of its campaigns, so that every action is on record.
Repeated after a crash, it does the rest. Findings that cannot be mended are listed with what is lost.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fieldcraft.flows.errors import FieldcraftError, InputError
from fieldcraft.flows.identity import Person
from fieldcraft.flows.recovery.doctor import WAITING, Finding, examine
from fieldcraft.flows.recovery.field_references import FieldReference, field_references
from fieldcraft.flows.recovery.reproduce import remade
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.steps.leases import trainer_held
from fieldcraft.flows.wiring.context import site_of
from fieldcraft.flows.wiring.tensors import as_ever_stored
from fieldcraft.storage.backups import Backup
from fieldcraft.storage.failpoints import commit_point
from fieldcraft.storage.field_store.staging import disk, read_manifest
from fieldcraft.storage.fields import FieldDamaged, FieldError, FieldStore, fields_at, save_group
from fieldcraft.storage.ledger import Ledger, LedgerError
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import CampaignRecord, FieldRef, Lease, Product, Result, digest_of

COMMIT_POINTS = ("repair.remove.before", "repair.remove.after")

# Products that can be made again, each after those that it is made from.
_REMADE = {
    "warm_start": "read the earlier results",
    "collocate": "draw the points",
    "emulate": "train the emulator",
    "train": "train the model",
    "acquire": "predict the fields",
}


@dataclass(frozen=True)
class Action:
    """An action that mends a finding.

    Args:
        problem: The problem.
        does: What will be done.
        risk: Its risk.
        kind: Kind of the finding.
        about: The object it changes; names the action.
        campaigns: Campaigns whose histories record it, and whose pass leases it needs.
        act: Performs it; may be repeated.
        forced: True if it takes a pass lease from its holder: it is then done without a lease, and only when chosen by
            its own number.
    """

    problem: str
    does: str
    risk: str
    kind: str
    about: str
    campaigns: tuple[str, ...]
    act: Callable[[], None]
    forced: bool = False

    @property
    def mark(self) -> str:
        """Short digest that identifies the action, independent of its position in the list."""
        return digest_of([self.kind, self.about, self.does])[:6]


@dataclass(frozen=True)
class Beyond:
    """A finding that no action here mends.

    Args:
        problem: The problem.
        advice: What is lost, or who can do something about it.
        lost: True if something is lost, unless a backup has it.
    """

    problem: str
    advice: str
    lost: bool


@dataclass(frozen=True)
class Plan:
    """Actions for the findings that can be mended, in order, and the findings that cannot."""

    actions: tuple[Action, ...]
    beyond: tuple[Beyond, ...]


class NotMended(FieldcraftError):
    """An action was begun and did not mend its finding; its event says why."""


def plan(settings: Settings, backup: Path | None = None) -> Plan:
    """Make the plan of repairs of a home; changes nothing.

    Args:
        settings: Settings of the home.
        backup: Folder of a backup from which damaged fields may be taken.
    """
    ledger = open_ledger(settings.ledger)
    found, actions, beyond = examine(settings), list[Action](), list[Beyond]()
    names = () if any(one.kind == "ledger" for one in found) else tuple(c.name for c in ledger.campaigns())
    source = Backup(backup) if backup else None
    made = source.manifest().made if source else None
    for finding in sorted(found, key=_order):
        mended = _mended(settings, ledger, finding, names, source) if names else None
        if isinstance(mended, Action):
            actions.append(mended)
        else:
            beyond.append(mended or _beyond(finding, made))
    return Plan(tuple({action.mark: action for action in actions}.values()), tuple(beyond))


def _order(finding: Finding) -> tuple[int, str]:
    """Sort key: damaged products before those made from them; otherwise the doctor's order."""
    about = finding.about
    step = about.by.step if isinstance(about, FieldReference) and isinstance(about.by, Product) else ""
    return (list(_REMADE).index(step) if step in _REMADE else len(_REMADE), "")


def _mended(
    settings: Settings, ledger: Ledger, finding: Finding, names: tuple[str, ...], backup: Backup | None
) -> Action | Beyond | None:
    match finding.about:
        case FieldReference() as mention:
            return _field(settings, finding, mention, backup)
        case Lease() as lease:
            return _lease(ledger, finding, lease)
        case Path() as path:
            owners = (path.parent.name,) if finding.kind == "work" else names
            return _folder(finding, path, owners)
        case str() as digest:
            orphan = fields_at(settings.fields).path(FieldRef(digest=digest, size=0))
            if orphan is None:
                return None
            return _folder(finding, orphan, names, lambda: _require_orphan(ledger, digest))
        case CampaignRecord() as campaign:
            return _tracking(ledger, finding, campaign)
        case None:
            return None


def _require_orphan(ledger: Ledger, digest: str) -> None:
    for campaign in ledger.campaigns():
        for mention in field_references(ledger, campaign.name):
            if mention.reference.digest == digest:
                raise NotMended(f"{mention.owner} mentions field {digest} by now: it is no orphan any more, and stays.")


def _folder(
    finding: Finding, path: Path, owners: tuple[str, ...], require: Callable[[], None] = lambda: None
) -> Action:
    risks = {
        "orphan": "the field is gone for good; nothing in the ledger mentions it",
        "staging": "none, unless a process of another machine is writing into this store",
        "work": "none: what it held is in the store",
    }

    def act() -> None:
        require()
        commit_point("repair.remove.before")
        with disk(path):
            shutil.rmtree(path)
        commit_point("repair.remove.after")

    return Action(finding.text, f"delete {path}", risks[finding.kind], finding.kind, str(path), owners, act)


def _lease(ledger: Ledger, finding: Finding, lease: Lease) -> Action:
    def act() -> None:
        ledger.release(ledger.acquire(lease.campaign, break_lease=True, held=lease), done=False)

    return Action(
        finding.text,
        f"take the lease on {lease.campaign} from pid {lease.pid} on host {lease.host}",
        f"if {lease.host} still makes passes, its next write is refused; simulations it started go on there",
        "lease",
        f"{lease.campaign} {lease.token}",
        (lease.campaign,),
        act,
        forced=True,
    )


def _tracking(ledger: Ledger, finding: Finding, campaign: CampaignRecord) -> Action:
    return Action(
        finding.text,
        f"let the next export show all of {campaign.name} again",
        "none: runs that are there already are found by their tags, and nothing is shown twice",
        "tracking",
        campaign.name,
        (campaign.name,),
        lambda: ledger.forget_exports(campaign.name),
    )


def _field(settings: Settings, finding: Finding, mention: FieldReference, backup: Backup | None) -> Action | Beyond:
    """Action for a damaged field: copy it from the job's folder or a backup, or reproduce it."""
    store, reference = fields_at(settings.fields), mention.reference

    def action(does: str, risk: str, act: Callable[[], None]) -> Action:
        return Action(finding.text, does, risk, "field", reference.digest, (mention.campaign,), act)

    unchanged = "none: it is stored only if it has the digest that the ledger recorded"
    if (path := next(_copies(settings, mention, backup), None)) is not None:
        return action(f"copy it from {path}", unchanged, partial(_taken, store, reference, path))
    if isinstance(mention.by, Product) and mention.by.step in _REMADE:
        product = mention.by
        return action(
            f"{_REMADE[product.step]} of iteration {product.iteration} of {mention.campaign} again",
            "none but time: it is stored only if it has the digest that the ledger recorded",
            lambda: _made_again(settings, store, product),
        )
    return _lost(mention, finding)


def _copies(settings: Settings, mention: FieldReference, backup: Backup | None) -> Iterator[Path]:
    """Folders that seem to hold a sound copy of a field."""
    digest = mention.reference.digest
    places = [] if backup is None else [backup.fields.path(mention.reference)]
    if isinstance(mention.by, Result):
        work = settings.work / mention.campaign
        places = [work / f"{mention.by.trial}-{mention.by.attempt}" / "result", *places]
    for place in places:
        try:
            read_manifest(place, digest)
        except FieldDamaged:
            continue
        yield place


def _taken(store: FieldStore, reference: FieldRef, path: Path) -> None:
    store.take(reference, path)
    store.verify(reference)


def _made_again(settings: Settings, store: FieldStore, product: Product) -> None:
    assert product.reference is not None  # it is mentioned
    dataset, digests = remade(site_of(str(settings.home), product.campaign, None), product), []
    with tempfile.TemporaryDirectory() as folder:
        for form, stored in enumerate(as_ever_stored(dataset)):
            made = Path(folder) / str(form)
            save_group(made, stored)
            digests.append(read_manifest(made, None).digest)
            if digests[-1] == product.reference.digest:
                _taken(store, product.reference, made)
                return
    raise NotMended(
        f"{product.step} {product.iteration} of {product.campaign} came out as {digests[0]} here, and the ledger "
        f"recorded {product.reference.digest}: the machine, its threads or its packages are others than then. "
        "Nothing was stored; take it --from a backup."
    )


def _lost(mention: FieldReference, finding: Finding) -> Beyond:
    assert isinstance(mention.by, Result)  # products can be made again
    outputs = ", ".join(f"{name} {value:g}" for name, value in mention.by.outputs.items())
    return Beyond(
        finding.text,
        f"Lost, unless a backup has it (--from BACKUP): the field of {mention.by.trial}. Its outputs stand ({outputs}) "
        "and so does every model that learnt from them; pictures and 'export --fields' go without it.",
        lost=True,
    )


def _beyond(finding: Finding, made: float | None) -> Beyond:
    """Advice on a finding that no action here mends; ``made`` is the time of the named backup, if any."""
    when = f" ({time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(made))})" if made else ""
    advice = {
        "ledger": "Nothing is mended in a ledger in doubt: 'fieldcraft restore BACKUP --home NEW' makes a home of a "
        f"backup{when}; what happened after it is lost from the ledger, and this home stays as it is.",
        "trial": "'fieldcraft run' or 'iterate' makes that pass.",
        "kind": "Put the file back, or name its folder in FIELDCRAFT_PLUGINS.",
        WAITING: "No damage: it waits for what is said there.",
    }
    fallback = (
        "It can be deleted by hand: nothing here deletes in an object store, or where no campaign's history would keep "
        "that."
    )
    return Beyond(finding.text, advice.get(finding.kind, fallback), lost=finding.kind == "ledger")


def chosen(actions: Sequence[Action], words: Sequence[str]) -> list[Action]:
    """The actions with these numbers in the list: ``3``, or ``3@a1b2c3``, which is bound to the action that was listed.

    Raises:
        InputError: there is no such action, or the number now belongs to another.
    """
    found = []
    for word in words:
        number, bound, mark = word.partition("@")
        action = actions[int(number) - 1] if number.isdecimal() and 0 < int(number) <= len(actions) else None
        if action is None or (bound and action.mark != mark):
            raise InputError(
                f"There is no action {word}: 'fieldcraft repair' shows what there is now. Nothing was changed."
            )
        found.append(action)
    return found


def carry_out(settings: Settings, actions: Sequence[Action], person: Person, reason: str) -> Iterator[Action]:
    """Perform these actions, each recorded first; yields each once it is done.

    Raises:
        InputError: no reason is given.
        storage.ledger.LeaseHeld: a process makes passes over a campaign that an action touches, or trains its model;
            the action was not begun.
        NotMended: an action did not mend its finding; those after it were not begun.
    """
    if not reason.strip():
        raise InputError("A repair that nobody can explain later helps nobody: give the --reason. Nothing was changed.")
    ledger = open_ledger(settings.ledger)
    for action in actions:
        with ExitStack() as stack:
            for name in () if action.forced else action.campaigns:
                stack.callback(ledger.release, ledger.acquire(name), False)
                stack.enter_context(trainer_held(ledger, name))
            said: Mapping[str, Any] = {"kind": action.kind, "problem": action.problem, "does": action.does}
            for name in action.campaigns:
                ledger.mend(name, person.name, reason, {**said, "risk": action.risk})
            _done(ledger, action, person, said)
        yield action


def _done(ledger: Ledger, action: Action, person: Person, said: Mapping[str, Any]) -> None:
    """Perform an action, and record the reason if it fails."""
    try:
        action.act()
    except (FieldcraftError, LedgerError, FieldError, ValueError) as error:
        for name in action.campaigns:
            ledger.mend(name, person.name, f"not mended: {error}", said)
        raise error if not isinstance(error, ValueError) else NotMended(f"{action.does}: {error}") from error
