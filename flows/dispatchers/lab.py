"""Experiments done by people: each approved trial becomes a work order in a folder and, if one is set, on a webhook.

ORDERS/batch-0003.csv       the open orders of iteration 3, a row each, with empty columns for the measurements
ORDERS/instructions.txt     the campaign file's instructions for the laboratory
ORDERS/open/KEY.json        one work order, written atomically: the laboratory has it
ORDERS/sending/KEY.json     sent to the webhook, which has not confirmed it
ORDERS/done/KEY.json        its result is in the ledger
ORDERS/cancelling/KEY.json  cancelled; the webhook is still to be told
ORDERS/cancelled/KEY.json   cancelled
ORDERS/results/             where filled-in tables are dropped (``flows.results.inbox`` reads them)
ORDERS/campaign.json        the campaign that the folder belongs to (``flows.jobs.order_folder``)

Passes write here, one at a time, under the campaign's pass lease. So do the commands ``abandon`` and ``cancel``, which
take an order back at once. People write into ``results`` alone.
"""

import csv
import io
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.tables import unguarded, write_rows
from fieldcraft.flows.jobs.dispatcher import CannotTell, Failed, Handle, Job, Lost, NotSent, Outcome, Place, Running
from fieldcraft.flows.jobs.job_folder import write_json
from fieldcraft.flows.jobs.order_folder import CANCELLED, CANCELLING, DONE, OPEN, SENDING, STATES, OrderFolder
from fieldcraft.flows.machinery.webhooks import NotDelivered, post
from fieldcraft.flows.text import printable
from fieldcraft.storage.failpoints import commit_point
from fieldcraft.storage.field_store.staging import sync
from fieldcraft.storage.fields import FieldDamaged
from fieldcraft.storage.text import shown

if TYPE_CHECKING:
    import xarray as xr

_INBOX = "results"
_OF_AN_ORDER = frozenset({"key", "trial", "iteration", "design", "units", "outputs", "digest"})
_WEBHOOK_S = 10.0
# Answers by which a webhook certainly did not take an order; after any other it may have.
_NOT_TAKEN = frozenset({301, 302, 307, 308, 400, 401, 403, 404, 405, 410, 413, 415, 422, 429})


