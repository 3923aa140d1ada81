"""How a pass ends: what needs a person is told though it failed, and a pass that failed has served no tick."""

import time
from collections.abc import Iterator

import pytest
from rig import rig
from webhooks import Webhook

from fieldcraft.flows.jobs.dispatcher import NotSent
from fieldcraft.flows.steps.leases import held
from fieldcraft.flows.steps.one_pass import Passed, Ref, make_pass
from fieldcraft.flows.steps.schedule import Tick, tick
from fieldcraft.storage.ledger import LeaseLost
from fieldcraft.storage.records import Lease

URL_OF_NOBODY = "http://127.0.0.1:1/orders"


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    server = Webhook()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _plugins(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    monkeypatch.setenv("FIELDCRAFT_HOME", str(tmp_path / "home"))
    (tmp_path / "plugins").mkdir()


def test_a_pass_that_ends_in_an_error_tells_what_needs_a_person_all_the_same(tmp_path, webhook, monkeypatch):
    at = rig(tmp_path, simulator=None, dispatcher={"kind": "lab"})
    at.step()
    at.ledger.notify("b", "budget nearly spent", "budget", {"limits": []})
    monkeypatch.setenv("FIELDCRAFT_NOTIFY_URL", webhook.url)
    monkeypatch.setenv("FIELDCRAFT_LAB_URL", URL_OF_NOBODY)
    at.ledger.record("b-0001", at.trial().expect, {"value": 1.0, "excess": -1.0}, None, "ana", "person", {})
    with pytest.raises(NotSent, match="Order b-0002-1 was not sent"):
        at.step()
    assert [body["event"] for _, _, body in webhook.got] == ["budget nearly spent"]
    assert at.ledger.notices("b") == ()


def test_a_tick_that_was_due_before_a_pass_that_failed_makes_one_and_after_one_that_did_not_is_served(tmp_path):
    at = rig(tmp_path)
    due = Tick(time.time() - 5.0)

    def fails(_: Lease) -> Passed:
        raise NotSent("the webhook is down")

    def goes(lease: Lease) -> Passed:
        return make_pass(Ref(str(at.settings.home), "b", lease.model_dump()))

    with pytest.raises(NotSent, match="the webhook is down"):
        tick(at.ledger, "b", Tick(time.time()), fails)
    assert at.ledger.holder("b") is None
    passed = tick(at.ledger, "b", due, goes)
    assert isinstance(passed, Passed) and passed.proposed == 1
    assert "has served it" in str(tick(at.ledger, "b", due, goes))


def test_a_trial_is_staged_in_the_ledger_before_its_dispatcher_is_asked_to_run_it(tmp_path):
    at = rig(tmp_path, budget={"trials": 1}, dispatcher={"kind": "remote"})
    at.tell("transient", "answer 2")
    at.finish()
    assert (at.settings.work / "submitted").read_text() == "b-0001-1 STAGED\nb-0001-2 STAGED\n"


def test_a_pass_whose_lease_was_broken_writes_nothing(tmp_path):
    at = rig(tmp_path)
    lost = at.ledger.acquire("b")
    at.ledger.acquire("b", break_lease=True)
    with pytest.raises(LeaseLost, match="no longer holds the lease on 'b'"):
        make_pass(Ref(str(at.settings.home), "b", lost.model_dump()))
    assert at.ledger.trials("b") == ()


@pytest.mark.parametrize("after", ["held", "given back"])
def test_a_file_that_the_next_holder_tidied_up_is_told_as_the_lease_that_was_lost(tmp_path, after):
    at, gone = rig(tmp_path), tmp_path / "work" / "b-0001-1" / "started.json"
    now = {"held": "held by pid", "given back": "free"}[after]
    with pytest.raises(LeaseLost, match=f"no longer holds the lease on 'b' .*: it is {now}"), held(at.ledger, "b"):
        taken = at.ledger.acquire("b", break_lease=True)
        if after == "given back":
            at.ledger.release(taken)
        gone.write_text("{}")


def test_a_file_that_is_gone_under_a_lease_that_is_held_is_told_as_that(tmp_path):
    at = rig(tmp_path)
    with pytest.raises(FileNotFoundError, match="gone"), held(at.ledger, "b"):
        (tmp_path / "gone" / "started.json").write_text("{}")
