"""Results that give only some of several objectives: what learns from them, and what counts them as none."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisitions.log_ehvi import LogEHVI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.coordinates.model_coordinates import ModelCoordinates
from fieldcraft.models.feasibility.constrained import about_objective
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Aim, Observations, PartialResults
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.scoring.hypervolume import believed_front
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.tangent_network import TangentNetwork
from fieldcraft.physics.space import Continuous, Exchangeable, SearchSpace

NAN = np.nan
NONE = np.empty((0, 2))
SPACE = SearchSpace((Continuous("x", -1.0, 1.0), Continuous("y", -1.0, 1.0)))
X = np.random.default_rng(3).uniform(-1, 1, (12, 2))
MORE = np.array([[0.3, -0.4], [-0.8, 0.9], [0.1, 0.2]])
# The first gives one objective, the second the other and the constraint, the third the constraint alone.
PART = PartialResults(MORE, [[-0.1, NAN, NAN], [NAN, 3.24, -0.95], [NAN, NAN, 0.45]])


def whole(**more):
    """f = x + y, a second number that falls with x, and a constraint that is met outside a disc."""
    given = {
        "further": (1 - X[:, :1]) ** 2,
        "constraints": 0.5 - (X**2).sum(axis=1, keepdims=True),
        "aims": (Aim(False, 2.0), Aim(False, 2.0)),
    }
    return Observations(X, X.sum(axis=1), maximize=False, **{**given, **more})


def fitted(data, surrogate=None, start=None, report=None):
    algorithm = Algorithm(Sobol(), 1, surrogate or ExactGP(restarts=0), LogEHVI(), Multistart())
    more = {} if report is None else {"report": report}
    return algorithm.fit(data, np.random.default_rng(0), start, **more)


def test_each_output_is_learnt_from_all_results_that_give_it():
    data = whole(partial=PART)
    parts = (data.objective_of(0), data.objective_of(1), data.constraint(0))
    for k, (own, rows) in enumerate(zip(parts, ([0], [1], [1, 2]), strict=True)):
        before = (whole().objective_of(0), whole().objective_of(1), whole().constraint(0))[k]
        assert np.array_equal(own.X, np.vstack([X, MORE[rows]])) and own.partial is None
        assert np.array_equal(own.y, [*before.y, *PART.Y[rows, k]])
    assert len(data) == 12 and data.digest != whole().digest


def test_standard_deviations_of_parts_are_learnt_and_missing_ones_are_fitted():
    sds = np.array([[0.1, NAN, NAN], [NAN, NAN, 0.3], [NAN, NAN, NAN]])
    own = whole(partial=replace(PART, sds=sds), sds=np.full((12, 3), 0.2))
    assert own.objective_of(0).sds[:, 0].tolist() == [0.2] * 12 + [0.1]
    np.testing.assert_array_equal(own.constraint(0).sds[:, 0], [0.2] * 12 + [0.3, NAN])
    assert whole(partial=replace(PART, sds=sds)).objective_of(1).sds.size == 0


def test_gradients_of_parts_are_unknown():
    own = whole(partial=PART, gradients=np.ones((12, 2))).objective_of(0)
    assert np.isnan(own.gradients[12:]).all() and (own.gradients[:12] == 1).all()


@pytest.mark.parametrize("exact", [False, True])
def test_a_part_moves_the_belief_about_its_objective_and_leaves_the_others(exact):
    before, after = (about_objective(fitted(whole(exact=exact, partial=part))) for part in (None, PART))
    at = torch.tensor(MORE)
    for k, row in enumerate(([0], [1])):
        own, was = after.parts[k], before.parts[k]
        read = float(own.scaling.to_target(float(PART.Y[row[0], k])))
        mean, variance = own.mean_var(at[row])
        assert abs(float(mean[0]) - read) < 1e-2 and float(variance[0]) < 1e-3
        assert float(was.mean_var(at[row])[1][0]) > 2 * float(variance[0])
    alone = PartialResults(MORE[:1], PART.Y[:1])
    only = about_objective(fitted(whole(exact=exact, partial=alone)))
    assert torch.equal(only.parts[1].mean_var(at)[0], before.parts[1].mean_var(at)[0])


def test_a_part_is_no_point_of_the_front_however_good_it_is():
    best = PartialResults([[0.0, 0.0]], [[-50.0, NAN, NAN]])
    data = whole(partial=best)
    posterior = fitted(data)
    front = believed_front(posterior, data, torch.empty(0, 2, dtype=torch.float64))
    means = about_objective(posterior).means(torch.tensor(X))
    assert all((row == means).all(dim=1).any() for row in front)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("surrogate", [ExactGP(restarts=0), TangentNetwork(width=12, refinements=2)])
def test_designs_are_proposed_beside_one_that_is_known_in_part(surrogate, exact):
    data = whole(exact=exact, space=SPACE, partial=PART)
    algorithm = Algorithm(Sobol(), 1, surrogate, LogEHVI(), Multistart(n_samples=32, n_starts=2))
    posterior = algorithm.fit(data, np.random.default_rng(0))
    kept = algorithm.restore(data, posterior.state())
    found, again = (algorithm.propose(p, data, MORE, SPACE, 2, np.random.default_rng(1)) for p in (posterior, kept))
    assert np.isfinite(found.value).all() and np.array_equal(found.X, again.X)
    assert np.abs(found.X[:, None] - MORE[None]).max(axis=2).min() > 1e-9


def test_networks_that_are_fitted_together_are_fitted_apart_where_their_designs_differ():
    surrogate = TangentNetwork(width=12, refinements=2)
    data = whole(partial=PartialResults(MORE[:1], [[-0.1, NAN, NAN]]))
    labels = set()

    def report(step, metrics, checkpoint):
        labels.update(key.split(".")[1] for key in checkpoint() if key.startswith("running."))

    posterior = fitted(data, surrogate, report=report)
    assert "objective" in labels and not any(label.endswith("-objective") for label in labels)
    assert len(about_objective(posterior).parts) == 2


def test_a_fit_that_was_interrupted_goes_on_to_the_same_bits():
    data, saved = whole(partial=PART), []
    surrogate = TangentNetwork(width=12, refinements=6)
    straight = fitted(data, surrogate, report=lambda step, metrics, checkpoint: saved.append(checkpoint()))
    resumed = fitted(data, surrogate, start=saved[len(saved) // 2])
    for one, other in zip(straight.state().items(), resumed.state().items(), strict=True):
        assert one[0] == other[0] and torch.equal(one[1], other[1])
    with pytest.raises(ValueError, match="these data have"):
        fitted(whole(), surrogate, start=saved[0])


def test_parts_are_seen_around_a_period_and_in_all_orders_of_exchangeable_blocks():
    variables = (Continuous("a", 0.0, 1.0, periodic=True), Continuous("x", -1.0, 1.0), Continuous("y", -1.0, 1.0))
    space = SearchSpace(variables, exchangeable=(Exchangeable((("x",), ("y",))),))
    data = Observations(
        np.random.default_rng(1).uniform(-1, 1, (5, 3)),
        np.arange(5.0),
        maximize=False,
        aims=(Aim(False), Aim(False)),
        further=np.arange(5.0)[:, None],
        space=space,
        partial=PartialResults([[0.5, 0.1, 0.2]], [[3.0, NAN]], [[0.1, NAN]]),
    )
    seen = ModelCoordinates.of(space).taught(data)
    angle = [np.cos(0.5 * np.pi), np.sin(0.5 * np.pi)]
    np.testing.assert_allclose(sorted(seen.partial.X.tolist()), [[*angle, 0.1, 0.2], [*angle, 0.2, 0.1]], atol=1e-15)
    assert seen.partial.Y[:, 0].tolist() == [3.0, 3.0] and seen.partial.sds[:, 0].tolist() == [0.1, 0.1]
    first, second = about_objective(fitted(data)).parts
    one, turned = torch.tensor([[0.5, 0.1, 0.2]]).double(), torch.tensor([[-1.5, 0.2, 0.1]]).double()
    assert float(first.scaling.to_physical(first.mean_var(one)[0].numpy())[0]) == pytest.approx(3.0, abs=0.3)
    torch.testing.assert_close(second.mean_var(one)[0], second.mean_var(turned)[0])


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: PartialResults(MORE, PART.Y[:2]), r"X \(3, 2\), Y \(2, 3\).*do not fit"),
        (lambda: PartialResults(MORE[:1], [[NAN, NAN, NAN]]), "gives no output: leave it out"),
        (lambda: PartialResults(MORE[:1], [[np.inf, NAN, NAN]]), "A partial result is infinite"),
        (lambda: whole(partial=PartialResults(MORE[:1], [[1.0, NAN]])), "and 3 outputs of several objectives"),
        (lambda: whole(partial=PART, aims=(), further=NONE), "and 0 outputs of several objectives"),
    ],
)
def test_parts_that_do_not_fit_are_refused(made, message):
    with pytest.raises(ValueError, match=message):
        made()
