"""A training that is asked for elsewhere: when it is waited for, and what may still be written by whom."""

import os
import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Cancelled, Completed, Crashed, Failed, Pending, Running, Scheduled

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import read_campaign
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.steps.remote_training import Awaited, Declined, judged
from fieldcraft.flows.steps.train import Unfinished, lesson_of, train_outside
from fieldcraft.flows.text import clock
from fieldcraft.flows.views.data import next_steps, status_data
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.context import site_of, unfinished
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.ledger import LeaseHeld, LeaseLost
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Lease

CAMPAIGN = """\
name: small
seed: 3
sense: minimize
problem: {kind: branin}
simulator: {kind: function}
dispatcher: {kind: inline}
noise: {sd: 0.5}
algorithm:
  start: {n: 2}
  surrogate: {kind: deep_ensemble, networks: 2, width: 8, refinements: 3}
  acquisition: {kind: thompson}
  maximizer: {kind: multistart, n_samples: 64, n_starts: 2}
budget: {trials: 2}
"""
TRAINER = Lease(campaign=":train:x", host="far", pid=7, started=1.0, token=1, acquired=1.0)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A campaign whose two results are in, so that it waits for a last model, which says which is best."""
    (file := tmp_path / "small.yaml").write_text(CAMPAIGN)
    ledger = open_ledger(tmp_path / "ledger.sqlite", create=True)
    assert created(ledger, wire(read_campaign(file), settings_from(home=tmp_path)), file) is None
    lease = ledger.acquire_trainer("small")
    with monkeypatch.context() as waiting, out_of_reach():
        waiting.setenv("FIELDCRAFT_TRAIN", "prefect:train/train")
        while one_pass(tmp_path).wait != "training":
            pass
    ledger.release(lease)
    return tmp_path


def out_of_reach():
    """Prefect's server is named, and nothing answers there."""
    return temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"})


def one_pass(home):
    ledger = open_ledger(home / "ledger.sqlite")
    lease = ledger.acquire("small")
    try:
        return make_pass(Ref(str(home), "small", lease.model_dump())).decision
    finally:
        ledger.release(lease)


def digest(home):
    return lesson_of(site_of(str(home), "small", None), 1).data.digest


def model(home):
    return open_ledger(home / "ledger.sqlite").product("small", 1, "train")


def run(state, age=0.0):
    """A flow run that has been in a state for so many seconds."""
    since = datetime.now(UTC) - timedelta(seconds=age)
    return FlowRun(name="r", flow_id=uuid4(), state=state.model_copy(update={"timestamp": since}))


@pytest.mark.parametrize("state", [Scheduled(), Pending(), Running()])
def test_a_run_is_waited_for_until_nobody_has_trained_for_too_long(state):
    assert judged(run(state, age=50), None, 60) == Awaited("flow run r", state.name)
    assert judged(run(state, age=70), TRAINER, 60) == Awaited("flow run r", state.name)
    given_up = f"nobody trains: flow run r has been {state.name} for more than 60 s"
    assert judged(run(state, age=70), None, 60) == Declined(given_up)


@pytest.mark.parametrize("state", [Scheduled(), Pending(), Running()])
def test_a_run_of_a_time_that_the_clock_was_set_back_behind_is_not_waited_for(state):
    late = run(state, age=-7200)
    told = f"nobody trains: flow run r is {state.name} as of {clock(late.state.timestamp.timestamp())}, "
    assert judged(late, None, 60) == Declined(f"{told}and the clock was set back since")
    assert judged(late, TRAINER, 60) == judged(run(state, age=-50), None, 60) == Awaited("flow run r", state.name)


@pytest.mark.parametrize("state", [Crashed(message="by signal 9"), Cancelled(message="enough"), Failed(message="oh")])
def test_a_run_that_ended_badly_is_not_waited_for_whoever_holds_the_lease(state):
    for trainer in (None, TRAINER):
        assert judged(run(state), trainer, 60) == Declined(f"flow run r ended as {state.name}: {state.message}")


def test_a_run_that_gave_way_to_a_living_trainer_is_waited_for_as_long_as_that_one_lives():
    remedy = "If that machine is gone for good, set FIELDCRAFT_TRAIN=here"
    waited = Awaited(f"pid {TRAINER.pid} on {TRAINER.host}", f"trains, and flow run r gave way to it. {remedy}")
    assert judged(run(Completed(name="Skipped")), TRAINER, 60) == waited
    assert judged(run(Completed(name="Skipped")), None, 60) == Declined("flow run r ended as Skipped: it says no more")


