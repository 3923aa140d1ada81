"""Conditions and masks in campaigns: what `check` says of them, what is refused, and the points that a pass stores."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from small import SEARCH, finish

from fieldcraft.flows.cli import main
from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.recovery.reproduce import remade
from fieldcraft.flows.report.belief import believed
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.steps.collocate import points_for, points_of
from fieldcraft.flows.wiring.build import rewire
from fieldcraft.flows.wiring.context import Site
from fieldcraft.flows.wiring.observations import observations
from fieldcraft.physics.collocation import collocate, on_side
from fieldcraft.physics.problems.l_shape import LShape
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import TrialState

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "conditions.md").read_text()
CORNER = {
    "name": "corner",
    "seed": 5,
    "sense": "maximize",
    "problem": {"kind": "l_shape"},
    "simulator": {"kind": "exact"},
    "algorithm": {"kind": "pinn_bo", "start": {"n": 6}, "collocation": {"n": 36}, "maximizer": SEARCH},
    "dispatcher": {"kind": "inline"},
    "budget": {"trials": 8},
}
WRONG = """
import dataclasses

from fieldcraft import Condition
from fieldcraft.physics.problems.poisson import Poisson


@dataclasses.dataclass(frozen=True)
class Wrong(Poisson):
    @property
    def conditions(self):
        return (Condition({field!r}, {axis!r}, "low", 0.0),)
