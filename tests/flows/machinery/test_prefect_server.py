"""A Prefect server that ends before it serves, or that is slow: what is said of it, whenever that is."""

import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4

import pytest
from prefect.client.orchestration import get_client
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_REQUEST_TIMEOUT,
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    temporary_settings,
)

from fieldcraft.flows import decide
from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.machinery import prefect_server
from fieldcraft.flows.machinery.prefect_server import _OURS, Server, one_client


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "prefect")
    yield server
    server.close()


def kill(server: Server) -> None:
    assert server.child is not None
    server.child.send_signal(signal.SIGKILL)
    server.child.wait(60)


def test_one_that_is_killed_before_it_begins_is_named_with_what_ended_it(server, tmp_path):
    kill(server)
    with pytest.raises(
        FieldcraftError, match=r"local Prefect server was killed by SIGKILL before it began to serve\. "
    ):
        server.begin()


def test_one_that_is_killed_while_it_starts_is_named_with_where_it_wrote(server, tmp_path):
    server.begin()
    kill(server)
    with pytest.raises(
        FieldcraftError, match=rf"SIGKILL before it answered.*run the same.*delete {tmp_path}/prefect/s"
    ):
        server.ready()


def test_one_that_ends_by_itself_is_named_with_the_error_that_it_wrote(tmp_path):
    (tmp_path / "prefect" / "server").mkdir(parents=True)
    (tmp_path / "prefect" / "server" / "server.log").write_text("OSError: of an earlier server\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))  # the kernel refuses its database, as a full disk does
    try:
        server = Server(tmp_path / "prefect")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with closing(server), pytest.raises(FieldcraftError, match=r"says: OSError: .*File too large.*Nothing is lost"):
        server.begin()
        server.ready()


def test_one_that_cannot_even_start_says_its_status_and_leaves_the_environment_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))  # no Python starts there
    before = {name: value for name, value in os.environ.items() if name in _OURS}
    with (
        pytest.raises(FieldcraftError, match=r"local Prefect server ended with status \d+ before it (began|answered)"),
        closing(Server(tmp_path / "prefect")) as server,
    ):
        server.begin()
        server.ready()
    after = {name: value for name, value in os.environ.items() if name in _OURS}
    assert after == before


@contextmanager
def busy(monkeypatch: pytest.MonkeyPatch, seconds: float, status: int = 200) -> Iterator[str]:
    """The user's own API that takes connections at once, and says nothing before so many seconds have passed."""
    then = time.monotonic() + seconds
    ended = threading.Event()

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if ended.wait(max(0.0, then - time.monotonic())):
                return
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Nothing is said of it."""

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:  # whoever asked did not wait
                self.close_connection = True

    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PREFECT_API_URL", url := f"http://127.0.0.1:{server.server_port}/api")
        monkeypatch.setattr(prefect_server, "_REFUSED_S", 0.2)
        monkeypatch.setattr(prefect_server, "_LOOK_S", 0.1)
        settings = {PREFECT_API_URL: url, PREFECT_API_REQUEST_TIMEOUT: 0.1, PREFECT_CLIENT_MAX_RETRIES: 0}
        with temporary_settings(settings):
            yield url
        ended.set()
        server.shutdown()


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An API whose health everybody may ask for, and which lets nobody in but user:right."""

    class Locked(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            free = self.path == "/api/health" or self.headers.get("Authorization") == "Basic dXNlcjpyaWdodA=="
            self.send_response(200 if free else 401)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Nothing is said of it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Locked) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PREFECT_API_URL", f"http://user:SECRET@127.0.0.1:{server.server_port}/api")
        yield f"http://127.0.0.1:{server.server_port}/api"
        server.shutdown()


@pytest.mark.parametrize("given", [None, "user:wrong"])
def test_an_api_that_refuses_the_password_is_one_line_without_any(tmp_path, locked, given):
    with (
        temporary_settings({PREFECT_API_AUTH_STRING: given}),
        pytest.raises(FieldcraftError, match=f"The Prefect API at {locked} refuses the password. Set PREFECT_API_AU"),
    ):
        Server(tmp_path / "prefect").ready()


