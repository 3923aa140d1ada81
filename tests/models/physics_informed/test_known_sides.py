"""Conditions on sides of an equation's domain: exact rows of the joint process, known values of trained networks."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from fieldcraft.models.equations.functionals import joint_rows, side_rows
from fieldcraft.models.equations.residuals import linear_rows
from fieldcraft.models.observations import KnownSide, Observations, Physics, Scaling
from fieldcraft.models.physics_informed.joint_evidence import log_evidence
from fieldcraft.models.physics_informed.joint_posterior import condition, information
from fieldcraft.models.physics_informed.joint_process import Hyper, JointProcess
from fieldcraft.models.physics_informed.operator_kernels import Stationary
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.physics.operators import LinearEquation, LinearSystem, laplace

CENTER, HALF = np.array([2.0, -1.0]), np.array([1.5, 0.5])
LEFT, TOP = np.array([-1.0, 0.0]), np.array([0.0, 1.0])
SMALL = {"width": 16, "depth": 2, "activation": "tanh", "frequency": 1.0, "nu": 1.0, "refinements": 30}
KERNEL, NTK = PhysicsInformed("kernel"), PhysicsInformed("ntk", width=40, depth=2)


def cubic(p):
    x, y = p.T
    return 5.0 + (x**3 - 3 * x * y**2) - 2 * (x**2 - y**2) + x * y


def slope(p):
    """Gradient of ``cubic``, shape (n, 2)."""
    x, y = p.T
    return np.column_stack([3 * x**2 - 3 * y**2 - 4 * x + y, -6 * x * y + 4 * y + x])


def side(normal, value=1.0, flux=0.0, m=9, error=0.0):
    """The condition value f + flux df/dn = g of ``cubic`` on the side of the box with this normal."""
    along = np.linspace(-1, 1, m)[:, None]
    points = CENTER + HALF * (normal + along * (1 - np.abs(normal)))
    right = value * cubic(points) + flux * slope(points) @ normal + error
    return KnownSide(points, normal, right, value, flux)


def physics(*sides, equation=None, r=16, masked=False):
    Z = np.random.default_rng(2).uniform(-1, 1, (r, 2))
    return Physics(equation or laplace(2), CENTER + HALF * Z, CENTER, HALF, sides, masked)


def observed(known, n=5, maximize=True, noise_sd=0.0):
    X = np.random.default_rng(0).uniform(-1, 1, (n, 2))
    return Observations(X, cubic(CENTER + HALF * X), maximize=maximize, noise_sd=noise_sd, physics=known)


def rows_of(data):
    return joint_rows(data, data.physics, linear_rows(data.physics, data.scaling, data.physics.points))


def hyper(noise=-9.0, slack=-9.0):
    return Hyper.of(torch.tensor([-0.4, -0.5, 0.6, noise, slack], dtype=torch.float64), 1)


def fit(surrogate, data, start=None):
    return surrogate.fit(data, np.random.default_rng(1), start, no_report)


def in_physical_units(posterior, points):
    """Mean of the objective at physical points (n, 2), and its gradient by automatic differentiation."""
    X = torch.tensor((points - CENTER) / HALF, requires_grad=True)
    mean = posterior.mean_var(X)[0]
    (gradient,) = torch.autograd.grad(mean.sum(), X)
    scaling = posterior.scaling
    return scaling.to_physical(mean.detach().numpy()), scaling.sign * scaling.sd * gradient.numpy() / HALF


def error(posterior):
    """Root mean square error relative to the function's standard deviation, over the box."""
    P = CENTER + HALF * np.random.default_rng(99).uniform(-1, 1, (400, 2))
    return float(np.sqrt(np.mean((in_physical_units(posterior, P)[0] - cubic(P)) ** 2)) / cubic(P).std())


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_condition_in_the_learners_units_holds_for_the_scaled_solution(sign):
    known = physics(side(LEFT), side(TOP, 0.5, 2.0), side(-TOP, 0.0, -3.0, m=4))
    scaling = Scaling(mean=4.0, sd=2.5, sign=sign)
    rows = side_rows(known, scaling)
    assert len(rows) == 9 + 9 + 4
    P = known.decode(rows.points)
    target = sign * (cubic(P) - 4.0) / 2.5
    encoded = sign * slope(P) * HALF / 2.5
    found = rows.operator.zeroth * target + (rows.operator.first * encoded).sum(1)
    np.testing.assert_allclose(found, rows.source, rtol=1e-12, atol=1e-12)
    coefficients = np.column_stack([rows.operator.zeroth, rows.operator.first])
    np.testing.assert_allclose(np.abs(coefficients).max(axis=1), 1.0)


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize(("value", "flux"), [(1.0, 0.0), (0.0, 1.0), (2.0, -0.5)])
@pytest.mark.parametrize("surrogate", [KERNEL, NTK], ids=["kernel", "ntk"])
def test_the_posterior_satisfies_a_condition_on_a_value_a_flux_or_both(surrogate, value, flux, maximize):
    known = side(TOP, value, flux)
    posterior = fit(surrogate, observed(physics(known), maximize=maximize))
    mean, gradient = in_physical_units(posterior, known.points)
    found = value * mean + flux * gradient @ TOP
    assert np.max(np.abs(found - known.right)) < 0.02 * np.std(cubic(CENTER + HALF * observed(physics()).X))


