"""STO-BNTS (Dai et al., 2022): sample-then-optimise batch neural Thompson sampling."""

from dataclasses import dataclass
from typing import Any, Literal

from fieldcraft.models.named_algorithm import EVERYWHERE, MULTISTART, Words, start

PAPER: dict[str, Any] = {
    "hyperparameters": "fixed",
    "normalised": False,
    "width": 256,
    "depth": 2,
    "activation": "relu",
    "w_std": 1.5,
    "b_std": 0.05,
    "noise": 0.01,
    "perturb_targets": False,
}
PAPER_MAXIMIZER = {**MULTISTART, "n_samples": 10_000, "n_starts": 100}


@dataclass(frozen=True)
class STOBNTS:
    """sampled_network x thompson x multistart: a network of its own, trained from a fresh start, for each design.

    Args:
        preset: ``default``: the options that this project found to work. ``paper``: the raw kernel of two
            hidden layers of 256 relu (weights of 1.5, biases of 0.05 over the root of the fan-in), noise 0.1,
            unperturbed targets, trained to convergence; 10,000 candidates everywhere and 100 searches
            by gradient.
    """

    preset: Literal["default", "paper"] = "default"

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        paper = self.preset == "paper"
        return {
            "start": start(dimension, "random" if paper else "sobol"),
            "surrogate": {"kind": "sampled_network", "networks": batch, **(PAPER if paper else {})},
            "acquisition": dict(EVERYWHERE) if paper else {"kind": "thompson"},
            "maximizer": dict(PAPER_MAXIMIZER if paper else MULTISTART),
        }
