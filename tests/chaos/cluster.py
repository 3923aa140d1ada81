"""The world outside the engine: a clock, a cluster that runs jobs, and a network between that does harm.

What the cluster knows is the truth. It keeps to the contract of ``flows.jobs.dispatcher`` (``find`` says None only of
what was never begun and never will be, a job that is said to have failed stays failed); within it, everything may
happen.
"""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import xarray as xr

from fieldcraft.flows.jobs.dispatcher import CannotTell, Failed, Finished, Job, Lost, NotSent, Outcome, Place, Running
from fieldcraft.storage.fields import FieldDamaged

CLUSTERS: dict[str, "Cluster"] = {}  # by campaign: where the dispatcher ``faulty`` finds its own
LEVELS = 16  # few different fields, so that the store holds them all after a while
WALL_TIME_S = 100.0


class Killed(BaseException):
    """The process of the engine is gone; nothing but a transaction's end may run after it."""


@dataclass
class Clock:
    """The one clock of a schedule, in seconds since the epoch."""

    now: float = 1.8e9

    def __call__(self) -> float:
        self.now += 1e-3  # no two moments are the same
        return self.now


@dataclass
class Run:
    """A job that began.

    Attributes:
        design: What was asked for.
        began: When.
        ends: When it ends by itself.
        end: How: ``result``, a kind of failure, ``vanished`` (no word, ever), ``late`` (no word until ``speaks``),
            ``damaged`` (its result cannot be read).
        share: Part of the expected cost that a failure costs.
        speaks: When a late result turns up.
        submissions: How often it was asked for.
        cancelled: When it was stopped.
        told: Kinds of outcome that the engine was told.
        deleted: Whether the engine had its files deleted, with any result that was there or was to come.
    """

    design: dict[str, Any]
    began: float
    ends: float
    end: str
    share: float
    speaks: float
    submissions: int = 1
    cancelled: float | None = None
    told: set[str] = field(default_factory=set)
    deleted: bool = False

    @property
    def cost(self) -> float:
        """What it really costs, in budget units."""
        return self.design["pieces"] * (self.share if self.end in ("transient", "infeasible") else 1.0)

    def stopped(self, now: float) -> bool:
        """Whether it was stopped before it ended."""
        return self.cancelled is not None and self.cancelled < self.ends

    def has_result(self, now: float) -> bool:
        """Whether a sound result of it lies there."""
        due = self.speaks if self.end == "late" else self.ends
        return self.end in ("result", "late") and now >= due and not self.stopped(now)