@pytest.mark.parametrize("surrogate", [KERNEL, NTK], ids=["kernel", "ntk"])
def test_what_is_known_on_two_sides_makes_the_prediction_better(surrogate):
    untold, told = (error(fit(surrogate, observed(physics(*sides)))) for sides in ((), (side(LEFT), side(TOP))))
    assert told < 0.3 * untold


def test_a_known_side_leaves_no_variance_there_and_raises_it_nowhere():
    process, P = JointProcess((Stationary("rbf"),), hyper()), torch.tensor(side(TOP).points)
    found = []
    for sides in ((), (side(TOP),)):
        data = observed(physics(*sides))
        posterior = condition(process, rows_of(data), data.scaling, {}, {}, {})
        at = [
            (P - torch.from_numpy(CENTER)) / torch.from_numpy(HALF),
            torch.from_numpy(2 * np.random.default_rng(4).random((90, 2)) - 1),
        ]
        found.append([posterior.mean_var(X)[1] for X in at])
    (before, around), (after, inside) = found
    assert float(after.max()) < 3e-6 * float(process.variance(P).max()) < 1e-3 * float(before.max())
    assert bool((inside <= around + 1e-9).all()) and float(inside.mean()) < 0.5 * float(around.mean())


def test_the_evidence_is_the_density_of_the_results_given_equation_and_sides():
    rows, process = rows_of(observed(physics(side(LEFT, 1.0, 0.3)))), JointProcess((Stationary("rbf"),), hyper(-4, -6))
    assert (rows.equations, rows.known, rows.facts, len(rows)) == (16, 9, 25, 30)
    covariance = process.gram(rows.fields, rows.fields) + torch.diag(process.noises(rows))
    targets = rows.targets.numpy()
    joint = multivariate_normal(np.zeros(30), covariance.numpy()).logpdf(targets)
    facts = multivariate_normal(np.zeros(25), covariance[:25, :25].numpy()).logpdf(targets[:25])
    assert float(log_evidence(process, rows)) == pytest.approx(joint - facts, rel=1e-6)


def test_a_result_that_is_left_out_is_foretold_from_the_sides_too():
    data = observed(physics(side(LEFT), side(TOP)), n=3, noise_sd=0.05)
    process, rows = JointProcess((Stationary("rbf"),), hyper(-4)), rows_of(data)
    found = condition(process, rows, data.scaling, {}, {}, {}).log_predictive()
    assert found.shape == (3,)
    covariance = (process.gram(rows.fields, rows.fields) + torch.diag(process.noises(rows))).numpy()
    for i in range(3):
        rest = np.delete(np.arange(len(rows)), rows.facts + i)
        gain = np.linalg.solve(covariance[np.ix_(rest, rest)], covariance[rest, rows.facts + i])
        mean, var = gain @ rows.targets.numpy()[rest], covariance[rows.facts + i, rows.facts + i]
        var = var - gain @ covariance[rest, rows.facts + i]
        expected = -0.5 * ((data.targets[i] - mean) ** 2 / var + np.log(2 * np.pi * var))
        assert float(found[i]) == pytest.approx(expected, rel=1e-5)


