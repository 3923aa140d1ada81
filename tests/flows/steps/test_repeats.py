"""Where a design that is run again reads the same, none is: neither by a model nor by the sequence before it."""

from typing import Any

import numpy as np
import pytest
from rig import Rig, rig

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.wiring.observations import observations
from fieldcraft.models.rivals import _botorch
from fieldcraft.physics.counting import designs_of
from fieldcraft.physics.space import Categorical, Continuous, Integer, LinearConstraint, SearchSpace

CUPS = """
from dataclasses import dataclass

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Categorical, Integer, SearchSpace


@dataclass(frozen=True)
class Cups(Problem):
    \"\"\"The warmth of a cup of one of three sizes, in one of four paints.\"\"\"

    @property
    def space(self):
        return SearchSpace((Integer("size", 1, 3), Categorical("paint", ("black", "blue", "red", "white"))))

    @property
    def outputs(self):
        return (Output("warmth", "K"),)

    def function(self, design):
        return {"warmth": 2.0 * design["size"] + len(design["paint"])}
"""
WORDS = {"surrogate": {"kind": "exact_gp"}, "acquisition": {"kind": "log_ei"}, "maximizer": {"kind": "multistart"}}


@pytest.fixture(autouse=True)
def _plugins(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))


def cups(folder, **keys: Any) -> Rig:
    """A campaign of 15 trials on the twelve cups."""
    (folder / "plugins" / "problems").mkdir(parents=True)
    (folder / "plugins" / "problems" / "cups.py").write_text(CUPS)
    given = {
        "problem": {"kind": "cups"},
        "simulator": {"kind": "function"},
        "dispatcher": {"kind": "inline"},
        "budget": {"trials": 15},
        "algorithm": {"start": {"n": 5}, **WORDS},
    }
    return rig(folder, **{**given, **keys})


def run(made: Rig) -> tuple[str, list[tuple[Any, ...]]]:
    """How the campaign ended, and its designs by number."""
    return made.finish(), [tuple(trial.design.values()) for trial in made.ledger.trials("b")]


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("algorithm", [WORDS, {"peer": {"kind": "botorch_log_ei"}}, {"start": {"n": 15}}])
def test_a_campaign_ends_when_every_design_of_its_space_was_run_once(tmp_path, algorithm, batch, monkeypatch):
    monkeypatch.setattr(_botorch, "RESTARTS", 2)  # whichever designs a model prefers
    monkeypatch.setattr(_botorch, "RAW_SAMPLES", 32)
    reason, designs = run(cups(tmp_path, batch=batch, algorithm={"start": {"n": 5}, **algorithm}))
    assert reason == "space: every design that it has was proposed"
    assert len(designs) == len(set(designs)) == 12


@pytest.mark.parametrize("noise", ["fitted", {"sd": 0.1}])
def test_where_readings_are_noisy_a_design_may_be_run_again(tmp_path, noise):
    made = cups(tmp_path, noise=noise)
    reason, designs = run(made)
    assert (reason, len(designs)) == ("budget: 15 of 15 trials", 15)
    assert len(set(designs)) < 15
    assert made.campaign.noisy


def test_noise_that_is_fitted_is_not_added(tmp_path):
    made = cups(tmp_path, noise="fitted", algorithm={"start": {"n": 6}}, budget={"trials": 6})
    made.finish()
    trials = made.ledger.trials("b")
    assert [trial.outputs for trial in trials] == [
        {"warmth": 2.0 * trial.design["size"] + len(trial.design["paint"])} for trial in trials
    ]
    data = observations(made.campaign, trials, None)
    assert (data.exact, data.noise_sd) == (False, None)


@pytest.mark.parametrize(
    ("noise", "exact", "sd"), [(None, True, None), ({"sd": 0.0}, True, 0.0), ({"sd": 0.5}, False, 0.5)]
)
def test_readings_are_exact_unless_somebody_says_that_they_are_noisy(tmp_path, noise, exact, sd):
    made = cups(tmp_path, noise=noise, algorithm={"start": {"n": 2}}, budget={"trials": 2})
    made.finish()
    data = observations(made.campaign, made.ledger.trials("b"), None)
    assert (data.exact, data.noise_sd) == (exact, sd)


@pytest.mark.parametrize("noise", [{"fitted": False}, {"fitted": True, "sd": 1.0}, "guessed"])
def test_noise_is_said_in_exactly_one_way(tmp_path, noise):
    with pytest.raises(InputError, match=r"noise: .*(exactly one of sd|mapping|dictionary)"):
        cups(tmp_path, noise=noise)


def test_the_designs_of_a_space_are_counted_where_there_are_few():
    size, paint = Integer("size", 1, 3), Categorical("paint", ("black", "white"))
    assert designs_of(SearchSpace((size, paint))) == tuple(
        {"size": n, "paint": colour} for n in (1, 2, 3) for colour in ("black", "white")
    )
    bounded = SearchSpace((size, Integer("lids", 0, 3)), (LinearConstraint({"size": 1.0, "lids": 1.0}, 3.0),))
    assert [tuple(design.values()) for design in designs_of(bounded) or ()] == [
        (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (3, 0),
    ]  # fmt: skip
    assert designs_of(SearchSpace((size, Continuous("depth", 0.0, 1.0)))) is None
    assert designs_of(SearchSpace((Integer("n", 0, 10_000),))) is None
    assert len(designs_of(SearchSpace((Integer("n", 1, 10_000),))) or ()) == 10_000


def test_a_model_keeps_away_from_designs_that_have_a_result_to_within_rounding(tmp_path):
    given = {"problem": {"kind": "branin"}, "simulator": {"kind": "function"}, "sense": "minimize"}
    words = {"budget": {"trials": 14}, "algorithm": {"start": {"n": 6}, **WORDS}}
    made = rig(tmp_path, dispatcher={"kind": "inline"}, **given, **words)
    made.finish()
    X = made.campaign.space.encode([trial.design for trial in made.ledger.trials("b")])
    apart = np.abs(X[:, None] - X[None]).max(axis=2)
    assert apart[~np.eye(len(X), dtype=bool)].min() > 1e-9
