"""A campaign over a part of a box: its stored fields teach where the mask leaves cells, and nothing else is asked."""

import json
from dataclasses import dataclass

import bars
import numpy as np
import pytest
import yaml
from scipy.sparse import identity
from small import finish

from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.field_outputs import checked_outputs
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.physics.snapshots import StatedFields, snapshots_of
from fieldcraft.physics.parametric.discrete import DiscreteSystem
from fieldcraft.physics.problems.bracket import Bracket
from fieldcraft.physics.simulators.stated_equation import StatedEquation
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.open_ledger import open_ledger

PROBLEM = Bracket()
BRACKET = {
    "name": "bracket",
    "seed": 2,
    "sense": "minimize",
    "problem": {"kind": "bracket"},
    "simulator": {"kind": "stated_equation", "cells": 36},
    "algorithm": {
        "kind": "emulated",
        "start": {"n": 5, "proposer": {"kind": "sobol"}},
        "maximizer": {"kind": "multistart", "n_samples": 64, "n_starts": 2},
    },
    "dispatcher": {"kind": "inline"},
    "budget": {"trials": 6},
}


def wired(home, **changes):
    return wire(parse({**BRACKET, **changes}, "bracket.yaml"), settings_from({}, home=home))


def file_of(folder, **changes):
    file = folder / "bracket.yaml"
    file.write_text(yaml.safe_dump({**BRACKET, **changes}))
    return file


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The home of a campaign that has come to its end."""
    folder = tmp_path_factory.mktemp("bracket")
    finish(file_of(folder), folder / "home")
    return folder / "home"


def trials_of(home):
    return open_ledger(settings_from({}, home).ledger).trials("bracket")


def test_a_campaign_over_an_l_learns_from_its_fields(home, capsys):
    assert main(["show", trials_of(home)[-1].id, "--home", str(home)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "5 fields less the emulator's, in" in said and "coefficients: exchange 50 W/(m^2 K), as stated" in said
    assert "equation: the fields leave" in said


def test_the_functional_reads_the_stored_fields_as_the_campaign_did(home):
    campaign, trials = wired(home), trials_of(home)
    outputs = np.array([[trial.outputs["max_temperature"]] for trial in trials])
    X = campaign.space.encode([trial.actual for trial in trials])
    found = snapshots_of(campaign, [trial.field.digest for trial in trials], X, outputs)
    assert found.values.shape == (6, 1, 36 * 36 * 3 // 4) and np.isfinite(found.values).all() and found.shape == ()
    np.testing.assert_allclose(found.outputs(found.values, X), outputs[:, 0], rtol=1e-9)
    emulated = found.emulated(X)
    assert emulated.shape == found.values.shape and np.abs(emulated - found.values).max() < 3
    assert found.residuals(found.values, X, None).max() < 1e-9  # its own grid's equation holds
    few = found.coarser(600)
    assert 400 < few.values.shape[2] <= 600 and np.isfinite(few.values).all()
    np.testing.assert_allclose(few.outputs(few.values, X), outputs[:, 0], atol=2.0)


def test_a_picture_shows_the_l(home, tmp_path):
    assert main(["plot", "bracket", str(tmp_path / "l.png"), "--home", str(home)]) == 0
    assert (tmp_path / "l.png").stat().st_size > 10_000


def test_fields_are_imported_whatever_they_have_outside_and_must_be_finite_inside(home, tmp_path, capsys):
    design = {"x1": 50.0, "y1": 30.0, "x2": 30.0, "y2": 90.0}
    fields = StatedEquation(24).run(PROBLEM, design, np.random.default_rng(0))
    other = fields.copy(deep=True)
    other["temperature"].values[13:, 13:] = 1e6
    (hottest,) = checked_outputs(PROBLEM, design, fields, {}).values()
    assert checked_outputs(PROBLEM, design, other.transpose("y", "x"), {"max_temperature": hottest})
    other["temperature"].values[3, 20] = np.nan
    with pytest.raises(InputError, match="'temperature' of the field is nan at x 3, y 20"):
        checked_outputs(PROBLEM, design, other, {})
    bars.written(fields, tmp_path / "before" / "a.nc")
    table = bars.table(tmp_path / "before" / "table.csv", [{**design, "field": "a.nc"}])
    file = file_of(tmp_path)
    assert main(["import", str(file), str(table), "--home", str(tmp_path / "home")]) == 0, capsys.readouterr().err
    (trial,) = trials_of(tmp_path / "home")
    assert trial.outputs == {"max_temperature": hottest}
    assert (
        np.isnan(fields_at(settings_from({}, tmp_path / "home").fields).read(trial.field)["temperature"]).sum() == 144
    )


def test_check_tells_the_cells_and_refuses_a_network(tmp_path, capsys):
    assert main(["check", str(file_of(tmp_path)), "--json", "--home", str(tmp_path)]) == 0
    note = json.loads(capsys.readouterr().out)["note"]
    assert "the equation of temperature, solved on the 432 of 24 x 24 cells that the mask leaves" in note
    with pytest.raises(InputError, match="fills a whole box, and the domain of problem 'bracket' has a mask"):
        wired(tmp_path, emulator={"kind": "pinn", "points": 512, "steps": 10})


@dataclass(frozen=True)
class Discrete(Bracket):
    """The bracket with equations for some cells of 8 x 8."""

    free: tuple[int, ...] = ()

    def discrete(self, designs, cells):
        """An identity matrix."""
        ones = np.ones((1, len(self.free)))
        return DiscreteSystem(identity(len(self.free)).tocsr(), ones, ones, "temperature", np.array(self.free))


def test_discrete_equations_number_the_cells_of_the_box_and_leave_those_outside_out():
    def cells(*free):
        problem = Discrete(free)
        grid = StatedFields(problem, problem.parametric, PROBLEM.space, ("temperature",), (8, 8))
        return grid.discrete(np.zeros((1, 4))).free.tolist()

    assert cells(0, 35, 40, 43, 59) == [0, 35, 36, 39, 47]
    with pytest.raises(ValueError, match="unknown cells outside the mask of the domain"):
        cells(0, 60)


HALF = '''
"""A plate with a notch whose edge is known in part."""
from dataclasses import dataclass

import numpy as np

from fieldcraft import Axis, Condition, Continuous, Domain, Edge, Field, LinearEquation, Output, ParametricEquation
from fieldcraft import Problem, SearchSpace, no_flux


def notched(points):
    return (points[:, 0] < 0.5) | (points[:, 1] < 0.5)


@dataclass(frozen=True)
class Notched(Problem):
    @property
    def space(self):
        return SearchSpace((Continuous("q", 1.0, 2.0),))

    @property
    def outputs(self):
        return (Output("mean"),)

    @property
    def parametric(self):
        domain = Domain((Axis("x", 0.0, 1.0), Axis("y", 0.0, 1.0)), notched)
        return ParametricEquation(
            domain, (Field("u"),), lambda d: LinearEquation(d["q"], (0.0, 0.0), ((-1.0, 0.0), (0.0, -1.0)), 1.0),
            no_flux("u", domain), (8, 8), edge=(Edge("u", 1.0, part=lambda points: points[:, 0] > 0.6),),
        )

    def functional(self, fields, axes, designs):
        return np.nanmean(fields["u"], axis=(1, 2))[:, None]
'''


def test_check_refuses_an_edge_that_is_known_in_part(tmp_path):
    plugins = tmp_path / "plugins"
    (plugins / "problems").mkdir(parents=True)
    (plugins / "problems" / "notched.py").write_text(HALF)
    settings = settings_from({"FIELDCRAFT_PLUGINS": str(plugins)}, tmp_path)
    spec = parse({**BRACKET, "problem": {"kind": "notched"}}, "notched.yaml")
    with pytest.raises(InputError, match=r"'notched': .*On the mask's edge at .* there are 0 conditions, and 1 are"):
        wire(spec, settings)
