"""Fields for the rival that learns from them: with an equation and without, on fewer cells, and refused."""

import numpy as np
import pytest

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.physics import stated_fields
from fieldcraft.flows.wiring.physics.emulators import told
from fieldcraft.flows.wiring.physics.snapshots import StatedFields, snapshots_of, uses_fields
from fieldcraft.physics.problems.cantilever_profile import CantileverProfile
from fieldcraft.physics.problems.pollutant import Pollutant
from fieldcraft.physics.simulators.stated_equation import StatedEquation
from fieldcraft.storage.fields import fields_at

SPILL = {
    "name": "spill",
    "seed": 3,
    "sense": "minimize",
    "problem": {"kind": "pollutant"},
    "simulator": {"kind": "function"},
    "algorithm": {"kind": "botorch_composite"},
    "budget": {"trials": 9},
}
PROBLEM = Pollutant()
DESIGNS = PROBLEM.space.decode(PROBLEM.space.sample(4, np.random.default_rng(3)))
X = PROBLEM.space.encode(DESIGNS)


def wired(home, **changes):
    return wire(parse({**SPILL, **changes}, "spill.yaml"), settings_from({}, home=home))


def stored(campaign, runs):
    return [fields_at(campaign.settings.fields).write("spill", each).digest for each in runs]


def test_the_readings_of_the_trials_tell_their_results(tmp_path):
    campaign = wired(tmp_path)
    runs = [PROBLEM.function(design) for design in DESIGNS]
    digests, y = stored(campaign, runs), PROBLEM.exact(np.array([list(each.values()) for each in DESIGNS]))[:, None]
    assert uses_fields(campaign)
    found = snapshots_of(campaign, digests, X, y)
    assert found.values.shape == (4, 1, 12) and found.shape == (3, 4) and found.predict is None
    np.testing.assert_array_equal(found.values[2, 0], runs[2]["concentration"].values.ravel())
    np.testing.assert_allclose(found.outputs(found.values, X), y[:, 0], rtol=1e-12)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"problem": {"kind": "branin"}},
            r"the problem states none \(`fields` or `parametric`, with `functional`\)",
        ),
        ({"noise": {"sd": 0.1}}, "noise is added to the results, which fields lack"),
    ],
    ids=["no fields", "noise"],
)
def test_a_campaign_whose_fields_tell_nothing_is_refused_before_it_begins(changes, why, tmp_path):
    with pytest.raises(
        InputError,
        match=rf"'botorch_composite' learns from the fields of runs, and {why}\. Use another algorithm, ",
    ):
        wired(tmp_path, **changes)


def test_check_says_that_a_rival_learns_from_fields_without_the_equation(tmp_path):
    plate = {"problem": {"kind": "chips"}, "simulator": {"kind": "chips"}}
    for kind, what in {"botorch_composite": "the stored fields", "botorch_log_ei": "results"}.items():
        said = told(wired(tmp_path, **plate, algorithm={"kind": kind}))
        assert said.endswith(f"it is not used: {kind} learns from {what} alone. emulated and auto use it.")


def test_check_says_that_a_rival_learns_from_fields_of_which_no_equation_is_stated(tmp_path):
    states = "problem 'pollutant' states fields (concentration) and no equation of them"
    assert stated_fields.told(wired(tmp_path)) == f"{states}: the rival botorch_composite learns from them."
    assert "and they are not used: " in stated_fields.told(wired(tmp_path, algorithm={"kind": "botorch_log_ei"}))


def test_the_fields_of_an_equation_are_read_as_well_on_fewer_cells():
    problem = CantileverProfile()
    designs = problem.space.decode(problem.space.sample(3, np.random.default_rng(1)))
    runs = [StatedEquation(400).run(problem, design, np.random.default_rng(0)) for design in designs]
    fields = np.stack([[each[name].values for name in ("deflection", "moment")] for each in runs])
    grid = StatedFields(problem, problem.parametric, problem.space, ("deflection", "moment"), (400,))
    coarse = grid.snapshots(fields, ["0" * 64] * 3).coarser(128)
    assert coarse.shape == (128,) and coarse.values.shape == (3, 2, 128)
    outputs = [problem.evaluate(design, each)["compliance"] for design, each in zip(designs, runs, strict=True)]
    np.testing.assert_allclose(coarse.outputs(coarse.values, problem.space.encode(designs)), outputs, rtol=1e-9)
