"""Uncertain coefficients in campaigns: who fits them, on which grid, what is said of them, and what is refused."""

import json
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
import yaml
from rod import ROD, written
from small import SEARCH, finish

from fieldcraft.flows.cli import main
from fieldcraft.flows.products import Trained
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.views.charts import new_figure
from fieldcraft.flows.views.plot import DOUBTFUL, of_equation
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.observations import observations
from fieldcraft.flows.wiring.physics.emulators import emulators_of
from fieldcraft.flows.wiring.physics.snapshots import snapshots_of
from fieldcraft.models.emulation.calibration import calibrated
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.emulated_field import EmulatedField
from fieldcraft.physics.problems.chips import Chips
from fieldcraft.physics.simulators.chips import HeatedPlateFindiff
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Product

CAMPAIGN = {
    "name": "rod",
    "seed": 4,
    "sense": "minimize",
    "problem": {"kind": "rod"},
    "simulator": {"kind": "reality"},
    "algorithm": {"kind": "emulated", "maximizer": SEARCH},
    "dispatcher": {"kind": "inline"},
    "budget": {"trials": 7},
}


@dataclass(frozen=True)
class Doubted(Chips):
    """Chips with too low an exchange and too low a conductance."""

    exchange = 35.0
    conductance = 0.32


def found_of(campaign, runs, X):
    """Snapshots of runs of the chips at encoded designs."""
    store, read = fields_at(campaign.settings.fields), [list(Chips().evaluate({}, each).values()) for each in runs]
    return snapshots_of(campaign, [store.write("rod", each).digest for each in runs], X, np.array(read))


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    return written(tmp_path, monkeypatch, ROD)


def file_of(tmp_path, **changes):
    file = tmp_path / "rod.yaml"
    file.write_text(yaml.safe_dump({**CAMPAIGN, **changes}))
    return file


def run(tmp_path, plugins, **changes):
    """Trials of a campaign, and the campaign."""
    finish(file_of(tmp_path, **changes), tmp_path / "home", plugins)
    settings = settings_from({"FIELDCRAFT_PLUGINS": str(plugins)}, tmp_path / "home")
    campaign = wire(parse({**CAMPAIGN, **changes}, "rod.yaml"), settings)
    return campaign, open_ledger(settings.ledger).trials("rod")


def test_a_campaign_fits_the_coefficients_to_its_fields_and_says_and_draws_them(tmp_path, plugins, capsys):
    campaign, trials = run(tmp_path, plugins)
    said = trials[-1].origin.remarks["coefficients"]
    words = (
        r"loss (\S+) W/K \(stated 10, standard error \S+\), conductance (\S+) W m/K \(stated 1, standard error \S+\)"
    )
    assert [float(each) for each in re.fullmatch(words, said).groups()] == pytest.approx([2.0, 1.5], rel=0.01)
    assert "coefficients" not in trials[0].origin.remarks
    assert main(["show", trials[-1].id, "--home", str(tmp_path / "home")]) == 0
    assert f" modes; coefficients: {said}" in capsys.readouterr().out
    evidence = r"the fields leave (\S+) of its largest term by the stated coefficients, and (\S+) by the fitted ones"
    stated, fitted = map(float, re.fullmatch(evidence, trials[-1].origin.remarks["equation"]).groups())
    assert stated > 0.5 and fitted < 0.01

    coefficients, residual = of_equation(campaign, open_ledger(campaign.settings.ledger).products("rod"))
    axes = new_figure(8.0, 4.0).subplots(1, 2)
    coefficients(axes[0])
    residual(axes[1])
    loss, conductance, _ = axes[0].lines
    assert list(loss.get_xdata()) == list(range(4, len(trials)))
    assert [loss.get_ydata()[-1], conductance.get_ydata()[-1]] == pytest.approx([2.0 / 10, 1.5 / 1], rel=0.01)
    assert axes[1].lines[0].get_ydata()[-1] < 0.01 < DOUBTFUL

    data = observations(campaign, trials, None)
    posterior = EmulatedField().fit(data, np.random.default_rng(0), None, no_report)
    restored = EmulatedField().restore(observations(campaign, trials, None), posterior.state())
    assert restored.metrics == posterior.metrics
    assert posterior.metrics["coefficient.loss"] == pytest.approx(2.0, rel=0.01)


def test_a_coefficient_that_is_stated_as_zero_or_below_is_drawn_too(tmp_path, monkeypatch):
    zero = ROD.replace('0.5, 50.0, "W/K", value=10.0', '-5.0, 50.0, "W/K", value=0.0')
    below = zero.replace('0.1, 10.0, "W m/K", value=1.0', '-8.0, -1.0, "W m/K", value=-2.0')
    plugins = written(tmp_path, monkeypatch, below)
    campaign = wire(parse(CAMPAIGN, "rod.yaml"), settings_from({"FIELDCRAFT_PLUGINS": str(plugins)}, tmp_path / "home"))
    metrics = {"coefficient.loss": 2.0, "coefficient.conductance": -3.0}
    model = Trained(surrogate=None, metrics=metrics, environment={}, seconds=1.0, trials=("rod-0001",), results=(1,))
    product = Product(campaign="rod", iteration=4, step="train", payload=model.payload(), reference=None, created=0.0)
    (panel,) = of_equation(campaign, [product])
    axes = new_figure(4.0, 4.0).subplots()
    panel(axes)
    drawn = {line.get_label(): float(line.get_ydata()[0]) for line in axes.lines}
    assert drawn == {"loss by 50 W/K": 2.0 / 50.0, "conductance": -3.0 / -2.0, "as stated": 1.0}


