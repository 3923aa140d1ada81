"""Noise that a campaign adds to its constraints: how large, from which draws, what models are told, what is refused."""

import numpy as np
import pytest
import yaml
from small import finish

from fieldcraft.flows.analysis.best import best_of
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.observations import observations
from fieldcraft.flows.wiring.physics.exact_outputs import exact_outputs, spreads
from fieldcraft.flows.wiring.written_out import resolved
from fieldcraft.storage.open_ledger import open_ledger

TRIALS = 60


def text(kind="constrained_hartmann", noise=None, trials=TRIALS, **more):
    data = {
        "name": "cells",
        "seed": 5,
        "sense": "minimize",
        "problem": {"kind": kind},
        "simulator": {"kind": "function"},
        "noise": noise or {"of_sd": 0.05, "constraints": True},
        "algorithm": {"kind": "random", "start": {"n": 4}},
        "dispatcher": {"kind": "inline"},
        "budget": {"trials": trials},
        **more,
    }
    return yaml.safe_dump({key: value for key, value in data.items() if value is not None})


def wired(tmp_path, plugins=None, **words):
    settings = settings_from({} if plugins is None else {"FIELDCRAFT_PLUGINS": str(plugins)}, tmp_path / "home")
    return wire(parse(yaml.safe_load(text(**words)), "cells.yaml"), settings)


def ran(tmp_path, **words):
    """A campaign that has run, and its trials."""
    file, home = tmp_path / "cells.yaml", tmp_path / "home"
    file.write_text(text(**words))
    finish(file, home)
    return wired(tmp_path, **words), open_ledger(home / "ledger.sqlite").trials("cells")


def read(campaign, trials):
    """What was read and what is true, each (n, 1 + c): the objective, then the constraints."""
    names = (campaign.objective.output, *campaign.objective.constraints)
    return np.array([[t.outputs[n] for n in names] for t in trials]), exact_outputs(
        campaign.problem, [t.actual for t in trials]
    )


def test_each_output_has_its_own_noise_of_the_stated_share_of_its_spread(tmp_path):
    campaign, trials = ran(tmp_path, algorithm={"kind": "random", "start": {"n": TRIALS}})
    found, true = read(campaign, trials)
    sds = 0.05 * np.array(spreads(campaign.problem))
    assert campaign.added_sds == pytest.approx(dict(zip(("value", "c1"), sds, strict=True)))
    noise = (found - true) / sds
    # Chi-squared with 60 degrees of freedom: 3.5 of its standard deviations about its mean.
    assert np.abs((noise**2).sum(axis=0) - TRIALS).max() < 3.5 * np.sqrt(2 * TRIALS)
    assert abs(np.corrcoef(noise.T)[0, 1]) < 3.5 / np.sqrt(TRIALS)
    one = trials[7]
    rng = stream(5, one.iteration, Use.NOISE, one.slot)
    assert found[7] - true[7] == pytest.approx([rng.normal(0, sd) for sd in sds], abs=1e-12)


def test_the_objective_has_the_noise_that_it_has_without(tmp_path):
    campaign, trials = ran(tmp_path, trials=6)
    (tmp_path / "plain").mkdir()
    plain, others = ran(tmp_path / "plain", noise={"of_sd": 0.05}, trials=6)
    (found, true), (exact, _) = read(campaign, trials), read(plain, others)
    assert found[:, 0].tolist() == exact[:, 0].tolist()
    assert exact[:, 1:].tolist() == true[:, 1:].tolist()
    assert (found[:, 1:] != true[:, 1:]).all()


def test_models_are_told_and_the_best_design_is_not_told_by_a_result_alone(tmp_path):
    campaign, trials = ran(tmp_path, trials=6, algorithm={"kind": "cei", "start": {"n": 5}})
    data = observations(campaign, trials, None)
    sd = campaign.constraint_sds[0]
    assert not data.exact_constraints
    assert data.constraint(0).noise_sd == sd == campaign.added_sds["c1"] > 0
    assert campaign.noisy_constraints
    assert resolved(campaign)["noise.constraints.c1"] == sd
    ledger = open_ledger(tmp_path / "home" / "ledger.sqlite")
    recommended = best_of(ledger, ledger.campaign("cells"), trials).model
    assert recommended.probability is not None
    assert wired(tmp_path, noise={"fitted": True}).noisy_constraints
    plain = wired(tmp_path, noise={"of_sd": 0.05})
    told = observations(plain, trials, None)
    assert told.exact_constraints and told.constraint(0).noise_sd == 0.0 and not plain.noisy_constraints


def test_a_campaign_without_it_is_the_campaign_that_it_was(tmp_path):
    data = wired(tmp_path, noise={"of_sd": 0.05}).data
    assert data["noise"] == {"sd": None, "of_sd": 0.05, "fitted": False}
    assert wired(tmp_path, noise={"of_sd": 0.05, "constraints": False}).data == data
    assert wired(tmp_path).data["noise"]["constraints"] is True


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            {"noise": {"sd": 1.0, "constraints": True}},
            "noise: .*constraints: true adds the fraction of_sd .*give of_sd",
        ),
        ({"noise": {"fitted": True, "constraints": True}}, "adds the fraction of_sd of each constraint"),
        ({"kind": "branin"}, "noise.constraints: problem 'branin' has no constraints. Leave it out."),
    ],
)
def test_noise_of_constraints_that_nothing_can_size_is_refused(tmp_path, words, said):
    with pytest.raises(InputError, match=said):
        wired(tmp_path, **words)


def test_a_problem_whose_constraints_only_simulations_know_states_the_noise_itself(tmp_path):
    code = """
from dataclasses import dataclass
from fieldcraft.physics.problems.constrained_branin import ConstrainedBranin


@dataclass(frozen=True)
class Simulated(ConstrainedBranin):
    def exact_constraints(self, points):
        return None
"""
    (tmp_path / "problems").mkdir()
    (tmp_path / "problems" / "simulated.py").write_text(code)
    with pytest.raises(InputError, match=r"noise\.constraints: 0\.05 .*'simulated' does not know its constraints"):
        wired(tmp_path, plugins=tmp_path, kind="simulated")
