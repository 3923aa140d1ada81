"""Angles, ordered levels, vectors, mixtures, exchangeable blocks and conditions in campaigns."""

import textwrap

import numpy as np
import pytest
import yaml
from small import finish

from fieldcraft.flows.analysis.existing import absent, existing
from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.tables import differs, readable
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.views.data import design_text
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.environment import environment_of
from fieldcraft.physics.space import Continuous, Exchangeable, LinearConstraint, LinearEquality, OnlyIf, SearchSpace
from fieldcraft.physics.structure.vectors import vector
from fieldcraft.storage.open_ledger import open_ledger

VARIABLES = [
    {"name": "phi", "low": 0, "high": 360, "unit": "deg", "periodic": True},
    {"name": "grade", "choices": ["S", "M", "L"], "ordered": True},
    {"name": "glue", "choices": ["A", "B"]},
    {"name": "heat", "low": 20, "high": 90, "unit": "degC", "only_if": {"glue": ["B"]}},
    {"name": "w", "low": 0, "high": 1, "unit": "mm", "size": 3},
    {"name": "m", "low": 0, "high": 1, "size": 3},
]
DECLARED = {
    "kind": "declared",
    "variables": VARIABLES,
    "results": [{"name": "loss"}],
    "keeps": [{"sum": ["m"], "equals": 1}, {"sum": {"w": 1}, "at_most": 2}, {"sum": {"m[0]": 2}, "at_least": 0.1}],
    "exchangeable": ["w"],
}
BASE = {
    "name": "parts",
    "seed": 3,
    "sense": "minimize",
    "problem": DECLARED,
    "algorithm": {"kind": "gp_ei", "start": {"n": 4}},
    "dispatcher": {"kind": "lab"},
    "budget": {"trials": 8},
}
WORDS = {
    "start": {"n": 4},
    "surrogate": {"kind": "exact_gp"},
    "acquisition": {"kind": "log_ei"},
    "maximizer": {"kind": "multistart"},
}
BY_GROUP = {
    "surrogate": {"kind": "grouped_gp"},
    "acquisition": {"kind": "add_ucb"},
    "maximizer": {"kind": "certified"},
}
PARTS = '''
"""All that a space can hold, with a formula."""

import math
from dataclasses import dataclass

from fieldcraft import Categorical, Continuous, Exchangeable, LinearEquality, OnlyIf
from fieldcraft import Output, Problem, SearchSpace, vector


@dataclass(frozen=True)
class Parts(Problem):
    @property
    def space(self):
        w, m = vector(Continuous("w", 0, 1, "mm"), 3), vector(Continuous("m", 0, 1), 3)
        names = [each.name for each in w]
        return SearchSpace(
            (
                Continuous("phi", 0, 360, "deg", periodic=True),
                Categorical("grade", ("S", "M", "L"), ordered=True),
                Categorical("glue", ("A", "B")),
                Continuous("heat", 20, 90, "degC"),
                *w,
                *m,
            ),
            (LinearEquality({each.name: 1 for each in m}, 1),),
            (Exchangeable(tuple((name,) for name in names)),),
            (OnlyIf("heat", "glue", ("B",)),),
        )

    @property
    def outputs(self):
        return (Output("loss"),)

    def function(self, design):
        w = sorted(design[f"w[{k}]"] for k in range(3))
        size = {"S": 0, "M": 1, "L": 2}[design["grade"]]
        heat = (design["heat"] / 70 - 0.8) ** 2 if design["glue"] == "B" else 0.2
        turned = 1 - math.cos(math.radians(design["phi"] - 355))
        return {"loss": turned + heat + (w[0] - 0.1) ** 2 + (w[2] - 0.9) ** 2 + (size - 1) ** 2 + design["m[0]"]}
'''


def wired(home, **changes):
    return wire(parse({**BASE, **changes}, "parts.yaml"), settings_from({}, home=home))


