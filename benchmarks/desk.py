"""Load on the web desk: viewers who follow a large campaign, each with a stream, while results come in.

    python benchmarks/desk.py [--trials 10000] [--viewers 50] [--commits 5]

A server of its own serves a campaign of imported trials. Each viewer holds a stream and loads the campaign's page anew
at each commit, as the desk's script does. It prints how long pages take, how late the stream tells of a commit, and the
memory of the server.
"""

import argparse
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import psutil
import yaml

from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Known

CAMPAIGN = """\
name: large
seed: 1
sense: maximize
problem:
  kind: declared
  variables:
    - {name: a, low: 0, high: 1}
    - {name: b, low: 0, high: 1}
    - {name: c, low: 0, high: 1}
    - {name: d, low: 0, high: 1}
  results: [{name: strength, unit: MPa}]
algorithm: {start: {n: 2}, surrogate: {kind: exact_gp}, acquisition: {kind: log_ei}, maximizer: {kind: multistart}}
approval: human
dispatcher: {kind: lab}
budget: {trials: 20000}
"""
TOKEN = "fc_of-viewer-{}-of-this-benchmark"  # a person may hold no more than some streams


def campaign(home: Path, trials: int) -> None:
    """A campaign of imported trials."""
    settings = settings_from({"FIELDCRAFT_MLFLOW": "off"}, home=home)
    ledger = open_ledger(settings.ledger, create=True)
    created(ledger, wire(parse(yaml.safe_load(CAMPAIGN), "large"), settings), home / "large.yaml")
    adopt(home, trials, 1)


def adopt(home: Path, trials: int, seed: int) -> None:
    """One commit with so many results."""
    rng = np.random.default_rng(seed)
    known = [
        Known(design=dict(zip("abcd", map(float, x), strict=True)), outputs={"strength": float(x.sum())})
        for x in rng.random((trials, 4))
    ]
    digest = hashlib.sha256(str(seed).encode()).hexdigest()
    open_ledger(home / "ledger.sqlite").adopt("large", known, digest, "table", "benchmark")


class Viewer(threading.Thread):
    """A person who follows the campaign's page."""

    def __init__(self, address: str, cookie: dict[str, str]) -> None:
        super().__init__(daemon=True)
        self.address, self.cookie = address, cookie
        self.pages: list[float] = []
        self.told: list[float] = []

    def run(self) -> None:
        with httpx.Client(base_url=self.address, cookies=self.cookie, timeout=60) as client:
            self.load(client)
            with client.stream("GET", "/live") as stream:
                for line in stream.iter_lines():
                    if line.startswith("data: [") and "large" in line:
                        self.told.append(time.time())
                        self.load(client)

    def load(self, client: httpx.Client) -> None:
        """Load the page, and note how long it took."""
        began = time.perf_counter()
        answer = client.get("/campaign/large?sort=y.strength&down=1")
        assert answer.status_code == 200 and "large-" in answer.text, answer.status_code
        self.pages.append(time.perf_counter() - began)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--commits", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free:
        port, home = free.getsockname()[1], Path(folder) / "home"
        free.close()
        campaign(home, options.trials)
        people = Path(folder) / "people.yaml"
        digests = [hashlib.sha256(TOKEN.format(n).encode()).hexdigest() for n in range(options.viewers + 1)]
        entries = [{"name": f"viewer {n}", "role": "viewer", "sha256": digest} for n, digest in enumerate(digests)]
        people.write_text(json.dumps({"tokens": entries}))
        people.chmod(0o600)
        environment = {**os.environ, "FIELDCRAFT_MLFLOW": "off", "FIELDCRAFT_PEOPLE": str(people)}
        words = [sys.executable, "-m", "fieldcraft.flows.cli", "desk", "--port", str(port), "--home", str(home)]
        with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as server:
            try:
                measure(server, options, f"http://127.0.0.1:{port}", home)
            finally:
                server.terminate()


def measure(server: "subprocess.Popen[str]", options: argparse.Namespace, address: str, home: Path) -> None:
    """Run the viewers and print what they saw."""
    assert server.stdout is not None and "desk is at" in server.stdout.readline()
    own = {"Origin": address, "Sec-Fetch-Site": "same-origin"}

    def signed_in(number: int) -> dict[str, str]:
        with httpx.Client(transport=httpx.HTTPTransport(retries=7), headers=own) as client:
            return dict(client.post(f"{address}/sign-in", data={"token": TOKEN.format(number)}).cookies)

    cookie = signed_in(options.viewers)
    process, warm = psutil.Process(server.pid), Viewer(address, cookie)
    with httpx.Client(base_url=address, cookies=cookie, timeout=60) as client:
        warm.load(client)
        warm.load(client)
    first, before = warm.pages, process.memory_info().rss / 2**20
    viewers = [Viewer(address, signed_in(number)) for number in range(options.viewers)]
    for viewer in viewers:
        viewer.start()
    time.sleep(5)
    used, began, late = process.cpu_times(), time.time(), list[float]()
    for number in range(options.commits):
        adopt(home, 1, 100 + number)
        committed = time.time()
        time.sleep(4)
        late += [viewer.told[-1] - committed for viewer in viewers if viewer.told]
    spent = sum(process.cpu_times()[:2]) - sum(used[:2])
    pages = np.array([took for viewer in viewers for took in viewer.pages[1:]])
    told = np.array(late)
    print(f"{options.trials:,} trials, {options.viewers} viewers, {options.commits} commits")
    print(f"one page: first {first[0]:.2f} s, then {first[1]:.3f} s")
    print(f"all viewers at once after a commit: {len(pages)} pages, median {np.median(pages):.2f} s, ", end="")
    print(f"95 % {np.quantile(pages, 0.95):.2f} s, most {pages.max():.2f} s")
    print(f"stream after the commit: median {np.median(told):.2f} s, most {told.max():.2f} s")
    print(f"server: {before:.0f} MiB before, {process.memory_info().rss / 2**20:.0f} MiB after, ", end="")
    print(f"{spent / (time.time() - began):.0%} of a core")


if __name__ == "__main__":
    main()
