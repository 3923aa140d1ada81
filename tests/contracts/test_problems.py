"""The contract of physics/problem.py's Problem, for every file in physics/problems."""

import dataclasses

import numpy as np
import pytest
from kinds import is_frozen_dataclass, kinds, problem_of, public_class

from fieldcraft.physics.collocation import on_side
from fieldcraft.physics.operators import Jet, System
from fieldcraft.physics.parametric.evidence import imbalance
from fieldcraft.physics.parametric.finite_differences import solved
from fieldcraft.physics.parametric.transfer import on_cells
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.simulators.exact import Exact
from fieldcraft.physics.simulators.stated_equation import StatedEquation

PACKAGE = "fieldcraft.physics.problems"


def variants(kind):
    """The problem of a kind as it is by default and, where it may state what only an oracle knows, in few variables."""
    cls = public_class(PACKAGE, kind)
    fields = {field.name for field in dataclasses.fields(cls)}
    found = [pytest.param(problem_of(kind), id=kind)]
    if "oracle" in fields:
        small = {"dimension": 3} if "dimension" in fields else {}
        found.append(pytest.param(cls(oracle=True, **small), id=f"{kind}-oracle"))
    return found


@pytest.fixture(params=[variant for kind in kinds(PACKAGE) for variant in variants(kind)])
def problem(request):
    return request.param


def places(problem, n, inset=0.0):
    """n points (n, d) of the search box, drawn in by a share of it, in the order that ``exact`` expects.

    A mask of the domain leaves out the others.
    """
    names = problem.domain.names if problem.domain else problem.space.names
    mask = problem.domain and problem.domain.mask
    X = (1 - inset) * problem.space.sample(4 * n if mask else n, np.random.default_rng(7))
    points = np.array([[design[name] for name in names] for design in problem.space.decode(X)])
    return points[problem.domain.contains(points)][:n] if mask else points


def central_differences(f, points, steps):
    d = points.shape[1]
    moves = np.diag(steps)
    gradient = np.stack([(f(points + m) - f(points - m)) / (2 * h) for m, h in zip(moves, steps, strict=True)], axis=1)
    hessian = np.empty((len(points), d, d))
    for i in range(d):
        for j in range(d):
            a, b = moves[i], moves[j]
            mixed = f(points + a + b) - f(points + a - b) - f(points - a + b) + f(points - a - b)
            hessian[:, i, j] = mixed / (4 * steps[i] * steps[j])
    return Jet(f(points), gradient, hessian)


def test_a_problem_is_one_public_frozen_dataclass(problem):
    assert is_frozen_dataclass(type(problem)) and isinstance(problem, Problem)
    again = dataclasses.replace(problem)
    assert problem == again and hash(problem) == hash(again)


def test_outputs_have_names_of_their_own(problem):
    names = [output.name for output in problem.outputs]
    assert names and len(set(names)) == len(names)
    assert all(isinstance(output.unit, str) for output in problem.outputs)


def test_asking_again_gives_the_same_answer(problem):
    assert problem.space == problem.space
    assert problem.outputs == problem.outputs
    points = places(problem, 5)
    for first, second in ((problem.exact(points), problem.exact(points)), (problem.sd, problem.sd)):
        assert np.array_equal(first, second)


def test_an_equation_comes_with_a_domain_named_like_the_design(problem):
    if problem.equation is None:
        assert problem.domain is None or set(problem.domain.names) <= set(problem.space.names)
    else:
        assert set(problem.domain.names) <= set(problem.space.names)
        assert problem.domain.contains(places(problem, 20)).all()


def test_the_exact_solution_satisfies_the_equation(problem):
    points = places(problem, 20, inset=0.1)
    values = problem.exact(points)
    if values is None or problem.equation is None or isinstance(problem.equation, System):
        assert values is None or values.shape == (20,)  # a system's auxiliary fields are not known here
        return
    low, high = problem.domain.bounds
    jet = central_differences(problem.exact, points, 2e-4 * (high - low))
    found = problem.equation.operator(points, jet) - problem.equation.source(points)
    assert np.abs(jet.hessian).max() > 0
    # Second-order differences with a step of 1/5000 of the domain: right to about 1e-4 of the derivatives.
    size = np.abs(jet.value) + np.abs(jet.gradient).sum(axis=1) + np.abs(jet.hessian).sum(axis=(1, 2))
    assert np.max(np.abs(found) / size) < 1e-3


