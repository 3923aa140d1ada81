"""A home of the version whose modules were installed as flows, models, physics and storage goes on as if nothing were.

``assets/home-before-rooms.tar.gz`` was made by that version: a campaign of five trials, which people approve, three of
them completed and the fourth approved; plug-ins that import ours by the names of then; and, in ``expected.json``, the
designs of all five as that version went on to propose them. The fifth is proposed anew, by what this version learns.
"""

import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from small import close_idle

from fieldcraft.flows.cli import main
from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.run import pause
from fieldcraft.flows.settings import Settings, settings_from
from fieldcraft.flows.spec.campaign_file import read_campaign
from fieldcraft.flows.steps.one_pass import Passed, Ref, make_pass
from fieldcraft.flows.wiring.build import rewire, wire
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.create import created
from fieldcraft.flows.wiring.observations import observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.physics.space import Design
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Trial, TrialState

ASSET = Path(__file__).parent / "assets" / "home-before-rooms.tar.gz"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    with tarfile.open(ASSET) as packed:
        packed.extractall(tmp_path, filter="data")
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "mine"))
    monkeypatch.setenv("FIELDCRAFT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    return settings_from()


def go_on(settings: Settings) -> Passed:
    """Passes until the campaign ends or waits for a person."""
    ledger = open_ledger(settings.ledger)
    campaign = rewire(ledger.campaign("rod").spec, settings)
    lease = ledger.acquire("rod")
    try:
        while True:
            passed = make_pass(Ref(str(settings.home), "rod", lease.model_dump()))
            if passed.decision.finished or passed.decision.wait == "person":
                return passed
            pause(campaign, ledger, passed)
    finally:
        ledger.release(lease)


def proposed(campaign: Campaign, trials: Sequence[Trial], iteration: int) -> Design:
    """The design that this version proposes in an iteration from the results of trials."""
    data, rngs = observations(campaign, trials, None), [stream(3, iteration, use) for use in (Use.TRAIN, Use.ACQUIRE)]
    posterior = campaign.algorithm.fit(data, rngs[0], None, no_report)
    return campaign.space.decode(
        campaign.algorithm.propose(posterior, data, np.empty((0, 2)), campaign.space, 1, rngs[1]).X
    )[0]


def test_a_campaign_of_the_earlier_version_goes_on_to_the_design_that_its_results_ask_for(settings, tmp_path, capsys):
    expected = json.loads((tmp_path / "expected.json").read_text())
    ledger, file = open_ledger(settings.ledger), tmp_path / "rod.yaml"
    before = {trial.id: trial for trial in ledger.trials("rod")}
    assert [trial.state for trial in before.values()] == [TrialState.COMPLETED] * 3 + [TrialState.APPROVED]
    assert created(ledger, wire(read_campaign(file), settings), file) is None, "the same specification, digest and all"
    assert go_on(settings).decision.wait == "person", "what was approved was other code"
    (event,) = [e for e in ledger.history("rod", "rod-0004") if e.after is TrialState.PROPOSED and e.before is not None]
    assert "changed since" in event.reason and "physics/" in event.reason
    assert main(["approve", "rod-0004"]) == 0
    assert go_on(settings).decision.wait == "person"
    assert main(["approve", "rod-0005"]) == 0
    assert go_on(settings).decision.finished == "budget: 5 of 5 trials"
    after = {trial.id: trial for trial in ledger.trials("rod")}
    assert after.keys() == expected.keys()
    assert {key: after[key].digest for key in before} == {key: expected[key]["digest"] for key in before}
    *known, last = after.values()
    assert last.design == proposed(wire(read_campaign(file), settings), known, last.iteration)
    for key in ("rod-0001", "rod-0002", "rod-0003"):
        assert after[key] == before[key], "nothing is run again"
    assert all(len(ledger.results(trial)) == 1 for trial in after)
    capsys.readouterr()
    assert main(["doctor"]) == 0, capsys.readouterr().out
    assert main(["report", "rod", "--html", str(tmp_path / "rod.html")]) == 0
    close_idle()
