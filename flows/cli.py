"""The command ``fieldcraft``. Every command takes ``--json``; an error is one line and exits with 2."""

import argparse
import os
import re
import select
import sys
import warnings
from collections.abc import Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from fieldcraft.flows.commands import (
    campaigns,
    decisions,
    desk,
    inspection,
    recovery,
    reports,
    results,
    starting,
    studies,
    trials,
)
from fieldcraft.flows.commands.shared import Command, complain, doubt, wait_for_people
from fieldcraft.flows.errors import FieldcraftError, InputError, Unfinished
from fieldcraft.flows.machinery.collecting import seldom
from fieldcraft.flows.settings import Settings, settings_from
from fieldcraft.flows.text import QUOTED, quoted, shown, suggestion

_GROUPS = (starting, campaigns, decisions, inspection, desk, recovery, reports, results, studies, trials)
_INTRODUCTION = (
    "",
    "    fieldcraft run campaigns/heat.yaml    # the ready campaign of the demo",
    "    fieldcraft status                     # where all campaigns stand",
    "    fieldcraft queue                      # what waits for a person",
    "    fieldcraft init rod                   # a folder with a problem of your own to begin from",
)
_NOBODY_READS = 141  # as of a process that ended by SIGPIPE
_LONG = re.compile(f"'[^']{{{QUOTED},}}'")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        told = _LONG.sub(lambda found: quoted(found[0][1:-1]), message)
        raise InputError(f"{told}. '{self.prog} --help' lists what there is.")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        hint = suggestion(str(value), list(map(str, action.choices)))
        if action.dest == "word":
            raise InputError(f"{quoted(value)} is no command.{hint} '{self.prog} --help' lists them.")
        known = ", ".join(map(str, action.choices))
        raise argparse.ArgumentError(action, f"{quoted(value)} is none of them.{hint} Known: {known}")


class _Commands(_Parser):
    """The parser of all commands, whose help lists them in groups."""

    groups: dict[str, list[tuple[str, str]]]

    def format_help(self) -> str:
        lines = ["usage: fieldcraft [--version] COMMAND ...", "", str(self.description), *_INTRODUCTION, ""]
        for title, commands in self.groups.items():
            lines += [f"{title}:", *(f"    {name:<12}  {text}" for name, text in commands), ""]
        return "\n".join([*lines, "'fieldcraft COMMAND --help' has the options of a command, and an example.", ""])


class _Version(argparse.Action):
    """Action of ``--version``: look up the version, print it and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"fieldcraft {version('fieldcraft')}")
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 on success; 1 when ``doctor`` found something, a repair is incomplete, a copy is incomplete, or a campaign
        ended without a single result; 2 on an error; 3 when the campaign waits for a person or a laboratory; 130 when
        interrupted; 141 when the reader of the output has closed its end of the pipe.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:  # the process is this command's
        _fill()
        seldom()
    warnings.filterwarnings("ignore", "`torch.jit.script`")  # of gpytorch's own use of it, which no user can change
    try:
        code = _done(words, "--json" in words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # of what is printed: any other is told as an error before it comes here
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python still holds back
        return _NOBODY_READS


def _fill() -> None:
    """Put nothing in the place of a closed standard input: a pipe or socket that is opened would take it."""
    try:
        os.fstat(0)
    except OSError:
        os.open(os.devnull, os.O_RDONLY)


def _done(words: Sequence[str], as_json: bool) -> int:
    try:
        options = _options(words)
        settings = settings_from(home=options.home)
        _admit(settings)
        command: Command = options.command
        with doubt(settings):
            return command(options, settings)
    except SystemExit as asked:  # --help and --version
        return int(asked.code or 0)
    except Unfinished as waiting:
        wait_for_people(waiting, as_json)
        return 3
    except InputError as error:
        complain(error.faults, as_json)
        return 2
    except KeyboardInterrupt:
        complain(["interrupted; nothing is lost. The same command goes on from here."], as_json)
        return 130
    except OSError as error:
        if isinstance(error, BrokenPipeError) and unread():
            raise
        place = f"{error.filename}: " if error.filename else ""
        complain(
            [f"{place}{error.strerror or error}. Nothing that was recorded is lost; mend that and go on."], as_json
        )
        return 2
    except _told() as error:
        complain([str(error)], as_json)
        return 2


def unread() -> bool:
    """True if the other end of the pipe behind standard output is closed."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _told() -> tuple[type[Exception], ...]:
    """The errors that are printed on one line; imported only when there is an error."""
    from fieldcraft.storage.field_store.staging import FieldError
    from fieldcraft.storage.ledger.errors import LedgerError
    from fieldcraft.storage.trackers.errors import TrackingError

    return FieldcraftError, LedgerError, FieldError, TrackingError


def _admit(settings: Settings) -> None:
    """Raise ``Refused`` if the current user may not read; do nothing if neither people nor a token is set."""
    if settings.people is not None or settings.token is not None:
        from fieldcraft.flows.identity import acting

        acting(settings, "read")


def _options(words: Sequence[str]) -> argparse.Namespace:
    commands = _parser()
    misplaced = words[:1] and words[0].startswith("-") and any(not word.startswith("-") for word in words[1:])
    if misplaced and not any(own.startswith(words[0]) for own in commands._option_string_actions):
        option = shown(words[0].partition("=")[0])
        raise InputError(f"{option} stands before the command: give it after, as in 'fieldcraft status --json'.")
    options, unknown = commands.parse_known_args(words)
    if unknown:
        parser: argparse.ArgumentParser = options.parser
        known = [word for action in parser._actions for word in action.option_strings]
        told, hint = " ".join(map(shown, unknown[:3])), suggestion(unknown[0], known)
        split = any(word.endswith("=") and after == unknown[0] for word, after in pairwise(words))
        if split or unknown[0].startswith("="):
            hint = " Write NAME=VALUE as one word, without blanks."
        raise InputError(f"unrecognized arguments: {told}.{hint} '{parser.prog} --help' lists what there is.")
    return options


@cache
def _parser() -> argparse.ArgumentParser:
    shared = _Parser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print JSON")
    shared.add_argument(
        "--home", type=Path, default=None, help="folder of the stores (default: FIELDCRAFT_HOME or runs)"
    )
    parser = _Commands(
        prog="fieldcraft", description="Design campaigns: propose, approve, simulate, learn, propose again."
    )
    parser.groups = {group.TITLE: [] for group in _GROUPS}
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="word", parser_class=_Parser)

    def add(title: str, name: str, command: Command, text: str, example: str = "") -> argparse.ArgumentParser:
        told = f"example: {example}" if example else None
        made = commands.add_parser(name, parents=[shared], help=text, description=text, epilog=told)
        made.set_defaults(command=command, parser=made, whole=parser)
        parser.groups[title].append((name, text))
        return made

    for group in _GROUPS:
        group.add(partial(add, group.TITLE))
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
