"""The notebooks and the Python of docs/python.md run as they stand; a killed notebook goes on with the same designs."""

import os
import re
import signal
import subprocess
from math import exp
from pathlib import Path

import pytest
import warm_start

import fieldcraft as fc

ROOT = Path(__file__).resolve().parents[2]
KERNEL = """
import ast, asyncio, json, os, signal, sys

async def kernel(file, last):
    names = {"__name__": "__main__"}
    cells = [cell for cell in json.load(open(file))["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells):
        if number == last:
            os.kill(os.getpid(), signal.SIGKILL)
        tree = ast.parse("".join(cell["source"]))
        shown = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, file, "exec"), names)
        value = shown and eval(compile(shown, file, "eval"), names)
        print(value._repr_html_() if hasattr(value, "_repr_html_") else value)

asyncio.run(kernel(sys.argv[1], int(sys.argv[2])))
"""


def kernel(notebook: str, home: Path, last: int = -1) -> "subprocess.CompletedProcess[str]":
    """The cells in order, in an event loop as Jupyter has one; killed before cell ``last``."""
    file = ROOT / "docs" / f"{notebook}.ipynb"
    environment = {**os.environ, "FIELDCRAFT_HOME": str(home), "FIELDCRAFT_MLFLOW": "off"}
    return warm_start.run(["-c", KERNEL, str(file), str(last)], environment, 240)


def oven(home: Path) -> object:
    return fc.campaign("oven", home=home).trials.to_dict("index")


def test_the_notebook_of_a_laboratory_runs_as_it_stands(tmp_path):
    done = kernel("laboratory", tmp_path / "home")
    assert done.returncode == 0, done.stderr
    assert '<img alt="results and the best so far by trial"' in done.stdout


def test_a_notebook_that_was_killed_and_run_again_comes_to_the_same_trials(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = kernel("function", whole)
    assert done.returncode == 0, done.stderr
    assert '<img alt="results and the best so far by trial"' in done.stdout
    assert kernel("function", killed, last=2).returncode == -signal.SIGKILL
    begun = fc.campaign("oven", home=killed)
    begun.run(lambda design: 1.0 + design["hours"], trials=2)
    for trial, row in begun.trials.iterrows():  # what the function says
        begun.tell(trial, 50.0 * exp(-(((row.heat - 140.0) / 60.0) ** 2) - ((row.hours - 4.0) / 3.0) ** 2))
    assert kernel("function", killed).returncode == 0
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
