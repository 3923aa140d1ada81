"""The trials over a field: no colour is clipped where it matters, and no mark hides the place that it marks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import PathCollection, QuadMesh

from fieldcraft.flows.analysis.best import best_trial
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import read_campaign
from fieldcraft.flows.views.charts import new_figure, over_field
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import CampaignRecord, Origin, Proposal, Trial, TrialState

PLATE = """
name: plate
seed: 5
sense: maximize
problem: {kind: heat, boundary: 2, margin: 0.1}
simulator: {kind: heat, cells: 32}
algorithm:
  start: {n: 2}
  surrogate: {kind: exact_gp}
  acquisition: {kind: log_ei}
  maximizer: {kind: multistart}
budget: {trials: 20}
"""
NOISE = 9.0  # what the best result lies above the truth


@dataclass(frozen=True)
class Plate:
    """Trials of every origin on the heated plate, the last one a noisy result at the hottest place."""

    campaign: CampaignRecord
    trials: list[Trial]
    field: xr.DataArray
    optimum: float

    def draw(self, **changes: Any) -> Any:
        """The axis with the field and the trials."""
        axis = new_figure(5.6, 4.6).subplots()
        over_field(axis, self.campaign, self.trials, **{"field": self.field, "optimum": self.optimum, **changes})
        axis.figure.canvas.draw()
        return axis


@pytest.fixture(scope="module")
def plate(tmp_path_factory: pytest.TempPathFactory) -> Plate:
    folder = tmp_path_factory.mktemp("picture")
    file = folder / "plate.yaml"
    file.write_text(PLATE)
    wired = wire(read_campaign(file), settings_from({}, home=folder / "home"))
    ledger = open_ledger(folder / "home" / "ledger.sqlite", create=True)
    assert created(ledger, wired, file) is None
    known = wired.problem.optimum("maximize")
    designs = [{"x": 1.0, "y": 1.0}, {"x": 5.0, "y": 4.0}, {"x": 2.0, "y": 5.0}, {**known.design}]
    kinds = ("initial", "initial", "model", "model")
    proposals = [
        Proposal(design=design, origin=Origin(kind=kind, algorithm="test", iteration=0, slot=slot))
        for slot, (design, kind) in enumerate(zip(designs, kinds, strict=True))
    ]
    for trial in ledger.propose("plate", 0, proposals, "test"):
        sent = ledger.approve(trial.id, trial.expect, trial.digest, "test", "", "auto", 1)
        for state in (TrialState.STAGED, TrialState.RUNNING):
            sent = ledger.move(sent.id, state, sent.expect, "test", "by hand")
        true = float(wired.problem.exact(np.array([[trial.design["x"], trial.design["y"]]]))[0])
        ledger.record(sent.id, sent.expect, {"temperature": true + NOISE}, None, "test", "person", {})
    along = np.linspace(0.0, 2 * np.pi, 66)[1:-1]
    values = wired.problem.exact(np.stack(np.meshgrid(along, along, indexing="ij"), -1).reshape(-1, 2)).reshape(64, 64)
    field = xr.DataArray(values, {"x": along, "y": along}, ("x", "y"), "temperature", {"units": "K"})
    return Plate(ledger.campaign("plate"), ledger.trials("plate"), field, known.value)


def mesh_of(axis: Any) -> QuadMesh:
    (mesh,) = [drawn for drawn in axis.collections if isinstance(drawn, QuadMesh)]
    return mesh


def test_the_colours_reach_to_the_optimum_and_to_every_reading(plate):
    readings = [trial.outputs["temperature"] for trial in plate.trials]
    assert np.quantile(plate.field.values, 0.99) < plate.optimum - 100, "98% of the field ends far below the optimum"
    norm = mesh_of(plate.draw()).norm
    assert norm.vmax == max(readings) == pytest.approx(plate.optimum + NOISE)
    assert norm.vmin <= min(readings)
    above = mesh_of(plate.draw(optimum=plate.optimum + 50.0)).norm
    assert above.vmax == plate.optimum + 50.0, "no trial is there yet"


def test_the_colours_of_a_field_that_is_not_the_objective_are_its_own(plate):
    other = plate.field.rename("stress")
    norm = mesh_of(plate.draw(field=other)).norm
    assert (norm.vmin, norm.vmax) == tuple(np.quantile(other.values, [0.01, 0.99]))


def test_marks_are_open_and_leave_the_colour_of_their_place(plate):
    axis = plate.draw()
    marks = [drawn for drawn in axis.collections if isinstance(drawn, PathCollection)]
    assert sum(len(drawn.get_offsets()) for drawn in marks) == len(plate.trials) + 1, "every trial, and the best again"
    assert all(len(drawn.get_facecolor()) == 0 for drawn in marks)
    mesh, pixels = mesh_of(axis), np.asarray(axis.figure.canvas.buffer_rgba())
    for trial in plate.trials:
        place = {name: trial.actual[name] for name in ("x", "y")}
        across, up = axis.transData.transform((place["x"], place["y"]))
        seen = pixels[len(pixels) - 1 - int(up), int(across), :3] / 255
        there = float(plate.field.sel(place, method="nearest"))
        assert seen == pytest.approx(mesh.cmap(mesh.norm(there))[:3], abs=0.05), trial.id
    best = best_trial(plate.campaign, plate.trials)
    assert tuple(marks[-1].get_offsets()[0]) == (best.actual["x"], best.actual["y"])


def test_the_legend_lies_outside_of_the_field(plate):
    axis = plate.draw()
    drawn = axis.figure.canvas.get_renderer()
    assert axis.get_legend().get_window_extent(drawn).y0 >= axis.get_window_extent(drawn).y1
