"""A campaign whose designs may be infeasible in two ways, told by an output and by failing, from file to ledger."""

import os
import signal
from pathlib import Path

import pytest
import small
import warm_start
from small import finish

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.observations import infeasible
from fieldcraft.storage.ledgers.sqlite import close_idle
from fieldcraft.storage.open_ledger import open_ledger

PROBLEM = '''\
"""x + y on the unit square, where x y >= 0.16."""
from dataclasses import dataclass

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, SearchSpace


@dataclass(frozen=True)
class Bowl(Problem):
    """See the test."""

    @property
    def space(self):
        return SearchSpace((Continuous("x", 0.0, 1.0), Continuous("y", 0.0, 1.0)))

    @property
    def outputs(self):
        return (Output("value", "EUR"), Output("shortage", "kg"))
'''
SIMULATOR = '''\
"""Refuses designs at a gate, and has a mesh that closes for some only."""
from dataclasses import dataclass

import xarray as xr

from fieldcraft.physics.problem import Infeasible, Simulator


@dataclass(frozen=True)
class Bowl(Simulator):
    """See the test."""

    idempotent = True

    def gate(self, problem, design, rng):
        return "x is too small" if design["x"] < 0.25 else None

    def run(self, problem, design, rng):
        if design["y"] < 0.25:
            raise Infeasible("the mesh does not close")
        outputs = {"value": design["x"] + design["y"], "shortage": 160 - 1000 * design["x"] * design["y"]}
        units = {output.name: output.unit for output in problem.outputs}
        return xr.Dataset({name: ((), value, {"units": units[name]}) for name, value in outputs.items()})
'''
CAMPAIGN = {
    "name": "bowl",
    "seed": 5,
    "sense": "minimize",
    "problem": {"kind": "bowl"},
    "simulator": {"kind": "bowl"},
    "dispatcher": {"kind": "inline"},
    "algorithm": {
        "start": {"n": 8},
        "surrogate": {"kind": "exact_gp", "restarts": 0},
        "acquisition": {"kind": "log_ei"},
        "maximizer": {"kind": "multistart", "n_samples": 256, "n_starts": 4},
    },
    "budget": {"trials": 15},
}
RUN = "import sys; from pathlib import Path; from small import finish; finish(*map(Path, sys.argv[1:]))"


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugins")
    for group, text in (("problems", PROBLEM), ("simulators", SIMULATOR)):
        (folder / group).mkdir()
        (folder / group / "bowl.py").write_text(text)
    (folder / "bowl.yaml").write_text(repr(CAMPAIGN))
    return folder


@pytest.fixture(autouse=True)
def _known(kinds, monkeypatch, _alone):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(kinds))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="module")
def whole(kinds, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDCRAFT_PLUGINS", str(kinds))
        patch.setenv("FIELDCRAFT_MLFLOW", "off")
        home = tmp_path_factory.mktemp("whole")
        finish(kinds / "bowl.yaml", home, kinds)
    return home


def trials(home):
    return open_ledger(settings_from({}, home=home).ledger).trials("bowl")


def test_the_campaign_learns_both_what_is_short_and_what_fails(whole):
    tried = trials(whole)
    failed = infeasible(tried)
    assert 0 < len(failed) < 10
    later = [trial for trial in tried if trial.origin.kind == "model"]
    assert len(infeasible(later)) < len(later) / 2
    best = min(trial.outputs["value"] for trial in tried if trial.outputs and trial.outputs["shortage"] <= 0)
    assert best == pytest.approx(0.8, abs=0.05)  # x = y = 0.4


def test_the_model_says_which_design_it_holds_for_the_best(whole):
    ledger = open_ledger(settings_from({}, home=whole).ledger)
    product = ledger.product("bowl", max(trial.iteration for trial in trials(whole)), "train")
    said, known = product.payload["recommended"], {trial.id: trial for trial in trials(whole)}
    trial = known[said["trial"]]
    assert said["feasible"] and 0.2 < said["probability"] <= 1
    assert said["mean"] == pytest.approx(trial.outputs["value"], abs=0.05) and 0 <= said["sd"] < 0.1
    assert said["constraints"]["shortage"]["mean"] == pytest.approx(trial.outputs["shortage"], abs=20)
    assert product.payload["failed"] == {
        trial.id: trial.design for trial in infeasible(known.values()) if trial.iteration < product.iteration
    }


def killed(kinds, home, point):
    words = ["-c", f"import sys; sys.path.append({str(Path(small.__file__).parent)!r}); {RUN}", kinds / "bowl.yaml"]
    ended = warm_start.run([*map(str, (*words, home, kinds))], {**os.environ, "FIELDCRAFT_DIE_AT": point}, 300)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def test_a_campaign_killed_between_training_and_acquisition_proposes_the_same_designs(whole, kinds, tmp_path):
    killed(kinds, tmp_path, "ledger.note.train.after#3")
    finish(kinds / "bowl.yaml", tmp_path, kinds)
    assert [trial.design for trial in trials(tmp_path)] == [trial.design for trial in trials(whole)]
    close_idle()


def changed(**algorithm):
    return parse({**CAMPAIGN, "algorithm": {**CAMPAIGN["algorithm"], **algorithm}}, "bowl.yaml")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            {"acquisition": {"kind": "ucb"}, "maximizer": {"kind": "certified"}},
            r"algorithm.maximizer: 'certified' keeps to known constraints only, and the problem has the outputs "
            r"shortage, .* Use the maximizer multistart",
        ),
        (
            {"acquisition": {"kind": "ucb"}, "constraints": {"rule": {"kind": "probability"}}},
            r"constraints.rule: 'probability' multiplies the score, and that of the acquisition 'ucb' may be negative",
        ),
        (
            {"constraints": {"surrogate": {"kind": "physics_informed", "engine": "basis"}}},
            r"algorithm.constraints.surrogate: 'physics_informed' needs an equation, and constraints have none",
        ),
        (
            {"surrogate": {"kind": "random_forest"}, "constraints": {"rule": {"kind": "bound", "beta": "gamma"}}},
            r"algorithm.constraints.rule: beta is gamma, and the surrogate of the constraints does not know its",
        ),
        ({"constraints": {"rule": {"kind": "bond"}}}, r"No kind 'bond' in rules. Did you mean 'bound'\?"),
        ({"constraints": {"rule": {"kind": "bound", "bta": 1}}}, r"unknown key 'bta'. Did you mean 'beta'\?"),
    ],
)
def test_words_that_cannot_keep_to_constraints_are_refused_before_the_campaign_begins(kinds, words, message):
    with pytest.raises(InputError, match=message):
        wire(changed(**words), settings_from({"FIELDCRAFT_PLUGINS": str(kinds)}))


def test_a_rule_is_written_out_with_its_defaults(kinds):
    wired = wire(changed(constraints={"rule": {"kind": "bound"}}), settings_from({"FIELDCRAFT_PLUGINS": str(kinds)}))
    written = wired.data["algorithm"]["constraints"]
    assert written["surrogate"] is None and written["rule"].items() >= {"kind": "bound", "beta": 4.0}.items()
