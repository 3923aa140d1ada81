"""Sign-in and sign-out."""

import re

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from fieldcraft.flows.desk.entering import Entrance, Form, found, text
from fieldcraft.flows.desk.place import Place
from fieldcraft.flows.desk.rendering import page
from fieldcraft.flows.desk.sessions import LONGEST_S, WINDOW_S, Attempts, Sessions
from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.identity import Refused

router = APIRouter()
_PATH = re.compile(r"/(?!/)[A-Za-z0-9_.~/-]{0,300}")


@router.get("/sign-in")
def ask(request: Request, to: str = "/") -> Response:
    """The page that asks for a token, on the way to another page."""
    try:
        found(request, renew=False)
    except FieldcraftError:
        return asked(request, "", 200, to)
    return RedirectResponse(_own(to), 303)


def _own(to: str) -> str:
    """The path of a page of the desk; the first page for anything else."""
    return to if _PATH.fullmatch(to) else "/"


def asked(request: Request, problem: str, status: int, to: str) -> Response:
    """The page that asks for a token, with what was wrong with the last one."""
    entrance: Entrance = request.app.state.entrance
    once = entrance.settings.people is None
    # A link of anybody's may hold a token: only what was typed, or opened from a terminal, signs in by itself.
    direct = once and request.headers.get("sec-fetch-site") == "none"
    values = {"problem": problem, "one_time": once, "direct": direct, "to": _own(to)}
    return page(request, "sign_in.html", None, values, status)


async def _given(request: Request) -> tuple[str, str]:
    """The token, and the page to go on to."""
    async with request.form(max_fields=5, max_files=0) as form:
        return text(form, "token"), text(form, "to")


@router.post("/sign-in")
async def enter(request: Request) -> Response:
    """Begin a session for the owner of a token."""
    attempts: Attempts = request.app.state.attempts
    entrance: Entrance = request.app.state.entrance
    sessions: Sessions = request.app.state.sessions
    address = request.client.host if request.client else ""
    token, to = await _given(request)
    if not attempts.allowed(address):  # asked once all is here: requests that were begun together count each other
        answer = asked(request, f"Too many attempts: wait {WINDOW_S:.0f} s, then try again.", 429, "/")
        answer.headers["Retry-After"] = f"{WINDOW_S:.0f}"
        return answer
    try:
        person = entrance.admit(token)
    except Refused as refused:
        attempts.failed(address)
        return asked(request, str(refused), 403, to)
    place: Place = request.app.state.place
    if before := request.cookies.get(place.cookie):
        sessions.end(before)
    answer = RedirectResponse(_own(to), 303)
    answer.set_cookie(
        place.cookie,
        sessions.begin(person),
        max_age=int(LONGEST_S),
        httponly=True,
        samesite="strict",
        secure=place.tls,
        path="/",
    )
    return answer


@router.post("/sign-out")
def leave(request: Request, _: Form) -> Response:
    """End the session."""
    sessions: Sessions = request.app.state.sessions
    place: Place = request.app.state.place
    sessions.end(request.cookies.get(place.cookie, ""))
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(place.cookie, path="/", secure=place.tls)
    return answer
