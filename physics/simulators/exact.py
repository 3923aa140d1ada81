"""A problem's exact objective, as a simulator."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.physics.problem import Problem, Simulator
from fieldcraft.physics.space import Design

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Exact(Simulator):
    """Answer with ``problem.exact`` at the design, without mesh: cheap results for comparisons of algorithms."""

    idempotent = True
    formula = True

    def run(self, problem: Problem, design: Design, rng: np.random.Generator) -> "xr.Dataset":
        """The objective as a scalar variable of its name, in its unit.

        Raises:
            ValueError: a problem with more outputs than the objective, with designs that are not numbers alone, or
                without ``exact``.
        """
        import xarray as xr

        objective, *others = problem.outputs
        names = problem.domain.names if problem.domain else problem.space.names
        place = [design[name] for name in names]
        known = None
        if not others and not any(isinstance(value, str) for value in place):
            known = problem.exact(np.array([place], dtype=np.float64))
        if known is None:
            raise ValueError(
                f"The simulator 'exact' cannot run {type(problem).__name__}: it needs `exact` for designs of numbers, "
                "and no output but the objective; choose another simulator."
            )
        return xr.Dataset(
            {objective.name: ((), float(known[0]), {"units": objective.unit})}, attrs={"solver": "the exact solution"}
        )
