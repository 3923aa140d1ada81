"""``fieldcraft compare-runs``: two campaigns of one home, by specification, best so far, regret and cost."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from fieldcraft.flows.analysis.best import best_of, objective_of
from fieldcraft.flows.analysis.feasibility import campaign_feasibility, feasible_text
from fieldcraft.flows.analysis.front import completed, front_data, front_text
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.products import trainings
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.campaign_file import differing
from fieldcraft.flows.text import one_line
from fieldcraft.flows.views.data import design_text, quantity, quantity_pm
from fieldcraft.flows.views.regret import known_regret
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.pareto import front_of, gains
from fieldcraft.storage.records import CampaignRecord, Trial, TrialState, TrialSummary

_ROWS = 8  # of the best so far in a text


def compare(settings: Settings, ledger: Ledger, names: tuple[str, str]) -> dict[str, Any]:
    """Two campaigns as data.

    Returns:
        ``campaigns`` (a side for each, in the order asked), ``differences`` of their specifications, ``comparable``
        (true if both have the same objective of one kind of problem in the same sense) and ``progress``: the best
        result of each after equal numbers of completed trials, null where a campaign has none yet or no more trials.
        Of several objectives it is the hypervolume, within one reference for both.

    Raises:
        InputError: both names are the same.
        storage.ledger.UnknownCampaign: the ledger holds none of that name.
    """
    if names[0] == names[1]:
        raise InputError(f"{names[0]} and {names[1]} are one campaign. Name two that differ.")
    campaigns = [ledger.campaign(name) for name in names]
    curves = _curves(campaigns, [ledger.trials(campaign.name) for campaign in campaigns])
    longest = max(map(len, curves))
    progress = [
        {"trials": n + 1, "best": [curve[n] if n < len(curve) else None for curve in curves]} for n in range(longest)
    ]
    return {
        "campaigns": [_side(settings, ledger, campaign) for campaign in campaigns],
        "differences": [
            line for line in differing(campaigns[0].spec, campaigns[1].spec) if not line.startswith("name: ")
        ],
        "comparable": _read(campaigns[0]) == _read(campaigns[1]),
        "progress": progress,
    }


def _read(campaign: CampaignRecord) -> tuple[Any, ...]:
    """Problem, objective and outputs, which must agree for a comparison.

    Outputs of different problems may share a name, often ``value``.
    """
    return campaign.spec["problem"]["kind"], objective_of(campaign), campaign.environment["outputs"]


def _curves(campaigns: Sequence[CampaignRecord], trials: Sequence[Sequence[Trial]]) -> list[list[float | None]]:
    """Best result, or hypervolume of several objectives, after each completed trial, by campaign."""
    objectives = [objective_of(campaign) for campaign in campaigns]
    if not any(objective.goals for objective in objectives):
        return [best_after(campaign, own) for campaign, own in zip(campaigns, trials, strict=True)]
    results = [[trial.outputs or {} for trial in completed(own)] for own in trials]
    if objectives[0] != objectives[1]:
        return [[], []]
    reference = front_of(objectives[0], [*results[0], *results[1]]).reference
    if not reference:
        return [[], []]
    return [[*accumulate(gains(objectives[0], own, reference))] for own in results]


def best_after(campaign: CampaignRecord, trials: Sequence[Trial]) -> list[float | None]:
    """The best result after each completed trial, by number; None until one is feasible."""
    objective, best = objective_of(campaign), list[float | None]()
    better = max if objective.maximize else min
    for trial in trials:
        if trial.counts:
            known = [value for value in (best[-1] if best else None, objective.best([trial])) if value is not None]
            best.append(better(known, default=None))
    return best


def _side(settings: Settings, ledger: Ledger, campaign: CampaignRecord) -> dict[str, Any]:
    trials, spending = ledger.summaries(campaign.name), ledger.spending(campaign.name)
    best, output = best_of(ledger, campaign, trials), campaign.environment["outputs"][0]
    measured, model, front = best.measured, best.model if best.by_model else None, front_data(campaign, trials)
    trained, own = trainings(ledger, campaign.name).values(), [trial for trial in trials if trial.level is None]
    return {
        "campaign": campaign.name,
        "finished": campaign.finished,
        "objective": "hypervolume" if front else output["name"],
        "unit": "" if front else output["unit"],
        "trials": len(own),
        "completed": sum(trial.state is TrialState.COMPLETED for trial in own),
        "failed": sum(trial.state in (TrialState.FAILED, TrialState.ABANDONED) for trial in own),
        "best": measured and (measured.outputs or {})[output["name"]],
        "best_trial": measured and measured.id,
        "best_at": measured and design_text(campaign, measured.actual),
        "best_design": best.trial and best.trial.id,
        "best_by_model": model and {"trial": model.trial.id, "mean": model.mean, "sd": model.sd},
        "feasibility": campaign_feasibility(objective_of(campaign), trials),
        "front": front and {key: front[key] for key in ("results", "hypervolume", "objectives", "noisy", "trials")},
        **_regret(settings, campaign, best.trial),
        "spent": float(spending.spent),
        "reserved": float(spending.reserved),
        "cost_unit": campaign.spec["budget"].get("unit") or "units",
        "seconds": float(spending.seconds),
        "training_seconds": float(sum(told.seconds for told in trained)),
    }


def _regret(settings: Settings, campaign: CampaignRecord, best: Trial | TrialSummary | None) -> dict[str, float | None]:
    """Regret and true optimum; None where the truth, or the problem's code, is not known."""
    found = known_regret(settings, campaign, best)
    if found is None:
        return {"regret": None, "optimum": None}
    return {"regret": found["value"], "optimum": found["optimum"]}


