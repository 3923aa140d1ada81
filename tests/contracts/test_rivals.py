"""The contract of models/rival.py, for every file in models/rivals: the packages themselves, on two small spaces."""

import logging
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from botorch.acquisition.analytic import LogExpectedImprovement
from botorch.acquisition.multi_objective import logei as hypervolume
from kinds import generators, is_frozen_dataclass, kinds, public_class

from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.capability import Capability, provided, required
from fieldcraft.models.observations import Aim, Array, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.rival import require
from fieldcraft.models.rivals import _botorch, botorch_composite
from fieldcraft.models.snapshots import Snapshots
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.space import (
    Categorical,
    Continuous,
    Integer,
    LinearConstraint,
    LinearEquality,
    QuadraticConstraint,
    SearchSpace,
)

PACKAGE = "fieldcraft.models.rivals"
SPACE = SearchSpace((Continuous("x", 0.0, 2.0, "m"), Continuous("y", -1.0, 1.0)))
MIXED = SearchSpace((Continuous("x", 0.0, 2.0, "m"), Integer("n", 1, 3), Categorical("metal", ("iron", "tin"))))
CUT = SearchSpace(SPACE.variables, (LinearConstraint({"x": 1.0, "y": 1.0}, 1.0),))
# Not closer than 0.4 to the best point of the results below: (x - 1.3)^2 + y^2 >= 0.16, and with n - 2 for y.
HOLED = SearchSpace(SPACE.variables, (QuadraticConstraint({("x", "x"): -1.0, ("y", "y"): -1.0}, {"x": 2.6}, 1.53),))
HOLED_MIXED = SearchSpace(
    MIXED.variables, (QuadraticConstraint({("x", "x"): -1.0, ("n", "n"): -1.0}, {"x": 2.6, "n": 4.0}, 5.53),)
)
BLEND = SearchSpace(
    tuple(Continuous(name, 0.0, 1.0) for name in "abcde"),
    (LinearEquality(dict.fromkeys("abcde", 1.0), 1.0), LinearConstraint({"a": 1.0, "b": -1.0}, 0.1)),
)
BEST_BLEND = 2 * np.array([0.15, 0.25, 0.2, 0.3, 0.1]) - 1
BLEND_MIXED = SearchSpace(
    (Integer("n", 0, 3), Continuous("x", 0.0, 3.0), Continuous("y", 0.0, 3.0), Categorical("metal", ("iron", "tin"))),
    (LinearEquality({"n": 1.0, "x": 1.0, "y": 1.0}, 4.0),),
)
WHOLE = SearchSpace((Integer("n", 1, 20),))


def data(space, maximize=False):
    """Six results that are best near the encoded point (0.3, 0, ...), and one from before the space was narrowed.

    The first is at a bound, as rounding may encode it.
    """
    X = np.concatenate([space.sample(6, np.random.default_rng(1)), space.repair(np.full((1, space.dimension), 2.0))])
    X[0, 0], X[-1, 0] = -1.0000000000000009, 1.5
    y = (X[:, 0] - 0.3) ** 2 + 0.2 * (X[:, 1:] ** 2).sum(axis=1)
    return Observations(X=X, y=-y if maximize else y, maximize=maximize, snapshots=fields(X, maximize))


def fields(X, maximize=False):
    """One field of each of these results: the coordinates themselves, from which their results are read."""

    def read(values, _):
        told = (values[:, 0, :1] - 0.3) ** 2 + 0.2 * (values[:, 0, 1:] ** 2).sum(axis=1, keepdims=True)
        return -told if maximize else told

    return Snapshots(X[:, None], ("ab" * 32,) * len(X), lambda X: X[:, None], read)


def batch(peer, pending, q):
    """The whole numbers that an algorithm with a rival proposes, near the best one, 6."""
    numbers = (1, 4, 8, 14)
    X = WHOLE.encode([{"n": n} for n in numbers])
    told = Snapshots(X[:, None], ("ab" * 32,) * 4, lambda X: X[:, None], lambda F, _: (9.5 * F[:, 0] + 4.5) ** 2)
    read = Observations(X=X, y=[(n - 6) ** 2 for n in numbers], maximize=False, snapshots=told)
    waiting = WHOLE.encode([{"n": n} for n in pending])
    made = Algorithm(Sobol(), 1, peer=peer).suggest(read, waiting, WHOLE, q, np.random.default_rng(0))
    return [design["n"] for design in WHOLE.decode(made)]


