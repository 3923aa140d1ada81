"""Campaigns whose emulator is a network: trained once before the first design, resumed to the same bits, and told."""

import bars
import numpy as np
import pytest
import torch
from small import SEARCH

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.recovery.reproduce import remade
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.steps import train
from fieldcraft.flows.steps.leases import held
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.context import EMULATING, site_of
from fieldcraft.flows.wiring.create import created
from fieldcraft.flows.wiring.observations import observations
from fieldcraft.flows.wiring.physics.emulators import emulators_of, told
from fieldcraft.flows.wiring.physics.networks import NetworkFields, network_at, network_of
from fieldcraft.models.emulation.parametric_network import ParametricNetwork
from fieldcraft.physics.parametric.finite_differences import solved
from fieldcraft.physics.parametric.transfer import carried
from fieldcraft.physics.problems.chips import Chips
from fieldcraft.storage.open_ledger import open_ledger

PINN = {
    **bars.BAR,
    "algorithm": {"kind": "emulated", "start": {"n": 2}, "maximizer": SEARCH},
    "emulator": {"kind": "pinn", "points": 512, "batch": 64, "steps": 250, "width": 8, "depth": 2},
}


class Killed(BaseException):
    """The process ends."""


def run(folder):
    """Passes to the end of the campaign in a home; whatever ends them gives the pass lease back."""
    campaign = wired(folder)
    ledger = open_ledger(campaign.settings.ledger, create=True)
    assert created(ledger, campaign, folder / "bar.yaml") is None
    with held(ledger, "bar") as lease:
        while not make_pass(Ref(str(folder), "bar", lease.model_dump())).decision.finished:
            pass


def ended(folder):
    """The site of the campaign, run to its end in a home."""
    run(folder)
    return site_of(str(folder), "bar", None)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return ended(tmp_path_factory.mktemp("whole"))


def test_the_network_is_trained_once_and_every_trial_names_it(site):
    made = [product for product in site.ledger.products("bar") if product.step == "emulate"]
    assert [product.iteration for product in made] == [0]
    digest = made[0].reference.digest
    assert [trial.origin.remarks["network"].split()[1].strip(",") for trial in site.ledger.trials("bar")] == [
        digest
    ] * 4
    points = site.ledger.product("bar", 0, "collocate")
    assert made[0].payload["collocation"] == points.reference.digest and points.payload["points"] == 512
    assert [point["step"] for point in made[0].payload["curve"]] == [100, 200, 250]


def test_a_model_tells_the_loss_and_the_accuracy_of_the_network(site):
    network, trials = network_at(site.campaign, site.ledger), site.ledger.trials("bar")[:3]
    designs = {name: np.array([[trial.design[name]] for trial in trials]) for name in site.campaign.space.names}
    problem = site.campaign.problem
    error = problem.on_grid(designs, problem.parametric.cells, network)[:, 0]
    error = error - [trial.outputs["compliance"] for trial in trials]
    metrics = site.ledger.latest("bar", "train").payload["metrics"]
    assert metrics["emulator_bias"] == pytest.approx(error.mean())
    assert metrics["emulator_error"] == pytest.approx(error.std())
    assert metrics["emulator_loss"] == site.ledger.product("bar", 0, "emulate").payload["loss"] > 0
    assert f"{metrics['emulator_error']:.3g}" in site.ledger.trials("bar")[-1].origin.remarks["network"]


def test_surrogates_learn_the_difference_to_the_network_and_not_to_the_coarse_solution(site):
    network, trials = network_at(site.campaign, site.ledger), site.ledger.trials("bar")
    data = observations(site.campaign, trials, None, network=network)
    X, stated = data.X, site.campaign.problem.parametric
    plain = emulators_of(site.campaign.problem, site.campaign.space)[0].predict(X)
    assert np.abs(data.emulators[0].predict(X) / plain - 1).min() > 1e-3
    assert data.emulators[0].jitter == 0
    designs = {name: np.array([[trial.design[name]] for trial in trials]) for name in site.campaign.space.names}
    coarse = solved(stated, designs, stated.cells)["deflection"]
    own = network(stated, designs, stated.cells)["deflection"]
    assert own.shape == coarse.shape and not np.allclose(own, coarse)
    assert data.snapshots.predict(X)[:, 0] == pytest.approx(carried(own, (50,), (False,)))
    assert data.snapshots.calibration is None
    with pytest.raises(ValueError, match="has not been trained: run a pass first"):
        observations(site.campaign, trials, None)


