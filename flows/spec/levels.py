"""Levels of a simulator in a campaign file: the same simulator with other options, cheaper and coarser."""

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, Field, field_validator, model_validator

from fieldcraft.flows.spec.base import Part, no_text, no_truth


class LevelSpec(Part):
    """One level of the campaign's simulator.

    Attributes:
        cost: Expected cost of a run, as a share of the cost of a run of the simulator as it stands.

    Further keys are the simulator's own options that differ, which only it knows (``flows.wiring.levels`` validates
    them).
    """

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    cost: float = Field(gt=0, lt=1)

    @field_validator("cost", mode="before")
    @classmethod
    def _a_number(cls, given: Any) -> Any:
        return no_text(no_truth(given))

    @model_validator(mode="before")
    @classmethod
    def _same_kind(cls, given: Any) -> Any:
        if not isinstance(given, Mapping | LevelSpec):
            raise ValueError("give the options that differ and the cost, such as {cells: 24, cost: 0.07}")
        if isinstance(given, Mapping) and "kind" in given:
            raise ValueError("a level is the campaign's simulator with other options: leave kind out")
        return given

    @property
    def options(self) -> dict[str, Any]:
        """The simulator's options that differ."""
        return dict(self.model_extra or {})
