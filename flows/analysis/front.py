"""The front of a campaign with several objectives, and its hypervolume, as data and as text; from records alone."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from fieldcraft.flows.analysis.best import objective_of
from fieldcraft.flows.analysis.noise import by_people, noisy
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.pareto import front_of, gains
from fieldcraft.storage.records import CampaignRecord, Trial, TrialSummary

T = TypeVar("T", Trial, TrialSummary)


def front_data(campaign: CampaignRecord, trials: Sequence[Trial] | Sequence[TrialSummary]) -> dict[str, Any] | None:
    """The trials whose feasible results no other dominates; None where the campaign has one objective.

    Returns:
        ``trials`` by the first objective, the best first, each with its ``design`` and ``outputs``; ``results``, the
        number of results; ``hypervolume``, null while no result is feasible and a reference is not stated;
        ``objectives``, each with its ``output``, ``unit``, ``sense``, ``reference`` and whether that was ``inferred``
        from the front; and ``noisy``, true if the results that make the front are.
    """
    objective = objective_of(campaign)
    if not objective.goals:
        return None
    read: list[Trial | TrialSummary] = list(completed(list[Any](trials)))
    front = front_of(objective, [trial.outputs or {} for trial in read])
    first = objective.goals[0]
    on_front = sorted(
        (read[place] for place in front.members),
        key=lambda trial: (-1 if first.maximize else 1) * (trial.outputs or {})[first.output],
    )
    units = {output["name"]: output["unit"] for output in campaign.environment["outputs"]}
    references = front.reference or (None,) * len(objective.goals)
    return {
        "trials": [
            {"trial": trial.id, "design": dict(trial.actual), "outputs": dict(trial.outputs or {})}
            for trial in on_front
        ],
        "results": len(read),
        "hypervolume": front.hypervolume,
        "objectives": [
            {
                "output": goal.output,
                "unit": units[goal.output],
                "sense": "maximize" if goal.maximize else "minimize",
                "reference": reference,
                "inferred": goal.output in front.inferred,
            }
            for goal, reference in zip(objective.goals, references, strict=True)
        ],
        "noisy": noisy(campaign.spec, campaign.environment["outputs"], people=by_people(campaign)),
    }


def on_front(campaign: CampaignRecord, trials: Sequence[Trial] | Sequence[TrialSummary]) -> list[str]:
    """Ids of the trials on the front, the best by the first objective first; empty where there is one objective."""
    found = front_data(campaign, trials)
    return [] if found is None else [entry["trial"] for entry in found["trials"]]


def hypervolumes(campaign: CampaignRecord, trials: Sequence[T]) -> tuple[list[int], list[float]]:
    """Numbers of the completed trials and the hypervolume after each, by number; both empty without a reference.

    A reference that is not stated is inferred from all results, so that the curve has one reference throughout.
    """
    objective, read = objective_of(campaign), completed(trials)
    results = [trial.outputs or {} for trial in read]
    reference = front_of(objective, results).reference
    return grown(read, gains(objective, results, reference)) if reference else ([], [])


def hypervolume_label(campaign: CampaignRecord) -> str:
    """``hypervolume of the front``; where a reference is inferred, that it is."""
    inferred = any(goal.reference is None for goal in objective_of(campaign).goals)
    return "hypervolume, reference inferred" if inferred else "hypervolume of the front"


def grown(trials: Sequence[T], added: Sequence[float]) -> tuple[list[int], list[float]]:
    """Numbers of trials, and the sum of what was added up to each."""
    total, sums = 0.0, list[float]()
    for each in added:
        total += each
        sums.append(total)
    return [trial.number for trial in trials], sums


def completed(trials: Sequence[T]) -> list[T]:
    """Trials with a result that counts, in their order."""
    return [trial for trial in trials if trial.counts]


def dominated_by(ledger: Ledger, campaign: CampaignRecord, trial: Trial) -> list[str] | None:
    """Ids of the trials on the front that dominate a feasible result, empty if it is on the front itself.

    None where there is one objective, or the trial has no result or an infeasible one.
    """
    objective = objective_of(campaign)
    if not objective.goals or not trial.counts or trial.outputs is None:
        return None
    if not objective.feasible(trial.outputs):
        return None
    own, read = trial.outputs, completed(ledger.summaries(campaign.name))
    front = front_of(objective, [each.outputs or {} for each in read])
    if any(read[place].id == trial.id for place in front.members):
        return []
    return [
        read[place].id
        for place in front.members
        if all(
            (outputs[goal.output] >= own[goal.output]) if goal.maximize else (outputs[goal.output] <= own[goal.output])
            for outputs in (read[place].outputs or {},)
            for goal in objective.goals
        )
    ]


def aims_text(objectives: Sequence[Mapping[str, Any]]) -> str:
    """``minimise branin, maximise yield in %``: the objectives of the data of ``front_data``."""
    return ", ".join(
        f"{'maximise' if each['sense'] == 'maximize' else 'minimise'} {each['output']}"
        + (f" in {each['unit']}" if each["unit"] else "")
        for each in objectives
    )


def reference_text(objectives: Sequence[Mapping[str, Any]]) -> str:
    """``branin 18, currin 6.2 (inferred from the front)``: the reference point of the data of ``front_data``."""
    return ", ".join(
        f"{each['output']} {each['reference']:.6g} {each['unit']}".rstrip()
        + (" (inferred from the front)" if each["inferred"] else "")
        for each in objectives
    )


def front_text(found: Mapping[str, Any], most: float | None = None) -> str:
    """``7 of 30 results, hypervolume 57.6 within branin 18, currin 6``, from the data of ``front_data``.

    Args:
        found: The data.
        most: Largest hypervolume that is possible within the stated reference; None if it is not known.
    """
    members, read = len(found["trials"]), found["results"]
    text = f"{members} of {read} {'result' if read == 1 else 'results'}"
    if found["hypervolume"] is not None:
        text += f", hypervolume {found['hypervolume']:.6g}"
        text += f" of at most {most:.6g}" if most is not None else ""
        text += f" within {reference_text(found['objectives'])}"
    return text + ("; by results, which are noisy" if found["noisy"] else "")
