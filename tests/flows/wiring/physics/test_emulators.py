"""Emulators in campaigns: who uses one, what is refused, and what a trial's origin says of it."""

import json
import re
import textwrap
from pathlib import Path

import bars
import numpy as np
import pytest
import yaml
from small import SEARCH, finish

from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import FieldcraftError, InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.physics.emulators import emulators_of, no_emulator
from fieldcraft.models.observations import Observations
from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.formulas import exponential
from fieldcraft.physics.images import Image
from fieldcraft.physics.operators import LinearEquation
from fieldcraft.physics.parametric.finite_differences import solved
from fieldcraft.physics.parametric.statement import Field, ParametricEquation, no_flux
from fieldcraft.physics.parametric.transfer import carried
from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.problems.branin import Branin
from fieldcraft.physics.problems.cantilever_profile import CantileverProfile
from fieldcraft.physics.problems.chips import Chips
from fieldcraft.physics.space import Continuous, SearchSpace
from fieldcraft.storage.open_ledger import open_ledger

BAR = {
    **bars.BAR,
    "simulator": {"kind": "stated_equation", "cells": 100},
    "algorithm": {"kind": "emulated", "maximizer": SEARCH},
    "budget": {"trials": 7},
}
CHEAP = '''
"""A formula whose own cheap model is wrong by a factor."""

from dataclasses import dataclass

from fieldcraft import Continuous, Output, Problem, SearchSpace


@dataclass(frozen=True)
class Hill(Problem):
    @property
    def space(self):
        return SearchSpace((Continuous("x", -1.0, 3.0),))

    @property
    def outputs(self):
        return (Output("height", "m"),)

    def emulate(self, designs):
        return 2 * (designs["x"] - 1.1) ** 2

    def function(self, design):
        return {"height": (design["x"] - 1.0) ** 2}
'''


def wired(tmp_path, **changes):
    return wire(parse({**BAR, **changes}, "bar.yaml"), settings_from({}, home=tmp_path))


def note(tmp_path, capsys, **changes):
    file = tmp_path / "bar.yaml"
    file.write_text(yaml.safe_dump({**BAR, **changes}))
    assert main(["check", str(file), "--json", "--home", str(tmp_path)]) == 0
    return json.loads(capsys.readouterr().out)["note"]


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        (
            "emulated",
            "'cantilever_profile' has an emulator (the equation of deflection, moment, solved on 10 cells): the first "
            "design is the best by it; the surrogate emulated_field learns the difference to it, field by field.",
        ),
        (
            "auto",
            "solved on 10 cells): the surrogate auto may learn the difference to it, field by field; it may project "
            "the simulator's own discrete equations on the stored fields.",
        ),
        ("auto without it", "and it is not used: auto x log_ei x multistart learns from results alone."),
        ("gp_ei", "and it is not used: exact_gp x log_ei x multistart learns from results alone."),
    ],
)
def test_check_says_who_uses_the_emulator(algorithm, said, tmp_path, capsys):
    chosen = {"kind": algorithm}
    if algorithm == "auto without it":
        chosen = {"kind": "auto", "surrogate": {"candidates": ["exact_gp", "additive_gp"]}}
    assert said in note(tmp_path, capsys, algorithm=chosen)


def test_check_says_nothing_where_there_is_no_emulator(tmp_path, capsys):
    branin = {"problem": {"kind": "branin"}, "simulator": {"kind": "function"}, "algorithm": {"kind": "auto"}}
    assert note(tmp_path, capsys, **branin) is None


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (
            {"kind": "emulated"},
            r"algorithm.surrogate: 'emulated_field' needs an emulator of the outputs, and the problem has",
        ),
        (
            {"kind": "cei", "constraints": {"surrogate": {"kind": "emulated_gp"}}},
            r"algorithm.constraints.surrogate: 'emulated_gp' needs an emulator of the outputs, and the problem has",
        ),
        (
            {"kind": "gp_ei", "start": {"n": 5, "proposer": {"kind": "emulated"}}},
            r"algorithm.start.proposer: 'emulated' begins with the best design by an emulator.*Use sobol",
        ),
    ],
)
def test_a_problem_without_an_emulator_is_refused(algorithm, message, tmp_path):
    with pytest.raises(InputError, match=message):
        wired(tmp_path, problem={"kind": "branin"}, simulator={"kind": "function"}, algorithm=algorithm)


