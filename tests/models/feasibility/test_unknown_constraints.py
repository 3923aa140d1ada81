"""Unknown constraints: beliefs about them, the rules by which they enter a score, and what is chosen then."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.acquisitions.mes import MES
from fieldcraft.models.acquisitions.thompson import Thompson
from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.constraints import Constraints
from fieldcraft.models.maximizers.certified import Certified
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.numerics.digests import stamped
from fieldcraft.models.numerics.states import named
from fieldcraft.models.observations import Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.rules.bound import Bound
from fieldcraft.models.rules.probability import Probability
from fieldcraft.models.scoring.incumbent import best_belief, incumbent
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.sampled_network import SampledNetwork
from fieldcraft.models.surrogates.tangent_network import TangentNetwork
from fieldcraft.physics.space import Continuous, ImageColumns, Integer, SearchSpace

SPACE = SearchSpace((Continuous("x", -1.0, 1.0), Continuous("y", -1.0, 1.0)))
GP = ExactGP(restarts=0)
NONE = torch.empty((0, 2), dtype=torch.float64)


def rng(seed=0):
    return np.random.default_rng(seed)


def algorithm(acquisition, rule=None, **words):
    words = {"surrogate": GP, "maximizer": Multistart(n_samples=256, n_starts=8), **words}
    return Algorithm(Sobol(), 1, acquisition=acquisition, constraints=Constraints(rule=rule), **words)


def functions(X):
    """f = x + y and two constraints: outside a disc about the origin, and 400 times -1/2 - x."""
    return X.sum(axis=1), np.stack([0.5 - (X**2).sum(axis=1), 400 * (-0.5 - X[:, 0])], axis=1)


def observed(n=24, failed=None, keep=lambda X: np.full(len(X), True)):
    X = rng(3).uniform(-1, 1, (n, 2))
    X = X[keep(X)]
    y, g = functions(X)
    return Observations(X, y, maximize=False, constraints=g, failed=np.empty((0, 2)) if failed is None else failed)


@pytest.fixture(scope="module")
def data():
    return observed()


@pytest.fixture(scope="module")
def posterior(data):
    return algorithm(LogEI()).fit(data, rng())


@pytest.fixture(scope="module")
def grid():
    return torch.tensor(rng(5).uniform(-1, 1, (200, 2)))


def moments(posterior, X):
    """Means and standard deviations of all constraints, in their own units, shape (n, c)."""
    with torch.no_grad():
        pairs = [(own.scaling, *own.mean_var(X)) for own in posterior.constraints]
    return (
        np.stack([scaling.to_physical(mean.numpy()) for scaling, mean, _ in pairs], axis=1),
        np.stack([scaling.sd * variance.sqrt().numpy() for scaling, _, variance in pairs], axis=1),
    )


def test_the_probability_of_feasibility_is_that_of_independent_normals_in_physical_units(posterior, grid):
    mean, sd = moments(posterior, grid)
    expected = norm.logcdf(-mean / np.maximum(sd, 1e-300)).sum(axis=1)
    np.testing.assert_allclose(posterior.log_feasible(grid).detach().numpy(), expected, rtol=1e-6, atol=1e-9)


def test_what_is_believed_of_constraints_agrees_with_them(posterior, grid):
    truth = (functions(grid.numpy())[1] <= 0).all(axis=1)
    assert np.mean(posterior.believed_feasible(grid).numpy() == truth) > 0.95


def test_the_unit_of_a_constraint_does_not_matter(data, posterior, grid):
    scaled = replace(data, constraints=data.constraints * [1024.0, 1 / 128])
    other = algorithm(LogEI()).fit(scaled, rng())
    for a, b in zip(posterior.excess(grid), other.excess(grid), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("value", [-0.3, 0.3])
def test_the_unit_of_a_constraint_that_is_constant_so_far_does_not_matter(data, grid, value):
    beliefs = []
    for unit in (1.0, 2.0**20, 2.0**-20, 2.0**600):
        constant = replace(data, constraints=np.full((len(data), 1), value * unit))
        found = algorithm(LogEI()).fit(constant, rng())
        beliefs.append(found.log_feasible(grid))
        assert found.in_units(grid[:1])[0][0] == pytest.approx(value * unit)
    assert all(torch.equal(beliefs[0], each) for each in beliefs[1:])


def test_an_optimistic_bound_is_never_above_the_mean_and_falls_with_its_width(posterior, grid):
    mean, narrow, wide = (posterior.lower_excess(grid, width) for width in (0.0, 1.0, 2.0))
    assert (narrow <= mean).all() and (wide <= narrow).all()
    torch.testing.assert_close(mean, posterior.excess(grid)[0])


def test_constrained_expected_improvement_is_its_closed_form(data, posterior, grid):
    score = Constraints().score(LogEI(), posterior, data, NONE, 1, rng())
    grid = torch.tensor([-0.5, -0.9]) + 0.3 * grid
    with torch.no_grad():
        mean, variance = (each.numpy() for each in posterior.objective.mean_var(grid))
        seen = posterior.objective.mean_var(torch.tensor(data.X))[0].numpy()
        value = score.value(grid, 0, NONE).numpy()
    best = seen[(moments(posterior, torch.tensor(data.X))[0] <= 0).all(axis=1)].min()
    assert best > seen.min()  # the least mean is at an infeasible point
    u = (best - mean) / np.sqrt(variance)
    g_mean, g_sd = moments(posterior, grid)
    expected = np.sqrt(variance) * (u * norm.cdf(u) + norm.pdf(u)) * norm.cdf(-g_mean / g_sd).prod(axis=1)
    likely = expected > 1e-12  # below, the closed form cancels
    assert likely.sum() > 20
    np.testing.assert_allclose(np.exp(value)[likely], expected[likely], rtol=1e-6)


def test_where_nothing_is_believed_feasible_the_probability_alone_is_sought(grid):
    none = observed(60, keep=lambda X: (X**2).sum(axis=1) < 0.4)
    posterior = algorithm(LogEI()).fit(none, rng())
    assert not posterior.believed_feasible(torch.tensor(none.X)).any()
    score = Constraints().score(LogEI(), posterior, none, NONE, 1, rng())
    torch.testing.assert_close(score.value(grid, 0, NONE), posterior.log_feasible(grid))


def test_where_nothing_is_believed_feasible_the_rule_bound_lessens_the_violation(grid):
    none = observed(60, keep=lambda X: (X**2).sum(axis=1) < 0.4)
    posterior = algorithm(UCB()).fit(none, rng())
    score = Constraints(rule=Bound(beta=0.25)).score(UCB(), posterior, none, NONE, 1, rng())
    violation = posterior.lower_excess(grid, 0.5).clamp_min(0).sum(dim=1)
    value = score.value(grid, 0, NONE)
    assert 0 < int((violation > 0).sum()) < len(grid)
    torch.testing.assert_close(value[violation > 0], -violation[violation > 0])
    torch.testing.assert_close(value[violation == 0], posterior.log_feasible(grid)[violation == 0].exp())


@pytest.mark.parametrize("acquisition", [UCB(beta=1.0), Thompson()])
def test_the_rule_bound_keeps_to_the_optimistic_region_and_reaches_its_edge(data, posterior, acquisition):
    found = algorithm(acquisition, Bound(beta=1.0)).propose(posterior, data, NONE, SPACE, 1, rng())
    excess = posterior.lower_excess(torch.tensor(found.X), 1.0)[0]
    assert excess.max() <= 2e-6
    dense = torch.tensor(np.stack(np.meshgrid(*[np.linspace(-1, 1, 201)] * 2), axis=-1).reshape(-1, 2))
    score = Constraints(rule=Bound(beta=1.0)).score(acquisition, posterior, data, NONE, 1, rng())
    inside = (score.excess(dense, 0, NONE) <= 0).all(dim=1)
    best = score.value(dense[inside], 0, NONE).max()
    if isinstance(acquisition, UCB):  # the draws of Thompson sampling are others here
        assert found.value[0] >= best - 1e-6


@dataclass(frozen=True)
class Disc:
    """-|x - target|^2 within a disc of a radius about the origin."""

    target: tuple[float, float]
    radius: float

    @property
    def anchors(self):
        return torch.zeros(1, 2, dtype=torch.float64)

    def value(self, X, slot, chosen):
        return -(X - torch.tensor(self.target, dtype=X.dtype)).square().sum(dim=1)

    def excess(self, X, slot, chosen):
        return (X.square().sum(dim=1) - self.radius**2)[:, None]


@pytest.mark.parametrize("radius", [0.5, 0.02])
def test_a_bounded_score_is_maximised_on_its_boundary(radius):
    found = Multistart().maximize(Disc((0.6, 0.8), radius), SPACE, 1, rng())
    np.testing.assert_allclose(found.X[0], [0.6 * radius, 0.8 * radius], atol=1e-4)
    assert found.value[0] == pytest.approx(-((1 - radius) ** 2), abs=1e-4)


def test_a_bounded_score_is_kept_with_integers_and_linear_constraints():
    space = SearchSpace((Continuous("x", -1.0, 1.0), Integer("k", -4, 4)))  # k is encoded as k / 4
    found = Multistart().maximize(Disc((0.6, 0.8), 0.6), space, 1, rng())
    np.testing.assert_allclose(found.X[0], [np.sqrt(0.36 - 0.25), 0.5], atol=1e-5)


def test_where_a_bounded_score_counts_nowhere_the_least_excess_is_chosen_and_stated():
    @dataclass(frozen=True)
    class Nowhere(Disc):
        def excess(self, X, slot, chosen):
            return 1 + super().excess(X, slot, chosen)

    found = Multistart().maximize(Nowhere((0.6, 0.8), 0.0), SPACE, 1, rng())
    assert found.value[0] == pytest.approx(-1, abs=1e-2) and np.abs(found.X).max() < 0.1


def test_failed_designs_are_avoided_though_all_that_was_read_says_otherwise():
    failed = np.array([[-0.9, -0.9], [-0.8, -0.6], [-0.6, -0.9], [-0.95, -0.3], [-0.4, -0.95]])
    X = rng(1).uniform(-1, 1, (14, 2))
    X = X[X.sum(axis=1) > -0.8]
    seen = Observations(X, X.sum(axis=1), maximize=False)
    blind, wise = (replace(seen, failed=each) for each in (np.empty((0, 2)), failed))
    rule = algorithm(LogEI())
    blindly = rule.propose(rule.fit(blind, rng()), blind, NONE, SPACE, 1, rng()).X[0]
    posterior = rule.fit(wise, rng())
    wisely = rule.propose(posterior, wise, NONE, SPACE, 1, rng()).X[0]
    chance = posterior.log_feasible(torch.tensor(np.stack([blindly, wisely, *failed]))).exp().detach().numpy()
    assert blindly.sum() < wisely.sum() < X.sum(axis=1).min() + 0.2
    assert max(chance[0], *chance[2:]) < 0.5 and chance[0] < 0.5 * chance[1]


def test_failures_and_constraints_compose_with_an_information_gain(data):
    wise = replace(data, failed=np.array([[0.9, 0.9], [0.8, 0.95]]))
    rule = algorithm(MES())
    found = rule.propose(rule.fit(wise, rng()), wise, NONE, SPACE, 2, rng())
    assert found.X.shape == (2, 2) and np.isfinite(found.value).all()


def test_once_designs_fail_a_maximizer_that_proves_gives_way_to_one_that_keeps_away_from_them(data):
    seen = Observations(data.X, data.X.sum(axis=1), maximize=False)
    proven = algorithm(LogEI(), maximizer=Certified())
    assert proven.propose(proven.fit(seen, rng()), seen, NONE, SPACE, 1, rng()).certificates is not None
    near = np.array([[-0.99, -0.99], [-0.97, -0.9], [-0.9, -0.97], [-0.9, -0.9]])
    wise = replace(seen, failed=near)
    posterior = proven.fit(wise, rng())
    found = proven.propose(posterior, wise, NONE, SPACE, 1, rng())
    alike = algorithm(LogEI(), maximizer=Multistart()).propose(posterior, wise, NONE, SPACE, 1, rng())
    assert found.certificates is None and found.remarks["maximizer"].startswith("multistart: 4 designs have failed")
    np.testing.assert_array_equal(found.X, alike.X)


@pytest.mark.parametrize("n_exact", [30, 4])
def test_the_theorys_bounds_are_those_of_each_constraints_information_gain(data, n_exact):
    rule = algorithm(UCB(), Bound(beta="gamma"), surrogate=ExactGP(restarts=0, n_exact=n_exact, n_features=512))
    posterior = rule.fit(data, rng())
    widths = Bound(beta="gamma", norm=1.0, subgaussian=0.1, failure=0.1).widths(posterior, data)
    for own, width in zip(posterior.constraints, widths, strict=True):
        rows = own.model.rows if n_exact == 4 else None
        K = own.kernel(own.fit.X, own.fit.X) if rows is None else rows @ rows.mT
        noise = own.noise_variance if rows is None else own.model.noise
        gain = 0.5 * np.linalg.slogdet(np.eye(len(data)) + K.detach().numpy() / np.asarray(noise))[1]
        assert width == pytest.approx(1 + 0.1 * np.sqrt(gain + 2 + 2 * np.log(10)), rel=1e-6)


def test_a_stored_posterior_comes_back_to_the_bit(data, grid):
    wise = replace(data, failed=np.array([[0.9, 0.9], [0.8, 0.95]]))
    rule = algorithm(LogEI())
    made = rule.fit(wise, rng())
    back = rule.restore(wise, made.state())
    assert torch.equal(made.log_feasible(grid), back.log_feasible(grid))
    assert all(torch.equal(a, b) for a, b in zip(made.mean_var(grid), back.mean_var(grid), strict=True))
    assert made.metrics == back.metrics and {"constraint2.noise_sd", "hidden.output_sd"} <= made.metrics.keys()


def test_a_state_of_other_failures_is_refused(data, posterior):
    with pytest.raises(ValueError, match=r"The state is of data with digest .* fit again"):
        algorithm(LogEI()).restore(replace(data, failed=np.array([[0.9, 0.9]])), posterior.state())


def test_a_fit_interrupted_anywhere_goes_on_bit_for_bit():
    few, kept = observed(8), []
    rule = algorithm(LogEI(), surrogate=SampledNetwork(steps=30, width=4))

    def report(step, metrics, checkpoint):
        kept.append(checkpoint())

    whole = rule.fit(few, rng(), report=report).state()
    assert len(kept) >= 6
    for state in kept[:: len(kept) // 5]:
        again = rule.fit(few, rng(), state).state()
        assert again.keys() == whole.keys()
        assert all(torch.equal(again[name], whole[name]) for name in whole)


@pytest.mark.parametrize(
    "surrogate", [TangentNetwork(width=9), SampledNetwork(networks=2, width=9, steps=5, refinements=6)]
)
def test_outputs_that_are_fitted_together_are_those_fitted_one_by_one(surrogate, grid):
    few, started = observed(8), rng().integers(2**63 - 1, size=4).tolist()
    assert surrogate.at_once(few) >= 3
    together = algorithm(LogEI(), surrogate=surrogate).fit(few, rng())
    parts = (few.objective, few.constraint(0), few.constraint(1))
    for found, own, seed in zip((together.objective, *together.constraints), parts, started[:3], strict=True):
        alone = surrogate.fit(own, rng(seed), None, no_report)
        assert found.kept.keys() == alone.kept.keys() and found.metrics == pytest.approx(alone.metrics, rel=1e-9)
        for name, value in alone.kept.items():
            torch.testing.assert_close(found.kept[name], value, rtol=1e-8, atol=1e-10)
        for a, b in zip(
            (*found.mean_var(grid), found.draw(1, rng())[0](grid)),
            (*alone.mean_var(grid), alone.draw(1, rng())[0](grid)),
            strict=True,
        ):
            torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("n", "width", "most"), [(8, 64, 512), (8, 4096, 8), (256, 2, 4), (2000, 2, 1)])
def test_outputs_are_fitted_together_while_their_rows_and_matrices_are_small(n, width, most):
    assert TangentNetwork(width=width).at_once(observed(n)) == most
    assert SampledNetwork(networks=4, width=width).at_once(observed(n)) == max(1, most // 4)


def test_networks_over_images_are_trained_together_while_their_channels_are_few():
    X = rng().uniform(-1, 1, (16, 32 * 32))
    images = (ImageColumns(0, (32, 32)),)
    for channels, most in ((4, 4), (16, 1)):
        data = Observations(X, X[:, 0], maximize=False, images=images)
        assert TangentNetwork(network="convolution", width=64, channels=channels).at_once(data) == most


def test_a_fit_that_was_interrupted_while_the_objective_was_fitted_alone_goes_on(grid):
    few, kept, surrogate = observed(8), [], TangentNetwork(width=9)
    seed, *_ = rng().integers(2**63 - 1, size=4).tolist()
    surrogate.fit(few.objective, rng(seed), None, lambda step, metrics, checkpoint: kept.append(checkpoint()))
    state = {**stamped(few), **named("running.objective.", kept[4])}
    rule = algorithm(LogEI(), surrogate=surrogate)
    found, expected = rule.fit(few, rng(), state), rule.fit(few, rng())
    assert torch.equal(found.objective.kept["theta"], kept[-1]["theta"])
    for a, b in zip(
        (*found.mean_var(grid), *found.excess(grid)), (*expected.mean_var(grid), *expected.excess(grid)), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


def test_the_objective_learns_what_it_would_without_constraints(data):
    assert data.objective.digest == Observations(data.X, data.y, maximize=False).digest
    assert data.digest != data.objective.digest


def test_a_rule_that_multiplies_refuses_a_score_that_may_be_negative(data, posterior):
    with pytest.raises(ValueError, match=r"The rule `probability` multiplies .* use the rule `bound`"):
        algorithm(UCB(), Probability()).propose(posterior, data, NONE, SPACE, 1, rng())


@pytest.mark.parametrize("beta", [-1.0, float("nan")])
def test_a_bound_with_an_impossible_weight_is_refused(beta):
    with pytest.raises(ValueError, match=f"beta is {beta}: give a finite number"):
        Bound(beta=beta)


def test_constraints_that_do_not_fit_the_trials_are_refused():
    with pytest.raises(ValueError, match=r"constraints \(2, 1\) and failed \(0, 2\) do not fit 3 trials"):
        Observations(np.zeros((3, 2)), np.zeros(3), maximize=False, constraints=np.zeros((2, 1)))
    with pytest.raises(ValueError, match="constraints holds nan"):
        Observations(np.zeros((1, 2)), np.zeros(1), maximize=False, constraints=[[np.nan]])


def test_an_improvement_is_measured_from_the_best_reading_though_designs_beside_it_fail():
    near = np.array([[0.05, 0.0], [-0.05, 0.0], [0.0, 0.05], [0.0, -0.05]])
    seen = Observations(np.array([[0.0, 0.0], [0.9, 0.9]]), np.array([1.0, 2.0]), maximize=False, failed=near)
    posterior = algorithm(LogEI()).fit(seen, rng())
    assert posterior.believed_feasible(torch.tensor(seen.X)).tolist() == [False, True]
    assert float(best_belief(posterior, seen)[0]) < 0
    bounded = Constraints(rule=Bound()).score(UCB(), posterior, seen, NONE, 1, rng())
    assert torch.equal(bounded.anchors, torch.tensor(seen.X))


@pytest.mark.parametrize("maximizer", [Multistart(n_samples=256, n_starts=4), Certified(n_samples=256, n_starts=4)])
def test_what_is_believed_is_not_gained_again_right_beside_it(maximizer):
    X = rng(1).uniform(-1, 1, (14, 2))
    bowl = Observations(X, ((X - 0.3) ** 2).sum(axis=1), maximize=False, noise_sd=0.0)
    rule = algorithm(LogEI(), maximizer=maximizer)
    posterior = rule.fit(bowl, rng())
    batch = torch.tensor(rule.propose(posterior, bowl, NONE, SPACE, 3, rng(1)).X)
    assert torch.pdist(batch).min() > 1e-2
    rejected = batch[:2]
    again = torch.tensor(rule.propose(posterior, bowl, rejected, SPACE, 1, rng(1)).X)
    assert torch.cdist(again, rejected).min() > 1e-2
    assert incumbent(posterior, bowl, rejected) < incumbent(posterior, bowl, NONE)
    failed = replace(bowl, failed=rejected.numpy())  # they will never be had, and are no level to improve on
    assert incumbent(posterior, failed, rejected) == incumbent(posterior, bowl, NONE)
