"""The table of a campaign's trials: sorted, filtered and cut into pages where the trials are, not in the browser."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fieldcraft.flows.analysis.existing import existing
from fieldcraft.flows.analysis.levels import level_name, levels_of
from fieldcraft.flows.text import FIGURES
from fieldcraft.flows.views.data import quantity
from fieldcraft.storage.records import SETTLED, CampaignRecord, TrialState, TrialSummary

ROWS = 100


@dataclass(frozen=True)
class Column:
    """A column.

    Args:
        key: Its name in a page's address.
        title: Its heading, with the unit.
        value: Value of a trial, by which the column sorts; None where it has none.
        number: True if its values are numbers.
        figures: Significant figures in which they are told.
    """

    key: str
    title: str
    value: Callable[[TrialSummary], Any]
    number: bool = True
    figures: int = FIGURES


@dataclass(frozen=True)
class Wanted:
    """Wishes of a viewer: order, filter and page.

    Args:
        sort: Key of the column to sort by.
        down: True for the greatest first.
        state: State of the trials; empty for all.
        text: Text that the trial's id, its design or a result holds, as the table shows them; empty for all.
        page: Number of the page, from 1.
    """

    sort: str = "trial"
    down: bool = True
    state: str = ""
    text: str = ""
    page: int = 1

    def address(self, **changes: Any) -> str:
        """Query of the same with some of it changed."""
        words = {**self.__dict__, **changes}
        words["down"] = "1" if words["down"] else "0"
        return urlencode({name: value for name, value in words.items() if value != ""})


Known = Mapping[str, Mapping[str, float]]
"""Outputs that are known of trials that are incomplete, by trial."""


def columns_of(campaign: CampaignRecord, trials: Sequence[TrialSummary], known: Known) -> list[Column]:
    """Columns of the trials: what they are, each variable, each output, and what they cost or are expected to."""
    units, names = campaign.environment["units"], list(trials[0].design) if trials else []
    outputs, figures = campaign.environment["outputs"], campaign.environment.get("figures", {})
    return [
        Column("trial", "trial", lambda trial: trial.number, number=False),
        Column("state", "state", lambda trial: str(trial.state), number=False),
        *(
            Column(
                f"x.{name}",
                _titled(name, units.get(name, "")),
                _variable(campaign, name),
                _numeric(trials, name),
                figures.get(name, FIGURES),
            )
            for name in names
        ),
        *(
            Column(f"y.{each['name']}", _titled(each["name"], each["unit"]), _output(each["name"], known))
            for each in outputs
        ),
        *([Column("level", "level", _level(campaign), number=False)] if levels_of(campaign) else []),
        Column("iteration", "iteration", lambda trial: trial.iteration),
        Column(
            "cost",
            _titled("cost", str(campaign.spec["budget"].get("unit", ""))),
            lambda trial: trial.spent if trial.state in SETTLED else trial.spent + trial.cost,
        ),
    ]


def _level(campaign: CampaignRecord) -> Callable[[TrialSummary], Any]:
    return lambda trial: level_name(campaign, trial.level) or None


def _variable(campaign: CampaignRecord, name: str) -> Callable[[TrialSummary], Any]:
    return lambda trial: existing(campaign, trial.actual).get(name)


def _output(name: str, known: Known) -> Callable[[TrialSummary], Any]:
    return lambda trial: (trial.outputs or known.get(trial.id, {})).get(name)


def _titled(name: str, unit: str) -> str:
    return f"{name} [{unit}]" if unit else name


def _numeric(trials: Sequence[TrialSummary], name: str) -> bool:
    return not isinstance(trials[0].design.get(name), str)


def table_of(campaign: CampaignRecord, trials: Sequence[TrialSummary], wanted: Wanted, known: Known) -> dict[str, Any]:
    """One page of the table, for its template."""
    columns = columns_of(campaign, trials, known)
    found = _sorted(columns, _kept(columns, trials, wanted), wanted)
    pages = max(1, -(-len(found) // ROWS))
    at = min(max(1, wanted.page), pages)
    shown = found[(at - 1) * ROWS : at * ROWS]
    return {
        "columns": columns,
        "rows": [(trial, [_cell(column, trial) for column in columns]) for trial in shown],
        "count": len(found),
        "of": len(trials),
        "page": at,
        "pages": pages,
        "wanted": wanted,
        "incomplete": known,
        "states": [state.value for state in TrialState],
    }


def _kept(columns: Sequence[Column], trials: Iterable[TrialSummary], wanted: Wanted) -> list[TrialSummary]:
    text, named = wanted.text.strip().lower(), [column for column in columns if column.key[:2] in ("x.", "y.")]
    return [
        trial
        for trial in trials
        if (not wanted.state or trial.state == wanted.state)
        and (
            not text
            or text in trial.id.lower()
            or any(text in str(each).lower() for each in trial.design.values())
            or any(text in _cell(column, trial)["text"].lower() for column in named)
        )
    ]


def _sorted(columns: Sequence[Column], trials: list[TrialSummary], wanted: Wanted) -> list[TrialSummary]:
    """The trials in the order wanted; those without a value in that column come last, whichever way it is sorted."""
    column = next((column for column in columns if column.key == wanted.sort), columns[0])
    having = [trial for trial in trials if column.value(trial) is not None]
    without = [trial for trial in trials if column.value(trial) is None]
    return [*sorted(having, key=_key(column), reverse=wanted.down), *without]


def _key(column: Column) -> Callable[[TrialSummary], tuple[bool, Any]]:
    """Numbers before texts: a variable may have both."""
    return lambda trial: (isinstance(value := column.value(trial), str), value)


def _cell(column: Column, trial: TrialSummary) -> Mapping[str, Any]:
    value = column.value(trial)
    text = trial.id if column.key == "trial" else "" if value is None else quantity(value, "", column.figures)
    return {"text": text, "number": column.number, "key": column.key}
