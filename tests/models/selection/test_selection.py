"""The choice by evidence: scores against refits, refusals, checkpoints, and equations that do not hold."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import qmc

from fieldcraft.models.capability import Capability, required
from fieldcraft.models.numerics.scores import LEAST_SD
from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.selection.contest import Contest
from fieldcraft.models.selection.predictive_score import score
from fieldcraft.models.surrogate import LeaveOneOut, no_report
from fieldcraft.models.surrogates import auto
from fieldcraft.models.surrogates.additive_gp import AdditiveGP
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.deep_ensemble import DeepEnsemble
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.physics.operators import LinearEquation, laplace

RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (14, 2))


def harmonic(X):
    """x^3 - 3 x y^2 + 4 x y, for which Laplace's equation holds."""
    x, y = X.T
    return x**3 - 3 * x * y**2 + 4 * x * y


class Pair:
    """Two equations of which the second repeats the first."""

    linear, sizes = True, ()

    def operators(self, points, jets):
        (jet,) = jets
        bend = jet.hessian[:, 0, 0] + jet.hessian[:, 1, 1]
        return bend, bend

    def sources(self, points):
        return (0.0 * points[:, 0],) * 2


class Curved:
    """f^2 = 0."""

    linear = False

    def operator(self, points, jet):
        return jet.value**2

    def source(self, points):
        return 0.0 * points[:, 0]


def observations(equation=None, X=X, **changes):
    points = np.random.default_rng(0).uniform(-1, 1, (32, 2))
    physics = equation and Physics(equation, points, np.zeros(2), np.ones(2))
    known = {"X": X, "y": harmonic(X) + 5, "maximize": False, "noise_sd": 0.01, "physics": physics}
    return Observations(**(known | changes))


def fit(surrogate, data, start=None, report=no_report):
    return surrogate.fit(data, np.random.default_rng(2), start, report)


def judged(surrogate, data, folds=5):
    return score(surrogate, fit(surrogate, data), data, folds, np.random.default_rng(3))


def test_the_score_is_the_density_of_each_reading_by_a_fit_without_it_at_the_same_hyper_parameters():
    data = observations(noise_sd=0.3)
    posterior = fit(AdditiveGP(restarts=0), data)
    covariance, noise, total = posterior.kernel(posterior.X, posterior.X).numpy(), posterior.kernel.noise, 0.0
    for i, target in enumerate(data.targets):
        others = np.delete(np.arange(len(data)), i)
        K = covariance[np.ix_(others, others)] + noise * np.eye(len(others))
        cross = covariance[others, i]
        mean = cross @ np.linalg.solve(K, data.targets[others])
        variance = covariance[i, i] + noise - cross @ np.linalg.solve(K, cross)
        total += -0.5 * (math.log(2 * math.pi * variance) + (target - mean) ** 2 / variance)
    assert judged(AdditiveGP(restarts=0), data) == pytest.approx(total, rel=1e-8)


def test_a_surrogate_without_a_closed_form_is_judged_by_fits_without_each_fold_on_the_same_scale():
    class Ignorant:
        """Says mean 0 and variance 1 of its own standardised targets, wherever it is asked."""

        def fit(self, data, rng, start, report):
            class Plain:
                @staticmethod
                def mean_var(X):
                    return torch.zeros(len(X), dtype=torch.float64), torch.ones(len(X), dtype=torch.float64)

            assert not isinstance(Plain(), LeaveOneOut)
            return Plain()

    data = observations(noise_sd=0.3)
    expected = 0.0
    for i, reading in enumerate(data.y):
        others = np.delete(data.y, i)
        variance = others.var(ddof=1) + 0.3**2
        density = -0.5 * (math.log(2 * math.pi * variance) + (reading - others.mean()) ** 2 / variance)
        expected += density + math.log(data.scaling.sd)  # per unit of a target, which is sd units of a result
    assert judged(Ignorant(), data, folds=len(data)) == pytest.approx(expected, rel=1e-9)


def test_nobody_wins_by_predicting_better_than_designs_can_depend_on():
    data = observations(laplace(2), noise_sd=0.0)
    most = -len(data) * math.log(LEAST_SD * math.sqrt(2 * math.pi))
    assert judged(AdditiveGP(restarts=0), data) <= most