@dataclass(frozen=True)
class Stubborn:
    """A rival that asks for one whole number alone."""

    n: int

    def suggest(self, data, pending, space, q, rng):
        return space.encode([{"n": self.n}] * q)


@dataclass(frozen=True)
class Asked:
    """What a rival answered, and what it left behind."""

    kind: str
    pending: Array
    low: Array
    high: Array
    mixed: Array
    whole: Array
    silent: bool
    untouched: bool


@pytest.fixture(scope="module", params=kinds(PACKAGE))
def asked(request):
    peer = public_class(PACKAGE, request.param)()
    pending, none = SPACE.encode([{"x": 1.3, "y": 0.0}]), np.empty((0, MIXED.dimension))
    before, heard = generators(), list[logging.LogRecord]()
    listener = logging.Handler()
    listener.emit = heard.append
    logging.getLogger().addHandler(listener)
    with pytest.MonkeyPatch.context() as patch:  # what holds for any answer: other tests look for good ones
        patch.setattr(_botorch, "RESTARTS", 2)
        patch.setattr(_botorch, "RAW_SAMPLES", 32)
        patch.setattr(botorch_composite, "_STEPS", 10)
        patch.setattr(botorch_composite, "_DRAWS", 16)
        low = peer.suggest(data(SPACE), pending, SPACE, 2, np.random.default_rng(3))
        high = peer.suggest(data(SPACE, maximize=True), pending, SPACE, 2, np.random.default_rng(3))
        mixed = peer.suggest(data(MIXED), none, MIXED, 1, np.random.default_rng(3))
        whole = batch(peer, pending=(6, 5), q=4)
    logging.getLogger().removeHandler(listener)
    return Asked(request.param, pending, low, high, mixed, whole, not heard, generators() == before)


def test_a_rival_is_one_public_frozen_dataclass(asked):
    assert is_frozen_dataclass(public_class(PACKAGE, asked.kind))


def test_every_design_is_feasible_and_encoded_exactly(asked):
    for space, X in ((SPACE, asked.low), (MIXED, asked.mixed)):
        for design in space.decode(X):
            space.check(design)
        np.testing.assert_allclose(space.encode(space.decode(X)), X, atol=1e-12)
    assert (len(asked.low), len(asked.mixed)) == (2, 1)


def test_maximising_is_minimising_with_the_sign_turned_and_the_seed_determines_the_designs(asked):
    np.testing.assert_array_equal(asked.low, asked.high)


def test_designs_differ_from_each_other_and_from_what_is_pending(asked):
    designs = np.concatenate([asked.low, asked.pending])
    assert len(np.unique(designs.round(6), axis=0)) == 3


def test_no_whole_number_is_proposed_twice_or_while_it_is_pending(asked):
    assert len({*asked.whole, 6, 5}) == 6


def test_a_design_that_is_taken_gives_way_to_the_nearest_free_one():
    assert batch(Stubborn(1), pending=(), q=20) == [*range(1, 21)]
    assert batch(Stubborn(1), pending=(1, 2, 4), q=3) == [3, 5, 6]


def test_a_batch_larger_than_a_discrete_space_is_refused():
    with pytest.raises(ValueError, match="the space is discrete and 20 of its designs are taken; lower the batch size"):
        batch(Stubborn(6), pending=(5,), q=20)


def test_a_rival_with_a_single_word_beside_it_is_refused_for_that():
    with pytest.raises(ValueError, match="has a rival and surrogate beside it: a rival is all of it; leave one out"):
        Algorithm(Sobol(), 1, surrogate=ExactGP(), peer=Stubborn(1))


def test_the_global_generators_are_left_alone_and_nothing_is_logged(asked):
    assert asked.untouched
    assert asked.silent


def results(kind):
    """Number of results from which a rival should have learnt: NSGA-II draws its first generation, 50, at random."""
    return 200 if kind == "optuna_nsga2" else 12


def constrained(offset, n=12, maximize=False):
    """Results that are best at x = -1, where a constraint on the scale of hundreds is violated: offset - x."""
    X = SPACE.sample(n, np.random.default_rng(2))
    y = X[:, 0] + 0.1 * X[:, 1] ** 2
    c = np.stack([300 * (offset - X[:, 0]), np.full(n, -1e-3) * (2 + X[:, 1])], axis=1)
    return Observations(X, -y if maximize else y, maximize=maximize, constraints=c)


