"""``fieldcraft doctor``: reads everything, changes nothing, and says what is wrong and what mends it."""

from dataclasses import dataclass

from flows.dispatcher import Finished, Lost, Running
from flows.dispatching import attempt_key, attempt_keys
from flows.plugins import load
from flows.settings import Settings
from flows.sites import unfinished
from storage.fields import FieldDamaged, FieldStore
from storage.ledger import Ledger, open_ledger
from storage.records import Campaign, FieldRef, TrialState


@dataclass(frozen=True)
class Finding:
    """Something wrong.

    Args:
        kind: ledger, field, orphan, staging, trial or work.
        text: The value, the problem and the remedy.
    """

    kind: str
    text: str


def examine(settings: Settings) -> list[Finding]:
    """Everything that is wrong with the stores of a home; empty when all is well."""
    ledger, fields = open_ledger(settings.ledger), FieldStore(settings.fields)
    findings = [Finding("ledger", text) for text in ledger.check()]
    used: set[str] = set()
    try:
        for campaign in ledger.campaigns():
            references = _references(ledger, campaign)
            used |= {reference.digest for reference in references.values()}
            findings += _damaged(fields, references)
            findings += _untrue(ledger, campaign)
            findings += _stuck(ledger, campaign, settings)
            findings += _leftover_work(ledger, campaign, settings)
    except (ValueError, KeyError) as error:  # a record is not what it was: no more can be concluded from this ledger
        findings.append(Finding("ledger", f"A record cannot be used: {error!r}. Restore the ledger from a copy."))
        used |= fields.digests()
    if any(ledger.holder(campaign.name) for campaign in ledger.campaigns()):
        used |= fields.digests()  # a pass publishes a field before it mentions it: nothing is an orphan yet
    swept = fields.sweep(used, remove=False)
    findings += [
        Finding("staging", f"{name}: left by a process that died. The next pass removes it.") for name in swept.staging
    ]
    findings += [
        Finding("orphan", f"field {digest}: no trial or model refers to it. It does no harm and may be deleted.")
        for digest in swept.orphans
    ]
    return findings


def _references(ledger: Ledger, campaign: Campaign) -> dict[str, FieldRef]:
    """Every field the ledger mentions, by what mentions it."""
    found = {f"{p.step} {p.iteration} of {p.campaign}": p.reference for p in ledger.products(campaign.name)}
    for trial in ledger.trials(campaign.name):
        for result in ledger.results(trial.id):
            found[f"result {result.id} of {trial.id}"] = result.field
    return {owner: reference for owner, reference in found.items() if reference is not None}


def _damaged(fields: FieldStore, references: dict[str, FieldRef]) -> list[Finding]:
    findings, judged = [], dict[str, str | None]()
    for owner, reference in references.items():
        if reference.digest not in judged:
            try:
                fields.verify(reference)
                judged[reference.digest] = None
            except FieldDamaged as error:
                judged[reference.digest] = str(error)
        if problem := judged[reference.digest]:
            findings.append(Finding("field", f"{owner}: {problem}"))
    return findings


def _untrue(ledger: Ledger, campaign: Campaign) -> list[Finding]:
    """Trials whose model is not what it was when it proposed them."""
    models = {product.iteration: product for product in ledger.products(campaign.name) if product.step == "train"}
    return [
        Finding("ledger", f"{trial.id}: its model's record was altered since. Restore the ledger from a copy.")
        for trial in ledger.trials(campaign.name)
        if (ref := trial.origin.model) and (ref.iteration not in models or models[ref.iteration].digest != ref.digest)
    ]


def _stuck(ledger: Ledger, campaign: Campaign, settings: Settings) -> list[Finding]:
    """Trials that no process is working on, unless one is making passes over the campaign right now."""
    if ledger.holder(campaign.name) is not None:
        return []
    limits = campaign.spec["dispatcher"]
    folder = settings.work / campaign.name
    dispatcher = load("dispatchers", limits["kind"], settings.plugins)(folder, limits["wall_time_s"])
    findings = []
    for trial in ledger.trials(campaign.name, states={TrialState.STAGED, TrialState.RUNNING, TrialState.HELD}):
        if trial.state is TrialState.HELD:
            reason = ledger.history(campaign.name, trial.id)[-1].reason
            findings.append(Finding("trial", f"{trial.id} is held: {reason}."))
            continue
        outcome = dispatcher.look(trial.handle or {"key": attempt_key(trial), "pid": 0, "started": 0.0, "boot": ""})
        if isinstance(outcome, Lost) or (trial.state is TrialState.STAGED and not isinstance(outcome, Running)):
            findings.append(
                Finding("trial", f"{trial.id} is {trial.state} and no process runs it. The next pass settles it.")
            )
        elif isinstance(outcome, Finished):
            findings.append(
                Finding("trial", f"{trial.id} has a result that no pass has taken. The next pass takes it.")
            )
    return findings


def _leftover_work(ledger: Ledger, campaign: Campaign, settings: Settings) -> list[Finding]:
    folder = settings.work / campaign.name
    if not folder.is_dir() or ledger.holder(campaign.name) is not None:
        return []
    trained = {unfinished(p.iteration) for p in ledger.products(campaign.name) if p.step == "train"}
    done = {key for t in ledger.trials(campaign.name, states={TrialState.COMPLETED}) for key in attempt_keys(t)}
    left = sorted(path.name for path in folder.iterdir() if path.name in trained | done)
    return [Finding("work", f"{folder / name}: its result is stored. The next pass removes it.") for name in left]