def test_too_few_trials_for_refits_are_said():
    data = observations(X=X[:2], y=[0.0, 1.0])
    surrogate = DeepEnsemble(networks=2, width=4, refinements=2)
    with pytest.raises(ValueError, match="There are 2 trials: a surrogate without a closed form is judged from 3 on"):
        judged(surrogate, data)


def test_a_true_equation_is_chosen_and_the_scores_and_the_choice_are_told():
    chosen = fit(Auto(), observations(laplace(2)))
    assert chosen.remarks == {"chosen": "physics_informed/kernel"}
    scores = {name: value for name, value in chosen.metrics.items() if name.startswith("score.")}
    assert max(scores, key=scores.get) == "score.physics_informed/kernel"
    assert set(scores) == {
        "score.exact_gp",
        "score.additive_gp",
        "score.sampled_linear",
        "score.physics_informed/basis",
        "score.physics_informed/kernel",
    }


def test_without_an_equation_no_candidate_asks_for_one():
    chosen = fit(Auto(), observations())
    assert chosen.name in ("exact_gp", "additive_gp", "sampled_linear")
    assert not chosen.refused


def test_a_candidate_that_cannot_be_fitted_is_out_with_its_reason():
    chosen = fit(Auto(candidates=("physics_informed/basis", "additive_gp")), observations())
    assert chosen.name == "additive_gp"
    assert chosen.remarks["out.physics_informed/basis"].startswith("The problem states no equation")


def test_where_all_candidates_are_out_every_reason_is_said():
    with pytest.raises(ValueError, match=r"None of the candidates can be fitted to these 14 trials. physics_informed/"):
        fit(Auto(candidates=("physics_informed/basis",)), observations())


def test_an_interrupted_choice_does_not_fit_again_what_was_judged():
    data, checkpoints = observations(laplace(2)), []
    names = ("additive_gp", "physics_informed/basis")
    whole = fit(Auto(candidates=names), data, report=lambda step, metrics, made: checkpoints.append((metrics, made())))
    told, state = next(pair for pair in checkpoints if list(pair[0]) == ["score.additive_gp"])
    began = []
    fit(Auto(candidates=names), data, state, lambda step, metrics, made: began.append(sorted(metrics)))
    assert not any("additive_gp.log_posterior" in metrics for metrics in began)
    again = fit(Auto(candidates=names), data, state)
    assert (again.name, again.scores) == (whole.name, whole.scores)
    Z = torch.tensor(np.random.default_rng(8).uniform(-1, 1, (5, 2)))
    assert all(map(torch.equal, again.mean_var(Z), whole.mean_var(Z)))
    assert told["score.additive_gp"] == whole.scores["additive_gp"]


def rod(P):
    """Temperature (n,) at places and times P (n, 2) of a rod with cold ends, for which u_t = 0.1 u_xx holds."""
    x, t = np.pi * P.T
    return np.exp(-0.1 * np.pi * t) * np.sin(x) + 0.5 * np.exp(-0.4 * np.pi * t) * np.sin(2 * x)


@pytest.mark.parametrize("candidates", [(), ("physics_informed/basis", "physics_informed/kernel")])
def test_of_the_engines_that_learn_from_an_equation_the_one_that_predicts_better_proposes(candidates):
    equation, half = LinearEquation(0.0, (0.0, 1.0), ((-0.1, 0.0), (0.0, 0.0))), np.full(2, 0.5)
    places = 2 * qmc.Sobol(2, rng=np.random.default_rng(1)).random(8) - 1
    physics = Physics(equation, qmc.Sobol(2, rng=np.random.default_rng(2)).random(64), half, half)
    data = Observations(X=places, y=rod(half * places + half), maximize=True, physics=physics)
    chosen = fit(Auto(candidates=candidates), data)
    assert chosen.name == "physics_informed/kernel"
    Z = np.random.default_rng(3).uniform(-1, 1, (400, 2))
    truth = rod(half * Z + half)

    def error(posterior):
        """Root mean square, relative to the temperature's own."""
        found = data.scaling.to_physical(posterior.mean_var(torch.tensor(Z))[0].detach().numpy())
        return np.sqrt(np.mean((found - truth) ** 2) / np.mean(truth**2))

    basis = fit(Auto(candidates=("physics_informed/basis",)), data)
    assert 3 * error(chosen) < error(basis) and error(chosen) < 0.15


def told(equation, dimension):
    points = np.random.default_rng(0).uniform(-1, 1, (8, dimension))
    return Physics(equation, points, np.zeros(dimension), np.ones(dimension))