def test_the_information_shared_with_known_sides_is_that_of_their_own_noise():
    rows, process = rows_of(observed(physics(side(LEFT)))), JointProcess((Stationary("rbf"),), hyper(-4, -6))
    joint, noises, r = process.gram(rows.fields, rows.fields), process.noises(rows), rows.facts

    def entropy(part):
        return 0.5 * float(
            torch.logdet(
                torch.eye(len(noises[part])) + joint[part, part] / noises[part].sqrt() / noises[part].sqrt()[:, None]
            )
        )

    expected = entropy(slice(r, None)) + entropy(slice(0, r)) - entropy(slice(0, None))
    assert information(process, rows)["interaction"] == pytest.approx(expected, rel=1e-6)


def test_a_side_of_the_objective_says_nothing_of_an_auxiliary_field_by_itself():
    flat, bend = LinearEquation(0.0, (0.0,), ((1.0,),)), LinearEquation(-1.0, (0.0,), ((0.0,),))
    line, end = np.linspace(0, 1, 7)[:, None], np.array([[1.0]])
    known = KnownSide(end, np.array([1.0]), np.array([1.5]))
    told = Physics(LinearSystem(((flat, bend), (None, flat)), (1.0,)), line, np.array([0.5]), np.array([0.5]), (known,))
    data = Observations(np.array([[-1.0], [0.0]]), np.array([0.5, 0.8]), maximize=False, noise_sd=0.0, physics=told)
    rows = rows_of(data)
    objective, auxiliary = rows.fields
    at = slice(rows.equations, rows.facts)
    assert objective.zeroth[at].tolist() == [1.0] and not objective.slopes[at].any()
    assert not auxiliary.zeroth[at].any() and not auxiliary.slopes[at].any() and not auxiliary.bends[at].any()
    posterior = fit(KERNEL, data)
    mean = posterior.scaling.to_physical(posterior.mean_var(torch.tensor([[1.0]]).double())[0].numpy())
    assert mean[0] == pytest.approx(1.5, abs=1e-3)


@pytest.mark.parametrize("exact_draw", [True, False])
def test_networks_learn_known_values_as_results_that_were_not_measured(exact_draw):
    surrogate = PhysicsInformed("trained", **SMALL, weight=1.0, exact_draw=exact_draw)
    sides = side(LEFT), side(TOP)
    untold, told = (fit(surrogate, observed(physics(*known))) for known in ((), sides))
    assert error(told) < 0.5 * error(untold)
    assert told.metrics["misfit"] < 0.05
    missed = [in_physical_units(told, each.points)[0] - each.right for each in sides]
    assert np.max(np.abs(missed)) < 0.3


def test_an_equation_that_is_not_linear_has_conditions_too():
    class Eikonal:
        linear = False

        def operator(self, points, jet):
            return (jet.gradient**2).sum(1)

        def source(self, points):
            x, y = points[:, 0], points[:, 1]
            return (3 * x**2 - 3 * y**2 - 4 * x + y) ** 2 + (-6 * x * y + 4 * y + x) ** 2

    known = physics(side(LEFT), side(TOP), equation=Eikonal())
    posterior = fit(NTK, observed(known))
    mean, _ = in_physical_units(posterior, side(TOP).points)
    assert np.max(np.abs(mean - side(TOP).right)) < 0.05
    with pytest.raises(ValueError, match="engine kernel needs a linear one"):
        KERNEL.refuse(known)


@pytest.mark.parametrize(
    ("surrogate", "known", "message"),
    [
        (
            PhysicsInformed("trained"),
            physics(side(LEFT, 0.0, 1.0)),
            "A condition has a slope.*use engine kernel or ntk",
        ),
        (
            PhysicsInformed("trained"),
            physics(side(LEFT, 1.0, 1.0)),
            "A condition has a slope.*use engine kernel or ntk",
        ),
        (PhysicsInformed("basis"), physics(side(LEFT)), "states conditions or a mask: use engine kernel"),
        (PhysicsInformed("basis"), physics(masked=True), "states conditions or a mask: use engine kernel"),
    ],
)
def test_an_engine_that_cannot_learn_from_what_is_known_refuses_it(surrogate, known, message):
    with pytest.raises(ValueError, match=message):
        surrogate.refuse(known)
    with pytest.raises(ValueError, match=message):
        fit(surrogate, observed(known))


