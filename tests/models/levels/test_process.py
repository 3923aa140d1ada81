"""The process of a simulator's levels against dense matrices, and the level that is chosen against closed forms."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.earlier.fit import Density
from fieldcraft.models.gaussian.covariance import covariance
from fieldcraft.models.gaussian.fit import known_noise
from fieldcraft.models.levels import choice
from fieldcraft.models.levels.fit import PRIORS
from fieldcraft.models.levels.process import LevelsPosterior, Term
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import LevelResults, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.multilevel_gp import MultilevelGP
from fieldcraft.physics.space import Continuous, Exchangeable, Integer, SearchSpace

RNG = np.random.default_rng(5)
SPACE = SearchSpace((Continuous("a", -1.0, 1.0), Continuous("b", -1.0, 1.0)))
X0, X1, X2, Z = (RNG.uniform(-1, 1, (n, 2)) for n in (12, 7, 5, 20))
TERMS = (
    Term(0, 0.0, 1.0, np.array([0.8, 1.1]), 0.01, 0.2),
    Term(1, 0.9, 0.3, np.array([1.2, 0.7]), 0.02, -0.1),
    Term(None, 1.4, 0.2, np.array([0.6, 0.9]), 0.005, 0.4),
)


def hill(X):
    return np.sin(3 * X[:, 0]) + X[:, 1] ** 2


def observed(truth=hill, costs=(0.1, 0.3), **changes):
    coarse = LevelResults(0, costs[0], X0, (hill(X0) + 0.2 * X0[:, 0])[:, None])
    finer = LevelResults(1, costs[1], X1, (hill(X1) + 0.05 * X1[:, 0])[:, None])
    known = {"levels": costs, "lower": (coarse, finer), "exact": True, "space": SPACE}
    return Observations(X2, truth(X2), maximize=False, **(known | changes))


def process(terms=TERMS, targets=None):
    X, at = np.vstack([X0, X1, X2]), np.repeat([0, 1, 2], [12, 7, 5])
    scaling = observed().scaling
    values = hill(X) if targets is None else targets
    return LevelsPosterior("matern52", terms, torch.tensor(X), torch.tensor(at), torch.tensor(values), scaling)


def prior(A, of_a, B, of_b):
    """Covariance of levels by their definition: f1 = 0.9 f0 + g1, f2 = 1.4 f1 + g2."""
    k = [t.size * covariance("matern52", A, B, torch.from_numpy(t.scales)) for t in TERMS]
    own = [k[0], 0.9**2 * k[0] + k[1], 1.4**2 * (0.9**2 * k[0] + k[1]) + k[2]]
    low, factors = min(of_a, of_b), (0.9, 1.4)
    return float(np.prod(factors[low : max(of_a, of_b)])) * own[low]


def test_moments_are_those_of_three_levels_by_dense_matrices():
    rows, points = [torch.tensor(X) for X in (X0, X1, X2)], torch.tensor(Z)
    noises = torch.tensor(np.repeat([t.noise for t in TERMS], [12, 7, 5]))
    S = torch.cat([torch.cat([prior(A, i, B, j) for j, B in enumerate(rows)], 1) for i, A in enumerate(rows)])
    cross = torch.cat([prior(points, 2, B, j) for j, B in enumerate(rows)], 1)
    level = [0.2, 0.9 * 0.2 - 0.1, 1.4 * (0.9 * 0.2 - 0.1) + 0.4]
    left = torch.tensor(hill(np.vstack([X0, X1, X2])) - np.repeat(level, [12, 7, 5]))
    solved = torch.linalg.solve(S + noises.diag(), torch.cat([left[:, None], cross.mT], 1))
    mean, variance = process().mean_var(points)
    assert mean.numpy() == pytest.approx((level[2] + cross @ solved[:, 0]).numpy(), abs=1e-9)
    expected = prior(points, 2, points, 2) - cross @ solved[:, 1:]
    assert variance.numpy() == pytest.approx(expected.diagonal().numpy(), abs=1e-9)
    below = torch.cat([prior(points, 0, B, j) for j, B in enumerate(rows)], 1)
    between = prior(points, 0, points, 2) - below @ solved[:, 1:]
    assert process().covariance(points, 0, points, 2).numpy() == pytest.approx(between.numpy(), abs=1e-9)


def test_slopes_in_closed_form_are_the_automatic_ones():
    points = torch.tensor(Z, requires_grad=True)
    mean, variance = process().mean_var(points)
    found = process().moment_slopes(points)
    assert found.mean == pytest.approx(mean.detach().numpy()) and found.variance == pytest.approx(
        variance.detach().numpy()
    )
    (by_mean,) = torch.autograd.grad(mean.sum(), points, retain_graph=True)
    (by_variance,) = torch.autograd.grad(variance.sum(), points)
    assert found.by_mean == pytest.approx(by_mean.numpy(), abs=1e-9)
    assert found.by_variance == pytest.approx(by_variance.numpy(), abs=1e-9)


def test_without_a_factor_the_target_is_an_exact_process():
    data = observed()
    exact = ExactGP(restarts=0).fit(data, np.random.default_rng(0), None, no_report)
    scales = exact.length_scales.numpy()
    terms = (*TERMS[:2], Term(None, 0.0, 1.0, scales, exact.noise_variance, exact.constant))
    targets = np.concatenate([hill(np.vstack([X0, X1])), data.targets])
    for ours, theirs in zip(
        process(terms, targets).mean_var(torch.tensor(Z)), exact.mean_var(torch.tensor(Z)), strict=True
    ):
        assert ours.numpy() == pytest.approx(theirs.numpy(), abs=1e-9)


def test_draws_have_the_moments():
    points, n, made = torch.tensor(1.5 * Z[:6]), 150, process()
    with torch.no_grad():
        drawn = torch.stack([f(points) for f in made.draw(n, np.random.default_rng(1))])
        mean, variance = made.mean_var(points)
    assert ((drawn.mean(0) - mean).abs() < 4.5 * (variance / n).sqrt()).all()
    # Fourier features, 1,024 of each term, have an error of their own of some 1 / sqrt(1024) of the prior.
    assert ((drawn.var(0) / variance - 1).abs() < 4.5 * np.sqrt(2 / n) + 0.1).all()


def test_the_slope_of_the_density_with_the_priors_of_levels_is_that_of_its_differences():
    C = process(TERMS[:2] + TERMS[2:]).covariance(torch.tensor(X2), 1, torch.tensor(X2), 1).numpy()
    density = Density("matern52", X2, observed().targets, hill(X2), C, None, PRIORS)
    theta = np.array([-0.5, 0.2, -2.0, 0.7, -3.0])
    steps = 1e-6 * np.eye(5)
    differences = [(density(theta + step)[0] - density(theta - step)[0]) / 2e-6 for step in steps]
    assert density(theta)[1] == pytest.approx(differences, rel=1e-6, abs=1e-6)


def place(costs=(0.1, 0.3), posterior=None):
    data = observed(costs=costs)
    made = posterior or MultilevelGP().fit(data, np.random.default_rng(0), None, no_report)
    return choice._Place.of(made, data, torch.empty((0, 2), dtype=torch.float64), Z), data


def test_the_gain_of_a_level_is_that_of_simulated_results():
    """E[max EI] after a result of level 0 at x, with results drawn from the posterior and conditioned on afresh."""
    here, _ = place(posterior=process())
    x, n, made, all_of = torch.tensor(Z[:1]), 200, here.parts[0].process, np.zeros(len(Z), dtype=bool)
    mean, variance = made.moments(x, 0)
    results = mean + (variance + TERMS[0].noise).sqrt() * torch.from_numpy(np.random.default_rng(2).standard_normal(n))
    seen = []
    for result in results:
        after = made.fantasize_at(x, 0)
        after = replace(after, targets=torch.cat([made.targets, result[None]]))
        moments = after.mean_var(here.points)
        seen.append(here._worth(moments[0][None], moments[1].sqrt()[None]))
    drawn = torch.stack(seen).detach()
    now = here._worth(*here._moments).max()
    gained, error = drawn.amax(1).mean() / now, drawn.amax(1).std() / now / n**0.5
    assert gained > 1.02, "else this shows nothing"
    assert abs(float(gained) - here._gains(np.array([0]), 0, all_of)[0]) < 4 * float(error) + 0.01


def test_a_level_that_costs_nothing_is_run_and_one_as_dear_as_the_target_is_not():
    x = Z[0]
    here, cheap = place((1e-9, 2e-9))
    assert here.best(x, cheap, [np.empty((0, 2))] * 2)[0] is not None
    here, dear = place((0.999998, 0.999999))
    assert here.best(x, dear, [np.empty((0, 2))] * 2)[0] is None


def test_a_level_that_tells_nothing_is_not_run():
    terms = (*TERMS[:2], replace(TERMS[2], rho=0.0))
    here, data = place((1e-9, 2e-9), process(terms))
    assert here._gains(np.arange(3), 0, np.zeros(len(Z), dtype=bool)) == pytest.approx(np.ones(3), abs=1e-9)
    assert here.best(Z[0], data, [np.empty((0, 2))] * 2)[0] is None


def test_the_target_runs_what_a_cheap_level_like_it_has_run():
    x = X2[[np.argmax(hill(X2))]] + 0.01  # a bad design, of which a level would tell nothing new
    points, none = np.vstack([x, X0]), torch.empty((0, 2), dtype=torch.float64)

    def one_level(cost):
        return observed(levels=(cost,), lower=(replace(observed().lower[0], cost=cost),))

    def chosen(data, posterior):
        return choice._Place.of(posterior, data, none, points).best(x[0], data, [np.empty((0, 2))])

    data = one_level(0.1)
    like = MultilevelGP().fit(data, np.random.default_rng(0), None, no_report)
    level, design = chosen(data, like)
    assert like.likeness > 0.8 and level is None and (design == X0).all(axis=1).any()
    unlike = replace(like, terms=(*like.terms[:-1], replace(like.terms[-1], rho=0.1, size=1.0)))
    assert unlike.likeness < 0.8
    for level, design in (chosen(data, unlike), chosen(one_level(0.3), like)):
        assert level is None and design == pytest.approx(x[0])


def test_a_level_is_run_where_no_design_that_it_has_run_can_be_better():
    sure = [replace(term, size=1e-6, noise=1e-8, rho=1.0, constant=0.0) for term in TERMS]
    made, points = process((replace(TERMS[0], noise=1e-8, constant=0.0), *sure[1:])), np.vstack([Z, X0])
    here = choice._Place.of(made, observed(), torch.empty((0, 2), dtype=torch.float64), points)
    here = replace(here, level=float(hill(np.vstack([X0, X1, X2])).min()) - 0.3)
    worth, tried = here._worth(*here._moments).numpy(), here._tried(observed())
    assert worth[tried].max() == 0 < worth.max(), "the improvement of a design that was run is too small for a number"
    level, design = here.best(points[worth.argmax()], observed(), [np.empty((0, 2))] * 2)
    assert level == 0 and (design == points[worth.argmax()]).all()


def test_the_target_runs_no_design_again_that_waits_for_its_result():
    x = X2[[np.argmax(hill(X2))]] + 0.01
    data = observed(levels=(0.1,), lower=(replace(observed().lower[0], cost=0.1),))
    made = MultilevelGP().fit(data, np.random.default_rng(0), None, no_report)
    seen = torch.empty((0, 2), dtype=torch.float64)
    for _ in range(len(X0) + 1):  # those that the level has run, and then x, which it is to leave out here
        beliefs = made.fantasize(seen) if len(seen) else made
        level, design = choice._Place.of(beliefs, data, seen, np.vstack([x, X0])).best(x[0], data, [x])
        assert level is None and (torch.cdist(seen, torch.tensor(design[None])) > 1e-6).all()
        seen = torch.cat([seen, torch.tensor(design[None])])


def proposed(data, surrogate, q=1, waiting=(), n_initial=1):
    algorithm = Algorithm(Sobol(), n_initial, surrogate, LogEI(), Multistart(n_samples=64, n_starts=2))
    posterior = algorithm.fit(data, np.random.default_rng(0))
    none = np.empty((0, 2))
    return posterior, algorithm.propose(posterior, data, none, SPACE, q, np.random.default_rng(1), waiting)


def test_a_batch_has_levels_and_no_design_twice_at_one_level():
    posterior, found = proposed(observed(costs=(1e-3, 2e-3)), Auto())
    assert posterior.name == "multilevel_gp" and found.levels[0] is not None
    again = proposed(observed(costs=(1e-3, 2e-3)), Auto(), q=3, waiting=[found.X, found.X])[1]
    runs = [*((level, *x) for level, x in zip(again.levels, again.X, strict=True)), (0, *found.X[0]), (1, *found.X[0])]
    assert len(again.levels) == 3 and len(set(runs)) == 5


def test_no_design_is_run_again_with_its_parts_exchanged():
    space = SearchSpace((Integer("a", 1, 4), Integer("b", 1, 4)), exchangeable=(Exchangeable((("a",), ("b",))),))
    order = np.random.default_rng(3).permutation(10)
    pairs = [(a, b) for a in range(1, 5) for b in range(1, a + 1)]
    designs = space.encode([{"a": pairs[k][0], "b": pairs[k][1]} for k in order])
    X, waiting, coarse = designs[:5], designs[5:7], designs[4:9][:, ::-1].copy()  # each level saw its own order
    lower = LevelResults(0, 0.2, coarse, np.abs(coarse).sum(axis=1, keepdims=True) + 0.1 * coarse[:, :1])
    data = Observations(
        X,
        np.abs(X).sum(axis=1),
        maximize=False,
        exact=True,
        space=space,
        columns=space.columns,
        levels=(0.2,),
        lower=(lower,),
    )
    algorithm = Algorithm(Sobol(), 4, MultilevelGP(), LogEI(), Multistart(n_samples=64, n_starts=2))
    posterior = algorithm.fit(data, np.random.default_rng(0))
    found = algorithm.propose(posterior, data, waiting, space, 2, np.random.default_rng(1), [waiting[:, ::-1].copy()])
    ran = [(None, x) for x in (*X, *waiting)] + [(0, x) for x in (*coarse, *waiting)]
    runs = [*ran, *zip(found.levels, found.X, strict=True)]
    distinct = {(level, tuple(space.folds.canonical(x[None])[0].round(6))) for level, x in runs}
    ran_before = {(level, tuple(space.folds.canonical(x[None])[0].round(6))) for level, x in ran}
    assert len(distinct) == len(ran_before) + 2


def test_beside_a_level_unlike_the_target_its_start_is_completed_without_levels():
    wave = LevelResults(0, 0.1, X0, np.cos(9 * X0[:, :1] - 7 * X0[:, 1:]))
    data = replace(observed(levels=(0.1,), lower=(wave,)), X=Z, y=hill(Z))
    candidates = Auto(candidates=("exact_gp", "multilevel_gp"))
    posterior, found = proposed(data, candidates, q=2, n_initial=len(Z) + 1)
    assert posterior.name == "exact_gp" and "correlation of level 0" in posterior.remarks["out.multilevel_gp"]
    assert found.levels == (None, None) and found.X[0] == pytest.approx(X0[0])
    assert np.abs(found.X[1] - X0).max(axis=1).min() > 1e-3, "the start has one design more"


def test_constraints_learn_from_their_own_results_of_the_levels():
    lower = tuple(replace(each, Y=np.hstack([each.Y, each.X[:, :1] - 0.2])) for each in observed().lower)
    data = observed(lower=lower, constraints=X2[:, :1] - 0.2, costs=(1e-3, 2e-3))
    posterior, found = proposed(data, MultilevelGP(), q=2)
    assert posterior.constraints[0].levels[-1] is None and len(found.levels) == 2
    assert posterior.constraints[0].mean_var(torch.tensor(Z))[1].max() < 0.1


def errors(truth, surrogate):
    with torch.no_grad():
        data = observed(truth)
        mean, _ = surrogate.fit(data, np.random.default_rng(0), None, no_report).mean_var(torch.tensor(Z))
    return float(np.sqrt(np.mean((data.scaling.to_physical(mean.numpy()) - truth(Z)) ** 2)))


def test_levels_save_most_of_the_error():
    assert errors(hill, MultilevelGP()) < 0.5 * errors(hill, ExactGP(restarts=0))


@pytest.mark.parametrize("spoil", [lambda y: 1e6 * y, lambda y: 1e-6 * y, lambda y: np.where(y == y.max(), 1e6, y)])
def test_a_level_of_another_size_leaves_beliefs_of_the_size_of_the_targets_results(spoil):
    X = np.random.default_rng(2).uniform(-1, 1, (30, 2))
    seen = replace(observed(), X=X[:8], y=hill(X[:8]), levels=(0.1,), lower=())
    data = replace(seen, lower=(LevelResults(0, 0.1, X[:24], spoil(hill(X[:24]))[:, None]),))
    mean, variance = MultilevelGP().fit(data, RNG, None, no_report).mean_var(torch.tensor(X[8:]))
    errors, sd = np.abs(mean.numpy() - data.scaling.to_target(hill(X[8:]))), variance.sqrt().numpy()
    assert sd.max() < 2.0
    assert np.mean(errors < 2 * sd) > 0.8


def test_a_state_restores_the_posterior():
    data = observed()
    made = MultilevelGP().fit(data, np.random.default_rng(0), None, no_report)
    again = MultilevelGP().restore(data, made.state())
    assert torch.equal(again.mean_var(torch.tensor(Z))[0], made.mean_var(torch.tensor(Z))[0])
    assert made.remarks == again.remarks and made.metrics["rho"] == again.metrics["rho"]


@pytest.mark.parametrize("noise", ["fitted", "known"])
def test_without_a_result_of_a_level_it_is_an_exact_process_of_the_target(noise):
    data = observed(lower=(), noise_sd=0.1)
    exact = ExactGP(restarts=1, noise=noise).fit(data, np.random.default_rng(0), None, no_report)
    ours = MultilevelGP(noise=noise).fit(data, np.random.default_rng(0), None, no_report)
    for each in (ours, MultilevelGP(noise=noise).restore(data, ours.state())):
        for found, expected in zip(each.mean_var(torch.tensor(Z)), exact.mean_var(torch.tensor(Z)), strict=True):
            assert found.numpy() == pytest.approx(expected.detach().numpy(), abs=1e-6)
        assert each.remarks == {"levels": "none has a result: the target alone"}
    assert proposed(data, MultilevelGP())[1].levels == ()


def test_missing_and_impossible_data_are_refused():
    fit = MultilevelGP(noise="known").fit
    with pytest.raises(ValueError, match="these observations state none"):
        fit(observed(), np.random.default_rng(0), None, no_report)
    stated = observed(noise_sd=0.1)
    assert fit(stated, np.random.default_rng(0), None, no_report).terms[-1].noise == pytest.approx(known_noise(stated))