VARYING = LinearEquation(0.0, (lambda p: p[:, 1], 0.0), ((0.0, 0.0), (0.0, 0.0)))


@pytest.mark.parametrize(
    ("equation", "dimension", "refused"),
    [
        (laplace(2), 2, ()),
        (laplace(9), 9, ("basis",)),
        (Pair(), 2, ("basis",)),
        (VARYING, 2, ()),
        (Curved(), 2, ("basis", "kernel")),
    ],
    ids=["plane", "many variables", "two equations", "variable coefficients", "not linear"],
)
def test_an_engine_says_before_any_fit_which_equations_it_cannot_learn_from(equation, dimension, refused):
    for engine in ("basis", "kernel", "ntk", "trained"):
        if engine not in refused:
            PhysicsInformed(engine=engine).refuse(told(equation, dimension))
            continue
        with pytest.raises(ValueError, match=r"[Ee]ngine (basis|kernel)"):
            PhysicsInformed(engine=engine).refuse(told(equation, dimension))


def test_a_choice_refuses_an_equation_where_nobody_who_learns_from_one_can_learn_from_it():
    Auto().refuse(told(Pair(), 2))
    for candidates in ((), ("physics_informed/basis", "exact_gp")):
        with pytest.raises(ValueError, match=r"physics_informed/basis: The equation is not linear and engine basis"):
            Auto(candidates=candidates).refuse(told(Curved(), 2))


@pytest.mark.parametrize(
    ("candidates", "uses", "needs"),
    [
        ((), True, False),
        (("exact_gp",), False, False),
        (("exact_gp", "physics_informed/ntk"), True, False),
        (("physics_informed/basis", "physics_informed/kernel"), True, True),
    ],
)
def test_a_choice_uses_and_needs_an_equation_as_its_candidates_do(candidates, uses, needs):
    choice = Auto(candidates=candidates)
    assert (choice.uses_physics, Capability.EQUATION in required(choice)) == (uses, needs)


def test_an_engine_that_cannot_learn_from_the_equation_is_out_with_its_reason():
    chosen = fit(Auto(), observations(Pair()))
    assert "score.physics_informed/kernel" in chosen.metrics
    assert list(chosen.refused) == ["physics_informed/basis"]
    assert "2 equations for 1 fields" in chosen.refused["physics_informed/basis"]


def test_every_physics_engine_with_a_closed_form_can_be_asked_for():
    chosen = fit(Auto(candidates=("physics_informed/kernel", "physics_informed/ntk")), observations(laplace(2)))
    assert set(chosen.scores) == {"physics_informed/kernel", "physics_informed/ntk"}


def test_a_choice_that_was_believed_keeps_its_name_and_scores():
    chosen = fit(Auto(candidates=("additive_gp",)), observations())
    at = torch.tensor([[0.9, -0.9]], dtype=torch.float64)
    believed = chosen.fantasize(at)
    assert (believed.name, believed.scores) == (chosen.name, chosen.scores)
    variance, noise = chosen.mean_var(at)[1], chosen.posterior.kernel.noise
    assert float(believed.mean_var(at)[1]) == pytest.approx(float(variance * noise / (variance + noise)), rel=1e-6)


def test_a_choice_that_an_earlier_version_made_among_other_candidates_is_restored_with_those_that_are_left():
    surrogate, data = Auto(candidates=("exact_gp", "additive_gp")), observations()
    chosen = fit(surrogate, data)
    gone = {"score.power_series": torch.tensor(-1e3, dtype=torch.float64)}
    restored = surrogate.restore(data, chosen.state() | gone)
    assert restored.name == chosen.name and list(restored.others) == list(chosen.others) != []
    assert restored.scores == {**chosen.scores, "power_series": -1e3}


@pytest.mark.parametrize(("lead", "winner"), [(2.9, "exact_gp"), (3.1, "physics_informed/kernel")])
def test_a_candidate_that_learns_from_an_equation_has_to_win_by_three_nats(lead, winner):
    posterior = fit(Auto(candidates=("exact_gp",)), observations()).posterior
    doubted = frozenset({"physics_informed/basis", "physics_informed/kernel"})
    contest = Contest(observations(), doubted, surrogates=auto._KNOWN)
    contest = contest.judged("exact_gp", posterior, -5.0).judged("additive_gp", posterior, -5.5)
    contest = contest.judged("physics_informed/basis", posterior, -6.0)
    assert contest.judged("physics_informed/kernel", posterior, lead - 5.0).chosen().name == winner
    led = replace(contest, scores={}, leader=None).judged("physics_informed/kernel", posterior, lead - 5.0)
    assert led.judged("exact_gp", posterior, -5.0).chosen().name == winner


