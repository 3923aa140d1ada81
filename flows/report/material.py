"""What a page tells of: one campaign as its stores stand now, and what could not be read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from flows.best import Best, best_of, objective_of
from flows.errors import InputError
from flows.feasibility import campaign_feasibility, closest
from flows.picture import field_of_places
from flows.readings import by_people
from flows.regret import regret_of
from flows.report.belief import Belief, believed
from flows.settings import Settings
from flows.sites import Site
from flows.wiring import Campaign as Wired
from flows.wiring import rewire
from storage.fields import FieldStore
from storage.ledger import Ledger
from storage.objective import Objective
from storage.records import Approval, Brief, Campaign, Event, Lease, Product, Result, Spending, Trial
from storage.staging import FieldError

Of = TypeVar("Of", Approval, Result)


@dataclass(frozen=True)
class Material:
    """A campaign, read once.

    Args:
        campaign: Its record.
        trials: All of them, by number.
        history: All events, oldest first.
        approvals: By trial, oldest first.
        results: By trial, oldest first.
        products: What its steps made, oldest first.
        runs: MLflow runs by what they show.
        spending: What is spent and reserved.
        holder: Who makes passes over it now.
        best: The best trials, by reading and by the latest model.
        regret: How far the best design is from the true optimum, as ``flows.regret.regret_of`` says; None where that is
            unknown.
        wired: Its components; None where the code no longer knows them.
        field: The best trial's field where designs are places in it (an ``xarray.DataArray``).
        belief: What the latest surrogate predicts.
        missing: Why a part could not be read, by its name: ``components``, ``field`` or ``surrogate``.
    """

    campaign: Campaign
    trials: tuple[Trial, ...]
    history: tuple[Event, ...]
    approvals: Mapping[str, tuple[Approval, ...]]
    results: Mapping[str, tuple[Result, ...]]
    products: tuple[Product, ...]
    runs: Mapping[str, str]
    spending: Spending
    holder: Lease | None
    best: Best
    regret: Mapping[str, Any] | None
    wired: Wired | None
    field: Any
    belief: Belief | None
    missing: Mapping[str, str]

    @property
    def units(self) -> Mapping[str, str]:
        """Units of the design variables by name, in their order."""
        found: Mapping[str, str] = self.campaign.environment["units"]
        return found

    @property
    def objective(self) -> Objective:
        """What counts as best and feasible."""
        return objective_of(self.campaign)

    @property
    def feasibility(self) -> dict[str, Any] | None:
        """How it stands with its constraints, as ``flows.feasibility.campaign_feasibility`` says."""
        return campaign_feasibility(self.objective, self.trials)

    @property
    def by_people(self) -> bool:
        """Whether people do the experiments, in a laboratory."""
        return by_people(self.campaign)

    @property
    def work(self) -> str:
        """What one attempt is: an experiment of people, or a simulation."""
        return "experiment" if self.by_people else "simulation"

    @property
    def output(self) -> tuple[str, str]:
        """Name and unit of the objective."""
        first = self.campaign.environment["outputs"][0]
        return first["name"], first["unit"]


def gather(settings: Settings, ledger: Ledger, campaign: Campaign) -> Material:
    """Read a campaign; what is damaged or no longer known is named and left out."""
    trials, missing = ledger.trials(campaign.name), dict[str, str]()
    best, wired = best_of(ledger, campaign, trials), _wired(settings, campaign, missing)
    field = _field(settings, campaign, trials, missing)
    shown = best.trial or closest(objective_of(campaign), trials)
    return Material(
        campaign=campaign,
        trials=trials,
        history=ledger.history(campaign.name),
        approvals=_by_trial(trials, ledger.granted(campaign.name)),
        results=_by_trial(trials, ledger.readings(campaign.name)),
        products=ledger.products(campaign.name),
        runs=ledger.tracked(campaign.name),
        spending=ledger.spending(campaign.name),
        holder=ledger.holder(campaign.name),
        best=best,
        regret=regret_of(wired, best.trial) if wired and best.trial else None,
        wired=wired,
        field=field,
        belief=_belief(Site(wired, ledger, FieldStore(settings.fields)), shown, field, missing) if wired else None,
        missing=missing,
    )


def _by_trial(trials: Sequence[Trial], records: Iterable[Of]) -> dict[str, tuple[Of, ...]]:
    """Records of trials by trial, in their order."""
    found = dict[str, list[Of]]()
    for record in records:
        found.setdefault(record.trial, []).append(record)
    return {trial.id: tuple(found.get(trial.id, ())) for trial in trials}


def _wired(settings: Settings, campaign: Campaign, missing: dict[str, str]) -> Wired | None:
    try:
        return rewire(campaign.spec, settings)
    except InputError as error:
        missing["components"] = str(error)
        return None


def _field(settings: Settings, campaign: Campaign, trials: tuple[Trial, ...], missing: dict[str, str]) -> Any:
    try:
        return field_of_places(settings, campaign, trials)
    except FieldError as error:
        missing["field"] = str(error)
        return None


def _belief(site: Site, best: Trial | Brief | None, field: Any, missing: dict[str, str]) -> Belief | None:
    if best is None or site.campaign.spec.algorithm.surrogate is None:
        return None
    wanted = () if field is None else tuple(map(str, field.dims))
    try:
        return believed(site, best, wanted)
    except (ValueError, FieldError) as error:  # readings were corrected since, or the checkpoint is lost
        missing["surrogate"] = str(error)
        return None
