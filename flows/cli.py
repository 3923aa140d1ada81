"""The command ``fieldcraft``. Every command takes ``--json``; an error is one line and exits with 2."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from flows.display import Display, complain
from flows.errors import FieldcraftError, InputError
from flows.plugins import suggestion
from flows.settings import Settings, settings_from
from storage.ledger import Ledger, LedgerError, open_ledger
from storage.staging import FieldError
from storage.tracking import TrackingError

Command = Callable[[argparse.Namespace, Settings], int]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise InputError(f"{message}. '{self.prog} --help' lists what there is.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 when all is well; 1 when ``doctor`` found something; 2 on an error; 130 when interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in words
    try:
        options = _parser().parse_args(words)
        command: Command = options.command
        return command(options, settings_from(home=options.home))
    except (FieldcraftError, LedgerError, FieldError, TrackingError) as error:
        complain(str(error), as_json)
        return 2
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        complain(f"{place}{error.strerror or error}. Nothing that was recorded is lost; mend that and go on.", as_json)
        return 2
    except KeyboardInterrupt:
        complain("interrupted; nothing is lost. The same command goes on from here.", as_json)
        return 130


def _parser() -> argparse.ArgumentParser:
    shared = _Parser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print JSON")
    shared.add_argument(
        "--home", type=Path, default=None, help="folder of the stores (default: FIELDCRAFT_HOME or runs)"
    )
    parser = _Parser(
        prog="fieldcraft", description="Design campaigns: propose, approve, simulate, learn, propose again."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    def add(name: str, command: Command, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, parents=[shared], help=text, description=text)
        made.set_defaults(command=command)
        return made

    add("check", _check, "validate a campaign file and print all it says").add_argument("file", type=Path)
    run = add("run", _run, "run a campaign to its end, or go on with it")
    run.add_argument("file", type=Path)
    run.add_argument("--break-lease", action="store_true", help="take over from a machine that is gone for good")
    add("iterate", _iterate, "make one pass over a campaign").add_argument("name")
    add("status", _status, "where campaigns stand").add_argument("name", nargs="?")
    add("show", _show, "a trial with its history").add_argument("trial")
    add("trace", _trace, "a trial's lineage: model, data, collocation, seed, code, run, field").add_argument("trial")
    plot = add("plot", _plot, "draw the field, the trials and the best point")
    plot.add_argument("name")
    plot.add_argument("file", type=Path, help="picture to write (.png, .svg, .pdf)")
    export = add("export", _export, "copy a campaign out: --csv FILE, --fields DIR, or to MLflow")
    export.add_argument("name", help="campaign, or the word mlflow to bring MLflow up to date")
    export.add_argument("--csv", type=Path, help="one row per trial")
    export.add_argument("--fields", type=Path, help="one zarr group of all fields, along trial")
    add("doctor", _doctor, "look for damage and leftovers; reads only")
    return parser


def _print(as_json: bool, data: object, text: Callable[[], str]) -> None:
    print(json.dumps(data) if as_json else text())


def _check(options: argparse.Namespace, settings: Settings) -> int:
    from flows.spec import read_campaign
    from flows.wiring import wire

    campaign = wire(read_campaign(options.file), settings)
    data = {"campaign": campaign.name, "digest": campaign.digest, "spec": campaign.data}

    def text() -> str:
        import yaml

        plain = yaml.safe_dump(campaign.data, sort_keys=False)
        return f"{plain}\n{options.file}: valid: {campaign.spec.algorithm.sentence}, digest {campaign.digest[:12]}"

    _print(options.json, data, text)
    return 0


def _run(options: argparse.Namespace, settings: Settings) -> int:
    from flows.running import run
    from flows.summary import summary_data, summary_text

    display = Display(lambda: open_ledger(settings.ledger), options.json)
    ran = run(options.file, settings, display, options.break_lease)
    data = summary_data(ran, settings)
    _print(options.json, {"event": "summary", **data}, lambda: summary_text(data, options.file))
    return 0


def _iterate(options: argparse.Namespace, settings: Settings) -> int:
    from flows.prefect_server import Server, without_heartbeats
    from flows.progress import listening

    _campaign(open_ledger(settings.ledger), options.name)
    with closing(Server(settings.home / "prefect")) as server:
        server.begin()
        from flows.campaign import iterate

        server.ready()
        with without_heartbeats(), listening(Display(lambda: open_ledger(settings.ledger), options.json)):
            passed = iterate(options.name, str(settings.home))
    decision = passed["decision"]
    outcome = decision["finished"] or (f"waits for {decision['wait']}" if decision["wait"] else "proposed")
    _print(options.json, {"event": "passed", **passed}, lambda: f"{options.name}: {outcome}")
    return 0


def _status(options: argparse.Namespace, settings: Settings) -> int:
    from flows.views import status_data, status_text

    ledger = open_ledger(settings.ledger)
    chosen = [_campaign(ledger, options.name)] if options.name else list(ledger.campaigns())
    _print(
        options.json,
        [status_data(ledger, campaign) for campaign in chosen],
        lambda: "\n".join(status_text(ledger, campaign) for campaign in chosen) or "No campaign yet.",
    )
    return 0


def _campaign(ledger: Ledger, name: str) -> Any:
    known = {campaign.name: campaign for campaign in ledger.campaigns()}
    if name not in known:
        raise InputError(
            f"No campaign {name!r} here.{suggestion(name, known)} Known: {', '.join(known) or 'none'}. "
            "--home names another folder."
        )
    return known[name]


def _show(options: argparse.Namespace, settings: Settings) -> int:
    from flows.views import show_data, show_text

    ledger = open_ledger(settings.ledger)
    trial = ledger.trial(options.trial)
    _print(options.json, show_data(ledger, trial), lambda: show_text(ledger, trial))
    return 0


def _trace(options: argparse.Namespace, settings: Settings) -> int:
    from flows.views import trace_data, trace_text
    from storage.fields import FieldStore

    ledger, fields = open_ledger(settings.ledger), FieldStore(settings.fields)
    trial = ledger.trial(options.trial)
    model = ledger.product(trial.campaign, trial.origin.model.iteration, "train") if trial.origin.model else None
    data = trace_data(
        ledger,
        trial,
        str(fields.path(trial.field)) if trial.field else None,
        str(fields.path(model.reference)) if model and model.reference else None,
    )
    _print(options.json, data, lambda: trace_text(data))
    return 0


def _plot(options: argparse.Namespace, settings: Settings) -> int:
    from flows.picture import draw

    ledger = open_ledger(settings.ledger)
    draw(settings, ledger, _campaign(ledger, options.name), options.file)
    _print(options.json, {"file": str(options.file)}, lambda: f"{options.file}")
    return 0


def _export(options: argparse.Namespace, settings: Settings) -> int:
    from flows.exporting import export_csv, export_fields, export_mlflow
    from storage.fields import FieldStore

    ledger, done = open_ledger(settings.ledger), {}
    if options.name == "mlflow":
        done["mlflow"] = export_mlflow(settings, None)
    elif options.csv is None and options.fields is None:
        raise InputError("export needs --csv FILE or --fields DIR, or the word mlflow instead of a campaign.")
    else:
        name = _campaign(ledger, options.name).name
        if options.csv is not None:
            done["csv"] = export_csv(ledger, name, options.csv)
        if options.fields is not None:
            done["fields"] = export_fields(ledger, FieldStore(settings.fields), name, options.fields)
    told = {
        "mlflow": "events shown in MLflow",
        "csv": f"trials in {options.csv}",
        "fields": f"fields in {options.fields}",
    }
    _print(options.json, done, lambda: "\n".join(f"{count} {told[what]}" for what, count in done.items()))
    return 0


def _doctor(options: argparse.Namespace, settings: Settings) -> int:
    from flows.doctor import examine

    findings = examine(settings)
    _print(
        options.json,
        [{"kind": finding.kind, "text": finding.text} for finding in findings],
        lambda: "\n".join(f"{finding.kind}: {finding.text}" for finding in findings) or "All is well.",
    )
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
