"""The local Prefect server that ends before it serves: what is said of it, whenever that is."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.machinery.prefect_server import _OURS, Server


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


def test_one_that_cannot_even_start_says_its_status_and_leaves_the_environment_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))  # no Python starts there
    before = {name: value for name, value in os.environ.items() if name in _OURS}
    with pytest.raises(FieldcraftError, match=r"local Prefect server ended with status \d+ before it had a port"):
        Server(tmp_path / "prefect")
    after = {name: value for name, value in os.environ.items() if name in _OURS}
    assert after == before
