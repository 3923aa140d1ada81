"""Conduct of a campaign, as its file states it: approval, dispatch, budget, and the campaigns that it begins with."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from fieldcraft.flows.spec.base import UNIT, Cost, Hours, Parallel, Part, Seconds, Trials, at_most


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
        parallel: Number of simulations that may run at once; by ``local`` they share the cores. Work orders for people
            are not limited.
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
        trials: Number of trials sent, those of the start included; imported data and runs of levels do not count.
        cost: Budget units (``unit``), crashed and pending attempts included; no limit when left out.
        wall_time_h: Hours of simulation, added up over all attempts; no limit when left out, as it must be for people
            and ``inline``.
        unit: Name of the budget unit, such as EUR or node-hours.
    """

    trials: Trials
    cost: Cost | None = None
    wall_time_h: Hours | None = None
    unit: str = Field(default="", max_length=20, pattern=UNIT)


class WarmStart(Part):
    """An earlier, similar campaign whose results the surrogate begins with, and whose best design is tried first.

    Attributes:
        campaign: Name of the earlier campaign. It has the same variables and outputs, in the same units.
        home: Folder of that campaign's stores, within the folder of records (FIELDCRAFT_RECORDS); this campaign's own
            ledger when left out.
    """

    campaign: str = Field(min_length=1, max_length=60)
    home: str | None = None
