"""A whole campaign with a laboratory: proposed, approved, ordered, measured, corrected and proposed again.

The laboratory is a folder and a real HTTP server; passes are killed at the worst instants.
"""

import contextlib
import csv
import io
import json
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from fieldcraft.flows.analysis.learnt import learnt_by
from fieldcraft.flows.cli import main
from fieldcraft.flows.jobs.dispatcher import NotSent
from fieldcraft.flows.products import Trained
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.steps.one_pass import Passed, Ref, make_pass
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger

CAMPAIGN = """\
name: bench
seed: 3
sense: minimize
problem: {kind: branin}
algorithm:
  start: {n: 2}
  surrogate: {kind: exact_gp}
  acquisition: {kind: log_ei}
  maximizer: {kind: multistart}
batch: 2
approval: human
dispatcher: {kind: lab, instructions: "Two measurements each, the mean counts."}
budget: {trials: 4}
"""


class Laboratory(HTTPServer):
    """Takes every order that it is sent, and counts."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Desk)
        self.keys: list[str] = []


class _Desk(BaseHTTPRequestHandler):
    server: Laboratory

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.keys.append(self.headers["Idempotency-Key"])
        self.send_response(201)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def laboratory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Laboratory]:
    for name in [name for name in os.environ if name.startswith(("FIELDCRAFT_", "PREFECT_"))]:
        monkeypatch.delenv(name)
    server = Laboratory()
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    monkeypatch.setenv("FIELDCRAFT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FIELDCRAFT_LAB_URL", f"http://127.0.0.1:{server.server_port}/orders")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench.yaml").write_text(CAMPAIGN)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def say(*words: object, status: int = 0) -> str:
    """A command and what it prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        ended = main([str(word) for word in words])
    assert ended == status, err.getvalue()
    return out.getvalue()


def ledger() -> Ledger:
    return open_ledger(settings_from().ledger)


def one_pass() -> Passed:
    held = ledger().acquire("bench")
    try:
        return make_pass(Ref(os.environ["FIELDCRAFT_HOME"], "bench", held.model_dump()))
    finally:
        ledger().release(held)


def _die(at: str) -> None:
    os.environ["FIELDCRAFT_DIE_AT"] = at
    one_pass()


def killed_pass(at: str) -> None:
    """A pass that is killed at an instant."""
    child = multiprocessing.get_context("fork").Process(target=_die, args=(at,))
    child.start()
    child.join(120)
    assert child.exitcode == -9


def fill(folder: Path, iteration: int, **values: str) -> None:
    """Do as a laboratory does: fill in a copy of the table, and drop it into the folder of results."""
    rows = list(csv.reader((folder / f"batch-{iteration:04d}.csv").read_text().splitlines()))
    column = rows[0].index("value")
    for row in rows[1:]:
        row[column] = values.get(row[1].replace("-", "_"), "")
    file = folder / "results" / f"measured-{iteration}.csv"
    file.write_text("".join(f"{','.join(row)}\n" for row in rows))
    then = time.time() - 60
    os.utime(file, (then, then))


def test_a_campaign_goes_through_a_laboratory(tmp_path, laboratory):
    orders = tmp_path / "home" / "lab" / "bench"
    say("create", "bench.yaml")
    assert one_pass().proposed == 2
    assert one_pass().sent == 0  # nothing goes out that nobody approved
    assert "bench-0002" in say("queue", "bench")
    say("approve", "--batch", "bench:0", "--comment", "go ahead")

    killed_pass("lab.order.after#1")  # the laboratory has the order, and the ledger does not say so
    assert [trial.state for trial in ledger().trials("bench")] == ["STAGED", "APPROVED"]
    passed = one_pass()
    assert (passed.sent, passed.decision.wait) == (2, "laboratory")
    assert laboratory.keys == ["bench-0001-1", "bench-0002-1"]
    assert [trial.state for trial in ledger().trials("bench")] == ["RUNNING", "RUNNING"]
    assert (orders / "instructions.txt").read_text() == "Two measurements each, the mean counts.\n"

    fill(orders, 0, bench_0001="31.5")
    killed_pass("ledger.record.after#1")
    one_pass()
    assert "Still to come: bench-0002." in (orders / "results" / "taken" / "measured-0.csv.said.txt").read_text()
    assert len(ledger().campaign_results("bench")) == 1
    assert "COMPLETED" in say("record", "bench-0002", "--value", "value=12.5", "--ran", "x1=7.5", "--sd", "value=0.5")

    assert one_pass().proposed == 2
    learnt = learnt_by(Trained.of(ledger().product("bench", 1, "train")), ledger().campaign_results("bench"))
    assert sorted(learnt) == ["bench-0001", "bench-0002"]
    corrected = json.loads(say("correct", "bench-0001", "--value", "value=3.15", "--reason", "a decimal", "--json"))
    assert list(corrected["models"]) == ["1"]
    assert corrected["proposals"] == ["bench-0003", "bench-0004"]

    say("approve", "--batch", "bench:1")
    assert one_pass().sent == 2
    fill(orders, 1, bench_0003="8", bench_0004="9")
    assert one_pass().decision.finished == "budget: 4 of 4 trials"
    assert laboratory.keys == [f"bench-{number:04d}-1" for number in range(1, 5)]
    assert [trial.outputs["value"] for trial in ledger().trials("bench")] == [3.15, 12.5, 8.0, 9.0]
    assert ledger().trial("bench-0002").actual["x1"] == 7.5
    assert list((orders / "open").iterdir()) == list(orders.glob("batch-*.csv")) == []
    assert ledger().check() == []


def test_an_order_that_may_have_been_sent_is_held_and_never_sent_again(tmp_path, laboratory):
    say("create", "bench.yaml")
    one_pass()
    say("approve", "--batch", "bench:0")
    killed_pass("lab.webhook.after#1")  # the laboratory said yes, and nobody wrote it down
    one_pass()
    assert [trial.state for trial in ledger().trials("bench")] == ["HELD", "RUNNING"]
    one_pass()
    assert laboratory.keys == ["bench-0001-1", "bench-0002-1"]
    assert "recorded" in say("record", "bench-0001", "--value", "value=3")  # it was done, after all
    assert ledger().trial("bench-0001").state == "COMPLETED"
    one_pass()
    assert [path.name for path in (tmp_path / "home/lab/bench/done").iterdir()] == ["bench-0001-1.json"]


def test_nothing_is_lost_while_the_webhook_is_away(tmp_path, laboratory, monkeypatch):
    say("create", "bench.yaml")
    one_pass()
    say("approve", "--batch", "bench:0")
    there = os.environ["FIELDCRAFT_LAB_URL"]
    monkeypatch.setenv("FIELDCRAFT_LAB_URL", "http://127.0.0.1:1/orders")
    with pytest.raises(NotSent, match="Order bench-0001-1 was not sent: mend the webhook"):
        one_pass()
    monkeypatch.setenv("FIELDCRAFT_LAB_URL", there)
    assert one_pass().sent == 2
    assert laboratory.keys == ["bench-0001-1", "bench-0002-1"]
