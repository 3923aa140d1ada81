"""``fieldcraft doctor``: reads all stores, changes nothing, and reports each problem with its remedy."""

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.jobs.dispatcher import CannotTell, Dispatcher, Failed, Finished, Lost
from fieldcraft.flows.jobs.keys import attempt_key, attempt_keys
from fieldcraft.flows.notices.deliver import current
from fieldcraft.flows.recovery.field_references import FieldReference, field_references
from fieldcraft.flows.rules.unaccounted import begun, lost
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.campaign_file import Dispatch
from fieldcraft.flows.text import counted, one_line
from fieldcraft.flows.wiring.build import recorded
from fieldcraft.flows.wiring.campaign import dispatcher_of
from fieldcraft.flows.wiring.context import EMULATING, unfinished
from fieldcraft.storage.fields import FieldDamaged, FieldStore, fields_at
from fieldcraft.storage.ledger import Ledger, NotALedger, UnreadableRow
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import CampaignRecord, Lease, Trial, TrialState

WAITING = "waiting"  # the kind of finding that is no damage: somebody is expected to do something
RESTORE = "'fieldcraft restore' makes a home of a backup, with the ledger as it was then."


@dataclass(frozen=True)
class Finding:
    """A problem, or something that waits.

    Args:
        kind: ledger, field, orphan, staging, trial, work, tracking or kind; ``WAITING`` where nothing is wrong.
        text: The value, the problem and the remedy.
        about: The object that ``flows.recovery.repair`` can mend: a damaged field, a path, an orphan's digest, a lease,
            or a campaign whose MLflow runs are gone.
    """

    kind: str
    text: str
    about: FieldReference | Path | str | Lease | CampaignRecord | None = None

    @property
    def harmless(self) -> bool:
        """True if the finding is for information only."""
        return self.kind == WAITING


def examine(settings: Settings) -> list[Finding]:
    """All problems of a home's stores, and all that waits in them; empty when there are none."""
    traces = begun(settings)
    ledger, fields = open_ledger(settings.ledger, upgrade=False), fields_at(settings.fields)
    findings = [Finding("ledger", text) for text in (*ledger.check(), *lost(ledger, traces))]
    used, named = set[str](), bool(findings)
    with _doubted(findings, named=named):
        findings += _moved(ledger)
    for campaign in _campaigns(ledger, findings, named=named):
        with _doubted(findings, named=named):
            mentioned = tuple(field_references(ledger, campaign.name))
            used |= {mention.reference.digest for mention in mentioned}
            findings += _damaged(fields, mentioned)
            findings += _untrue(ledger, campaign)
            findings += _other_code(campaign, settings)
            findings += _stuck(ledger, campaign, settings)
            findings += _waiting(ledger, campaign)
            findings += _leftover_work(ledger, campaign, settings)
            findings += _elsewhere(ledger, campaign)
            findings += unshown(ledger, campaign, settings)
            if ledger.holder(campaign.name) or ledger.trainer(campaign.name):
                used |= fields.digests()  # a pass publishes a field before it mentions it: nothing is an orphan yet
    if any(finding.kind == "ledger" for finding in findings):
        used |= fields.digests()  # what a ledger in doubt refers to, nobody can say
    return findings + _swept(fields, used)