KEEPING = [kind for kind in kinds(PACKAGE) if Capability.CONSTRAINED in provided(public_class(PACKAGE, kind))]


def test_the_rivals_that_keep_unknown_constraints_are_those_whose_packages_do():
    assert KEEPING == ["ax", "botorch_log_ei", "botorch_qlognei", "optuna_gp", "optuna_nsga2", "optuna_tpe"]


SEVERAL = [kind for kind in kinds(PACKAGE) if Capability.SEVERAL in provided(public_class(PACKAGE, kind))]


@pytest.fixture
def uncompiled(monkeypatch):
    """BoTorch computes the gain in hypervolume without compiling a kernel for it, which takes half a minute."""
    monkeypatch.setattr(hypervolume, "_load_attempted", True)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("kind", SEVERAL)
def test_a_rival_of_several_objectives_goes_between_their_optima(kind):
    """f1 is least at x = -0.6 and maximised f2 greatest at x = 0.6: designs beyond these are dominated.

    NSGA-II changes every second coordinate at random: of 40 designs 16 or more are there, where chance puts 9.
    """
    q = 40 if kind == "optuna_nsga2" else 1
    X = SPACE.sample(results(kind), np.random.default_rng(2))
    first, second = (X[:, 0] + 0.6) ** 2 + X[:, 1] ** 2, -((X[:, 0] - 0.6) ** 2) - X[:, 1] ** 2
    aims = (Aim(maximize=False, reference=4.0), Aim(maximize=True))
    read = Observations(X, first, maximize=False, aims=aims, further=second[:, None])
    found = public_class(PACKAGE, kind)().suggest(read, np.empty((0, 2)), SPACE, q, np.random.default_rng(3))
    assert np.mean((abs(found[:, 0]) < 0.75) & (abs(found[:, 1]) < 0.3)) >= 0.4


@pytest.fixture
def brief(monkeypatch):
    """A short search by BoTorch, for what any search of it has to find."""
    monkeypatch.setattr(_botorch, "RESTARTS", 2)
    monkeypatch.setattr(_botorch, "RAW_SAMPLES", 32)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("kind", KEEPING)
def test_a_rival_prefers_what_is_feasible_and_the_seed_determines_it(kind):
    peer, pending = public_class(PACKAGE, kind)(), SPACE.encode([{"x": 1.3, "y": 0.0}])
    low = peer.suggest(constrained(0.2, results(kind)), pending, SPACE, 2, np.random.default_rng(3))
    again = peer.suggest(constrained(0.2, results(kind), maximize=True), pending, SPACE, 2, np.random.default_rng(3))
    np.testing.assert_array_equal(low, again)
    assert len(np.unique(np.concatenate([low, pending]).round(6), axis=0)) == 3
    assert low[0, 0] > -0.3  # only the constraint keeps it from x = -1


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("kind", KEEPING)
def test_while_nothing_is_feasible_a_rival_seeks_what_is(kind):
    none = constrained(1.0, results(kind))
    assert not (none.constraints <= 0).all(axis=1).any()
    X = public_class(PACKAGE, kind)().suggest(none, np.empty((0, 2)), SPACE, 1, np.random.default_rng(3))
    assert X[0, 0] > 0.6


@pytest.mark.parametrize(
    "kind", [kind for kind in kinds(PACKAGE) if Capability.BOX in required(public_class(PACKAGE, kind))]
)
def test_a_rival_that_cannot_keep_known_constraints_refuses_them(kind):
    with pytest.raises(ValueError, match=r"known constraints \(x \+ y <= 1\).*use another algorithm"):
        public_class(PACKAGE, kind)().suggest(data(SPACE), np.empty((0, 2)), CUT, 1, np.random.default_rng(0))


