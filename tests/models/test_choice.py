"""The choice by evidence: scores against refits, margins, refusals, checkpoints, and equations that do not hold."""

import math

import numpy as np
import pytest
import torch

from models.choice import LEAST_SD, score
from models.contest import Contest
from models.observations import Observations, Physics
from models.surrogate import LeaveOneOut, no_report
from models.surrogates.auto import Auto
from models.surrogates.deep_ensemble import DeepEnsemble
from models.surrogates.power_series import PowerSeries
from physics.operators import laplace

RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (14, 2))


def harmonic(X):
    """x^3 - 3 x y^2 + 4 x y, for which Laplace's equation holds."""
    x, y = X.T
    return x**3 - 3 * x * y**2 + 4 * x * y


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
    posterior = fit(PowerSeries(degree=8), data)
    rows, noise, total = posterior.model.rows.numpy(), posterior.model.noise, 0.0
    for i, target in enumerate(data.targets):
        others = np.delete(np.arange(len(data)), i)
        K = rows[others] @ rows[others].T + noise * np.eye(len(others))
        cross = rows[others] @ rows[i]
        mean = cross @ np.linalg.solve(K, data.targets[others])
        variance = rows[i] @ rows[i] + noise - cross @ np.linalg.solve(K, cross)
        total += -0.5 * (math.log(2 * math.pi * variance) + (target - mean) ** 2 / variance)
    assert judged(PowerSeries(degree=8), data) == pytest.approx(total, rel=1e-8)


def test_a_surrogate_without_a_closed_form_is_judged_by_refits_on_the_same_scale():
    class Folded(PowerSeries):
        """The power series, asked for means and variances alone."""

        def fit(self, data, rng, start, report):
            found = super().fit(data, rng, start, report)

            class Plain:
                mean_var = staticmethod(found.mean_var)

            return Plain()

    small = observations(X=X[:6], y=harmonic(X[:6]), noise_sd=0.3)
    series = Folded(degree=4)
    assert not isinstance(fit(series, small), LeaveOneOut)
    closed, refitted = judged(PowerSeries(degree=4), small), judged(series, small, folds=6)
    assert refitted == pytest.approx(closed, abs=2.0)  # the refits choose their own hyper-parameters
    scaled = observations(X=X[:6], y=1000 * small.y, noise_sd=300.0)
    assert judged(series, scaled, folds=6) == pytest.approx(refitted, rel=1e-6)


def test_nobody_wins_by_predicting_better_than_designs_can_depend_on():
    data = observations(laplace(2), noise_sd=0.0)
    most = -len(data) * math.log(LEAST_SD * math.sqrt(2 * math.pi))
    assert judged(PowerSeries(degree=8), data) <= most


def test_too_few_trials_for_refits_are_said():
    data = observations(X=X[:2], y=[0.0, 1.0])
    surrogate = DeepEnsemble(networks=2, width=4, refinements=2)
    with pytest.raises(ValueError, match="There are 2 trials: a surrogate without a closed form is judged from 3 on"):
        judged(surrogate, data)


def test_a_true_equation_is_chosen_and_the_scores_and_the_choice_are_told():
    chosen = fit(Auto(), observations(laplace(2)))
    assert chosen.remarks == {"chosen": "physics_informed/basis"}
    scores = {name: value for name, value in chosen.metrics.items() if name.startswith("score.")}
    assert max(scores, key=scores.get) == "score.physics_informed/basis"
    assert set(scores) == {
        "score.exact_gp",
        "score.sampled_linear",
        "score.power_series",
        "score.physics_informed/basis",
    }


def test_without_an_equation_no_candidate_asks_for_one():
    chosen = fit(Auto(), observations())
    assert chosen.name in ("exact_gp", "sampled_linear")
    assert not chosen.refused


def test_an_equation_must_be_worth_its_margin():
    data, names = observations(laplace(2)), ("power_series", "physics_informed/basis")
    scores = fit(Auto(candidates=names), data).scores
    ahead = (scores["physics_informed/basis"] - scores["power_series"]) / len(data)
    assert fit(Auto(candidates=names, margin=ahead - 0.01), data).name == "physics_informed/basis"
    assert fit(Auto(candidates=names, margin=ahead + 0.01), data).name == "power_series"


def test_a_candidate_that_cannot_be_fitted_is_out_with_its_reason():
    chosen = fit(Auto(candidates=("physics_informed/basis", "power_series")), observations())
    assert chosen.name == "power_series"
    assert chosen.remarks["out.physics_informed/basis"].startswith("The problem states no equation")


def test_where_all_candidates_are_out_every_reason_is_said():
    with pytest.raises(ValueError, match=r"None of the candidates can be fitted to these 14 trials. physics_informed/"):
        fit(Auto(candidates=("physics_informed/basis",)), observations())


def test_an_interrupted_choice_does_not_fit_again_what_was_judged():
    data, checkpoints = observations(laplace(2)), []
    names = ("power_series", "physics_informed/basis")
    whole = fit(Auto(candidates=names), data, report=lambda step, metrics, made: checkpoints.append((metrics, made())))
    told, state = next(pair for pair in checkpoints if list(pair[0]) == ["score.power_series"])
    began = []
    fit(Auto(candidates=names), data, state, lambda step, metrics, made: began.append(sorted(metrics)))
    assert not any("power_series.log_evidence" in metrics for metrics in began)
    again = fit(Auto(candidates=names), data, state)
    assert (again.name, again.scores) == (whole.name, whole.scores)
    assert told["score.power_series"] == whole.scores["power_series"]


def test_a_choice_that_was_believed_keeps_its_name_and_scores():
    chosen = fit(Auto(candidates=("power_series",)), observations())
    believed = chosen.believe(torch.zeros(1, 2, dtype=torch.float64))
    assert (believed.name, believed.scores) == (chosen.name, chosen.scores)
    assert float(believed.mean_var(torch.zeros(1, 2, dtype=torch.float64))[1]) < 1e-3


def test_a_contest_nobody_took_part_in_has_no_winner():
    with pytest.raises(ValueError, match="None of the candidates can be fitted"):
        Contest(observations(), 3.0).chosen()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"candidates": ("magic",)}, "There is no candidate 'magic': choose from exact_gp"),
        ({"candidates": ("exact_gp", "exact_gp")}, "is given twice"),
        ({"margin": math.inf}, "margin is inf: give a finite number of nats a trial"),
        ({"folds": 1}, "folds is 1: give 2 or more"),
    ],
)
def test_settings_that_make_no_choice_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Auto(**settings)
