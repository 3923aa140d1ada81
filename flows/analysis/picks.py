"""Picks from the front of several objectives: by a knee or weights, and the one that a person has recorded.

Every objective is minimised here, one that is maximised after its sign is changed, and measured along the front:
z_k = (f_k - best_k) / (worst_k - best_k), from 0 at the front's best value of it to 1 at its worst.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fieldcraft.flows.analysis.best import objective_of
from fieldcraft.flows.analysis.front import front_data
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.text import quoted
from fieldcraft.storage.records import CampaignRecord, Event, Trial, TrialSummary

# Sums of z that differ by less are the same: a pick must not depend on rounding.
_SAME = 1e-9
_SINCE = {
    "retracted": "; its result was retracted since",
    "corrected": "; its result was corrected since",
    "off the front": "; it is off the front by now",
}


def knee(found: Mapping[str, Any]) -> str:
    """The trial of the front where sum_k z_k is least: of two objectives the one furthest below the line of its ends.

    Of more objectives it is the one furthest below the plane through the points (1, 0, ..., 0) to (0, ..., 0, 1) of z
    (Das, 1999, for such distances).

    Args:
        found: Data of ``flows.analysis.front.front_data``.

    Raises:
        InputError: the front has fewer than three designs, none lies below the line or plane, or several do equally.
    """
    members = _members(found)
    if len(members) < 3:
        raise InputError(
            f"The front has {len(members)} {'design' if len(members) == 1 else 'designs'}, and a knee needs three: "
            "pick one by its name. Nothing was recorded."
        )
    sums = {trial: sum(z) for trial, z in members.items()}
    if min(sums.values()) >= 1 - _SAME:
        raise InputError(
            "The front has no knee: no design lies below the line through its ends. Pick one by its name or by "
            "weights. Nothing was recorded."
        )
    return _least(sums, "the knee")


def as_weights(given: Mapping[str, Any]) -> dict[str, float]:
    """Weights of outputs as numbers.

    Raises:
        InputError: they are no mapping, or one is no number that a float holds.
    """
    if not isinstance(given, Mapping):
        raise InputError(
            f"The weights are {quoted(given)}: give one by the name of each objective. Nothing was recorded."
        )
    found = {}
    for name, weight in given.items():
        try:
            found[str(name)] = float(weight)
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"The weight of {name} is {quoted(weight)}: give a finite number >= 0. Nothing was recorded."
            ) from None
    return found


def by_weights(found: Mapping[str, Any], weights: Mapping[str, float]) -> str:
    """The trial of the front where sum_k w_k z_k is least (Zadeh, 1963). A design in a dent of the front never is.

    Args:
        found: Data of ``flows.analysis.front.front_data``.
        weights: w_k >= 0 of every objective, not all 0.

    Raises:
        InputError: a weight is missing, unknown, negative or not finite, all are 0, or several designs are equal.
    """
    names = [each["output"] for each in found["objectives"]]
    if set(weights) != set(names):
        raise InputError(
            f"The weights are of {', '.join(weights) or 'nothing'}, and the objectives are {', '.join(names)}: give "
            "one of each, 0 for none. Nothing was recorded."
        )
    wrong = [name for name, weight in weights.items() if not (math.isfinite(weight) and weight >= 0)]
    if wrong or not any(weights.values()):
        said = f"that of {wrong[0]} is {weights[wrong[0]]}" if wrong else "all are 0"
        raise InputError(f"Weights are finite and >= 0, one of them above 0, and {said}. Nothing was recorded.")
    most = max(weights.values())
    shares = [weights[name] / most for name in names]  # of any finite weights a finite sum
    members = _members(found)
    sums = {t: sum(share * each for share, each in zip(shares, z, strict=True)) for t, z in members.items()}
    return _least({trial: value / sum(shares) for trial, value in sums.items()}, "the best by these weights")


def require_on_front(
    campaign: CampaignRecord, found: Mapping[str, Any] | None, trial: Trial | TrialSummary
) -> Mapping[str, Any]:
    """The front, if a trial is on it.

    Raises:
        InputError: the campaign has one objective, or the trial has no result, an infeasible one, or a dominated one.
    """
    front = several(campaign, found)
    if any(entry["trial"] == trial.id for entry in front["trials"]):
        return front
    objective = objective_of(campaign)
    if not trial.outputs:
        why = f"is {trial.state} and has no result"
    elif not objective.feasible(trial.outputs):
        broken = ", ".join(f"{name} {value:g}" for name, value in objective.excess(trial.outputs).items() if value)
        why = f"is not feasible ({broken} above 0)"
    else:
        why = "is dominated by other results"
    on = ", ".join(entry["trial"] for entry in front["trials"][:9]) or "nothing yet"
    raise InputError(f"{trial.id} {why}, so it is not on the front. On it: {on}. Nothing was recorded.")


def several(campaign: CampaignRecord, found: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The front of a campaign.

    Raises:
        InputError: the campaign has one objective.
    """
    if found is None:
        raise InputError(
            f"Campaign {campaign.name!r} has one objective, whose best 'fieldcraft status {campaign.name}' tells: "
            "there is no front to pick from."
        )
    return found


