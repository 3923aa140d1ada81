"""The card of a proposal: all that a person needs to decide on it, as data."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcraft.flows.analysis.existing import absent
from fieldcraft.flows.desk.board import Standing
from fieldcraft.flows.spec.campaign_file import CampaignSpec, stored
from fieldcraft.flows.text import clock, counted
from fieldcraft.flows.views.data import outputs_text, quantity, ranked, setting
from fieldcraft.physics.space import Categorical, Continuous, Integer, SearchSpace, Variable
from fieldcraft.storage.records import CampaignRecord, Level, Trial, TrialState, TrialSummary

_SEEN = 100  # earlier trials that a strip shows, the latest
_NEAREST = 3
_WIDTH = 240.0  # of a strip, in its own units
Position = float | None


@dataclass(frozen=True)
class Strip:
    """One variable of a design, and its place among earlier trials.

    Args:
        name: Name of the variable.
        text: Value with its unit.
        value: Value alone, for a field of a form.
        unit: Unit.
        low: Least value, as text; the first level.
        high: Greatest value, as text; the last level.
        levels: Levels of a variable that has no scale.
        at: Place on the strip; None where the space does not say.
        seen: Places of earlier trials.
        best: Place of the best one.
        exists: False for a variable that the levels of the design do not have: it is no part of the card.
    """

    name: str
    text: str
    value: Level
    unit: str
    low: str = ""
    high: str = ""
    levels: tuple[str, ...] = ()
    at: Position = None
    seen: tuple[float, ...] = ()
    best: Position = None
    exists: bool = True

    @property
    def told(self) -> str:
        """The strip in words."""
        where = f"{self.text}, between {self.low} and {self.high}" if self.low else self.text
        return f"{self.name} {where}; {counted(len(self.seen), 'earlier trial')} shown"


def cards_of(
    standing: Standing, space: SearchSpace | None, waiting: Sequence[Mapping[str, Any]], proposals: Sequence[Trial]
) -> list[dict[str, Any]]:
    """Cards of a campaign's proposals.

    Args:
        standing: Standing of the campaign.
        space: Its search space; None where its code is not here.
        waiting: Entries of the proposals, from ``flows.views.pending.queue_data``.
        proposals: The same as trials.
    """
    spec = stored(standing.campaign.spec, f"campaign {standing.campaign.name}")
    trials = {trial.id: trial for trial in proposals}
    seen = [trial for trial in standing.trials if trial.counts]
    best = next((t for t in seen if t.id == standing.status["best_design"]), None)
    return [
        {
            **entry,
            "choice": f"{entry['trial']}@{entry['revision']}-{entry['digest']}",
            "strips": [
                replace(
                    _strip(standing.campaign, entry, name, space, seen, best),
                    exists=name not in absent(standing.campaign, entry["design"]),
                )
                for name in entry["design"]
            ],
            "nearest": nearest(standing, space, entry["design"], seen),
            "why": _edited(standing.campaign, entry) if entry["edited"] else reasons(trials[entry["trial"]]),
            "asked": trials[entry["trial"]].created,
            "cost_text": quantity(float(entry["cost"]), spec.budget.unit),
            "left": _left(standing, spec, trials[entry["trial"]]),
            "causes": _causes(spec, entry["trial"]),
        }
        for entry in waiting
        if entry["trial"] in trials
    ]


def _strip(
    campaign: CampaignRecord,
    entry: Mapping[str, Any],
    name: str,
    space: SearchSpace | None,
    seen: Sequence[TrialSummary],
    best: TrialSummary | None,
) -> Strip:
    value, unit = entry["design"][name], entry["units"][name]
    variable = next((v for v in space.variables if v.name == name), None) if space else None
    text = setting(campaign, name, value)
    if not isinstance(variable, Continuous | Integer | Categorical):
        return Strip(name, text, value, unit)
    if isinstance(variable, Categorical):
        levels, ends = variable.levels, (variable.levels[0], variable.levels[-1])
    else:
        low, high = (setting(campaign, name, each, unit=False) for each in (variable.low, variable.high))
        levels, ends = (), (low, high)
    places = (_place(variable, trial.actual.get(name)) for trial in seen[-_SEEN:])
    return Strip(
        name,
        text,
        value,
        unit,
        *ends,
        levels,
        _place(variable, value),
        tuple(place for place in places if place is not None),
        None if best is None else _place(variable, best.actual.get(name)),
    )


def _share(variable: Variable, value: Level | None) -> Position:
    """Value of a variable as a share of its range, from 0 to 1; None where it has none."""
    if isinstance(variable, Categorical):
        return (variable.levels.index(value) + 0.5) / len(variable.levels) if value in variable.levels else None
    if not isinstance(variable, Continuous | Integer) or isinstance(value, str) or value is None:
        return None
    if variable.high == variable.low:
        return None
    if variable.log and value <= 0:
        return 0.0
    return min(1.0, max(0.0, (float(variable.encode(value)[0]) + 1) / 2))


def _place(variable: Variable, value: Level | None) -> Position:
    share = _share(variable, value)
    return None if share is None else round(6 + share * (_WIDTH - 12), 1)


def nearest(
    standing: Standing, space: SearchSpace | None, design: Mapping[str, Level], seen: Sequence[TrialSummary]
) -> list[tuple[str, str, str]]:
    """Earlier trials closest to a design: id, distance in % of the ranges, and result.

    The distance is the root mean square, over the variables, of the difference as a share of the range; for levels
    without order it is 0 or 1, and for variables that do not exist in one of the two it is 0.
    """
    if space is None or not seen:
        return []
    key = tuple(trial.id for trial in seen)
    known = standing.once(key, lambda: _coordinates(space, [trial.actual for trial in seen]))
    apart = np.nan_to_num(known - _coordinates(space, [design]))
    around = [variable.name in space.folds.periodic for variable in space.variables]
    apart[:, around] = np.remainder(apart[:, around] + 0.5, 1.0) - 0.5
    levels = [isinstance(variable, Categorical) and not variable.ordered for variable in space.variables]
    apart[:, levels] = apart[:, levels] != 0
    distance = np.sqrt((apart**2).mean(axis=1))
    order = np.argsort(distance, kind="stable")[:_NEAREST]
    outputs = [outputs_text(standing.campaign, seen[n].outputs) for n in order]
    return [(seen[n].id, f"{100 * distance[n]:.0f} %", text) for n, text in zip(order, outputs, strict=True)]


def _coordinates(space: SearchSpace, designs: Sequence[Mapping[str, Level]]) -> NDArray[np.float64]:
    """Designs as coordinates, shape (n, variables): a share of the range, a level's place; NaN where it has neither."""
    told = [space.folds.existing(design) for design in designs]
    shares = [[_share(variable, design.get(variable.name)) for variable in space.variables] for design in told]
    return np.array(shares, dtype=float).reshape(len(designs), len(space.variables))


