"""Two spills into a channel, known by twelve readings: which release explains them. A calibration by least squares."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.parametric.statement import Field, Fields, Numbers
from fieldcraft.physics.problem import Optimum, Output, Problem, Sense
from fieldcraft.physics.space import Continuous, Design, SearchSpace

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]

# Places along the channel of the stations 1, 2 and 3, and times of the readings.
_PLACES, _TIMES = np.array([0.0, 1.0, 2.5]), np.array([15.0, 30.0, 45.0, 60.0])
_RANGES = {"M": (7.0, 13.0), "D": (0.02, 0.12), "L": (0.01, 3.0), "tau": (30.01, 30.295)}
_TRUTH = {"M": 10.0, "D": 0.07, "L": 1.505, "tau": 30.1525}


@dataclass(frozen=True)
class Pollutant(Problem):
    """The squared difference between the concentrations of two spills and twelve readings of the true ones.

    A mass M enters a long, narrow channel at s = 0, t = 0, and the same mass at s = L, t = tau. With the rate D,

        c_t = D c_ss + M delta(s) delta(t) + M delta(s - L) delta(t - tau),
        c = M g(s, t) + [t > tau] M g(s - L, t - tau),   g(s, t) = exp(-s^2 / (4 D t)) / sqrt(4 pi D t),

    and the objective is the sum over s = 0, 1, 2.5 and t = 15, 30, 45, 60 of (c - c_true)^2, with c_true at M = 10,
    D = 0.07, L = 1.505 and tau = 30.1525 (Bliznyuk et al., 2008; as a composite function, Astudillo and Frazier, 2019).
    The sources give no units: masses are by the channel's cross-section, in any system of units. A release at an
    instant is no ``parametric`` equation, so none is stated: the readings are a field over the numbers of the stations,
    1, 2 and 3, and the times, and ``functional`` reads it.

    The formula, with these ranges, is that of BoTorch's tutorial of composite optimisation and of the published runs
    with networks and high-order processes (Bhouri et al., 2023). The released code of Astudillo and Frazier (with M
    from 7 to 11) and the library of Surjanovic and Bingham take sqrt(4 pi) c: log10 of their regret is 1.10 more.
    """

    @property
    def space(self) -> SearchSpace:
        """The mass M, the diffusion rate D, and the place L and the time tau of the second release."""
        return SearchSpace(tuple(Continuous(name, *ends) for name, ends in _RANGES.items()))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The sum of squared differences of concentrations."""
        return (Output("misfit"),)

    @property
    def sd(self) -> float:
        """Standard deviation of the misfit: that of 200,000 uniform designs, whose median is 5.1."""
        return 11.06

    @property
    def fields(self) -> Fields:
        """The concentration at the three stations and the four times."""
        return Fields(Domain((Axis("station", 0.5, 3.5), Axis("t", 7.5, 67.5))), (Field("concentration"),))

    def functional(self, fields: Mapping[str, Array], axes: Mapping[str, Array], designs: Numbers) -> Array:
        """The misfit of each ``concentration`` (n, 3, 4), shape (n, 1).

        Raises:
            ValueError: the field has other stations or times.
        """
        told = fields["concentration"]
        if told.shape[1:] != (len(_PLACES), len(_TIMES)):
            raise ValueError(f"The concentration has the shape {told.shape[1:]}: give it at 3 stations and 4 times.")
        apart = told - _spread(_TRUTH, _PLACES, _TIMES)
        return np.asarray((apart**2).sum(axis=(1, 2))[:, None])

    def function(self, design: Design) -> "xr.Dataset":
        """The readings of a design, as the field ``concentration`` over (station, t)."""
        import xarray as xr

        readings = _spread({name: float(design[name]) for name in _RANGES}, _PLACES, _TIMES)
        return xr.Dataset(
            {"concentration": (("station", "t"), readings, {"units": ""})},
            coords={"station": ("station", [1.0, 2.0, 3.0], {"units": ""}), "t": ("t", _TIMES, {"units": ""})},
            attrs={"solver": "the exact solution", "mesh": f"{len(_PLACES)} places x {len(_TIMES)} times"},
        )

    def exact(self, points: Array) -> Array:
        """The misfit of the designs (n, 4), shape (n,)."""
        rows = np.asarray(points, dtype=np.float64).reshape(-1, len(_RANGES)).T[:, :, None, None]
        fields = _spread(dict(zip(_RANGES, rows, strict=True)), _PLACES, _TIMES)
        return self.functional({"concentration": fields}, {}, {})[:, 0]

    def optimum(self, sense: Sense) -> Optimum | None:
        """The truth, which leaves nothing; None for the worst."""
        return Optimum(dict(_TRUTH), 0.0) if sense == "minimize" else None


def _spread(design: Mapping[str, float | Array], s: Array, t: Array) -> Array:
    """Concentrations at places s (p,) and times t > 0 (q,), for numbers or values (n, 1, 1), shape (..., p, q)."""
    mass, rate, place = design["M"], design["D"], design["L"]
    since = t - np.asarray(design["tau"])
    after = np.where(since > 0, since, 1.0)
    first = _kernel(rate, s[:, None], t)
    return np.asarray(mass * (first + np.where(since > 0, _kernel(rate, s[:, None] - place, after), 0.0)))


def _kernel(rate: float | Array, s: float | Array, t: Array) -> Array:
    """Density of a unit mass at a distance s, a time t after its release."""
    spread = 4 * rate * t
    return np.asarray(np.exp(-np.square(s) / spread) / np.sqrt(math.pi * spread))
