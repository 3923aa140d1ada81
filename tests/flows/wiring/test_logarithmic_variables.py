"""Variables with a logarithmic scale in campaigns: what is learnt, what is recorded, and who refuses them."""

import math
import textwrap

import numpy as np
import pytest
import yaml
from small import finish

from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.environment import environment_of
from fieldcraft.flows.wiring.observations import observations
from fieldcraft.storage.open_ledger import open_ledger

RATE = {"name": "rate", "low": 1e-7, "high": 1.0, "unit": "1/s", "log": True}
BASE = {
    "name": "rates",
    "seed": 3,
    "sense": "minimize",
    "problem": {
        "kind": "declared",
        "variables": [RATE, {"name": "x", "low": 0, "high": 2}],
        "results": [{"name": "loss"}],
    },
    "algorithm": {"kind": "gp_ei", "start": {"n": 3}},
    "dispatcher": {"kind": "lab"},
    "budget": {"trials": 5},
}
# The least height is at 10^0.3; its own cheap model has it at 10^0.4, and twice as steep.
DECADES = '''
"""A valley over decades."""

import math
from dataclasses import dataclass

import numpy as np

from fieldcraft import Axis, Continuous, Domain, LinearEquation, Output, Problem, SearchSpace


@dataclass(frozen=True)
class Decades(Problem):
    domain = Domain((Axis("rate", 1e-4, 100.0),))
    equation = LinearEquation(1.0, (0.0,), ((0.0,),), 1.0)

    @property
    def space(self):
        return SearchSpace((Continuous("rate", 1e-4, 100.0, "1/s", log=True),))

    @property
    def outputs(self):
        return (Output("height", "m"),)

    def emulate(self, designs):
        return 2 * (np.log10(designs["rate"]) - 0.4) ** 2

    def function(self, design):
        rate = design["rate"]
        off = math.log10(rate) - 0.3
        return {"height": off**2, "gradient.rate": 2 * off / (rate * math.log(10))}
'''


def wired(home, **changes):
    return wire(parse({**BASE, **changes}, "rates.yaml"), settings_from({}, home=home))


@pytest.fixture(scope="module")
def decades(tmp_path_factory):
    """A finished campaign over decades, and its trials."""
    folder = tmp_path_factory.mktemp("decades")
    (folder / "plugins" / "problems").mkdir(parents=True)
    (folder / "plugins" / "problems" / "decades.py").write_text(textwrap.dedent(DECADES))
    spec = {
        **BASE,
        "problem": {"kind": "decades"},
        "simulator": {"kind": "function"},
        "algorithm": {"kind": "emulated"},
        "dispatcher": {"kind": "inline"},
        "budget": {"trials": 6},
    }
    (folder / "c.yaml").write_text(yaml.safe_dump(spec))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDCRAFT_PLUGINS", str(folder / "plugins"))
        finish(folder / "c.yaml", folder / "home", folder / "plugins")
        settings = settings_from({"FIELDCRAFT_PLUGINS": str(folder / "plugins")}, folder / "home")
        yield spec, settings, open_ledger(settings.ledger).trials("rates")


def test_a_campaign_finds_an_optimum_among_decades(decades):
    _, _, trials = decades
    assert math.log10(trials[0].design["rate"]) == pytest.approx(0.4, abs=1e-3)
    assert min(abs(math.log10(trial.design["rate"]) - 0.3) for trial in trials) < 0.02


def test_gradients_reach_the_model_by_the_coordinate(decades):
    spec, settings, trials = decades
    asked = {**spec, "algorithm": {"kind": "gp_ei", "start": {"n": 3}}}
    data = observations(wire(parse(asked, "c.yaml"), settings), trials, None)
    # Six decades are two units of the coordinate: three decades a unit.
    expected = [3 * 2 * (math.log10(trial.design["rate"]) - 0.3) for trial in trials]
    np.testing.assert_allclose(data.gradients[:, 0], expected, rtol=1e-9, atol=1e-12)


def test_an_equation_over_a_logarithmic_variable_is_refused_with_the_reason(decades):
    spec, settings, _ = decades
    asked = {**spec, "algorithm": {**spec["algorithm"], "kind": "pinn_bo", "engine": "basis"}}
    with pytest.raises(InputError, match="They must be the same, continuous, on linear scales and in the same order"):
        wire(parse(asked, "c.yaml"), settings)


def test_the_scale_is_recorded_with_the_campaign(tmp_path):
    problem = wired(tmp_path).problem
    assert environment_of(problem, ())["log"] == ["rate"]
    plain = {**BASE["problem"], "variables": [{**RATE, "log": False}]}
    assert "log" not in environment_of(wired(tmp_path, problem=plain).problem, ())


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ({**RATE, "low": 0}, "rate has the lower bound 0.0 and a logarithmic scale: give a bound above 0"),
        ({**RATE, "low": 0, "whole": True}, "rate has the lower bound 0 and a logarithmic scale"),
        ({"name": "glue", "choices": ["A", "B"], "log": True}, "leave out low, high, unit, whole and log"),
    ],
)
def test_what_has_no_logarithm_is_refused(variable, message, tmp_path):
    with pytest.raises(InputError, match=message):
        wired(tmp_path, problem={**BASE["problem"], "variables": [variable]})


@pytest.mark.parametrize(("log", "advised"), [(True, False), (False, True)])
def test_check_advises_on_decades_over_a_linear_scale(log, advised, tmp_path, capsys):
    variables = [{**RATE, "log": log}, {"name": "x", "low": 0.01, "high": 2}]
    file = tmp_path / "rates.yaml"
    file.write_text(yaml.safe_dump({**BASE, "problem": {**BASE["problem"], "variables": variables}}))
    assert main(["check", str(file), "--home", str(tmp_path)]) == 0
    assert ("three decades or more on a linear scale: rate." in capsys.readouterr().out) is advised