def _by_model(side: Mapping[str, Any]) -> str:
    model = side["best_by_model"]
    return "-" if model is None else f"{quantity_pm(model['mean'], model['sd'], side['unit'])} in {model['trial']}"


FACTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "ended by": lambda side: side["finished"] or "not yet",
    "trials": lambda side: f"{side['trials']}: {side['completed']} completed, {side['failed']} failed",
    "best result": lambda side: (
        "several objectives"
        if side["front"]
        else "none yet"
        if side["best"] is None
        else quantity(side["best"], side["unit"])
    ),
    "front": lambda side: front_text(side["front"]) if side["front"] else "one objective",
    "in trial": lambda side: side["best_trial"] or "-",
    "design": lambda side: side["best_at"] or "-",
    "best by the model": _by_model,
    "feasible": lambda side: "no constraints" if side["feasibility"] is None else feasible_text(side["feasibility"]),
    "regret": lambda side: (
        "not known" if side["regret"] is None else f"{quantity(side['regret'], side['unit'])} in {side['best_design']}"
    ),
    "spent": lambda side: quantity(side["spent"], side["cost_unit"]),
    "experiments": lambda side: f"{side['seconds']:.1f} s",
    "training": lambda side: f"{side['training_seconds']:.1f} s",
}
"""What is said of a campaign, by the name of the line: a side of ``compare`` to text."""


def figures(sides: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Rows of the name and what is said of each side; that of a front only where one has several objectives."""
    left_out = () if any(side["front"] for side in sides) else ("front",)
    return [[name, *(say(side) for side in sides)] for name, say in FACTS.items() if name not in left_out]


NOT_COMPARABLE = (
    "The two read objectives of different problems, different objectives, or one in different senses: their results "
    "do not compare."
)


def milestones(progress: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A few rows of the progress, evenly spread, with the last one that both campaigns reached."""
    both = [row for row in progress if None not in row["best"]]
    step = max(1, -(-len(both) // _ROWS))
    return [row for place, row in enumerate(both, 1) if place % step == 0 or place == len(both)]


def comparison_text(data: Mapping[str, Any]) -> str:
    """The comparison as text, with the two campaigns side by side."""
    sides = data["campaigns"]
    rows = [("", *(side["campaign"] for side in sides))]
    rows += [(name, *map(one_line, said)) for name, *said in figures(sides)]
    if data["comparable"]:
        unit = sides[0]["unit"]
        rows += [
            (
                f"{'hypervolume' if sides[0]['front'] else 'best'} after {row['trials']}",
                *(quantity(float(value), unit) for value in row["best"]),
            )
            for row in milestones(data["progress"])
        ]
    width = [max(len(row[place]) for row in rows) for place in range(2)]
    lines = [f"{name:<{width[0]}}  {first:<{width[1]}}  {second}".rstrip() for name, first, second in rows]
    if not data["comparable"]:
        lines.append(NOT_COMPARABLE)
    differences = data["differences"] or ["none but the name"]
    return "\n".join([*lines, "differences", *(f"  {one_line(line)}" for line in differences)])