def declared(*variables, **more):
    return {"problem": {"kind": "declared", "variables": list(variables), "results": [{"name": "loss"}], **more}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished campaign over all of them: its settings, its record and its trials."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "plugins" / "problems").mkdir(parents=True)
    (folder / "plugins" / "problems" / "parts.py").write_text(textwrap.dedent(PARTS))
    spec = {
        **BASE,
        "problem": {"kind": "parts"},
        "simulator": {"kind": "function"},
        "dispatcher": {"kind": "inline"},
        "algorithm": {**WORDS, "maximizer": {"kind": "multistart", "n_samples": 64, "n_starts": 2}},
    }
    (folder / "c.yaml").write_text(yaml.safe_dump(spec))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDCRAFT_PLUGINS", str(folder / "plugins"))
        finish(folder / "c.yaml", folder / "home", folder / "plugins")
        settings = settings_from({"FIELDCRAFT_PLUGINS": str(folder / "plugins")}, folder / "home")
        ledger = open_ledger(settings.ledger)
        yield spec, settings, ledger.campaign("parts"), ledger.trials("parts")


def test_a_campaign_file_states_all_of_them(tmp_path):
    space = wired(tmp_path).space
    assert space.names == ("phi", "grade", "glue", "heat", "w[0]", "w[1]", "w[2]", "m[0]", "m[1]", "m[2]")
    assert space.variables[0] == Continuous("phi", 0, 360, "deg", periodic=True)
    assert space.variables[1].ordered
    assert space.units["w[1]"] == "mm"
    assert space.only_if == (OnlyIf("heat", "glue", ("B",)),)
    assert space.exchangeable == (Exchangeable((("w[0]",), ("w[1]",), ("w[2]",))),)
    m, w = ({f"{name}[{k}]": 1.0 for k in range(3)} for name in "mw")
    expected = (LinearEquality(m, 1.0), LinearConstraint(w, 2.0), LinearConstraint({"m[0]": -2.0}, -0.1))
    assert space.constraints == expected


def test_a_file_without_them_has_the_digest_of_earlier_versions(tmp_path):
    plain = [
        {"name": "rate", "low": 1e-7, "high": 1.0, "unit": "1/s", "log": True},
        {"name": "x", "low": 0, "high": 2},
        {"name": "glue", "choices": ["A", "B"]},
    ]
    changes = {"name": "rates", "algorithm": {"kind": "gp_ei", "start": {"n": 3}}, "budget": {"trials": 5}}
    assert wired(tmp_path, **changes, **declared(*plain)).digest.startswith("1fcf8ad67274")


def test_narrower_bounds_of_a_vector_hold_for_each_component(tmp_path):
    space = wired(tmp_path, space={"w": [0.2, 0.7]}).space
    assert [(each.low, each.high) for each in space.variables if each.name.startswith("w")] == [(0.2, 0.7)] * 3


@pytest.mark.parametrize("bounds", [{"w": [0.2, 0.7], "w[1]": [0, 0.5]}, {"w[1]": [0, 0.5], "w": [0.2, 0.7]}])
def test_bounds_of_a_vector_and_of_its_component_are_refused_in_either_order(bounds, tmp_path):
    with pytest.raises(InputError, match=r"w\[1\] is named by itself and in the vector w"):
        wired(tmp_path, space=bounds)


def test_a_variable_of_the_name_of_a_vector_is_meant_by_that_name():
    space = SearchSpace((Continuous("w", 0, 1), *vector(Continuous("w", 0, 1), 2)))
    assert [variable.high for variable in space.narrowed({"w": (0, 0.5)}).variables] == [0.5, 1, 1]


def test_what_was_proposed_keeps_to_the_space(finished):
    spec, settings, _, trials = finished
    space = wire(parse(spec, "c.yaml"), settings).space
    assert len(trials) == 8
    for trial in trials:
        space.check(trial.design)
        assert sum(trial.design[f"m[{k}]"] for k in range(3)) == pytest.approx(1, abs=1e-9)
        assert trial.design["heat"] == 55.0 or trial.design["glue"] == "B"
    canonical = space.folds.canonical(space.encode([trial.design for trial in trials]))
    assert len(np.unique(canonical.round(9), axis=0)) == 8


def test_what_does_not_exist_is_not_shown(finished):
    _, _, record, trials = finished
    assert record.environment["only_if"] == {"heat": {"glue": ["B"]}}
    assert record.environment["orders"] == {"grade": ["S", "M", "L"]}
    assert {trial.design["glue"] for trial in trials} == {"A", "B"}
    for trial in trials:
        assert absent(record, trial.design) == ({"heat"} if trial.design["glue"] == "A" else frozenset())
        assert ("heat" in existing(record, trial.design)) == (trial.design["glue"] == "B")
        assert ("heat" in design_text(record, trial.design)) == (trial.design["glue"] == "B")


def test_the_environment_of_other_problems_is_as_before(tmp_path):
    problem = wired(tmp_path, **declared({"name": "x", "low": 0, "high": 2})).problem
    assert not {"log", "orders", "only_if"} & environment_of(problem, ()).keys()


def test_columns_of_a_table_may_be_components():
    assert readable("w[0]")
    assert readable("w[12]")
    assert not readable("w [0]")
    assert not readable("w[a]")


def test_both_ends_of_a_period_are_one_value_in_a_table():
    phi = Continuous("phi", 0, 360, periodic=True)
    assert not differs(phi, 0.0, 360.0)
    assert not differs(phi, 359.9999999999, 1e-11)
    assert differs(phi, 0.0, 359.9)
    assert differs(Continuous("x", 0, 360), 0.0, 360.0)


X = {"name": "x", "low": 0, "high": 1}


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (declared({**X, "ordered": True}), "x is a number, which has its order: leave out ordered"),
        (declared({**X, "periodic": True, "whole": True}), "x is a whole number and periodic"),
        (declared({**X, "log": True, "low": 0.1, "periodic": True}), "x is periodic and has a logarithmic scale"),
        (declared({"name": "g", "choices": ["A"], "periodic": True}), "g has choices and is no number"),
        (declared({**X, "size": 0}), "The size of the vector x is 0: give a whole number from 1 to 1000"),
        (declared({**X, "size": 2, "high": -1}), "lower must be below"),
        (declared(X, {**X, "name": "y", "only_if": {"x": ["1"]}}), "x, which is no categorical variable"),
        (declared({**X, "only_if": {"a": ["1"], "b": ["2"]}}), "x depends on a, b: name one variable in only_if"),
        (declared(X, keeps=[{"sum": ["x"]}]), "the sum of x has 0 values: name its variables"),
        (declared(X, keeps=[{"sum": ["x"], "equals": 1, "at_most": 2}]), "the sum of x has 2 values"),
        (declared(X, keeps=[{"sum": ["z"], "equals": 1}]), "No variable is named 'z'. Known: x"),
        (declared(X, keeps=[{"sum": ["x"], "equal": 1}]), "equal"),
        (declared(X, keeps=[{"sum": ["x", "x"], "equals": 1}]), "the sum of x, x names a variable twice"),
        (declared({**X, "size": 2}, keeps=[{"sum": {"x": 1, "x[0]": 2}, "at_most": 1}]), r"x\[0\] is named by itself"),
        (declared({**X, "size": 2}, keeps=[{"sum": ["x[1]", "x"], "equals": 1}]), r"x\[1\] is named by itself"),
        (declared(X, exchangeable=["x"]), "give at least two tuples of names"),
        (declared(X, {**X, "name": "y", "high": 2}, exchangeable=[[["x"], ["y"]]]), "x and y .* are not alike"),
        (declared({**X, "periodik": True}), "Did you mean 'periodic'"),
        (declared({"name": "g", "choices": [80, 120]}), r"choices\.0: .* \(given: 80\)\. Write '80', in quotes"),
        (declared({"name": "g", "choices": [True, "B"]}), r"choices\.0: .* \(given: True\)\. Write the word in quotes"),
    ],
)
def test_slips_of_a_file_are_refused_with_the_remedy(problem, message, tmp_path):
    with pytest.raises(InputError, match=message):
        wired(tmp_path, **problem)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"acquisition": {"kind": "mes"}}, "'mes' samples minima in a box, and models see no box, for phi is periodic"),
        ({"maximizer": {"kind": "certified"}}, "algorithm.maximizer: .* certified bounds models of the encoded points"),
        (BY_GROUP, "algorithm.maximizer: Groups .* heat exists in some designs alone: use `maximizer: multistart`"),
    ],
)
def test_words_that_cannot_take_the_space_are_refused(words, message, tmp_path):
    with pytest.raises(InputError, match=message):
        wired(tmp_path, algorithm={**WORDS, **words})


def test_check_says_what_a_rival_does_not_know(tmp_path, capsys):
    phi = {"name": "phi", "low": 0, "high": 360, "periodic": True}
    file = tmp_path / "parts.yaml"
    rival = {"start": {"n": 4}, "peer": {"kind": "botorch_log_ei"}}
    file.write_text(yaml.safe_dump({**BASE, **declared(phi), "algorithm": rival}))
    assert main(["check", str(file), "--home", str(tmp_path)]) == 0
    assert "the rival botorch_log_ei is told plain numbers and choices, and does not know that phi is periodic" in (
        capsys.readouterr().out
    )
