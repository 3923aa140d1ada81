from dataclasses import dataclass, replace

import numpy as np
import pytest

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.space import Continuous, SearchSpace


@dataclass(frozen=True)
class Echo:
    """A rival that proposes what it is told of as pending, moved by ``step``."""

    step: float = 0.1

    def suggest(self, data, pending, space, q, rng):
        return pending[:q] + self.step


SPACE = SearchSpace((Continuous("x", -1.0, 1.0), Continuous("y", 0.0, 4.0)))
START_ONLY = Algorithm(initial=Sobol(), n_initial=5)
GP_EI = Algorithm(
    initial=Sobol(),
    n_initial=5,
    surrogate=ExactGP(restarts=0),
    acquisition=LogEI(),
    maximizer=Multistart(n_samples=128, n_starts=4),
)


def rng(seed=7):
    return np.random.default_rng(seed)


def objective(X):
    """Greatest, 10, at (0.3, -0.4) in encoded coordinates."""
    return 10 - ((np.asarray(X) - [0.3, -0.4]) ** 2).sum(axis=1)


def observed(n):
    X = GP_EI.initial.propose(SPACE, 0, n, rng())
    return Observations(X=X, y=objective(X), maximize=True)


@dataclass(frozen=True)
class Strange:
    """A start that gives what it is told to."""

    answer: object

    def propose(self, space, start, n, rng):
        return self.answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, r"Strange gave designs a NoneType: 'propose' returns an array of numbers \(2, 2\)"),
        (np.zeros(2), r"Strange gave designs of the shape \(2,\) and the type float64"),
        (np.array([["a", "b"]] * 2), r"Strange gave designs of the shape \(2, 2\) and the type <U1"),
        (np.array([[0, 0], [0, 7.0]]), r"Strange gave 7\.0 for coordinate 1 of design 1: encoded .* lie in \[-1, 1\]"),
        (np.array([[0, np.nan], [0, 0]]), "Strange gave nan for coordinate 1 of design 0"),
    ],
)
def test_a_start_that_gives_no_designs_is_named_with_what_it_gave(answer, said):
    with pytest.raises(ValueError, match=said):
        Algorithm(initial=Strange(answer), n_initial=2).begin(SPACE, 0, 2, rng())


def test_without_a_surrogate_there_is_nothing_to_fit():
    with pytest.raises(ValueError, match="This algorithm has no surrogate"):
        START_ONLY.fit(observed(5), rng())


def test_a_campaign_finds_the_optimum_of_a_smooth_function():
    data = observed(5)
    for i in range(8):
        posterior = GP_EI.fit(data, rng(i))
        X = GP_EI.propose(posterior, data, np.empty((0, 2)), SPACE, 1, rng(i)).X
        data = Observations(X=np.vstack([data.X, X]), y=np.append(data.y, objective(X)), maximize=True)
    assert data.y[:5].max() < 9.95
    assert data.y.max() > 9.99


def test_a_restored_posterior_proposes_the_same_batch_bit_for_bit():
    data = observed(6)
    posterior = GP_EI.fit(data, rng(1))
    pending = SPACE.sample(2, rng(2))
    batch = GP_EI.propose(posterior, data, pending, SPACE, 3, rng(3))
    again = GP_EI.propose(GP_EI.restore(data, posterior.state()), data, pending, SPACE, 3, rng(3))
    np.testing.assert_array_equal(batch.X, again.X)
    np.testing.assert_array_equal(batch.value, again.value)


def test_pending_designs_are_avoided():
    data = observed(6)
    posterior = GP_EI.fit(data, rng(1))
    first = GP_EI.propose(posterior, data, [], SPACE, 1, rng(3)).X
    second = GP_EI.propose(posterior, data, first, SPACE, 1, rng(3)).X
    assert np.linalg.norm(first - second) > 0.05


def test_two_words_are_no_algorithm():
    with pytest.raises(ValueError, match="The algorithm has no maximizer: give surrogate, acquisition and maximizer"):
        Algorithm(initial=Sobol(), n_initial=5, surrogate=ExactGP(), acquisition=LogEI())


def test_a_model_needs_a_start():
    with pytest.raises(ValueError, match="n_initial is 0: at least one design must come before any model"):
        Algorithm(initial=Sobol(), n_initial=0)


def test_designs_of_a_rival_are_repaired():
    algorithm = Algorithm(initial=Sobol(), n_initial=5, peer=Echo(step=2.0))
    X = algorithm.suggest(observed(5), [[0.5, -0.5], [0.0, -1.5]], SPACE, 2, rng())
    np.testing.assert_array_equal(X, [[1.0, 1.0], [1.0, 0.5]])


def test_a_rival_that_asks_again_for_a_design_that_failed_gets_another():
    data = replace(observed(5), failed=np.array([[0.6, -0.4]]))
    algorithm = Algorithm(initial=Sobol(), n_initial=5, peer=Echo())
    X = algorithm.suggest(data, [[0.5, -0.5]], SPACE, 1, rng())
    assert np.abs(X - data.failed).max() > 1e-3
    assert np.abs(X - data.failed).max() < 0.2


def test_a_rival_that_gives_too_few_designs_is_refused():
    with pytest.raises(ValueError, match=r"The rival gave designs of the shape \(1, 2\), not \(2, 2\)"):
        Algorithm(initial=Sobol(), n_initial=5, peer=Echo()).suggest(observed(5), [[0.5, -0.5]], SPACE, 2, rng())


def test_only_a_rival_can_be_asked_for_suggestions():
    with pytest.raises(ValueError, match="This algorithm has no rival: use `fit` and `propose`, or `initial`"):
        GP_EI.suggest(observed(5), [], SPACE, 1, rng())


def test_a_rival_beside_the_three_words_is_refused():
    with pytest.raises(ValueError, match="a rival and surrogate and acquisition and maximizer beside it: a rival is"):
        Algorithm(Sobol(), 5, ExactGP(), LogEI(), Multistart(), peer=Echo())
