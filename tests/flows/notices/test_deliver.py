"""Notices reach people at least once and under one id, whatever the webhook, the command or this process does."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from certificates import certificate
from webhooks import PATH, TOKEN, Webhook, command, notify, store

from fieldcraft.flows.machinery.webhooks import NotDelivered, post
from fieldcraft.flows.notices.deliver import deliver, due_at, is_due, message_of, tell_all, text_of
from fieldcraft.flows.settings import Settings, settings_from
from fieldcraft.flows.views.text import notices_text
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import Notice, Origin, Proposal, TrialState, digest_of
from fieldcraft.storage.text import printable

HOSTILE = "a\n\"b'; $(rm -rf /) `id` \x1b[2J\u202e\u2028 ü \U0001f600"

TAKE = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_bytes(sys.stdin.buffer.read())"


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    server = Webhook()
    yield server
    server.close()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return store(tmp_path / "home")


def settings(tmp_path: Path, **environment: str) -> Settings:
    return settings_from(environment, home=tmp_path / "home")


def at(webhook: Webhook, tmp_path: Path, **environment: str) -> Settings:
    return settings(tmp_path, FIELDCRAFT_NOTIFY_URL=webhook.url, FIELDCRAFT_WEBHOOK_TOKEN=TOKEN, **environment)


def make_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every notice be due at once, however often it was tried."""
    monkeypatch.setattr("fieldcraft.flows.notices.deliver._FIRST_PAUSE_S", 0.0)


def test_a_notice_is_posted_once_with_its_id_its_key_and_the_token(ledger, webhook, tmp_path):
    notice = notify(ledger)
    assert deliver(at(webhook, tmp_path), ledger) == 1
    assert deliver(at(webhook, tmp_path), ledger) == 0
    ((path, headers, body),) = webhook.got
    assert path == f"{PATH}?q=1"
    assert headers["Content-Type"] == "application/json"
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert headers["Idempotency-Key"] == body["key"] == message_of(ledger.campaign("heat"), notice)["key"]
    assert body["key"].startswith("fieldcraft-")
    assert body["key"].endswith(f"-{notice.id}")
    assert {name: body[name] for name in ("id", "campaign", "event", "created")} == {
        "id": notice.id,
        "campaign": "heat",
        "event": "approval waiting",
        "created": notice.created,
    }
    assert body["text"] == "3 trials of heat wait for approval: fieldcraft queue heat"
    assert ledger.notices() == ()


def test_a_notice_links_to_the_desk_where_its_address_is_set_and_nowhere_else(ledger, webhook, tmp_path):
    notice = notify(ledger)
    assert "url" not in message_of(ledger.campaign("heat"), notice)
    assert deliver(at(webhook, tmp_path, FIELDCRAFT_DESK_URL="https://desk.lab.example:8477/"), ledger) == 1
    body = webhook.got[0][2]
    assert body["url"] == "https://desk.lab.example:8477/queue/heat"
    assert body["text"].endswith(": fieldcraft queue heat, or https://desk.lab.example:8477/queue/heat")


def test_an_answer_that_is_no_http_and_quotes_the_token_is_told_without_it():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                asked = connection.recv(65536).decode()
                connection.sendall(f"SSH-2.0-{asked[asked.index('Bearer') :]}".encode())

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(NotDelivered) as told:
            post(f"http://127.0.0.1:{listener.getsockname()[1]}/", {}, "one", TOKEN, 10.0)
    assert str(told.value) == "The webhook at 127.0.0.1 answered something that is not HTTP." and told.value.reached


def test_no_token_is_sent_where_none_is_set(ledger, webhook, tmp_path):
    notify(ledger)
    assert deliver(settings(tmp_path, FIELDCRAFT_NOTIFY_URL=webhook.url), ledger) == 1
    assert "Authorization" not in webhook.got[0][1]


def test_the_same_campaign_in_another_store_has_other_keys(ledger, tmp_path):
    other = store(tmp_path / "other")
    first, second = notify(ledger), notify(other)
    assert first.id == second.id
    keys = {message_of(store.campaign("heat"), notice)["key"] for store, notice in ((ledger, first), (other, second))}
    assert len(keys) == 2


def test_a_restored_ledger_gives_another_notice_another_key_under_the_same_number(ledger):
    campaign, first = ledger.campaign("heat"), notify(ledger)
    (again,) = ledger.notices()
    assert message_of(campaign, again)["key"] == message_of(campaign, first)["key"]
    for changed in ({"key": "two"}, {"created": first.created + 1.0}):
        assert message_of(campaign, first.model_copy(update=changed))["key"] != message_of(campaign, first)["key"]