def test_an_emulator_of_images_is_none():
    class Pictured(CantileverProfile):
        @property
        def space(self):
            return SearchSpace((Continuous("x", 0.0, 1.0), Image("p", (2, 2), 0.0, 1.0)))

    assert "one value of each variable, which images have not: p" in no_emulator(Pictured(), Pictured().space)
    assert emulators_of(Pictured(), Pictured().space) == ()
    assert emulators_of(Branin(), Branin().space) == ()


def test_predictions_are_those_of_the_problem_at_decoded_designs():
    problem = Chips()
    X = problem.space.sample(5, np.random.default_rng(0))
    (emulator,) = emulators_of(problem, problem.space)
    designs = {name: np.array([[design[name]] for design in problem.space.decode(X)]) for name in problem.space.names}
    np.testing.assert_allclose(emulator.predict(X), problem.emulate(designs)[:, 0], rtol=1e-12)
    narrowed = problem.space.narrowed({"x1": [40.0, 50.0]})
    (inner,) = emulators_of(problem, narrowed)
    np.testing.assert_allclose(inner.predict(narrowed.encode(narrowed.decode(X))), inner.predict(X))
    assert np.ptp(inner.predict(X)) != np.ptp(emulator.predict(X))


def test_the_jitter_of_a_mesh_is_about_its_error_where_that_is_without_order():
    """On 24 x 16 cells the plate's hottest place is missed by 0.016 K (sd), from one place to the next."""
    problem = Chips()
    (emulator,) = emulators_of(problem, problem.space)
    X = problem.space.sample(150, np.random.default_rng(1))
    error = emulator.predict(X) - problem.exact(np.array([list(each.values()) for each in problem.space.decode(X)]))
    assert emulator.jitter == pytest.approx(error.std(), rel=0.5)
    (smooth,) = emulators_of(CantileverProfile(), CantileverProfile().space)
    assert smooth.jitter < 0.005 * CantileverProfile().sd


class Faulty(Problem):
    """An emulator that gives what it is told to."""

    def __init__(self, answer):
        self.answer = answer

    space = SearchSpace((Continuous("x", 0.0, 2.0),))
    outputs = (Output("height"),)

    def emulate(self, designs):
        return self.answer(designs["x"])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda x: x[:, 0], r"gave an array of the shape \(3,\) for 3 designs: it must be \(3, 1\)"),
        (lambda x: {"height": x}, r"The emulator of Faulty gave a dict: give an array of numbers \(n, outputs\)"),
        (lambda x: "high", "The emulator of Faulty gave a str: give an array of numbers"),
        (lambda x: None, r"gave an array of the shape \(0,\) for 3 designs"),
        (lambda x: np.where(x > 1, -1e300, x), r"predicts -1e\+300 for 'height' at x 2: .* at most 1e100 in size"),
        (lambda x: np.where(x > 1, np.nan, x), "predicts nan for 'height' at x 2: it must be finite for every design"),
    ],
)
def test_predictions_that_cannot_be_are_refused_with_the_design(answer, message):
    problem = Faulty(answer)
    (emulator,) = emulators_of(problem, problem.space)
    with pytest.raises(ValueError, match=message):
        emulator.predict(np.array([[-1.0], [0.0], [1.0]]))


def test_a_campaign_begins_with_the_emulators_best_design_and_tells_how_it_is_trusted(tmp_path):
    file = tmp_path / "bar.yaml"
    file.write_text(yaml.safe_dump(BAR))
    finish(file, tmp_path / "home")
    trials = open_ledger(settings_from({}, tmp_path / "home").ledger).trials("bar")
    values = [trial.outputs["compliance"] for trial in trials]
    assert len(values) == 7 and [trial.origin.kind for trial in trials] == ["initial"] * 3 + ["model"] * 4
    best = CantileverProfile().optimum("minimize")
    assert values[0] < 1.01 * best.value < min(values[1:3])
    told = trials[-1].origin
    assert "fields less the emulator's" in told.remarks["fields"]
    assert told.algorithm == "emulated_field x log_ei x multistart"


def hilly(tmp_path, monkeypatch, program):
    """A plug-in directory with the problem hill, and what a campaign file says of it."""
    plugins = tmp_path / "plugins"
    (plugins / "problems").mkdir(parents=True)
    (plugins / "problems" / "hill.py").write_text(textwrap.dedent(program))
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(plugins))
    return plugins, {"problem": {"kind": "hill"}, "simulator": {"kind": "function"}, "budget": {"trials": 8}}


