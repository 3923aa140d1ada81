"""The peer botorch_qlognei: BoTorch's SingleTaskGP with log noisy expected improvement, after our own start."""

from dataclasses import dataclass
from typing import Literal

from fieldcraft.models.named_algorithm import Words, start


@dataclass(frozen=True)
class BotorchQLogNEI:
    """BoTorch's SingleTaskGP with log noisy expected improvement, after this campaign's own start."""

    preset: Literal["default"] = "default"

    def words(self, dimension: int, batch: int) -> Words:
        """See Sentence.words."""
        return {"start": start(dimension), "peer": {"kind": "botorch_qlognei"}}