def test_with_nobody_to_tell_notices_are_kept_and_no_try_is_counted(ledger, tmp_path):
    notice = notify(ledger)
    assert deliver(settings(tmp_path), ledger) == 0
    assert ledger.notices() == (notice,)


def test_only_the_notices_of_the_campaign_named_are_told(ledger, webhook, tmp_path):
    spec = {"name": "chips"}
    ledger.create_campaign("chips", spec, digest_of(spec), {}, "test")
    notify(ledger)
    ledger.notify("chips", "budget nearly spent", "budget", {"limits": []})
    assert deliver(at(webhook, tmp_path), ledger, "chips") == 1
    assert [body["campaign"] for _, _, body in webhook.got] == ["chips"]
    assert [notice.campaign for notice in ledger.notices()] == ["heat"]


def test_while_the_server_is_down_a_notice_is_kept_and_a_later_pass_tells_it(ledger, webhook, tmp_path, monkeypatch):
    notice, down = notify(ledger), at(webhook, tmp_path)
    webhook.close()
    assert deliver(down, ledger) == 0
    assert [waiting.tries for waiting in ledger.notices()] == [1]
    again = Webhook(webhook.server_port)
    try:
        assert deliver(down, ledger) == 0, "it is not due yet"
        make_due(monkeypatch)
        assert deliver(down, ledger) == 1
        assert [body["id"] for _, _, body in again.got] == [notice.id]
    finally:
        again.close()


@pytest.mark.parametrize("status", [302, 404, 500])
def test_any_answer_but_success_counts_a_try_and_a_redirect_is_not_followed(ledger, webhook, tmp_path, status):
    notify(ledger, "one")
    notify(ledger, "two")
    webhook.answers = [status]
    assert deliver(at(webhook, tmp_path), ledger) == 1, "one refusal does not keep the other notice"
    assert [(notice.key, notice.tries) for notice in ledger.notices()] == [("one", 1)]
    assert len(webhook.got) == 2


def test_a_server_that_does_not_answer_takes_a_pass_no_longer_than_its_limit(ledger, webhook, tmp_path, monkeypatch):
    monkeypatch.setattr("fieldcraft.flows.notices.deliver.WEBHOOK_S", 0.5)
    for key in ("one", "two", "three"):
        notify(ledger, key)
    webhook.stall.set()
    began = time.monotonic()
    assert deliver(at(webhook, tmp_path), ledger) == 0
    assert 0.4 < time.monotonic() - began < 5.0
    assert [notice.tries for notice in ledger.notices()] == [1, 1, 1]
    assert len(webhook.got) == 1, "a server that says nothing is asked once"


def test_a_webhook_behind_tls_is_told_only_when_its_certificate_is_trusted(ledger, webhook, tmp_path, monkeypatch):
    notify(ledger)
    file = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    webhook.socket = context.wrap_socket(webhook.socket, server_side=True)
    secure = replace(at(webhook, tmp_path), notify_url=webhook.url.replace("http://", "https://"))
    (problem,) = tell_all(secure, ledger, ledger.notices(), 5.0).problems.values()
    assert "The webhook at 127.0.0.1 cannot be reached: " in problem
    assert "certificate verify failed" in problem
    assert webhook.got == []
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    assert len(tell_all(secure, ledger, ledger.notices(), 5.0).told) == 1
    assert webhook.got[0][1]["Authorization"] == f"Bearer {TOKEN}"


