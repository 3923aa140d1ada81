"""Prediction for the design of a trial as it stands, or as a person would edit it; imports torch."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.people.decisions import edited_design
from fieldcraft.flows.predictions.model import LatestModel, model_of, predicted
from fieldcraft.flows.products import Trained
from fieldcraft.flows.text import counted
from fieldcraft.flows.views.data import quantity, quantity_pm
from fieldcraft.flows.wiring.context import Site
from fieldcraft.storage.fields import FieldError
from fieldcraft.storage.records import Level, Product, Trial

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KEPT = 4  # restored models


@dataclass(frozen=True)
class Moments:
    """Prediction of one output without noise.

    Args:
        output: Its name.
        unit: Its unit.
        mean: Mean, in that unit.
        sd: Standard deviation, in that unit.
    """

    output: str
    unit: str
    mean: float
    sd: float

    @property
    def text(self) -> str:
        """``strength 39.1 +- 1 MPa``."""
        return f"{self.output} {quantity_pm(self.mean, self.sd, self.unit)}"


@dataclass(frozen=True)
class Foreseen:
    """Prediction of a stored model for a design.

    Args:
        trial: Trial of the design.
        design: The design.
        cost: What one attempt at it costs.
        unit: Unit of that cost; empty where the campaign file names none.
        outputs: The objectives and, where the model knows them, the constraints, each of which is met where it is <= 0.
        feasible: Probability by the model that all constraints are met and there is a result; None where it knows none.
        iteration: Iteration of the model.
        algorithm: Algorithm of the campaign, in words.
        results: Number of results that it was trained on.
        proposed: True if this model proposed the trial; False for the newest one.
    """

    trial: str
    design: Mapping[str, Level]
    cost: float
    unit: str
    outputs: tuple[Moments, ...]
    feasible: float | None
    iteration: int
    algorithm: str
    results: int
    proposed: bool

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Foreseen":
        """The prediction that was told as JSON data."""
        return cls(**{**told, "outputs": tuple(Moments(**each) for each in told["outputs"])})

    def data(self) -> dict[str, Any]:
        """The prediction as JSON data."""
        return asdict(self)

    @property
    def model(self) -> str:
        """The model in words."""
        which = "which proposed this trial" if self.proposed else "the newest one"
        return f"the model of iteration {self.iteration} ({self.algorithm}), {which}, trained on {self.trained}"

    @property
    def trained(self) -> str:
        """Its training data in words."""
        return counted(self.results, "result")

    @property
    def text(self) -> str:
        """The prediction, and the model that made it, a line each."""
        said = ", ".join(each.text for each in self.outputs)
        sure = "" if self.feasible is None else f"; feasible with probability {self.feasible:.2g}"
        return f"predicted  {said}{sure}\n  by       {self.model}\n  cost     {quantity(self.cost, self.unit)}"


class Models:
    """Models that were restored, the latest few, so that the next question needs no restoring."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], LatestModel] = {}

    def restored(self, site: Site, product: Product) -> LatestModel | None:
        """The model of a training; None where it kept none. Raises as ``model_of``."""
        key = (site.name, product.digest)
        found = self._kept.pop(key, None) or model_of(site, product)
        if found is not None:
            self._kept[key] = found
            while len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
        return found


def foreseen(site: Site, trial: Trial, values: Mapping[str, str], models: Models) -> Foreseen:
    """Prediction for a trial's design, with other values of some variables.

    The model that proposed the trial answers, so that the answer can be set beside what it predicted then; where there
    is none, or it cannot be restored any more, the newest one.

    Args:
        site: The campaign.
        trial: The trial.
        values: Variables with the values that a person would give them, as text.
        models: Models that were restored before.

    Raises:
        InputError: no model can be asked, for the reason that it gives; or the design is none of the space.
    """
    design = edited_design(site.campaign.space, trial, values)
    if site.campaign.spec.algorithm.surrogate is None:
        raise InputError(f"{site.campaign.spec.algorithm.in_words} proposes designs and predicts nothing.")
    faults: list[str] = []
    for product in _trainings(site, trial):
        try:
            model = models.restored(site, product)
        except (FieldError, ValueError) as error:
            faults.append(f"the model of iteration {product.iteration} cannot be restored: {error}")
            continue
        if model is not None:
            return _asked(site, trial, design, model)
    if faults:
        raise InputError("; ".join(dict.fromkeys(faults)))
    raise InputError(f"{site.name} has no model yet: the start's designs come before the first.")


def _trainings(site: Site, trial: Trial) -> Iterator[Product]:
    """The training of the model that proposed a trial, then the newest one."""
    own = trial.origin.model
    found = None if own is None else site.ledger.product(site.name, own.iteration, "train")
    newest = site.ledger.latest(site.name, "train")
    yield from (product for product in (found, newest) if product is not None)


def _asked(site: Site, trial: Trial, design: Mapping[str, Level], model: LatestModel) -> Foreseen:
    from fieldcraft.models.feasibility.constrained import chances

    X = site.campaign.space.encode([design])
    units = {output.name: output.unit for output in site.campaign.problem.outputs}
    known, chance = _constraints(model, X), chances(model.posterior, X)
    of = site.campaign.objective
    told = [
        *zip(of.outputs, _objectives(model, X), strict=True),
        *zip(of.constraints, known, strict=False),
        *_parts(model, X),
    ]
    outputs = [Moments(name, units[name], *moments) for name, moments in told]
    return Foreseen(
        trial=trial.id,
        design=dict(design),
        cost=site.campaign.cost(design, trial.level),
        unit=site.campaign.spec.budget.unit,
        outputs=tuple(outputs),
        feasible=None if chance is None else float(chance[0]),
        iteration=model.product.iteration,
        algorithm=site.campaign.spec.algorithm.in_words,
        results=Trained.of(model.product).count,
        proposed=trial.origin.model is not None and trial.origin.model.iteration == model.product.iteration,
    )


def _objectives(model: LatestModel, X: "NDArray[Any]") -> list[tuple[float, float]]:
    """Moments of each objective at X (1, d), in its unit."""
    from fieldcraft.models.feasibility.constrained import about_objective
    from fieldcraft.models.pareto.posterior import SeveralObjectives

    posterior = about_objective(model.posterior)
    parts = posterior.parts if isinstance(posterior, SeveralObjectives) else (posterior,)
    moments = [predicted(part, X) for part in parts]
    return [(float(mean[0]), float(sd[0])) for mean, sd in moments]


def _parts(model: LatestModel, X: "NDArray[Any]") -> list[tuple[str, tuple[float, float]]]:
    """Moments of each part of a computed objective at X (1, d), in its unit; none where only its number is learnt."""
    from fieldcraft.models.composite.posterior import CompositePosterior
    from fieldcraft.models.feasibility.constrained import about_objective

    posterior = about_objective(model.posterior)
    if not isinstance(posterior, CompositePosterior):
        return []
    return list(zip(posterior.composite.names, posterior.in_units(X), strict=True))


def _constraints(model: LatestModel, X: "NDArray[Any]") -> list[tuple[float, float]]:
    """Moments of each constraint at X (1, d), in its unit; none where there is none."""
    import torch

    from fieldcraft.models.feasibility.constrained import ConstrainedPosterior

    posterior = model.posterior
    return posterior.in_units(torch.as_tensor(X)) if isinstance(posterior, ConstrainedPosterior) else []
