"""The evidence of stationary covariances in closed form, against its definition and automatic differentiation."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fieldcraft.models.equations.functionals import Functionals, JointRows, joint_rows
from fieldcraft.models.equations.residuals import linear_rows
from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.physics_informed.joint_evidence import Belief, choose_hyper, log_evidence
from fieldcraft.models.physics_informed.joint_process import Hyper, JointProcess
from fieldcraft.models.physics_informed.operator_kernels import Stationary
from fieldcraft.models.physics_informed.pair_evidence import PairEvidence
from fieldcraft.physics.operators import LinearEquation, laplace

EQUATIONS, SIDES, RESULTS = 5, 3, 4
FACTS = EQUATIONS + SIDES


def drawn(rng, *shape):
    return torch.from_numpy(rng.standard_normal(shape))


def any_rows(d, fields, seed=0):
    """Rows of an equation with all its terms, of conditions of first order, and of results, of several fields."""
    rng, n = np.random.default_rng(seed), FACTS + RESULTS
    made = []
    for field in range(fields):
        zeroth, first, second = drawn(rng, n), drawn(rng, n, d), drawn(rng, n, d, d)
        zeroth[FACTS:], first[FACTS:], second[EQUATIONS:] = float(field == 0), 0.0, 0.0
        if field:
            zeroth[EQUATIONS:], first[EQUATIONS:] = 0.0, 0.0
        made.append(Functionals(drawn(rng, n, d), zeroth, first, second + second.mT))
    return JointRows(tuple(made), drawn(rng, n), EQUATIONS, SIDES)


def unmixed(rows):
    """The same rows without mixed derivatives."""
    kept = (replace(field, second=field.second.diagonal(dim1=1, dim2=2).diag_embed()) for field in rows.fields)
    return replace(rows, fields=tuple(kept))


def chained(rows):
    """The same rows without the mixed derivatives by the first and the last variable."""
    made = []
    for field in rows.fields:
        second = field.second.clone()
        second[:, 0, -1] = second[:, -1, 0] = 0.0
        made.append(replace(field, second=second))
    return replace(rows, fields=tuple(made))


def flat(d, fields, seed=1):
    start = np.concatenate([np.full(fields * d, -0.3), np.full(fields, 0.4), [-3.0, -5.0]])
    return start + 0.3 * np.random.default_rng(seed).standard_normal(len(start))


def automatic(covariance, rows, at):
    """log p(y | u) and its derivative by the hyper-parameters, as defined."""
    x, fields = torch.tensor(at, requires_grad=True), len(rows.fields)
    value = log_evidence(JointProcess((covariance,) * fields, Hyper.of(x, fields)), rows)
    return value.item(), torch.autograd.grad(value, x)[0]


@pytest.mark.parametrize("level", [0.0, 2.5])
@pytest.mark.parametrize("kind", ["rbf", "matern52"])
@pytest.mark.parametrize("size", [0.1, 30.0], ids=["as expected", "too large"])
@pytest.mark.parametrize(
    ("d", "fields", "changed"),
    [(1, 1, None), (2, 2, None), (3, 1, None), (3, 1, chained), (3, 1, unmixed), (12, 2, unmixed)],
)
def test_value_and_gradient_are_those_of_automatic_differentiation(kind, level, size, d, fields, changed):
    rows, at, covariance = any_rows(d, fields), flat(d, fields), Stationary(kind, level)
    rows = changed(rows) if changed else rows
    rows = replace(rows, targets=torch.cat([size * rows.targets[:EQUATIONS], rows.targets[EQUATIONS:]]))
    value, slope = PairEvidence.of((covariance,) * fields, rows)(Hyper.of(torch.from_numpy(at), fields))
    expected, by = automatic(covariance, rows, at)
    assert value == pytest.approx(expected, rel=1e-12, abs=1e-9)
    found = torch.cat([slope.scales.ravel(), slope.sds, slope.noise[None], slope.slack[None]])
    torch.testing.assert_close(found, by, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("size", [0.0, 0.5, 3.0, 40.0])
def test_rows_of_an_equation_count_by_what_they_are_larger_than_expected(size):
    """Far from the results they say nothing of these, so that the rest of the evidence stays."""
    rows, at = unmixed(any_rows(2, 1)), flat(2, 1)
    (field,) = rows.fields
    away = torch.where(torch.arange(len(rows)) < FACTS, 0.0, 1e3)[:, None].double()
    rows = replace(rows, fields=(replace(field, points=field.points + away),))
    hyper = Hyper.of(torch.from_numpy(at), 1)
    process = JointProcess((Stationary("rbf"),), hyper)

    def evidence(size):
        return float(log_evidence(process, replace(rows, targets=torch.cat([size * u, rows.targets[EQUATIONS:]]))))

    u = rows.targets[:EQUATIONS]
    S = (process.gram(rows.fields, rows.fields) + process.noises(rows).diag())[:EQUATIONS, :EQUATIONS]
    excess = size**2 * float(u @ torch.linalg.solve(S, u)) - EQUATIONS
    assert evidence(size) - evidence(0.0) == pytest.approx(-0.5 * max(excess, 0.0), abs=1e-8)


@pytest.mark.parametrize("kind", ["rbf", "matern52"])
def test_rows_at_one_place_have_finite_gradients(kind):
    rows = any_rows(2, 1)
    (field,) = rows.fields
    points = field.points.clone()
    points[1], points[FACTS] = points[0], points[0]
    rows = replace(rows, fields=(replace(field, points=points),))
    value, slope = PairEvidence.of((Stationary(kind),), rows)(Hyper.of(torch.from_numpy(flat(2, 1)), 1))
    expected, by = automatic(Stationary(kind), rows, flat(2, 1))
    assert value == pytest.approx(expected, abs=1e-9)
    torch.testing.assert_close(slope.scales.ravel(), by[:2], rtol=1e-7, atol=1e-8)


def test_an_equation_of_constant_coefficients_has_few_polynomials():
    X = np.random.default_rng(2).uniform(-1, 1, (9, 2))
    physics = Physics(laplace(2), X[:6], np.zeros(2), np.ones(2))
    data = Observations(X[6:], X[6:, 0] * X[6:, 1], maximize=False, physics=physics)
    rows = joint_rows(data, physics, linear_rows(physics, data.scaling, physics.points))
    counts = {}
    for kind in ("rbf", "matern52"):
        (pairs,) = PairEvidence.of((Stationary(kind),), rows).fields
        counts[kind] = {name: len(planes) for name, planes in pairs.coefficients.items()}
    assert counts["rbf"] == {"squares": 2, "left": 4, "right": 4, "rest": 6}
    assert counts["matern52"] == {"squares": 2, "l": 2, "m": 2, "e": 2, "s": 2, "s_right": 2, "f": 2, "u": 2}


def mixed(d):
    """Laplace's equation with a mixed derivative, which x1^2 - x2^2 satisfies, too."""
    second = np.eye(d)
    second[0, 1] = second[1, 0] = 0.25
    return LinearEquation(0.0, (0.0,) * d, tuple(map(tuple, second.tolist())))