@pytest.mark.parametrize("kind", ["botorch_log_ei", "baybe"])
def test_a_rival_that_is_told_of_equalities_searches_their_plane(kind):
    from fieldcraft.models.rivals._botorch import Cube, fitted

    X = BLEND.sample(14, np.random.default_rng(3))
    read = Observations(X, np.square(X - BEST_BLEND).sum(axis=1), maximize=False)
    found = public_class(PACKAGE, kind)().suggest(read, np.empty((0, 5)), BLEND, 1, np.random.default_rng(0))
    BLEND.check(BLEND.decode(found)[0])
    # What lies off the plane promises more, and the blend nearest to that promises less than others.
    cube = Cube(BLEND)
    worth = LogExpectedImprovement(fitted(cube, read), best_f=-float(read.y.min()))
    with torch.no_grad():
        samples = worth(cube.of(BLEND.sample(4000, np.random.default_rng(1))).unsqueeze(1))
        assert float(worth(cube.of(found).unsqueeze(1))) > float(samples.max()) - 0.03


@pytest.mark.usefixtures("brief")
def test_botorch_makes_up_a_total_with_whole_numbers():
    X = BLEND_MIXED.sample(10, np.random.default_rng(3))
    read = Observations(X, np.square(X[:, :3]).sum(axis=1), maximize=False)
    peer = public_class(PACKAGE, "botorch_log_ei")()
    found = peer.suggest(read, np.empty((0, 5)), BLEND_MIXED, 1, np.random.default_rng(0))
    BLEND_MIXED.check(BLEND_MIXED.decode(found)[0])


def test_what_botorch_is_told_of_an_equality_is_zero_on_its_plane():
    from fieldcraft.models.rivals._botorch import Cube

    cube, U = Cube(BLEND_MIXED), Cube(BLEND_MIXED).of(BLEND_MIXED.sample(50, np.random.default_rng(5)))
    ((columns, weights, total),) = cube.equalities
    torch.testing.assert_close(
        U[:, columns] @ weights, torch.full((50,), total, dtype=torch.float64), atol=1e-12, rtol=0
    )
    assert cube.inequalities is None and Cube(SPACE).equalities is None


@pytest.mark.parametrize(
    ("space", "why"),
    [(HOLED, r"-x\^2 - y\^2 \+ 2.6 x <= 1.53 is quadratic"), (BLEND_MIXED, "n is a whole number")],
    ids=["curved", "whole"],
)
def test_baybe_refuses_what_it_cannot_be_told(space, why):
    with pytest.raises(
        ValueError, match=f"BayBE is told of linear ones between continuous variables alone: {why}; use"
    ):
        public_class(PACKAGE, "baybe")().refuse_space(space)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("space", [CUT, HOLED, HOLED_MIXED], ids=["linear", "hole", "mixed"])
def test_botorch_keeps_known_constraints(space):
    peer = public_class(PACKAGE, "botorch_log_ei")()
    assert Capability.BOX not in required(peer)
    read = data(SearchSpace(space.variables))
    (design,) = space.decode(peer.suggest(read, np.empty((0, space.dimension)), space, 1, np.random.default_rng(0)))
    space.check(design)


def test_what_botorch_is_told_of_a_quadratic_constraint_is_positive_where_it_is_met():
    from fieldcraft.models.rivals._botorch import Cube

    cube, X = Cube(HOLED), SearchSpace(SPACE.variables).sample(200, np.random.default_rng(5))
    ((room, _),) = cube.curved["nonlinear_inequality_constraints"]
    met = HOLED.quadratic.excess(X)[:, 0] <= 0
    assert 20 < met.sum() < 180
    np.testing.assert_array_equal(room(cube.of(X)).numpy() >= 0, met)
    assert cube.curved["ic_generator"] == cube._starts and Cube(SPACE).curved == {}


def test_baybe_refuses_to_write_out_what_would_fill_the_memory():
    wide = SearchSpace((Integer("n", 0, 999), Integer("m", 0, 999)))
    few = Observations(X=wide.sample(2, np.random.default_rng(0)), y=[1.0, 2.0], maximize=False)
    with pytest.raises(ValueError, match=r"1e\+06 combinations of discrete values.*more than 100000 are refused"):
        public_class(PACKAGE, "baybe")().suggest(few, np.empty((0, 2)), wide, 1, np.random.default_rng(0))


def test_a_missing_package_is_one_error_that_says_how_to_install_it():
    with pytest.raises(ValueError, match=r"Rival is not installed: .*\.venv/bin/pip install .*-e '\.\[rivals\]'"):
        require("Rival", "a_package_that_nobody_has")
