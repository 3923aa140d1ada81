"""Commands to enter results: record, correct, retract; and import and retarget, for earlier ones."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from fieldcraft.flows.commands.shared import Add, campaign_of, open_ledger, real, show
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.text import counted, quoted

if TYPE_CHECKING:
    from fieldcraft.flows.files.tables import Measurement
    from fieldcraft.flows.results.correct import Corrected
    from fieldcraft.flows.results.inbox import Batch
    from fieldcraft.flows.wiring.context import Site

TITLE = "To enter results"


def add(command: Add) -> None:
    """Register the commands."""
    record = command(
        "record",
        _record,
        "enter a result that people measured, or a table of many",
        example="fieldcraft record glue-0003 --value strength=38.5 --sd strength=0.5",
    )
    record.add_argument("trial", nargs="?", metavar="TRIAL", help="id, or the key of its work order")
    _measured(record)
    record.add_argument("--csv", type=Path, metavar="FILE", help="instead: a table of many (or .json)")
    record.add_argument("--campaign", metavar="NAME", help="whose trials the table names, where it leaves doubt")
    correct = command(
        "correct",
        _correct,
        "replace a result by a right one; the old one is kept",
        example="fieldcraft correct glue-0003 --value strength=39.5 --reason misread",
    )
    correct.add_argument("trial", metavar="TRIAL")
    _measured(correct)
    correct.add_argument("--reason", required=True, help="why")
    retract = command("retract", _retract, "take a result back; it is kept, and no model learns from it any more")
    retract.add_argument("trial", metavar="TRIAL")
    retract.add_argument("--reason", required=True, help="why")
    import_ = command(
        "import",
        _import,
        "warm-start a campaign with measurements from before",
        example="fieldcraft import glue.yaml earlier.csv",
    )
    import_.add_argument("file", type=Path, metavar="FILE.yaml", help="campaign file; created where it is not there")
    told = "a column for each variable and output; a column 'field' names files of fields beside it"
    import_.add_argument("data", type=Path, metavar="DATA.csv", help=told)
    import_.add_argument(
        "--map", action="append", default=[], metavar="COLUMN=NAME", help="a column that bears another name"
    )
    retarget = command("retarget", _retarget, "begin a campaign with the stored fields of another, read anew")
    retarget.add_argument("name", metavar="NAME", help="campaign whose fields are read")
    retarget.add_argument("file", type=Path, metavar="FILE.yaml", help="campaign file with the new target")


def _measured(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--value", action="append", default=[], metavar="NAME=NUMBER", help="an output, in its unit")
    parser.add_argument("--sd", action="append", default=[], metavar="NAME=NUMBER", help="its standard deviation")
    parser.add_argument(
        "--ran", action="append", default=[], metavar="VAR=VALUE", help="what was really run, where it differed"
    )
    parser.add_argument(
        "--field", type=Path, metavar="FILE", help="the field: netCDF, a folder of zarr, or a table of readings (.csv)"
    )
    parser.add_argument("--cost", type=real(0, 1e15), help="of the attempt, in budget units")
    parser.add_argument("--seconds", type=real(0, 1e8), help="wall time of the attempt")
    parser.add_argument("--note", default="", help="remarks")


def _record(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.results.inbox import Batch
    from fieldcraft.flows.results.record import check, record

    by = acting(settings, "operate").name
    if (options.trial is None) == (options.csv is None):
        raise InputError(
            "record takes either TRIAL with --value, or --csv FILE. 'fieldcraft record --help' tells more."
        )
    if options.csv is not None:
        return _record_file(options, settings, by)
    site, measurement = _read(options, settings)
    done = record(site, check(site, measurement), by, "person")
    return _show_batch(options, Batch((done,), ()))


def _record_file(options: argparse.Namespace, settings: Settings, by: str) -> int:
    from fieldcraft.flows.results.inbox import campaign_named, record_file
    from fieldcraft.flows.results.record import site_for

    ledger = open_ledger(settings.ledger)
    name = campaign_of(ledger, options.campaign).name if options.campaign else campaign_named(ledger, options.csv)
    site = site_for(settings, name)
    return _show_batch(options, record_file(site, options.csv, by, f"file {options.csv.name}"))


def _show_batch(options: argparse.Namespace, batch: "Batch") -> int:
    data = {"recorded": [asdict(one) for one in batch.recorded], "waiting": batch.waiting}
    show(options.json, data, lambda: "\n".join(batch.lines))
    return 0


def _read(options: argparse.Namespace, settings: Settings) -> "tuple[Site, Measurement]":
    """The measurement that the options describe, and the site of its trial's campaign."""
    from fieldcraft.flows.results.entered import entered

    return entered(
        settings,
        options.trial,
        _pairs(options.value, "--value"),
        _pairs(options.sd, "--sd"),
        _pairs(options.ran, "--ran"),
        options.field,
        options.note,
        options.cost,
        options.seconds,
    )