@dataclass
class Cluster:
    """Jobs, by key, and what the network does to words about them.

    Attributes:
        clock: The schedule's.
        random: Draws faults and fates.
        fault: Chance that a word is lost, late or out of order; 0 in calm weather.
        forgetful: Whether the cluster does not know keys, as ``inline`` does not: for what may be repeated.
        meanwhile: Called within every word, with what it is about: others act, time passes, the engine is killed.
        asked: Called with every submission as it leaves the engine.
        forgotten: Called with the key of what the engine has deleted, before it is.
        faults: What was done, by name.
    """

    clock: Clock
    random: Random
    forgetful: bool
    meanwhile: Callable[[str], None]
    asked: Callable[[Job], None]
    forgotten: Callable[[str], None]
    fault: float = 0.15
    runs: dict[str, Run] = field(default_factory=dict)
    travelling: dict[str, tuple[float, Job]] = field(default_factory=dict)  # submissions not there yet: when, what
    faults: Counter = field(default_factory=Counter)

    def strikes(self, what: str, share: float = 1.0) -> bool:
        """Whether a fault happens now; it is counted."""
        if self.random.random() >= self.fault * share:
            return False
        self.faults[what] += 1
        return True

    def submit(self, job: Job, place: Place) -> dict[str, Any]:
        self.asked(job)
        if self.strikes("refused submission", 0.5):
            raise NotSent(f"{job.key}: no room. Later.")
        (place.folder / job.key).mkdir(parents=True, exist_ok=True)
        if self.strikes("lost submission", 0.5):
            raise CannotTell("no answer")
        if self.strikes("submission on its way for long", 0.3):
            self.travelling[job.key] = (self.clock.now + self.random.uniform(0.0, 3000.0), job)
            raise CannotTell("no answer")
        self._begin(job)
        if self.strikes("submission delivered twice", 0.5):
            self._begin(job)
        self.meanwhile("submitted")
        if self.strikes("lost reply to a submission"):
            raise CannotTell("no answer")
        return {"key": job.key}

    def _begin(self, job: Job) -> None:
        if job.key in self.runs and not self.forgetful:
            self.runs[job.key].submissions += 1  # the contract: submitting a key twice runs it once
            return
        ends = ["result"] * 12 + ["transient", "infeasible", "unknown", "vanished", "late", "damaged"]
        end = self.random.choice(ends) if self.fault else "result"
        if end != "result":
            self.faults[f"job: {end}"] += 1
        began, lasts = self.clock.now, self.random.uniform(0.1, WALL_TIME_S)
        speaks = began + lasts + self.random.uniform(10.0, 20000.0)
        again = self.runs[job.key].submissions if job.key in self.runs else 0
        run = Run(dict(job.request["design"]), began, began + lasts, end, self.random.random(), speaks, again + 1)
        self.runs[job.key] = run

    def find(self, key: str) -> dict[str, Any] | None:
        self.meanwhile("find")
        if self.strikes("lost question") or self._is_travelling(key):
            raise CannotTell(f"nobody can say whether {key} was begun")
        return {"key": key} if key in self.runs and not self.forgetful else None

    def _is_travelling(self, key: str) -> bool:
        due, job = self.travelling.get(key, (0.0, None))
        if job is None:
            return False
        if due > self.clock.now:
            return True
        del self.travelling[key]
        self._begin(job)
        return False

    def look(self, key: str) -> Outcome:
        """What the network brings of what became of a job."""
        self.meanwhile("look")
        run = self.runs[key]
        if self.strikes("lost question"):
            raise CannotTell("no answer")
        if not run.told and self.strikes("old reply"):
            return Running()
        outcome = self._outcome(run)
        if not isinstance(outcome, Running):
            run.told.add(type(outcome).__name__)
        return outcome

    poll = look  # nothing that ended here begins again

    def _outcome(self, run: Run) -> Outcome:
        now = self.clock.now
        if run.stopped(now):
            return Failed("cancelled", "it was stopped")
        if now < run.ends:
            return Running()
        seconds = run.ends - run.began
        if run.end in ("transient", "infeasible", "unknown"):
            cost = None if run.end == "unknown" else run.cost
            return Failed(run.end, f"it ended as {run.end}", cost, seconds)
        if run.end == "vanished" or (run.end == "late" and now < run.speaks):
            return Lost("it is gone")
        return Finished(seconds)

    def fetch(self, key: str) -> xr.Dataset:
        self.meanwhile("fetch")
        if self.runs[key].end == "damaged":
            raise FieldDamaged(f"the result of {key} cannot be read")
        assert self.runs[key].has_result(self.clock.now), f"the engine fetched {key}, which has no result"
        return xr.Dataset({"level": ((), float(level(key)), {"units": "m"})})

    def cancel(self, key: str) -> None:
        self.meanwhile("cancel")
        run = self.runs[key]
        if not self.strikes("lost cancellation", 2.0) and run.cancelled is None and self.clock.now < run.ends:
            run.cancelled = self.clock.now

    def forget(self, key: str, place: Place) -> None:
        self.meanwhile("forget")
        if key in self.runs:
            self.forgotten(key)
        if self.strikes("files that come back", 2.0):  # so that the result is brought a second time
            return
        if key in self.runs:
            self.runs[key].deleted = True
        shutil.rmtree(place.folder / key, ignore_errors=True)


def level(key: str) -> int:
    """Tells the results of different attempts apart."""
    trial, attempt = key.rpartition("-")[::2]
    return (5 * int(trial.rpartition("-")[2]) + int(attempt)) % LEVELS
