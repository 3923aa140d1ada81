"""Neural-CBO (Phan-Trong, 2024, chapter 4): expected improvement under constraints, all by neural networks."""

from dataclasses import dataclass
from typing import Any, Literal

from fieldcraft.models.named_algorithm import MULTISTART, Words, start


@dataclass(frozen=True)
class NeuralCBO:
    """tangent_network x log_ei x multistart, by default times the probability that all constraints hold.

    The objective and every constraint have a tangent_network of their own. The incumbent is the best mean among the
    trials believed feasible; if there is none, only the probability is maximised. The paper has optimistic bounds
    instead: the improvement counts where the lower bounds of all constraints are <= 0, and if no trial is believed
    feasible the summed violation of the bounds is minimised (our choice; the paper does not state one).

    Args:
        preset: ``paper``: two hidden layers of ``horizon`` relu, zero before training, the raw kernel at the initial
            weights with lambda 1, one pass over the trials at the rate 1e-4, the theory's bounds and 10,000 candidates
            without gradients. B, R and delta are not published: 1, 0.1 and 0.1, in standard deviations of the results.
        train: ``full`` or ``one_pass``; the preset's own when left out, which is ``full`` in the default one.
        beta: Weight of the variance in the constraints' bounds (0.25 in the authors' code), or ``gamma`` for the
            theory's; when left out ``gamma`` in the preset ``paper``, and in the default one no bounds.
        horizon: T, the trials planned, which is the width of the paper's networks.

    Raises:
        ValueError: horizon < 2.
    """

    preset: Literal["default", "paper"] = "default"
    train: Literal["full", "one_pass"] | None = None
    beta: float | Literal["gamma", "growing"] | None = None
    horizon: int = 100

    def __post_init__(self) -> None:
        if self.horizon < 2:
            raise ValueError(f"horizon is {self.horizon}: give the number of trials planned, 2 or more.")

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        paper = self.preset == "paper"
        surrogate = {"kind": "tangent_network", **(self._paper() if paper else self._trained())}
        beta = "gamma" if paper and self.beta is None else self.beta
        rule: dict[str, Any] = {"kind": "probability"} if beta is None else {"kind": "bound", "beta": beta}
        return {
            "start": start(dimension, "random" if paper else "sobol"),
            "surrogate": surrogate,
            "acquisition": {"kind": "log_ei", **({"doubts": 0.0} if paper else {})},
            "maximizer": {**MULTISTART, **({"n_samples": 10_000, "n_starts": 0} if paper else {})},
            "constraints": {"surrogate": dict(surrogate), "rule": rule},
        }

    def _trained(self) -> dict[str, Any]:
        return {"train": self.train} if self.train else {}

    def _paper(self) -> dict[str, Any]:
        return {
            "hyperparameters": "fixed",
            "normalised": False,
            "init": "mirrored",
            "activation": "relu",
            "depth": 2,
            "width": self.horizon,
            "noise": 1.0,
            "train": self.train or "one_pass",
            "rate": 1e-4,
        }
