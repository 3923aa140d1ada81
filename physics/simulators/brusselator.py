"""The concentrations that reacting and diffusing substances end with, by py-pde."""

from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.parametric.statement import Fields
from fieldcraft.physics.problem import Problem, Simulator
from fieldcraft.physics.space import Design

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]

# Local error of a step of time relative to the values, and in their units.
_RELATIVE, _ABSOLUTE = 1e-5, 1e-7


@runtime_checkable
class _Reaction(Protocol):
    """Substances that react and diffuse on a plate whose rim nothing crosses."""

    @property
    def fields(self) -> Fields: ...

    @property
    def until(self) -> float: ...

    def begin(self, design: Design) -> Array: ...

    def diffusivities(self, design: Design) -> tuple[float, ...]: ...

    def reaction(self, design: Design, values: Array) -> Array: ...


@dataclass(frozen=True)
class ReactionPyPde(Simulator):
    """Solve c_t = D (c_xx + c_yy) + R(c) for each substance, without flux across the rim (py-pde: Zwicker, 2020).

    py-pde's second-order Laplace operator on the cells in which the problem begins, and in time Runge and Kutta's
    method of third order with steps that SciPy chooses (Bogacki and Shampine, 1989). On the problem brusselator's
    64 x 64 cells a run takes some 0.3 s, and up to 4 s where the concentrations go round in spikes.
    """

    idempotent = True

    def run(self, problem: Problem, design: Design, rng: np.random.Generator) -> "xr.Dataset":
        """The fields of the problem at its end, at the cells' centres.

        Raises:
            ValueError: a problem that states no such reaction.
            RuntimeError: the equations were not solved.
        """
        import xarray as xr

        if not isinstance(problem, _Reaction):
            raise ValueError(
                f"The brusselator simulator cannot run {type(problem).__name__}, which states no reaction (`begin`, "
                "`reaction`, `diffusivities`, `until`): use the problem brusselator, or another simulator."
            )
        stated = problem.fields
        found = _solved(problem, design)
        centres = Grid(stated.domain, found.shape[1:]).centres
        return xr.Dataset(
            {
                field.name: (stated.domain.names, values, {"units": field.unit})
                for field, values in zip(stated.fields, found, strict=True)
            },
            coords={axis.name: (axis.name, centres[axis.name], {"units": axis.unit}) for axis in stated.domain.axes},
            attrs={
                "mesh": f"{' x '.join(map(str, found.shape[1:]))} cells, values at their centres",
                "solver": f"py-pde {version('py-pde')} Laplace operator, RK23 of SciPy {version('scipy')} to "
                f"{_RELATIVE:g}",
            },
        )


def _solved(reaction: _Reaction, design: Design) -> Array:
    """The fields (fields, *cells) at the end."""
    # Imported here: it takes most of a second, which only the process that simulates should pay.
    from pde.grids.cartesian import CartesianGrid
    from scipy.integrate import solve_ivp

    first = reaction.begin(design)
    axes = reaction.fields.domain.axes
    grid = CartesianGrid([(axis.low, axis.high) for axis in axes], first.shape[1:])
    closed = {axis: {"derivative": 0} for axis in grid.axes}
    laplacian, rates = grid.make_operator("laplace", closed, backend="scipy"), reaction.diffusivities(design)

    def change(t: float, values: Array) -> Array:
        fields = values.reshape(first.shape)
        spread = [rate * laplacian(field) for rate, field in zip(rates, fields, strict=True)]
        return np.asarray(spread + reaction.reaction(design, fields)).ravel()

    end = reaction.until
    found = solve_ivp(change, (0.0, end), first.ravel(), method="RK23", t_eval=[end], rtol=_RELATIVE, atol=_ABSOLUTE)
    if not found.success:
        raise RuntimeError(f"SciPy's solve_ivp did not come to the end of the reaction: {found.message}")
    return np.asarray(found.y[:, -1].reshape(first.shape))