@contextmanager
def _doubted(findings: list[Finding], *, named: bool) -> Iterator[None]:
    """Turn errors of the block into findings and go on; a row that the ledger's check has ``named`` is not repeated."""
    try:
        yield
    except (UnreadableRow, NotALedger) as error:
        if not named:
            findings.append(Finding("ledger", str(error)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # JSON of another form
        findings.append(Finding("ledger", f"A record cannot be used: {error!r}. {RESTORE}"))


def _campaigns(ledger: Ledger, findings: list[Finding], *, named: bool) -> tuple[CampaignRecord, ...]:
    with _doubted(findings, named=named):
        return ledger.campaigns()
    return ()


def _swept(fields: FieldStore, used: set[str]) -> list[Finding]:
    """Findings for staged files of dead processes, and for fields that no record refers to."""
    swept = fields.sweep(used, remove=False)
    staging = "left by a process that died. The next pass removes it."
    orphan = "no trial or model refers to it. It does no harm and may be deleted."
    return [
        *(Finding("staging", f"{name}: {staging}", fields.staging(name)) for name in swept.staging),
        *(Finding("orphan", f"field {digest}: {orphan}", digest) for digest in swept.orphans),
    ]


def _moved(ledger: Ledger) -> list[Finding]:
    to = ledger.sealed()
    text = f"The campaigns were moved to {to}, and nothing goes on here. 'fieldcraft move --undo' opens them again."
    return [] if to is None else [Finding(WAITING, text)]


def _damaged(fields: FieldStore, mentioned: Sequence[FieldReference]) -> list[Finding]:
    findings, judged = [], dict[str, str | None]()
    for mention in mentioned:
        reference = mention.reference
        if reference.digest not in judged:
            try:
                fields.verify(reference)
                judged[reference.digest] = None
            except FieldDamaged as error:
                judged[reference.digest] = str(error)
        if problem := judged[reference.digest]:
            findings.append(Finding("field", f"{mention.owner}: {problem}", mention))
    return findings


def _untrue(ledger: Ledger, campaign: CampaignRecord) -> list[Finding]:
    """Findings for trials whose model's record has changed since it proposed them."""
    models = {product.iteration: product for product in ledger.products(campaign.name) if product.step == "train"}
    return [
        Finding("ledger", f"{trial.id}: its model's record was altered since. {RESTORE}")
        for trial in ledger.trials(campaign.name)
        if (ref := trial.origin.model) and (ref.iteration not in models or models[ref.iteration].digest != ref.digest)
    ]


def _other_code(campaign: CampaignRecord, settings: Settings) -> list[Finding]:
    """The finding for a campaign that has not ended, if its problem is gone or no longer the one it was begun with."""
    try:
        if campaign.finished is None:
            recorded(campaign, settings, algorithm=False)
    except InputError as error:
        return [Finding("kind", f"{campaign.name} cannot go on: {error}")]
    return []


def _stuck(ledger: Ledger, campaign: CampaignRecord, settings: Settings) -> list[Finding]:
    """Findings for trials that no process works on; none while a process makes passes over the campaign."""
    if ledger.holder(campaign.name) is not None:
        return []
    try:
        dispatcher = dispatcher_of(campaign.name, Dispatch.model_validate(campaign.spec["dispatcher"]), settings)
    except InputError as error:
        return [Finding("kind", f"{campaign.name} cannot go on: {error}")] if campaign.finished else []
    out = ledger.trials(campaign.name, states={TrialState.STAGED, TrialState.RUNNING})
    return [finding for trial in out if (finding := _judged(dispatcher, trial)) is not None]


def _judged(dispatcher: Dispatcher, trial: Trial) -> Finding | None:
    """The finding for a trial that is out; None if it runs."""
    try:
        handle = trial.handle or dispatcher.find(attempt_key(trial))
        outcome = None if handle is None else dispatcher.look(handle)
    except CannotTell as error:
        return Finding(WAITING, f"{trial.id} is {trial.state} and its dispatcher cannot tell: {error}")
    if outcome is None or isinstance(outcome, Lost):
        return Finding("trial", f"{trial.id} is {trial.state} and no process runs it. The next pass settles it.")
    if isinstance(outcome, Finished):
        return Finding("trial", f"{trial.id} has a result that no pass has taken. The next pass takes it.")
    if isinstance(outcome, Failed):
        return Finding("trial", f"{trial.id} has failed and no pass has written that down. The next pass does.")
    return None


def _waiting(ledger: Ledger, campaign: CampaignRecord) -> Iterator[Finding]:
    """Findings for trials and notices that wait for a person, or for a pass that no process makes."""
    name, now = campaign.name, time.time()
    for trial in ledger.trials(name, states={TrialState.HELD, TrialState.APPROVED}):
        if trial.state is TrialState.HELD:
            reason = one_line(ledger.history(name, trial.id)[-1].reason)
            yield Finding(WAITING, f"{trial.id} is held: {reason}. 'fieldcraft queue {name}' says what can be done.")
        elif any(a.live and a.expires is not None and a.expires <= now for a in ledger.approvals(trial.id)):
            yield Finding(WAITING, f"{trial.id}: its approval has expired. The next pass asks for another.")
    yield from _unheard(ledger, campaign, now)
    if failing := [notice for notice in current(ledger, ledger.notices(name)) if notice.tries]:
        yield Finding(
            WAITING,
            f"{counted(len(failing), 'notice')} of {name} could not be told ({sum(n.tries for n in failing)} tries). "
            f"'fieldcraft notices {name} --deliver' tries again and says why.",
        )


def _unheard(ledger: Ledger, campaign: CampaignRecord, now: float) -> Iterator[Finding]:
    """Running trials that no pass has polled for longer than the heartbeat timeout (``lease_s``)."""
    if ledger.holder(campaign.name) is not None:
        return
    lease = Dispatch.model_validate(campaign.spec["dispatcher"]).lease_s
    running = ledger.trials(campaign.name, states={TrialState.RUNNING})
    overdue = [trial for trial in running if max(trial.updated, trial.heard or 0.0) + lease < now]
    if overdue:
        ids = ", ".join(trial.id for trial in overdue)
        yield Finding(
            WAITING,
            f"{ids}: running, but not heard of for more than {lease:g} s, and nobody makes passes. "
            f"'fieldcraft iterate {campaign.name}' asks.",
        )


def _leftover_work(ledger: Ledger, campaign: CampaignRecord, settings: Settings) -> list[Finding]:
    folder = settings.work / campaign.name
    if not folder.is_dir() or ledger.holder(campaign.name) is not None:
        return []
    products = ledger.products(campaign.name)
    trained = {unfinished(p.iteration) for p in products if p.step == "train"}
    trained |= {EMULATING for p in products if p.step == "emulate"}
    done = {key for t in ledger.trials(campaign.name, states={TrialState.COMPLETED}) for key in attempt_keys(t)}
    left = sorted(path.name for path in folder.iterdir() if path.name in trained | done)
    return [
        Finding("work", f"{path}: its result is stored. The next pass removes it.", path)
        for path in (folder / name for name in left)
    ]


def unshown(ledger: Ledger, campaign: CampaignRecord, settings: Settings) -> Iterator[Finding]:
    """A finding for runs shown in an MLflow store of this machine that is not there."""
    scheme, _, path = settings.mlflow.partition(":///")
    if scheme == "sqlite" and not Path(path).exists() and (shown := ledger.tracked(campaign.name)):
        yield Finding(
            "tracking",
            f"{counted(len(shown), 'run')} of {campaign.name} were shown, and {settings.mlflow} is not there. Was it "
            "elsewhere? Set FIELDCRAFT_MLFLOW to that. If it is gone, 'fieldcraft repair' lets them be shown again.",
            campaign,
        )


def _elsewhere(ledger: Ledger, campaign: CampaignRecord) -> Iterator[Finding]:
    """A finding for a pass lease held on another machine: it cannot be checked here whether its process is alive."""
    lease = ledger.holder(campaign.name)
    if lease is not None and lease.host != socket.gethostname():
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(lease.acquired))
        yield Finding(
            WAITING,
            f"{campaign.name} is being worked on by pid {lease.pid} on host {lease.host}, since {since}. If that "
            "machine is gone for good, 'fieldcraft repair' frees it.",
            lease,
        )
