"""What models see where several encoded points are one design: exact invariances, gradients, and no design twice."""

import itertools
import math

import numpy as np
import pytest
import torch
from kinds import kinds, public_class

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.acquisitions.thompson import Thompson
from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.capability import Capability, required
from fieldcraft.models.constraints import Constraints
from fieldcraft.models.coordinates.model_coordinates import ModelCoordinates
from fieldcraft.models.coordinates.posterior import of_model
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Aim, EarlierResults, LevelResults, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.proposers.uncertainty import Uncertainty
from fieldcraft.models.rules.bound import Bound
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.grouped_gp import GroupedGP
from fieldcraft.physics.space import (
    Categorical,
    Continuous,
    Exchangeable,
    Image,
    Integer,
    OnlyIf,
    SearchSpace,
)

SPACE = SearchSpace(
    (
        Continuous("x1", 0, 10),
        Integer("n1", 0, 3),
        Continuous("phi", 0, 360, periodic=True),
        Continuous("x2", 0, 10),
        Integer("n2", 0, 3),
        Categorical("glue", ("A", "B")),
        Continuous("heat", 20, 90),
    ),
    exchangeable=(Exchangeable((("x1", "n1"), ("x2", "n2"))),),
    only_if=(OnlyIf("heat", "glue", ("B",)),),
)
SEEN = ModelCoordinates(SPACE)
TRIALS = SPACE.sample(9, np.random.default_rng(1))
DESIGNS = {"x1": 7, "n1": 1, "phi": 360, "x2": 2, "n2": 3, "glue": "A", "heat": 70}
SAME = [
    DESIGNS | {"phi": 0},
    DESIGNS | {"heat": 33},
    DESIGNS | {"x1": 2, "n1": 3, "x2": 7, "n2": 1},
]
SMALL = {
    "deep_ensemble": {"networks": 2, "width": 8, "refinements": 5},
    "neural_greedy": {"networks": 2, "width": 8, "steps": 5, "refinements": 5},
    "dngo": {"width": 8, "depth": 1, "refinements": 5},
    "random_forest": {"leaf": 1},
    "tangent_network": {"width": 12, "refinements": 3},
    "sampled_network": {"networks": 2, "width": 8, "refinements": 3},
    "sampled_linear": {"width": 12, "hyperparameters": "fixed"},
}
NEEDY = {Capability.EQUATION, Capability.EMULATOR, Capability.FIELDS}
SURROGATES = [
    kind
    for kind in kinds("fieldcraft.models.surrogates")
    if kind != "auto" and not NEEDY & required(public_class("fieldcraft.models.surrogates", kind))
]


def reading(design):
    """Periodic, symmetric, and without effect of heat where there is none."""
    heat = (design["heat"] - 40) ** 2 / 1000 if design["glue"] == "B" else 0.7
    pair = (design["x1"] - design["x2"]) ** 2 / 30 + abs(
        design["n1"] * design["x1"] + design["n2"] * design["x2"] - 9
    ) / 9
    return pair + math.cos(math.radians(design["phi"] - 350)) + heat


BEFORE = EarlierResults("before", TRIALS, np.array([[1.1 * reading(design)] for design in SPACE.decode(TRIALS)]))
COARSE = LevelResults(0, 0.1, BEFORE.X, BEFORE.Y)


def observed(X=TRIALS, **more):
    return Observations(
        X, list(map(reading, SPACE.decode(X))), maximize=False, space=SPACE, columns=SPACE.columns, **more
    )


def algorithm(surrogate, acquisition=None, **more):
    return Algorithm(Sobol(), 4, surrogate, acquisition or LogEI(), Multistart(256, 4, 30), **more)


def test_what_models_see_has_a_closed_form():
    seen = SEEN.array(SPACE.encode([DESIGNS]))[0]
    # Sorted: x 2 and n 3 come before x 7 and n 1; the angle is at -1, and heat does not exist.
    expected = [-0.6, 1.0, math.cos(-math.pi), math.sin(-math.pi), 0.4, -1 / 3, 1.0, 0.0, 0.0]
    assert seen == pytest.approx(expected, abs=1e-14)
    assert SEEN.dimension == len(expected)
    names = {name: range(at.start, at.stop) for name, at in SEEN.columns.items()}
    assert names["phi"] == range(2, 4)
    assert names["glue"] == range(6, 8)
    assert ModelCoordinates.of(SearchSpace((Continuous("x", 0, 1),))) is None