def test_auto_fits_them_for_its_candidate(tmp_path, plugins):
    part = {"kind": "auto", "surrogate": {"candidates": ["exact_gp", "emulated_field"]}}
    _, trials = run(tmp_path, plugins, algorithm=part)
    assert "emulated_field" in trials[-1].origin.scores
    assert trials[-1].origin.remarks["coefficients"].startswith(("loss 1.99", "loss 2 "))


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        (
            "emulated",
            "the surrogate emulated_field learns the difference to it, field by field, and fits loss (10, from 0.5 to "
            "50 W/K) and conductance (1, from 0.1 to 10 W m/K) to the fields.",
        ),
        ("auto", "the surrogate auto may learn the difference to it, field by field, and may fit loss (10, from 0.5 t"),
    ],
)
def test_check_says_which_coefficients_are_fitted_and_by_whom(algorithm, said, tmp_path, plugins, capsys):
    file = file_of(tmp_path, algorithm={"kind": algorithm})
    assert main(["check", str(file), "--json", "--home", str(tmp_path)]) == 0
    assert said in json.loads(capsys.readouterr().out)["note"]


@pytest.mark.parametrize("surrogate", ["emulated_gp", "exact_gp"])
def test_check_does_not_say_so_of_who_learns_from_outputs(surrogate, tmp_path, plugins, capsys):
    words = {"surrogate": {"kind": surrogate}, "acquisition": {"kind": "log_ei"}, "maximizer": {"kind": "multistart"}}
    words["start"] = {"n": 3}
    assert main(["check", str(file_of(tmp_path, algorithm=words)), "--json", "--home", str(tmp_path)]) == 0
    note = json.loads(capsys.readouterr().out)["note"]
    assert "has an emulator" in note and "loss" not in note


def test_a_coefficient_with_the_name_of_a_variable_is_refused_by_check(tmp_path, monkeypatch, capsys):
    written(tmp_path, monkeypatch, ROD.replace('UncertainCoefficient("loss"', 'UncertainCoefficient("power"'))
    assert main(["check", str(file_of(tmp_path)), "--json", "--home", str(tmp_path)]) == 2
    told = json.loads(capsys.readouterr().out.splitlines()[-1])["error"]
    assert "problem 'rod': 'power' is the name of a coefficient of the equation and of a variable of the design" in told


@pytest.mark.parametrize("cells", [96, 12], ids=["finer than the emulator", "coarser"])
def test_fields_are_compared_on_the_fewer_cells(cells, tmp_path):
    campaign = wire(
        parse({**CAMPAIGN, "problem": {"kind": "chips"}, "simulator": {"kind": "chips"}}, "rod.yaml"),
        settings_from({}, home=tmp_path),
    )
    designs = campaign.space.decode(campaign.space.sample(2, np.random.default_rng(1)))
    runs = [HeatedPlateFindiff(cells).run(Chips(), design, np.random.default_rng(0)) for design in designs]
    found = found_of(campaign, runs, campaign.space.encode(designs))
    known, X = found.calibration, campaign.space.encode(designs)
    few = min(cells, 24)
    assert known.values.shape == (2, 1, few * few * 2 // 3) and found.values.shape == (2, 1, cells * cells * 2 // 3)
    blocks = runs[0]["temperature"].values.reshape(few, cells // few, few * 2 // 3, cells // few)
    np.testing.assert_allclose(known.values[0, 0], blocks.mean(axis=(1, 3)).ravel(), rtol=1e-12)
    stated = np.array([50.0, 0.4])
    np.testing.assert_array_equal(known.predict(stated)(X), found.predict(X))
    assert known.solve(stated)(X).shape == known.values.shape
    assert np.abs(known.solve(np.array([25.0, 0.4]))(X) - 25).mean() == pytest.approx(
        2 * np.abs(known.solve(stated)(X) - 25).mean(), rel=0.01
    )


@pytest.mark.parametrize(("n", "noise"), [(1, 0.0), (1, 0.5), (4, 0.5), (12, 0.0)])
def test_one_field_of_the_chips_tells_exchange_and_conductance(n, noise, tmp_path):
    """The emulator's error on 24 x 16 cells is taken for 0.5% more conductance at most."""
    wired = wire(
        parse({**CAMPAIGN, "problem": {"kind": "chips"}, "simulator": {"kind": "chips"}}, "rod.yaml"),
        settings_from({}, home=tmp_path),
    )
    campaign = replace(wired, problem=Doubted())
    rng = np.random.default_rng(0)
    X = campaign.space.sample(n, rng)
    runs = [HeatedPlateFindiff(96).run(Chips(), each, rng) for each in campaign.space.decode(X)]
    for each in runs:
        each["temperature"] = each["temperature"] + noise * rng.standard_normal(each["temperature"].shape)
    found = calibrated(found_of(campaign, runs, X).calibration, X)
    assert [each.value for each in found.coefficients] == [35.0, 0.32]
    np.testing.assert_allclose(found.values, [50.0, 0.4], rtol=0.01)
    assert found.values[0] == pytest.approx(50.0, rel=1e-3)


def test_the_emulator_of_the_first_designs_keeps_the_stated_values(tmp_path):
    problem = Chips()
    (emulator,) = emulators_of(problem, problem.space)
    X = problem.space.sample(3, np.random.default_rng(0))
    designs = {name: problem.space.decode(X)[0][name] * np.ones((1, 1)) for name in problem.space.names}
    np.testing.assert_array_equal(emulator.predict(X[:1]), problem.emulate(designs)[:, 0])
