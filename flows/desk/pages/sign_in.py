"""Sign-in and sign-out."""

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from fieldcraft.flows.desk.entering import COOKIE, Entrance, Form, found, text
from fieldcraft.flows.desk.rendering import page
from fieldcraft.flows.desk.sessions import LONGEST_S, WINDOW_S, Attempts, Sessions
from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.identity import Refused

router = APIRouter()


@router.get("/sign-in")
def ask(request: Request) -> Response:
    """The page that asks for a token."""
    try:
        found(request, renew=False)
    except FieldcraftError:
        return _asked(request, "", 200)
    return RedirectResponse("/", 303)


def _asked(request: Request, problem: str, status: int) -> Response:
    entrance: Entrance = request.app.state.entrance
    values = {"problem": problem, "one_time": entrance.settings.people is None}
    return page(request, "sign_in.html", None, values, status)


async def _token(request: Request) -> str:
    async with request.form(max_fields=2, max_files=0) as form:
        return text(form, "token")


@router.post("/sign-in")
async def enter(request: Request) -> Response:
    """Begin a session for the owner of a token."""
    attempts: Attempts = request.app.state.attempts
    entrance: Entrance = request.app.state.entrance
    sessions: Sessions = request.app.state.sessions
    address = request.client.host if request.client else ""
    if not attempts.allowed(address):
        answer = _asked(request, f"Too many attempts: wait {WINDOW_S:.0f} s, then try again.", 429)
        answer.headers["Retry-After"] = f"{WINDOW_S:.0f}"
        return answer
    try:
        person = entrance.admit(await _token(request))
    except Refused as refused:
        attempts.failed(address)
        return _asked(request, str(refused), 403)
    if before := request.cookies.get(COOKIE):
        sessions.end(before)
    answer = RedirectResponse("/", 303)
    tls: bool = request.app.state.place.tls
    answer.set_cookie(
        COOKIE, sessions.begin(person), max_age=int(LONGEST_S), httponly=True, samesite="strict", secure=tls, path="/"
    )
    return answer


@router.post("/sign-out")
def leave(request: Request, _: Form) -> Response:
    """End the session."""
    sessions: Sessions = request.app.state.sessions
    sessions.end(request.cookies.get(COOKIE, ""))
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer
