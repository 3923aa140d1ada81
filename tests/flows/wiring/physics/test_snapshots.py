"""Stored fields in campaigns: who learns from them, on which grid, and what stands in where there are none."""

import json

import bars
import numpy as np
import pytest
import xarray as xr
import yaml
from small import SEARCH, finish

from fieldcraft.flows.cli import main
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.observations import observations
from fieldcraft.flows.wiring.physics.snapshots import StatedFields, snapshots_of
from fieldcraft.physics.problems.cantilever_profile import CantileverProfile
from fieldcraft.physics.problems.tidal import Tidal
from fieldcraft.physics.simulators.stated_equation import StatedEquation
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.open_ledger import open_ledger

BAR = {
    **bars.BAR,
    "simulator": {"kind": "stated_equation", "cells": 100},
    "algorithm": {"kind": "emulated", "maximizer": SEARCH},
    "budget": {"trials": 7},
}
PROBLEM = CantileverProfile()
DESIGNS = PROBLEM.space.decode(PROBLEM.space.sample(5, np.random.default_rng(3)))


def wired(home, **changes):
    return wire(parse({**BAR, **changes}, "bar.yaml"), settings_from({}, home=home))


def stored(campaign, fields):
    store = fields_at(campaign.settings.fields)
    return [store.write("bar", each).digest for each in fields]


def found_of(campaign, runs):
    return snapshots_of(campaign, stored(campaign, runs), encoded(campaign), outputs(runs)[:, None])


def simulated(cells, designs=DESIGNS):
    return [StatedEquation(cells).run(PROBLEM, design, np.random.default_rng(0)) for design in designs]


def outputs(fields, designs=DESIGNS):
    return np.array(
        [PROBLEM.evaluate(design, each)["compliance"] for design, each in zip(designs, fields, strict=True)]
    )


def encoded(campaign, designs=DESIGNS):
    return campaign.space.encode(designs)


@pytest.mark.parametrize("algorithm", ["emulated", "auto"])
def test_a_campaign_learns_from_its_stored_fields(algorithm, tmp_path):
    file = tmp_path / "bar.yaml"
    file.write_text(yaml.safe_dump({**BAR, "algorithm": {**BAR["algorithm"], "kind": algorithm}}))
    finish(file, tmp_path / "home")
    campaign, ledger = (
        wired(tmp_path / "home", algorithm={**BAR["algorithm"], "kind": algorithm}),
        open_ledger(settings_from({}, tmp_path / "home").ledger),
    )
    trials = ledger.trials("bar")
    said = trials[-1].origin.remarks
    if algorithm == "emulated":
        assert said["fields"].startswith("6 fields less the emulator's, in ")
        assert float(said["equation"].removeprefix("the fields leave ").split()[0]) < 0.01
    else:
        assert "emulated_field" in trials[-1].origin.scores
    data = observations(campaign, trials, None)
    assert data.snapshots.digests == tuple(trial.field.digest for trial in trials)
    read = data.snapshots.outputs(data.snapshots.values, data.X)
    np.testing.assert_allclose(read, data.y, rtol=1e-9)
    others = observations(wired(tmp_path / "home", algorithm={"kind": "gp_ei"}), trials, None)
    assert others.snapshots is None and others.digest != data.digest


def test_the_emulators_fields_are_read_on_the_cells_of_the_runs(tmp_path):
    campaign = wired(tmp_path)
    runs = simulated(100)
    found = found_of(campaign, runs)
    X = encoded(campaign)
    assert found.values.shape == found.predict(X).shape == (5, 2, 100)
    # The coarse grid has 10 cells and errors of some percent.
    apart = np.abs(found.predict(X) - found.values).max(axis=(0, 2)) / np.abs(found.values).max(axis=(0, 2))
    assert (apart < 0.1).all()
    np.testing.assert_allclose(found.outputs(found.values, X), outputs(runs), rtol=1e-9)


def test_fields_on_other_cells_are_carried_to_those_of_the_first(tmp_path):
    campaign = wired(tmp_path)
    runs = [simulated(cells, [design])[0] for cells, design in zip((100, 60, 250, 100, 200), DESIGNS, strict=True)]
    found = found_of(campaign, runs)
    assert found.values.shape == (5, 2, 100)
    np.testing.assert_allclose(found.outputs(found.values, encoded(campaign)), outputs(runs), rtol=2e-3)


def test_a_field_of_very_many_cells_is_kept_as_means_over_few(tmp_path):
    campaign = wired(tmp_path)
    runs = simulated(12_500)
    found = found_of(campaign, runs)
    assert found.values.shape == (5, 2, 10_000)
    np.testing.assert_allclose(found.outputs(found.values, encoded(campaign)), outputs(runs), rtol=1e-6)


def test_the_equation_is_judged_by_fields_as_they_were_stored_and_never_by_means_of_them(tmp_path):
    campaign = wired(tmp_path)
    whole = found_of(campaign, simulated(400))
    left = whole.residuals(whole.values, encoded(campaign), None)
    assert left.max() < 1e-6 and found_of(campaign, simulated(12_000)).residuals is None
    assert found_of(campaign, simulated(100, DESIGNS[:4]) + simulated(120, DESIGNS[4:])).residuals is None


