"""The folder in which orders are exchanged, tied for ever to one campaign of one store.

FOLDER/campaign.json   {campaign, identity}         marks the folder, which several campaigns may reach
PIN                    {identity, folder, marked}   under the home: the folder; ``marked`` once its mark is written

A share that is not mounted, another ``FIELDCRAFT_LAB`` and the folder of another store all look like a folder without
orders. The mark tells them from a new folder, so that no order is sent twice.
"""

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldcraft.flows.jobs.job_folder import read_json, write_json

_MARK = "campaign.json"
OPEN, SENDING, DONE, CANCELLING, CANCELLED = "open", "sending", "done", "cancelling", "cancelled"
STATES = (OPEN, SENDING, DONE, CANCELLING, CANCELLED)  # the folders in which orders lie, as KEY.json
PIN = "orders.json"  # beside the jobs: which folder of orders is the campaign's


@dataclass(frozen=True)
class OrderFolder:
    """A campaign's folder of orders.

    Args:
        campaign: Name of the campaign.
        folder: Folder in which orders and results are exchanged.
        pin: File under the home that records which folder it is.
    """

    campaign: str
    folder: Path
    pin: Path

    def files(self) -> Iterator[Path]:
        """The files of its orders, in all states."""
        return (file for state in STATES for file in (self.folder / state).glob("[!.]*.json"))

    def obstacle(self) -> str | None:
        """The reason why the folder must not be used; None where it belongs to the campaign, or to no campaign yet."""
        pinned, marked = read_json(self.pin), self._marked()
        if marked is not None and marked == pinned.get("identity"):
            return None
        noted, again = pinned.get("folder"), self._marked_again(pinned)
        if marked is not None:
            remedy = (
                f"The orders of {self.campaign!r} lie in {noted}: use that folder" if noted else "Use another folder"
            )
            fault = "cannot be read" if again and not marked else "is of another store"
            return f"{self.folder}: its {_MARK} {fault}. {again or f'{remedy}, by FIELDCRAFT_LAB.'} Nothing was sent."
        if pinned.get("marked"):
            return (
                f"{self.folder}: holds no {_MARK}, and the orders of {self.campaign!r} lie in {noted}. Mount that "
                f"folder, or set FIELDCRAFT_LAB to its parent; one that is moved keeps its {_MARK}. "
                f"{again}{again and ' '}Nothing was sent."
            )
        return None

    def claim(self) -> str | None:
        """Mark the folder as the campaign's own. Returns the reason if that is not possible, as ``obstacle`` does."""
        if (problem := self.obstacle()) is not None:
            return problem
        here, before = str(self.folder.resolve()), read_json(self.pin)
        wanted = {"identity": before.get("identity") or uuid.uuid4().hex, "folder": here, "marked": True}
        if before == wanted:
            return None
        for folder in (self.pin.parent, self.folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_json(self.pin, {**wanted, "marked": bool(before.get("marked"))})
        if self._marked() is None:
            write_json(self.folder / _MARK, {"campaign": self.campaign, "identity": wanted["identity"]})
        if (problem := self.obstacle()) is not None:  # another store has marked it just now
            return problem
        write_json(self.pin, wanted)
        return None

    def _marked_again(self, pinned: Mapping[str, Any]) -> str:
        """The way in which a folder that lost its mark gets it back; empty for another than the campaign's own."""
        if not pinned.get("marked") or pinned.get("folder") != str(self.folder.resolve()):
            return ""
        mark = json.dumps({"campaign": self.campaign, "identity": pinned["identity"]})
        return f"If its orders are all there and only that file was lost, write {mark} into it."

    def _marked(self) -> str | None:
        """Identity in the folder's mark; None where there is none, "" where it cannot be read."""
        try:
            mark: Any = json.loads((self.folder / _MARK).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            return ""
        return str(mark.get("identity", "")) if isinstance(mark, dict) else ""
