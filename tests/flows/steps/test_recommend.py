"""What a model is asked about designs that were tried, and what it is not."""

import numpy as np
import pytest
from small import SMALL

from fieldcraft.flows.analysis.feasibility import is_infeasible
from fieldcraft.flows.files.yaml_data import load_yaml
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.steps.recommend import recommended
from fieldcraft.flows.views.regret import regret_of
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.observations import data_of, observations
from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import TrialState


@pytest.fixture
def ended(finished):
    """The trials of a small campaign, its first training's product, and its settings."""
    settings = settings_from({}, finished / "home")
    ledger = open_ledger(settings.ledger)
    return ledger.trials("small"), ledger.product("small", 1, "train"), settings


def campaign(tmp_path, **keys):
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    return wire(parse({**load_yaml(file), **keys}, "small.yaml"), settings_from({}, tmp_path))


def test_a_design_that_gave_a_result_is_not_held_for_one_that_fails(ended):
    trials = ended[0][:2]
    X = np.array([[0.0, 0.0], [0.9, 0.9]])
    near = np.array([[0.05, 0.0], [-0.05, 0.0], [0.0, 0.05], [0.0, -0.05]])
    data = Observations(X, np.array([1.0, 2.0]), maximize=False, failed=near)
    words = {"surrogate": ExactGP(restarts=0), "acquisition": LogEI(), "maximizer": Multistart()}
    posterior = Algorithm(Sobol(), 1, **words).fit(data, np.random.default_rng(0))
    said = recommended(posterior, data, trials, (), exact=True)
    assert (said.trial, said.feasible, said.probability) == (trials[0].id, True, 1.0)


@pytest.mark.parametrize(
    ("shift", "exact", "feasible", "met"),
    [
        (0.0, True, True, True),
        (0.0, False, True, False),  # a result that breaks the constraint is held for noise
        (0.9, True, False, False),
    ],
)
def test_exact_readings_of_the_constraints_say_which_designs_are_feasible(ended, shift, exact, feasible, met):
    X = np.repeat(np.linspace(-1.0, 0.98, 4), 2) + 0.02 * (np.arange(8) % 2)
    read = -0.5 + 0.8 * (np.arange(8) % 2) + shift  # a jump within 0.02, to a smooth surrogate noise around -0.1
    data = Observations(X[:, None], -X, constraints=read[:, None], maximize=False)
    words = {"surrogate": ExactGP(restarts=0), "acquisition": LogEI(), "maximizer": Multistart()}
    posterior = Algorithm(Sobol(), 1, **words).fit(data, np.random.default_rng(0))
    trials = [ended[0][0].model_copy(update={"id": f"t-{n}"}) for n in range(8)]
    found = recommended(posterior, data, trials, ("c1",), exact=exact)
    assert (found.feasible, read[int(found.trial.removeprefix("t-"))] <= 0) == (feasible, met)
    assert (found.probability == 1.0) is (exact and feasible)


def test_a_constraint_that_was_learnt_as_a_logarithm_is_told_in_its_unit(ended):
    X = np.linspace(-1.0, 1.0, 8)
    read = np.exp(4 * X) - 3
    data = Observations(X[:, None], X, constraints=read[:, None], maximize=False)
    words = {"surrogate": ExactGP(restarts=0), "acquisition": LogEI(), "maximizer": Multistart()}
    posterior = Algorithm(Sobol(), 1, **words).fit(data, np.random.default_rng(0))
    trials = [ended[0][0].model_copy(update={"id": f"t-{n}"}) for n in range(8)]
    found = recommended(posterior, data, trials, ("c1",), exact=True)
    (bilog,) = posterior.bilogs
    assert found.trial == "t-0" and bilog.bent(read[0]) > -2.1
    assert found.constraints["c1"]["mean"] == pytest.approx(read[0], abs=0.1)


def test_a_model_of_a_version_without_constraints_is_given_what_it_had_learnt(ended, tmp_path):
    trials, product, _ = ended
    wired = campaign(tmp_path, problem={"kind": "constrained_branin"})
    read = [trial.model_copy(update={"outputs": {"value": 1.0, "c1": -1.0}}) for trial in trials]
    whole = observations(wired, read, None)
    older = product.model_copy(update={"payload": {k: v for k, v in product.payload.items() if k != "failed"}})
    assert data_of(wired, product, read, None).digest == whole.digest
    assert data_of(wired, older, read, None).digest == whole.objective.digest != whole.digest


def test_a_design_that_truly_breaks_a_constraint_has_no_regret(ended, tmp_path):
    wired = campaign(tmp_path, problem={"kind": "simionescu"})
    beyond, inside = ({"x1": 1.2, "x2": -1.2}, {"x1": 0.5, "x2": -0.5})
    outputs = {"value": -0.07, "c1": -0.01}
    trial = ended[0][0].model_copy(update={"outputs": outputs, "ran": None})
    assert regret_of(wired, trial.model_copy(update={"design": beyond})) is None
    found = regret_of(wired, trial.model_copy(update={"design": inside}))
    assert found is not None and found["value"] == pytest.approx(0.072 - 0.025)


def test_an_infeasible_design_remains_so_when_its_trial_is_given_up(ended):
    trial = ended[0][0].model_copy(update={"state": TrialState.FAILED, "failure": "infeasible"})
    assert is_infeasible(trial)
    assert is_infeasible(trial.model_copy(update={"state": TrialState.ABANDONED}))
    assert not is_infeasible(trial.model_copy(update={"state": TrialState.ABANDONED, "failure": "unknown"}))
