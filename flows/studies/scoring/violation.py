"""Distance of a campaign's designs from a constrained optimum: positive regret, violation, feasibility.

With the exact objective f, the optimum f* of the feasible designs, the exact constraints c_k (met where <= 0) and
[a]^+ = max(a, 0), the design x_s of trial s has the positive regret [f(x_s) - f*]^+ (of f* - f where f is maximised)
and the violations [c_k(x_s)]^+ (Xu et al., 2023). After t trials a campaign has, all without noise:

regret_and_violation   log10 min_{s <= t} ([f(x_s) - f*]^+ / sd(f) + sum_k [c_k(x_s)]^+ / sd(c_k)), a pure number
feasible_regret        min_{s <= t} [f(x_s) - f*]^+ over the feasible x_s, in the objective's unit; none before one is
cumulative_regret      sum_{s <= t} [f(x_s) - f*]^+, in the objective's unit
cumulative_violation   sum_{s <= t} sum_k [c_k(x_s)]^+ / sd(c_k), a pure number

The spreads sd are standard deviations over the problem's whole space or, where only simulations know the outputs, over
the designs tried. Without them the constraint with the largest numbers would dominate. A trial without a result adds
nothing to any of the metrics.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from fieldcraft.flows.studies.plan.spec import Metric
from fieldcraft.flows.studies.scoring.tests_and_ranks import curve, or_infinite, or_none, summary

Array = NDArray[np.float64]
METRICS: tuple[Metric, ...] = get_args(Metric)
FLOOR = 1e-12
"""Sums of regret and violation below it count as it, so that an optimum met to rounding has a logarithm."""


@dataclass(frozen=True)
class Spreads:
    """Standard deviations over a problem's space, by which regret and violations are scaled.

    Args:
        objective: Spread of the objective, in its unit.
        constraints: Spreads of the constraints, in their units.
    """

    objective: float
    constraints: tuple[float, ...]

    @property
    def listed(self) -> list[float]:
        """Spreads of the objective and then of the constraints, as JSON data."""
        return [self.objective, *self.constraints]


def spreads_of(cells: Sequence[Mapping[str, Any]]) -> Spreads | None:
    """Spreads stated by the finished cells of a problem; where there are none, those over all designs of the cells.

    None where no design has a result. A spread of zero is replaced by 1, so that an output that never varies keeps its
    unit.
    """
    stated = cells[0]["spreads"] if cells else None
    if stated is None:
        tried = [trial for cell in cells for trial in cell["trials"] if trial["outputs"] is not None]
        if not tried:
            return None
        stated = np.std([trial["outputs"] for trial in tried], axis=0)
    objective, *constraints = (float(sd) or 1.0 for sd in stated)
    return Spreads(objective, tuple(constraints))


def with_violations(cell: Mapping[str, Any], best: float, spreads: Spreads) -> dict[str, Any]:
    """A finished cell of a problem with constraints, with the metrics that this module defines.

    Args:
        cell: Data of ``flows.studies.scoring.truth.measured``.
        best: f*, in the objective's unit.
        spreads: Spreads of the problem's outputs.

    Returns:
        The cell and: ``paths``, each metric after each trial (None before the first result, for ``feasible_regret``
        before the first feasible design); ``metrics``, their last values; ``feasible_trials``, their number;
        ``first_feasible``, a trial's number or None; ``violations``, the cumulative one of each constraint in its
        unit, by name; and ``unscaled``, the last ``regret_and_violation`` with every spread 1, as in the papers.
    """
    regret, violation = _shortfalls(cell, best)
    known, feasible = ~np.isnan(regret), np.all(violation <= 0, axis=1)  # NaN is not <= 0
    scaled = regret / spreads.objective + np.sum(violation / spreads.constraints, axis=1)
    paths = {
        "regret_and_violation": _listed(_logarithms(_least(scaled, known))),
        "feasible_regret": _listed(_least(regret, feasible)),
        "cumulative_regret": _listed(_summed(regret, known)),
        "cumulative_violation": _listed(_summed(np.sum(violation / spreads.constraints, axis=1), known)),
    }
    return {
        **cell,
        "paths": paths,
        "metrics": {name: path[-1] for name, path in paths.items()},
        "feasible_trials": int(feasible.sum()),
        "first_feasible": int(feasible.argmax()) + 1 if feasible.any() else None,
        "violations": dict(zip(cell["constraints"], np.nansum(violation, axis=0).tolist(), strict=True)),
        "unscaled": _listed(_logarithms(_least(regret + violation.sum(axis=1), known)))[-1],
    }


def _shortfalls(cell: Mapping[str, Any], best: float) -> tuple[Array, Array]:
    """Positive regrets (t,) and violations (t, c) of a cell's trials; NaN where a trial has no result."""
    nothing = [np.nan] * (1 + len(cell["constraints"]))
    rows = [nothing if trial["outputs"] is None else trial["outputs"] for trial in cell["trials"]]
    outputs = np.array(rows, dtype=np.float64)
    sign = 1.0 if cell["maximize"] else -1.0
    return np.maximum(sign * (best - outputs[:, 0]), 0.0), np.maximum(outputs[:, 1:], 0.0)


def _least(values: Array, counted: NDArray[np.bool_]) -> Array:
    """The least counted value after each trial; infinite before there is one."""
    return np.asarray(np.minimum.accumulate(np.where(counted, values, np.inf)))


def _summed(values: Array, counted: NDArray[np.bool_]) -> Array:
    """The sum of the counted values after each trial; infinite before there is one."""
    total = np.cumsum(np.where(counted, values, 0.0))
    return np.where(np.logical_or.accumulate(counted), total, np.inf)


def _logarithms(values: Array) -> Array:
    return np.asarray(np.log10(np.maximum(values, FLOOR)))


def _listed(path: Array) -> list[float | None]:
    return [or_none(value) for value in path.tolist()]


def constrained_row(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Further data of an algorithm's campaigns on a problem with constraints, beside the metric of the comparison.

    Returns:
        ``metrics`` by name, each with ``mean``, ``error``, ``median`` and ``curve`` (None where a campaign has none);
        ``feasible``, the number of campaigns that tried a feasible design; ``feasible_trials``, the mean number of such
        designs; ``first_feasible``, the median number of the first one, None where most campaigns have none;
        ``violations``, the mean cumulative one of each constraint in its unit; and ``unscaled``, mean.
    """
    first = summary([or_infinite(cell["first_feasible"]) for cell in cells])
    return {
        "metrics": {metric: _told([cell["paths"][metric] for cell in cells]) for metric in METRICS},
        "feasible": sum(cell["first_feasible"] is not None for cell in cells),
        "feasible_trials": float(np.mean([cell["feasible_trials"] for cell in cells])),
        "first_feasible": first.median,
        "violations": {
            name: float(np.mean([cell["violations"][name] for cell in cells])) for name in cells[0]["constraints"]
        },
        "unscaled": float(np.mean([cell["unscaled"] for cell in cells])),
    }


def _told(paths: Sequence[Sequence[float | None]]) -> dict[str, Any]:
    found = summary([or_infinite(path[-1]) for path in paths])
    return {"mean": found.mean, "error": found.error, "median": found.median, "curve": curve(paths)}