def test_points_and_weights_are_reproduced_bit_for_bit(site):
    for product in site.ledger.products("bar"):
        if product.reference is not None:
            assert remade(site, product).equals(site.fields.read(product.reference)), product.step


def test_a_training_that_is_killed_goes_on_to_the_same_weights_and_designs(site, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(train, "SAVE_SHARE", 1e9)
    stepped = ParametricNetwork._stepped
    begun = []

    def mortal(self, state, step, *rest):
        begun.append(step)
        if step == 130 and begun.count(130) == 1:
            raise Killed
        return stepped(self, state, step, *rest)

    monkeypatch.setattr(ParametricNetwork, "_stepped", mortal)
    with pytest.raises(Killed):
        run(tmp_path)
    assert any((tmp_path / "work" / "bar" / EMULATING).iterdir())
    again = ended(tmp_path)
    assert begun == [*range(131), *range(100, 250)]
    whole, resumed = (at.ledger.product("bar", 0, "emulate") for at in (site, again))
    assert resumed.reference == whole.reference and resumed.payload["curve"] == whole.payload["curve"]
    assert [t.design for t in again.ledger.trials("bar")] == [t.design for t in site.ledger.trials("bar")]
    assert not (tmp_path / "work" / "bar" / EMULATING).exists()


def wired(home, **changes):
    return wire(parse({**PINN, **changes}), settings_from(home=home))


def test_check_says_by_what_it_is_emulated(tmp_path):
    said = told(wired(tmp_path))
    assert "the equation of deflection, moment, by a network trained on 512 points for 250 steps" in said
    assert "the first design is the best by it" in said and "calibrate" not in said
    chips = told(wired(tmp_path, problem={"kind": "chips"}, simulator={"kind": "chips"}))
    assert "no fields calibrate exchange and conductance, for a network knows the stated values alone." in chips


def test_a_campaign_without_a_network_has_the_digest_that_it_had(tmp_path):
    plain = {key: value for key, value in PINN.items() if key != "emulator"}
    assert "emulator" not in wire(parse(plain), settings_from(home=tmp_path)).data
    assert wired(tmp_path).data["emulator"] == {**PINN["emulator"], "rate": 0.03}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"emulator": {"kind": "mesh"}}, "emulator.kind"),
        ({"emulator": {"kind": "pinn", "steps": 0}}, "emulator.steps"),
        ({"emulator": {"kind": "pinn", "layers": 3}}, "layers"),
        ({"emulator": {"kind": "pinn", "points": 100}}, "give at least as many points"),
        ({"algorithm": {"kind": "gp_ei"}}, "uses no emulator. Leave emulator out, or use the algorithm emulated"),
        ({"problem": {"kind": "branin"}, "simulator": {"kind": "function"}}, "states none. Leave emulator out"),
    ],
    ids=["kind", "steps", "key", "points", "unused", "no equation"],
)
def test_an_emulator_that_cannot_be_is_refused(tmp_path, changes, reason):
    with pytest.raises(InputError, match=reason):
        wired(tmp_path, **changes)


def test_the_stated_part_near_the_chips_crosses_no_rim_and_leaves_wide_sources(tmp_path):
    campaign = wired(tmp_path, problem={"kind": "chips"}, simulator={"kind": "chips"})
    network, rng = network_of(campaign), np.random.default_rng(0)
    places, X = torch.tensor(rng.uniform(0, (120, 80), (4000, 2))), torch.tensor(rng.uniform(-1, 1, (4000, 4)))
    for axis, side in enumerate((120.0, 80.0)):
        for end in (0.0, side):
            at = places.clone()
            at[:, axis] = end
            (jet,) = network._known(at, X)
            assert jet.gradient[:, axis].abs().max() < 1e-9
    (jet,) = network._known(places, X)
    equation = Chips().parametric.of(network._physical(X))
    source = equation.source(places) - 25 * equation.zeroth
    left = source - equation.operator(places, jet)
    assert left.min() > -50 and left.max() < source.max() / 4
    whole = NetworkFields(network, network.begin(), "")(
        network.stated, campaign.problem.optimum("minimize").design, (24, 16)
    )
    assert whole["temperature"].shape == (1, 24, 16)
