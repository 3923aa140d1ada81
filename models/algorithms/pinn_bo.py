"""PINN-BO (Phan-Trong, 2024, chapter 5): the objective's differential equation is known, its boundary data are not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fieldcraft.models.named_algorithm import EVERYWHERE, MULTISTART, Words, start

Engine = Literal["basis", "kernel", "ntk", "trained"]

_EVIDENCE: Mapping[str, Any] = {"kind": "auto", "candidates": ["physics_informed/basis", "physics_informed/kernel"]}
_PAPER: dict[str, Any] = {
    "width": 200,
    "depth": 3,
    "activation": "tanh",
    "frequency": 1.0,
    "weight": 1.0,
    "nu": 1.0,
    "steps": 100,
    "rate": 0.01,
    "decay": 0.95**100,
    "refinements": 0,
    "exact_draw": False,
}


@dataclass(frozen=True)
class PINNBO:
    """auto between two engines of physics_informed x log_ei x multistart; trained networks x thompson x multistart.

    Args:
        preset: ``paper``: networks of three hidden layers of 200 tanh, 100 epochs of a rate of 0.01 (its grid holds
            0.001 to 0.1) that falls by 0.95 an epoch, trained in every iteration; residual and misfit of equal weight,
            nu 1; draws are searched everywhere.
        engine: Method of learning from the equation. If left out: ``trained`` in the paper's preset, and else
            ``basis``, its exact solutions, or ``kernel``, a process conditioned on it, whichever predicts the results
            better in each iteration; both need a linear equation.
    """

    preset: Literal["default", "paper"] = "default"
    engine: Engine | None = None

    def __post_init__(self) -> None:
        if self.preset == "paper" and self.engine not in (None, "trained"):
            raise ValueError(
                f"preset is 'paper' and engine is {self.engine!r}: the paper trains networks; leave one of them out."
            )

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        paper = self.preset == "paper"
        engine = "trained" if paper else self.engine
        trained = {"networks": batch, **(_PAPER if paper else {})} if engine == "trained" else {}
        surrogate = {"kind": "physics_informed", "engine": engine, **trained} if engine else dict(_EVIDENCE)
        return {
            "start": start(dimension, "random" if paper else "sobol"),
            "surrogate": surrogate,
            "acquisition": dict(EVERYWHERE) if paper else {"kind": "thompson" if engine == "trained" else "log_ei"},
            "maximizer": dict(MULTISTART),
        }