def test_a_contest_nobody_took_part_in_has_no_winner():
    with pytest.raises(ValueError, match="None of the candidates can be fitted"):
        Contest(observations()).chosen()


def heated(P):
    """A temperature whose Laplacian is ``source``, with a harmonic part that no source tells of."""
    x, y = P.T
    return np.sin(2 * x) * np.sin(1.5 * y) + 0.3 * np.cos(x) * np.cosh(y - 1.5)


def source(P):
    library = np if isinstance(P, np.ndarray) else torch
    return -6.25 * library.sin(2 * P[:, 0]) * library.sin(1.5 * P[:, 1])


@pytest.mark.parametrize(("conductivity", "holds"), [(1.0, True), (3.0, False), (1 / 3, False), (-1.0, False)])
def test_a_wrong_coefficient_and_a_wrong_sign_lose_within_15_trials(conductivity, holds):
    equation = LinearEquation(0.0, (0.0, 0.0), ((conductivity, 0.0), (0.0, conductivity)), source)
    half = np.full(2, 1.5)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        places = 2 * qmc.Sobol(2, rng=rng).random(16)[:15] - 1
        physics = Physics(equation, rng.uniform(0, 3, (64, 2)), half, half)
        readings = heated(half * places + half) + 0.005 * rng.standard_normal(15)
        data = Observations(X=places, y=readings, maximize=True, noise_sd=0.005, physics=physics)
        assert fit(Auto(), data).name.startswith("physics_informed/") == holds


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"candidates": ("magic",)}, "There is no candidate 'magic': choose from exact_gp"),
        ({"candidates": ("exact_gp", "exact_gp")}, "is given twice"),
        ({"folds": 1}, "folds is 1: give 2 or more"),
    ],
)
def test_settings_that_make_no_choice_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Auto(**settings)


@pytest.mark.parametrize("unit", [2.0**-20, 2.0**20])
def test_a_score_by_folds_does_not_depend_on_the_unit_where_a_fold_leaves_constant_readings(unit):
    y = np.append(np.zeros(5), 1.0)
    surrogate = DeepEnsemble(networks=3, width=8, refinements=5)
    scores = [judged(surrogate, observations(X=X[:6], y=factor * y, noise_sd=None), 6) for factor in (1.0, unit)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-9)


def many(n):
    points = np.random.default_rng(7).uniform(-1, 1, (n, 2))
    return Observations(points, np.cos(5 * points[:, 0]) + points[:, 1] ** 2, maximize=False)


def test_above_fifty_trials_candidates_are_judged_at_milestones_and_the_best_is_fitted_to_all(monkeypatch):
    at = fit(Auto(), many(50 + 5))
    monkeypatch.setattr(AdditiveGP, "fit", _unasked if at.name != "additive_gp" else AdditiveGP.fit)
    monkeypatch.setattr(ExactGP, "fit", _unasked if at.name != "exact_gp" else ExactGP.fit)
    later = fit(Auto(), many(50 + 10))
    assert (later.name, later.scores) == (at.name, at.scores)
    assert len(later.state()["posterior.X"]) == 60


def _unasked(*arguments):
    raise AssertionError("A candidate that was judged before was fitted again.")


def test_a_judgement_is_a_function_of_the_trials_alone():
    known = fit(Auto(), many(58))
    auto.judged.cache_clear()
    again = fit(Auto(), many(58))
    assert known.scores == again.scores
    for name, value in known.state().items():
        assert torch.equal(value, again.state()[name])


def test_a_winner_that_cannot_be_fitted_to_all_gives_way_to_the_next(monkeypatch):
    best, *others = sorted(fit(Auto(), many(57)).scores.items(), key=lambda pair: -pair[1])
    surrogate = auto._KNOWN[best[0]]

    def refused(self, data, *rest):
        raise ValueError("Too large.")

    monkeypatch.setattr(type(surrogate), "fit", refused)
    chosen = fit(Auto(), many(57))
    assert chosen.name == others[0][0]
    assert chosen.remarks[f"out.{best[0]}"] == "Too large."
