"""Pages that only show what a command shows: two campaigns compared, studies, notices and the doctor's findings."""

import json
import threading
import time
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from fieldcraft.flows.desk.board import Board
from fieldcraft.flows.desk.entering import Visitor
from fieldcraft.flows.desk.rendering import page
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.notices.deliver import current, text_of
from fieldcraft.flows.notices.links import card_of, page_of
from fieldcraft.flows.recovery.doctor import examine
from fieldcraft.flows.text import clock
from fieldcraft.flows.views.compare import NOT_COMPARABLE, compare, figures, milestones
from fieldcraft.storage.records import Notice

router = APIRouter()
_MOST = 1000  # notices
_CARDS = 8  # that a notice leads to
_PAGE = "study.html"
_examining = threading.Lock()  # one examination at a time: it reads every field


@router.get("/compare")
def compared(request: Request, visit: Visitor, a: str = "", b: str = "") -> Response:
    """Two campaigns side by side."""
    board: Board = request.app.state.board
    ledger = board.ledger
    values: dict[str, Any] = {"names": [one.name for one in ledger.campaigns()], "a": a, "b": b, "data": None}
    if a and b:
        data = compare(board.settings, ledger, (a, b))
        values |= {"data": data, "rows": figures(data["campaigns"]), "steps": milestones(data["progress"])}
    return page(request, "compare.html", visit, {**values, "not_comparable": NOT_COMPARABLE})


@router.get("/studies")
def studies(request: Request, visit: Visitor) -> Response:
    """The studies of this home, and their pages."""
    board: Board = request.app.state.board
    return page(request, "studies.html", visit, {"studies": [_study(folder) for folder in _folders(board)]})


def _folders(board: Board) -> list[Path]:
    """Folders of studies in the home, the latest first."""
    found = [file.parent for file in (board.settings.home / "studies").glob("*/study")]
    return sorted(found, key=lambda folder: -(folder / "study").stat().st_mtime)


def _study(folder: Path) -> dict[str, Any]:
    drawn, cells = folder / _PAGE, folder / "cells"
    count = sum(1 for _ in cells.iterdir()) if cells.is_dir() else 0
    ended = sum(1 for _ in cells.glob("*/result.json"))
    at = clock(drawn.stat().st_mtime) if drawn.is_file() else None
    return {"name": folder.name, "cells": count, "ended": ended, "page": at}


@router.get("/studies/{name}")
def study(request: Request, visit: Visitor, name: str) -> Response:
    """The stored page of a study, as a file to open: it has styles of its own, which no page of the desk may have."""
    board: Board = request.app.state.board
    folder = next((folder for folder in _folders(board) if folder.name == name), None)
    if folder is None or not (folder / _PAGE).is_file():
        raise HTTPException(404, f"No study of the name {json.dumps(name[:80])} has a page here.")
    return FileResponse(folder / _PAGE, filename=f"{folder.name}.html", media_type="text/html")


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
