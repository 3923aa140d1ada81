"""The laboratory: work orders to print, and results, checked and recorded as the commands do it."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fastapi import APIRouter, Request
from starlette.datastructures import FormData, UploadFile
from starlette.responses import RedirectResponse, Response

from fieldcraft.flows.desk.board import Board, Standing
from fieldcraft.flows.desk.entering import Form, Visit, Visitor, text
from fieldcraft.flows.desk.guard import UPLOADS
from fieldcraft.flows.desk.parts.barcode import barcode
from fieldcraft.flows.desk.parts.order_table import order_table
from fieldcraft.flows.desk.rendering import page
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.tables import Measurement, number
from fieldcraft.flows.jobs.keys import attempt_keys
from fieldcraft.flows.results.as_run import known_to_be_run
from fieldcraft.flows.results.correct import correct, corrected_text, retract
from fieldcraft.flows.results.entered import entered
from fieldcraft.flows.results.inbox import RESULTS, record_file
from fieldcraft.flows.results.parts import measured_so_far, outputs_text
from fieldcraft.flows.results.record import attempt_named, check, check_correction, record, site_for
from fieldcraft.flows.spec.campaign_file import stored
from fieldcraft.flows.text import one_line, quoted
from fieldcraft.flows.views.pending import queue_data
from fieldcraft.flows.wiring.context import Site
from fieldcraft.storage.ledger.standing import known_sds
from fieldcraft.storage.records import Trial, TrialState

router = APIRouter()
_LATEST = 20  # completed trials whose results can be corrected from the list; any other is found by its id


@router.get("/laboratory")
def everything(request: Request, visit: Visitor) -> Response:
    """Work orders of all campaigns that go on."""
    board: Board = request.app.state.board
    benches = [_bench(board, one) for one in board.standings() if not one.campaign.finished]
    shown = [bench for bench in benches if bench["orders"]]
    return page(request, "laboratory.html", visit, {"benches": shown, "one": None})


@router.get("/laboratory/{name}")
def of_campaign(request: Request, visit: Visitor, name: str) -> Response:
    """Work orders and results of one campaign."""
    board: Board = request.app.state.board
    return page(request, "laboratory.html", visit, {"benches": [_bench(board, board.standing(name))], "one": name})


def _bench(board: Board, standing: Standing) -> dict[str, Any]:
    campaign = standing.campaign
    done = [trial for trial in standing.trials if trial.state is TrialState.COMPLETED]
    data = queue_data(board.ledger, campaign)
    return {
        "name": campaign.name,
        "record": campaign,
        "orders": [*data["laboratory"], *({**entry, "order": None, "since": entry["since"]} for entry in data["held"])],
        "done": done[-_LATEST:][::-1],
        "instructions": stored(campaign.spec, f"campaign {campaign.name}").dispatcher.instructions,
    }


@router.get("/laboratory/{name}/orders")
def orders(request: Request, visit: Visitor, name: str, key: str = "") -> Response:
    """Work orders as sheets to print, all of a campaign or the one of a key."""
    board: Board = request.app.state.board
    bench = _bench(board, board.standing(name))
    chosen = [order for order in bench["orders"] if order["order"] and key in ("", order["order"])]
    sheets = [{**order, "code": barcode(order["order"])} for order in chosen]
    return page(request, "orders.html", visit, {**bench, "sheets": sheets})


@router.get("/laboratory/{name}/orders.csv")
def table(request: Request, visit: Visitor, name: str) -> Response:
    """Work orders as the table that is uploaded again once it is filled in."""
    board: Board = request.app.state.board
    bench = _bench(board, board.standing(name))
    chosen = [order for order in bench["orders"] if order["order"]]
    if not chosen:
        raise InputError(f"The laboratory has no open order of {name[:100]}, so there is no table to fill in.")
    kept = {"Content-Disposition": f'attachment; filename="{bench["name"]}-orders.csv"'}
    return Response(order_table(bench["record"], chosen), media_type="text/csv", headers=kept)


@router.get("/find")
def find(request: Request, visit: Visitor, key: str = "") -> Response:
    """The form for the result of a work order or a trial, by what a scanner or a person types."""
    board: Board = request.app.state.board
    ledger = board.ledger
    trial_id, _ = attempt_named(ledger, key.strip()[:300])
    return RedirectResponse(f"/laboratory/{ledger.trial(trial_id).campaign}/result/{key.strip()}", 303)


@router.get("/laboratory/{name}/result/{word}")
def result(request: Request, visit: Visitor, name: str, word: str) -> Response:
    """The form for a result, or for the correction of one."""
    board: Board = request.app.state.board
    ledger = board.ledger
    trial_id, key = attempt_named(ledger, word)
    trial, results = _of(ledger.trial(trial_id), name), ledger.results(trial_id)
    attempt = 1 + attempt_keys(trial).index(key) if key in attempt_keys(trial) else trial.attempt
    campaign = ledger.campaign(name)
    measured = [output for output in campaign.environment["outputs"] if not output.get("formula")]
    known = measured_so_far(trial, attempt, results)
    values = {
        "campaign": campaign,
        "trial": trial,
        "word": word,
        "results": results,
        "known": [(output, known[output["name"]]) for output in measured if output["name"] in known],
        "missing": [output for output in measured if output["name"] not in known],
        "whole": trial.state is TrialState.COMPLETED,
        "ran": {**trial.design, **(known_to_be_run(results, attempt) or {})},
        "sds": known_sds(results, attempt) if trial.outputs else {},
        "uploads": f"{UPLOADS}/{name}",
    }
    return page(request, "result.html", visit, values)


def _of(trial: Trial, name: str) -> Trial:
    if trial.campaign != name:
        raise InputError(f"{trial.id} is a trial of {trial.campaign}, not of {name[:100]}. Nothing was recorded.")
    return trial


@router.post(UPLOADS + "/{name}/record")
def enter(request: Request, visit: Visitor, form: Form, name: str) -> Response:
    """Record a result, whole or in part."""
    board: Board = request.app.state.board
    by = visit.person.require("operate").name
    with _files(form) as files:
        site, measurement = _entered(board, form, files)
        _of(site.ledger.trial(measurement.trial), name)
        done = record(site, check(site, measurement), by, "person")
    _tell(visit, [done.text], done.warnings)
    return RedirectResponse(f"/laboratory/{name}", 303)


@router.post(UPLOADS + "/{name}/correct")
def replace(request: Request, visit: Visitor, form: Form, name: str) -> Response:
    """Correct a result."""
    board: Board = request.app.state.board
    by, reason = visit.person.require("operate").name, text(form, "reason").strip()
    if not reason:
        raise InputError("A correction without a reason teaches nobody: give one. Nothing was changed.")
    with _files(form) as files:
        site, measurement = _entered(board, form, files)
        _of(site.ledger.trial(measurement.trial), name)
        checked = check_correction(site, measurement)
        done = correct(site, checked, by, reason, _seen(form))
    _tell(visit, [corrected_text(done, outputs_text(site.campaign, done.outputs or {}))], checked.warnings)
    return RedirectResponse(f"/laboratory/{name}", 303)


def _entered(board: Board, form: FormData, files: Sequence[Path]) -> tuple[Site, Measurement]:
    """The measurement of a form, not checked yet, and the site of its trial's campaign."""
    return entered(
        board.settings,
        text(form, "trial"),
        _named(form, "y."),
        _named(form, "sd."),
        _named(form, "x."),
        _one(files),
        text(form, "note"),
        _amount(form, "cost"),
        _amount(form, "seconds"),
    )


