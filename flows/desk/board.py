"""Standings of campaigns, read once for all viewers, and the one poller of the ledger that tells them of commits."""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.views.data import status_data
from fieldcraft.flows.wiring.build import rewire
from fieldcraft.physics.space import SearchSpace
from fieldcraft.storage.ledger import Ledger, LedgerError
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import CampaignRecord, TrialSummary

T = TypeVar("T")
PERIOD_S = 0.3
_FRESH_S = 10.0  # some of a standing changes without a commit: a process ends, a retry falls due
_DRAWN = 40
_KEPT = 100_000  # trials in the standings that are kept, some 1 kB each
MOST_STREAMS = 300
MOST_OF_ONE = 30  # streams of one person at once, so that nobody can take those of others
AWAY = ":away"  # no campaign can bear that name


@dataclass(frozen=True)
class Standing:
    """A campaign as of one commit.

    Args:
        campaign: The campaign.
        event: Id of its latest event.
        read: Time of the reading, in seconds of the monotonic clock.
        status: Data of ``flows.views.data.status_data``.
        trials: Its trials in brief, by number.
        drawn: What pages have made of it, for the next viewer; emptied when it grows.
    """

    campaign: CampaignRecord
    event: int
    read: float
    status: Mapping[str, Any]
    trials: tuple[TrialSummary, ...]
    drawn: dict[Hashable, Any] = field(default_factory=dict, compare=False)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """A part of a page that all viewers share: made once for each key."""
        made: T | None = self.drawn.get(key)
        if made is None:
            if len(self.drawn) >= _DRAWN:
                self.drawn.clear()
            self.drawn[key] = made = make()
        return made


class Board:
    """Standings of the campaigns of a home; may be used by several threads.

    Args:
        settings: Settings, with the ledger.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._kept: OrderedDict[str, Standing] = OrderedDict()
        self._spaces: dict[str, SearchSpace | None] = {}
        self._lock = threading.Lock()

    @property
    def ledger(self) -> Ledger:
        """The ledger, found again for each use: it may have been away."""
        return open_ledger(self.settings.ledger)

    def standing(self, name: str) -> Standing:
        """Standing of a campaign, no older than its latest commit.

        Raises:
            storage.ledger.UnknownCampaign: there is none of that name.
        """
        ledger = self.ledger
        with self._lock:  # one reading for all who wait for it
            event, kept = ledger.last_event(name), self._kept.get(name)
            if kept is None or kept.event != event or time.monotonic() - kept.read > _FRESH_S:
                campaign = ledger.campaign(name)
                status = status_data(ledger, campaign)
                kept = Standing(campaign, event, time.monotonic(), status, ledger.summaries(name))
                self._kept[name] = kept
            self._kept.move_to_end(name)
            while len(self._kept) > 1 and sum(len(one.trials) for one in self._kept.values()) > _KEPT:
                self._kept.popitem(last=False)
            return kept

    def space(self, campaign: CampaignRecord) -> SearchSpace | None:
        """Search space of a campaign; None where its code is not here."""
        if campaign.digest not in self._spaces:
            try:
                self._spaces[campaign.digest] = rewire(campaign.spec, self.settings, algorithm=False).space
            except InputError:
                return None
        return self._spaces[campaign.digest]

    def standings(self) -> list[Standing]:
        """Standings of all campaigns, the youngest first."""
        return [self.standing(campaign.name) for campaign in reversed(self.ledger.campaigns())]

    def events(self) -> dict[str, int]:
        """Id of the latest event by campaign."""
        ledger = self.ledger
        return {campaign.name: ledger.last_event(campaign.name) for campaign in ledger.campaigns()}


class Poller:
    """The one reader of the ledger that all streams share; it reads while there is a stream.

    Args:
        board: Board whose campaigns are watched.
    """

    stopping: Callable[[], bool]
    """True once the server ends: it waits for its streams to end first."""
    ready: bool
    """True once the ledger was read for the first time: from then on no commit is missed."""

    def __init__(self, board: Board) -> None:
        self._board, self.stopping, self.ready = board, lambda: False, False
        self._streams: dict[asyncio.Queue[set[str] | None], Hashable] = {}
        self._task: asyncio.Task[None] | None = None

    def full(self, person: Hashable) -> bool:
        """True if no more streams are served, to anybody or to this person."""
        own = sum(each == person for each in self._streams.values())
        return own >= MOST_OF_ONE or len(self._streams) >= MOST_STREAMS

    async def changes(self, person: Hashable) -> AsyncIterator[set[str]]:
        """Names of the campaigns that changed, ``AWAY`` when the ledger goes away or comes back.

        The first is an empty set: no commit after it is missed. Others follow now and then. There is none at all where
        no more streams are served (``full``).
        """
        if self.full(person):  # others may have begun since that was asked
            return
        stream: asyncio.Queue[set[str] | None] = asyncio.Queue()
        self._streams[stream] = person
        if self._task is None or self._task.done():
            self.ready = False
            self._task = asyncio.create_task(self._poll())
        elif self.ready:
            stream.put_nowait(set())
        try:
            while (names := await stream.get()) is not None:
                yield names
        finally:
            del self._streams[stream]

    async def _poll(self) -> None:
        try:
            await self._follow()
        finally:  # a stream that ends is begun again by its page
            for stream in self._streams:
                stream.put_nowait(None)

    async def _follow(self) -> None:
        seen, quiet, self.ready = await self._read({}), 0.0, True
        for stream in self._streams:
            stream.put_nowait(set())
        while self._streams:
            await asyncio.sleep(PERIOD_S)
            if self.stopping():
                break
            now = await self._read(seen)
            changed = {name for name in now.keys() | seen.keys() if now.get(name) != seen.get(name)}
            seen, quiet = now, 0.0 if changed else quiet + PERIOD_S
            if changed or quiet >= _FRESH_S:
                quiet = 0.0
                for stream in self._streams:
                    stream.put_nowait(set(changed))

    async def _read(self, seen: Mapping[str, int]) -> dict[str, int]:
        try:
            return await run_in_threadpool(self._board.events)
        except (LedgerError, OSError):
            return {**seen, AWAY: 1}
