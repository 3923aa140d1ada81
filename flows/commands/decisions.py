"""Commands for decisions of people: queue, approve, reject, edit, predict, prioritise; and token, for others."""

import argparse
import json
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from fieldcraft.flows.commands.shared import Add, campaign_of, open_ledger, real, show, whole
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.text import quoted

if TYPE_CHECKING:
    from fieldcraft.flows.rules.trial_labels import Choice
    from fieldcraft.storage.ledger import Ledger
    from fieldcraft.storage.records import Trial, TrialState

_BATCH = "NAME:ITERATION"

TITLE = "To decide on designs"


def add(command: Add) -> None:
    """Register the commands."""
    command(
        "queue",
        _queue,
        "what waits: for a decision, to be sent, for a person, for a retry",
        example="fieldcraft queue heat",
    ).add_argument("name", nargs="?")
    approve = command(
        "approve",
        _approve,
        "approve proposals, each bound to exactly what would run",
        example="fieldcraft approve heat-0007 heat-0008",
    )
    _trials(approve)
    approve.add_argument("--comment", default="", help="what to write beside it")
    approve.add_argument(
        "--attempts", type=whole(1, 1000), help="how often each may be sent (default: the campaign file's)"
    )
    reject = command(
        "reject",
        _reject,
        "reject trials that were not sent yet",
        example="fieldcraft reject heat-0007 --reason 'too hot'",
    )
    _trials(reject)
    reject.add_argument("--reason", required=True, help="why")
    edit = command(
        "edit",
        _edit,
        "change a trial that was not sent yet; it is then approved afresh",
        example="fieldcraft edit heat-0007 x=6.2 --reason 'off the rim'",
    )
    edit.add_argument("trial", metavar="TRIAL")
    edit.add_argument("values", nargs="+", metavar="VAR=VALUE", help="in the variable's unit; the others stay")
    edit.add_argument("--reason", default="", help="why")
    predict = command(
        "predict",
        _predict,
        "what the model predicts of a trial's design, as it is or as you would edit it",
        example="fieldcraft predict heat-0007 x=6.2",
    )
    predict.add_argument("trial", metavar="TRIAL")
    predict.add_argument("values", nargs="*", metavar="VAR=VALUE", help="in the variable's unit; the others stay")
    prioritise = command("prioritise", _prioritise, "send a trial earlier (greater) or later than others")
    prioritise.add_argument("trial", metavar="TRIAL")
    prioritise.add_argument("priority", type=whole(-1_000_000, 1_000_000), metavar="N", help="0 at first")
    prioritise.add_argument("--reason", default="", help="why")
    pick = command(
        "pick",
        _pick,
        "pick a design from the front of several objectives, with the reason",
        example="fieldcraft pick branin-currin --knee --why 'little is gained beyond it'",
    )
    pick.add_argument("name", metavar="NAME")
    pick.add_argument("trial", nargs="?", metavar="TRIAL", help="a trial of the front")
    pick.add_argument("--knee", action="store_true", help="the design where the front bends most, instead")
    pick.add_argument("--weights", metavar="OUTPUT=W,...", help="the best by weights >= 0 of all objectives, instead")
    pick.add_argument("--why", required=True, help="the reason")
    token = command("token", _token, "make a token for a person: shown once, its digest goes into FIELDCRAFT_PEOPLE")
    token.add_argument("name", metavar="NAME")
    token.add_argument("--role", required=True, choices=("viewer", "approver", "operator"))
    token.add_argument("--cost-limit", type=real(0, 1e15), help="most that one decision of an approver may cost")


