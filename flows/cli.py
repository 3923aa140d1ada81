"""The command ``fieldcraft``. Every command takes ``--json``; an error is one line and exits with 2."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows.commands import campaigns, decisions, reading, recovery, reports, results, studies, trials
from flows.commands.shared import Command, doubt
from flows.display import complain
from flows.errors import FieldcraftError, InputError, Unfinished
from flows.identity import acting
from flows.settings import settings_from
from storage.ledger import LedgerError
from storage.staging import FieldError
from storage.tracking import TrackingError

_GROUPS = (campaigns, decisions, reading, recovery, reports, results, studies, trials)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise InputError(f"{message}. '{self.prog} --help' lists what there is.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 when all is well; 1 when ``doctor`` found something, something is left to mend, or a copy misses something;
        2 on an error; 3 when the campaign waits for a person or a laboratory; 130 when interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in words
    try:
        options = _parser().parse_args(words)
        command: Command = options.command
        settings = settings_from(home=options.home)
        acting(settings, "read")
        with doubt(settings):
            return command(options, settings)
    except Unfinished as waiting:
        complain(str(waiting), as_json)
        return 3
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

    for group in _GROUPS:
        group.add(add)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
