"""The contract of models/named_algorithm.py, for every file in models/algorithms: its words can be built."""

import json
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
from kinds import is_frozen_dataclass, kinds, public_class

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.spec.registry import build
from fieldcraft.flows.wiring.build import rewire, wire
from fieldcraft.models.capability import Capability, provided
from fieldcraft.models.named_algorithm import MIDDLE_FIRST, rival
from fieldcraft.models.observations import Observations
from fieldcraft.models.rules.probability import Probability

PACKAGE = "fieldcraft.models.algorithms"
RIVALS = kinds("fieldcraft.models.rivals")
NAMES = [*kinds(PACKAGE), *RIVALS]
FROM_FIELDS = {
    "emulated": 5,
    "reduced_basis": 5,
    "botorch_composite": 10,
}  # those that need a problem with fields, of four variables
SEVERAL = ("gp_ehvi",)  # those that need a problem with several objectives, of two variables


def named(kind):
    """The class of a named algorithm."""
    return rival(kind) if kind in RIVALS else public_class(PACKAGE, kind)


PRESETS = [(kind, preset) for kind in NAMES for preset in get_args(get_type_hints(named(kind))["preset"])]


def campaign(kind, tmp_path, **options):
    data = {
        "name": "c",
        "seed": 1,
        "sense": "maximize",
        "problem": {"kind": "chips" if kind in FROM_FIELDS else "heat"},
        "simulator": {"kind": "chips" if kind in FROM_FIELDS else "heat"},
        "algorithm": {"kind": kind, **options},
        "batch": 3,
        "budget": {"trials": 40},
    }
    if kind in SEVERAL:
        data |= {"sense": None, "problem": {"kind": "branin_currin"}, "simulator": {"kind": "function"}}
    return wire(parse(data, "c.yaml"), settings_from({}, home=tmp_path))


@pytest.mark.parametrize("kind", NAMES)
def test_a_named_algorithm_is_one_public_frozen_dataclass_with_a_default_preset(kind):
    cls = named(kind)
    assert is_frozen_dataclass(cls)
    assert cls().preset == "default"


@pytest.mark.parametrize(("kind", "preset"), PRESETS)
def test_its_words_are_plain_data_and_make_an_algorithm(kind, preset, tmp_path):
    words = named(kind)(preset=preset).words(4 if kind in FROM_FIELDS else 2, 3)
    assert json.loads(json.dumps(words)) == words
    made = campaign(kind, tmp_path, preset=preset)
    n = FROM_FIELDS.get(kind, 6)
    assert made.spec.algorithm.start.n == words["start"]["n"] == n
    assert (made.spec.algorithm.named.kind, made.spec.algorithm.named.preset) == (kind, preset)
    assert made.chooses == (kind not in ("random", "sobol"))


@pytest.mark.parametrize("kind", NAMES)
def test_what_is_stored_is_read_back_with_the_same_digest(kind, tmp_path):
    made = campaign(kind, tmp_path)
    again = rewire(json.loads(json.dumps(made.data)), made.settings)
    assert again.digest == made.digest
    assert again.algorithm == made.algorithm


@pytest.mark.parametrize("kind", [kind for kind, preset in PRESETS if preset == "paper"])
def test_the_papers_preset_is_another_algorithm(kind, tmp_path):
    assert campaign(kind, tmp_path, preset="paper").algorithm != campaign(kind, tmp_path).algorithm


@pytest.mark.parametrize("kind", ["neural_bo", "neural_ts", "neural_ucb"])
def test_the_papers_preset_has_the_raw_relu_kernel_of_one_hidden_layer(kind, tmp_path):
    surrogate = campaign(kind, tmp_path, preset="paper").algorithm.surrogate
    assert (surrogate.normalised, surrogate.activation, surrogate.depth) == (False, "relu", 1)
    assert (surrogate.hyperparameters, surrogate.noise, surrogate.w_std) == ("fixed", 0.01, None)  # None: the papers'


CONSTRAINED = ("cei", "config_opt", "ucb_c", "admmbo", "neural_cbo")
SHORT = {"kind": "multistart", "n_samples": 128, "n_starts": 2}


def disc(kind, tmp_path, **options):
    """A campaign over Branin's function, which is to be minimised inside a disc."""
    data = {
        "name": "c",
        "seed": 1,
        "sense": "minimize",
        "problem": {"kind": "constrained_branin"},
        "simulator": {"kind": "function"},
        "algorithm": {"kind": kind, **options},
        "budget": {"trials": 12},
    }
    return wire(parse(data, "c.yaml"), settings_from({}, home=tmp_path))


def trials_of(made, n):
    """The first n trials of a campaign as observations."""
    algorithm, space = made.algorithm, made.space
    X = algorithm.initial.propose(space, 0, algorithm.n_initial, np.random.default_rng(0))
    while True:
        outputs = [list(made.problem.function(design).values()) for design in space.decode(X)]
        data = Observations(X, [y for y, _ in outputs], maximize=False, constraints=[c for _, *c in outputs])
        if len(X) == n:
            return data
        rng = np.random.default_rng(len(X))
        posterior = algorithm.fit(data, rng)
        X = np.vstack([X, algorithm.propose(posterior, data, np.empty((0, 2)), space, 1, rng).X])


