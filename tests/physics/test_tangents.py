"""The gradient of an objective by the tangents of its equation, against differences and against the adjoint."""

import numpy as np
import pytest
import xarray as xr
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import spsolve

from fieldcraft.physics.gradients import gradient_of, gradient_units
from fieldcraft.physics.parametric.discretisation import Discretisation
from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.problems.cantilever_profile import CantileverProfile
from fieldcraft.physics.problems.chips import Chips
from fieldcraft.physics.problems.tidal import Tidal
from fieldcraft.physics.simulators.function import Function
from fieldcraft.physics.simulators.stated_equation import StatedEquation
from fieldcraft.physics.space import Continuous, Integer, SearchSpace


class Bar(Problem):
    """A variable that has derivatives, and one that has none."""

    space = SearchSpace((Continuous("x", 0.0, 1.0, "mm"), Integer("n", 1, 4)))
    outputs = (Output("energy", "J"),)


RNG = np.random.default_rng(0)


def one(problem):
    return problem.space.decode(problem.space.sample(1, np.random.default_rng(0)))[0]


def run(problem, design, cells, gradient=False):
    return StatedEquation(cells, gradient).run(problem, design, np.random.default_rng(0))


@pytest.mark.parametrize(("problem", "cells", "step"), [(CantileverProfile(), 200, 1e-3), (Chips(), 36, 4e-3)])
def test_the_gradient_is_the_difference_of_the_output_to_six_digits(problem, cells, step):
    design, name = one(problem), problem.outputs[0].name
    found = gradient_of(problem, run(problem, design, cells, gradient=True))
    largest = max(map(abs, found.values()))
    for variable in problem.space.variables:
        move = step * variable.scale[1]
        near = [{**design, variable.name: design[variable.name] + way * move} for way in (-2, -1, 1, 2)]
        read = [problem.evaluate(each, run(problem, each, cells))[name] for each in near]
        difference = (read[0] - 8 * read[1] + 8 * read[2] - read[3]) / (12 * move)  # of fourth order
        assert found[variable.name] == pytest.approx(difference, rel=1e-6, abs=1e-6 * largest)


def test_the_gradient_is_that_of_the_adjoint():
    problem, cells = CantileverProfile(), (50,)
    design, stated = one(problem), problem.parametric
    on = Discretisation.of(stated, cells)

    def system(at):
        pattern, coefficients, right = on.system(stated.of(at))
        places = pattern.rows, pattern.columns
        return csc_matrix((pattern.values(coefficients)[0], places), (pattern.size, pattern.size)), right[0]

    A, b = system(design)
    u, by_field = spsolve(A, b), np.zeros(len(b))
    by_field[: cells[0]] = 500.0 / cells[0]  # the work of 500 N/m on the mean deflection over 1 m
    z = spsolve(A.T.tocsc(), by_field)
    found = gradient_of(problem, run(problem, design, 50, gradient=True))
    for name, slope in found.items():
        (ahead, b1), (behind, b0) = (system({**design, name: design[name] + way * 1e-3}) for way in (1, -1))
        assert slope == pytest.approx(z @ ((b1 - b0) - (ahead - behind) @ u) / 2e-3, rel=1e-6)


def test_the_fields_are_the_same_with_a_gradient_and_each_derivative_has_its_unit():
    problem = CantileverProfile()
    plain, more = run(problem, one(problem), 40), run(problem, one(problem), 40, gradient=True)
    assert more["gradient.d1"].attrs["units"] == "J/mm"
    assert plain.identical(more.drop_vars([f"gradient.d{i}" for i in range(1, 6)]))


def test_a_gradient_of_fields_in_time_is_refused():
    problem = Tidal()
    with pytest.raises(ValueError, match="The equation of Tidal is in time"):
        run(problem, one(problem), 24, gradient=True)


def test_a_function_may_return_its_gradient_beside_its_outputs():
    class Sloped(Chips):
        def function(self, design):
            return {"max_temperature": 90.0} | {f"gradient.{name}": 2.0 for name in design}

    found = Function().run(Sloped(), one(Chips()), RNG)
    assert found["gradient.x1"].attrs["units"] == "degC/mm"
    assert gradient_of(Chips(), found) == dict.fromkeys(("x1", "y1", "x2", "y2"), 2.0)


def test_a_derivative_by_a_variable_in_a_compound_unit_has_that_in_brackets():
    class Stirred(Chips):
        space = SearchSpace(
            (
                Continuous("rate", 0.1, 1.0, "1/s"),
                Continuous("load", 0.1, 1.0, "N mm"),
                Continuous("bath", 0.0, 9.0, "°C"),
                Continuous("share", 0.0, 1.0),
            )
        )

    units = {"rate": "degC/(1/s)", "load": "degC/(N mm)", "bath": "degC/°C", "share": "degC"}
    assert gradient_units(Stirred()) == {f"gradient.{name}": unit for name, unit in units.items()}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"gradient.y": 1.0}, "'gradient.y', and the continuous variables are x"),
        ({"gradient.x": 1.0, "gradient.n": 1.0}, "'gradient.n', and the continuous variables are x"),
        ({"gradient.x": ("time", [1.0, 2.0])}, "one real number"),
        ({"gradient.x": 1j}, "one real number"),
        ({"gradient.x": np.nan}, "is nan: give a finite number"),
        ({"gradient.x": ((), 1.0, {"units": "J/m"})}, "'gradient.x' is in 'J/m', not in 'J/mm': give it in that unit"),
    ],
)
def test_a_gradient_that_is_none_of_the_variables_is_refused_in_words(given, words):
    with pytest.raises(ValueError, match=words):
        gradient_of(Bar(), xr.Dataset(given))


def test_a_gradient_names_all_continuous_variables_or_none():
    assert gradient_of(Bar(), xr.Dataset({"y": 1.0})) is None
    assert gradient_of(Bar(), xr.Dataset({"gradient.x": 2.5})) == {"x": 2.5}
    with pytest.raises(ValueError, match=r"no 'gradient\.y1': give all derivatives, or none"):
        gradient_of(Chips(), xr.Dataset({"gradient.x1": 2.5}))
