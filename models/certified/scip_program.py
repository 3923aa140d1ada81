"""PK-MIQP's mixed-integer quadratic program, stated and solved with SCIP.

    maximise  b s - m0 - a . z    subject to    z . z + s^2 <= 1,    k = L z,    k_i = sum_j w_ij k(R_j),
                                                t_i = sum_j w_ij R_j,    sum_j w_ij = 1

with at most two neighbouring w_ij > 0 for each i (a special ordered set of type 2) and t_i the distance of x to input
i, or its square. This is the paper's program with the variance factorised, which keeps every variable within [-1, 1].
The subproblem of the mean alone has c . k in the objective and neither z nor s.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldcraft.models.certified.box_region import integer_steps
from fieldcraft.models.certified.piecewise_process import PiecewiseProcess, farthest
from fieldcraft.models.maximizer import Status
from fieldcraft.models.observations import Array
from fieldcraft.physics.space import SearchSpace

_Whole = tuple[int, float, Any]

_STATUS: dict[str, Status] = {
    "optimal": "optimal",
    "gaplimit": "optimal",
    "infeasible": "optimal",
    "nodelimit": "node_limit",
    "totalnodelimit": "node_limit",
    "timelimit": "time_limit",
}


@dataclass(frozen=True)
class Effort:
    """Limits at which SCIP ends.

    Args:
        gap: Difference of bound and best value at which it ends.
        nodes: Nodes of its tree.
        time_s: Wall time in seconds; None for no limit.
    """

    gap: float
    nodes: int
    time_s: float | None


@dataclass(frozen=True, eq=False)
class Solved:
    """Result of a program.

    Args:
        X: Its solutions as encoded points, the best first, shape (n, d); feasible to SCIP's tolerances.
        bound: Upper bound of its objective.
        status: Reason for its end; "optimal" also if it has no solution.
        nodes: Nodes of the tree.
    """

    X: Array
    bound: float
    status: Status
    nodes: int


@dataclass(frozen=True, eq=False)
class Program:
    """The program of a process in a space.

    Args:
        process: The approximate process.
        space: A space without images.
        mean_only: True to state the subproblem, whose objective is -mu~.
    """

    process: PiecewiseProcess
    space: SearchSpace
    mean_only: bool = False

    def solved(self, starts: Array, effort: Effort, floor: float | None = None) -> Solved:
        """Result of the search that begins with points (m, d) of the space.

        Args:
            starts: Encoded points; those outside the program are skipped.
            effort: Limits at which it ends.
            floor: If given, only better solutions are sought.
        """
        scip = _scip(effort)
        parts = _Parts.stated(scip, self.process, self.space, mean_only=self.mean_only)
        offset = self.process.constant
        if floor is not None:
            scip.setObjlimit(floor + offset)
        for x in starts:
            self._start(scip, parts, x)
        scip.optimize()
        status = str(scip.getStatus())
        bound = scip.getDualbound() - offset if status != "infeasible" else -np.inf
        X = [[scip.getSolVal(solution, v) for v in parts.x] for solution in scip.getSols()]
        return Solved(
            np.array(X).reshape(-1, self.space.dimension),
            min(self.ceiling, max(bound, -np.inf if floor is None else floor)),
            _STATUS.get(status, "numerical"),
            int(scip.getNTotalNodes()),
        )

    @property
    def ceiling(self) -> float:
        """Upper bound of the objective: |z| and s lie in the unit ball, every k_i in [0, 1]."""
        p = self.process
        if self.mean_only:
            return float(np.maximum(-p.weights, 0).sum()) - p.constant
        return float(np.hypot(p.optimism, np.linalg.norm(p.coefficients))) - p.constant

    def _start(self, scip: Any, parts: "_Parts", x: Array) -> None:
        z = self.process.whitened(x[None])[0]
        if not self.mean_only and z @ z > 1:
            return
        solution = scip.createSol()
        for variable, value in parts.assigned(self.process, x, z):
            scip.setSolVal(solution, variable, float(value))
        scip.addSol(solution)


@dataclass(frozen=True, eq=False)
class _Parts:
    """The variables of a program.

    Args:
        x: Encoded coordinates, d.
        whole: Column, distance of neighbouring values and index of each integer coordinate.
        size: ||x / l||^2 where k~ is over q, else None.
        t: Distances, or their squares; n.
        w: Weights of the breakpoints within reach of each input, n lists.
        k: Kernels, n.
        z: L^-1 k, n; empty for the subproblem of the mean.
        s: Standard deviation; likewise None.
    """

    x: list[Any]
    whole: list[_Whole]
    size: Any
    t: list[Any]
    w: list[list[Any]]
    k: list[Any]
    z: list[Any]
    s: Any

    @classmethod
    def stated(cls, scip: Any, process: PiecewiseProcess, space: SearchSpace, *, mean_only: bool) -> "_Parts":
        """The variables, with the program's objective and constraints in ``scip``."""
        x, whole = _point(scip, space)
        t, w, k = _kernels(scip, process, space.bounds)
        size = _distances(scip, process, x, t)
        if mean_only:
            scip.setObjective(-_sum(process.weights, k), "maximize")
            return cls(x, whole, size, t, w, k, [], None)
        z, s = _moments(scip, process, k)
        scip.setObjective(process.optimism * s - _sum(process.coefficients, z), "maximize")
        return cls(x, whole, size, t, w, k, z, s)

    def assigned(self, process: PiecewiseProcess, x: Array, z: Array) -> Iterator[tuple[Any, float]]:
        """All variables with their values at an encoded point (d,), whose L^-1 k is z (n,)."""
        yield from zip(self.x, x, strict=True)
        yield from ((index, round((x[column] + 1) / step)) for column, step, index in self.whole)
        r = process.distances(x[None])[0]
        if self.size is not None:
            yield self.size, float(np.square(x / process.scales).sum())
        yield from zip(self.t, r if process.kernel.form == "r" else r**2, strict=True)
        for weights, at in zip(self.w, r, strict=True):
            yield from zip(weights, _shares(process, at, len(weights)), strict=True)
        yield from zip(self.k, process.kernel.value(r), strict=True)
        if self.s is not None:
            yield from zip(self.z, z, strict=True)
            yield self.s, float(np.sqrt(1 - z @ z))