def test_a_problem_of_a_plugin_may_have_a_cheap_model_of_its_own(tmp_path, monkeypatch, capsys):
    plugins, hill = hilly(tmp_path, monkeypatch, CHEAP)
    assert "has an emulator (its own cheap model): the first design" in note(tmp_path, capsys, **hill)
    file = tmp_path / "bar.yaml"
    finish(file, tmp_path / "home", plugins)
    trials = open_ledger(settings_from({}, tmp_path / "home").ledger).trials("bar")
    assert trials[0].design["x"] == pytest.approx(1.1, abs=1e-4)
    assert min(abs(trial.design["x"] - 1.0) for trial in trials) < 0.02


class Two(Problem):
    """An objective and a constraint."""

    space = SearchSpace((Continuous("x", 0.0, 2.0),))
    outputs = (Output("height"), Output("excess"))

    def emulate(self, designs):
        return np.hstack([designs["x"], 10 * designs["x"]])


def test_each_constraint_has_the_emulator_of_its_own_output():
    emulators = emulators_of(Two(), Two.space)
    X = np.array([[-1.0], [0.5]])
    data = Observations(X, [1.0, 2.0], maximize=False, constraints=[[3.0], [4.0]], emulators=emulators)
    np.testing.assert_allclose(data.emulators[0].predict(X), [0.0, 1.5])
    (own,) = data.constraint(0).emulators
    np.testing.assert_allclose(own.predict(X), [0.0, 15.0])


def test_campaign_files_of_emulated_problems_are_ready(tmp_path):
    root = Path(__file__).resolve().parents[4] / "campaigns"
    for name in ("chips-emulated", "cantilever"):
        campaign = wire(
            parse(yaml.safe_load((root / f"{name}.yaml").read_text()), name), settings_from({}, home=tmp_path)
        )
        assert campaign.spec.algorithm.named.kind == "emulated"


BROKEN = CHEAP.replace("return 2 * (designs", "return 2 / 0 * (designs")


@pytest.mark.parametrize("algorithm", ["gp_ei", "auto", "emulated"])
def test_a_cheap_model_that_fails_is_told_and_does_not_stop_who_can_do_without(
    algorithm, tmp_path, monkeypatch, capsys
):
    plugins, hill = hilly(tmp_path, monkeypatch, BROKEN)
    file = tmp_path / "bar.yaml"
    file.write_text(yaml.safe_dump({**BAR, **hill, "algorithm": {"kind": algorithm, "maximizer": SEARCH}}))
    said = r"problems/hill\.py, line 20: Hill cannot predict its outputs: ZeroDivisionError: division by zero"
    if algorithm == "emulated":
        assert main(["check", str(file), "--home", str(tmp_path)]) == 2
        assert re.search(said, capsys.readouterr().err)
        with pytest.raises(FieldcraftError, match=said):
            finish(file, tmp_path / "home", plugins)
        return
    finish(file, tmp_path / "home", plugins)
    trials = open_ledger(settings_from({}, tmp_path / "home").ledger).trials("bar")
    told = trials[-1].origin.remarks.get("out.emulated_gp")
    assert len(trials) == 8 and (told is None) == (algorithm == "gp_ei")
    assert told is None or re.search(said, told)


NARROW = """
'''A bowl whose lowest place is beyond a constraint, which its cheap model knows exactly.'''

from dataclasses import dataclass

import numpy as np

from fieldcraft import Continuous, Output, Problem, SearchSpace


@dataclass(frozen=True)
class Hill(Problem):
    @property
    def space(self):
        return SearchSpace((Continuous("a", 0.0, 1.0), Continuous("b", 0.0, 1.0)))

    @property
    def outputs(self):
        return (Output("height", "m"), Output("narrow", "mm"))

    def function(self, design):
        return {"height": (design["a"] - 0.3) ** 2 + (design["b"] - 0.6) ** 2, "narrow": self.narrow(design)}

    def emulate(self, designs):
        return np.hstack([(designs["a"] - 0.35) ** 2 + (designs["b"] - 0.5) ** 2, self.narrow(designs)])

    def narrow(self, design):
        return 0.7 / 3 * (2.5 - design["a"] - 3 * design["b"])
"""


