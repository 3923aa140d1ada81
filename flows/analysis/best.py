"""The best design: by its result and, where results are noisy, by a model of all results.

Reads records alone: no torch, no solver.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fieldcraft.flows.analysis.learnt import learnt_by
from fieldcraft.flows.analysis.noise import by_people, noisy, noisy_constraints
from fieldcraft.flows.products import Trained
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.objective import Objective
from fieldcraft.storage.records import CampaignRecord, Product, Trial, TrialSummary

T = TypeVar("T", Trial, TrialSummary)


@dataclass(frozen=True)
class Recommended:
    """The tried design with the best objective that the latest model predicts.

    Args:
        trial: Its trial.
        iteration: Iteration of the model.
        results: Number of results that the model was trained on.
        mean: Predicted mean of the objective there, in its unit.
        sd: Predicted standard deviation of the objective there, in its unit.
        feasible: True if it meets the constraints, by its result where that is exact, else by the model. Where no
            design does, the trial is the one most probably feasible by the model.
        probability: Probability that it is feasible, 1 where its result says so; None where the model gives none.
        constraints: Mean and standard deviation (``mean``, ``sd``) of each constraint there, in its own unit.
    """

    trial: Trial | TrialSummary
    iteration: int
    results: int
    mean: float
    sd: float
    feasible: bool
    probability: float | None
    constraints: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Best:
    """The best of a campaign's designs.

    Args:
        measured: The feasible trial with the best result; None while none is feasible.
        model: The best by the model; None where results are not noisy, or no model recommends one.
    """

    measured: Trial | TrialSummary | None
    model: Recommended | None

    @property
    def trial(self) -> Trial | TrialSummary | None:
        """The best design: the model's if it recommends a feasible one, else the one with the best result.

        The best of noisy results is often only lucky.
        """
        return self.model.trial if self.model is not None and self.model.feasible else self.measured

    @property
    def by_model(self) -> bool:
        """True if the best design is the model's."""
        return self.model is not None and self.model.feasible


def objective_of(campaign: CampaignRecord) -> Objective:
    """The objective of a campaign, or its several objectives, read from the record alone."""
    return Objective.of(campaign.environment["outputs"], campaign.spec.get("sense"))


def best_trial(campaign: CampaignRecord, trials: Sequence[T]) -> T | None:
    """The feasible trial with the best result that counts, the first of equals; None for several objectives."""
    objective = objective_of(campaign)
    if objective.goals:
        return None
    sign = -1.0 if objective.maximize else 1.0
    done = (trial for trial in trials if trial.counts)
    feasible = [t for t in done if not objective.constraints or objective.feasible(t.outputs or {})]
    return min(feasible, key=lambda t: sign * (t.outputs or {})[objective.output], default=None)


def best_of(ledger: Ledger, campaign: CampaignRecord, trials: Sequence[Trial] | Sequence[TrialSummary]) -> Best:
    """The best of a campaign's trials, by result and by the latest model."""
    people, outputs = by_people(campaign), campaign.environment["outputs"]
    trained = ledger.latest(campaign.name, "train") if noisy(campaign.spec, outputs, people=people) else None
    model = _recommended(ledger, trained, trials)
    exact = not noisy_constraints(campaign.spec, outputs, people=people)
    if model is not None and exact and _refuted(campaign, model):
        model = None
    return Best(best_trial(campaign, list[Any](trials)), model)


def _refuted(campaign: CampaignRecord, model: Recommended) -> bool:
    """True if the model holds its design for feasible and the design's result says that it is not.

    Earlier versions recorded such models. Used only where constraints are measured without noise.
    """
    return model.feasible and not objective_of(campaign).feasible(model.trial.outputs or {})


def _recommended(ledger: Ledger, trained: Product | None, trials: Sequence[Trial | TrialSummary]) -> Recommended | None:
    """The latest model's recommendation; None if none, or its trial was corrected or retracted since."""
    model = None if trained is None else Trained.of(trained)
    said = None if model is None else model.recommended
    trial = next((t for t in trials if said and t.id == said.trial and t.outputs), None)
    if trained is None or model is None or said is None or trial is None:  # earlier versions recommend nothing
        return None
    if _corrected_since(ledger, model, trial):
        return None
    return Recommended(
        trial,
        trained.iteration,
        model.count,
        said.mean,
        said.sd,
        said.feasible,
        said.probability,
        said.constraints,
    )


def _corrected_since(ledger: Ledger, model: Trained, trial: Trial | TrialSummary) -> bool:
    """True if a trial's result has other outputs than the one that the model was trained on."""
    learnt = learnt_by(model, ledger.results(trial.id)).get(trial.id)
    return learnt is not None and dict(learnt.outputs) != dict(trial.outputs or {})


def best_data(best: Best) -> dict[str, Any]:
    """``best`` (by result), ``best_by_model`` and ``best_design`` (id of the trial of the two that counts) as data."""
    measured, model = best.measured, best.model
    return {
        "best": measured and _at(measured),
        "best_by_model": model
        and {
            **_at(model.trial),
            "mean": model.mean,
            "sd": model.sd,
            "feasible": model.feasible,
            "probability": model.probability,
            "constraints": {name: dict(said) for name, said in model.constraints.items()},
            "iteration": model.iteration,
            "readings": model.results,
        },
        "best_design": best.trial and best.trial.id,
    }


def _at(trial: Trial | TrialSummary) -> dict[str, Any]:
    return {"trial": trial.id, "design": dict(trial.actual), "outputs": dict(trial.outputs or {})}
