"""The campaign file: a specification read from YAML. It is data alone, and can name only registered kinds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from fieldcraft.flows.errors import Faults, InputError
from fieldcraft.flows.files.yaml_data import MAX_BYTES as MAX_BYTES
from fieldcraft.flows.files.yaml_data import load_yaml as load_yaml
from fieldcraft.flows.files.yaml_data import read_page
from fieldcraft.flows.spec.algorithm import AlgorithmSpec as AlgorithmSpec
from fieldcraft.flows.spec.algorithm import Collocation as Collocation
from fieldcraft.flows.spec.algorithm import Component as Component
from fieldcraft.flows.spec.algorithm import ConstraintsSpec as ConstraintsSpec
from fieldcraft.flows.spec.algorithm import Start as Start
from fieldcraft.flows.spec.base import (
    NAME,
    STORED,
    Batch,
    Finite,
    Part,
    Trials,
    at_most,
    faults_of,
    leaves,
    out_of_reach,
)
from fieldcraft.flows.spec.conduct import Approval as Approval
from fieldcraft.flows.spec.conduct import Budget as Budget
from fieldcraft.flows.spec.conduct import Dispatch as Dispatch
from fieldcraft.flows.spec.conduct import WarmStart as WarmStart
from fieldcraft.flows.spec.consistency import across, reversed_bounds, uncovered
from fieldcraft.flows.spec.levels import LevelSpec
from fieldcraft.models.data.level_start import nested_start


class EmulatorSpec(Part):
    """Emulator of a campaign in place of the problem's own: a network that the campaign trains before its first design.

    The network satisfies the problem's stated equation for all designs at once. It is trained on the equation alone.

    Attributes:
        kind: ``pinn``: a physics-informed network for each field.
        points: Number of collocation points, drawn over the domain and the designs together.
        steps: Number of steps of training.
        batch: Number of points in each step.
        width: Neurons of a hidden layer.
        depth: Number of hidden layers.
        rate: First step size of the training; it falls to a hundredth.
    """

    kind: Literal["pinn"]
    points: int = Field(default=32_768, ge=1, le=4_194_304)
    steps: int = Field(default=2000, ge=1, le=10_000_000)
    batch: int = Field(default=256, ge=1, le=1_048_576)
    width: int = Field(default=64, ge=1, le=4096)
    depth: int = Field(default=4, ge=1, le=32)
    rate: float = Field(default=0.03, gt=0, le=1)

    @model_validator(mode="after")
    def _enough_points(self) -> Self:
        if self.points < self.batch:
            raise ValueError(f"batch is {self.batch} and points are {self.points}: give at least as many points")
        return self


class Noise(Part):
    """Noise of results: added to each of the objective, or their own. ``noise: fitted`` is short for ``fitted: true``.

    Attributes:
        sd: Standard deviation of Gaussian noise that is added, in the objective's unit.
        of_sd: The same as a fraction of the objective's own standard deviation, where the problem states that.
        fitted: True if results have noise of their own, of unknown size, those of the constraints too. No noise is
            added, the surrogate estimates it, and a design may be proposed again.
        constraints: True to add noise to the results of the constraints, too: to each the fraction ``of_sd`` of its
            own standard deviation over the problem's space.
    """

    sd: float | None = Field(default=None, ge=0)
    of_sd: Annotated[float, Field(ge=0), at_most(1000, "no result would say anything")] | None = None
    fitted: bool = False
    constraints: bool = False

    @model_validator(mode="before")
    @classmethod
    def _in_short(cls, given: Any) -> Any:
        return {"fitted": True} if given == "fitted" else given

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.sd is not None) + (self.of_sd is not None) + self.fitted != 1:
            raise ValueError("give exactly one of sd (in the objective's unit), of_sd (a fraction) and fitted: true")
        if self.constraints and self.of_sd is None:
            raise ValueError(
                "constraints: true adds the fraction of_sd of each constraint: give of_sd, or leave it out"
            )
        return self

    @model_serializer(mode="wrap")
    def _without_exact_constraints(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Data as earlier versions wrote them where no constraint has noise, so that digests stay."""
        found: dict[str, Any] = handler(self)
        if not self.constraints:
            found.pop("constraints", None)
        return found


