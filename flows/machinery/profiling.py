"""Time profile of a run, printed at its end by ``fieldcraft run --profile``; without that nothing is measured.

Spans may be nested, and each second counts for the innermost span alone: the spans add up to the whole, to rounding.
A step's span lies within Prefect's span, so that Prefect's is the overhead of calling the step.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

ELSE = "start and end"
ORDER = (
    *("harvest", "dispatch", "decide", "emulator_points", "emulator_train"),
    *("collocate", "train", "acquire", "approve"),
    *("notices", "waiting", "export", "prefect", ELSE),
)


@dataclass
class Spent:
    """Time under one name.

    Args:
        count: Number of times it was begun.
        seconds: Wall time in seconds, without that of spans within.
    """

    count: int = 0
    seconds: float = 0.0


@dataclass
class Profile:
    """Time spent, by name, since it was made.

    Args:
        clock: Clock in seconds, from any origin.
        trials: Number of trials settled meanwhile.
    """

    clock: Callable[[], float] = time.perf_counter
    trials: int = 0
    spent: dict[str, Spent] = field(default_factory=lambda: {ELSE: Spent(1)})
    _open: list[str] = field(default_factory=lambda: [ELSE])

    def __post_init__(self) -> None:
        self.began = self._last = self.clock()

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Count the time of the block for ``name``, however it ends."""
        self._settle()
        self.spent.setdefault(name, Spent()).count += 1
        self._open.append(name)
        try:
            yield
        finally:
            self._settle()
            self._open.pop()

    def _settle(self) -> None:
        """Add the time since the last call to the innermost span."""
        now = self.clock()
        self.spent[self._open[-1]].seconds += now - self._last
        self._last = now

    def data(self) -> dict[str, Any]:
        """Time spent until now, as JSON: seconds in all and by name, with counts, shares and seconds a trial."""
        self._settle()
        whole = self._last - self.began
        named = sorted(self.spent.items(), key=lambda item: ORDER.index(item[0]))
        parts = {
            name: {
                "count": spent.count,
                "seconds": spent.seconds,
                "per_trial": spent.seconds / self.trials if self.trials else None,
                "share": spent.seconds / whole if whole else 0.0,
            }
            for name, spent in named
        }
        return {"seconds": whole, "trials": self.trials, "parts": parts}


_profile: ContextVar[Profile | None] = ContextVar("profile", default=None)


@contextmanager
def profiled() -> Iterator[Profile]:
    """Measure the spans of the block."""
    token = _profile.set(profile := Profile())
    try:
        yield profile
    finally:
        _profile.reset(token)


def span(name: str) -> AbstractContextManager[None]:
    """Count the time of the block under ``name`` (one of ``ORDER``), if profiling is on."""
    profile = _profile.get()
    return nullcontext() if profile is None else profile.span(name)


def settled(trials: int) -> None:
    """Add to the number of settled trials."""
    if (profile := _profile.get()) is not None:
        profile.trials += trials


def step_name(step: Callable[..., Any]) -> str:
    """Name of a step: its function's name without ``_step``."""
    return step.__name__.removesuffix("_step")


def measured(step: Callable[P, T]) -> Callable[P, T]:
    """The step, with its time counted under its name."""

    @wraps(step)
    def timed(*args: P.args, **kwargs: P.kwargs) -> T:
        with span(step_name(step)):
            return step(*args, **kwargs)

    return timed


def profile_text(data: dict[str, Any]) -> str:
    """The data of ``Profile.data`` as a table."""
    trials = data["trials"]
    lines = [
        f"{data['seconds']:.1f} s, {trials} trials settled",
        f"{'':15}{'count':>6}{'seconds':>10}{'s/trial':>9}{'share':>7}",
    ]
    for name, part in data["parts"].items():
        each = "" if part["per_trial"] is None else f"{part['per_trial']:.4f}"
        lines.append(f"{name:15}{part['count']:6}{part['seconds']:10.3f}{each:>9}{part['share']:7.1%}")
    return "\n".join(lines)