def _trials(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trials", nargs="*", metavar="TRIAL", help="id, or id@revision-digest as 'queue' shows it")
    parser.add_argument("--batch", metavar=_BATCH, help="all trials of an iteration instead")
    parser.add_argument("--digest", action="append", help="what was seen of each TRIAL, in their order (queue --json)")


def _queue(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.views.pending import queue_of

    ledger = open_ledger(settings.ledger)
    chosen = [campaign_of(ledger, options.name)] if options.name else list(ledger.campaigns())
    data, text = queue_of(ledger, chosen)
    show(options.json, data, text)
    return 0


def _approve(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.people import decisions
    from fieldcraft.storage.records import TrialState

    person, ledger = acting(settings, "decide"), open_ledger(settings.ledger)
    choices = _choices(ledger, options, {TrialState.PROPOSED})
    done = decisions.approve(ledger, settings, person, choices, options.comment, options.attempts)
    _tell(options, "approved", done)
    return 0


def _reject(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.people import decisions
    from fieldcraft.storage.records import TrialState

    person, ledger = acting(settings, "decide"), open_ledger(settings.ledger)
    choices = _choices(ledger, options, {TrialState.PROPOSED, TrialState.APPROVED})
    _tell(options, "rejected", decisions.reject(ledger, person, choices, options.reason))
    return 0


def _edit(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.people import decisions
    from fieldcraft.flows.rules.approval_policy import automatic
    from fieldcraft.flows.rules.trial_labels import Choice
    from fieldcraft.flows.spec.campaign_file import stored
    from fieldcraft.flows.views.data import design_text

    person, ledger = acting(settings, "decide"), open_ledger(settings.ledger)
    choice = Choice.of(options.trial)
    before, after = decisions.edit(ledger, settings, person, choice, _values(options.values), options.reason)
    campaign = ledger.campaign(after.campaign)
    policy = stored(campaign.spec, f"campaign {campaign.name}").approval
    at_once = after.id in automatic(policy, ledger.summaries(campaign.name))
    needs = f"which the policy {policy.policy} approves in the next pass" if at_once else "which needs an approval"
    data = {"before": before.model_dump(mode="json"), "after": after.model_dump(mode="json"), "by_policy": at_once}
    show(
        options.json,
        data,
        lambda: (
            f"{after.id}: revision {after.revision}, {needs}\n"
            f"  was  {design_text(campaign, before.design)} (cost {before.cost:g})\n"
            f"  now  {design_text(campaign, after.design)} (cost {after.cost:g})"
        ),
    )
    return 0


def _predict(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.predictions.of_trial import Models, foreseen
    from fieldcraft.flows.rules.trial_labels import Choice
    from fieldcraft.flows.views.data import design_text
    from fieldcraft.flows.wiring.context import site_of

    ledger = open_ledger(settings.ledger)
    trial = ledger.trial(Choice.of(options.trial).trial)
    site = site_of(str(settings.home), trial.campaign, None)
    found = foreseen(site, trial, _values(options.values), Models())
    campaign = ledger.campaign(trial.campaign)
    show(options.json, found.data(), lambda: f"{trial.id}: {design_text(campaign, found.design)}\n  {found.text}")
    return 0


def _prioritise(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.people import decisions

    person, ledger = acting(settings, "decide"), open_ledger(settings.ledger)
    trial = decisions.prioritise(ledger, person, options.trial, options.priority, options.reason)
    show(options.json, trial.model_dump(mode="json"), lambda: f"{trial.id}: priority {trial.priority}")
    return 0


def _pick(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.analysis.picks import picked_data, picked_text
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.people.picks import Wanted, pick
    from fieldcraft.flows.rules.trial_labels import Choice

    person, ledger = acting(settings, "decide"), open_ledger(settings.ledger)
    campaign = campaign_of(ledger, options.name)
    chosen = None if options.trial is None else Choice.of(options.trial)
    wanted = Wanted(chosen, options.knee, None if options.weights is None else _weights(options.weights))
    pick(ledger, person, campaign.name, wanted, options.why)
    data = picked_data(ledger.picked(campaign.name), campaign, ledger.summaries(campaign.name))
    show(options.json, data, lambda: f"picked {picked_text(data or {})}")
    return 0


def _weights(given: str) -> dict[str, float]:
    from fieldcraft.flows.spec.base import is_number

    found: dict[str, float] = {}
    for word in given.split(","):
        name, equals, weight = (part.strip() for part in word.partition("="))
        if not (name and equals and is_number(weight)):
            raise InputError(f"{quoted(word)} is no OUTPUT=WEIGHT: write cost=2,mass=1. Nothing was recorded.")
        if name in found:
            raise InputError(f"The weight of {quoted(name)} is given twice: give each once. Nothing was recorded.")
        found[name] = float(weight)
    return found


def _token(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import fresh_token, token_entry

    token = fresh_token()
    entry = token_entry(options.name, options.role, options.cost_limit, token)
    line = f"  - {json.dumps(entry, ensure_ascii=False)}"  # which is YAML too, and quotes what could be read otherwise
    place = settings.people or "the file that FIELDCRAFT_PEOPLE names"
    show(
        options.json,
        {"token": token, "entry": entry, "line": line},
        lambda: f"{token}\nThis is shown once: hand it over safely. Under 'tokens:' in {place} add\n{line}",
    )
    return 0


def _choices(ledger: "Ledger", options: argparse.Namespace, states: "Collection[TrialState]") -> list["Choice"]:
    from fieldcraft.flows.people.decisions import batch
    from fieldcraft.flows.rules.trial_labels import Choice

    words, digests = options.trials, options.digest or []
    if (options.batch is None) == (not words):
        raise InputError("Name the trials, or a whole iteration with --batch NAME:ITERATION: one of the two.")
    if options.batch is not None and not digests:
        return batch(ledger, options.batch, states)
    if digests and len(digests) != len(words):
        raise InputError(f"{len(digests)} digests for {len(words)} trials: give one --digest for each, in their order.")
    named = [f"{word}@{digest}" for word, digest in zip(words, digests, strict=True)] if digests else words
    return [Choice.of(word) for word in named]


def _values(words: Sequence[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    for word, (name, found, _) in zip(words, pairs, strict=True):
        if not found or not name:
            raise InputError(f"{quoted(word)} is no VAR=VALUE: write x=6.2. Nothing was changed.")
    values = {name.strip(): value.strip() for name, _, value in pairs}
    if len(values) < len(pairs):
        raise InputError("A variable is given twice: give each once. Nothing was changed.")
    return values


def _tell(options: argparse.Namespace, what: str, trials: "Sequence[Trial]") -> None:
    show(
        options.json,
        [trial.model_dump(mode="json") for trial in trials],
        lambda: "\n".join(f"{trial.id}: {what}" for trial in trials),
    )
