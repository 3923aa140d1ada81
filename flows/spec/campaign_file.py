"""The campaign file: YAML in, canonical JSON and its SHA-256 out. It is data and can name only registered kinds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fieldcraft.flows.errors import Faults, InputError
from fieldcraft.flows.files.yaml_data import MAX_BYTES as MAX_BYTES
from fieldcraft.flows.files.yaml_data import load_yaml as load_yaml
from fieldcraft.flows.files.yaml_data import read_page
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


class Component(BaseModel):
    """A kind and its options, which ``flows.wiring.build`` validates: only the kind knows them."""

    model_config = ConfigDict(extra="allow", frozen=True)
    kind: str


class Start(Part):
    """The designs before any model.

    Attributes:
        proposer: Sequence they are taken from.
        n: How many.
    """

    proposer: Component = Component(kind="sobol")
    n: Trials


class Collocation(Part):
    """Where the equation is imposed.

    Attributes:
        scheme: How points are placed in the problem's domain.
        n: How many.
        resample: Fresh points in every iteration, or one set for the campaign.
    """

    scheme: Literal["sobol", "latin_hypercube", "uniform"] = "sobol"
    n: int = Field(default=256, ge=1, le=1_000_000)
    resample: bool = True


class ConstraintsSpec(Part):
    """How unknown constraints, the outputs after the first, are learnt and kept to.

    Attributes:
        surrogate: What learns each of them; the objective's own surrogate when left out.
        rule: How they enter the acquisition; left out, by their probability where its score is positive or a logarithm,
            else by their optimistic bounds.
    """

    surrogate: Component | None = None
    rule: Component | None = None


class AlgorithmSpec(Part):
    """Surrogate x acquisition x maximizer, or a rival, after a start; without them, the start's proposer goes on.

    Attributes:
        named: The name that these words were expanded from, with its options and the words that the file gave in the
            place of its own. It changes nothing; in a file it must be true.
        start: The designs before any model.
        surrogate: What learns from the trials.
        acquisition: What a candidate is worth.
        maximizer: How the best candidate is found.
        peer: A rival, a whole optimiser of another package, instead of the three.
        constraints: How unknown constraints are learnt and kept to.
        collocation: Where an equation is imposed.
    """

    named: Component | None = None
    start: Start
    surrogate: Component | None = None
    acquisition: Component | None = None
    maximizer: Component | None = None
    peer: Component | None = None
    constraints: ConstraintsSpec = ConstraintsSpec()
    collocation: Collocation = Collocation()

    @model_validator(mode="after")
    def _all_three_or_none(self) -> Self:
        words = {"surrogate": self.surrogate, "acquisition": self.acquisition, "maximizer": self.maximizer}
        given = [name for name, word in words.items() if word is not None]
        if self.peer is not None and given:
            raise ValueError(
                f"a rival (peer) is a whole optimiser, and {' and '.join(given)} given beside it: leave one out"
            )
        if 0 < len(given) < len(words):
            missing = [name for name in words if name not in given]
            raise ValueError(f"no {' and no '.join(missing)}: give surrogate, acquisition and maximizer, or none")
        return self

    @property
    def in_words(self) -> str:
        """The algorithm in words: ``physics_informed x thompson x multistart``, or the rival's kind."""
        words = [word.kind for word in (self.surrogate, self.acquisition, self.maximizer, self.peer) if word]
        return " x ".join(words) or self.start.proposer.kind


