"""docs/own-problem.md is this test's text: its files are written and its commands run."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas
import pytest
import xarray

from fieldcraft.flows.cli import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def installed(tmp_path) -> Path:
    """A folder that holds what the wheel installs, without its dependencies."""
    words = ["pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps", "--no-index"]
    words += ["--no-build-isolation", "--no-compile"]
    folder, source = tmp_path / "installed", tmp_path / "source"  # a copy: what is built leaves its traces beside it
    names = ("fieldcraft", "flows", "models", "physics", "storage", "campaigns", "studies", "starter")
    for name in names:
        shutil.copytree(ROOT / name, source / name, symlinks=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, source / name)
    subprocess.run([sys.executable, "-m", *words, "--target", str(folder), str(source)], check=True)
    return folder


def test_ones_own_problem_runs_as_written_from_the_wheel_beside_a_users_modules_of_our_names(
    tmp_path, installed, prefect_api
):
    for part in ("templates", "static"):
        pages = {file.name for file in (ROOT / "flows" / "desk" / part).iterdir()}
        assert pages == {file.name for file in (installed / "fieldcraft" / "flows" / "desk" / part).iterdir()}
    text = (ROOT / "docs" / "own-problem.md").read_text()
    files = re.findall(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```", text, re.DOTALL)
    (commands,) = re.findall(r"<!-- run -->\n```\n(.*?)```", text, re.DOTALL)
    assert [name for name, _ in files] == ["mine/problems/rod.py", "mine/simulators/rod.py", "rod.yaml"]
    assert all((ROOT / "starter" / name).read_text() == content for name, content in files)
    mine = tmp_path / "mine"
    (mine / "storage").mkdir(parents=True)
    for name in ("models.py", "storage/__init__.py", "flows.py", "physics.py"):
        (mine / name).write_text("raise ImportError('a module of the user')\n")
    path = f"{installed / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, **prefect_api, "PYTHONPATH": f"{mine}:{installed}", "PATH": path}
    environment["FIELDCRAFT_MLFLOW"] = "off"  # nothing here looks at it
    done = subprocess.run(["bash", "-euc", commands], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "rod: finished (budget: 10 of 10 trials)" in done.stdout and "2 passed" in done.stdout
    table = pandas.read_csv(tmp_path / "rod" / "rod.csv")
    assert {"trial", "state", "design.place", "design.power", "output.unevenness"} <= set(table)
    assert set(table["state"]) == {"COMPLETED"}
    fields = xarray.open_zarr(tmp_path / "rod" / "rod-fields")
    assert dict(fields.sizes) == {"trial": 10, "x": 101}
    # 24 K of the walls' 40 K remain between 0.2 and 0.8 m without heating; the model must do better than its start.
    assert table["output.unevenness"].min() < table["output.unevenness"][:5].min()


def test_a_starter_is_not_written_over_anything(tmp_path, capsys):
    (tmp_path / "rod.yaml").write_text("mine\n")
    assert main(["init", str(tmp_path)]) == 2
    assert "rod.yaml is there already. Nothing was written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["rod.yaml"]


def test_the_commands_after_a_starter_are_those_for_its_folder_whatever_its_name(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FIELDCRAFT_PLUGINS", raising=False)
    assert main(["init", "my rod"]) == 0
    assert "\ncd 'my rod'\n" in capsys.readouterr().out
    monkeypatch.chdir("my rod")
    assert main(["check", "rod.yaml"]) == 2
    there = tmp_path / "my rod" / "mine"
    told = (
        f"No kind 'rod' in problems. {there}/problems/rod.py is there, and FIELDCRAFT_PLUGINS is not set in this shell"
    )
    complaint = capsys.readouterr().err
    assert f"{told}: export FIELDCRAFT_PLUGINS='{there}'\n" in complaint
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path))
    assert main(["check", "rod.yaml"]) == 2
    assert f"lists other directories alone: export FIELDCRAFT_PLUGINS='{tmp_path}:{there}'" in capsys.readouterr().err
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(there))
    assert main(["check", "rod.yaml"]) == 0


def test_every_ready_campaign_and_study_is_listed_with_what_it_is_and_printed_as_it_stands(capsys):
    assert main(["examples", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed.keys() == {
        f"{f.parent.name}/{f.name}" for d in ("campaigns", "studies") for f in (ROOT / d).glob("*.yaml")
    }
    assert all(len(text) > 20 for text in listed.values())
    assert main(["examples", "campaigns/heat.yaml"]) == 0
    assert capsys.readouterr().out == (ROOT / "campaigns" / "heat.yaml").read_text()
    assert main(["examples", "campaigns/hete.yaml"]) == 2
    assert "Did you mean 'campaigns/heat.yaml'?" in capsys.readouterr().err