@dataclass(frozen=True)
class Lab:
    """Hands work orders to a laboratory.

    Args:
        place: The campaign, its folder of orders, and the webhook.
    """

    place: Place
    by_people: ClassVar[bool] = True

    @property
    def _folder(self) -> OrderFolder:
        return OrderFolder(self.place.campaign, self.place.orders, self.place.folder / "orders.json")

    @property
    def inbox(self) -> Path:
        """The folder into which people drop files of results."""
        return self.place.orders / _INBOX

    def require_folder(self) -> None:
        """Accept the folder of orders if it belongs to the campaign, or to no campaign yet.

        Raises:
            InputError: it belongs to another, or is not there now; says which one was used and the remedy.
        """
        if (problem := self._folder.obstacle()) is not None:
            raise InputError(problem)

    def submit(self, job: Job) -> Handle:
        """Write the order and, where there is a webhook, send it: the intent is recorded before, the success after."""
        if (problem := self._folder.claim()) is not None:
            raise NotSent(problem)
        for name in (*STATES, _INBOX):
            (self.place.orders / name).mkdir(parents=True, exist_ok=True)
        if self.place.instructions:
            _replace(self.place.orders / "instructions.txt", f"{printable(self.place.instructions)}\n")
        order, webhook = self._order(job), self.place.webhook
        if webhook is not None:
            told, order = {"event": "order", **order}, {**order, "webhook": True}
            write_json(self._file(SENDING, job.key), order)
            self._send(webhook, job.key, told)
        commit_point("lab.order.before")
        write_json(self._file(OPEN, job.key), order)
        commit_point("lab.order.after")
        self._file(SENDING, job.key).unlink(missing_ok=True)
        self.write_tables()
        return {"key": job.key}

    def _order(self, job: Job) -> dict[str, Any]:
        """The order as JSON, with all its texts made printable; results are matched to the printable texts."""
        order = {
            "key": job.key,
            "trial": job.trial,
            "campaign": self.place.campaign,
            "iteration": job.request["iteration"],
            "design": dict(job.request["design"]),
            **({"absent": absent} if (absent := list(job.request.get("absent", ()))) else {}),
            "units": dict(job.request["units"]),
            "outputs": dict(job.request["outputs"]),
            **{name: job.request[name] for name in ("repeat",) if name in job.request},
            "instructions": self.place.instructions,
            "digest": job.request["digest"],
            "ordered": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        return {name: shown(value) for name, value in order.items()}

    def _send(self, webhook: str, key: str, order: Mapping[str, Any]) -> None:
        commit_point("lab.webhook.before")
        try:
            post(webhook, order, key, self.place.webhook_token, _WEBHOOK_S)
        except NotDelivered as error:
            if error.reached and error.status not in _NOT_TAKEN:
                raise CannotTell(f"{error} Whether it took order {key} is unknown") from None
            self._file(SENDING, key).unlink(missing_ok=True)
            raise NotSent(
                f"{error} Order {key} was not sent: mend the webhook that FIELDCRAFT_LAB_URL names, or unset it, and "
                "run again. Nothing is lost."
            ) from None
        commit_point("lab.webhook.after")

    def find(self, key: str) -> Handle | None:
        """The handle of an order that was handed over; None when it certainly was not.

        Raises:
            CannotTell: the order was sent to the webhook and its answer was not recorded, or the folder of orders is
                not the one that was used.
        """
        if (problem := self._folder.obstacle()) is not None:
            raise CannotTell(problem)
        if any(self._file(state, key).exists() for state in (OPEN, DONE, CANCELLING, CANCELLED)):
            return {"key": key}
        if self._file(SENDING, key).exists():
            raise CannotTell(f"Order {key} was being sent to the webhook when the pass ended")
        return None

    def look(self, handle: Handle) -> Outcome:
        """Return the state of the order; an open order runs, without a limit of time.

        Raises:
            CannotTell: as ``find``.
        """
        key = handle["key"]
        if self.find(key) is None:
            return Lost(f"order {key} is gone from {self.place.orders}")
        if self._file(CANCELLED, key).exists():
            return Failed("cancelled", f"order {key} was cancelled")
        if self._file(DONE, key).exists():
            return Lost(f"order {key} is filed as done")
        return Running()

    def poll(self, handle: Handle) -> Outcome:
        """Return the state as ``look`` does."""
        return self.look(handle)

    def fetch(self, handle: Handle) -> "xr.Dataset":
        """Raise ``FieldDamaged``: a laboratory's results are recorded, not fetched."""
        raise FieldDamaged(f"Order {handle['key']} has no field to fetch: record its result with 'fieldcraft record'.")

    def cancel(self, handle: Handle) -> None:
        """Take the order back, so that nobody begins it, and tell the webhook, if there is one or it got the order.

        Raises:
            flows.machinery.webhooks.NotDelivered: the webhook could not be told, or got the order and is no longer
                set; the order stays in ``cancelling``.
            InputError: the folder of orders is not the one that was used.
        """
        self.require_folder()
        key, webhook = handle["key"], self.place.webhook
        order = self.at_large().get(key)
        if order is None:
            return
        if webhook is not None or order.get("webhook"):
            self._close(key, CANCELLING)
            self.write_tables()
            if webhook is None:
                raise NotDelivered(
                    f"Order {key} was sent to a webhook and FIELDCRAFT_LAB_URL names none now.", reached=False
                )
            told = {"event": "cancelled", "key": key, "trial": order["trial"]}
            post(webhook, told, f"{key}-cancelled", self.place.webhook_token, _WEBHOOK_S)
        self._close(key, CANCELLED)
        self.write_tables()

    def forget(self, key: str) -> None:
        """Move the order of a trial whose result is in the ledger to ``done``."""
        if key in self.at_large():
            self._close(key, DONE)

    def wait(self, handles: list[Handle], seconds: float) -> None:
        """Return at once: a pass does not wait for a laboratory."""

    def at_large(self) -> dict[str, dict[str, Any]]:
        """The orders that the laboratory has or may have, by their keys.

        Raises:
            InputError: a file among them is no order.
        """
        states = (CANCELLING, SENDING, OPEN)
        return {order["key"]: order for state in states for order in self._orders(state)}

    def _orders(self, state: str) -> list[dict[str, Any]]:
        return [order for file in self._files(state) if (order := _read_order(file)) is not None]

    def _files(self, state: str) -> list[Path]:
        return sorted((self.place.orders / state).glob("[!.]*.json"))

    def _file(self, state: str, key: str) -> Path:
        return self.place.orders / state / f"{key}.json"

    def _close(self, key: str, state: str) -> None:
        (self.place.orders / state).mkdir(exist_ok=True)
        for before in (SENDING, OPEN, CANCELLING):
            if before == state:
                continue
            with suppress(FileNotFoundError):
                os.replace(self._file(before, key), self._file(state, key))
                sync(self.place.orders / state)
                sync(self.place.orders / before)

    def write_tables(self) -> None:
        """Update the tables to the open orders. Cells that people have filled in are never lost.

        Whoever writes looks once more, since others may take orders back meanwhile.
        """
        known = None
        while known != (known := {file.name for file in self._files(OPEN)}):
            self._write_tables()

    def _write_tables(self) -> None:
        iterations = dict[int, list[dict[str, Any]]]()
        for order in self._orders(OPEN):
            iterations.setdefault(order["iteration"], []).append(order)
        tables = {f"batch-{iteration:04d}.csv": orders for iteration, orders in iterations.items()}
        for name, orders in tables.items():
            self._write_table(self.place.orders / name, orders)
        for file in self.place.orders.glob("batch-*.csv"):
            if file.name not in tables:
                self._set_aside(file)

    def _write_table(self, file: Path, orders: list[dict[str, Any]]) -> None:
        header, keys = _header(orders[0]), {order["key"] for order in orders}
        written = _rows(file, header)
        blanks = 1 + len(orders[0]["outputs"])
        if written is None or any(key not in keys and any(row[-blanks:]) for key, row in written.items()):
            self._set_aside(file)
        text = io.StringIO()
        rows = ((written or {}).get(order["key"]) or _row(order) for order in orders)
        write_rows(text, [header, *rows], end="\n")
        with suppress(FileNotFoundError):
            if file.read_text(encoding="utf-8") == text.getvalue():
                return
        _replace(file, text.getvalue())

    def _set_aside(self, file: Path) -> None:
        with suppress(FileNotFoundError):  # set aside by whoever renewed the tables just now
            os.replace(file, self.place.orders / DONE / f"{file.stem}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}.csv")


def _read_order(file: Path) -> dict[str, Any] | None:
    """The order in a file; None where the file is gone.

    Raises:
        InputError: it holds no order, or another file's.
    """
    try:
        order = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        order = None
    if isinstance(order, dict) and order.get("key") == file.stem and order.keys() >= _OF_AN_ORDER:
        return order
    raise InputError(
        f"{file}: is not the work order that was written there. Take it away: results belong into {_INBOX!r}, and a "
        "trial whose order is gone is held until 'fieldcraft record', 'retry' or 'abandon' settles it. Nothing was "
        "sent."
    )


def _header(order: Mapping[str, Any]) -> list[str]:
    return [
        "key",
        "trial",
        *(_titled(name, order["units"].get(name, "")) for name in order["design"]),
        *(_titled(name, unit) for name, unit in order["outputs"].items()),
        "notes",
    ]


def _titled(name: str, unit: str) -> str:
    return printable(f"{name} [{unit}]" if unit else name)


def _row(order: Mapping[str, Any]) -> list[str]:
    blanks, absent = [""] * (len(order["outputs"]) + 1), order.get("absent", ())
    design = ("" if name in absent else printable(str(value)) for name, value in order["design"].items())
    return [order["key"], order["trial"], *design, *blanks]


def _rows(file: Path, header: list[str]) -> dict[str, list[str]] | None:
    """Rows of a table on disk by key, as people left them; None for one of another form, or with a key twice."""
    try:
        lines = csv.reader(io.StringIO(file.read_text(encoding="utf-8")))
        rows = [[unguarded(cell) for cell in line] for line in lines if line]
    except FileNotFoundError:
        return {}
    except (UnicodeDecodeError, csv.Error):
        return None
    if not rows or rows[0] != header or any(len(row) != len(header) for row in rows):
        return None
    by_key = {row[0]: row for row in rows[1:]}
    return by_key if len(by_key) == len(rows) - 1 else None


def _replace(file: Path, text: str) -> None:
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")  # of its own, among machines and threads
    try:
        draft.write_text(text, encoding="utf-8")
        sync(draft)
        os.replace(draft, file)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()
    sync(file.parent)