def _scip(effort: Effort) -> Any:
    """An empty model: one thread, SCIP's own fixed seeds, nothing printed."""
    from pyscipopt import Model
    from pyscipopt.scip import PY_SCIP_PARAMSETTING

    scip = Model()
    scip.hideOutput()
    # The starts are better than what SCIP's own searches find, which take half of its time (measured).
    scip.setHeuristics(PY_SCIP_PARAMSETTING.OFF)
    settings: dict[str, float] = {"limits/absgap": effort.gap, "limits/totalnodes": effort.nodes}
    if effort.time_s is not None:
        settings["limits/time"] = max(effort.time_s, 0.0)
    # An interrupt is the campaign's to see, not SCIP's.
    scip.setParams({**settings, "lp/threads": 1, "misc/catchctrlc": False})
    return scip


def _sum(weights: Array, variables: list[Any]) -> Any:
    from pyscipopt import quicksum

    return quicksum(float(weight) * v for weight, v in zip(weights, variables, strict=True) if weight)


def _point(scip: Any, space: SearchSpace) -> tuple[list[Any], list[_Whole]]:
    """Coordinates in the space: its box, constraints, one level of each category, whole indices of integers."""
    low, high = space.bounds
    one_hot = {column for group in space.groups for column in range(group.start, group.stop)}
    x = [
        scip.addVar(lb=float(low[j]), ub=float(high[j]), vtype="B" if j in one_hot else "C")
        for j in range(space.dimension)
    ]
    for group in space.groups:
        scip.addCons(_sum(np.ones(group.stop - group.start), x[group]) == 1)
    whole = []
    for j, step in enumerate(integer_steps(space).tolist()):
        if step > 0:
            index = scip.addVar(vtype="I", lb=0, ub=round(2 / step))
            scip.addCons(x[j] == -1 + step * index)
            whole.append((j, step, index))
    for normal, offset in zip(*space.linear, strict=True):
        scip.addCons(_sum(normal, x) <= float(offset))
    for normal, offset in zip(*space.equalities, strict=True):
        scip.addCons(_sum(normal, x) == float(offset))
    curved = space.quadratic
    for Q, a, b in zip(curved.Q, curved.a, curved.b, strict=True):
        scip.addCons(_square_form(Q, x) + _sum(a, x) <= float(b))
    return x, whole