class Noise(Part):
    """Noise of the objective's results: added to each, or their own. ``noise: fitted`` says the latter in short.

    Attributes:
        sd: Standard deviation of Gaussian noise that is added, in the objective's unit.
        of_sd: The same as a fraction of the objective's own standard deviation, where the problem states that.
        fitted: Whether a design that is run again may read otherwise, by how much nobody knows: none is added, the
            surrogate finds it, and a design may be proposed again.
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
    """Who approves what runs. ``approval: human`` and ``approval: {after_first: 8}`` say it in short.

    Attributes:
        policy: ``auto``: every proposal at once. ``human``: a person, one by one or several. ``batch``: a person, all
            trials of an iteration together, and none is sent before all are decided. ``auto_below_cost``: at once where
            an attempt is expected to cost less than ``cost``, else a person. ``after_first``: a person decides on the
            first ``first`` trials; every later one is approved at once. Each automatic approval is written down as a
            person's is.
        cost: Limit of ``auto_below_cost``, in budget units.
        first: Number of trials of ``after_first``.
        expires_h: Hours after which a person's approval that was not used is void; never when left out.
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
    """Where and how simulations run.

    Attributes:
        kind: Dispatcher.
        parallel: How many may run at once; people take as many work orders as they are given.
        wall_time_s: Limit of one simulation in seconds, at which ``local`` kills its whole process group; ``inline``
            ends nothing.
        attempts: How often a trial may be sent when its simulator is idempotent or failed in passing.
        backoff_s: Wait in seconds before the first retry; doubled for each further one, up to an hour.
        lease_s: A running trial that its dispatcher cannot tell of for so many seconds is held for a person.
        instructions: What the people of a laboratory are told with every work order.

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
    """What may be spent.

    Attributes:
        trials: Number of trials sent, those of the start included; imported data count nothing.
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
    """Ends a campaign whose experiments fail.

    Attributes:
        above: Share of failures, from 0 to 1, above which the campaign ends.
        over: Number of last settled trials that are counted; fewer end nothing.
    """

    above: float = Field(ge=0, lt=1)
    over: Trials = 10


class Stop(Part):
    """When to end before the budget is spent; the first rule that holds is recorded by name.

    Attributes:
        target: Once a result reaches it (in the objective's unit).
        no_improvement: Once so many completed trials in a row have not improved on the best result.
        failure_rate: Once too many of the last trials have failed.
        certified_gap: Once it is proven that, as far as the model can tell, no design can be expected to improve on the
            best believed value by more than this (in the objective's unit); for the maximizer ``certified``.
    """

    target: float | None = None
    no_improvement: Trials | None = None
    failure_rate: FailureRate | None = None
    certified_gap: float | None = Field(default=None, gt=0)


class _Campaign(Part):
    """One campaign.

    Attributes:
        name: Names the campaign and its trials.
        seed: Entropy of every random stream.
        sense: Whether the objective is maximised or minimised.
        problem: What is optimised.
        simulator: What answers a design; left out where people do, in a laboratory, or the dispatcher itself.
        space: Narrower bounds of the problem's variables, ``{x: [low, high]}``.
        noise: Noise of the objective's results; when left out, a design that is run again reads the same, unless
            people measure or the dispatcher's program says otherwise.
        algorithm: How designs are chosen.
        batch: Designs per iteration after the start.
        approval: Who approves what runs.
        dispatcher: Where simulations run.
        budget: What may be spent.
        stop: When to end earlier.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$")
    seed: int = Field(ge=0, lt=2**63)
    sense: Literal["maximize", "minimize"]
    problem: Component
    simulator: Component | None = None
    space: dict[str, tuple[Finite, Finite]] = Field(default_factory=dict)
    noise: Noise | None = None
    algorithm: AlgorithmSpec | Component
    batch: Batch = 1
    approval: Approval = Approval()
    dispatcher: Dispatch = Dispatch()
    budget: Budget
    stop: Stop = Stop()


class NamedSpec(_Campaign):
    """One campaign whose algorithm is a name, which ``flows.wiring.named_algorithms`` expands into components."""

    algorithm: Component


class CampaignSpec(_Campaign):
    """One campaign, whole: its algorithm in words."""

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
    """A specification from data, whose algorithm is named where it has a kind; errors begin with ``source``, if any.

    Raises:
        InputError: a key is missing, misspelt or has a value that cannot be.
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
    """A specification as the ledger stores it, its algorithm in words; ``source`` is named in errors.

    Raises:
        InputError: a key is missing, misspelt or has a value that cannot be.
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
    """The keys that exist in a place of the file."""
    model: type[BaseModel] = CampaignSpec
    for part in place:
        annotation = model.model_fields[str(part)].annotation
        options = getattr(annotation, "__args__", (annotation,))
        model = next(o for o in options if isinstance(o, type) and issubclass(o, BaseModel))
    return [*model.model_fields, *getattr(model, "short", ())]


def differing(stored: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Dotted keys in which two specifications differ, with both values; null is as good as absent."""
    old, new = dict(leaves(stored)), dict(leaves(given))

    def said(value: Any) -> str:
        return "(absent)" if value is None else str(value) or "''"

    return [
        f"{key}: {said(old.get(key))} -> {said(new.get(key))}"
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]
