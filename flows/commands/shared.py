"""What every command shares: how one is registered and prints, how it names a campaign that is not there.

Nothing heavy is imported here, so that a command says its first line at once.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fieldcraft.flows.errors import InputError, Unfinished
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.text import one_line, printable, quoted, suggestion

if TYPE_CHECKING:
    from fieldcraft.storage.ledger import Ledger

Command = Callable[[argparse.Namespace, Settings], int]


class Add(Protocol):
    """Registers a command and returns its parser, which takes ``--json`` and ``--home`` already."""

    def __call__(self, name: str, command: Command, text: str) -> argparse.ArgumentParser:
        """The parser of the new command."""
        ...


def open_ledger(place: str | Path, create: bool = False) -> "Ledger":
    """The ledger of that place (``storage.open_ledger.open_ledger``, imported when a command needs it)."""
    from fieldcraft.storage.open_ledger import open_ledger as opened

    return opened(place, create=create)


def show(as_json: bool, data: object, text: Callable[[], str]) -> None:
    """Print what a command found: as JSON, or as text, which is made only then and moves nobody's cursor."""
    print(json.dumps(data) if as_json else printable(text()))


def begin(as_json: bool, what: str) -> float:
    """Say at once what a long command begins with, before anything heavy is imported; returns the time."""
    began = time.monotonic()
    print(json.dumps({"event": "began", "seconds": 0.0, "what": what}) if as_json else f"{0:7.1f} s  {one_line(what)}")
    sys.stdout.flush()
    return began


def announce(file: Path) -> None:
    """Say on a terminal what is read, for what has to be imported then takes seconds; elsewhere nothing."""
    if sys.stderr.isatty():
        print(f"reading {one_line(str(file))} ...", file=sys.stderr, flush=True)


def wait_for_people(waiting: Unfinished, as_json: bool) -> None:
    """Say what waits and what to do next, which is no error."""
    if as_json:
        print(json.dumps({"event": "waits", "text": str(waiting), "waits": list(waiting.waits)}))
        return
    print("\n".join(one_line(line) for line in ("", *waiting.lines)))


def complain(faults: Sequence[str], as_json: bool) -> None:
    """Clear errors, each on one line whatever text it quotes; as one JSON object all together."""
    lines = [one_line(fault) for fault in faults]
    if as_json:
        print(json.dumps({"error": "\n".join(lines), **({"errors": lines} if len(lines) > 1 else {})}))
        return
    for line in lines:
        print(f"fieldcraft: {line}", file=sys.stderr)


def whole(least: int, most: int) -> Callable[[str], int]:
    """The type of an option that is a whole number within bounds."""

    def read(text: str) -> int:
        number = real(least, most)(text)
        if number != int(number):
            raise argparse.ArgumentTypeError(f"{quoted(text)} is no whole number: give one from {least:,} to {most:,}")
        return int(number)

    return read


def real(least: float, most: float) -> Callable[[str], float]:
    """The type of an option that is a number within bounds."""

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
    """The campaign of that name.

    Raises:
        InputError: there is none; names those there are.
    """
    known = {campaign.name: campaign for campaign in ledger.campaigns()}
    if name not in known:
        raise InputError(
            f"No campaign {quoted(name)} here.{suggestion(name, known)} Known: {', '.join(known) or 'none'}. "
            "--home names another folder."
        )
    return known[name]


@contextmanager
def doubt(settings: Settings) -> Iterator[None]:
    """Take what a command stumbles over for what is wrong with the ledger's records, where its check finds something.

    A record that was altered can still be read as JSON, and then lacks what every record of its kind has.

    Raises:
        NotALedger: the check found something; names the first.
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
