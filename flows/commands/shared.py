"""What every command shares: how one is registered, how it prints, how it names a campaign that is not there."""

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from flows.errors import InputError
from flows.plugins import suggestion
from flows.remarks import printable
from flows.settings import Settings
from storage.ledger import Ledger, LedgerError, NotALedger, open_ledger

Command = Callable[[argparse.Namespace, Settings], int]


class Add(Protocol):
    """Registers a command and returns its parser, which takes ``--json`` and ``--home`` already."""

    def __call__(self, name: str, command: Command, text: str) -> argparse.ArgumentParser:
        """The parser of the new command."""
        ...


def show(as_json: bool, data: object, text: Callable[[], str]) -> None:
    """Print what a command found: as JSON, or as text, which is made only then and moves nobody's cursor."""
    print(json.dumps(data) if as_json else printable(text()))


def campaign_of(ledger: Ledger, name: str) -> Any:
    """The campaign of that name.

    Raises:
        InputError: there is none; names those there are.
    """
    known = {campaign.name: campaign for campaign in ledger.campaigns()}
    if name not in known:
        raise InputError(
            f"No campaign {name!r} here.{suggestion(name, known)} Known: {', '.join(known) or 'none'}. "
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
        found = _problems(settings)
        if not found:
            raise
        raise NotALedger(
            f"The ledger {settings.ledger_shown} does not hold what it should: {found[0]} 'fieldcraft doctor' names "
            "all that is wrong; 'fieldcraft restore' makes a home of a backup."
        ) from error


def _problems(settings: Settings) -> list[str]:
    try:
        return open_ledger(settings.ledger, upgrade=False).check()
    except LedgerError:  # there is none: something else is wrong
        return []
