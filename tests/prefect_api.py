"""One Prefect API for all tests of a process that are not about how such a server begins or ends."""

import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import warm_start

from fieldcraft.flows.machinery.prefect_server import LOCAL, QUIET, api_of, bound, command_of


@contextmanager
def serving(folder: Path) -> Iterator[dict[str, str]]:
    """A server with its database in a folder; the environment of a user whose server it is."""
    password = f"fieldcraft:{secrets.token_hex(8)}"
    ours = {"PREFECT_HOME": str(folder), "PREFECT_SERVER_API_AUTH_STRING": password}
    with (
        bound() as listener,
        subprocess.Popen(
            command_of(listener),
            env={**os.environ, **QUIET, **LOCAL, **ours},
            pass_fds=[listener.fileno()],
            stdin=subprocess.PIPE,
            text=True,
        ) as server,
    ):
        server.stdin.write("b")
        server.stdin.flush()
        yield {
            **QUIET,
            "PREFECT_HOME": str(folder / "user"),
            "PREFECT_API_URL": api_of(listener),
            "PREFECT_API_AUTH_STRING": password,
        }


def warm(environment: Mapping[str, str]) -> AbstractContextManager[str]:
    """The socket of a server of processes that have imported Prefect in such an environment."""
    return warm_start.serving({**os.environ, **environment}, "fieldcraft.flows.campaign")