@pytest.mark.parametrize(("dimension", "short", "long"), [(1, 4, 4), (2, 6, 6), (4, 6, 10), (6, 7, 14), (10, 11, 22)])
def test_processes_by_themselves_start_with_d_plus_one_designs_at_least_six(dimension, short, long):
    words = {
        kind: build("algorithms", {"kind": kind}).words(dimension, 1) for kind in ("auto", "gp_ei", "gp_ehvi", "cei")
    }
    starts = {kind: each["start"]["n"] for kind, each in words.items()}
    assert starts == {"auto": short, "gp_ei": short, "gp_ehvi": short, "cei": long}


@pytest.mark.parametrize("kind", NAMES)
def test_the_middle_is_the_first_design_of_many_coordinates_where_that_is_said(kind):
    first = [named(kind)().words(dimension, 1)["start"]["proposer"]["kind"] for dimension in (2, 9, 10, 50)]
    assert ("centred" in first) == (kind in MIDDLE_FIRST)
    assert first == (["sobol", "sobol", "centred", "centred"] if kind in MIDDLE_FIRST else first[:1] * 4)


@pytest.mark.parametrize("kind", CONSTRAINED)
def test_a_named_algorithm_for_unknown_constraints_makes_a_short_campaign_that_can_be_repeated(kind, tmp_path):
    made = disc(kind, tmp_path, maximizer=SHORT)
    assert made.algorithm.n_initial == 6
    first, second = trials_of(made, 8), trials_of(made, 8)
    assert first.digest == second.digest
    assert len(np.unique(first.X.round(6), axis=0)) == 8


def test_the_preset_of_neural_cbos_paper_runs_with_networks_as_wide_as_the_budget(tmp_path):
    options = {"preset": "paper", "horizon": 12, "maximizer": {"n_samples": 500}}
    made = disc("neural_cbo", tmp_path, **options)
    surrogate = made.algorithm.surrogate
    assert (surrogate.width, surrogate.depth, surrogate.train, surrogate.noise) == (12, 2, "one_pass", 1.0)
    assert made.algorithm.constraints.surrogate == surrogate
    assert made.algorithm.maximizer.n_starts == 0
    assert made.algorithm.acquisition.doubts == 0.0  # the paper's mu+ is the best mean, also under noise
    assert len(trials_of(made, 8)) == 8


def test_what_neural_cbo_trains_by_and_how_wide_its_bounds_are_can_be_said_in_a_word(tmp_path):
    plain = disc("neural_cbo", tmp_path).algorithm
    other = disc("neural_cbo", tmp_path, train="one_pass", beta="gamma").algorithm
    assert (plain.surrogate.train, other.surrogate.train) == ("full", "one_pass")
    assert isinstance(plain.constraints.rule, Probability)
    assert other.constraints.surrogate.train == "one_pass" and other.constraints.rule.beta == "gamma"
    assert disc("neural_cbo", tmp_path, preset="paper").algorithm.constraints.rule.beta == "gamma"
    with pytest.raises(InputError, match="horizon is 1: give the number of trials planned, 2 or more"):
        disc("neural_cbo", tmp_path, horizon=1)


@pytest.mark.parametrize("kind", ["cma_es", "baybe"])
def test_a_rival_that_is_not_told_of_constraints_is_refused_before_the_campaign_begins(kind, tmp_path):
    message = rf"algorithm.peer: '{kind}' is not told of constraints, and the problem has the outputs c1.*such as cei"
    with pytest.raises(InputError, match=message):
        disc(kind, tmp_path)


@pytest.mark.parametrize("kind", ["ax", "botorch_log_ei", "botorch_qlognei", "optuna_gp", "optuna_tpe"])
def test_a_rival_that_keeps_constraints_is_accepted(kind, tmp_path):
    assert Capability.CONSTRAINED in provided(disc(kind, tmp_path).algorithm.peer)


@pytest.mark.parametrize("kind", ["sto_bnts", "pinn_bo"])
def test_every_design_of_a_batch_has_a_network_of_its_own(kind, tmp_path):
    options = {"engine": "trained"} if kind == "pinn_bo" else {}
    assert campaign(kind, tmp_path, **options).algorithm.surrogate.networks == 3


def test_the_papers_preset_of_pinn_bo_trains_networks_and_says_so(tmp_path):
    with pytest.raises(InputError, match=r"preset is 'paper' and engine is 'basis': the paper trains networks"):
        campaign("pinn_bo", tmp_path, preset="paper", engine="basis")


@pytest.mark.parametrize(
    "package",
    [
        PACKAGE,
        "fieldcraft.models.surrogates",
        "fieldcraft.models.acquisitions",
        "fieldcraft.models.rules",
        "fieldcraft.models.rivals",
    ],
)
def test_the_documentation_names_every_kind(package):
    text = (Path(__file__).resolve().parents[2] / "docs" / "methods.md").read_text()
    assert [kind for kind in kinds(package) if f"`{kind}`" not in text] == []


def test_a_misspelt_rival_is_told_the_name_that_was_meant(tmp_path):
    with pytest.raises(
        InputError, match=r"algorithm\.kind: No kind 'optuna_gpp' in algorithms\. Did you mean 'optuna_gp'\?"
    ):
        campaign("optuna_gpp", tmp_path)
