"""A ``driver.py`` process, which runs campaigns in forked children: their start costs no imports."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import warm_start

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Driver:
    """The process, until it is closed."""

    def __init__(self, log: Path, cwd: Path | None = None) -> None:
        """Start it in a working directory; what it and its children complain of goes to the log."""
        self.log = log.open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(HERE / "driver.py")],
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", warm_start.NAMED: warm_start.served()},
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )

    def run(self, file: Path, environment: Mapping[str, str], cwd: Path | None = None) -> int:
        """Run the campaign of a file until it ends or waits for a person; the exit status, negative for a signal."""
        request = {"file": str(file), "environment": dict(environment), "cwd": str(cwd or Path.cwd())}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["status"]

    def said(self) -> str:
        """All it and its children have complained of."""
        return Path(self.log.name).read_text()

    def close(self) -> None:
        """Let it end."""
        self.process.communicate()
        self.log.close()