@router.post("/laboratory/{name}/retract")
def take_back(request: Request, visit: Visitor, form: Form, name: str) -> Response:
    """Retract a result."""
    board: Board = request.app.state.board
    by, reason = visit.person.require("operate").name, text(form, "reason").strip()
    if not reason:
        raise InputError("A retraction without a reason teaches nobody: give one. Nothing was changed.")
    site = site_for(board.settings, name)
    trial = _of(site.ledger.trial(text(form, "trial")), name)
    done = retract(site, trial.id, by, reason, _seen(form))
    _tell(visit, [corrected_text(done, "")])
    return RedirectResponse(f"/laboratory/{name}", 303)


@router.post(UPLOADS + "/{name}/table")
def upload(request: Request, visit: Visitor, form: Form, name: str) -> Response:
    """Record a table of results, with the files of fields that it names."""
    board: Board = request.app.state.board
    by = visit.person.require("operate").name
    with _files(form) as files:
        tables = [file for file in files if text(form, "table") in ("", file.name)]
        chosen = [file for file in tables if file.suffix.lower() in RESULTS]
        if len(chosen) != 1:
            raise InputError(
                f"{len(chosen)} of the files are tables (.csv, .tsv, .json): send one, with the fields that it names. "
                "Nothing was recorded."
            )
        batch = record_file(site_for(board.settings, name), chosen[0], by, f"file {chosen[0].name}", chosen[0].parent)
    _tell(visit, batch.lines)
    return RedirectResponse(f"/laboratory/{name}", 303)


def _named(form: FormData, prefix: str) -> dict[str, str]:
    """Fields of the form that were filled in, by the rest of their names, which the page has encoded as in an address.

    Browsers change a quotation mark in the name of a field that is sent beside files.
    """
    return {
        unquote(key.removeprefix(prefix)): str(value).strip()
        for key, value in form.items()
        if key.startswith(prefix) and isinstance(value, str) and value.strip()
    }


def _seen(form: FormData) -> int | None:
    """Number of the last result when the page was made; None where there was none."""
    given = text(form, "seen")
    return int(given) if given.isdecimal() else None


def _amount(form: FormData, name: str) -> float | None:
    given = text(form, name).strip()
    return number(given, name) if given else None


@contextmanager
def _files(form: FormData) -> Iterator[list[Path]]:
    """The files that were sent, in a folder of their own for as long as the block runs."""
    with tempfile.TemporaryDirectory(prefix="fieldcraft-desk-") as folder:
        paths = list[Path]()
        for upload in form.getlist("file"):
            if isinstance(upload, UploadFile) and upload.filename:
                path = Path(folder) / _file_name(upload.filename)
                if path in paths:
                    raise InputError(f"Two files have the name {quoted(path.name)}: send one. Nothing was recorded.")
                with path.open("xb") as file:
                    while chunk := upload.file.read(1 << 20):
                        file.write(chunk)
                paths.append(path)
        try:
            yield paths
        except InputError as error:  # the folder is the desk's, and tells nobody anything
            raise InputError(str(error).replace(f"{folder}/", "").replace(folder, "what was sent")) from None


def _file_name(given: str) -> str:
    name = given.replace("\\", "/").rpartition("/")[2]
    if not name or name.startswith(".") or len(name.encode()) > 150 or one_line(name) != name:
        raise InputError(f"{quoted(given)} is no name for a file here: give it another. Nothing was recorded.")
    return name


def _one(files: Sequence[Path]) -> Path | None:
    if len(files) > 1:
        raise InputError(f"{len(files)} files for one field: send one. Nothing was recorded.")
    return files[0] if files else None


def _tell(visit: Visit, lines: Sequence[str], warnings: Sequence[str] = ()) -> None:
    visit.say("\n".join(lines))
    for warning in warnings:
        visit.say(f"Unusual, and kept: {warning}", "waiting")
