"""How long the suite of faults is, where it works, and what it counts.

FIELDCRAFT_CHAOS=long       all of it, as ``make chaos`` has it; else the short form
FIELDCRAFT_CHAOS_SEED=N     of the simulated engine only the schedule of that seed
FIELDCRAFT_CHAOS_JSON=FILE  the counts, as JSON, too
"""

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from length import LONG, LOSSES

# What takes minutes: a process for every kill, servers that are killed and started again.
collect_ignore = [] if LONG else ["test_random_kills.py", "test_servers.py"]
RAM = Path("/dev/shm")


@pytest.fixture(scope="module")
def ram(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in memory where there is one: thousands of commits are not to wait for a disk."""
    if not os.access(RAM, os.W_OK):
        yield tmp_path_factory.mktemp("chaos")
        return
    folder = Path(tempfile.mkdtemp(prefix="fieldcraft-chaos-", dir=RAM))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def count(request: pytest.FixtureRequest) -> Callable[[Counter], None]:
    """Adds what a test has done, and seen, to what the suite tells at its end."""

    def add(seen: Counter) -> None:
        request.node.user_properties.append(("chaos", dict(seen)))

    return add


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The counts of all tests together, wherever they ran."""
    found = (report for reports in terminalreporter.stats.values() for report in reports)
    reports = [report for report in found if getattr(report, "when", None) == "call"]
    counted = [values for report in reports for name, values in report.user_properties if name == "chaos"]
    if not counted:
        return
    total: Counter = sum(map(Counter, counted), Counter())
    told = {**dict(sorted(total.items())), **{name: total[name] for name in LOSSES}}
    terminalreporter.section("chaos")
    for name, number in told.items():
        terminalreporter.line(f"{number:8d}  {name}")
    if file := os.environ.get("FIELDCRAFT_CHAOS_JSON"):
        Path(file).write_text(json.dumps(told, indent=1))
