"""A run on a terminal: its lines of progress, above one live line that says where it stands."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fieldcraft.flows.analysis.best import best_trial
from fieldcraft.flows.machinery.progress import Listener
from fieldcraft.flows.text import counted, one_line
from fieldcraft.flows.views.data import outputs_text, settled
from fieldcraft.flows.views.display import Display
from fieldcraft.storage.ledger import Ledger

if TYPE_CHECKING:
    from rich.text import Text

_LEAST_TIMED = 3  # settled trials from which the time that is left is estimated
_ENDED = frozenset({"completed", "failed", "held", "cancelled"})


@contextmanager
def on_terminal(display: Display, as_json: bool) -> Iterator[Listener]:
    """The display, with a live line below it where standard output is a terminal that can have one.

    Colours follow the terminal; there are none with NO_COLOR.
    """
    if as_json or not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield display
        return
    from rich.console import Console
    from rich.live import Live

    line = LiveLine(display, display.open)
    with Live(get_renderable=line.text, console=Console(), refresh_per_second=2, transient=True):
        yield line


class LiveLine:
    """Standing of a run in one line: trials settled, best, simulations out, time left.

    Args:
        display: Display that prints the events.
        ledger: Opens the ledger; called once the campaign exists.
    """

    def __init__(self, display: Listener, ledger: Callable[[], Ledger]) -> None:
        self._display, self._open = display, ledger
        self._out = set[str]()
        self._first: tuple[int, float] | None = None  # settled trials at the first event, and when that was
        self._settled, self._budget, self._best, self._doing = 0, 0, "", "begins"

    def __call__(self, event: str, details: dict[str, Any]) -> None:
        """Show one event, and renew the line."""
        self._display(event, details)
        trial: Any = details.get("trial")
        if event == "started":
            self._out.add(trial.id)
        elif event in _ENDED:
            self._out.discard(trial.id)
        if (some := trial or next(iter(details.get("trials") or ()), None)) is not None and hasattr(some, "campaign"):
            self._count(some.campaign)
        self._doing = {"proposed": "approves", "trained": "proposes", "finished": "ends"}.get(event, "learns")

    def _count(self, name: str) -> None:
        ledger = self._open()
        campaign, trials = ledger.campaign(name), ledger.summaries(name)
        self._settled = settled(trials)
        self._budget = int(campaign.spec["budget"]["trials"])
        best = best_trial(campaign, trials)
        self._best = "" if best is None else outputs_text(campaign, best.outputs)
        self._first = self._first or (self._settled, time.monotonic())

    def text(self) -> "Text":
        """The line as it is now."""
        from rich.text import Text

        if not self._budget:
            return Text(self._doing, style="dim")
        parts = [(f"trial {self._settled} of {self._budget}", "bold")]
        parts += [(f"best {one_line(self._best)}", "green")] if self._best else []
        parts.append((f"{counted(len(self._out), 'experiment')} out" if self._out else self._doing, "cyan"))
        parts += [(f"about {left} left", "dim")] if (left := self._left()) else []
        return Text("  ").join(Text(words, style=style) for words, style in parts)

    def _left(self) -> str:
        """Estimate of the time to the end of the budget, by the trials that this run has settled; empty at first."""
        if self._first is None or (done := self._settled - self._first[0]) < _LEAST_TIMED:
            return ""
        seconds = (time.monotonic() - self._first[1]) / done * (self._budget - self._settled)
        return (
            f"{seconds:.0f} s"
            if seconds < 90
            else f"{seconds / 60:.0f} min"
            if seconds < 5400
            else f"{seconds / 3600:.1f} h"
        )
