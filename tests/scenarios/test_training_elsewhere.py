"""Models trained by the deployment ``train`` in the pool ``gpu``, on a real server and a real worker.

Passes run in this process, as any worker's or person's would; the flow runs are processes of the worker.
"""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from prefect_site import PASSWORD, Site, site, until

from fieldcraft.flows.machinery.progress import listening
from fieldcraft.flows.recovery.doctor import examine
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import read_campaign
from fieldcraft.flows.steps.one_pass import Passed, Ref, make_pass
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Product

CAMPAIGN = """\
name: {name}
seed: 3
sense: minimize
problem: {{kind: branin}}
simulator: {{kind: function}}
dispatcher: {{kind: inline}}
algorithm:
  start: {{n: 2}}
  surrogate: {{kind: deep_ensemble, networks: 2, width: {width}, steps: {steps}, refinements: 2}}
  acquisition: {{kind: thompson}}
  maximizer: {{kind: multistart, n_samples: 64, n_starts: 2}}
budget: {{trials: 3}}
"""
SHORT = {"width": 8, "steps": 50}
LONG = {"width": 24, "steps": 5000}  # some seconds, a checkpoint each


@pytest.fixture(scope="module")
def prefect(tmp_path_factory) -> Iterator[Site]:
    """The site, with a worker for trainings alone; this process speaks to its server."""
    with site(tmp_path_factory.mktemp("site"), pool="gpu") as made:
        place = {PREFECT_API_URL: made.environment["PREFECT_API_URL"], PREFECT_API_AUTH_STRING: PASSWORD}
        with temporary_settings(place):
            yield made


@pytest.fixture
def elsewhere(prefect, monkeypatch) -> Site:
    """The same, with passes that ask for trainings there."""
    monkeypatch.setenv("FIELDCRAFT_TRAIN", "prefect:train/train")
    return prefect


def campaign(home: Path, name: str, **options: int) -> Ledger:
    """Create a campaign; its ledger."""
    home.mkdir(parents=True, exist_ok=True)
    file = home / f"{name}.yaml"
    file.write_text(CAMPAIGN.format(name=name, **options))
    ledger = open_ledger(home / "ledger.sqlite", create=True)
    assert created(ledger, wire(read_campaign(file), settings_from(home=home)), file) is None
    return ledger


def one_pass(home: Path, ledger: Ledger, name: str) -> Passed:
    lease = ledger.acquire(name)
    try:
        return make_pass(Ref(str(home), name, lease.model_dump()))
    finally:
        ledger.release(lease)


def passes(home: Path, ledger: Ledger, name: str) -> list[str | None]:
    """Passes to the end, each after what the one before it waited for; what they waited for."""
    waits = []
    while not (passed := one_pass(home, ledger, name)).decision.finished:
        waits.append(passed.decision.wait)
        if passed.decision.wait == "training":
            model = (name, passed.decision.iteration, "train")
            until(lambda model=model: ledger.product(*model), "the model")
    return waits


def models(ledger: Ledger, name: str) -> list[Product]:
    return [product for product in ledger.products(name) if product.step == "train"]


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Ledger:
    """The ledger of both campaigns, trained in their passes."""
    home = tmp_path_factory.mktemp("here")
    for name, size in (("short", SHORT), ("long", LONG)):
        passes(home, campaign(home, name, **size), name)
    return open_ledger(home / "ledger.sqlite")


def same(ledger: Ledger, here: Ledger, name: str) -> bool:
    """Whether designs, results and every model are those of the campaign trained here, bit for bit."""
    found, expected = ([(t.design, t.outputs) for t in at.trials(name)] for at in (ledger, here))
    fields, trained = ([model.reference for model in models(at, name)] for at in (ledger, here))
    return found == expected and fields == trained and (len(found), len(fields)) == (3, 1)


def test_a_campaign_trained_by_the_deployment_finds_the_designs_of_one_trained_here(elsewhere, here):
    ledger = campaign(elsewhere.home, "short", **SHORT)
    waits = passes(elsewhere.home, ledger, "short")
    assert waits.count("training") == 1
    assert same(ledger, here, "short")
    assert [run.name for run in elsewhere.runs("train/train")] == ["Completed"]
    (at_home,), (away,) = models(here, "short"), models(ledger, "short")
    by = away.payload["trained"]["by"]
    assert by.startswith("flow run short-train-1-")
    assert away.payload["trained"] == at_home.payload["trained"] | {"by": by}
    assert away.payload["remarks"]["trained"] == f"by {by} on {socket.gethostname()}, cpu"
    assert "trained" not in at_home.payload["remarks"]
    assert examine(settings_from(home=elsewhere.home)) == []


def test_a_training_killed_in_its_middle_goes_on_here_to_the_same_model_and_says_so(elsewhere, here):
    home, ledger = elsewhere.home, campaign(elsewhere.home, "long", **LONG)
    while (passed := one_pass(home, ledger, "long")).decision.wait != "training":
        assert not passed.decision.finished
    scratch = home / "work" / "long" / "train-0001"
    until(lambda: list(scratch.glob("[0-9]*")), "a checkpoint")
    trainer = ledger.trainer("long")
    assert trainer is not None
    assert trainer.pid != os.getpid()
    os.kill(trainer.pid, signal.SIGKILL)
    reached = max(int(path.name) for path in scratch.glob("[0-9]*"))
    until(lambda: "CRASHED" in {run.type for run in elsewhere.runs("train/train")}, "Prefect to see that it is dead")
    told = []
    with listening(lambda event, details: told.append(event)):
        passes(home, ledger, "long")
    assert "training resumed" in told
    (first,) = models(ledger, "long")
    assert 0 < reached < LONG["steps"] // 100
    assert "ended as Crashed" in first.payload["trained"]["fallback"]
    assert first.payload["trained"]["by"] == "pass"
    assert first.payload["remarks"]["trained"].startswith("in the pass on ")
    assert same(ledger, here, "long")


def test_a_training_that_nobody_takes_up_in_time_is_cancelled_and_done_here(elsewhere, here, monkeypatch, tmp_path):
    monkeypatch.setenv("FIELDCRAFT_TRAIN_WAIT_S", "0")
    ledger = campaign(tmp_path, "short", **SHORT)
    assert "training" not in passes(tmp_path, ledger, "short")
    (model,) = models(ledger, "short")
    assert model.payload["trained"]["fallback"].startswith("nobody trains: flow run short-train-1-")
    messages = [run.message for run in elsewhere.runs("train/train") if run.type == "CANCELLED"]
    assert messages == [model.payload["trained"]["fallback"]]
    assert same(ledger, here, "short")


def test_a_deployment_that_is_not_there_is_no_hindrance(elsewhere, here, monkeypatch, tmp_path):
    monkeypatch.setenv("FIELDCRAFT_TRAIN", "prefect:train/nowhere")
    ledger = campaign(tmp_path, "short", **SHORT)
    assert "training" not in passes(tmp_path, ledger, "short")
    (model,) = models(ledger, "short")
    assert "Prefect could not be asked for train/nowhere" in model.payload["trained"]["fallback"]
    assert same(ledger, here, "short")


def test_a_server_that_is_out_of_reach_is_no_hindrance(here, monkeypatch, tmp_path):
    monkeypatch.setenv("FIELDCRAFT_TRAIN", "prefect:train/train")
    ledger = campaign(tmp_path, "short", **SHORT)
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        assert "training" not in passes(tmp_path, ledger, "short")
    (model,) = models(ledger, "short")
    assert "Prefect could not be asked for train/train: " in model.payload["trained"]["fallback"]
    assert same(ledger, here, "short")
