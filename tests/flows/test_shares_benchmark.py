"""The benchmark of what a run costs by process: the line through two lengths, and whose seconds are whose."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

BURN = """\
import subprocess, sys, time

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

code, *module = sys.argv[1:]
burn(0.4 if module else 0.2)
if module:
    print("burnt", flush=True)
    sys.stdin.read()
else:
    subprocess.run([sys.executable, "-c", code, code, "fieldcraft.flows.machinery.prefect_server"])
"""


@pytest.fixture
def shares(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module("shares")


def used(**seconds: float) -> dict[str, float]:
    return dict.fromkeys(("run", "server", "exporter", "heartbeat", "simulations"), 0.0) | seconds


def test_the_length_from_which_the_share_is_little_is_where_the_two_lines_cross(shares):
    fixed, each = used(run=4.0, server=3.0, exporter=2.0), used(run=0.2, server=0.02, exporter=0.01, simulations=0.6)
    n = shares.little_from(fixed, each)
    assert (5.0 + 0.03 * n) / (9.0 + 0.83 * n) == pytest.approx(0.15, abs=1e-12)
    assert shares.little_from(fixed, used(run=1.0, exporter=1.0)) == float("inf")
    figures = {n: [{role: fixed[role] + n * each[role] for role in fixed}] for n in (10, 30)}
    assert shares.table("heat", figures).splitlines()[-1] == f"under 15% from {n:.0f} trials on"


def test_the_seconds_of_a_child_are_seen_by_its_module(shares):
    words = [sys.executable, "-c", BURN, BURN]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        seen = shares.Seen()
        while seen.by_role(0.0)["server"] < 0.4:
            seen.look(process.pid)
        process.stdin.close()
    assert seen.by_role(0.7) == pytest.approx(used(run=0.3, server=0.4), abs=0.1)
