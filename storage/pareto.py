"""Results of several objectives: which of them no other dominates, and the hypervolume that they dominate.

Every objective is minimised here, one that is maximised after its sign is changed. A point dominates another that is
nowhere better and somewhere worse. The hypervolume of points is the volume of what they dominate within the reference
point, the worst values that still count (Zitzler and Thiele, 1999).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fieldcraft.storage.objective import Goal, Objective

Point = tuple[float, ...]

# BoTorch's `infer_reference_point`: a tenth of the front's range beyond its worst values.
_BEYOND, _LEAST_RANGE = 0.1, 1e-7


@dataclass(frozen=True)
class Front:
    """The feasible results that no other dominates.

    Args:
        members: Their places among the results, in order; equal results are all kept.
        reference: Worst value of each objective that counts, in its unit; empty where no result is feasible and one of
            them is not stated.
        inferred: Names of the objectives whose reference is not stated but inferred from this front.
        hypervolume: What the front dominates within the reference, in the product of the units; None where there is no
            reference.
    """

    members: tuple[int, ...]
    reference: Point
    inferred: tuple[str, ...]
    hypervolume: float | None


def front_of(objective: Objective, results: Sequence[Mapping[str, float]]) -> Front:
    """The front of results of several objectives, with its hypervolume."""
    feasible = [place for place, outputs in enumerate(results) if objective.feasible(outputs)]
    points = [point_of(objective, results[place]) for place in feasible]
    kept = non_dominated(points)
    reference = _reference(objective.goals, [points[i] for i in kept])
    return Front(
        members=tuple(feasible[i] for i in kept),
        reference=tuple(_signed(goal, value) for goal, value in zip(objective.goals, reference, strict=False)),
        inferred=tuple(goal.output for goal in objective.goals if goal.reference is None),
        hypervolume=hypervolume([points[i] for i in kept], reference) if reference else None,
    )


def gains(objective: Objective, results: Sequence[Mapping[str, float]], reference: Point) -> list[float]:
    """Hypervolume that each result, in order, added to that of the results before it; 0.0 where it added nothing.

    Args:
        objective: Several objectives.
        results: Outputs of the results.
        reference: Worst values that count, in the objectives' units.
    """
    worst, front, found = _minimised(objective, reference), list[Point](), list[float]()
    for outputs in results:
        point = point_of(objective, outputs)
        better = all(value < limit for value, limit in zip(point, worst, strict=True))
        adds = better and objective.feasible(outputs) and not any(_covers(other, point) for other in front)
        found.append(_exclusive(point, front, worst) if adds else 0.0)
        if adds:
            front = [other for other in front if not _covers(point, other)] + [point]
    return found


def point_of(objective: Objective, outputs: Mapping[str, float]) -> Point:
    """Values of the objectives, each minimised."""
    return tuple(_signed(goal, outputs[goal.output]) for goal in objective.goals)


def non_dominated(points: Sequence[Point]) -> list[int]:
    """Places of the points that no other dominates, in order; equal points are all kept."""
    order, kept = sorted(range(len(points)), key=lambda i: points[i]), list[int]()
    for i in order:  # what dominates a point comes before it
        if not any(points[k] != points[i] and _covers(points[k], points[i]) for k in kept):
            kept.append(i)
    return sorted(kept)


def hypervolume(points: Sequence[Point], reference: Point) -> float:
    """Volume of what points dominate within a reference point, exactly.

    Two objectives are summed in closed form. For more, the volume is cut into slices across the last objective, within
    each of which the points that reach it dominate a volume of one objective less.
    """
    inside = [point for point in points if all(value < limit for value, limit in zip(point, reference, strict=True))]
    if not inside:
        return 0.0
    if len(reference) == 1:
        return reference[0] - min(point[0] for point in inside)
    if len(reference) == 2:
        return _area(inside, reference)
    inside.sort(key=lambda point: point[-1])
    ends = [*(point[-1] for point in inside[1:]), reference[-1]]
    total, across = 0.0, list[Point]()
    for point, end in zip(inside, ends, strict=True):
        across.append(point[:-1])
        across = [across[i] for i in non_dominated(across)]
        if end > point[-1]:
            total += (end - point[-1]) * hypervolume(across, reference[:-1])
    return total


def _area(points: Sequence[Point], reference: Point) -> float:
    total, height = 0.0, reference[1]
    for across, up in sorted(points):
        if up < height:
            total, height = total + (reference[0] - across) * (height - up), up
    return total


def _exclusive(point: Point, front: Sequence[Point], reference: Point) -> float:
    """Volume within the reference that a point dominates and the front does not."""
    whole = 1.0
    for value, limit in zip(point, reference, strict=True):
        whole *= limit - value
    shared = [tuple(map(max, point, other)) for other in front]
    return max(whole - hypervolume(shared, reference), 0.0)


def _reference(goals: Sequence[Goal], front: Sequence[Point]) -> Point:
    """Stated references, minimised; one that is not stated is inferred from the front's points."""
    if not front and any(goal.reference is None for goal in goals):
        return ()
    return tuple(
        _inferred([point[k] for point in front]) if goal.reference is None else _signed(goal, goal.reference)
        for k, goal in enumerate(goals)
    )


def _inferred(values: Sequence[float]) -> float:
    worst = max(values)
    span = worst - min(values) if len(values) > 1 else abs(worst)
    return worst + _BEYOND * max(span, _LEAST_RANGE)


def _covers(point: Point, other: Point) -> bool:
    """True if a point is nowhere worse than another."""
    return all(one <= two for one, two in zip(point, other, strict=True))


def _minimised(objective: Objective, values: Point) -> Point:
    return tuple(_signed(goal, value) for goal, value in zip(objective.goals, values, strict=True))


def _signed(goal: Goal, value: float) -> float:
    return -value if goal.maximize else value