def picked_data(
    event: Event | None, campaign: CampaignRecord, trials: Sequence[Trial] | Sequence[TrialSummary]
) -> dict[str, Any] | None:
    """The pick of an event (``Ledger.picked``) as data; None where there is none.

    Returns:
        ``trial``, ``design``, ``outputs`` as they were picked, ``by``, ``reason``, ``how`` (``{"rule": ...}``),
        ``created``, and ``since``: None, or what has changed of it since: ``retracted``,
        ``corrected``, ``off the front``, or ``corrected, off the front``.
    """
    if event is None:
        return None
    trial = next(each for each in trials if each.id == event.trial)
    found = front_data(campaign, trials)
    on = found is not None and any(entry["trial"] == trial.id for entry in found["trials"])
    changed = dict(trial.outputs or {}) != dict(event.details["outputs"])
    since = ["corrected"] * changed + ["off the front"] * (not on)
    return {
        "trial": trial.id,
        "design": dict(trial.actual),
        "outputs": dict(event.details["outputs"]),
        "by": event.by,
        "reason": event.reason,
        "how": dict(event.details["how"]),
        "created": event.created,
        "since": "retracted" if not trial.outputs else ", ".join(since) or None,
    }


def how_text(how: Mapping[str, Any]) -> str:
    """``by name``, ``the knee`` or ``by weights cost 2, mass 1``: the rule of a pick."""
    if how["rule"] != "weights":
        return str(how["rule"])
    return "by weights " + ", ".join(f"{name} {value:g}" for name, value in how["weights"].items())


def picked_text(picked: Mapping[str, Any]) -> str:
    """``heat-0012, the knee, by ana: cheapest below 5 K``, from the data of ``picked_data``."""
    left = "".join(_SINCE[what] for what in (picked["since"] or "").split(", ") if what)
    return f"{picked['trial']}, {how_text(picked['how'])}, by {picked['by']}: {picked['reason']}{left}"


def _members(found: Mapping[str, Any]) -> dict[str, list[float]]:
    """z of each trial on the front.

    Raises:
        InputError: the front is empty.
    """
    if not found["trials"]:
        raise InputError("The front is empty: no result is feasible yet. Nothing was recorded.")
    columns = []
    for each in found["objectives"]:
        sign = -1.0 if each["sense"] == "maximize" else 1.0
        values = [
            sign * entry["outputs"][each["output"]] / 2 for entry in found["trials"]
        ]  # so that no span is infinite
        span = max(values) - min(values)
        columns.append([(value - min(values)) / span if span else 0.0 for value in values])
    return {entry["trial"]: [column[i] for column in columns] for i, entry in enumerate(found["trials"])}


def _least(sums: Mapping[str, float], what: str) -> str:
    """The trial of the least sum.

    Raises:
        InputError: several have it.
    """
    least = min(sums.values())
    equal = [trial for trial, value in sums.items() if value <= least + _SAME]
    if len(equal) > 1:
        raise InputError(f"{', '.join(equal)} are equally {what}: pick one of them by its name. Nothing was recorded.")
    return equal[0]