def test_without_a_field_that_tells_the_outputs_of_every_trial_there_are_none(tmp_path):
    campaign = wired(tmp_path)
    runs = simulated(100)
    digests, X, read = stored(campaign, runs), encoded(campaign), outputs(runs)[:, None]
    assert snapshots_of(campaign, digests, X, read) is not None
    assert snapshots_of(campaign, [], X[:0], read[:0]) is None
    last = runs[2]
    broken = last["deflection"].copy()
    broken[7] = np.nan
    others = {
        "on crooked places": last.assign_coords(x=last["x"] * 0.9),
        "foreign": xr.Dataset({"compliance": ((), 1.0, {"units": "J"})}),
        "without the moment": last.drop_vars("moment"),
        "with a place that is not a number": last.assign(deflection=broken),
        "in mm": last.assign(deflection=1e3 * last["deflection"]),
        "of another run": runs[1],
    }
    for said, digest in {**dict(zip(others, stored(campaign, others.values()), strict=True)), "lost": "f" * 64}.items():
        assert snapshots_of(campaign, [*digests[:2], digest], X[:3], read[:3]) is None, said
    assert snapshots_of(campaign, [*digests[:2], None], X[:3], read[:3]) is None
    corrected = read + np.array([0, 0, 0.5, 0, 0])[:, None] * np.ptp(read)
    assert snapshots_of(campaign, digests, X, corrected) is None
    lacking = stored(campaign, [each.drop_vars("deflection") for each in runs])
    assert snapshots_of(campaign, lacking, X, read) is None


def test_agreement_is_measured_by_the_spread_wherever_zero_lies():
    """Temperatures near 300 K that vary by 1 K do not agree to 10% of 300 K."""

    class Warm(CantileverProfile):
        def functional(self, fields, axes, designs):
            return 300.0 + 0.05 * super().functional(fields, axes, designs)

    fields = np.stack([[each[name].values for name in ("deflection", "moment")] for each in simulated(100)])
    grid = StatedFields(Warm(), PROBLEM.parametric, PROBLEM.space, ("deflection", "moment"), (100,))
    X = PROBLEM.space.encode(DESIGNS)
    read = grid.read(fields, X)
    assert grid.agrees(fields, X, read) and np.ptp(read) < 30.0
    assert not grid.agrees(fields, X, read + np.std(read) * np.array([0, 0, 0.5, 0, 0])[:, None])


def test_a_field_that_was_lost_and_is_there_again_teaches_again(tmp_path):
    campaign = wired(tmp_path)
    digests, X, read = stored(campaign, runs := simulated(100)), encoded(campaign), outputs(simulated(100))[:, None]
    place = next(tmp_path.rglob(f"{digests[2]}*"))
    place.rename(tmp_path / "aside")
    assert snapshots_of(campaign, digests, X, read) is None
    (tmp_path / "aside").rename(place)
    assert len(snapshots_of(campaign, digests, X, read).values) == len(runs)


def test_results_with_added_noise_are_not_told_by_fields_that_have_none(tmp_path, capsys):
    file = tmp_path / "bar.yaml"
    file.write_text(yaml.safe_dump({**BAR, "noise": {"sd": 1.0}, "budget": {"trials": 6}}))
    assert main(["check", str(file), "--json", "--home", str(tmp_path)]) == 0
    assert "learns the difference to it." in json.loads(capsys.readouterr().out)["note"]
    finish(file, tmp_path / "home")
    trials = open_ledger(settings_from({}, tmp_path / "home").ledger).trials("bar")
    assert "not every trial left one" in trials[-1].origin.remarks["fields"]


def test_a_field_that_repeats_is_carried_across_its_ends(tmp_path):
    problem = Tidal()
    grid = StatedFields(problem, problem.parametric, problem.space, ("concentration",), (48, 6, 96))
    X = problem.space.encode([{"x": 20.0, "y": 250.0, "time": 1.0}])
    found = grid.predict(X).reshape(48, 6, 96)
    moved = problem.space.encode([{"x": 1020.0, "y": 250.0, "time": 1.0}])
    np.testing.assert_allclose(np.roll(found, 24, axis=0), grid.predict(moved).reshape(48, 6, 96), atol=1e-12)


def test_many_designs_are_solved_in_blocks(tmp_path, monkeypatch):
    grid = StatedFields(PROBLEM, PROBLEM.parametric, PROBLEM.space, ("deflection", "moment"), (20,))
    X = PROBLEM.space.encode(DESIGNS)
    whole = grid.predict(X)
    monkeypatch.setattr("fieldcraft.flows.wiring.physics.snapshots._VALUES", 25)
    np.testing.assert_allclose(grid.predict(X), whole, rtol=1e-9)


def test_check_says_that_fields_teach(tmp_path, capsys):
    for algorithm, said in {
        "emulated": "the surrogate emulated_field learns the difference to it, field by field.",
        "auto": "the surrogate auto may learn the difference to it, field by field; it may project",
    }.items():
        file = tmp_path / "bar.yaml"
        file.write_text(yaml.safe_dump({**BAR, "algorithm": {**BAR["algorithm"], "kind": algorithm}}))
        assert main(["check", str(file), "--json", "--home", str(tmp_path)]) == 0
        assert said in json.loads(capsys.readouterr().out)["note"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("A", "The discrete equations of Odd are a str: let its `discrete` return a DiscreteSystem"),
        ((1, 2), "The discrete equations of Odd are a tuple: let its `discrete` return a DiscreteSystem"),
        (None, "The discrete equations of Odd are not those of a field on 40 cells"),
    ],
)
def test_discrete_equations_that_are_none_are_refused(given, said):
    class Odd(CantileverProfile):
        def discrete(self, designs, cells):
            return given

    problem = Odd()
    names = tuple(each.name for each in problem.parametric.fields)
    fields = StatedFields(problem, problem.parametric, problem.space, names, (40,))
    with pytest.raises(ValueError, match=said):
        fields.discrete(problem.space.sample(2, np.random.default_rng(0)))
