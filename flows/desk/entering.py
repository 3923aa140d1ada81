"""Sign-in, and who makes a request: the owner of a token, with the role that the file of people gives now.

Where there is no file of people, the desk acts as the account that started it, as the commands do. Since any program of
this machine can reach a port on loopback, it then asks for a token that is printed where it was started, and each one
is good for one sign-in.
"""

import hmac
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from fieldcraft.flows.desk.known_people import KnownPeople
from fieldcraft.flows.desk.sessions import Session, Sessions
from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.identity import Faulty, Person, Refused, acting, digest_of_token, fresh_token
from fieldcraft.flows.settings import Settings

LIVE = "fieldcraft-live"  # header of a page that renews itself
_LONGEST_TOKEN = 500
_MOST_FIELDS, _MOST_FILES, _LONGEST_FIELD = 2000, 50, 50_000


class SignInFirst(FieldcraftError):
    """The request comes from nobody whom the desk knows."""


class Entrance:
    """Check of the tokens by which people come.

    Args:
        settings: Settings, whose file of people has the tokens.
        printed: Tells the one-time token to whoever started the desk; called with each new one.
    """

    def __init__(self, settings: Settings, printed: Callable[[str], None]) -> None:
        self.settings = replace(settings, token=None)
        self.known = KnownPeople(self.settings)
        self._printed, self._lock, self._once = printed, threading.Lock(), ""
        if settings.people is None:
            self._renew()

    def _renew(self) -> None:
        token = fresh_token()
        self._once = digest_of_token(token)
        self._printed(token)

    def admit(self, token: str) -> str | None:
        """SHA-256 of a person's token; None for the account that started the desk.

        Raises:
            Refused: the token is not known, or was used before.
        """
        token = token.strip()[:_LONGEST_TOKEN]
        if self.settings.people is not None:
            self._owner(digest_of_token(token))
            return digest_of_token(token)
        with self._lock:
            if not hmac.compare_digest(self._once, digest_of_token(token)):
                raise Refused("That is not the token that the desk printed last: each is good for one sign-in.")
            self._renew()
        return None

    def person(self, session: Session) -> Person:
        """The person of a session, as the file of people has them now.

        Raises:
            identity.Faulty: the file has a fault, and is not known to have them any more.
        Refused: their token was taken out of it.
        """
        if session.person is None:
            return acting(self.settings, "read")
        return self._owner(session.person)

    def _owner(self, digest: str) -> Person:
        """The person; an error does not tell strangers where the file of people lies."""
        try:
            return self.known.owner(digest)
        except Refused as refused:
            told = str(refused).replace(str(self.settings.people), "the file of people")
            raise type(refused)(told) from None


@dataclass(frozen=True)
class Visit:
    """Person who makes a request, and their session.

    Args:
        person: The person.
        session: Their session.
    """

    person: Person
    session: Session

    def say(self, text: str, kind: str = "done") -> None:
        """Tell the person something on the next page that they see."""
        self.session.said = [*self.session.said[-9:], (kind, text)]


def visit_of(request: Request) -> Visit:
    """Visit of the person who makes a request; the time without one begins anew, unless a page only renews itself.

    Raises:
        SignInFirst: nobody the desk knows, or not any more.
    """
    return found(request, renew=LIVE not in request.headers)


def found(request: Request, *, renew: bool) -> Visit:
    """Visit of the person who makes a request; ``renew`` as in ``Sessions.find``; raises as ``visit_of``."""
    entrance: Entrance = request.app.state.entrance
    sessions: Sessions = request.app.state.sessions
    secret = request.cookies.get(request.app.state.place.cookie, "")
    session = sessions.find(secret, renew=renew) if secret else None
    if session is None:
        raise SignInFirst("Sign in first.")
    try:
        return Visit(entrance.person(session), session)
    except Refused as refused:
        if not isinstance(refused, Faulty):  # once that is mended they may be in the file again
            sessions.end(secret)
        raise SignInFirst(f"You were signed out: {refused}") from None


Visitor = Annotated[Visit, Depends(visit_of)]


async def form_of(request: Request, visit: Visitor) -> AsyncIterator[FormData]:
    """The form of a request that changes something, once its secret is seen to be the session's.

    Raises:
        HTTPException: it is not (403).
    """
    async with request.form(max_fields=_MOST_FIELDS, max_files=_MOST_FILES, max_part_size=_LONGEST_FIELD) as form:
        require_csrf(form, visit.session)
        yield form


def require_csrf(form: Mapping[str, UploadFile | str], session: Session) -> None:
    """Accept a form that a page of this very session has sent.

    Raises:
        HTTPException: another one, or none, has (403).
    """
    given = form.get("csrf")
    if not isinstance(given, str) or not hmac.compare_digest(digest_of_token(given), digest_of_token(session.csrf)):
        raise HTTPException(403, "This page is of another session: load it again. Nothing was changed.")


Form = Annotated[FormData, Depends(form_of)]


def text(form: Mapping[str, UploadFile | str], name: str) -> str:
    """A field of a form as text; empty where there is none."""
    value = form.get(name, "")
    return value if isinstance(value, str) else ""
