"""Studies: a list, the tables and curves of one from its stored results, and its stored page as a file."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from fieldcraft.flows.desk.board import Board
from fieldcraft.flows.desk.entering import Visitor
from fieldcraft.flows.desk.figures import Figures, Groups, answer, rows_of
from fieldcraft.flows.desk.rendering import page
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.studies.page.constraints import SHORTFALL_HEAD, shortfall_lines, violation_lines
from fieldcraft.flows.studies.page.figures import problem_charts
from fieldcraft.flows.studies.page.page import about_ranks, cards, lead, rank_lines
from fieldcraft.flows.studies.page.text import about_problem, cells_of_row, elsewhere, head_of, reasons, unmeasured
from fieldcraft.flows.studies.scoring.certificates import PROOF_HEAD, proof_lines
from fieldcraft.flows.text import clock

router = APIRouter()
_PAGE, _RESULTS = "study.html", "study.json"


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
    return {"name": folder.name, "cells": count, "ended": ended, "page": at, "shown": (folder / _RESULTS).is_file()}


def _file(request: Request, name: str, what: str) -> Path:
    board: Board = request.app.state.board
    folder = next((folder for folder in _folders(board) if folder.name == name), None)
    if folder is None or not (folder / what).is_file():
        raise HTTPException(404, f"No study of the name {json.dumps(name[:80])} has results here.")
    return folder / what


@router.get("/studies/{name}/page")
def stored(request: Request, visit: Visitor, name: str) -> Response:
    """The stored page of a study, as a file to open: it has styles of its own, which no page of the desk may have."""
    file = _file(request, name, _PAGE)
    return FileResponse(file, filename=f"{file.parent.name}.html", media_type="text/html")


@router.get("/studies/{name}")
def study(request: Request, visit: Visitor, name: str) -> Response:
    """A study: ranks, and a table and curves for each problem."""
    file = _file(request, name, _RESULTS)
    with _of_this_version(name):
        values = _shown(_results(file), file.stat().st_mtime)
    return page(request, "study.html", visit, {"name": name, "stored": (file.parent / _PAGE).is_file(), **values})


@router.get("/studies/{name}/figures/{number}")
def figures(request: Request, visit: Visitor, name: str, number: int) -> Response:
    """Curves of one of its problems."""
    return answer(request, *_charts(request, name, number))


@router.get("/studies/{name}/figures/{number}/{group}/{place}")
def figure_rows(request: Request, visit: Visitor, name: str, number: int, group: str, place: int) -> Response:
    """The table behind one of them."""
    return rows_of(_charts(request, name, number)[0], group, place)


def _charts(request: Request, name: str, number: int) -> tuple[Groups, int]:
    file, kept = _file(request, name, _RESULTS), request.app.state.figures
    assert isinstance(kept, Figures)

    def made() -> Groups:
        data = _results(file)
        if not 0 <= number < len(data["problems"]):
            raise HTTPException(404, "There is no such picture.")
        order = [algorithm.get("label") or algorithm["kind"] for algorithm in data["spec"]["algorithms"]]
        return {"curves": problem_charts(data["problems"][number], order)}

    changed = file.stat().st_mtime_ns
    with _of_this_version(name):
        return kept.of(f"study {file.parent.name} {number}", changed, made), changed


def _results(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        raise InputError(
            f"The results of the study {file.parent.name} are damaged: run 'fieldcraft compare'."
        ) from None


@contextmanager
def _of_this_version(name: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, IndexError):
        raise InputError(
            f"The results of the study {name} were written by another version: 'fieldcraft compare' renews them."
        ) from None


def _shown(data: Mapping[str, Any], at: float) -> dict[str, Any]:
    """Tables of a study for its template."""
    numbered = [(number, each) for number, each in enumerate(data["problems"]) if each["rows"]]
    apart = [each["problem"] for _, each in numbered if each["oracle"]]
    return {
        "lead": lead(data, at),
        "cards": cards(data),
        "ranks": rank_lines(data) if data["ranks"] else None,
        "about_ranks": about_ranks(data) if data["ranks"] else "",
        "reference": data["reference"],
        "problems": [_problem(number, each) for number, each in sorted(numbered, key=lambda one: one[1]["oracle"])],
        "apart": apart,
        "unmeasured": unmeasured(data),
        "missing": [(state, str(len(names)), reason, ", ".join(names)) for state, reason, names in reasons(data)],
        "elsewhere": [(", ".join(names), differences) for differences, names in elsewhere(data)],
    }


def _problem(number: int, each: Mapping[str, Any]) -> dict[str, Any]:
    tables: list[tuple[str, list[str], list[list[str]]]] = [
        ("results", head_of(each), [cells_of_row(row) for row in each["rows"]])
    ]
    if lines := shortfall_lines(each["rows"]):
        tables.append(("constraints", list(SHORTFALL_HEAD), lines))
        tables.append(("violations by constraint, each in its unit", *violation_lines(each)))
    if lines := proof_lines(each["rows"]):
        tables.append(("certificates", list(PROOF_HEAD), lines))
    return {"number": number, "name": each["problem"], "about": about_problem(each), "tables": tables}
