"""Readings of a field that a laboratory took at single places: recorded, refused, and learnt from by campaigns."""

import re

import numpy as np
import pytest
import yaml
from bench import Bench
from rod import ROD, written
from small import SEARCH

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.field_files import read_field
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.wiring.build import rewire
from fieldcraft.flows.wiring.observations import observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.emulated_field import EmulatedField
from fieldcraft.models.surrogates.emulated_gp import EmulatedGP
from fieldcraft.physics.parametric.finite_differences import solved
from fieldcraft.storage.records import TrialState

CAMPAIGN = {
    "name": "rod",
    "seed": 4,
    "sense": "minimize",
    "problem": {"kind": "rod"},
    "algorithm": {"kind": "emulated", "maximizer": SEARCH},
    "approval": "auto",
    "dispatcher": {"kind": "lab"},
    "budget": {"trials": 8},
}
# The rod as it is; 10 and 1 are stated.
TRUE = (2.0, 1.5)
NOISE = 0.003
PLACES = np.array([0.05, 0.2, 0.37, 0.55, 0.8, 0.98])


class Laboratory:
    """Answers orders with the real rod's value, and with a table of readings."""

    def __init__(self, folder, monkeypatch, **changes):
        written(folder, monkeypatch, ROD)
        (folder / "rod.yaml").write_text(yaml.safe_dump({**CAMPAIGN, **changes}))
        self.folder = folder
        self.bench = Bench(settings_from(home=folder / "home"), folder / "rod.yaml")
        self.rng = np.random.default_rng(7)

    def answer(self, trials, readings=True):
        """Order one trial after the other, and record each."""
        for _ in range(trials):
            self.bench.make_pass()
            trial, *_ = self.bench.ledger.trials("rod", states={TrialState.RUNNING})
            problem = self.bench.site.campaign.problem
            designs = {name: np.array([[value]]) for name, value in trial.design.items()}
            stated = problem.parametric.calibrated(TRUE)
            rise = solved(stated, designs, (400,))["rise"]
            centres = {"s": (np.arange(400) + 0.5) / 400}
            fault = float(problem.functional({"rise": rise}, centres, designs)[0, 0])
            words = ["record", trial.id, "--value", f"fault={fault!r}"]
            if readings:
                at = np.interp(PLACES, centres["s"], rise[0]) + NOISE * self.rng.normal(size=len(PLACES))
                lines = [f"{s},{value},{NOISE}\n" for s, value in zip(PLACES, at, strict=True)]
                table = self.folder / f"{trial.id}.csv"
                table.write_text("s [m],rise [K],rise sd [K]\n" + "".join(lines))
                words += ["--field", table]
            status, _, said = self.bench.run(*words)
            assert status == 0, said

    def data(self):
        """Observations of all trials."""
        campaign = rewire(self.bench.ledger.campaign("rod").spec, self.bench.settings)
        return observations(campaign, self.bench.ledger.trials("rod"), None)


def test_a_laboratory_s_readings_calibrate_the_emulator_and_show_says_so(tmp_path, monkeypatch):
    laboratory = Laboratory(tmp_path, monkeypatch)
    laboratory.answer(4)
    laboratory.answer(1, readings=False)
    laboratory.bench.make_pass()
    last = laboratory.bench.ledger.trials("rod")[-1]
    told = last.origin.remarks
    assert told["readings"] == "24 at single places, of 4 trials"
    words = r"loss (\S+) W/K \(stated 10, standard error (\S+)\), conductance (\S+) W m/K \(stated 1, .* error (\S+)\)"
    loss, loss_error, conductance, error = map(float, re.fullmatch(words, told["coefficients"]).groups())
    assert abs(loss - TRUE[0]) < 3 * loss_error < 0.5 and abs(conductance - TRUE[1]) < 3 * error < 0.2
    assert "not every trial left one" in told["fields"]
    status, out, _ = laboratory.bench.run("show", last.id)
    assert status == 0 and f"readings: {told['readings']}; coefficients: {told['coefficients']}" in out

    data = laboratory.data()
    before = EmulatedGP().fit(data.among(np.arange(5)), np.random.default_rng(0), None, no_report)
    posterior = EmulatedGP().fit(data, np.random.default_rng(0), None, no_report)
    # The outputs agree with those of the calibrated equation, so that little is left to learn.
    assert posterior.metrics["difference_sd"] < 0.3 * before.metrics["difference_sd"]
    assert posterior.metrics["coefficient.loss"] == pytest.approx(loss, rel=1e-3)
    for surrogate in (EmulatedGP(), EmulatedField()):
        fitted = surrogate.fit(data, np.random.default_rng(0), None, no_report)
        restored = surrogate.restore(laboratory.data(), fitted.state())
        assert restored.metrics == fitted.metrics and restored.remarks == fitted.remarks


def test_trials_without_readings_are_as_they_were(tmp_path, monkeypatch):
    laboratory = Laboratory(tmp_path, monkeypatch)
    laboratory.answer(2, readings=False)
    assert laboratory.data().readings is None


def test_an_algorithm_without_an_emulator_reads_none(tmp_path, monkeypatch):
    laboratory = Laboratory(tmp_path, monkeypatch, algorithm={"kind": "gp_ei"})
    laboratory.answer(1)
    assert laboratory.data().readings is None


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("s [m],rise [K],rise sd [K]\n0.5,1.0,0.1\n1.5,1.0,0.1\n", "reading 2 is at s = 1.5 m, and the domain goes"),
        (
            "s [m],rise [K]\n0.5,1.0\n",
            "need 'rise_sd' along 'place', in a table the column 'rise sd', and there is none",
        ),
        ("s [m],temp [K],temp sd [K]\n0.5,1,1\n", "they are of 'temp', 'temp_sd', and the equation is of rise"),
        ("s [m]\n0.5\n", "they are of nothing, and the equation is of rise"),
        ("s [mm],rise [K],rise sd [K]\n500,1.0,0.1\n", "'s' of the field is in 'mm', and the problem has it in 'm'"),
        ("s [m],rise [K],rise sd [K]\n0.5,warm,0.1\n", "line 2: rise is 'warm', no number. Give one"),
        ("s [m],rise [K],rise sd [K]\n", "has a header and no line. Give a line for each place."),
    ],
)
def test_a_table_of_readings_that_cannot_be_is_refused_and_nothing_is_recorded(table, said, tmp_path, monkeypatch):
    laboratory = Laboratory(tmp_path, monkeypatch)
    laboratory.bench.make_pass()
    (tmp_path / "points.csv").write_text(table)
    status, _, err = laboratory.bench.run(
        "record", "rod-0001", "--value", "fault=1", "--field", tmp_path / "points.csv"
    )
    assert status != 0 and said in err
    assert laboratory.bench.ledger.trial("rod-0001").outputs is None


def test_a_table_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="Give a netCDF file, a zarr folder or a table of readings"):
        read_field(tmp_path / "none.csv")
