"""Designs of the next best models, where the best one would only repeat itself."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.constraints import Constraints
from fieldcraft.models.coordinates.model_coordinates import ModelCoordinates
from fieldcraft.models.levels.choice import levelled
from fieldcraft.models.maximizer import Candidates, Certificate
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import LevelResults, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.scoring.second_opinion import ENOUGH, NEAR, SURE, advised, repeats
from fieldcraft.models.selection.contest import Chosen, Contest
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.space import Continuous, Integer, SearchSpace

PLACE = np.array([0.4, -0.2])
X = np.vstack([[[-0.9, -0.9], [0.9, 0.8], [0.1, 0.9]], PLACE, PLACE + 0.5 * NEAR])
DATA = Observations(X, np.array([3.0, 2.0, 1.0, 0.0, 0.1]), maximize=False, noise_sd=0.01)


@dataclass(frozen=True)
class Sure:
    """A model that finds everything equal, with one standard deviation everywhere."""

    sd: float = 0.5 * SURE

    def mean_var(self, points):
        return torch.zeros(len(points)), torch.full((len(points),), self.sd**2, dtype=torch.float64)

    def fantasize(self, points):
        return self


@dataclass(frozen=True)
class Doubtful(Sure):
    """The same, but in doubt where the first coordinate is positive."""

    def mean_var(self, points):
        means, variances = super().mean_var(points)
        return means, torch.where(points[:, 0] > 0, 1.0, variances)


@dataclass(frozen=True)
class Counted:
    """A rule that changes no score, and keeps how many designs came before each place that it is asked about."""

    asked: list = field(default_factory=list)

    def constrained(self, score, scale, posterior, data, pending, proposed):
        self.asked.append(proposed)
        return score


@dataclass(frozen=True)
class Fitted:
    """A surrogate whose fit is the posterior that it has; refused if it has none."""

    posterior: Sure | None = Sure()

    def fit(self, data, rng, start, report):
        if self.posterior is None:
            raise ValueError("Not today.")
        return self.posterior


def chosen(sd=0.5 * SURE, data=DATA, **others):
    return Chosen("best", Sure(sd), {}, {}, {}, others, data)


def batch(*designs, worth=0.0, **more):
    return Candidates(np.array(designs, dtype=float), worth + np.arange(len(designs)), **more)


def proposing(designs, asked=None):
    """A search that finds one design after the other, shapes (d,); ``asked`` has what it was told."""
    left = iter(designs)

    def search(beliefs, beside, slot):
        if asked is not None:
            asked.append((beliefs.name, beside.tolist(), slot))
        return batch(next(left), notes=({"own": str(slot)},), worth=7.0)

    return search


def test_a_repeat_is_near_two_results_of_which_the_model_is_sure():
    far = 2 * NEAR * np.ones(2)
    designs = np.vstack([PLACE, PLACE + far, X[0]])
    assert repeats(designs, Sure(), DATA).tolist() == [2, 0, 0]
    assert repeats(designs, Sure(1.01 * SURE), DATA).tolist() == [0, 0, 0]


def test_where_noise_leaves_a_model_unsure_a_place_with_enough_results_is_a_repeat():
    for results, repeated in ((ENOUGH - 1, 0), (ENOUGH, ENOUGH)):
        rows = np.vstack([X[:3], np.tile(PLACE, (results, 1))])
        data = Observations(rows, np.arange(len(rows), dtype=float), maximize=False, noise_sd=1.0)
        assert repeats(PLACE[None], Sure(1.0), data).tolist() == [repeated]


@pytest.mark.parametrize("dimension", [1, 20])
def test_nearness_does_not_depend_on_the_number_of_variables(dimension):
    rows = np.zeros((2, dimension))
    data = Observations(rows, np.array([1.0, 2.0]), maximize=False)
    here, there = np.full((1, dimension), 0.99 * NEAR), np.full((1, dimension), 1.01 * NEAR)
    assert repeats(np.vstack([here, there]), Sure(), data).tolist() == [2, 0]


def test_the_second_best_proposes_in_place_of_a_repeat_and_the_design_says_so():
    found = advised(batch(PLACE), chosen(second=Fitted(), third=Fitted()), DATA, np.asarray, proposing([[0.7, 0.7]]))
    assert (found.X.tolist(), found.value.tolist()) == ([[0.7, 0.7]], [7.0])
    said = "second chose this design: best, which predicts best, would go back to a place with 2 results"
    assert found.notes == ({"own": "0", "second_model": said},)


def test_a_model_that_only_has_its_turn_is_not_said_to_predict_best():
    told = replace(chosen(second=Fitted()), instead_of="another")
    found = advised(batch(PLACE), told, DATA, np.asarray, proposing([[0.7, 0.7]]))
    said = "second chose this design: best, which has its turn, would go back to a place with 2 results"
    assert found.notes[0]["second_model"] == said


def test_models_that_repeat_or_cannot_be_fitted_are_passed_over():
    models = {"second": Fitted(None), "third": Fitted(), "fourth": Fitted()}
    asked = []
    found = advised(batch(PLACE), chosen(**models), DATA, np.asarray, proposing([PLACE, [0.7, 0.7]], asked))
    assert found.X.tolist() == [[0.7, 0.7]]
    assert [name for name, *_ in asked] == ["third", "fourth"]


def test_where_all_models_repeat_the_design_of_the_best_one_stays():
    given = batch(PLACE)
    found = advised(given, chosen(second=Fitted(), third=Fitted()), DATA, np.asarray, proposing([PLACE, X[4]]))
    np.testing.assert_array_equal(found.X, given.X)
    assert (found.value.tolist(), found.notes) == ([0.0], ({},))


def test_a_second_model_that_is_not_sure_of_the_place_may_go_there_again():
    found = advised(batch(PLACE), chosen(second=Fitted(Sure(2 * SURE))), DATA, np.asarray, proposing([PLACE]))
    assert found.value.tolist() == [7.0]


def test_of_a_batch_only_the_repeats_are_replaced_beside_the_rest_of_it():
    given = batch([0.0, 0.0], PLACE, [-0.5, 0.3], X[4], notes=({"a": "b"},) * 4)
    asked, proposed = [], [[0.7, 0.7], PLACE, [0.6, -0.9]]
    found = advised(given, chosen(second=Fitted(), third=Fitted()), DATA, np.asarray, proposing(proposed, asked))
    assert found.X.tolist() == [[0.0, 0.0], [0.7, 0.7], [-0.5, 0.3], [0.6, -0.9]]
    assert asked == [
        ("second", [[0.0, 0.0], [-0.5, 0.3], X[4].tolist()], 1),
        ("second", [[0.0, 0.0], [0.7, 0.7], [-0.5, 0.3]], 3),
        ("third", [[0.0, 0.0], [0.7, 0.7], [-0.5, 0.3]], 3),
    ]
    assert [note.get("second_model", "").split(" ")[0] for note in found.notes] == ["", "second", "", "third"]
    assert [note.get("own", note.get("a")) for note in found.notes] == ["b", "1", "b", "3"]


def test_a_batch_that_has_changed_has_no_proof():
    proofs = (Certificate(0.0, 1.0, "optimal", 1),) * 2
    given, told = batch([0.0, 0.0], PLACE, certificates=proofs), chosen(second=Fitted())
    kept, changed = (advised(given, told, DATA, np.asarray, proposing([each])) for each in (PLACE, [0.7, 0.7]))
    assert (kept.certificates, changed.certificates) == (proofs, None)


def test_nothing_is_asked_of_others_where_nothing_is_repeated_or_no_model_was_chosen():
    given = batch([0.0, 0.0])
    assert advised(given, chosen(second=Fitted()), DATA, np.asarray, proposing([])).X is not None
    assert advised(batch(PLACE), Sure(), DATA, np.asarray, proposing([])).notes == ()


def test_an_angle_is_near_all_its_turns():
    space = SearchSpace((Continuous("angle", 0.0, 360.0, periodic=True), Continuous("y", 0.0, 1.0)))
    coordinates = ModelCoordinates.of(space)
    tried = np.array([[-1.0, 0.0], [0.999, 0.0]])
    data = coordinates.seen(Observations(tried, np.array([0.0, 1.0]), maximize=False, space=space))
    found = advised(
        batch([0.9995, 0.0]), chosen(data=data, second=Fitted()), data, coordinates.array, proposing([[0.2, 0.5]])
    )
    assert found.X.tolist() == [[0.2, 0.5]]


def contested(data, leader, **others):
    """The choice of one surrogate among others, fitted to data."""
    contest = Contest(data, surrogates={"best": leader, **others})
    contest = contest.judged("best", leader.fit(data, np.random.default_rng(0), None, no_report), 9.0)
    for lead, name in enumerate(others):
        contest = contest.judged(name, Sure(), -float(lead))
    return contest.chosen()


ALGORITHM = Algorithm(Sobol(), 2, ExactGP(restarts=0), LogEI(), Multistart(n_samples=64, n_starts=2))


def test_the_others_are_asked_in_the_order_of_their_scores_and_fitted_as_a_function_of_the_data_alone():
    surrogate = ExactGP(restarts=0)
    first = contested(DATA, surrogate, second=surrogate, third=Fitted(None), fourth=surrogate)
    told, again = list(first.next_best()), list(first.next_best())
    assert [other.name for other in told] == ["second", "fourth"]
    at = torch.tensor([[0.4, -0.1], [0.7, -0.2]], dtype=torch.float64)
    for one, other in zip(told, again, strict=True):
        assert all(map(torch.equal, one.mean_var(at), other.mean_var(at)))


def test_in_a_discrete_space_of_which_little_is_left_the_second_model_finds_a_free_design():
    space = SearchSpace((Integer("n", 0, 4),))
    rows = space.encode([{"n": n} for n in (0, 1, 2, 3, 3, 3)])
    data = Observations(rows, np.array([4.0, 3.0, 2.0, 0.0, 0.0, 0.0]), maximize=False, noise_sd=1e-3, space=space)
    sure = contested(data, ExactGP(noise="known", restarts=0), second=ExactGP(noise="known", restarts=0))
    pending = space.encode([{"n": n} for n in (0, 1, 2)])
    assert repeats(space.encode([{"n": 3}]), sure, data).tolist() == [3]
    found = ALGORITHM.propose(sure, data, pending, space, 2, np.random.default_rng(1))
    assert sorted(design["n"] for design in space.decode(found.X)) == [3, 4]


def test_a_second_model_that_is_sure_of_one_repeat_alone_gives_no_design_twice():
    space = SearchSpace((Integer("n", 0, 2),))
    rows = space.encode([{"n": n} for n in (0, 0, 2, 2, 1)])
    data = Observations(rows, np.array([0.0, 0.0, 0.0, 0.0, 5.0]), maximize=False, noise_sd=1e-3, space=space)
    beliefs, pending = chosen(data=data, second=Fitted(Doubtful())), space.encode([{"n": 1}])
    found = ALGORITHM.propose(beliefs, data, pending, space, 2, np.random.default_rng(1))
    assert sorted(design["n"] for design in space.decode(found.X)) == [0, 2]


def test_a_rule_that_treats_designs_in_turn_is_told_the_turn_of_the_place():
    space = SearchSpace((Integer("n", 0, 4),))
    rows, y = space.encode([{"n": n} for n in (0, 1, 2, 3, 3, 3)]), np.array([4.0, 3.0, 2.0, 0.0, 0.0, 0.0])
    data = Observations(rows, y, maximize=False, noise_sd=1e-3, space=space, constraints=-np.ones((6, 1)))
    surrogate, counted = ExactGP(noise="known", restarts=0), Counted()
    algorithm = replace(ALGORITHM, surrogate=surrogate, constraints=Constraints(rule=counted))
    best = contested(data.objective, surrogate, second=surrogate)
    beliefs = replace(algorithm.fit(data, np.random.default_rng(0)), objective=best)
    found = algorithm.propose(beliefs, data, rows[:3], space, 2, np.random.default_rng(1), proposed=30)
    assert [design["n"] for design in space.decode(found.X)] == [4, 3]
    assert counted.asked == [30, 31]


def test_a_place_that_gets_another_design_for_its_level_does_not_say_that_the_second_model_chose_that():
    space = SearchSpace((Continuous("x", 0.0, 1.0), Continuous("y", 0.0, 1.0)))
    start = np.array([[0.9, -0.9], [-0.3, 0.6]])
    levels = {"levels": (0.1,), "lower": (LevelResults(0, 0.1, start, np.ones((2, 1))),), "space": space}
    data, given = replace(DATA, **levels), batch([0.7, 0.7], notes=({"second_model": "second chose this design"},))
    beliefs, none, rng = chosen(data=data), torch.empty((0, 2), dtype=torch.float64), np.random.default_rng(1)
    score = LogEI().score(beliefs, data, none, 1, rng)
    kept, moved = (levelled(given, beliefs, data, none, [], space, score, n, rng) for n in (len(data), len(data) + 1))
    assert (kept.X.tolist(), kept.notes) == (given.X.tolist(), given.notes)
    assert (moved.X.tolist(), moved.notes) == (start[:1].tolist(), ({},))
