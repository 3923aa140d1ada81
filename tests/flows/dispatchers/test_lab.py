"""The dispatcher ``lab`` with real folders and a real HTTP server standing in for the laboratory."""

import csv
import dataclasses
import json
import multiprocessing
import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from fieldcraft.flows.dispatchers.lab import Lab
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.jobs.dispatcher import CannotTell, Failed, Job, Lost, NotSent, Place, Running
from fieldcraft.flows.machinery.webhooks import NotDelivered
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire

URL_OF_NOBODY = "http://127.0.0.1:1/orders"


class Laboratory(HTTPServer):
    """Keeps what it is sent; ``answers`` says what it does with each request, in their order."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Desk)
        self.got: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.answers: list[int | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/orders?bench=1"


class _Desk(BaseHTTPRequestHandler):
    server: Laboratory

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append(({"path": self.path, **self.headers}, json.loads(body)))
        answer = self.server.answers.pop(0) if self.server.answers else 202
        if answer is None:
            self.connection.close()  # took the order, and the answer was lost
            return
        self.send_response(answer)
        if answer == 307:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def laboratory() -> Iterator[Laboratory]:
    server = Laboratory()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def lab(folder: Path, webhook: str | None = None, token: str | None = None) -> Lab:
    return Lab(Place("bench", folder / "work", 600.0, "Stir.", folder / "bench", webhook, token))


def job(number: int = 1, attempt: int = 1, x: float = 0.1, iteration: int = 0) -> Job:
    request = {
        "problem": {"kind": "any"},
        "simulator": None,
        "design": {"x": x, "gas": "N2"},
        "units": {"x": "mm", "gas": ""},
        "outputs": {"value": "K", "limit": ""},
        "digest": "d" * 64,
        "iteration": iteration,
    }
    return Job(f"bench-{number:04d}", f"bench-{number:04d}-{attempt}", request)


def table(file: Path) -> list[list[str]]:
    return list(csv.reader(file.open()))


def test_an_order_says_all_that_a_laboratory_needs(tmp_path):
    dispatcher = lab(tmp_path)
    assert dispatcher.find("bench-0001-1") is None
    handle = dispatcher.submit(job())
    order = json.loads((tmp_path / "bench/open/bench-0001-1.json").read_text())
    assert order.pop("ordered").endswith("+00:00")
    assert order == {
        "key": "bench-0001-1",
        "trial": "bench-0001",
        "campaign": "bench",
        "iteration": 0,
        "design": {"x": 0.1, "gas": "N2"},
        "units": {"x": "mm", "gas": ""},
        "outputs": {"value": "K", "limit": ""},
        "instructions": "Stir.",
        "digest": "d" * 64,
    }
    assert (tmp_path / "bench/instructions.txt").read_text() == "Stir.\n"
    assert dispatcher.find("bench-0001-1") == handle
    assert dispatcher.poll(handle) == Running()


def test_the_table_of_a_batch_follows_the_open_orders(tmp_path):
    dispatcher = lab(tmp_path)
    for number in (1, 2):
        dispatcher.submit(job(number, x=0.1 * number))
    dispatcher.submit(job(3, iteration=1))
    assert table(tmp_path / "bench/batch-0000.csv") == [
        ["key", "trial", "x [mm]", "gas", "value [K]", "limit", "notes"],
        ["bench-0001-1", "bench-0001", "0.1", "N2", "", "", ""],
        ["bench-0002-1", "bench-0002", "0.2", "N2", "", "", ""],
    ]
    dispatcher.forget("bench-0001-1")
    dispatcher.cancel({"key": "bench-0003-1"})
    dispatcher.write_tables()
    assert [row[0] for row in table(tmp_path / "bench/batch-0000.csv")] == ["key", "bench-0002-1"]
    assert not (tmp_path / "bench/batch-0001.csv").exists()
    assert list(dispatcher.at_large()) == ["bench-0002-1"]


def test_what_people_wrote_into_a_table_survives_its_renewal(tmp_path):
    dispatcher = lab(tmp_path)
    dispatcher.submit(job(1))
    file = tmp_path / "bench/batch-0000.csv"
    file.write_text(file.read_text().replace("0.1,N2,,,", "0.1,N2,293.5,,hot"))
    dispatcher.submit(job(2))
    assert table(file)[1][4:] == ["293.5", "", "hot"]
    dispatcher.cancel({"key": "bench-0001-1"})
    dispatcher.write_tables()
    assert [row[0] for row in table(file)] == ["key", "bench-0002-1"]
    (kept,) = (tmp_path / "bench/done").glob("batch-0000-*.csv")
    assert table(kept)[1][4:] == ["293.5", "", "hot"]


def test_a_table_that_people_made_their_own_is_set_aside(tmp_path):
    dispatcher = lab(tmp_path)
    dispatcher.submit(job(1))
    (tmp_path / "bench/batch-0000.csv").write_text("sample;value\nA;3\n")
    dispatcher.submit(job(2))
    assert len(table(tmp_path / "bench/batch-0000.csv")) == 3
    (kept,) = (tmp_path / "bench/done").glob("batch-0000-*.csv")
    assert kept.read_text() == "sample;value\nA;3\n"


def test_a_table_with_two_rows_of_one_order_is_set_aside_with_both(tmp_path):
    dispatcher = lab(tmp_path)
    dispatcher.submit(job(1))
    file = tmp_path / "bench/batch-0000.csv"
    header, row = file.read_text().splitlines()
    file.write_text(f"{header}\n{row.replace('N2,,', 'N2,30,')}\n{row.replace('N2,,', 'N2,32,')}\n")
    dispatcher.write_tables()
    assert table(file)[1:] == [["bench-0001-1", "bench-0001", "0.1", "N2", "", "", ""]]
    (kept,) = (tmp_path / "bench/done").glob("batch-0000-*.csv")
    assert [row[4] for row in table(kept)[1:]] == ["30", "32"]


def test_orders_that_several_people_take_back_at_once_leave_neither_an_error_nor_a_row(tmp_path):
    dispatcher = lab(tmp_path)
    for attempt in range(1, 13):
        handles = [dispatcher.submit(job(number, attempt)) for number in range(1, 6)]
        with ThreadPoolExecutor(4) as people:
            list(people.map(dispatcher.cancel, handles[1:]))
        rows = table(tmp_path / "bench/batch-0000.csv")
        assert [row[0] for row in rows] == ["key", f"bench-0001-{attempt}"]
        dispatcher.cancel(handles[0])
        assert not list((tmp_path / "bench").glob("*batch*"))


def test_an_order_can_be_cancelled_or_done_but_not_vanish(tmp_path):
    dispatcher = lab(tmp_path)
    handles = [dispatcher.submit(job(number)) for number in (1, 2, 3)]
    dispatcher.cancel(handles[0])
    dispatcher.forget("bench-0002-1")
    (tmp_path / "bench/open/bench-0003-1.json").unlink()
    assert dispatcher.poll(handles[0]) == Failed("cancelled", "order bench-0001-1 was cancelled")
    assert dispatcher.find("bench-0002-1") == handles[1]
    assert isinstance(dispatcher.poll(handles[1]), Lost)
    assert isinstance(dispatcher.poll(handles[2]), Lost)
    dispatcher.cancel(handles[0])  # again: nothing is left to do
    dispatcher.forget("bench-0002-1")


def test_the_webhook_gets_each_order_once_with_key_and_token(tmp_path, laboratory):
    dispatcher = lab(tmp_path, laboratory.url, "s3cret")
    handle = dispatcher.submit(job())
    dispatcher.cancel(handle)
    (headers, order), (told, body) = laboratory.got
    assert (headers["path"], headers["Idempotency-Key"]) == ("/orders?bench=1", "bench-0001-1")
    assert headers["Authorization"] == "Bearer s3cret"
    assert (order["event"], order["design"], order["instructions"]) == ("order", {"x": 0.1, "gas": "N2"}, "Stir.")
    assert told["Idempotency-Key"] == "bench-0001-1-cancelled"
    assert body == {"event": "cancelled", "key": "bench-0001-1", "trial": "bench-0001"}
    assert "s3cret" not in repr(dispatcher)


@pytest.mark.parametrize("answer", [400, 403, 404, 422, 429, 302, 307])
def test_an_order_that_the_webhook_refuses_is_not_sent_and_can_be_sent_later(tmp_path, laboratory, answer):
    laboratory.answers = [answer]
    dispatcher = lab(tmp_path, laboratory.url)
    with pytest.raises(NotSent, match=f"answered {answer}.*bench-0001-1 was not sent.*Nothing is lost"):
        dispatcher.submit(job())
    assert dispatcher.find("bench-0001-1") is None
    dispatcher.submit(job())
    assert dispatcher.find("bench-0001-1") == {"key": "bench-0001-1"}


def test_a_request_that_cannot_be_made_is_not_sent_and_quotes_no_token(tmp_path, laboratory):
    dispatcher = lab(tmp_path, laboratory.url, "s3cret\nX: y")
    with pytest.raises(NotSent, match=r"127\.0\.0\.1 was sent nothing: the request cannot be made") as error:
        dispatcher.submit(job())
    assert "s3cret" not in str(error.value)
    assert (dispatcher.find("bench-0001-1"), laboratory.got) == (None, [])


def test_an_order_to_a_webhook_that_cannot_be_reached_is_not_sent(tmp_path):
    dispatcher = lab(tmp_path, URL_OF_NOBODY)
    with pytest.raises(NotSent, match=r"cannot be reached.*FIELDCRAFT_LAB_URL"):
        dispatcher.submit(job())
    assert dispatcher.find("bench-0001-1") is None


@pytest.mark.parametrize("answer", [303, 304, 408, 409, 425, 451, 500, 503, None])
def test_an_order_that_may_have_arrived_is_never_sent_again(tmp_path, laboratory, answer):
    laboratory.answers = [answer]
    dispatcher = lab(tmp_path, laboratory.url)
    with pytest.raises(CannotTell, match="Whether it took order bench-0001-1 is unknown"):
        dispatcher.submit(job())
    for ask in (lambda: dispatcher.find("bench-0001-1"), lambda: dispatcher.look({"key": "bench-0001-1"})):
        with pytest.raises(CannotTell, match="bench-0001-1 was being sent"):
            ask()
    assert len(laboratory.got) == 1
    dispatcher.cancel({"key": "bench-0001-1"})
    assert laboratory.got[1][1] == {"event": "cancelled", "key": "bench-0001-1", "trial": "bench-0001"}
    assert dispatcher.at_large() == {}


def test_a_cancellation_that_cannot_be_told_takes_the_order_back_and_is_told_later(tmp_path, laboratory):
    dispatcher = lab(tmp_path, laboratory.url)
    handle = dispatcher.submit(job())
    laboratory.answers = [503]
    with pytest.raises(NotDelivered, match="answered 503"):
        dispatcher.cancel(handle)
    assert dispatcher.poll(handle) == Running()
    assert list((tmp_path / "bench/open").iterdir()) == []
    assert not (tmp_path / "bench/batch-0000.csv").exists()
    assert list(dispatcher.at_large()) == ["bench-0001-1"]
    dispatcher.cancel(handle)
    assert dispatcher.at_large() == {}
    assert [body["event"] for _, body in laboratory.got] == ["order", "cancelled", "cancelled"]
    assert isinstance(dispatcher.poll(handle), Failed)


def test_a_cancellation_waits_for_the_webhook_that_got_the_order(tmp_path, laboratory):
    handle = lab(tmp_path, laboratory.url).submit(job())
    with pytest.raises(NotDelivered, match="bench-0001-1 was sent to a webhook and FIELDCRAFT_LAB_URL names none now"):
        lab(tmp_path).cancel(handle)
    assert list((tmp_path / "bench/open").iterdir()) == []
    assert list(lab(tmp_path).at_large()) == ["bench-0001-1"]
    lab(tmp_path, laboratory.url).cancel(handle)
    assert [body["event"] for _, body in laboratory.got] == ["order", "cancelled"]
    assert lab(tmp_path).at_large() == {}


def test_an_order_is_not_looked_for_in_another_folder_than_the_one_it_was_put_into(tmp_path):
    dispatcher = lab(tmp_path)
    handle = dispatcher.submit(job())
    (tmp_path / "away").mkdir()
    moved = dataclasses.replace(dispatcher.place, orders=tmp_path / "away" / "bench")
    both = re.escape(
        f"{tmp_path}/away/bench: holds no campaign.json, and the orders of 'bench' lie in {tmp_path}/bench"
    )
    for ask in (lambda: Lab(moved).find("bench-0002-1"), lambda: Lab(moved).poll(handle)):
        with pytest.raises(CannotTell, match=both):
            ask()
    with pytest.raises(NotSent, match=f"{both}.*Mount that folder"):
        Lab(moved).submit(job(2))
    with pytest.raises(InputError, match=both):
        Lab(moved).cancel(handle)
    assert not moved.orders.exists()
    dispatcher.place.orders.rename(moved.orders)  # whole, with its mark
    assert Lab(moved).find("bench-0001-1") == handle
    Lab(moved).submit(job(2))
    with pytest.raises(CannotTell, match=f"lie in {re.escape(str(moved.orders))}"):
        dispatcher.find("bench-0001-1")


@pytest.mark.parametrize("mark", [None, "torn {"])
def test_two_stores_cannot_share_a_folder_of_orders(tmp_path, mark):
    lab(tmp_path).submit(job())
    if mark is not None:
        (tmp_path / "bench" / "campaign.json").write_text(mark)
    other = Lab(Place("bench", tmp_path / "other", 600.0, "", tmp_path / "bench"))
    with pytest.raises(NotSent, match=r"its campaign.json is of another store\. Use another folder, by FIELDCRAFT_LAB"):
        other.submit(job())
    with pytest.raises(CannotTell, match="of another store"):
        other.find("bench-0001-1")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("marked", [False, True])
def test_a_folder_whose_claim_was_cut_off_is_claimed_again(tmp_path, marked):
    dispatcher, pin = lab(tmp_path), tmp_path / "work" / "orders.json"
    handle = dispatcher.submit(job())
    pin.write_text(json.dumps({**json.loads(pin.read_text()), "marked": False}))
    if not marked:
        (tmp_path / "bench" / "campaign.json").unlink()
    assert dispatcher.find("bench-0001-1") == handle
    dispatcher.submit(job(2))
    assert json.loads(pin.read_text())["marked"]
    assert lab(tmp_path).find("bench-0002-1") == {"key": "bench-0002-1"}


def submit_and_die(folder: Path, webhook: str | None, at: str) -> None:
    os.environ["FIELDCRAFT_DIE_AT"] = at
    lab(folder, webhook).submit(job())


@pytest.mark.parametrize(
    ("at", "known"),
    [
        ("lab.webhook.before#1", CannotTell),
        ("lab.webhook.after#1", CannotTell),
        ("lab.order.before#1", CannotTell),
        ("lab.order.after#1", True),
    ],
)
def test_a_pass_killed_while_it_orders_knows_afterwards_what_it_may_know(tmp_path, laboratory, at, known):
    child = multiprocessing.get_context("fork").Process(target=submit_and_die, args=(tmp_path, laboratory.url, at))
    child.start()
    child.join(30)
    assert child.exitcode == -9
    dispatcher = lab(tmp_path, laboratory.url)
    if known is CannotTell:
        with pytest.raises(CannotTell, match="bench-0001-1 was being sent"):
            dispatcher.find("bench-0001-1")
    else:
        assert dispatcher.find("bench-0001-1") == {"key": "bench-0001-1"}
    assert len(laboratory.got) == (at != "lab.webhook.before#1")


@pytest.mark.parametrize(("at", "known"), [("lab.order.before#1", None), ("lab.order.after#1", True)])
def test_without_a_webhook_an_order_is_there_or_it_is_not(tmp_path, at, known):
    child = multiprocessing.get_context("fork").Process(target=submit_and_die, args=(tmp_path, None, at))
    child.start()
    child.join(30)
    assert child.exitcode == -9
    assert bool(lab(tmp_path).find("bench-0001-1")) is bool(known)


SPEC = {
    "name": "bench",
    "seed": 1,
    "sense": "minimize",
    "problem": {"kind": "branin"},
    "algorithm": {"start": {"n": 2}},
    "budget": {"trials": 2},
}


def test_people_need_no_simulator_and_are_never_idempotent(tmp_path):
    made = wire(parse({**SPEC, "dispatcher": {"kind": "lab"}}, "x"), settings_from({}, home=tmp_path))
    assert made.simulator is None
    assert not made.idempotent
    assert made.limits.attempt_seconds == 0
    assert made.dispatcher.by_people
    assert made.dispatcher.place.orders == tmp_path / "lab" / "bench"


def test_a_limit_of_wall_time_for_people_is_refused_since_nothing_could_enforce_it(tmp_path):
    spec = {**SPEC, "dispatcher": {"kind": "lab"}, "budget": {"trials": 2, "wall_time_h": 1.5}}
    with pytest.raises(
        InputError, match=r"budget\.wall_time_h: 1\.5 is given, .* 'lab' people do .* limit budget\.cost"
    ):
        wire(parse(spec, "x"), settings_from({}, home=tmp_path))


def test_a_simulator_beside_people_and_none_beside_a_machine_are_refused(tmp_path):
    settings = settings_from({}, home=tmp_path)
    with pytest.raises(InputError, match=r"simulator: 'function' is given.*Leave simulator out"):
        wire(parse({**SPEC, "simulator": {"kind": "function"}, "dispatcher": {"kind": "lab"}}, "x"), settings)
    with pytest.raises(InputError, match=r"simulator: missing\. The dispatcher 'local' needs one"):
        wire(parse(SPEC, "x"), settings)
