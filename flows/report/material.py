"""Content of a page: one campaign as its stores stand now, and the parts that could not be read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from fieldcraft.flows.analysis.best import Best, best_of, objective_of
from fieldcraft.flows.analysis.emulated_fields import Beside
from fieldcraft.flows.analysis.feasibility import campaign_feasibility, closest
from fieldcraft.flows.analysis.front import front_data, on_front
from fieldcraft.flows.analysis.noise import by_people
from fieldcraft.flows.analysis.picks import picked_data
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.products import Trained, TrainingNotes, trainings
from fieldcraft.flows.report.belief import Belief, believed
from fieldcraft.flows.rules.final_model import given_up
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.views.plot import beside_emulator, drawable, field_of_places
from fieldcraft.flows.views.regret import regret_of
from fieldcraft.flows.wiring.build import recorded
from fieldcraft.flows.wiring.campaign import Campaign as Wired
from fieldcraft.flows.wiring.context import Site
from fieldcraft.storage.field_store.staging import FieldError
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.objective import Objective
from fieldcraft.storage.records import (
    Approval,
    CampaignRecord,
    Event,
    Lease,
    Result,
    Spending,
    Trial,
    TrialSummary,
)

Of = TypeVar("Of", Approval, Result)
FIELDS = 12  # latest fields that a page draws
MODELS = 50  # newest models of which the page has the digests: each is a record that grows with the campaign


@dataclass(frozen=True)
class Model:
    """A trained model as a table shows it.

    Args:
        iteration: Iteration of the training.
        trials: Number of trials in its training data.
        seconds: Time of the training in seconds; None where not recorded.
        digests: Digests of the model, its data, its collocation points and its checkpoint; None for each that it lacks.
    """

    iteration: int
    trials: int
    seconds: float | None
    digests: tuple[str | None, ...]


@dataclass(frozen=True)
class Material:
    """A campaign, read once.

    Args:
        campaign: Its record.
        trials: All of them, by number.
        history: All events, oldest first.
        approvals: Approvals by trial, oldest first.
        results: Results by trial, oldest first.
        trained: Notes of each training, by iteration.
        models: The newest of the models.
        runs: MLflow runs by the object that they show.
        spending: Spent and reserved amounts.
        holder: Pass lease of the process that makes passes over it now.
        best: The best trials, by result and by the latest model.
        regret: Difference of the best design from the true optimum, as from ``flows.views.regret.regret_of``; None
            where unknown.
        wired: Its components; None where the code no longer knows them.
        field: The best trial's field where designs are places in it (an ``xarray.DataArray``).
        twice: The best trial's field beside the emulator's, where the problem states the equation of its fields.
        fields: Fields of the latest trials (``xarray.DataArray``), by trial.
        belief: Prediction of the latest surrogate.
        missing: Reason why a part could not be read, by its name: ``components``, ``field``, ``surrogate`` or
            ``a model of all results``.
    """

    campaign: CampaignRecord
    trials: tuple[Trial, ...]
    history: tuple[Event, ...]
    approvals: Mapping[str, tuple[Approval, ...]]
    results: Mapping[str, tuple[Result, ...]]
    trained: Mapping[int, TrainingNotes]
    models: tuple[Model, ...]
    runs: Mapping[str, str]
    spending: Spending
    holder: Lease | None
    best: Best
    regret: Mapping[str, Any] | None
    wired: Wired | None
    field: Any
    twice: Beside | None
    fields: Mapping[str, Any]
    belief: Belief | None
    missing: Mapping[str, str]

    @property
    def units(self) -> Mapping[str, str]:
        """Units of the design variables by name, in their order."""
        found: Mapping[str, str] = self.campaign.environment["units"]
        return found

    @property
    def objective(self) -> Objective:
        """The objective with its constraints."""
        return objective_of(self.campaign)

    @cached_property
    def feasibility(self) -> dict[str, Any] | None:
        """Feasibility of its trials, as from ``flows.analysis.feasibility.campaign_feasibility``."""
        return campaign_feasibility(self.objective, self.trials)

    @cached_property
    def front(self) -> dict[str, Any] | None:
        """The front of several objectives, as from ``flows.analysis.front.front_data``; None where there is one."""
        return front_data(self.campaign, self.trials)

    @cached_property
    def picked(self) -> dict[str, Any] | None:
        """The pick that counts, as from ``flows.analysis.picks.picked_data``; None where there is none."""
        latest = next((event for event in reversed(self.history) if event.action == "pick"), None)
        return picked_data(latest, self.campaign, self.trials)

    @cached_property
    def failures(self) -> Mapping[str, str]:
        """Reason of each trial's latest failure, by trial."""
        ended = {trial.id: trial.state for trial in self.trials if trial.failure}
        told = ((event.trial or "", event) for event in self.history)
        return {trial: event.reason for trial, event in told if trial in ended and event.enters(ended[trial])}

    @property
    def by_people(self) -> bool:
        """True if people do the experiments, in a laboratory."""
        return by_people(self.campaign)

    @property
    def work(self) -> str:
        """Word for one attempt: experiment (of people) or simulation."""
        return "experiment" if self.by_people else "simulation"

    @property
    def output(self) -> tuple[str, str]:
        """Name and unit of the objective."""
        first = self.campaign.environment["outputs"][0]
        return first["name"], first["unit"]


