"""One Prefect API for all tests of a process that are not about how such a server begins or ends."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fieldcraft.flows.machinery.prefect_server import LOCAL, QUIET


@contextmanager
def serving(folder: Path) -> Iterator[dict[str, str]]:
    """A server with its database in a folder; the environment of a user whose server it is."""
    password = f"fieldcraft:{secrets.token_hex(8)}"
    ours = {"PREFECT_HOME": str(folder), "PREFECT_SERVER_API_AUTH_STRING": password}
    with subprocess.Popen(
        [sys.executable, "-m", "fieldcraft.flows.machinery.prefect_server"],
        env={**os.environ, **QUIET, **LOCAL, **ours},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        port = server.stdout.readline().strip()
        server.stdin.write("b")
        server.stdin.flush()
        yield {
            **QUIET,
            "PREFECT_HOME": str(folder / "user"),
            "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
            "PREFECT_API_AUTH_STRING": password,
        }
