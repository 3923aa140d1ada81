"""Commands that only read: status, show, trace, doctor; also export, and notices, which can deliver."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fieldcraft.flows.commands.shared import Add, campaign_of, open_ledger, show
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.text import one_line

if TYPE_CHECKING:
    from fieldcraft.storage.ledger import Ledger

_PATIENCE_S = 120.0  # a person who asks for the telling waits longer than a pass does

TITLE = "To look"


def add(command: Add) -> None:
    """Register the commands."""
    command("status", _status, "where campaigns stand", example="fieldcraft status heat").add_argument(
        "name", nargs="?"
    )
    show = command("show", _show, "a trial with its history", example="fieldcraft show heat-0007")
    trace = command(
        "trace",
        _trace,
        "a trial's lineage: model, data, collocation, seed, code, run, field",
        example="fieldcraft trace heat-0007",
    )
    for parser in (show, trace):
        parser.add_argument("trial", metavar="TRIAL", help="id, or the label that 'queue' shows")
    export = command("export", _export, "copy a campaign out: --csv FILE, --fields DIR, or to MLflow")
    export.add_argument("name", help="campaign, or the word mlflow to bring MLflow up to date")
    export.add_argument("--csv", type=Path, help="one row per trial")
    export.add_argument("--fields", type=Path, help="one zarr group of all fields, along trial")
    notices = command("notices", _notices, "what nobody was told of yet")
    notices.add_argument("name", nargs="?")
    notices.add_argument("--deliver", action="store_true", help="tell all of it now, due or not")
    command("doctor", _doctor, "look for damage and leftovers, and list what waits; reads only")


def _status(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.notices.deliver import channels
    from fieldcraft.flows.views.data import status_data
    from fieldcraft.flows.views.text import status_lines

    ledger = open_ledger(settings.ledger)
    chosen = [campaign_of(ledger, options.name)] if options.name else list(ledger.campaigns())
    telling = bool(channels(settings))
    data = [status_data(ledger, campaign) for campaign in chosen]
    lines = (
        status_lines(campaign, one, telling=telling, tracking=settings.mlflow != "off")
        for campaign, one in zip(chosen, data, strict=True)
    )
    show(options.json, data, lambda: "\n".join(lines) or "No campaign yet.")
    return 0


def _show(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.jobs.keys import attempt_key
    from fieldcraft.flows.rules.trial_labels import Choice
    from fieldcraft.flows.views.data import show_data
    from fieldcraft.flows.views.text import show_text

    ledger = open_ledger(settings.ledger)
    trial = ledger.trial(Choice.of(options.trial).trial)
    log = settings.work / trial.campaign / attempt_key(trial) / "log.txt"
    kept = log if log.exists() else None
    data = show_data(ledger, trial) | {"log": kept and str(kept)}
    show(options.json, data, lambda: show_text(ledger, trial, kept))
    return 0


def _trace(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.rules.trial_labels import Choice
    from fieldcraft.flows.views.data import trace_data
    from fieldcraft.flows.views.text import trace_text
    from fieldcraft.storage.fields import fields_at

    ledger, fields = open_ledger(settings.ledger), fields_at(settings.fields)
    trial = ledger.trial(Choice.of(options.trial).trial)
    model = ledger.product(trial.campaign, trial.origin.model.iteration, "train") if trial.origin.model else None
    data = trace_data(
        ledger,
        trial,
        fields.place(trial.field) if trial.field else None,
        fields.place(model.reference) if model and model.reference else None,
    )
    show(options.json, data, lambda: trace_text(data))
    return 0


def _require_store(ledger: "Ledger", settings: Settings) -> None:
    """Accept a store of MLflow on this machine if nothing was shown in it yet or it is still there."""
    from fieldcraft.flows.recovery.doctor import unshown

    if gone := [finding.text for campaign in ledger.campaigns() for finding in unshown(ledger, campaign, settings)]:
        raise InputError(" ".join(gone))


def _export(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.views.export import export_csv, export_fields, export_mlflow
    from fieldcraft.storage.fields import fields_at

    ledger, done = open_ledger(settings.ledger), {}
    damaged: dict[str, str] = {}
    if options.name == "mlflow" and options.csv is None and options.fields is None:
        acting(settings, "operate")
        _require_store(ledger, settings)
        done["mlflow"] = export_mlflow(settings, None)
    elif options.csv is None and options.fields is None:
        raise InputError("export needs --csv FILE or --fields DIR, or the word mlflow instead of a campaign.")
    else:
        name = campaign_of(ledger, options.name).name
        if options.csv is not None:
            done["csv"] = export_csv(ledger, name, options.csv)
        if options.fields is not None:
            done["fields"], damaged = export_fields(ledger, fields_at(settings.fields), name, options.fields)
    told = {
        "mlflow": "events shown in MLflow",
        "csv": f"trials in {options.csv}",
        "fields": f"fields in {options.fields}",
    }
    lines = [f"{count} {told[what]}" for what, count in done.items()]
    lines += [f"Left out, {trial}: {fault}" for trial, fault in damaged.items()]
    show(options.json, done | ({"damaged": damaged} if damaged else {}), lambda: "\n".join(lines))
    return 0


def _notices(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.notices.deliver import current
    from fieldcraft.flows.views.text import notices_text

    ledger = open_ledger(settings.ledger)
    name = campaign_of(ledger, options.name).name if options.name else None
    if options.deliver:
        return _deliver(options, settings, ledger, name)
    waiting = current(ledger, ledger.notices(name, limit=1000))
    show(options.json, [notice.model_dump(mode="json") for notice in waiting], lambda: notices_text(waiting))
    return 0


def _deliver(options: argparse.Namespace, settings: Settings, ledger: "Ledger", name: str | None) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.notices.deliver import channels, tell_all

    acting(settings, "operate")
    if not channels(settings):
        raise InputError(
            "There is nobody to tell: neither FIELDCRAFT_NOTIFY_URL nor FIELDCRAFT_NOTIFY_COMMAND is set. Set one."
        )
    done = tell_all(settings, ledger, ledger.notices(name, limit=1000), _PATIENCE_S)
    problems = [{"notice": number, "problem": problem} for number, problem in done.problems.items()]

    def text() -> str:
        said = [f"{number} could not be told: {one_line(problem)}" for number, problem in done.problems.items()]
        return "\n".join([f"{len(done.told)} told.", *said])

    show(options.json, {"told": list(done.told), "problems": problems}, text)
    return 2 if problems else 0


def _doctor(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.recovery.doctor import examine

    findings = examine(settings)
    show(
        options.json,
        [{"kind": finding.kind, "text": finding.text} for finding in findings],
        lambda: "\n".join(one_line(f"{finding.kind}: {finding.text}") for finding in findings) or "All is well.",
    )
    return 0 if all(finding.harmless for finding in findings) else 1