def _square_form(Q: Array, x: list[Any]) -> Any:
    """x'Qx."""
    from pyscipopt import quicksum

    return quicksum(float(Q[i, j]) * x[i] * x[j] for i, j in zip(*np.nonzero(Q), strict=True))


def _kernels(scip: Any, process: PiecewiseProcess, bounds: Array) -> tuple[list[Any], list[list[Any]], list[Any]]:
    """t, w and k of each input, linked by the breakpoints within its reach."""
    kernel, parts = process.kernel, []
    for far in farthest(process.centres, bounds / process.scales):
        reach = float(far if kernel.form == "r" else far**2)
        count = min(len(kernel.nodes), int(np.searchsorted(kernel.nodes, reach)) + 1)
        nodes, heights = kernel.nodes[:count], kernel.heights[:count]
        w = [scip.addVar(lb=0, ub=1) for _ in range(count)]
        t, k = scip.addVar(lb=0, ub=min(reach, float(nodes[-1]))), scip.addVar(lb=float(heights[-1]), ub=1)
        scip.addCons(_sum(np.ones(count), w) == 1)
        scip.addCons(_sum(nodes, w) == t)
        scip.addCons(_sum(heights, w) == k)
        scip.addConsSOS2(w)
        parts.append((t, w, k))
    return [t for t, _, _ in parts], [w for _, w, _ in parts], [k for _, _, k in parts]


def _distances(scip: Any, process: PiecewiseProcess, x: list[Any], t: list[Any]) -> Any:
    """Set t to the distance of x to each input, or its square, linear in a size ||x / l||^2; returns that size."""
    scaled = [(1 / float(scale)) * v for scale, v in zip(process.scales, x, strict=True)]
    if process.kernel.form == "r":
        for centre, distance in zip(process.centres, t, strict=True):
            scip.addCons(distance * distance == _squares(scaled, centre))
        return None
    size = scip.addVar(lb=0, ub=None)
    scip.addCons(size == _squares(scaled, np.zeros(len(scaled))))
    for centre, square in zip(process.centres, t, strict=True):
        scip.addCons(square == size - _sum(2 * centre / process.scales, x) + float(centre @ centre))
    return size


def _squares(scaled: list[Any], centre: Array) -> Any:
    from pyscipopt import quicksum

    return quicksum((v - float(c)) * (v - float(c)) for v, c in zip(scaled, centre, strict=True))


def _moments(scip: Any, process: PiecewiseProcess, k: list[Any]) -> tuple[list[Any], Any]:
    """z and s, linked to the kernels."""
    from pyscipopt import quicksum

    z, s = [scip.addVar(lb=-1, ub=1) for _ in k], scip.addVar(lb=0, ub=1)
    for i, kernel in enumerate(k):
        scip.addCons(kernel == _sum(process.lower[i, : i + 1], z[: i + 1]))
    scip.addCons(quicksum(v * v for v in z) + s * s <= 1)
    return z, s


def _shares(process: PiecewiseProcess, distance: float, count: int) -> Array:
    """w of one input at a distance, shape (count,)."""
    nodes = process.kernel.nodes
    at = distance if process.kernel.form == "r" else distance**2
    left = min(max(int(np.searchsorted(nodes, at, side="right")) - 1, 0), count - 2)
    share = (at - nodes[left]) / (nodes[left + 1] - nodes[left])
    w = np.zeros(count)
    w[left], w[left + 1] = 1 - share, share
    return w