def gather(settings: Settings, ledger: Ledger, campaign: CampaignRecord) -> Material:
    """Read a campaign; parts that are damaged or no longer known are named and left out."""
    trials, missing = ledger.trials(campaign.name), dict[str, str]()
    best, wired = best_of(ledger, campaign, trials), _wired(settings, campaign, missing)
    field = _field(settings, campaign, trials, missing)
    if why := given_up(ledger, campaign.name):
        missing["a model of all results"] = f"its training failed ({why})"
    trained = trainings(ledger, campaign.name)
    front = on_front(campaign, trials)
    shown = (
        best.trial or next((t for t in trials if t.id in front[:1]), None) or closest(objective_of(campaign), trials)
    )
    return Material(
        campaign=campaign,
        trials=trials,
        history=ledger.history(campaign.name),
        approvals=_by_trial(trials, ledger.granted(campaign.name)),
        results=_by_trial(trials, ledger.campaign_results(campaign.name)),
        trained=trained,
        models=tuple(_model(ledger, campaign.name, iteration) for iteration in list(trained)[-MODELS:]),
        runs=ledger.tracked(campaign.name),
        spending=ledger.spending(campaign.name),
        holder=ledger.holder(campaign.name),
        best=best,
        regret=regret_of(wired, best.trial) if wired and best.trial else None,
        wired=wired,
        field=field,
        twice=_twice(settings, ledger, campaign, trials, wired, missing) if wired else None,
        fields=_fields(settings, trials, missing),
        belief=_belief(Site(wired, ledger, fields_at(settings.fields)), shown, field, missing) if wired else None,
        missing=missing,
    )


def _model(ledger: Ledger, campaign: str, iteration: int) -> Model:
    """One model; its whole record is not kept in memory."""
    product = ledger.product(campaign, iteration, "train")
    assert product is not None  # the ledger has just named it, and never loses one
    made, reference = Trained.of(product), product.reference
    checkpoint = None if reference is None else reference.digest
    return Model(iteration, made.count, made.seconds, (product.digest, made.data_digest, made.collocation, checkpoint))


def _by_trial(trials: Sequence[Trial], records: Iterable[Of]) -> dict[str, tuple[Of, ...]]:
    """Records of trials by trial, in their order."""
    found = dict[str, list[Of]]()
    for record in records:
        found.setdefault(record.trial, []).append(record)
    return {trial.id: tuple(found.get(trial.id, ())) for trial in trials}


def _wired(settings: Settings, campaign: CampaignRecord, missing: dict[str, str]) -> Wired | None:
    try:
        return recorded(campaign, settings)
    except InputError as error:
        missing["components"] = str(error)
        return None


def _field(settings: Settings, campaign: CampaignRecord, trials: tuple[Trial, ...], missing: dict[str, str]) -> Any:
    try:
        return field_of_places(settings, campaign, trials)
    except FieldError as error:
        missing["field"] = str(error)
        return None


def _twice(
    settings: Settings,
    ledger: Ledger,
    campaign: CampaignRecord,
    trials: tuple[Trial, ...],
    wired: Wired,
    missing: dict[str, str],
) -> Beside | None:
    try:
        return beside_emulator(settings, wired, ledger, campaign, trials)
    except FieldError as error:
        missing["field"] = str(error)
        return None


def _fields(settings: Settings, trials: tuple[Trial, ...], missing: dict[str, str]) -> Mapping[str, Any]:
    """The first field with an axis of each of the latest trials, by trial."""
    store, found = fields_at(settings.fields), dict[str, Any]()
    with_fields = [trial for trial in trials if trial.field is not None and trial.counts]
    if len({trial.field.digest for trial in with_fields if trial.field}) < 2:  # one field for all designs
        return {}
    for trial in with_fields[-FIELDS:]:
        assert trial.field is not None  # chosen so
        try:
            made = drawable(store.read(trial.field))
        except FieldError as error:
            missing["fields"] = str(error)
            continue
        if made is not None:
            found[trial.id] = made
    return found


def _belief(site: Site, best: Trial | TrialSummary | None, field: Any, missing: dict[str, str]) -> Belief | None:
    if best is None or site.campaign.spec.algorithm.surrogate is None:
        return None
    wanted = () if field is None else tuple(map(str, field.dims))
    try:
        return believed(site, best, wanted)
    except (ValueError, FieldError) as error:  # results were corrected since, or the checkpoint is lost
        missing["surrogate"] = str(error)
        return None
