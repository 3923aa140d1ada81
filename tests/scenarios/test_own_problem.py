"""The README's "ten minutes to your own problem" is this test's text: its files are written and its commands run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas
import xarray

ROOT = Path(__file__).resolve().parents[2]


def section(title: str) -> str:
    text = (ROOT / "README.md").read_text()
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_the_readmes_own_problem_runs_as_written(tmp_path):
    text = section("Ten minutes to your own problem")
    files = re.findall(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```", text, re.DOTALL)
    (commands,) = re.findall(r"<!-- run -->\n```\n(.*?)```", text, re.DOTALL)
    assert [name for name, _ in files] == ["mine/problems/rod.py", "mine/simulators/rod.py", "rod.yaml"]
    for name, content in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    program = f"{shlex.quote(sys.executable)} -m fieldcraft.flows.cli"
    script = commands.replace("fieldcraft ", f"{program} ")
    done = subprocess.run(
        ["bash", "-euc", f"export PYTHONPATH={shlex.quote(str(ROOT))}\n{script}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "rod: finished (budget: 10 of 10 trials)" in done.stdout
    table = pandas.read_csv(tmp_path / "rod.csv")
    assert {"trial", "state", "design.place", "design.power", "output.unevenness"} <= set(table)
    assert set(table["state"]) == {"COMPLETED"}
    fields = xarray.open_zarr(tmp_path / "rod-fields")
    assert dict(fields.sizes) == {"trial": 10, "x": 101}
    # 24 K of the walls' 40 K remain between 0.2 and 0.8 m without heating; the model must do better than its start.
    assert table["output.unevenness"].min() < table["output.unevenness"][:5].min()
