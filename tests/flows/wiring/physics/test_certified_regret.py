"""Proven bounds of the regret in campaigns: on the origin, in what is shown, and as a stop rule."""

import json
import shutil

import bars
import pytest
import yaml
from small import finish

from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.rules.stopping import stop_reason
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse, read_campaign
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.wiring.build import rewire, wire
from fieldcraft.flows.wiring.context import Site
from fieldcraft.flows.wiring.create import created
from fieldcraft.flows.wiring.physics.snapshots import _stored
from fieldcraft.physics.problems.cantilever_profile import CantileverProfile
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Origin, TrialState
from fieldcraft.storage.trackers.mlflow_names import foreseen

BAR = {
    **bars.BAR,
    "algorithm": {"kind": "reduced_basis", "start": {"n": 4}},
    "budget": {"trials": 9},
    "stop": {"certified_regret": 0.01},
}
BEST = CantileverProfile().optimum("minimize").value


def opened(home):
    settings = settings_from({}, home)
    ledger = open_ledger(settings.ledger)
    return Site(rewire(ledger.campaign("bar").spec, settings), ledger, fields_at(settings.fields))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped")
    (folder / "bar.yaml").write_text(yaml.safe_dump(BAR))
    finish(folder / "bar.yaml", folder / "home")
    return opened(folder / "home")


def test_a_campaign_ends_when_its_best_result_is_proven_good_enough(stopped):
    trials = stopped.ledger.trials("bar")
    done = [trial for trial in trials if trial.state is TrialState.COMPLETED]
    bound, best = trials[-1].origin.regret, min(trial.outputs["compliance"] for trial in done)
    assert len(done) <= 8 and bound.best == best
    assert 0 <= bound.regret <= 0.01 * best and bound.lower == pytest.approx(best - bound.regret)
    # On 50 cells the best design has nearly the compliance that it has without a mesh.
    assert bound.lower <= 1.001 * BEST and best <= 1.01 * 1.001 * BEST
    told = stopped.ledger.campaign("bar").finished
    assert told.startswith("certified regret: in iteration ") and f"best result {best:.6g} J is at most" in told


def test_every_bound_is_below_all_results_and_says_so_to_whoever_asks(stopped, tmp_path, capsys):
    trials = stopped.ledger.trials("bar")
    results = [trial.outputs["compliance"] for trial in trials if trial.outputs]
    bounds = [trial.origin.regret for trial in trials if trial.origin.regret is not None]
    assert bounds and max(bound.lower for bound in bounds) <= min(results)
    last, home = trials[-1], str(stopped.campaign.settings.home)
    assert main(["show", last.id, "--home", home]) == 0
    assert f"no design has less than {last.origin.regret.lower:.6g} J by the equations" in capsys.readouterr().out
    assert main(["trace", last.id, "--json", "--home", home]) == 0
    assert json.loads(capsys.readouterr().out)["acquisition"]["regret"]["lower"] == last.origin.regret.lower
    assert main(["report", "bar", "--html", str(tmp_path / "page.html"), "--home", home]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "<h2>Proof of the best result</h2>" in page and "<dt>regret at most</dt>" in page
    metrics = foreseen(last.origin)
    assert metrics["origin.regret"] == last.origin.regret.regret
    assert metrics["origin.lower_bound"] == last.origin.regret.lower


def test_a_campaign_that_stopped_in_the_middle_is_the_one_that_ran_at_once(stopped, tmp_path):
    """The same designs, predictions and bounds, where each pass but the first few is made by who remembers nothing."""
    file, settings = tmp_path / "bar.yaml", settings_from({}, tmp_path / "home")
    file.write_text(yaml.safe_dump(BAR))
    campaign, ledger = wire(read_campaign(file), settings), open_ledger(settings.ledger, create=True)
    assert created(ledger, campaign, file) is None
    for most in (5, 100):
        lease, finished = ledger.acquire("bar"), False
        while not finished and len(ledger.summaries("bar")) < most:
            finished = make_pass(Ref(str(settings.home), "bar", lease.model_dump())).decision.finished is not None
        ledger.release(lease)
        _stored.cache_clear()
    one, other = (
        [(trial.design, trial.outputs, trial.origin.mean, trial.origin.sd, trial.origin.regret) for trial in trials]
        for trials in (stopped.ledger.trials("bar"), ledger.trials("bar"))
    )
    assert one == other and ledger.campaign("bar").finished == stopped.ledger.campaign("bar").finished


def test_a_result_that_was_corrected_since_ends_nothing(stopped, tmp_path):
    at = opened(shutil.copytree(stopped.campaign.settings.home, tmp_path / "home"))
    assert str(stop_reason(at)).startswith("certified regret: ")
    first = at.ledger.trials("bar")[0]
    (result,) = at.ledger.results(first.id)
    at.ledger.correct(first.id, first.expect, result.id, {"compliance": 0.1}, None, "ana", "read wrongly", {})
    assert stop_reason(at) is None


def test_data_without_a_bound_or_a_rule_is_that_of_earlier_versions():
    origin = Origin(kind="initial", algorithm="sobol", iteration=0, slot=0)
    assert "regret" not in origin.model_dump() and "regret" not in json.loads(origin.model_dump_json())
    campaign = wire(parse({**BAR, "stop": {}}, "bar.yaml"), settings_from({}))
    assert "certified_regret" not in campaign.data["stop"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"algorithm": {"kind": "gp_ei"}}, "the surrogate proves none: use reduced_basis, or auto"),
        ({"sense": "maximize"}, "a lower bound says nothing of the largest value"),
        ({"noise": {"sd": 0.1}}, "noise is added"),
        ({"problem": {"kind": "chips"}}, "the problem states no discrete equations"),
    ],
)
def test_a_rule_that_nothing_can_prove_is_refused(changes, reason):
    with pytest.raises(InputError, match=rf"stop.certified_regret: 0.01 .*{reason}"):
        wire(parse({**BAR, **changes}, "bar.yaml"), settings_from({}))


def test_a_rule_whose_problem_states_no_majorant_is_refused(tmp_path):
    (tmp_path / "problems").mkdir()
    (tmp_path / "problems" / "plain.py").write_text(
        "from dataclasses import dataclass, replace\n"
        "from fieldcraft.physics.problems.cantilever_profile import CantileverProfile\n"
        "@dataclass(frozen=True)\n"
        "class Plain(CantileverProfile):\n"
        "    def discrete(self, designs, cells):\n"
        "        return replace(super().discrete(designs, cells), above=None)\n"
    )
    with pytest.raises(InputError, match=r"stop.certified_regret: 0.01 .*state no stiffness `above`"):
        wire(
            parse({**BAR, "problem": {"kind": "plain"}}, "bar.yaml"),
            settings_from({"FIELDCRAFT_PLUGINS": str(tmp_path)}),
        )


def test_a_check_says_who_projects_the_equations(tmp_path, capsys):
    file = tmp_path / "bar.yaml"
    file.write_text(yaml.safe_dump(BAR))
    assert main(["check", str(file), "--home", str(tmp_path)]) == 0
    assert "it projects the simulator's own discrete equations on the stored fields" in capsys.readouterr().out