"""


def checked(tmp_path, capsys, **changes):
    """Exit status, the note or None, and what ``check`` says of an error."""
    file = tmp_path / "corner.yaml"
    file.write_text(yaml.safe_dump({**CORNER, **changes}))
    code = main(["check", str(file), "--json", "--home", str(tmp_path)])
    out, err = capsys.readouterr()
    return code, json.loads(out)["note"] if code == 0 else None, err if code == 0 else out


def site_of(home, name):
    settings = settings_from({}, home=home)
    ledger = open_ledger(settings.ledger)
    return Site(rewire(ledger.campaign(name).spec, settings), ledger, fields_at(settings.fields))


POISSON, WAVE, FLOW = ({"problem": {"kind": kind}} for kind in ("poisson", "thermal_wave", "burgers"))


@pytest.mark.parametrize(
    ("algorithm", "changes", "said"),
    [
        (
            {"kind": "pinn_bo"},
            {},
            "problem 'l_shape' states an equation, conditions at the high end of x, the low end of y and a mask of its "
            "domain: the surrogate auto learns from them.",
        ),
        (
            {"kind": "auto"},
            POISSON,
            "states an equation, conditions at the low end of y: the surrogate auto may learn from them.",
        ),
        (
            {"kind": "pinn_bo", "engine": "trained"},
            FLOW,
            "states an equation, conditions at the low end of t: the surrogate physics_informed learns from them.",
        ),
        ({"kind": "gp_ei"}, WAVE, "states an equation for its objective, and it is not used: the surrogate 'exact_gp'"),
        ({"kind": "pinn_bo"}, {"problem": {"kind": "heat"}, "simulator": {"kind": "exact"}}, None),
    ],
)
def test_check_says_who_uses_conditions_and_mask(algorithm, changes, said, tmp_path, capsys):
    code, note, err = checked(tmp_path, capsys, algorithm=algorithm, **changes)
    assert (code, err) == (0, "")
    assert note is None if said is None else said in note


@pytest.mark.parametrize(
    ("algorithm", "problem", "why"),
    [
        ({"kind": "pinn_bo", "engine": "basis"}, {"kind": "poisson"}, "learns from results alone.*use engine kernel"),
        ({"kind": "pinn_bo", "engine": "trained"}, {"kind": "poisson", "known": "flux"}, "A condition has a slope"),
        ({"kind": "pinn_bo"}, {"kind": "burgers"}, "The equation is not linear"),
    ],
)
def test_an_engine_that_cannot_learn_from_what_is_stated_is_refused(algorithm, problem, why, tmp_path, capsys):
    code, _, err = checked(tmp_path, capsys, algorithm=algorithm, problem=problem)
    assert code == 2 and re.search(f"cannot learn from the problem's equation. .*{why}", err)


@pytest.mark.parametrize(("field", "axis"), [("depth", "x"), ("height", "z")])
@pytest.mark.parametrize("kind", ["auto", "pinn_bo"])
def test_a_condition_on_another_field_or_axis_is_refused(kind, field, axis, tmp_path, monkeypatch, capsys):
    (tmp_path / "plugins" / "problems").mkdir(parents=True)
    (tmp_path / "plugins" / "problems" / "wrong.py").write_text(WRONG.format(field=field, axis=axis))
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    code, _, err = checked(tmp_path, capsys, algorithm={"kind": kind}, problem={"kind": "wrong"})
    assert code == 2
    said = f"problem 'wrong': a condition names the field '{field}' and the axis '{axis}'."
    assert f"{said} The objective is 'height' and the axes are x, y." in err
    assert checked(tmp_path, capsys, algorithm={"kind": "gp_ei"}, problem={"kind": "wrong"})[0] == 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'Axis("y", -1.0, 1.0, "dm")',
            'Axis("y", -1.0, 1.0, "m")',
            "the axis 'y' of its domain is in 'm' and the variable",
        ),
        (
            '"y", "high", heating, value=0.0, slope=1.0',
            '"x", "low", 300.0',
            "two conditions of one kind hold at the low end",
        ),
        ('"y", "high", heating', '"x", "low", heating', None),  # a value and a flux on one side
    ],
)
def test_an_axis_in_another_unit_and_a_side_that_is_stated_twice_are_refused(
    old, new, said, tmp_path, monkeypatch, capsys
):
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert old in program
    (tmp_path / "plugins" / "problems").mkdir(parents=True)
    (tmp_path / "plugins" / "problems" / "bored_plate.py").write_text(program.replace(old, new))
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    changes = {"problem": {"kind": "bored_plate"}, "simulator": {"kind": "function"}}
    code, note, err = checked(tmp_path, capsys, **changes)
    assert (code, note is None) == ((0, False) if said is None else (2, True))
    assert said is None or f"problem 'bored_plate': {said}" in err


@pytest.fixture(scope="module")
def corner(tmp_path_factory):
    """A finished campaign on the L."""
    folder = tmp_path_factory.mktemp("corner")
    (folder / "corner.yaml").write_text(yaml.safe_dump(CORNER))
    finish(folder / "corner.yaml", folder)
    return site_of(folder, "corner")


def test_a_pass_stores_points_in_the_mask_and_on_each_side_by_their_address(corner):
    domain, conditions = LShape().domain, LShape().conditions
    iterations = [product.iteration for product in corner.ledger.products("corner") if product.step == "collocate"]
    assert len(iterations) >= 2
    for iteration in iterations:
        found = points_of(corner, iteration)
        address = 5, iteration, Use.COLLOCATE
        np.testing.assert_array_equal(found.inside, collocate(domain, 36, "sobol", stream(*address)))
        assert domain.contains(found.inside).all() and len(found.sides) == 2
        for k, condition in enumerate(conditions, start=1):
            expected = on_side(domain, condition, 12, "sobol", stream(*address, k))
            np.testing.assert_array_equal(found.sides[k - 1], expected)
        assert points_for(corner, iteration).identical(
            corner.fields.read(corner.ledger.product("corner", iteration, "collocate").reference)
        )


def test_what_a_surrogate_learns_holds_for_the_exact_solution(corner):
    points = points_of(corner, corner.ledger.latest("corner", "collocate").iteration)
    physics = observations(corner.campaign, corner.ledger.trials("corner"), points).physics
    assert physics.masked and [side.normal.tolist() for side in physics.sides] == [[1, 0], [0, -1]]
    for side in physics.sides:
        assert (side.value, side.slope) == (1.0, 0.0)
        np.testing.assert_array_equal(side.right, LShape().exact(side.points))


def test_a_design_outside_the_mask_is_a_trial_that_the_gate_refuses(corner):
    trials = corner.ledger.trials("corner")
    inside = LShape().domain.contains([[trial.design["x"], trial.design["y"]] for trial in trials])
    assert [trial.state is TrialState.COMPLETED for trial in trials] == inside.tolist()
    refused = [trial for trial, held in zip(trials, inside, strict=True) if not held]
    assert refused and all((trial.failure, trial.spent) == ("infeasible", 0.0) for trial in refused)
    for trial in refused:
        (said,) = [event.reason for event in corner.ledger.history("corner", trial.id) if "gate" in event.reason]
        assert "refused by the gate: the place x" in said and "lies outside the problem's domain" in said


def test_a_model_with_conditions_is_reproduced_to_the_bit(corner):
    for step in ("collocate", "train"):
        product = corner.ledger.latest("corner", step)
        assert remade(corner, product).identical(corner.fields.read(product.reference))


def test_a_campaign_without_conditions_stores_what_it_always_stored(tmp_path):
    plate = {**CORNER, "name": "plate", "problem": {"kind": "heat"}, "budget": {"trials": 7}}
    (tmp_path / "plate.yaml").write_text(yaml.safe_dump(plate))
    finish(tmp_path / "plate.yaml", tmp_path / "home")
    site = site_of(tmp_path / "home", "plate")
    product = site.ledger.latest("plate", "collocate")
    stored = site.fields.read(product.reference)
    assert list(stored.variables) == ["points"] and stored["points"].shape == (36, 2)
    assert points_of(site, product.iteration).sides == ()


def test_the_problem_of_the_page_learns_from_its_sides_and_finds_the_bore(tmp_path, monkeypatch, capsys):
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    plugins = tmp_path / "plugins"
    (plugins / "problems").mkdir(parents=True)
    (plugins / "problems" / "bored_plate.py").write_text(program)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(plugins))
    file = tmp_path / "bored.yaml"
    algorithm = {"kind": "pinn_bo", "collocation": {"n": 49}, "maximizer": SEARCH}
    quick = {"algorithm": algorithm, "dispatcher": {"kind": "inline"}}
    file.write_text(yaml.safe_dump({**yaml.safe_load(text), **quick}))
    assert main(["check", str(file), "--home", str(tmp_path)]) == 0
    (said,) = re.findall(r"^> (note: .*\n> .*)$", PAGE, re.MULTILINE)
    assert " ".join(said.replace("\n>", " ").split()) in capsys.readouterr().out
    finish(file, tmp_path / "home", plugins)
    trials = open_ledger(settings_from({}, tmp_path / "home").ledger).trials("bored")
    best = min(trial.outputs["temperature"] for trial in trials if trial.outputs is not None)
    assert len(trials) == 12 and best < 290 + 4 * np.log(0.4**2)


def test_the_report_shows_the_residual_where_the_mask_leaves_the_equation(corner, tmp_path):
    best = max(corner.ledger.trials("corner"), key=lambda trial: (trial.outputs or {"height": -1.0})["height"])
    missed = believed(corner, best).missed
    grid = np.stack(np.meshgrid(*missed.axes, indexing="ij"), axis=-1)
    np.testing.assert_array_equal(
        np.isfinite(missed.values), LShape().domain.contains(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    )
    page = tmp_path / "corner.html"
    assert main(["report", "corner", "--html", str(page), "--home", str(corner.campaign.settings.home)]) == 0
    (section,) = re.findall(r"Residual of the equation</h2>(.*?)</section>", page.read_text(), re.DOTALL)
    assert "over the domain" in section and "nan" not in re.sub(r'src="[^"]*"', "", section)
