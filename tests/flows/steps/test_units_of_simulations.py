"""Simulations in another unit than the problem's are refused, and cost nothing more than their own trial."""

import json

import pytest
import yaml

from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.steps.leases import held
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import TrialState

PROBLEM = '''
"""A wall that is warm within."""

from dataclasses import dataclass

from fieldcraft import Axis, Continuous, Domain, Field, Fields, Output, Problem, SearchSpace


@dataclass(frozen=True)
class Wall(Problem):
    @property
    def space(self):
        return SearchSpace((Continuous("warm", 0.0, 1.0),))

    @property
    def outputs(self):
        return (Output("hottest", "degC"),)

    @property
    def fields(self):
        return Fields(Domain((Axis("s", 0.0, 1.0, "m"),)), (Field("temperature", "degC"),))

    def functional(self, fields, axes, designs):
        return fields["temperature"].max(axis=1, keepdims=True)
'''
SIMULATOR = '''
"""Its temperature on eight cells, or its hottest place alone."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from fieldcraft import Simulator


@dataclass(frozen=True)
class Wall(Simulator):
    unit: str = "degC"
    axis: str = "m"
    whole: bool = True
    idempotent = True

    def run(self, problem, design, rng):
        if not self.whole:
            return xr.Dataset({"hottest": ((), design["warm"], {"units": self.unit})})
        s = (np.arange(8) + 0.5) / 8
        values = design["warm"] * np.sin(np.pi * s)
        return xr.Dataset(
            {"temperature": ("s", values, {"units": self.unit})}, coords={"s": ("s", s, {"units": self.axis})}
        )
'''
CAMPAIGN = {
    "name": "wall",
    "seed": 1,
    "sense": "maximize",
    "problem": {"kind": "wall"},
    "algorithm": {"kind": "sobol"},
    "dispatcher": {"kind": "inline"},
    "budget": {"trials": 3},
}


@pytest.fixture
def wall(tmp_path, monkeypatch):
    """Run the campaign with these options of its simulator; the ledger is that of its home."""
    for room, text in (("problems", PROBLEM), ("simulators", SIMULATOR)):
        (tmp_path / "plugins" / room).mkdir(parents=True)
        (tmp_path / "plugins" / room / "wall.py").write_text(text)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    settings = settings_from({"FIELDCRAFT_PLUGINS": str(tmp_path / "plugins")}, tmp_path / "home")

    def run(**options):
        spec = {**CAMPAIGN, "simulator": {"kind": "wall", **options}}
        (tmp_path / "wall.yaml").write_text(yaml.safe_dump(spec))
        ledger = open_ledger(settings.ledger, create=True)
        created(ledger, wire(parse(spec), settings), tmp_path / "wall.yaml")
        with held(ledger, "wall") as lease:
            while not make_pass(Ref(str(settings.home), "wall", lease.model_dump())).decision.finished:
                pass

    return run


def trials(tmp_path):
    return open_ledger(settings_from({}, tmp_path / "home").ledger).trials("wall")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"unit": "K"}, "'temperature' of the field is in 'K', and the problem has it in 'degC'"),
        ({"axis": "mm"}, "'s' of the field is in 'mm', and the problem has it in 'm'"),
        ({"unit": "K", "whole": False}, "'hottest' of the field is in 'K', and the problem has it in 'degC'"),
    ],
)
def test_another_unit_is_no_result(wall, tmp_path, options, said):
    with pytest.raises(FieldcraftError) as caught:
        wall(**options)
    told = str(caught.value)
    assert told.startswith(f"wall-0001: {said}. Convert it") and "'fieldcraft cancel wall-0001 --reason ...'" in told
    assert all(trial.outputs is None for trial in trials(tmp_path))


def test_a_mended_simulator_goes_on_once_the_trial_is_given_up(wall, tmp_path, capsys):
    with pytest.raises(FieldcraftError):
        wall(unit="K")
    simulator = tmp_path / "plugins" / "simulators" / "wall.py"
    simulator.write_text(SIMULATOR.replace('{"units": self.unit})}, coords', '{"units": "degC"})}, coords'))
    for trial in trials(tmp_path):
        if trial.state not in (TrialState.ABANDONED, TrialState.COMPLETED):
            words = ["cancel", trial.id, "--reason", "in kelvin", "--home", str(tmp_path / "home")]
            assert main(words) == 0
    wall(unit="K")
    assert main(["status", "wall", "--json", "--home", str(tmp_path / "home")]) == 0
    (status,) = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert status["best"] is not None
