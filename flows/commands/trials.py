"""Commands about trials that failed, are held or run: retry, abandon, cancel."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fieldcraft.flows.commands.shared import Add, open_ledger, show
from fieldcraft.flows.settings import Settings

if TYPE_CHECKING:
    from fieldcraft.storage.ledger import Ledger
    from fieldcraft.storage.records import Trial

TITLE = "When a trial fails, or should stop"


def add(command: Add) -> None:
    """Register the commands."""
    retry = command("retry", _retry, "send failed or held trials again, each under a fresh approval")
    retry.add_argument("trials", metavar="TRIAL", nargs="+")
    retry.add_argument("--comment", default="", help="what to write beside it")
    abandon = command("abandon", _abandon, "give trials up for good, and stop them where they run")
    abandon.add_argument("trials", metavar="TRIAL", nargs="+")
    abandon.add_argument("--reason", required=True, help="why")
    cancel = command("cancel", _cancel, "stop a running trial; 'retry' can send it again")
    cancel.add_argument("trial", metavar="TRIAL")
    cancel.add_argument("--reason", required=True, help="why")


def _retry(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.people import interventions

    person, ledger = acting(settings, "decide"), open_ledger(settings.ledger)
    person.require_cost({trial.id: trial.cost for trial in _named(ledger, options.trials)})  # one decision
    for trial in options.trials:
        sent = interventions.retry(ledger, settings, person, trial, options.comment)
        _tell(options, "sent again by the next pass", sent)
    return 0


def _abandon(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.people import interventions

    person, ledger = acting(settings, "operate"), open_ledger(settings.ledger)
    _named(ledger, options.trials)
    untold = list[str]()
    for trial in options.trials:
        try:
            _tell(options, "abandoned", interventions.abandon(ledger, settings, person, trial, options.reason))
        except interventions.NotStopped as error:  # it is given up, and the others are to be
            untold.append(str(error))
    if untold:
        raise interventions.NotStopped(" ".join(untold))
    return 0


def _cancel(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.people import interventions

    person, ledger = acting(settings, "operate"), open_ledger(settings.ledger)
    _tell(options, "cancelled", interventions.cancel(ledger, settings, person, options.trial, options.reason))
    return 0


def _named(ledger: "Ledger", names: Sequence[str]) -> list["Trial"]:
    """The trials of ids or labels; nothing is done to any of them where one is not there."""
    from fieldcraft.flows.rules.trial_labels import Choice

    return [ledger.trial(Choice.of(name).trial) for name in names]


def _tell(options: argparse.Namespace, what: str, trial: "Trial") -> None:
    show(options.json, trial.model_dump(mode="json"), lambda: f"{trial.id}: {what}")
