"""The notebooks run as they stand in a Jupyter kernel, killed or not, and so does the Python of docs/python.md."""

import json
import os
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import warm_start
from jupyter_client import BlockingKernelClient
from jupyter_client.connect import write_connection_file

import fieldcraft as fc
from fieldcraft.flows.notebook.card import PLOTLY

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120


class Kernel:
    """A kernel of Jupyter's, and what its cells have shown."""

    def __init__(self, client: BlockingKernelClient, process: warm_start.Warm) -> None:
        self.client, self.process, self.shown = client, process, ""
        self.figures: list[Mapping] = []

    def run(self, cell: str) -> None:
        """Run a cell to its end; an error of the cell fails the test."""
        answer = self.client.execute_interactive(cell, timeout=PATIENCE_S, output_hook=self._hear)
        assert answer["content"]["status"] == "ok", "\n".join(answer["content"]["traceback"])

    def _hear(self, message: Mapping) -> None:
        content = message["content"]
        forms = dict(content.get("data", {}))
        self.figures += [forms.pop(PLOTLY)] if PLOTLY in forms else []
        self.shown += content.get("text", "") + "".join(forms.values())


@contextmanager
def kernel(home: Path, **environment: str) -> Iterator[Kernel]:
    """A kernel of its own process, which is killed at the end of the block."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.json"
        write_connection_file(str(file), ip=f"{folder}/socket", transport="ipc")
        shared = {"FIELDCRAFT_HOME": str(home), "FIELDCRAFT_MLFLOW": "off", "IPYTHONDIR": str(home.parent)}
        words = ["-m", "ipykernel_launcher", "-f", str(file)]
        process = warm_start.begun(words, {**os.environ, **shared, **environment})
        client = BlockingKernelClient(connection_file=str(file))
        client.load_connection_file()
        client.hb_channel.time_to_dead = PATIENCE_S  # else a kernel that needs a second to begin counts as dead
        client.start_channels()
        try:
            client.wait_for_ready(timeout=PATIENCE_S)
            yield Kernel(client, process)
        finally:
            client.stop_channels()
            process.kill()
            process.communicate(30)


def cells(notebook: str) -> list[str]:
    found = json.loads((ROOT / "docs" / f"{notebook}.ipynb").read_text())["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]


def oven(home: Path) -> object:
    return fc.campaign("oven", home=home).trials.to_dict("index")


def test_the_notebook_of_a_laboratory_runs_as_it_stands(tmp_path):
    with kernel(tmp_path / "home") as begun:
        for cell in cells("laboratory"):
            begun.run(cell)
    assert '<img alt="results and the best so far by trial"' in begun.shown, "where Plotly's figures are not drawn"
    done = fc.campaign("glue", home=tmp_path / "home").trials.dropna(subset=["strength"])
    (figure,) = {json.dumps(each): each for each in begun.figures[-1:]}.values()
    shown = sorted(y for trace in figure["data"] if trace["mode"] == "markers" for y in trace["y"])
    assert shown == pytest.approx(sorted(done.strength), rel=1e-5), "the figure has the results of the ledger"


def test_a_notebook_whose_kernel_is_killed_and_run_again_comes_to_the_same_trials(tmp_path, prefect_api, monkeypatch):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    monkeypatch.setenv("FIELDCRAFT_HOME", str(whole))
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    exec("\n".join(cells("function")), {})
    with kernel(killed) as begun:
        for cell in cells("function")[:2]:
            begun.run(cell)
        begun.run("campaign.run(strength, trials=3)")
        begun.client.execute("import os; campaign.run(lambda design: os.kill(os.getpid(), 9))")
        assert begun.process.wait(PATIENCE_S) == -signal.SIGKILL
    assert begun.shown.count("These passes do not show in Prefect") == 1
    assert fc.campaign("oven", home=killed).trials.state.tolist() == ["COMPLETED"] * 3 + ["RUNNING"]
    with kernel(killed, **prefect_api) as again:  # in the kernel's event loop, through Prefect
        for cell in cells("function"):
            again.run(cell)
    assert "do not show in Prefect" not in again.shown
    assert '<img alt="results and the best so far by trial"' in again.shown
    assert oven(killed) == oven(whole)


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.S)


@pytest.mark.parametrize("block", blocks(), ids=("fieldcraft", "optuna", "ax", "baybe"))
def test_the_loops_of_the_page_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    short = block.replace("range(20)", "range(4)").replace("budget=20", "budget=8")
    done = warm_start.run(["-c", short], {**os.environ}, 240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_loop_of_fieldcraft_takes_at_most_eight_lines():
    assert len([line for line in blocks()[0].splitlines() if line.strip()]) <= 8
