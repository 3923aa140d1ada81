"""A ``driver.py`` process, which runs campaigns in forked children: their start costs no imports."""

import json
import os
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
        (asked, ask), (answer, answered) = os.pipe(), os.pipe()
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
        files = [asked, answered, self.log.fileno()]
        self.process = warm_start.Warm(["-m", "scenarios.driver"], files, environment, str(cwd or Path.cwd()))
        for given in (asked, answered):
            os.close(given)
        self.requests, self.answers = os.fdopen(ask, "w"), os.fdopen(answer)

    def run(self, file: Path, environment: Mapping[str, str], cwd: Path | None = None) -> int:
        """Run the campaign of a file until it ends or waits for a person; the exit status, negative for a signal."""
        request = {"file": str(file), "environment": dict(environment), "cwd": str(cwd or Path.cwd())}
        self.requests.write(json.dumps(request) + "\n")
        self.requests.flush()
        return json.loads(self.answers.readline())["status"]

    def said(self) -> str:
        """All it and its children have complained of."""
        return Path(self.log.name).read_text()

    def close(self) -> None:
        """Let it end."""
        self.requests.close()
        self.process.wait()
        self.answers.close()
        self.log.close()