def test_auto_leaves_out_the_engine_that_cannot_learn_from_conditions():
    chosen = Auto(candidates=("exact_gp", "physics_informed/basis", "physics_informed/kernel"))
    chosen.refuse(physics(side(LEFT)))
    posterior = fit(chosen, observed(physics(side(LEFT), side(TOP)), n=8))
    assert posterior.remarks["chosen"] == "physics_informed/kernel"
    assert "score.physics_informed/basis" not in posterior.metrics


def test_a_masked_domain_has_the_rougher_covariance():
    posteriors = [fit(KERNEL, observed(physics(masked=masked))) for masked in (False, True)]
    assert [posterior.process.covariances[0].kind for posterior in posteriors] == ["rbf", "matern52"]
    asked = fit(PhysicsInformed("kernel", kernel="rbf"), observed(physics(masked=True)))
    assert asked.process.covariances[0].kind == "rbf"


@pytest.mark.parametrize(
    "surrogate", [KERNEL, NTK, PhysicsInformed("trained", **SMALL)], ids=["kernel", "ntk", "trained"]
)
def test_a_restored_posterior_with_conditions_is_identical_to_the_bit(surrogate):
    data = observed(physics(side(LEFT)))
    first = fit(surrogate, data)
    again = surrogate.restore(data, first.state())
    X = torch.from_numpy(np.random.default_rng(3).uniform(-1, 1, (30, 2)))
    for one, other in zip(first.mean_var(X), again.mean_var(X), strict=True):
        assert torch.equal(one, other)
    (one,), (other,) = (posterior.draw(1, np.random.default_rng(5)) for posterior in (first, again))
    assert torch.equal(one(X), other(X))


def test_a_draw_keeps_the_condition_and_a_pending_design_too():
    known = side(TOP)
    posterior = fit(KERNEL, observed(physics(known)))
    at = torch.from_numpy((known.points - CENTER) / HALF)
    pending = posterior.fantasize(torch.tensor([[0.5, -0.5]]).double())
    for each in (posterior, pending):
        (draw,) = each.draw(1, np.random.default_rng(0))
        assert np.max(np.abs(each.scaling.to_physical(draw(at).detach().numpy()) - known.right)) < 0.05


@pytest.mark.parametrize(
    "other", [side(LEFT, error=0.1), side(LEFT, m=5), KnownSide(side(TOP).points, LEFT, side(LEFT).right)]
)
def test_points_and_values_of_a_side_are_part_of_the_digest(other):
    digests = {observed(physics(*sides)).digest for sides in ((), (side(LEFT),), (other,), (side(LEFT), other))}
    assert len(digests) == 4


def test_memory_counts_the_points_of_sides():
    small = PhysicsInformed("kernel", memory_gb=60 * 21**2 * 8 / 1e9)
    fit(small, observed(physics()))
    with pytest.raises(ValueError, match=r"Conditioning on 5 trials and 25 rows of the equation and its known sides"):
        fit(small, observed(physics(side(LEFT))))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: KnownSide(np.zeros((3, 2)), np.zeros(3), np.zeros(3)), r"points \(3, 2\), normal \(3,\)"),
        (lambda: KnownSide(np.zeros((3, 2)), LEFT, np.zeros(2)), r"right \(2,\)"),
        (lambda: KnownSide(np.zeros((3, 2)), LEFT, np.zeros(3), 0.0, 0.0), "not both 0"),
        (lambda: KnownSide(np.zeros((1, 2)), LEFT, np.full(1, np.nan)), "KnownSide.right holds nan"),
        (lambda: physics(KnownSide(np.zeros((1, 1)), np.ones(1), np.zeros(1))), "the same number of coordinates"),
    ],
)
def test_a_side_that_cannot_be_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