def test_without_an_answer_a_living_trainer_is_waited_for_and_the_operator_may_take_over(home, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_TRAIN", "prefect:train/train")
    ledger = open_ledger(home / "ledger.sqlite")
    lease = ledger.acquire_trainer("small")
    with out_of_reach():
        decision = one_pass(home)
    assert (decision.wait, decision.propose, decision.iteration, decision.last) == ("training", 0, 1, False)
    assert model(home) is None
    status = status_data(ledger, ledger.campaign("small"))
    assert next_steps(status) == [
        f"its model is being trained by pid {os.getpid()} on {lease.host}: the next pass goes on"
    ]
    monkeypatch.setenv("FIELDCRAFT_TRAIN", "here")
    assert one_pass(home).finished
    assert model(home).payload["trained"]["by"] == "pass"
    with pytest.raises(LeaseLost, match="no longer holds the lease"):
        ledger.fenced(lease).note("small", 2, "train", {}, None)


def test_no_server_named_is_a_reason_to_train_here_and_none_is_started(home, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_TRAIN", "prefect:train/train")
    with temporary_settings({PREFECT_API_URL: None}):
        assert one_pass(home).finished
    reason = "Prefect could not be asked for train/train: PREFECT_API_URL names no server"
    assert model(home).payload["trained"]["fallback"] == reason
    assert model(home).payload["remarks"]["trained"].endswith(f", cpu: {reason}")


def test_a_model_trained_outside_is_the_one_a_pass_takes_up(home):
    product = train_outside(str(home), "small", 1, digest(home), "flow run r")
    assert product.payload["trained"]["by"] == "flow run r"
    assert product == model(home) == train_outside(str(home), "small", 1, digest(home), "another")
    assert one_pass(home).finished
    assert [p.digest for p in open_ledger(home / "ledger.sqlite").products("small")] == [product.digest]


def test_nothing_is_written_of_readings_that_are_not_those_asked_for(home):
    assert "the results are others" in train_outside(str(home), "small", 1, "0" * 64, "flow run r")
    assert model(home) is None


def test_readings_that_change_during_a_training_leave_no_model(home, monkeypatch):
    ledger, asked = open_ledger(home / "ledger.sqlite"), digest(home)
    wanted = Unfinished.report

    def corrected_meanwhile(self, *words):
        trial, (result, *more) = ledger.trial("small-0001"), ledger.results("small-0001")
        if not more:
            outputs = {name: value + 1.0 for name, value in result.outputs.items()}
            ledger.correct(trial.id, trial.expect, result.id, outputs, None, "ana", "the gauge", {})
        wanted(self, *words)

    monkeypatch.setattr(Unfinished, "report", corrected_meanwhile)
    assert "changed during the training" in train_outside(str(home), "small", 1, asked, "flow run r")
    assert model(home) is None
    assert train_outside(str(home), "small", 1, digest(home), "flow run s").payload["trained"]["by"] == "flow run s"


def test_a_training_gives_way_to_one_that_lives_and_loses_the_right_to_write_to_a_pass(home, monkeypatch):
    ledger, asked = open_ledger(home / "ledger.sqlite"), digest(home)
    lease = ledger.acquire_trainer("small")
    with pytest.raises(LeaseHeld, match="The model of 'small' is being worked on by pid"):
        train_outside(str(home), "small", 1, asked, "flow run r")
    ledger.release(lease)
    wanted = Unfinished.report

    def overtaken(self, *words):
        ledger.release(ledger.acquire_trainer("small", break_lease=True))
        wanted(self, *words)

    monkeypatch.setattr(Unfinished, "report", overtaken)
    with pytest.raises(LeaseLost, match="no longer holds the lease"):
        train_outside(str(home), "small", 1, asked, "flow run r")
    assert model(home) is None


def test_a_checkpoint_is_not_resumed_on_another_type_of_device_and_not_in_the_way(tmp_path, monkeypatch):
    import torch

    monkeypatch.setattr("fieldcraft.flows.steps.train.SAVE_EVERY_S", 0.0)
    folder = tmp_path / unfinished(1)
    for kind, number in (("cuda", 2.0), ("cpu", 1.0)):
        saved = Unfinished(folder, "0" * 64, kind)
        saved.report(1, {}, lambda number=number: {"theta": torch.tensor([number])})
    assert Unfinished(folder, "0" * 64, "cpu").load()["theta"] == 1.0
    other = Unfinished(folder, "0" * 64, "cuda")
    assert other.load()["theta"] == 2.0
    other.forget()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("FIELDCRAFT_TRAIN", "prefect:train", "FIELDCRAFT_TRAIN is 'prefect:train': give 'here', or"),
        ("FIELDCRAFT_TRAIN", "train/train", "FIELDCRAFT_TRAIN is 'train/train'"),
        ("FIELDCRAFT_TRAIN_WAIT_S", "soon", "FIELDCRAFT_TRAIN_WAIT_S is 'soon', which is no number of seconds"),
        ("FIELDCRAFT_TRAIN_WAIT_S", "-1", "give one from 0"),
        ("FIELDCRAFT_DEVICE", "gpu", "FIELDCRAFT_DEVICE is 'gpu': choose auto, cpu or cuda"),
    ],
)
def test_a_setting_that_says_nothing_is_refused(tmp_path, name, value, message):
    with pytest.raises(InputError, match=message):
        settings_from({name: value}, tmp_path)


def test_a_card_that_the_operator_asks_for_in_vain_is_one_clear_error(home, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("FIELDCRAFT_DEVICE", "cuda")
    with pytest.raises(ValueError, match="device is 'cuda' and torch finds none"):
        train_outside(str(home), "small", 1, digest(home), "flow run r")
    assert time.time() - open_ledger(home / "ledger.sqlite").acquire_trainer("small").acquired < 60  # it is free again