def _edited(campaign: CampaignRecord, entry: Mapping[str, Any]) -> list[str]:
    """Reason of a design that a person made of a proposal: who, what and why."""
    edited = entry["edited"]
    changed = ", ".join(
        f"{name} from {setting(campaign, name, edited['was'][name])} to {setting(campaign, name, value)}"
        for name, value in entry["design"].items()
        if name in edited["was"] and edited["was"][name] != value
    )
    why = edited["reason"] or "no reason was given"
    return [
        f"{edited['by']} changed {changed or 'it'}: {why}.".replace("..", "."),
        f"No model asked for this design. What asked for {entry['trial']} before the edit holds for it no more.",
    ]


def reasons(trial: Trial) -> list[str]:
    """Reason of a proposal, as far as the ledger has it."""
    origin = trial.origin
    if origin.level is not None and origin.kind == "initial":
        return [f"One of the first designs, run at a coarser level too ({origin.algorithm})."]
    if origin.kind == "initial":
        return [f"Chosen by the start, not by a model of the results ({origin.algorithm})."]
    for_cost = "" if origin.level is None else ", for the cost of a run at this level"
    said = [f"The model expects to learn or gain most here{for_cost} ({origin.algorithm})."]
    if (of := origin.remarks.get("repeat")) is not None:
        said.append(f"A repeat {of}: the same design once more, since results are noisy.")
    if origin.scores:
        best = ", ".join(f"{name} {value:.1f}" for name, value in list(ranked(origin.scores).items())[:3])
        said.append(f"Models compared by their predictions of past results, the best first: {best}.")
    if origin.certificate is not None:
        said.append(f"Proven: nothing in the space scores higher by more than {origin.certificate.gap:.3g}.")
    return said + [f"{name}: {text}" for name, text in origin.remarks.items() if name != "repeat"]


def _left(standing: Standing, spec: CampaignSpec, trial: Trial) -> str:
    """Budget that is left once a trial is run, and what is approved and not sent yet."""
    spending = standing.status["spending"]
    trials, money = spending["trials"], spending["cost"]
    runs: list[Trial | TrialSummary] = [trial, *(each for each in standing.trials if each.state is TrialState.APPROVED)]
    left = max(0, int(trials["limit"]) - int(trials["spent"]) - sum(each.level is None for each in runs))
    text = f"{left} of {trials['limit']} trials"
    if money["limit"] is not None:
        rest = (
            float(money["limit"]) - float(money["spent"]) - float(money["reserved"]) - sum(each.cost for each in runs)
        )
        text += f" and {quantity(rest, '')} of {quantity(float(money['limit']), spec.budget.unit)}"
    return text


def _causes(spec: CampaignSpec, trial: str) -> str:
    """Effect of an approval."""
    chosen, until = spec.dispatcher, spec.approval.expires_h
    if chosen.kind == "lab":
        what = f"The next pass hands {trial} to the laboratory as a work order."
    else:
        times = "once" if chosen.attempts == 1 else f"up to {chosen.attempts} times if it fails in passing"
        what = f"The next pass sends {trial} to {chosen.kind!r}, {times}."
    if until is None:
        return f"{what} The approval does not expire."
    return f"{what} An approval that is not used by {clock(time.time() + 3600 * until)} is void."