def _pairs(given: Sequence[str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in given:
        name, equals, text = word.partition("=")
        if not (equals and name):
            raise InputError(f"{option} {quoted(word)} is not of the form NAME=VALUE.")
        if name in found:
            raise InputError(f"{option} gives {quoted(name)} twice. Give it once.")
        found[name] = text
    return found


def _correct(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.results.correct import correct
    from fieldcraft.flows.results.record import check_correction

    by = acting(settings, "operate").name
    site, measurement = _read(options, settings)
    checked = check_correction(site, measurement)
    return _show_corrected(options, site, correct(site, checked, by, options.reason), checked.warnings)


def _retract(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.results.correct import retract
    from fieldcraft.flows.results.record import known_trial, site_for

    by = acting(settings, "operate").name
    trial = known_trial(open_ledger(settings.ledger), options.trial)
    site = site_for(settings, trial.campaign)
    return _show_corrected(options, site, retract(site, trial.id, by, options.reason))


def _show_corrected(options: argparse.Namespace, site: "Site", done: "Corrected", warnings: Sequence[str] = ()) -> int:
    from fieldcraft.flows.results.correct import corrected_text
    from fieldcraft.flows.results.parts import outputs_text

    def text() -> str:
        said = corrected_text(done, outputs_text(site.campaign, done.outputs or {}))
        return "\n".join([said, *(f"warning: {warning}" for warning in warnings)])

    show(options.json, {**asdict(done), "warnings": warnings}, text)
    return 0


def _import(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.results.import_table import import_table

    by = acting(settings, "operate").name
    done = import_table(settings, options.file, options.data, _pairs(options.map, "--map"), by)
    first, last = done.trials[0], done.trials[-1]
    span = f"{counted(len(done.trials), 'trial')}, {first if first == last else f'{first} to {last}'}"
    said = "imported" if done.anew else "this very file was imported before; nothing was changed:"
    lines = [f"{done.campaign}: {said} {span}.", *_left_out(done.left), *_repeated(done.repeated)]
    show(options.json, asdict(done), lambda: "\n".join(lines))
    return 0


def _repeated(repeated: Mapping[str, str]) -> list[str]:
    if not repeated:
        return []
    some = ", ".join(f"{trial} as {earlier}" for trial, earlier in list(repeated.items())[:3])
    more = f" and {len(repeated) - 3} more" if len(repeated) > 3 else ""
    return [
        f"the same design and results as an earlier trial: {some}{more}. If it is the same measurement, it "
        f"counts twice: 'fieldcraft retract {next(iter(repeated))} --reason ...' takes it back."
    ]


def _left_out(left: Mapping[str, str]) -> list[str]:
    return [f"left out: {trial}, {reason}" for trial, reason in left.items()]


def _retarget(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.results.retarget import retarget

    by = acting(settings, "operate").name
    done = retarget(settings, options.name, options.file, by)

    def text() -> str:
        span = f": {done.trials[0]} to {done.trials[-1]}" if done.trials else ""
        lines = [
            f"{done.campaign}: {counted(len(done.trials), 'trial')} of {done.source} read anew, no simulation{span}."
        ]
        return "\n".join([*lines, *_left_out(done.left)])

    show(options.json, asdict(done), text)
    return 0
