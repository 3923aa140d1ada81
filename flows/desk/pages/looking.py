"""Pages that only show what a command shows: two campaigns compared, notices and the doctor's findings."""

import threading
import time
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from fieldcraft.flows.desk.board import Board
from fieldcraft.flows.desk.entering import Visitor
from fieldcraft.flows.desk.rendering import page
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.notices.deliver import current, text_of
from fieldcraft.flows.notices.links import card_of, page_of
from fieldcraft.flows.recovery.doctor import examine
from fieldcraft.flows.views.compare import NOT_COMPARABLE, compare, figures, milestones
from fieldcraft.storage.records import Notice

router = APIRouter()
_MOST = 1000  # notices
_CARDS = 8  # that a notice leads to
_examining = threading.Lock()  # one examination at a time: it reads every field


@router.get("/compare")
def compared(request: Request, visit: Visitor, a: str = "", b: str = "") -> Response:
    """Two campaigns side by side."""
    board: Board = request.app.state.board
    ledger = board.ledger
    names = [one.name for one in ledger.campaigns()]
    other = next((name for name in names if name != (a or names[0])), "")  # a browser chooses the first by itself
    values: dict[str, Any] = {"names": names, "a": a, "b": b or other, "data": None}
    if a and b:
        data = compare(board.settings, ledger, (a, b))
        values |= {"data": data, "rows": figures(data["campaigns"]), "steps": milestones(data["progress"])}
    return page(request, "compare.html", visit, {**values, "not_comparable": NOT_COMPARABLE})


@router.get("/notices")
def notices(request: Request, visit: Visitor) -> Response:
    """Notices that nobody was told of yet."""
    board: Board = request.app.state.board
    ledger = board.ledger
    waiting = current(ledger, ledger.notices(None, limit=_MOST))
    shown = [(notice, text_of(notice), _links(notice)) for notice in waiting]
    return page(request, "notices.html", visit, {"notices": shown})


def _links(notice: Notice) -> list[tuple[str, str]]:
    """Pages that a notice leads to, each with its name: the cards or the trial, else the campaign."""
    if notice.event == "approval waiting" and (trials := notice.payload.get("trials", ())):
        more = [] if len(trials) <= _CARDS else [(page_of(notice), f"and {len(trials) - _CARDS} more")]
        return [(card_of(notice.campaign, trial), trial) for trial in trials[:_CARDS]] + more
    return [(page_of(notice), str(notice.payload.get("trial", notice.campaign)))]


@router.get("/doctor")
def doctor(request: Request, visit: Visitor, look: bool = False) -> Response:
    """Findings of ``fieldcraft doctor``; it looks only when asked to, since it reads every field."""
    board: Board = request.app.state.board
    findings, took = None, 0.0
    if look:
        if not _examining.acquire(blocking=False):  # who waited here would keep others from their pages
            raise InputError("Somebody looks just now: look again when they are done.")
        try:
            began = time.monotonic()
            findings = examine(board.settings)
            took = time.monotonic() - began
        finally:
            _examining.release()
    return page(request, "doctor.html", visit, {"findings": findings, "took": took})