def test_a_choice_that_does_not_exist_is_no_level():
    choices = Categorical("glue", ("A", "B")), Categorical("filler", ("chalk", "silica")), Integer("coats", 1, 4)
    space = SearchSpace(choices, only_if=(OnlyIf("filler", "glue", ("B",)), OnlyIf("coats", "glue", ("B",))))
    X = space.encode([{"glue": "A", "filler": "silica", "coats": 4}, {"glue": "B", "filler": "silica", "coats": 4}])
    assert ModelCoordinates(space).array(X).tolist() == [[1, 0, 0, 0, 0], [0, 1, 0, 1, 1]]


def test_points_of_one_design_are_seen_as_one():
    told = SEEN.array(SPACE.encode([DESIGNS, *SAME]))
    assert np.array_equal(told, np.repeat(told[:1], 4, axis=0))
    others = [DESIGNS | {"phi": 90}, DESIGNS | {"x1": 2, "x2": 7}, DESIGNS | {"glue": "B"}]
    assert (np.abs(SEEN.array(SPACE.encode(others)) - told[0]).max(axis=1) > 0.1).all()


def test_blocks_are_sorted_by_their_angles_within_one_period():
    angles = tuple(Continuous(name, 0, 360, periodic=True) for name in "ab")
    sizes = tuple(Continuous(name, 0, 1) for name in "vw")
    space = SearchSpace((*angles, *sizes), exchangeable=(Exchangeable((("a", "v"), ("b", "w"))),))
    seen = ModelCoordinates(space)
    X = np.array([[0.3, 0.6, -0.5, 0.5], [2.3, 0.6, -0.5, 0.5], [0.3, -1.4, -0.5, 0.5], [-1.4, 2.3, 0.5, -0.5]])
    assert seen.array(X) == pytest.approx(np.repeat(seen.array(X[:1]), 4, axis=0), abs=1e-14)


def test_models_learn_from_every_order_of_exchangeable_blocks():
    names = tuple("abc")
    space = SearchSpace(
        tuple(Continuous(name, -1, 1) for name in (*names, "x")),
        exchangeable=(Exchangeable(tuple((n,) for n in names)),),
    )
    X, sds = np.array([[0.3, -0.5, 0.1, 0.9], [0.2, 0.2, 0.2, -0.9]]), np.array([[0.1, 0.2, np.nan], [0.3, 0.4, 0.5]])
    constraints, further, failed = np.array([[1.0], [2.0]]), np.array([[5.0], [6.0]]), np.array([[0.5, 0.5, 0.0, 0.4]])
    aims = (Aim(maximize=False), Aim(maximize=False))
    data = Observations(
        X,
        [3.0, 4.0],
        maximize=False,
        space=space,
        constraints=constraints,
        failed=failed,
        aims=aims,
        further=further,
        sds=sds,
        earlier=(EarlierResults("before", X[:1], np.array([[7.0, 8.0, 9.0]])),),
        levels=(0.1,),
        lower=(LevelResults(0, 0.1, X[:1], np.array([[7.0, 8.0, 9.0]]), np.array([[7.1, 8.1, 9.1]])),),
    )
    taught = ModelCoordinates(space).taught(data)
    orders = sorted([a, b, c, 0.9] for a, b, c in itertools.permutations((-0.5, 0.1, 0.3)))
    assert sorted(taught.X[:6].tolist()) == orders
    assert taught.X[0].tolist() == [-0.5, 0.1, 0.3, 0.9]
    assert taught.X[6:].tolist() == [[0.2, 0.2, 0.2, -0.9]]  # which has no other order
    assert taught.y.tolist() == [3.0] * 6 + [4.0]
    assert taught.constraints.ravel().tolist() == [1.0] * 6 + [2.0]
    assert taught.further.ravel().tolist() == [5.0] * 6 + [6.0]
    assert taught.sds[:, 0].tolist() == [0.1] * 6 + [0.3]
    assert sorted(taught.earlier[0].X.tolist()) == orders
    assert taught.earlier[0].Y.tolist() == taught.lower[0].Y.tolist() == [[7.0, 8.0, 9.0]] * 6
    assert sorted(taught.lower[0].X.tolist()) == orders
    assert sorted(taught.failed.tolist()) == [[0.0, 0.5, 0.5, 0.4], [0.5, 0.0, 0.5, 0.4], [0.5, 0.5, 0.0, 0.4]]
    assert len(ModelCoordinates(space).seen(data)) == 2
    # Models that see other coordinates learn from no fields.
    assert taught.lower[0].read is ModelCoordinates(space).seen(data).lower[0].read is None


