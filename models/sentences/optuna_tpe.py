"""The peer optuna_tpe: Optuna's TPESampler, after this campaign's own start."""

from dataclasses import dataclass
from typing import Literal

from fieldcraft.models.named_algorithm import Words, start


@dataclass(frozen=True)
class OptunaTPE:
    """Optuna's TPESampler, after this campaign's own start."""

    preset: Literal["default"] = "default"

    def words(self, dimension: int, batch: int) -> Words:
        """See Sentence.words."""
        return {"start": start(dimension), "peer": {"kind": "optuna_tpe"}}
