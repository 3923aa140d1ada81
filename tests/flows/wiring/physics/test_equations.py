"""What `check` says of an equation: that it goes unused, and why, or that the algorithm cannot learn from it."""

import json

import pytest
import yaml

from fieldcraft.flows.cli import main

PLANE = """
from dataclasses import dataclass

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, SearchSpace


class _Squared:
    linear = False

    def operator(self, points, jet):
        return jet.value**2

    def source(self, points):
        return 0.0 * points[:, 0]


@dataclass(frozen=True)
class Plane(Problem):
    \"\"\"A field for which f^2 = 0 holds.\"\"\"

    deep: bool = False

    @property
    def space(self):
        return SearchSpace(tuple(Continuous(name, 0.0, 1.0) for name in ("xyz" if self.deep else "xy")))

    @property
    def outputs(self):
        return (Output("f"),)

    @property
    def equation(self):
        return _Squared()

    @property
    def domain(self):
        return Domain((Axis("x", 0.0, 1.0), Axis("y", 0.0, 1.0)))

    def function(self, design):
        return {"f": 0.0}
"""
REST = {"start": {"n": 4}, "acquisition": {"kind": "log_ei"}, "maximizer": {"kind": "multistart"}}
HEAT = {"problem": {"kind": "heat"}, "simulator": {"kind": "heat"}}
SQUARED = {"problem": {"kind": "plane"}, "simulator": {"kind": "function"}}


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    (tmp_path / "plugins" / "problems").mkdir(parents=True)
    (tmp_path / "plugins" / "problems" / "plane.py").write_text(PLANE)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))

    def checked(algorithm, *options, **keys):
        """Exit status, standard output and standard error of ``check``."""
        data = {"name": "c", "seed": 1, "sense": "maximize", "algorithm": algorithm, "budget": {"trials": 20}, **keys}
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(data))
        code = main(["check", str(tmp_path / "c.yaml"), *options])
        return code, *capsys.readouterr()

    return checked


@pytest.mark.parametrize(
    ("algorithm", "keys", "why"),
    [
        ({"kind": "gp_ei"}, HEAT, "the surrogate 'exact_gp' learns from results alone"),
        ({"kind": "botorch_log_ei"}, HEAT, "botorch_log_ei does not learn from equations"),
        ({"kind": "auto"}, SQUARED, "The equation is not linear and engine basis"),
        (
            {"kind": "auto"},
            {**SQUARED, "problem": {"kind": "plane", "deep": True}},
            "the equation's domain has the axes x, y and the design the variables x, y, z.",
        ),
    ],
)
def test_an_equation_that_goes_unused_is_told_with_the_reason(check, algorithm, keys, why):
    code, out, err = check(algorithm, **keys)
    assert (code, err) == (0, "")
    (note,) = [line for line in out.splitlines() if "c.yaml: note: " in line]
    assert "states an equation for its objective, and it is not used: " in note and why in note
    assert why in json.loads(check(algorithm, "--json", **keys)[1])["note"]


@pytest.mark.parametrize(
    ("algorithm", "keys"),
    [
        ({"kind": "auto"}, HEAT),
        ({"kind": "pinn_bo"}, HEAT),
        ({"kind": "pinn_bo", "engine": "trained"}, SQUARED),
        ({"kind": "gp_ei"}, {"problem": {"kind": "branin"}, "simulator": {"kind": "function"}}),
    ],
)
def test_nothing_is_noted_where_the_equation_is_used_or_there_is_none(check, algorithm, keys):
    code, out, err = check(algorithm, **keys)
    assert (code, err) == (0, "") and "note:" not in out
    assert json.loads(check(algorithm, "--json", **keys)[1])["note"] is None


@pytest.mark.parametrize(
    ("algorithm", "what"),
    [
        ({"kind": "pinn_bo"}, "algorithm.kind: 'pinn_bo'"),
        ({"surrogate": {"kind": "physics_informed", "engine": "basis"}, **REST}, "algorithm.surrogate: "),
        ({"surrogate": {"kind": "physics_informed", "engine": "kernel"}, **REST}, "algorithm.surrogate: "),
    ],
)
def test_an_equation_that_the_engine_cannot_learn_from_is_refused_before_the_campaign_begins(check, algorithm, what):
    code, out, err = check(algorithm, **SQUARED)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert what in err and "cannot learn from the problem's equation. " in err
    assert "The equation is not linear" in err and "trained" in err


EQUATION, DOMAIN = "return _Squared()", 'return Domain((Axis("x", 0.0, 1.0), Axis("y", 0.0, 1.0)))'


def linear(zeroth, dimensions=2, right="0.0"):
    rest = (0.0,) * dimensions, ((1.0,) * dimensions,) * dimensions
    return (
        f"from fieldcraft import LinearEquation\n        return LinearEquation({zeroth}, {rest[0]}, {rest[1]}, {right})"
    )


def side(right):
    return f"{EQUATION}\n\n    @property\n    def conditions(self):\n        return {right}"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (DOMAIN, 'return "box"', "'domain' gives 'box': return a Domain, or None"),
        (DOMAIN, f'{DOMAIN[:-1]}, mask="left")', "The domain's mask is a str: give a function of the points"),
        (EQUATION, 'return "laplace"', "'equation' gives 'laplace': return an equation, such as laplace(2)"),
        (EQUATION, "return _Squared", "'equation' gives <class '"),
        (EQUATION, linear("0.0", 3), "coefficients of 3 first derivatives over a domain of 2 axes: give one for each"),
        (EQUATION, linear("0.0", 1), "coefficients of 1 first derivatives over a domain of 2 axes"),
        (EQUATION, linear("lambda p: p[:, 7]"), "cannot evaluate its equation: IndexError: index 7 is out of bounds"),
        (EQUATION, linear("lambda p: p[:, 0] * float('nan')"), "The operator of the equation gave an array"),
        (EQUATION, linear("1j"), "type complex128 for 256 points: it must be one finite real number for each"),
        (EQUATION, linear("0.0", 2, "lambda p: p[:3, 0]"), "an equation gave an array of the shape (3,) at 256 points"),
        (EQUATION, side("None"), "'conditions' gives None: return a tuple of Conditions"),
        (EQUATION, side('("left is 0",)'), "'conditions' gives ('left is 0',): return a tuple of Conditions"),
        (
            EQUATION,
            side('(__import__("fieldcraft").Condition("f", "x", "low", lambda p: 1j * p[:, 0]),)'),
            "the low end of 'x' has the type complex128: give real numbers",
        ),
    ],
)
def test_an_equation_that_is_none_is_one_error_of_check(check, tmp_path, old, new, said):
    file = tmp_path / "plugins" / "problems" / "plane.py"
    file.write_text(PLANE.replace(old, new))
    assert file.read_text() != PLANE
    code, out, err = check({"kind": "pinn_bo", "engine": "trained"}, **SQUARED)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err and "Traceback" not in err


def test_an_equation_with_a_pole_at_one_of_the_tried_fields_is_accepted(check, tmp_path):
    pole = PLANE.replace("return jet.value**2", "return jet.value / (1.0 - jet.value)")
    (tmp_path / "plugins" / "problems" / "plane.py").write_text(pole)
    code, _, err = check({"kind": "pinn_bo", "engine": "trained"}, **SQUARED)
    assert (code, err) == (0, "")