def test_remarks_that_count_trials_tell_that_orders_count():
    posterior = algorithm(ExactGP(restarts=0, n_fitted=10)).fit(observed(), np.random.default_rng(0))
    assert posterior.remarks == {
        "hyperparameters": "from 10 of 18 trials",
        "orders": "a result is a trial in each of up to 2 orders of exchangeable blocks",
    }
    assert algorithm(ExactGP(restarts=0)).fit(observed(), np.random.default_rng(0)).remarks == {}


def test_earlier_results_come_in_every_order_until_those_are_more_than_a_model_takes():
    names = tuple("abcd")
    space = SearchSpace(
        tuple(Continuous(name, -1.0, 1.0) for name in names),
        exchangeable=(Exchangeable(tuple((name,) for name in names)),),
    )
    for n, rows in ((83, 24 * 83), (84, 84)):
        X = space.sample(n, np.random.default_rng(2))
        old = EarlierResults("old", X, X.sum(axis=1)[:, None])
        data = Observations(X[:3], X[:3].sum(axis=1), maximize=False, space=space, earlier=(old,))
        (taught,) = ModelCoordinates(space).taught(data).earlier
        assert len(taught.X) == rows
        assert taught.Y[:, 0] == pytest.approx(taught.X.sum(axis=1))
    assert np.all(np.diff(taught.X) >= 0)


def test_the_way_back_leads_to_the_same_design():
    Z = SEEN(torch.from_numpy(TRIALS))
    back = SEEN.back(Z)
    assert SEEN(back).numpy() == pytest.approx(Z.numpy(), abs=1e-14)
    assert back.numpy() == pytest.approx(SPACE.folds.canonical(TRIALS), abs=1e-14)


def test_images_keep_their_pixels():
    space = SearchSpace((Continuous("phi", 0, 1, periodic=True), Image("picture", (2, 2), 0, 1)))
    X = space.sample(3, np.random.default_rng(0))
    data = Observations(X, [1, 2, 3], maximize=False, space=space, images=space.images)
    seen = ModelCoordinates(space).seen(data)
    (image,) = seen.images
    assert np.array_equal(seen.X[:, image.first : image.first + 4], X[:, 1:])


@pytest.mark.parametrize("kind", SURROGATES)
def test_every_surrogate_predicts_the_same_for_all_points_of_a_design(kind):
    surrogate = public_class("fieldcraft.models.surrogates", kind)(**SMALL.get(kind, {}))
    data, words = observed(earlier=(BEFORE,), levels=(0.1,), lower=(COARSE,)), algorithm(surrogate)
    posterior = words.fit(data, np.random.default_rng(0))
    X = torch.from_numpy(SPACE.encode([DESIGNS, *SAME]))
    X[0, 2] = 1.0  # the other end of the period, which searches reach
    with torch.no_grad():
        for values in (*posterior.mean_var(X), *(draw(X) for draw in posterior.draw(1, np.random.default_rng(3)))):
            assert values.numpy() == pytest.approx([float(values[1])] * 4, abs=1e-9)
        again = words.restore(data, posterior.state()).mean_var(torch.from_numpy(TRIALS))
    assert torch.equal(again[0], posterior.mean_var(torch.from_numpy(TRIALS))[0].detach())


def test_groups_of_variables_are_those_of_the_space():
    surrogate = GroupedGP(groups=(("x1", "n1", "x2", "n2"), ("phi",), ("glue", "heat")))
    posterior = algorithm(surrogate).fit(observed(), np.random.default_rng(0))
    assert torch.isfinite(posterior.mean_var(torch.from_numpy(TRIALS))[0]).all()


@pytest.mark.parametrize("acquisition", [LogEI(), UCB(), Thompson()])
def test_gradients_of_a_score_are_those_of_finite_differences(acquisition):
    data, words = observed(exact=True), algorithm(ExactGP(restarts=0), acquisition)
    posterior, scores = words.fit(data, np.random.default_rng(0)), []

    class Kept(Multistart):
        def maximize(self, score, *args):
            scores.append(score)
            return Multistart(256, 4, 30).maximize(score, *args)

    object.__setattr__(words, "maximizer", Kept())
    words.propose(posterior, data, np.empty((0, SPACE.dimension)), SPACE, 1, np.random.default_rng(1))
    X, none = torch.from_numpy(SPACE.sample(6, np.random.default_rng(7))), torch.empty(0, SPACE.dimension).double()
    values, slopes = scores[0].value_and_grad(X, 0, none)
    assert values.numpy() == pytest.approx(scores[0].value(X, 0, none).detach().numpy(), rel=1e-9)
    for j in range(SPACE.dimension):
        step = torch.zeros_like(X)
        step[:, j] = 1e-6
        with torch.no_grad():
            ends = [scores[0].value(X + sign * step, 0, none) for sign in (1, -1)]
        assert slopes[:, j].numpy() == pytest.approx(((ends[0] - ends[1]) / 2e-6).numpy(), abs=2e-4, rel=2e-4)