def test_the_first_design_keeps_to_a_constraint_and_the_outputs_alone_teach_under_it(tmp_path, monkeypatch):
    plugins, hill = hilly(tmp_path, monkeypatch, NARROW)
    file = tmp_path / "bar.yaml"
    few = {"kind": "emulated", "start": {"n": 1}, "maximizer": SEARCH}
    file.write_text(yaml.safe_dump({**BAR, **hill, "budget": {"trials": 4}, "algorithm": few}))
    finish(file, tmp_path / "home", plugins)
    first, *others = open_ledger(settings_from({}, tmp_path / "home").ledger).trials("bar")
    assert -1e-4 < first.outputs["narrow"] <= 0
    assert [trial.origin.kind for trial in others] == ["model"] * 3
    assert min(trial.outputs["height"] for trial in others if trial.outputs["narrow"] <= 0) < first.outputs["height"]


BENT = CHEAP.replace(
    "    def emulate",
    """    @property
    def parametric(self):
        from fieldcraft.physics.parametric.statement import Condition

        return Condition("T", "s", "left", 300.0)

    def emulate""",
)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (BENT, "The condition on 'T' is at the end 'left' of the axis 's': give 'low' or 'high'"),
        (
            BENT.replace('return Condition("T", "s", "left", 300.0)', "return (1,)"),
            "'parametric' gives a tuple: return",
        ),
        (BENT.replace("parametric(self)", "fields(self)").replace('"left"', '"low"'), "'fields' gives a Condition: "),
    ],
)
def test_a_statement_that_cannot_be_is_one_error_of_check(code, said, tmp_path, monkeypatch, capsys):
    _, hill = hilly(tmp_path, monkeypatch, code)
    file = tmp_path / "bar.yaml"
    file.write_text(yaml.safe_dump({**BAR, **hill, "algorithm": {"kind": "gp_ei"}}))
    assert main(["check", str(file), "--home", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err and re.search(
        rf"problems/hill\.py, line \d+: Hill cannot state its equation and its fields: ValueError: {said}", err
    )


class Cold(Problem):
    """A heap whose logarithm is asked for: where it is steep, a spline through a coarse grid falls below 0."""

    space = SearchSpace((Continuous("at", 0.2, 0.8),))
    outputs = (Output("score"),)

    @property
    def parametric(self):
        line = Domain((Axis("s", 0.0, 1.0),))

        def heap(points, at):
            return 1e-6 + exponential(-(((points[:, 0] - at) / (0.02 + at - 0.2)) ** 2))

        def equation(design):
            return LinearEquation(1.0, (0.0,), ((-1e-4,),), lambda points: heap(points, design["at"]))

        return ParametricEquation(line, (Field("u"),), equation, no_flux("u", line), (12,))

    def functional(self, fields, axes, designs):
        with np.errstate(invalid="ignore"):
            return np.log(fields["u"].min(axis=1, keepdims=True))


class Flat(Cold):
    """Outputs of the wrong shape."""

    def functional(self, fields, axes, designs):
        return fields["u"].min(axis=1)


def test_a_functional_that_gives_another_shape_is_refused_with_it():
    (emulator,) = emulators_of(Flat(), Flat.space)
    with pytest.raises(ValueError, match=r"gave an array of the shape \(3,\) for 3 designs: it must be \(3, 1\)"):
        emulator.predict(np.array([[-1.0], [0.0], [1.0]]))


class Wave(Cold):
    """Outputs that are complex."""

    def functional(self, fields, axes, designs):
        return fields["u"][:, :1] + 1j


def test_a_functional_that_gives_complex_values_is_refused():
    (emulator,) = emulators_of(Wave(), Wave.space)
    with pytest.raises(ValueError, match="The functional of Wave gave an array of the type complex128: give"):
        emulator.predict(np.zeros((1, 1)))


def test_an_output_that_no_spline_tells_is_read_from_the_coarse_cells():
    problem = Cold()
    designs = {"at": np.linspace(0.2, 0.8, 25)[:, None]}
    coarse = solved(problem.parametric, designs, (12,))["u"]
    between = carried(coarse, (48,), (False,)).min(axis=1)
    assert (coarse > 0).all() and (between <= 0).any() and (between > 0).any()
    expected = np.log(np.where(between > 0, between, coarse.min(axis=1)))
    np.testing.assert_allclose(problem.emulate(designs)[:, 0], expected)