def test_the_exact_solution_satisfies_the_conditions(problem):
    assert not problem.conditions or problem.equation is not None
    for condition in problem.conditions:
        assert condition.field == problem.outputs[0].name
        points = on_side(problem.domain, condition, 33, "uniform", np.random.default_rng(3))
        axis, size = problem.domain.names.index(condition.axis), np.ptp(problem.domain.bounds, axis=0)
        inward = np.zeros(len(size))
        inward[axis] = 1e-3 * size[axis] * (1 if condition.end == "low" else -1)
        f0, f1, f2, f3, f4 = (problem.exact(points + k * inward) for k in range(5))
        normal = (25 * f0 - 48 * f1 + 36 * f2 - 16 * f3 + 3 * f4) / 12 / np.abs(inward[axis])
        right = condition.right(points) if callable(condition.right) else condition.right
        rounding = 1e-13 if condition.slope == 0 else 1e-8
        found = condition.value * f0 + condition.slope * normal
        assert np.max(np.abs(found - right)) <= rounding * (1 + np.max(np.abs(normal)) + np.max(np.abs(f0)))


def test_a_design_that_the_mask_leaves_out_is_refused_and_has_no_value(problem):
    if problem.domain is None or problem.domain.mask is None:
        return
    designs = problem.space.decode(problem.space.sample(50, np.random.default_rng(5)))
    points = np.array([[design[name] for name in problem.domain.names] for design in designs])
    inside, values = problem.domain.contains(points), problem.exact(points)
    assert 0 < inside.sum() < 50
    np.testing.assert_array_equal(np.isfinite(values), inside)
    refused = [Exact().gate(problem, design, np.random.default_rng(0)) for design in designs]
    assert [reason is None for reason in refused] == inside.tolist()
    assert all("lies outside the problem's domain" in reason for reason in refused if reason is not None)


def test_a_known_optimum_is_a_design_and_no_other_that_is_feasible_beats_it(problem):
    points = places(problem, 500)
    values, excess = problem.exact(points), problem.exact_constraints(points)
    if values is not None and excess is not None:
        values = values[np.all(excess <= 0, axis=1)]
    for sense, sign in (("minimize", 1), ("maximize", -1)):
        best = problem.optimum(sense)
        if best is None:
            continue
        problem.space.check(best.design)
        if values is not None:
            assert sign * best.value <= np.min(sign * values, initial=np.inf)
            names = problem.domain.names if problem.domain else problem.space.names
            place = np.array([[best.design[name] for name in names]])
            assert problem.exact(place)[0] == pytest.approx(best.value, rel=1e-9)
            assert excess is None or np.all(problem.exact_constraints(place) <= 1e-9 * (1 + np.ptp(excess, axis=0)))


def test_what_a_trial_yields_is_the_objective_and_the_constraints_as_they_are_known(problem):
    points = places(problem, 5)
    excess = problem.exact_constraints(points)
    if excess is None:
        return
    assert excess.shape == (5, len(problem.outputs) - 1)
    assert np.all(np.isfinite(excess))
    if excess.shape[1]:
        names = problem.space.names
        found = [list(problem.function(dict(zip(names, point, strict=True))).values()) for point in points]
        np.testing.assert_allclose(found, np.column_stack([problem.exact(points), excess]), rtol=1e-12)


def test_what_an_oracle_states_is_an_equation(problem):
    assert problem.equation is not None or not problem.oracle


def test_a_known_standard_deviation_is_positive(problem):
    assert problem.sd is None or (np.isfinite(problem.sd) and problem.sd > 0)


def stated(problem, n=4, seed=2):
    """n designs of a problem, and their values, each (n, 1), by name."""
    designs = problem.space.decode(problem.space.sample(n, np.random.default_rng(seed)))
    return designs, {name: np.array([[design[name]] for design in designs]) for name in problem.space.names}


def simulated(problem, design):
    """Fields of a design by the problem's own function, or by the simulator of its name."""
    if hasattr(problem, "function"):
        return problem.function(design)
    kind = type(problem).__module__.rpartition(".")[2]
    return public_class("fieldcraft.physics.simulators", kind)().run(problem, design, np.random.default_rng(0))