def test_an_api_that_accepts_the_password_is_ready(tmp_path, locked):
    with temporary_settings({PREFECT_API_AUTH_STRING: "user:right"}):
        Server(tmp_path / "prefect").ready()


def test_an_api_that_is_not_there_is_named_without_its_password(tmp_path, monkeypatch):
    monkeypatch.setattr(prefect_server, "_REFUSED_S", 0.2)
    monkeypatch.setenv("PREFECT_API_URL", "http://user:SECRET@127.0.0.1:9/api")
    with pytest.raises(FieldcraftError, match=r"No Prefect API answers at http://127\.0\.0\.1:9/api\."):
        Server(tmp_path / "prefect").ready()


def test_a_slash_at_the_end_of_an_address_does_not_count(tmp_path, locked, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", f"{os.environ['PREFECT_API_URL']}/")
    with temporary_settings({PREFECT_API_AUTH_STRING: "user:right"}):
        Server(tmp_path / "prefect").ready()


def test_a_server_that_has_no_api_at_that_address_is_told_from_one_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr(prefect_server, "_REFUSED_S", 0.2)
    with (
        busy(monkeypatch, 0.0, 404) as url,
        pytest.raises(FieldcraftError, match=rf"^PREFECT_API_URL is {url}, .*{url}/health with 404.*ends with /api"),
    ):
        Server(tmp_path / "prefect").ready()


def test_an_api_that_is_slow_to_answer_is_waited_for_beyond_the_time_of_one_that_refuses(tmp_path, monkeypatch):
    with busy(monkeypatch, 0.6):
        Server(tmp_path / "prefect").ready()


def test_an_api_that_takes_connections_and_never_answers_is_one_line_that_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(prefect_server, "START_S", 0.5)
    with (
        busy(monkeypatch, 600.0) as url,
        pytest.raises(FieldcraftError, match=f"The Prefect API at {url} took the connection, but did not answer"),
    ):
        Server(tmp_path / "prefect").ready()


@pytest.mark.parametrize(
    ("seconds", "status", "why"),
    [(600.0, 200, "timed out"), (0.0, 503, "503 Service Unavail"), (0.0, 401, "401 Unauthorized")],
)
def test_prefects_client_that_gives_up_is_one_line_at_its_first_look_and_later(
    tmp_path, monkeypatch, seconds, status, why
):
    with busy(monkeypatch, seconds, status) as url:
        server = Server(tmp_path / "prefect")
        told = rf"^The Prefect API at {url} does not answer any more \([^\n]*{why}[^\n]*\)\. Nothing is lost[^\n]*$"
        with pytest.raises(FieldcraftError, match=told), server.answering(), one_client():
            pass  # its version is asked for
        with (
            pytest.raises(FieldcraftError, match=told),
            server.answering(),
            get_client(sync_client=True) as client,
        ):
            client.read_flow_run(uuid4())


def test_an_error_that_is_none_of_the_api_is_not_taken_for_its_silence(tmp_path):
    server = Server(tmp_path / "prefect")
    with pytest.raises(RuntimeError, match="a mistake of ours"), server.answering():
        raise RuntimeError("a mistake of ours") from ValueError("of no server")
    server.close()


def test_a_token_that_cannot_be_blanked_is_one_line_and_nothing_is_decided(monkeypatch, capsys):
    with busy(monkeypatch, 600.0):
        run = uuid4()
        told = decide._blank(run)
        assert told is not None and told.startswith("The token could not be blanked, for Prefect does not answer (")
        assert "\n" not in told
        monkeypatch.setenv("PREFECT__RUNTIME__FLOW_RUN__ID", str(run))  # as Prefect names a run to a program
        state = decide.decide.fn(["b-0001"], "approve", "a token")
        assert (state.is_failed(), state.message) == (True, f"{told}. Nothing was changed.")
