"""The contract of physics/problem.py's Simulator, for every file in physics/simulators with every problem."""

from functools import cache

import numpy as np
import pytest
import xarray as xr
from kinds import is_frozen_dataclass, kinds, problem_of, public_class

from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.problem import Simulator

PACKAGE, PROBLEMS = "fieldcraft.physics.simulators", "fieldcraft.physics.problems"
PAIRS = [(simulator, problem) for simulator in kinds(PACKAGE) for problem in kinds(PROBLEMS)]


@cache
def simulated(kind, problem_kind, seed=5):
    """Dataset of a simulator for one design of a problem, or the error with which it refuses the problem."""
    simulator, problem = public_class(PACKAGE, kind)(), problem_of(problem_kind)
    (design,) = problem.space.decode(problem.space.sample(1, np.random.default_rng(3)))
    try:
        return problem, design, simulator.run(problem, design, np.random.default_rng(seed))
    except ValueError as error:
        return problem, design, error


@pytest.mark.parametrize("kind", kinds(PACKAGE))
def test_a_simulator_is_one_public_frozen_dataclass(kind):
    cls = public_class(PACKAGE, kind)
    assert is_frozen_dataclass(cls) and issubclass(cls, Simulator)
    assert isinstance(cls.idempotent, bool)


@pytest.mark.parametrize("kind", kinds(PACKAGE))
def test_a_simulator_runs_some_problem(kind):
    assert any(isinstance(simulated(kind, problem)[2], xr.Dataset) for problem in kinds(PROBLEMS))


def inside(problem, variable):
    """True at the places that the mask of the stated fields leaves, where there is one; outside them there is NaN."""
    domain = problem.fields and problem.fields.domain
    if not domain or not domain.mask or set(variable.dims) != set(domain.names):
        return True
    grid = Grid(domain, tuple(variable.sizes[name] for name in domain.names))
    return xr.Variable(domain.names, grid.inside.reshape(grid.cells)).transpose(*variable.dims).values


@pytest.mark.parametrize(("kind", "problem_kind"), PAIRS)
def test_a_simulator_answers_in_named_dimensions_and_units_or_refuses_the_problem(kind, problem_kind):
    problem, design, fields = simulated(kind, problem_kind)
    if isinstance(fields, ValueError):
        assert f"cannot run {type(problem).__name__}" in str(fields)
        return
    for name, variable in fields.variables.items():
        assert isinstance(variable.attrs.get("units"), str), f"{name} has no units"
        assert variable.dtype.kind in "fiub"
        assert all(dimension in fields.coords for dimension in variable.dims)
        assert (np.isfinite(variable.values) == inside(problem, variable)).all()
    outputs = problem.evaluate(design, fields)
    assert list(outputs) == [output.name for output in problem.outputs]
    assert all(type(value) is float and np.isfinite(value) for value in outputs.values())


@pytest.mark.parametrize(("kind", "problem_kind"), PAIRS)
def test_the_same_design_and_seed_give_the_same_dataset(kind, problem_kind):
    _, _, first = simulated(kind, problem_kind)
    _, _, second = simulated.__wrapped__(kind, problem_kind)
    if isinstance(first, ValueError):
        assert str(first) == str(second)
    else:
        assert first.identical(second)


@pytest.mark.parametrize(("kind", "problem_kind"), PAIRS)
def test_a_simulation_agrees_with_the_exact_solution_within_its_mesh(kind, problem_kind):
    problem, design, fields = simulated(kind, problem_kind)
    names = problem.domain.names if problem.domain else problem.space.names
    place = [design[name] for name in names]
    if isinstance(fields, ValueError) or any(isinstance(value, str) for value in place):
        return
    exact = problem.exact(np.array([place], dtype=float))
    if exact is None:
        return
    assert problem.evaluate(design, fields)[problem.outputs[0].name] == pytest.approx(exact[0], abs=0.02 * problem.sd)