class FailureRate(Part):
    """Stop rule that ends a campaign whose experiments fail.

    Attributes:
        above: Share of failures, from 0 to 1, above which the campaign ends.
        over: Number of last settled trials that are counted; with fewer trials the rule does not apply.
    """

    above: float = Field(ge=0, lt=1)
    over: Trials = 10


class Stop(Part):
    """Stop rules, which end a campaign before its budget is spent; the first rule that holds is recorded by name.

    Attributes:
        target: Value of a result that ends the campaign once it is reached, in the objective's unit.
        no_improvement: Number of completed trials in a row without a better result, or of several objectives without
            gain in hypervolume, that ends the campaign.
        failure_rate: Share of failures among the last trials that ends the campaign.
        certified_gap: Largest improvement on the best believed value that may still be expected of any design by the
            model, in the objective's unit. The campaign ends once this is proven; for the maximizer ``certified``.
        certified_regret: Largest proven regret of the best result, as a share of that result. The campaign ends once it
            is proven by the problem's equations; for the surrogates ``reduced_basis`` and ``auto``.
    """

    target: float | None = None
    no_improvement: Trials | None = None
    failure_rate: FailureRate | None = None
    certified_gap: float | None = Field(default=None, gt=0)
    certified_regret: float | None = Field(default=None, gt=0, lt=1)

    @model_serializer(mode="wrap")
    def _without_absent_regret(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Data as earlier versions wrote them where no such rule is set, so that digests stay."""
        found: dict[str, Any] = handler(self)
        if self.certified_regret is None:
            found.pop("certified_regret", None)
        return found


class _Campaign(Part):
    """One campaign.

    Attributes:
        name: Name of the campaign, which begins the ids of its trials.
        seed: Number from which all random draws follow; with another one the campaign makes other designs.
        sense: Direction of the objective: ``maximize`` or ``minimize``. Left out where the problem has several
            objectives, each of which it marks with its own.
        problem: Problem that is optimised.
        simulator: Simulator that evaluates a design; left out where people do, or the dispatcher itself.
        levels: Coarser and cheaper levels of the simulator, from which the surrogate learns too. Their results are no
            results of the campaign.
        space: Narrower bounds of the problem's variables, ``{x: [low, high]}``.
        noise: Noise of the objective's results. When left out, a design that is run again has the same result, unless
            people measure or the dispatcher's program declares noise.
        algorithm: Algorithm that chooses designs: one by its name, ``{kind: auto}``, or its words.
        emulator: Emulator in place of the problem's own: its ``emulate``, or its stated equation on a coarse grid.
        warm_start: Earlier, similar campaigns with whose results it begins; one alone needs no list.
        batch: Number of designs per iteration after the start.
        approval: Approval of trials.
        dispatcher: Dispatcher of the simulations or experiments.
        budget: Budget of the campaign.
        stop: Stop rules that end it before the budget is spent.
    """

    name: str = Field(pattern=NAME)
    seed: int = Field(ge=0, lt=2**63)
    sense: Literal["maximize", "minimize"] | None = None
    problem: Component
    simulator: Component | None = None
    levels: tuple[LevelSpec, ...] = ()
    space: dict[str, tuple[Finite, Finite]] = Field(default_factory=dict)
    noise: Noise | None = None
    algorithm: AlgorithmSpec | Component
    emulator: EmulatorSpec | None = None
    warm_start: tuple[WarmStart, ...] = ()
    batch: Batch = 1
    approval: Approval = Approval()
    dispatcher: Dispatch = Dispatch()
    budget: Budget
    stop: Stop = Stop()

    @field_validator("warm_start", mode="before")
    @classmethod
    def _one_or_several(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            return (given,)
        if not isinstance(given, list | tuple):
            raise ValueError("give an earlier campaign as {campaign: NAME}, or a list of such")
        return given

    @field_validator("warm_start")
    @classmethod
    def _each_once(cls, given: tuple[WarmStart, ...]) -> tuple[WarmStart, ...]:
        for number, each in enumerate(given):
            if each in given[:number]:
                raise ValueError(f"campaign {each.campaign!r} is named twice: name it once")
        return given

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The data, without what versions before did not know and is not given: they have the digest of these."""
        data: dict[str, Any] = handler(self)
        for key in ("emulator", "warm_start", "levels"):
            if not data.get(key):
                data.pop(key, None)
        return data


class NamedSpec(_Campaign):
    """One campaign with a named algorithm, which ``flows.wiring.named_algorithms`` expands into its words."""

    algorithm: Component


class CampaignSpec(_Campaign):
    """One campaign with the words of its algorithm given."""

    algorithm: AlgorithmSpec

    @model_validator(mode="after")
    def _budget_covers_the_start(self) -> Self:
        n = self.algorithm.start.n
        runs = nested_start(n, sorted(level.cost for level in self.levels))[None]
        if (fault := uncovered(self.budget.trials, n, runs)) is not None:
            raise ValueError(fault)
        return self


_Spec = TypeVar("_Spec", bound=_Campaign)


def read_campaign(path: Path) -> CampaignSpec | NamedSpec:
    """Read and validate a campaign file (its kinds' own options are validated by ``flows.wiring.build.wire``).

    Raises:
        InputError: the file cannot be read, is not plain YAML data, or does not describe a campaign.
    """
    page = read_page(path)
    with page.told():
        return parse(page.data)


def parse(data: Mapping[str, Any], source: str = "") -> CampaignSpec | NamedSpec:
    """Validate data as a specification; its algorithm is a named one if it has a kind. Errors begin with ``source``.

    Raises:
        InputError: a key is missing, misspelt or has an impossible value.
    """
    if {"problems", "algorithms"} <= data.keys():
        raise InputError("problems: is a key of a study, and this is no campaign. Run it with fieldcraft compare.")
    algorithm = data.get("algorithm")
    named = isinstance(algorithm, Mapping) and "kind" in algorithm
    faults = Faults()
    faults.found += [*out_of_reach(data), *reversed_bounds(data)]
    spec: CampaignSpec | NamedSpec | None = None
    with faults.elsewhere():
        spec = _validated(NamedSpec, data) if named else _validated(CampaignSpec, data)
    faults.found += across(data, Dispatch.model_fields["wall_time_s"].default)
    if faults.found or spec is None:
        raise InputError(*(f"{source}: {fault}" if source else fault for fault in dict.fromkeys(faults.found)))
    return spec


def stored(data: Mapping[str, Any], source: str) -> CampaignSpec:
    """Validate a specification that the ledger stores, with the words of its algorithm; errors begin with ``source``.

    Raises:
        InputError: a key is missing, misspelt or has an impossible value.
    """
    try:
        return _validated(CampaignSpec, data, STORED)
    except InputError as error:
        raise InputError(*(f"{source}: {fault}" for fault in error.faults)) from None


def _validated(model: type[_Spec], data: Mapping[str, Any], context: str | None = None) -> _Spec:
    try:
        return model.model_validate(data, context=context)
    except ValidationError as error:
        raise InputError(*faults_of(error, "", _known_keys, data)) from None


def _known_keys(place: tuple[int | str, ...]) -> list[str]:
    """Keys that exist in a place of the file."""
    model: type[BaseModel] = CampaignSpec
    for part in (part for part in place if isinstance(part, str)):  # an item of a list has the keys of every other
        annotation = model.model_fields[part].annotation
        options = getattr(annotation, "__args__", (annotation,))
        model = next(o for o in options if isinstance(o, type) and issubclass(o, BaseModel))
    return [*model.model_fields, *getattr(model, "short", ())]


def differing(stored: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Dotted keys in which two specifications differ, with both values; null and absent are the same."""
    old, new = dict(leaves(stored)), dict(leaves(given))

    def said(value: Any) -> str:
        return "(absent)" if value is None else str(value) or "''"

    return [
        f"{key}: {said(old.get(key))} -> {said(new.get(key))}"
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]
