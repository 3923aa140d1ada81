"""The concentration that a release leaves in a tidal channel, by py-pde."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.problem import Problem, Simulator
from fieldcraft.physics.simulators._versions import version
from fieldcraft.physics.space import Design

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]

# Local error of a step of time relative to the values, and in g/m^3; the step is bounded by stability mostly.
_RELATIVE, _ABSOLUTE = 1e-5, 1e-7
# Largest step in s, so that none skips a release.
_STEP = 600.0


@runtime_checkable
class _Channel(Protocol):
    """A channel with joined ends in which a tide moves and spreads what is released."""

    @property
    def sides(self) -> tuple[float, float]: ...

    @property
    def diffusivity(self) -> float: ...

    @property
    def watched(self) -> float: ...

    def velocity(self, t: float) -> float: ...

    def release(self, design: Design, x: Array, y: Array, t: float) -> Array: ...


@dataclass(frozen=True)
class ChannelPyPde(Simulator):
    """Solve c_t + u(t) c_x - D (c_xx + c_yy) = S, periodic in x, without flux across y (py-pde: Zwicker, 2020).

    py-pde's second-order operators in space, and in time Runge and Kutta's method of third order with steps that SciPy
    chooses (Bogacki and Shampine, 1989). On 128 x 32 cells a run takes 2 to 4 s.

    Args:
        cells: Number of cells along x, from 16 to 512; along y as many as make them square, or nearly so.
        times: Number of equal spans of time in whose middles the field is kept, from 24 to 1000.

    Raises:
        ValueError: a number out of bounds.
    """

    cells: int = 128
    times: int = 192

    idempotent = True

    def __post_init__(self) -> None:
        if not 16 <= self.cells <= 512:
            raise ValueError(f"The tidal simulator's grid has {self.cells!r} cells along x: choose from 16 to 512.")
        if not 24 <= self.times <= 1000:
            raise ValueError(f"The tidal simulator keeps the field at {self.times!r} times: choose from 24 to 1000.")

    def run(self, problem: Problem, design: Design, rng: np.random.Generator) -> "xr.Dataset":
        """The field ``concentration`` in g/m^3 over (x, y, t), at the cells' centres in m, and in s.

        Raises:
            ValueError: a problem that is no such channel.
            RuntimeError: the equation was not solved.
        """
        import xarray as xr

        if not isinstance(problem, _Channel):
            raise ValueError(
                f"The tidal simulator cannot run {type(problem).__name__}, which is no channel with a tide (`sides`, "
                "`diffusivity`, `watched`, `velocity`, `release`): use the problem tidal, or another simulator."
            )
        span = problem.watched / self.times
        t = span * np.arange(0.5, self.times, dtype=np.float64)
        (x, y), found = self._solve(problem, design, t)
        return xr.Dataset(
            {"concentration": (("x", "y", "t"), found.astype(np.float32), {"units": "g/m^3"})},
            coords={
                "x": ("x", x, {"units": "m"}),
                "y": ("y", y, {"units": "m"}),
                "t": ("t", t, {"units": "s"}),
            },
            attrs={
                "mesh": f"{len(x)} x {len(y)} cells, values at their centres, at {self.times} times {span:g} s apart",
                "solver": f"py-pde {version('py-pde')} Laplace and gradient operators, RK23 of SciPy "
                f"{version('scipy')} to {_RELATIVE:g}",
            },
        )

    def _solve(self, channel: _Channel, design: Design, times: Array) -> tuple[tuple[Array, Array], Array]:
        """Cell centres along x and y, and the field (x, y, times)."""
        # Imported here: it takes most of a second, which only the process that simulates should pay.
        from pde.grids.cartesian import CartesianGrid
        from scipy.integrate import solve_ivp

        length, width = channel.sides
        shape = (self.cells, max(4, round(self.cells * width / length)))
        grid = CartesianGrid([(0.0, length), (0.0, width)], shape, periodic=[True, False])
        x, y = (np.array(centres, dtype=np.float64) for centres in grid.axes_coords)
        banks = {"x": "periodic", "y": {"derivative": 0}}
        laplacian, gradient = (grid.make_operator(name, banks, backend="scipy") for name in ("laplace", "gradient"))

        def rate(t: float, values: Array) -> Array:
            c = values.reshape(shape)
            spread, drift = channel.diffusivity * laplacian(c), channel.velocity(t) * gradient(c)[0]
            return np.asarray(spread - drift + channel.release(design, x, y, t)).ravel()

        found = solve_ivp(
            rate,
            (0.0, channel.watched),
            np.zeros(shape).ravel(),
            method="RK23",
            t_eval=times,
            rtol=_RELATIVE,
            atol=_ABSOLUTE,
            max_step=_STEP,
        )
        if not found.success:
            raise RuntimeError(f"SciPy's solve_ivp did not come to the end of the tides: {found.message}")
        return (x, y), found.y.reshape(*shape, -1)
