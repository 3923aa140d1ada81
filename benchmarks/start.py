"""How long a command takes to its first proposal, beside what Prefect alone takes to its first flow, untuned.

Run on an idle machine: ``python benchmarks/start.py``. Each figure is the median of three, in fresh folders.

    prefect untuned, new     a process that imports torch and Prefect and calls a flow, on an empty PREFECT_HOME
    prefect untuned, again   the same on the PREFECT_HOME that this left
    fieldcraft, new          ``fieldcraft run`` on an empty home, to its first line about a proposal
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLAIN = """
import torch
from prefect import flow, task
@task
def step(): return 1
@flow
def first(): step(); print("first", flush=True)
first()
"""


def seconds_to_line(command: list[str], word: str, environment: dict[str, str]) -> float:
    """Seconds until ``command`` prints a line with ``word``; the process is then stopped."""
    names = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "FIELDCRAFT_"))}
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        env={**names, "PYTHONPATH": str(ROOT), "DO_NOT_TRACK": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        for line in process.stdout:
            if word in line:
                return time.perf_counter() - began
        raise SystemExit(f"{command} ended without a line with {word!r}")
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # with the server that Prefect started, which would outlive it
        process.wait()


def measure() -> dict[str, list[float]]:
    """Seconds by what was started, three of each, interleaved."""
    found: dict[str, list[float]] = {"prefect untuned, new": [], "prefect untuned, again": [], "fieldcraft, new": []}
    subprocess.run([sys.executable, "-m", "fieldcraft.flows.machinery.prepare"], cwd=ROOT, check=True)
    for _ in range(3):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            plain = {
                "PREFECT_HOME": f"{folder}/prefect",
                "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
                "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
            }
            for name in ("prefect untuned, new", "prefect untuned, again"):
                found[name].append(seconds_to_line([sys.executable, "-c", PLAIN], "first", plain))
            run = [sys.executable, "-m", "fieldcraft.flows.cli", "run", str(ROOT / "campaigns" / "heat.yaml")]
            found["fieldcraft, new"].append(
                seconds_to_line([*run, "--home", f"{folder}/runs"], "acquire", {"FIELDCRAFT_MLFLOW": "off"})
            )
    return found


if __name__ == "__main__":
    figures = measure()
    medians = {name: statistics.median(values) for name, values in figures.items()}
    for name, values in figures.items():
        ratio = medians[name] / medians["fieldcraft, new"]
        print(f"{name:24} {medians[name]:6.1f} s  ({min(values):.1f}-{max(values):.1f})  {ratio:4.1f} x fieldcraft")
