"""Sessions of the people at the desk, kept in its memory, and the limit on attempts to sign in.

A browser holds a secret of 256 random bits in a cookie; the desk keeps its SHA-256. A session ends on sign-out, after a
time without a request, after a day's work in any case, and with the desk.
"""

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fieldcraft.flows.identity import digest_of_token

IDLE_S = 1800.0
LONGEST_S = 12 * 3600.0
MOST_OF_ONE = 20  # sessions of one person at once, so that nobody can end those of others
MOST = 500  # sessions at once; the one that was idle longest ends for a new one
TRIES, WINDOW_S = 10, 60.0  # failed sign-ins of one address within so many seconds
TRIES_OF_ALL = 300
_MOST_ADDRESSES = 10_000


@dataclass
class Session:
    """One person's session in one browser.

    Args:
        person: SHA-256 of the token by which they came; None for the account that started the desk.
        began: Time of the sign-in, in seconds of the sessions' clock.
        seen: Time of the last request that a person made.
        csrf: Secret that every form of the session's pages carries.
        said: What the next page tells: texts, each with its kind.
    """

    person: str | None
    began: float
    seen: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    said: list[tuple[str, str]] = field(default_factory=list)


class Sessions:
    """All sessions; may be used by several threads.

    Args:
        clock: Monotonic time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._by_digest: dict[str, Session] = {}

    def begin(self, person: str | None) -> str:
        """Begin a session for the owner of a token; returns the secret for their browser."""
        secret, now = secrets.token_urlsafe(32), self._clock()
        with self._lock:
            self._forget(now)
            own = {digest: session for digest, session in self._by_digest.items() if session.person == person}
            if len(own) >= MOST_OF_ONE:
                del self._by_digest[min(own, key=lambda digest: own[digest].seen)]
            elif len(self._by_digest) >= MOST:
                del self._by_digest[min(self._by_digest, key=lambda digest: self._by_digest[digest].seen)]
            self._by_digest[digest_of_token(secret)] = Session(person, now, now)
        return secret

    def find(self, secret: str, *, renew: bool = True) -> Session | None:
        """The live session of a browser, or None; ``renew`` counts this as a request of its person."""
        now = self._clock()
        with self._lock:
            self._forget(now)
            session = self._by_digest.get(digest_of_token(secret))
            if session is not None and renew:
                session.seen = now
            return session

    def end(self, secret: str) -> None:
        """End a session; one that is not there is no error."""
        with self._lock:
            self._by_digest.pop(digest_of_token(secret), None)

    def _forget(self, now: float) -> None:
        self._by_digest = {
            digest: session
            for digest, session in self._by_digest.items()
            if now - session.seen < IDLE_S and now - session.began < LONGEST_S
        }


class Attempts:
    """Failed sign-ins by address.

    Args:
        clock: Monotonic time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._of: dict[str, deque[float]] = {}
        self._all: deque[float] = deque(maxlen=TRIES_OF_ALL)

    def allowed(self, address: str) -> bool:
        """True if one more attempt may be made from an address."""
        since = self._clock() - WINDOW_S
        with self._lock:
            of = self._of.get(address, ())
            return sum(at > since for at in of) < TRIES and sum(at > since for at in self._all) < TRIES_OF_ALL

    def failed(self, address: str) -> None:
        """Count a failed attempt."""
        now = self._clock()
        with self._lock:
            if len(self._of) >= _MOST_ADDRESSES:
                self._of = {place: times for place, times in self._of.items() if times[-1] > now - WINDOW_S}
            if len(self._of) < _MOST_ADDRESSES:
                self._of.setdefault(address, deque[Any](maxlen=TRIES)).append(now)
            self._all.append(now)