def test_outputs_of_stored_fields_are_those_of_the_functional(problem):
    designs, together = stated(problem)
    if problem.parametric is None:
        if type(problem).functional is not Problem.functional:
            fields = [simulated(problem, design) for design in designs]
            stacked = {name: np.stack([each[name].values for each in fields]) for name in fields[0].data_vars}
            axes = {name: fields[0][name].values for name in fields[0].dims}
            read = [list(problem.evaluate(design, each).values()) for design, each in zip(designs, fields, strict=True)]
            np.testing.assert_allclose(problem.functional(stacked, axes, together), read, rtol=1e-9)
        return
    cells = problem.parametric.cells
    fields = [StatedEquation(cells[0]).run(problem, design, None) for design in designs]
    read = [list(problem.evaluate(design, each).values()) for design, each in zip(designs, fields, strict=True)]
    stacked = {
        field.name: np.stack([each[field.name].values for each in fields]) for field in problem.parametric.fields
    }
    axes = {name: fields[0][name].values for name in problem.parametric.domain.names}
    found = problem.functional(stacked, axes, together)
    assert found.shape == (len(designs), len(problem.outputs))
    np.testing.assert_allclose(found, read, rtol=1e-9)


def test_discrete_equations_are_those_that_a_simulation_solves(problem):
    """A is symmetric positive definite, and its solution the simulated field; the compliance is b . u."""
    if type(problem).discrete is Problem.discrete:
        return
    designs, together = stated(problem)
    cells = tuple(2 * n for n in problem.parametric.cells)
    told = problem.discrete(together, cells)
    for i, design in enumerate(designs):
        dataset = StatedEquation(cells[0]).run(problem, design, None)
        field = dataset[told.field].values.ravel()
        matrix = told.matrix(i).toarray()
        np.testing.assert_array_equal(matrix, matrix.T)
        np.linalg.cholesky(matrix)
        loads = told.loads[i if len(told.loads) > 1 else 0]
        np.testing.assert_allclose(np.linalg.solve(matrix, loads), field[told.free], rtol=1e-6)
        assert np.abs(np.delete(field, told.free)).max(initial=0) <= 1e-12 * np.abs(field).max()
        if told.compliance:
            (value, *_) = problem.evaluate(design, dataset).values()
            assert loads @ field[told.free] == pytest.approx(value, rel=1e-9)


def test_a_stiffness_from_above_is_above_and_convex(problem):
    if type(problem).discrete is Problem.discrete:
        return
    cells = tuple(2 * n for n in problem.parametric.cells)
    _, together = stated(problem, n=400)
    told = problem.discrete(together, cells)
    if told.above is None:
        return

    def stiffness(values):
        return told.above.terms(values) @ told.above.shapes

    at = stiffness(together)
    assert np.all(at >= told.stiffness * (1 - 1e-12))
    ends, middles = at.reshape(2, 200, -1), {}
    for name, values in together.items():
        middles[name] = values.reshape(2, 200, 1).mean(axis=0)
    assert np.all(stiffness(middles) <= ends.mean(axis=0) * (1 + 1e-12))


def test_what_is_emulated_comes_nearer_to_the_truth_with_the_mesh(problem):
    assert problem.emulator == (None if problem.parametric is None else "equation")
    if problem.parametric is None:
        return
    _, together = stated(problem, n=20)
    points = np.hstack(list(together.values()))
    known = problem.exact(points)
    if known is None:
        truth = problem.on_grid(together, tuple(6 * n for n in problem.parametric.cells))
    else:
        truth = np.column_stack([known, problem.exact_constraints(points)])
    coarse, fine = (
        np.median(
            np.abs(problem.on_grid(together, tuple(factor * n for n in problem.parametric.cells)) - truth), axis=0
        )
        for factor in (1, 3)
    )
    meshed = ~np.all(truth == problem.emulate(together), axis=0)  # an output may be a variable of the design
    assert meshed.any()
    assert np.all((fine < 0.2 * coarse)[meshed]) and np.all((0.2 * coarse < 0.02 * np.std(truth, axis=0))[meshed])


def test_a_simulated_field_satisfies_the_stated_equation_the_better_the_finer_the_mesh(problem):
    if problem.parametric is None:
        return
    equation = problem.parametric
    (design,), _ = stated(problem, n=1, seed=5)
    simulated = solved(equation, design, tuple(4 * n for n in equation.cells))
    left = []
    for factor in (1, 2):
        cells = tuple(factor * n for n in equation.cells)
        fields = {
            name: on_cells(equation.domain, values, cells, equation.repeats)[0] for name, values in simulated.items()
        }
        left.append(imbalance(equation, design, fields))
    coarse, fine = np.array(left)
    # A kink in a coefficient costs a part of the second order; an equation without truncation error leaves rounding.
    assert np.all(fine < 0.5 * coarse + 1e-9) and np.all(fine < 0.1) and coarse.max() > 0.01