def test_a_search_goes_over_the_end_of_a_period():
    space = SearchSpace((Continuous("phi", 0, 360, periodic=True),))

    class Seam:
        def value(self, X, slot, chosen):
            return torch.cos(math.pi * (X[:, 0] + 0.99))  # best just below the upper end, at u = -0.99 - 2 k

    found = Multistart(64, 2).maximize(Seam(), space, 1, np.random.default_rng(0))
    assert found.X[0, 0] == pytest.approx(-0.99, abs=1e-6)
    found = Multistart(n_samples=4, n_starts=1).best(
        Seam(), space, 0, np.empty((0, 1)), np.array([[0.5]]), np.array([[0.97]])
    )
    assert found[0][0] == pytest.approx(-0.99, abs=1e-6)


@pytest.mark.parametrize("exact", [True, False])
def test_no_design_is_proposed_under_another_point(exact):
    space = SearchSpace((Integer("a", 1, 3), Integer("b", 1, 3)), exchangeable=(Exchangeable((("a",), ("b",))),))
    X = space.encode([{"a": a, "b": b} for a, b in ((1, 1), (2, 1), (3, 1), (2, 2), (3, 3))])
    data = Observations(X, [3.0, 2.0, 1.0, 2.5, 0.5], maximize=False, exact=exact, space=space, columns=space.columns)
    pending = np.empty((0, 2)) if exact else X
    words = algorithm(ExactGP(restarts=0))
    posterior = words.fit(data, np.random.default_rng(0))
    found = words.propose(posterior, data, pending, space, 1, np.random.default_rng(1))
    assert sorted(space.decode(found.X)[0].values()) == [2, 3]
    with pytest.raises(ValueError, match="No point is left"):
        words.propose(posterior, data, np.vstack([pending, found.X[:, ::-1]]), space, 1, np.random.default_rng(1))


def test_a_repeated_design_of_the_start_is_replaced():
    space = SearchSpace((Integer("a", 1, 2), Integer("b", 1, 2)), exchangeable=(Exchangeable((("a",), ("b",))),))
    taken = space.encode([{"a": 1, "b": 1}, {"a": 2, "b": 1}])
    given = algorithm(ExactGP()).begin(space, 0, 1, np.random.default_rng(0), taken)
    assert space.decode(given) == [{"a": 2, "b": 2}]


@pytest.mark.parametrize("rule", [Bound(fallback="believed"), Bound(fallback="empty"), None])
def test_constraints_failures_and_objectives_are_learnt_by_design(rule):
    failed = SPACE.encode([DESIGNS])
    aims = (Aim(maximize=False), Aim(maximize=True)) if rule is None else ()
    data = observed(
        constraints=(TRIALS[:, [2]] - (0.2 if rule is None else -0.9)),
        failed=failed,
        aims=aims,
        **({"further": TRIALS[:, [0]]} if aims else {}),
    )
    from fieldcraft.models.acquisitions.log_ehvi import LogEHVI

    acquisition = LogEHVI() if aims else UCB()
    words = Algorithm(
        Sobol(), 4, ExactGP(restarts=0), acquisition, Multistart(32, 1, 5), constraints=Constraints(rule=rule)
    )
    posterior = words.fit(data, np.random.default_rng(0))
    X = torch.from_numpy(SPACE.encode([DESIGNS, *SAME]))
    latent = posterior.hidden.latent(X)[0].detach().numpy()
    excess = posterior.excess(X)[0].detach().numpy()
    assert latent == pytest.approx([latent[0]] * 4, abs=1e-9)
    assert excess == pytest.approx(np.repeat(excess[:1], 4, axis=0), abs=1e-9)
    inner = of_model(posterior)
    assert torch.equal(inner.mean_var(SEEN(X))[0], posterior.mean_var(X)[0])
    found = words.propose(posterior, data, np.empty((0, SPACE.dimension)), SPACE, 1, np.random.default_rng(1))
    for design in SPACE.decode(found.X):
        SPACE.check(design)


def test_uncertainty_is_sampled_by_design():
    X = Uncertainty(width=16).propose(SPACE, 0, 12, np.random.default_rng(0))
    seen = SEEN.array(X)
    apart = np.abs(seen[:, None] - seen).max(axis=2) + np.eye(12)
    assert apart.min() > 1e-3