def told(equation, d):
    """Rows of an equation at 8 points and of 10 results."""
    rng = np.random.default_rng(3)
    X, Z = rng.uniform(-1, 1, (10, d)), rng.uniform(-1, 1, (8, d))
    physics = Physics(equation, Z, np.zeros(d), np.ones(d))
    data = Observations(X, X[:, 0] ** 2 - X[:, 1] ** 2, maximize=False, physics=physics)
    return joint_rows(data, physics, linear_rows(physics, data.scaling, Z))


EQUATIONS_OF_D = [(laplace, 2, True), (mixed, 3, True), (laplace, 20, True), (mixed, 4, False)]


@pytest.mark.parametrize(("equation", "d", "closed"), EQUATIONS_OF_D)
def test_a_closed_form_is_used_in_few_variables_or_without_mixed_derivatives(equation, d, closed):
    rows = told(equation(d), d)
    assert PairEvidence.suits(rows) == closed
    planes = sum(map(len, PairEvidence.of((Stationary("matern52"),), rows).fields[0].coefficients.values()))
    assert planes == 8 * d or equation is mixed


@pytest.mark.parametrize(("equation", "d"), [(equation, d) for equation, d, _ in EQUATIONS_OF_D])
def test_hyper_parameters_found_are_stationary(equation, d):
    rows = told(equation(d), d)
    belief = Belief(scales=(0.0, 1.0), starts=((0.0, 0.0),))
    found, evidence = choose_hyper((Stationary("rbf"),), rows, (belief,), 1e-4)
    at = torch.cat([found.scales.ravel(), found.sds, found.noise[None], found.slack[None]]).numpy()
    value, by = automatic(Stationary("rbf"), rows, at)
    prior = belief.slope(found)
    assert evidence == pytest.approx(value)
    assert float((by[:d] + prior.scales[0]).abs().max()) < 0.05
