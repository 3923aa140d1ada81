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