def test_a_server_that_answers_byte_by_byte_is_cut_off(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr("fieldcraft.flows.notices.deliver.WEBHOOK_S", 0.5)
    notify(ledger)
    ended = threading.Event()

    def dawdle(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                while not ended.wait(0.05):
                    connection.sendall(b"H")
            except OSError:
                ended.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=dawdle, args=(listener,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        began = time.monotonic()
        assert deliver(settings(tmp_path, FIELDCRAFT_NOTIFY_URL=url), ledger) == 0
        assert time.monotonic() - began < 5.0
        thread.join(10.0)
    assert ended.is_set(), "the connection was closed"


def test_killed_between_the_telling_and_its_mark_it_is_told_again_under_the_same_key(ledger, webhook, tmp_path):
    notify(ledger)
    code = (
        "import sys, pathlib; from fieldcraft.flows.notices.deliver import deliver; "
        "from fieldcraft.flows.settings import settings_from; "
        "from fieldcraft.storage.open_ledger import open_ledger; s = settings_from(home=pathlib.Path(sys.argv[1])); "
        "deliver(s, open_ledger(s.ledger))"
    )
    environment = {
        **os.environ,
        "FIELDCRAFT_NOTIFY_URL": webhook.url,
        "FIELDCRAFT_DIE_AT": "ledger.notice.told.before#1",
    }
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path / "home")], env=environment, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert len(webhook.got) == 1
    assert deliver(at(webhook, tmp_path), ledger) == 1
    first, second = (body for _, _, body in webhook.got)
    assert first == second


def test_the_pause_grows_with_every_try_and_has_no_end_of_its_own():
    notice = Notice(
        id=1, campaign="heat", event="campaign ended", key="end", payload={}, created=1000.0, told=None, tries=0
    )
    due = [due_at(notice.model_copy(update={"tries": tries})) for tries in (0, 1, 2, 10, 20, 10**6)]
    assert due[0] == 1000.0
    assert due == sorted(due)
    assert due[1] - due[0] >= 10.0
    assert due[4] - due[3] > 10 * (due[3] - due[2])


def test_a_notice_that_could_not_be_told_is_due_at_once_after_the_clock_was_set_back():
    notice = Notice(
        id=1, campaign="heat", event="campaign ended", key="end", payload={}, created=4e9, told=None, tries=1
    )
    assert not is_due(notice, notice.created), "its pause is not over"
    assert is_due(notice, notice.created + 60.0)
    assert is_due(notice, notice.created - 365 * 86400), "it would wait for a year else"
    said = notices_text([notice])  # the clock of this machine is years behind it
    assert said.endswith("[could not be told; tries: 1; next try with the next pass]")
    later = notice.model_copy(update={"created": time.time(), "tries": 17})
    assert notices_text([later]).endswith("[could not be told; tries: 17; next try in 3 h]")


def test_the_command_gets_the_notice_on_its_standard_input_whatever_it_holds(ledger, tmp_path):
    ledger.notify("heat", "submission unknown", "one", {"trial": "heat-0001", "reason": HOSTILE})
    file = tmp_path / "taken"
    assert deliver(settings(tmp_path, FIELDCRAFT_NOTIFY_COMMAND=command(TAKE, str(file))), ledger) == 1
    taken = json.loads(file.read_text())
    assert taken["payload"] == {"trial": "heat-0001", "reason": printable(HOSTILE)}
    assert taken["text"].isprintable()
    assert len(taken["text"].splitlines()) == 1


def test_a_hostile_payload_reaches_the_webhook_as_text_that_can_be_shown(ledger, webhook, tmp_path):
    ledger.notify("heat", "campaign ended", "one", {"reason": HOSTILE})
    assert deliver(at(webhook, tmp_path), ledger) == 1
    assert webhook.got[0][2]["payload"] == {"reason": printable(HOSTILE)}
    assert ledger.noticed("heat", "campaign ended")[0].payload == {"reason": HOSTILE}, "what is kept is as it was"


def test_the_command_is_run_without_a_shell(ledger, tmp_path):
    notify(ledger)
    words = (*map(str, (sys.executable, "-c", TAKE, tmp_path / "a b; touch $HOME")),)
    told = replace(settings(tmp_path), notify_command=words)
    assert deliver(told, ledger) == 1
    assert (tmp_path / "a b; touch $HOME").is_file()


def test_a_command_that_hangs_is_killed_with_its_children(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr("fieldcraft.flows.notices.deliver.COMMAND_S", 2.0)
    notify(ledger)
    pids = tmp_path / "pids"
    hang = (
        "import os, pathlib, subprocess, sys, time; "
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
        "pathlib.Path(sys.argv[1]).write_text(f'{os.getpid()} {child.pid}'); time.sleep(600)"
    )
    words = (sys.executable, "-c", hang, str(pids))
    began = time.monotonic()
    assert deliver(replace(settings(tmp_path), notify_command=words), ledger) == 0
    assert time.monotonic() - began < 10.0
    processes = [int(word) for word in pids.read_text().split()]
    assert len(processes) == 2
    assert not any(_lives(process) for process in processes)
    assert [notice.tries for notice in ledger.notices()] == [1]


def _lives(process: int) -> bool:
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:  # a killed orphan is reaped by its new parent in its own time
        try:
            if psutil.Process(process).status() == psutil.STATUS_ZOMBIE:
                return False
        except psutil.NoSuchProcess:
            return False
        time.sleep(0.02)
    return True


def test_with_two_channels_a_notice_is_told_when_both_took_it(ledger, webhook, tmp_path, monkeypatch):
    notify(ledger)
    file = tmp_path / "taken"
    both = at(webhook, tmp_path, FIELDCRAFT_NOTIFY_COMMAND=command(TAKE, str(file)))
    webhook.answers = [500]
    assert deliver(both, ledger) == 0
    first = json.loads(file.read_text())
    make_due(monkeypatch)
    assert deliver(both, ledger) == 1
    assert json.loads(file.read_text()) == first == webhook.got[1][2]


def test_a_webhook_that_is_gone_does_not_keep_notices_from_the_command(ledger, webhook, tmp_path):
    for key in ("one", "two", "three"):
        notify(ledger, key)
    file = tmp_path / "taken"
    append = 'import sys; open(sys.argv[1], "a").write(sys.stdin.read())'
    both = at(webhook, tmp_path, FIELDCRAFT_NOTIFY_COMMAND=command(append, str(file)))
    webhook.close()
    assert deliver(both, ledger) == 0
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == [1, 2, 3]
    assert [notice.tries for notice in ledger.notices()] == [1, 1, 1]


def test_many_notices_stop_when_the_time_is_up_and_no_try_is_counted_for_the_rest(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr("fieldcraft.flows.notices.deliver.PATIENCE_S", 2.0)
    for key in range(40):
        notify(ledger, str(key))
    words = (sys.executable, "-c", "import time; time.sleep(0.3)")
    began = time.monotonic()
    told = deliver(replace(settings(tmp_path), notify_command=words), ledger)
    assert time.monotonic() - began < 8.0
    left = ledger.notices()
    assert 0 < told < 40
    assert len(left) == 40 - told
    assert all(notice.tries == 0 for notice in left)


def test_a_ledger_that_cannot_be_written_does_not_stop_a_pass(ledger, webhook, tmp_path):
    notify(ledger)
    lease = ledger.acquire("heat")
    fenced = ledger.fenced(lease)
    ledger.release(lease)
    assert deliver(at(webhook, tmp_path), fenced) == 0
    assert len(webhook.got) == 1
    assert len(ledger.notices()) == 1


def test_a_trial_that_is_held_and_a_campaign_that_ends_are_told_with_what_to_do(ledger, webhook, tmp_path):
    origin = Origin(kind="initial", algorithm="sobol", iteration=0, slot=0)
    (trial,) = ledger.propose("heat", 0, [Proposal(design={"x": 1.0}, origin=origin)], "test")
    trial = ledger.approve(trial.id, trial.expect, trial.digest, "test", "", "manual", 1)
    trial = ledger.move(trial.id, TrialState.STAGED, trial.expect, "test", "claimed")
    ledger.move(trial.id, TrialState.HELD, trial.expect, "test", "the laboratory does not answer")
    ledger.finish("heat", "budget: 1 of 1 trials", "test")
    limit = {"of": "cost", "used": 45.0, "limit": 50.0, "unit": "EUR"}
    ledger.notify("heat", "budget nearly spent", "budget", {"limits": [limit]})
    assert deliver(at(webhook, tmp_path), ledger) == 3
    assert [body["text"] for _, _, body in webhook.got] == [
        "heat-0001 of heat is held for a person (the laboratory does not answer): fieldcraft queue heat",
        "heat has ended (budget: 1 of 1 trials): fieldcraft status heat",
        "The budget of heat is nearly spent (cost: 45 of 50 EUR): fieldcraft status heat",
    ]


def test_one_trial_is_not_called_several(ledger):
    notice = ledger.notify("heat", "approval waiting", "one", {"trials": ["heat-0001"]})
    assert text_of(notice) == "1 trial of heat waits for approval: fieldcraft queue heat"


def test_a_notice_of_approvals_that_were_given_is_settled_and_told_to_nobody(webhook, tmp_path):
    made = store(tmp_path / "home")
    origin = Origin(kind="initial", algorithm="sobol", iteration=0, slot=0)
    (trial,) = made.propose("heat", 0, [Proposal(design={"x": 1.0}, origin=origin)], "test")
    made.notify("heat", "approval waiting", "gone", {"trials": [trial.id]})
    made.notify("heat", "approval waiting", "half", {"trials": [trial.id, "heat-0002"]})
    made.approve(trial.id, trial.expect, trial.digest, "ana", "", "manual", 1)
    assert deliver(at(webhook, tmp_path), made) == 1
    assert [body["payload"]["trials"] for _, _, body in webhook.got] == [[trial.id, "heat-0002"]]
    assert made.notices() == ()
