"""Functions that all commands share: registration, output, errors, types of options, and the campaign of a name.

No large library is imported here, so that a command prints its first line at once.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fieldcraft.flows.colours import coloured
from fieldcraft.flows.errors import InputError, Unfinished
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.text import one_line, printable, quoted, suggestion

if TYPE_CHECKING:
    from fieldcraft.storage.ledger import Ledger

Command = Callable[[argparse.Namespace, Settings], int]


class Add(Protocol):
    """Function that registers a command and returns its parser, which has ``--json`` and ``--home`` already."""

    def __call__(self, name: str, command: Command, text: str, example: str = "") -> argparse.ArgumentParser:
        """Register a command with its help text and an example of its use; return its parser."""
        ...


def open_ledger(place: str | Path, create: bool = False) -> "Ledger":
    """Open the ledger of a place with ``storage.open_ledger.open_ledger``, which is imported here."""
    from fieldcraft.storage.open_ledger import open_ledger as opened

    return opened(place, create=create)


def show(as_json: bool, data: object, text: Callable[[], str]) -> None:
    """Print a command's result as JSON or as text; the text is built only then, and control characters are escaped."""
    print(json.dumps(data) if as_json else coloured(printable(text()), sys.stdout))


def begin(as_json: bool, what: str) -> float:
    """Print the first line of a long command before any large import; return the monotonic time in seconds."""
    began = time.monotonic()
    print(json.dumps({"event": "began", "seconds": 0.0, "what": what}) if as_json else f"{0:7.1f} s  {one_line(what)}")
    sys.stdout.flush()
    return began


def announce(file: Path) -> None:
    """Print the name of the file that is read, on a terminal only: the imports that follow take seconds."""
    if sys.stderr.isatty():
        print(f"reading {one_line(str(file))} ...", file=sys.stderr, flush=True)


def wait_for_people(waiting: Unfinished, as_json: bool) -> None:
    """Print the trials that wait for people and the next step; this is no error."""
    if as_json:
        print(json.dumps({"event": "waits", "text": str(waiting), "waits": list(waiting.waits)}))
        return
    print(coloured("\n".join(one_line(line) for line in ("", *waiting.lines)), sys.stdout))


def complain(faults: Sequence[str], as_json: bool) -> None:
    """Print errors, each on one line, or all in one JSON object."""
    lines = [one_line(fault) for fault in faults]
    if as_json:
        print(json.dumps({"error": "\n".join(lines), **({"errors": lines} if len(lines) > 1 else {})}))
        return
    for line in lines:
        print(coloured("fieldcraft:", sys.stderr), line, file=sys.stderr)


def whole(least: int, most: int) -> Callable[[str], int]:
    """Type of an option that is a whole number within bounds."""

    def read(text: str) -> int:
        number = real(least, most)(text)
        if number != int(number):
            raise argparse.ArgumentTypeError(f"{quoted(text)} is no whole number: give one from {least:,} to {most:,}")
        return int(number)

    return read


def real(least: float, most: float) -> Callable[[str], float]:
    """Type of an option that is a number within bounds."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if "_" in text or not least <= number <= most:
            raise argparse.ArgumentTypeError(
                f"{quoted(text)} is no number from {least:,.16g} to {most:,.16g}: give one"
            )
        return number

    return read


def campaign_of(ledger: "Ledger", name: str) -> Any:
    """Find the campaign of a name.

    Raises:
        InputError: there is none; names the campaigns that exist.
    """
    known = {campaign.name: campaign for campaign in ledger.campaigns()}
    if name not in known:
        said = f"No campaign {quoted(name)} here.{suggestion(name, known)} Known: {', '.join(known) or 'none'}. "
        if name.endswith((".yaml", ".yml")):
            raise InputError(f"{said}A campaign has the name in its file; 'fieldcraft run FILE' begins that of a file.")
        raise InputError(f"{said}--home names another folder.")
    return known[name]


@contextmanager
def doubt(settings: Settings) -> Iterator[None]:
    """Report an unexpected error of a command as damage of the ledger, if the ledger's check finds any.

    An altered record can still be valid JSON and yet lack values that every record of its kind has.

    Raises:
        NotALedger: the check found damage; names the first.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        from fieldcraft.storage.ledger.errors import NotALedger

        found = _problems(settings)
        if not found:
            raise
        raise NotALedger(
            f"The ledger {settings.ledger_shown} does not hold what it should: {found[0]} 'fieldcraft doctor' names "
            "all that is wrong; 'fieldcraft restore' makes a home of a backup."
        ) from error


def _problems(settings: Settings) -> list[str]:
    from fieldcraft.storage.ledger import LedgerError
    from fieldcraft.storage.open_ledger import open_ledger

    try:
        return open_ledger(settings.ledger, upgrade=False).check()
    except LedgerError:  # there is none: something else is wrong
        return []
