"""Networks that satisfy an equation for all designs: against solutions that can be written down."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from fieldcraft.models.emulation.parametric_network import ParametricNetwork, Pool
from fieldcraft.models.surrogate import no_report
from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.formulas import cosine
from fieldcraft.physics.operators import LinearEquation
from fieldcraft.physics.parametric.statement import Condition, Field, Numbers, ParametricEquation, no_flux
from fieldcraft.physics.space import Continuous, SearchSpace

SPACE = SearchSpace((Continuous("load", 1.0, 3.0),))
DECADE = SearchSpace((Continuous("load", 0.3, 3.0, log=True),))
DOMAIN = Domain((Axis("x", 0.0, 2.0),))
FIELD = (Field("u"),)
RNG = np.random.default_rng(2)
POOL = Pool(RNG.uniform(0.0, 2.0, (2048, 1)), RNG.uniform(-1.0, 1.0, (2048, 1)))


def _bar(*conditions: Condition) -> ParametricEquation:
    """-u'' = load over (0, 2)."""

    def equation(design: Numbers) -> LinearEquation:
        return LinearEquation(0.0, (0.0,), ((-1.0,),), lambda points: design["load"] + 0 * points[:, 0])

    return ParametricEquation(DOMAIN, FIELD, equation, conditions, (16,))


FIXED = _bar(Condition("u", "x", "low", 5.0), Condition("u", "x", "high", 5.0))


def _trained(
    stated: ParametricEquation, steps: int = 500, space: SearchSpace = SPACE
) -> tuple[ParametricNetwork, dict[str, Tensor]]:
    network = ParametricNetwork(stated, space, width=16, depth=2, steps=steps, batch=64, renew=50, rate=0.1)
    return network, network.train(network.begin(), POOL, no_report)


@pytest.mark.parametrize("space", [SPACE, DECADE])
def test_a_bar_between_known_values_bends_as_its_closed_form_for_every_load(space: SearchSpace) -> None:
    network, state = _trained(FIXED, space=space)
    X = np.array([[-0.9], [0.1], [0.8]])
    x, load = (np.arange(20) + 0.5) / 10, 2 + X if space is SPACE else 0.3 * 10 ** ((X + 1) / 2)
    assert network.fields(state, X, (20,))["u"] == pytest.approx(5 + load * x * (2 - x) / 2, abs=0.02)


def test_an_insulated_slab_is_as_warm_as_its_closed_form() -> None:
    def equation(design: Numbers) -> LinearEquation:
        source = lambda points: design["load"] * cosine(points[:, 0] * math.pi / 2)  # noqa: E731
        return LinearEquation(1.0, (0.0,), ((-1.0,),), source)

    network, state = _trained(ParametricEquation(DOMAIN, FIELD, equation, no_flux("u", DOMAIN), (16,)))
    X, x = np.array([[-0.9], [0.8]]), (np.arange(20) + 0.5) / 10
    exact = (2 + X) * np.cos(x * np.pi / 2) / (1 + np.pi**2 / 4)
    assert network.fields(state, X, (20,))["u"] == pytest.approx(exact, abs=0.03)


def test_a_side_that_no_factor_holds_is_learnt() -> None:
    # u(0) = 0 by a factor; u'(2) = 1 by a row of the loss: u = (1 + 2 load) x - load x^2 / 2.
    network, state = _trained(
        _bar(Condition("u", "x", "low"), Condition("u", "x", "high", 1.0, value=0.0, slope=1.0)), 1200
    )
    X, x = np.array([[-0.9], [0.8]]), (np.arange(20) + 0.5) / 10
    exact = x * (1 + 2 * (2 + X)) - (2 + X) * x**2 / 2
    assert network.fields(state, X, (20,))["u"] == pytest.approx(exact, abs=0.08)


@pytest.mark.parametrize(
    ("stated", "wanted"),
    [
        (FIXED, lambda jet: jet.value - 5.0),
        (_bar(*no_flux("u", DOMAIN)[:1], Condition("u", "x", "low")), lambda jet: jet.value[:1]),
        (_bar(*no_flux("u", DOMAIN)[:1], Condition("u", "x", "low")), lambda jet: jet.gradient[:1, 0]),
    ],
    ids=["values", "clamped value", "clamped slope"],
)
def test_hard_conditions_hold_before_any_step(stated: ParametricEquation, wanted: Callable[[object], Tensor]) -> None:
    network = ParametricNetwork(stated, SPACE, width=8, depth=2)
    ends = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
    (jet,) = network.jets(network.begin()["theta"], ends, torch.zeros(2, 1, dtype=torch.float64))
    assert wanted(jet).abs().max() < 1e-12


def test_derivatives_are_those_of_the_values() -> None:
    network = ParametricNetwork(FIXED, SPACE, width=8, depth=2)
    theta, X = network.begin()["theta"], torch.full((1, 1), 0.3, dtype=torch.float64)
    h = 1e-4
    low, here, high = (
        network.jets(theta, torch.tensor([[0.7 + step]], dtype=torch.float64), X)[0] for step in (-h, 0.0, h)
    )
    assert float((high.value - low.value) / (2 * h)) == pytest.approx(float(here.gradient), rel=1e-5)
    bend = (high.value - 2 * here.value + low.value) / h**2
    assert float(bend) == pytest.approx(float(here.hessian), rel=1e-4)


def test_an_interrupted_training_ends_with_the_same_bits() -> None:
    network = ParametricNetwork(FIXED, SPACE, width=8, depth=2, steps=60, batch=32, renew=20)
    kept: list[dict[str, Tensor]] = []

    def report(step: int, metrics: Mapping[str, float], checkpoint: Callable[[], dict[str, Tensor]]) -> None:
        kept.append(checkpoint())

    whole = network.train(network.begin(), POOL, report)
    again = network.train(kept[0], POOL, no_report)
    assert [int(each["step"]) for each in kept] == [20, 40, 60]
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_a_network_without_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="give positive ones"):
        ParametricNetwork(FIXED, SPACE, steps=0)


def test_the_residual_of_an_exact_solution_is_zero_and_of_twice_its_bend_is_the_load() -> None:
    X, where = torch.tensor([[-0.5], [0.2], [0.9]]).double(), torch.tensor([[0.1], [1.2], [1.9]]).double()
    for factor, left in ((1.0, 0.0), (2.0, 1.0)):

        def bend(design: Numbers, points: Tensor, factor: float = factor) -> Mapping[str, Tensor]:
            x = points[:, 0]
            return {"u": factor * design["load"] * x * (2 - x) / 2}

        network = ParametricNetwork(replace(FIXED, singular=bend), SPACE, width=4, depth=1)
        nothing = {"theta": torch.zeros_like(network.begin()["theta"])}
        rows = network.residuals(nothing["theta"], where, X)[0]
        load = 2 + X[:, 0]
        assert rows / rows.abs().max().clamp(min=1e-9) == pytest.approx(left * load / load.max(), abs=1e-6)
        x = (np.arange(20) + 0.5) / 10
        found = network.fields(nothing, X.numpy(), (20,))["u"]
        assert found == pytest.approx(5 + factor * (2 + X.numpy()) * x * (2 - x) / 2)


def test_a_network_learns_what_a_stated_part_leaves() -> None:
    def part(design: Numbers, points: Tensor) -> Mapping[str, Tensor]:
        x = points[:, 0]
        return {"u": design["load"] * x * (2 - x) / 4}

    network, state = _trained(replace(FIXED, singular=part))
    assert network.fields(state, np.array([[0.1]]), (20,))["u"] == pytest.approx(_exact(0.1), abs=0.02)


def _exact(x: float) -> np.ndarray:
    places = (np.arange(20) + 0.5) / 10
    return np.asarray(5 + (2 + x) * places * (2 - places) / 2)[None]


@pytest.mark.parametrize("state", [{"width": 0}, {"batch": 0}, {"rate": 0.0}])
def test_options_that_no_network_has_are_refused(state: Mapping[str, float]) -> None:
    with pytest.raises(ValueError, match="give positive ones"):
        ParametricNetwork(FIXED, SPACE, **state)
