"""The campaign file: a specification read from YAML. It is data alone, and can name only registered kinds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
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
    STORED,
    Batch,
    Cost,
    Finite,
    Hours,
    Parallel,
    Part,
    Seconds,
    Trials,
    at_most,
    faults_of,
    leaves,
    out_of_reach,
)
from fieldcraft.flows.spec.consistency import across, reversed_bounds, uncovered


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
    """Noise of the objective's results: added to each, or their own. ``noise: fitted`` is short for ``fitted: true``.

    Attributes:
        sd: Standard deviation of Gaussian noise that is added, in the objective's unit.
        of_sd: The same as a fraction of the objective's own standard deviation, where the problem states that.
        fitted: True if results have noise of their own, of unknown size. No noise is added, the surrogate estimates
            it, and a design may be proposed again.
    """

    sd: float | None = Field(default=None, ge=0)
    of_sd: Annotated[float, Field(ge=0), at_most(1000, "no result would say anything")] | None = None

    fitted: bool = False

    @model_validator(mode="before")
    @classmethod
    def _in_short(cls, given: Any) -> Any:
        return {"fitted": True} if given == "fitted" else given

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.sd is not None) + (self.of_sd is not None) + self.fitted != 1:
            raise ValueError("give exactly one of sd (in the objective's unit), of_sd (a fraction) and fitted: true")
        return self


class Approval(Part):
    """Approval of trials. ``approval: human`` and ``approval: {after_first: 8}`` are short forms.

    Attributes:
        policy: ``auto``: every proposal at once. ``human``: a person, one by one or several. ``batch``: a person, all
            trials of an iteration together, and none is sent before all are decided. ``auto_below_cost``: at once where
            an attempt is expected to cost less than ``cost``, else a person. ``after_first``: a person decides on the
            first ``first`` trials; every later one is approved at once. Each automatic approval is recorded as a
            person's is.
        cost: Limit of ``auto_below_cost``, in budget units.
        first: Number of trials of ``after_first``.
        expires_h: Hours after which a person's unused approval is void; never when left out.
    """

    short: ClassVar[Mapping[str, str]] = {"auto_below_cost": "cost", "after_first": "first"}  # policies, their option

    policy: Literal["auto", "human", "batch", "auto_below_cost", "after_first"] = "auto"
    cost: Cost | None = None
    first: Trials | None = None
    expires_h: Annotated[float, Field(gt=0), at_most(1e5, "that is eleven years")] | None = None

    @model_validator(mode="before")
    @classmethod
    def _in_short(cls, given: Any) -> Any:
        if isinstance(given, str):
            return {"policy": given}
        if not isinstance(given, Mapping):
            return given
        named = [key for key in ("policy", *cls.short) if key in given]
        if len(named) > 1:
            raise ValueError(f"{' and '.join(named)} each name a policy: give one of them")
        if named != ["policy"]:
            for policy, option in cls.short.items():
                if policy in given:
                    rest = {key: value for key, value in given.items() if key != policy}
                    return {"policy": policy, option: given[policy], **rest}
        return given

    @model_validator(mode="after")
    def _has_its_option(self) -> Self:
        for policy, option in self.short.items():
            if (self.policy == policy) != ((value := getattr(self, option)) is not None):
                raise ValueError(f"the policy is {self.policy!r} and {option} is {value}: {option} is for {policy}")
        if self.policy == "auto" and self.expires_h is not None:
            raise ValueError("expires_h is for people's approvals, and under the policy 'auto' there is none")
        return self


class Dispatch(Part):
    """Dispatcher of the simulations or experiments, with its limits.

    Attributes:
        kind: Kind of the dispatcher.
        parallel: Number of simulations that may run at once; work orders for people are not limited.
        wall_time_s: Limit of one simulation in seconds, at which ``local`` kills its whole process group; ``inline``
            enforces no limit.
        attempts: Number of times that a trial may be sent, if its simulator is idempotent or its failure transient.
        backoff_s: Wait in seconds before the first retry; doubled for each further one, up to an hour.
        lease_s: Seconds without news from the dispatcher after which a running trial is held for a person.
        instructions: Instructions to the people of a laboratory, given with every work order.

    Further keys are the dispatcher's own options, which only it knows (``flows.wiring.campaign`` validates them).
    """

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    kind: str = "local"
    parallel: Parallel = 2
    wall_time_s: Seconds = 600.0
    attempts: Annotated[int, Field(ge=1), at_most(1000, "what fails so often fails again")] = 3
    backoff_s: Annotated[float, Field(ge=0), at_most(3600, "a retry waits an hour at most")] = 1.0
    lease_s: Seconds = 300.0
    instructions: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """The dispatcher's own options."""
        return dict(self.model_extra or {})


class Budget(Part):
    """Budget of a campaign.

    Attributes:
        trials: Number of trials sent, those of the start included; imported data do not count.
        cost: Budget units (``unit``), crashed and pending attempts included; no limit when left out.
        wall_time_h: Hours of simulation, added up over all attempts; no limit when left out, as it must be for people
            and ``inline``.
        unit: Name of the budget unit, such as EUR or node-hours.
    """

    trials: Trials
    cost: Cost | None = None
    wall_time_h: Hours | None = None
    unit: str = Field(default="", max_length=20, pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")  # no control characters


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
        seed: Entropy of every random stream.
        sense: Direction of the objective: ``maximize`` or ``minimize``. Left out where the problem has several
            objectives, each of which it marks with its own.
        problem: Problem that is optimised.
        simulator: Simulator that evaluates a design; left out where people do, or the dispatcher itself.
        space: Narrower bounds of the problem's variables, ``{x: [low, high]}``.
        noise: Noise of the objective's results. When left out, a design that is run again has the same result, unless
            people measure or the dispatcher's program declares noise.
        algorithm: Algorithm that chooses designs.
        emulator: Emulator in place of the problem's own: its ``emulate``, or its stated equation on a coarse grid.
        batch: Number of designs per iteration after the start.
        approval: Approval of trials.
        dispatcher: Dispatcher of the simulations or experiments.
        budget: Budget of the campaign.
        stop: Stop rules that end it before the budget is spent.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$")
    seed: int = Field(ge=0, lt=2**63)
    sense: Literal["maximize", "minimize"] | None = None
    problem: Component
    simulator: Component | None = None
    space: dict[str, tuple[Finite, Finite]] = Field(default_factory=dict)
    noise: Noise | None = None
    algorithm: AlgorithmSpec | Component
    emulator: EmulatorSpec | None = None
    batch: Batch = 1
    approval: Approval = Approval()
    dispatcher: Dispatch = Dispatch()
    budget: Budget
    stop: Stop = Stop()

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The data, without an emulator where none is given: they have the digest of versions that knew none."""
        data: dict[str, Any] = handler(self)
        if data.get("emulator") is None:
            data.pop("emulator", None)
        return data


class NamedSpec(_Campaign):
    """One campaign with a named algorithm, which ``flows.wiring.named_algorithms`` expands into its words."""

    algorithm: Component


class CampaignSpec(_Campaign):
    """One campaign with the words of its algorithm given."""

    algorithm: AlgorithmSpec

    @model_validator(mode="after")
    def _budget_covers_the_start(self) -> Self:
        if (fault := uncovered(self.budget.trials, self.algorithm.start.n)) is not None:
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
    for part in place:
        annotation = model.model_fields[str(part)].annotation
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
