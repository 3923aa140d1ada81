"""The application: its routes, what holds for all of them, and what is told when something goes wrong."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from fieldcraft.flows.desk import figures
from fieldcraft.flows.desk.board import Board, Poller
from fieldcraft.flows.desk.entering import Entrance, SignInFirst, found
from fieldcraft.flows.desk.guard import Guard
from fieldcraft.flows.desk.pages import campaign, laboratory, looking, overview, predictions, queue, sign_in, study
from fieldcraft.flows.desk.place import Place
from fieldcraft.flows.desk.rendering import HERE, page
from fieldcraft.flows.desk.sessions import Attempts, Sessions
from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.identity import Refused
from fieldcraft.flows.people.decisions import Overtaken
from fieldcraft.flows.predictions.process import ModelProcess
from fieldcraft.flows.settings import Settings
from fieldcraft.storage.fields import FieldError
from fieldcraft.storage.ledger import (
    ForbiddenMove,
    InvalidRecord,
    LedgerError,
    StaleTrial,
    UnknownCampaign,
    UnknownTrial,
)

GROUPS = (sign_in, overview, figures, campaign, predictions, queue, laboratory, looking, study)


def make_app(settings: Settings, place: Place, printed: Callable[[str], None]) -> Guard:
    """The desk of a home.

    Args:
        settings: Settings of the operator.
        place: Where it is reached.
        printed: Tells a one-time token to whoever started it.
    """
    board = Board(settings)
    poller = Poller(board)

    @asynccontextmanager
    async def served(app: FastAPI) -> AsyncIterator[None]:
        yield
        app.state.models.close()

    app = FastAPI(
        lifespan=served,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
        },
    )
    app.state.place, app.state.board, app.state.poller = place, board, poller
    app.state.sessions, app.state.attempts = Sessions(), Attempts()
    app.state.figures = figures.Figures()
    app.state.models = ModelProcess(settings.home)
    app.state.entrance = Entrance(settings, printed)
    for group in GROUPS:
        app.include_router(group.router)
    figures.serve_scripts(app)
    app.mount("/static", StaticFiles(directory=HERE / "static"))
    kinds = (FieldcraftError, LedgerError, FieldError, OSError, HTTPException, RequestValidationError, ClientDisconnect)
    for kind in kinds:
        app.add_exception_handler(kind, _told)
    return Guard(app, place)


def _told(request: Request, error: Exception) -> Response:
    """The answer to a request that could not be done, with the headers that belong to the error."""
    answer = _answer(request, error)
    answer.headers.update((isinstance(error, HTTPException) and error.headers) or {})
    return answer


def _answer(request: Request, error: Exception) -> Response:
    """JSON to the desk's script, a page to anybody else."""
    status, title = _status(error)
    text = "; ".join(f"{fault['msg']}" for fault in error.errors()) if isinstance(error, RequestValidationError) else ""
    text = text or (str(error.detail) if isinstance(error, HTTPException) else str(error))
    if request.headers.get("accept") == "application/json":
        return JSONResponse({"error": text, "status": status}, status)
    if isinstance(error, SignInFirst):
        if request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site":
            return page(request, "arrived.html", None)  # a link elsewhere led here: browsers keep the cookie back
        if request.method == "GET":
            return RedirectResponse(f"/sign-in?to={quote(request.url.path)}", 303)
        return sign_in.asked(request, text, status, "/")
    try:
        visit = found(request, renew=False)
    except FieldcraftError:
        visit = None
    return page(
        request,
        "problem.html",
        visit,
        {"title": title, "text": text, "away": status == 503, "read": request.method == "GET"},
        status,
    )


def _status(error: Exception) -> tuple[int, str]:
    """HTTP status of an error, and the title of its page."""
    match error:
        case SignInFirst():
            return 401, "Sign in"
        case Refused():
            return 403, "You may not do this"
        case HTTPException():
            return error.status_code, "There is no such page" if error.status_code == 404 else "This cannot be done"
        case UnknownCampaign() | UnknownTrial():
            return 404, "There is none of that name"
        case Overtaken() | StaleTrial() | ForbiddenMove():
            return 409, "Somebody was faster"
        case ClientDisconnect():
            return 400, "This cannot be done"  # nobody reads it
        case FieldcraftError() | InvalidRecord() | FieldError() | RequestValidationError():
            return 422, "This cannot be done"
        case OSError():
            return 503, "A file cannot be read or written now"
        case _:
            return 503, "The ledger cannot be read now"
