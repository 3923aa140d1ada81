"""Fronts and hypervolumes: against the definition, BoTorch, and what can be said in a line."""

import numpy as np
import pytest
import torch
from botorch.utils.multi_objective.hypervolume import Hypervolume, infer_reference_point

from fieldcraft.storage.objective import Goal, Objective
from fieldcraft.storage.pareto import front_of, gains, hypervolume, non_dominated

TWO = Objective("a", False, (), (Goal("a", False, 4.0), Goal("b", True, 0.0)))
LIMITED = Objective("a", False, ("g",), TWO.goals)


def dominated(points, i):
    return any(np.all(p <= points[i]) and np.any(p < points[i]) for p in points)


@pytest.mark.parametrize("m", [2, 3, 4])
def test_what_no_point_dominates_and_its_hypervolume_agree_with_the_definition_and_with_botorch(m):
    rng = np.random.default_rng(m)
    points = np.round(rng.random((40, m)), 2 if m == 2 else 1)  # some coordinates are equal
    kept = non_dominated([tuple(p) for p in points])
    assert kept == [i for i in range(len(points)) if not dominated(points, i)]
    volume = hypervolume([tuple(p) for p in points], (0.9,) * m)
    theirs = Hypervolume(torch.full((m,), -0.9, dtype=torch.float64)).compute(-torch.tensor(points[kept]))
    assert volume == pytest.approx(theirs, rel=1e-12)


def test_the_front_keeps_senses_constraints_and_equal_results():
    results = [{"a": 1.0, "b": 1.0}, {"a": 3.0, "b": 2.0}, {"a": 3.0, "b": 1.0}, {"a": 1.0, "b": 1.0}]
    front = front_of(TWO, results)
    assert (front.members, front.reference, front.inferred) == ((0, 1, 3), (4.0, 0.0), ())
    assert front.hypervolume == 3.0 * 1.0 + 1.0 * 1.0
    limited = front_of(LIMITED, [{**each, "g": g} for each, g in zip(results, (0.1, 0.0, -1.0, 0.2), strict=True)])
    assert (limited.members, limited.hypervolume) == ((1,), 2.0)
    none = front_of(LIMITED, [{"a": 1.0, "b": 1.0, "g": 1.0}])
    assert (none.members, none.hypervolume) == ((), 0.0)


def test_a_reference_that_is_not_stated_is_inferred_as_botorch_does():
    unknown = Objective("a", False, (), (Goal("a", False), Goal("b", True)))
    rng = np.random.default_rng(0)
    for n in (1, 25):
        values = rng.normal(size=(n, 2))
        front = front_of(unknown, [{"a": a, "b": b} for a, b in values])
        best = torch.tensor(values[list(front.members)] * [-1, 1])
        np.testing.assert_allclose(np.array(front.reference) * [-1, 1], infer_reference_point(best), rtol=1e-12)
        assert front.inferred == ("a", "b")
    empty = front_of(unknown, [])
    assert (empty.members, empty.reference, empty.hypervolume) == ((), (), None)


@pytest.mark.parametrize("m", [2, 3])
def test_the_gains_of_results_in_turn_add_up_to_the_hypervolume_of_all(m):
    goals = tuple(Goal(f"y{k}", k == 1, 0.2 if k == 1 else 0.8) for k in range(m))
    objective = Objective("y0", False, ("g",), goals)
    rng = np.random.default_rng(1)
    results = [{f"y{k}": rng.random() for k in range(m)} | {"g": rng.normal()} for _ in range(60)]
    added = gains(objective, results, tuple(goal.reference for goal in goals))
    for n in (1, 7, 60):
        assert sum(added[:n]) == pytest.approx(front_of(objective, results[:n]).hypervolume, rel=1e-12, abs=1e-15)
    assert sum(gain > 0 for gain in added) >= 5


def test_no_result_of_several_objectives_is_best():
    assert TWO.best_of([{"a": 1.0, "b": 1.0}]) is None
    assert TWO.outputs == ("a", "b") and Objective("a", True).outputs == ("a",)
