"""``fieldcraft notices`` lists what waits to be told and tells it; no secret of the settings is ever said."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from webhooks import TOKEN, Webhook, command, notify, store

from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.storage.ledger import Ledger


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    server = Webhook()
    yield server
    server.close()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return store(tmp_path / "home")


def test_no_secret_is_in_the_commands_environment_the_ledger_or_what_is_said(
    ledger, webhook, tmp_path, capsys, monkeypatch
):
    notify(ledger)
    file = tmp_path / "environment"
    show = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(repr(dict(os.environ)))"
    monkeypatch.setenv("FIELDCRAFT_NOTIFY_COMMAND", command(show, str(file)))
    monkeypatch.setenv("FIELDCRAFT_NOTIFY_URL", webhook.url)
    monkeypatch.setenv("FIELDCRAFT_WEBHOOK_TOKEN", TOKEN)
    monkeypatch.setenv("SOME_API_KEY", "s3cret-key")
    webhook.answers = [403]
    home = str(tmp_path / "home")
    assert main(["notices", "--deliver", "--home", home]) == 2
    assert main(["notices", "--home", home, "--json"]) == 0
    said = capsys.readouterr()
    assert "1 could not be told: The webhook at 127.0.0.1 answered 403." in said.out
    assert "PATH" in file.read_text()
    assert "s3cret" not in file.read_text() + said.out + said.err + repr(settings_from())
    # By another process: to close a descriptor of the ledger's file here would drop SQLite's locks.
    assert subprocess.run(["grep", "-rq", "waiting", home]).returncode == 0
    assert subprocess.run(["grep", "-rq", "s3cret", home]).returncode == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("/nowhere/tell",), "The command '/nowhere/tell' cannot be started: No such file or directory."),
        ((sys.executable, "-c", "raise SystemExit('no\x1b[2J way')"), "ended with status 1: no\\x1b[2J way"),
        ((sys.executable, "-c", "raise SystemExit(3)"), "ended with status 3: it said nothing."),
    ],
)
def test_a_command_that_fails_counts_a_try_and_notices_says_why(ledger, tmp_path, capsys, monkeypatch, words, problem):
    notify(ledger)
    monkeypatch.setenv("FIELDCRAFT_NOTIFY_COMMAND", shlex.join(words))
    assert main(["notices", "heat", "--deliver", "--home", str(tmp_path / "home"), "--json"]) == 2
    said = json.loads(capsys.readouterr().out)
    assert said["told"] == []
    assert problem in said["problems"][0]["problem"]
    assert [notice.tries for notice in ledger.notices()] == [1]


def test_notices_lists_what_waits_and_changes_nothing(ledger, tmp_path, capsys):
    home = str(tmp_path / "home")
    assert main(["notices", "--home", home]) == 0
    assert capsys.readouterr().out == "Nothing waits to be told.\n"
    notice = notify(ledger)
    ledger.told(notice.id, False)
    assert main(["notices", "heat", "--home", home]) == 0
    said = capsys.readouterr().out
    assert (
        "3 trials of heat wait for approval: fieldcraft queue heat [could not be told; tries: 1; next try in " in said
    )
    assert main(["notices", "heat", "--home", home, "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["id"], listed["tries"], listed["told"]) == (notice.id, 1, None)
    assert [waiting.tries for waiting in ledger.notices()] == [1]


def test_to_deliver_with_nobody_to_tell_is_an_error_that_says_what_to_set(ledger, tmp_path, capsys):
    notify(ledger)
    assert main(["notices", "--deliver", "--home", str(tmp_path / "home")]) == 2
    assert "neither FIELDCRAFT_NOTIFY_URL nor FIELDCRAFT_NOTIFY_COMMAND is set" in capsys.readouterr().err
    assert [notice.tries for notice in ledger.notices()] == [0]


def test_a_viewer_may_list_notices_but_not_deliver_them(ledger, tmp_path, capsys, monkeypatch):
    people = tmp_path / "people.yaml"
    people.write_text("users: {}\n")
    people.chmod(0o600)
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(people))
    notify(ledger)
    assert main(["notices", "--home", str(tmp_path / "home")]) == 0
    capsys.readouterr()
    assert main(["notices", "--deliver", "--home", str(tmp_path / "home")]) == 2
    assert "may not operate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("file:///etc/passwd", "is no webhook"),
        ("hooks.example.org/s3cret", "is no webhook"),
        ("http://", "is no webhook"),
        ("http://host:port/s3cret", "is no webhook"),
        ("http://a..b/s3cret", "is no webhook"),
        (f"http://{'a' * 64}.org/s3cret", "is no webhook"),
        ("http://host/s3cret\r\nX: y", "is no webhook"),
        ("https://user:s3cret@host/", "holds a user name or password"),
    ],
)
@pytest.mark.parametrize("name", ["FIELDCRAFT_NOTIFY_URL", "FIELDCRAFT_LAB_URL"])
def test_a_webhook_that_is_none_is_refused_and_not_quoted(name, value, problem):
    with pytest.raises(InputError, match=f"{name} {problem}") as caught:
        settings_from({name: value})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("token", ["s3cret\nX: y", "s3cret key", "s3crét", "s3cret\udc80"])
def test_a_webhook_token_that_no_header_takes_is_refused_and_not_quoted(token):
    with pytest.raises(InputError, match="FIELDCRAFT_WEBHOOK_TOKEN cannot be sent in a header") as caught:
        settings_from({"FIELDCRAFT_WEBHOOK_TOKEN": token})
    assert "s3cr" not in str(caught.value)


def test_a_command_whose_quotes_do_not_match_is_refused():
    with pytest.raises(InputError, match="FIELDCRAFT_NOTIFY_COMMAND is no command: No closing quotation"):
        settings_from({"FIELDCRAFT_NOTIFY_COMMAND": "tell 'ana"})
