"""Helpers beside plug-ins: private to their directory, never another module, found wherever plug-ins are loaded."""

import json
import sys
from pathlib import Path

import pytest
from small import finish

import fieldcraft
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.jobs.job_folder import JobFolder
from fieldcraft.flows.jobs.remote_jobs import run_job
from fieldcraft.flows.spec.registry import available, build, load
from fieldcraft.flows.wiring.environment import environment_of
from fieldcraft.storage.open_ledger import open_ledger

KIND = """\
from dataclasses import dataclass

{imports}

SEEN = {seen}


@dataclass(frozen=True)
class Kind:
    size: int = 1
"""
ROD = """\
from dataclasses import dataclass

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, SearchSpace

import scales


@dataclass(frozen=True)
class Rod(Problem):
    @property
    def space(self):
        return SearchSpace((Continuous("x", 0.0, 1.0, "m"),))

    @property
    def outputs(self):
        return (Output("y", "K"),)

    def function(self, design):
        return {"y": scales.SCALE}
"""
CAMPAIGN = """\
name: {name}
seed: 3
sense: minimize
problem: {{kind: rod}}
simulator: {{kind: function}}
algorithm:
  start: {{n: 1}}
dispatcher: {{kind: {dispatcher}}}
budget: {{trials: 1}}
"""


def plugin(folder: Path, **files: str) -> Path:
    """A plug-in directory with these files, ``__`` in their names for a slash and ``INIT`` for a package's own."""
    for name, text in files.items():
        file = folder / f"{name.replace('__', '/').replace('INIT', '__init__')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def seen(kind: str, *directories: Path) -> object:
    """What a kind of these directories has seen of its helpers."""
    return sys.modules[load("surrogates", kind, directories).__module__].SEEN


@pytest.mark.parametrize(
    ("imports", "expression"),
    [
        ("import helper", "helper.WORD"),
        ("import helper as h", "h.WORD"),
        ("from helper import WORD as w", "w"),
        ("from . import helper", "helper.WORD"),
        ("from .helper import WORD", "WORD"),
        ("import shared.deep", "shared.deep.WORD"),
        ("import shared.deep as d", "d.WORD"),
        ("from shared.deep import WORD", "WORD"),
        ("from ..shared import deep", "deep.WORD"),
        ("import json, helper", "json.loads('[\"helper\"]')[0]"),
        ("def late():\n    import helper\n    return helper.WORD", "late()"),
        ("try:\n    import a_module_of_nobody\nexcept ImportError:\n    import helper", "helper.WORD"),
    ],
)
def test_a_helper_beside_a_plug_in_or_in_its_directory_can_be_imported(tmp_path, imports, expression):
    mine = plugin(
        tmp_path,
        surrogates__k=KIND.format(imports=imports, seen=expression),
        surrogates__helper="import second\nWORD = second.WORD\n",
        surrogates__second="WORD = 'helper'\n",
        shared__INIT="",
        shared__deep="from . import deeper\nWORD = deeper.WORD\n",
        shared__deeper="import helper_of_all\nWORD = helper_of_all.WORD\n",
        helper_of_all="WORD = 'helper'\n",
    )
    path, before = list(sys.path), set(sys.modules)
    assert seen("k", mine) == "helper"
    assert sys.path == path
    assert all(name.startswith("_fieldcraft_plugin_") for name in set(sys.modules) - before)
    assert not list(tmp_path.rglob("*.pyc")), "what was altered on its way is not kept for others to find"


def test_two_directories_may_each_have_a_helper_of_the_same_name(tmp_path):
    one, two = (
        plugin(
            tmp_path / name,
            **{f"surrogates__{name}": KIND.format(imports="import helper", seen="helper.WORD")},
            surrogates__helper=f"WORD = {name!r}\n",
        )
        for name in ("one", "two")
    )
    assert (seen("one", one, two), seen("two", one, two)) == ("one", "two")
    assert {"one", "two", "helper"} <= set(available("surrogates", [one, two]))
    with pytest.raises(InputError, match=r"Kind 'helper' exists twice: .*one.*and .*two"):
        load("surrogates", "helper", [one, two])


def test_a_directory_within_another_has_helpers_of_its_own(tmp_path):
    kind = KIND.format(imports="import helper", seen="helper.WORD")
    outer = plugin(tmp_path, surrogates__outer=kind, surrogates__helper="WORD = 'outer'\n")
    inner = plugin(tmp_path / "more", surrogates__inner=kind, surrogates__helper="WORD = 'inner'\n")
    for directories in ((outer, inner), (inner, outer)):
        assert (seen("outer", *directories), seen("inner", *directories)) == ("outer", "inner")


def test_a_helper_that_python_could_also_find_by_itself_is_private_all_the_same(tmp_path, monkeypatch):
    mine = plugin(
        tmp_path, surrogates__k=KIND.format(imports="import scratchpad", seen="1"), surrogates__scratchpad="WORD = 1\n"
    )
    monkeypatch.syspath_prepend(str(mine / "surrogates"))
    assert seen("k", mine) == 1
    assert "scratchpad" not in sys.modules


@pytest.mark.parametrize("name", ["json", "numpy", "yaml"])
def test_a_helper_is_no_other_module_and_no_other_module_is_it(tmp_path, name):
    mine = plugin(
        tmp_path,
        surrogates__k=KIND.format(
            imports=f"import {name}\nfrom . import {name} as own", seen=f"({name}.__file__, own.WORD)"
        ),
        **{f"surrogates__{name}": "WORD = 'mine'\n", name: "raise SystemExit('the wrong one')\n"},
    )
    known = __import__(name)
    assert seen("k", mine) == (known.__file__, "mine")
    assert sys.modules[name] is known


@pytest.mark.parametrize("name", ["flows", "models", "physics", "storage"])
def test_a_helper_may_bear_the_name_of_one_of_our_folders(tmp_path, name):
    kind = KIND.format(imports=f"import {name}\nfrom fieldcraft import Surrogate", seen=f"{name}.WORD")
    mine = plugin(tmp_path, surrogates__k=kind, **{f"surrogates__{name}": "WORD = 'mine'\n"})
    assert seen("k", mine) == "mine"


def test_a_plug_in_of_an_earlier_version_imports_ours_by_their_names_of_then(tmp_path):
    imports = "import physics.problem\nfrom physics.space import SearchSpace\nfrom physics import variables as kinds"
    mine = plugin(
        tmp_path,
        surrogates__k=KIND.format(imports=imports, seen="(physics.problem.Problem, SearchSpace, kinds.Continuous)"),
    )
    assert seen("k", mine) == (fieldcraft.Problem, fieldcraft.SearchSpace, fieldcraft.Continuous)


def test_a_module_of_the_working_directory_is_not_taken_for_a_helper(tmp_path, monkeypatch):
    mine = plugin(
        tmp_path / "mine",
        surrogates__k=KIND.format(imports="import scratch", seen="scratch.WORD"),
        surrogates__scratch="WORD = 'beside'\n",
    )
    (tmp_path / "scratch.py").write_text("WORD = 'of the working directory'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    assert seen("k", mine) == "beside"


def test_a_helper_that_changes_is_loaded_anew_and_one_that_does_not_is_kept(tmp_path):
    mine = plugin(
        tmp_path,
        surrogates__k=KIND.format(imports="import helper", seen="helper.WORD"),
        surrogates__helper="import second\nWORD = second.WORD\n",
        second="WORD = 1\n",
    )
    first = load("surrogates", "k", [mine])
    assert load("surrogates", "k", [mine]) is first
    (mine / "second.py").write_text("WORD = 2\n")
    assert seen("k", mine) == 2
    assert load("surrogates", "k", [mine]) is not first
    (mine / "second.py").unlink()
    with pytest.raises(InputError, match=r"k\.py cannot be loaded: ModuleNotFoundError: No module named '.*second'"):
        load("surrogates", "k", [mine])
    (mine / "second.py").write_text("WORD = 3\n")
    assert seen("k", mine) == 3


def test_an_error_within_a_helper_names_its_line(tmp_path):
    mine = plugin(
        tmp_path, surrogates__k=KIND.format(imports="import helper", seen="1"), surrogates__helper="\n1 / 0\n"
    )
    said = rf"k\.py cannot be loaded: ZeroDivisionError: division by zero \({mine}/surrogates/helper\.py, line 2\)"
    with pytest.raises(InputError, match=said):
        load("surrogates", "k", [mine])


def ran(folder: Path, name: str, dispatcher: str) -> float:
    """The result of a campaign of one trial."""
    (folder / f"{name}.yaml").write_text(CAMPAIGN.format(name=name, dispatcher=dispatcher))
    finish(folder / f"{name}.yaml", folder / "home", folder / "mine")
    (trial,) = open_ledger(folder / "home" / "ledger.sqlite").trials(name)
    assert trial.outputs is not None
    return trial.outputs["y"]


@pytest.mark.parametrize("dispatcher", ["local", "inline"])
def test_simulations_find_helpers_and_those_that_have_changed(tmp_path, monkeypatch, dispatcher):
    mine = plugin(tmp_path / "mine", problems__rod=ROD, scales="SCALE = 2.0\n")
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(mine))
    assert ran(tmp_path, "first", dispatcher) == 2.0
    (mine / "scales.py").write_text("SCALE = 3.0\n")
    assert ran(tmp_path, "second", dispatcher) == 3.0


def test_the_worker_of_a_scheduler_finds_helpers(tmp_path):
    mine = plugin(tmp_path / "mine", problems__rod=ROD, scales="SCALE = 4.0\n")
    job = JobFolder(tmp_path / "job")
    request = {"problem": {"kind": "rod"}, "simulator": {"kind": "function"}, "design": {"x": 0.5}, "seed": 1}
    more = {"iteration": 0, "slot": 0, "wall_time_s": 60.0, "key": "rod-0001-1", "plugins": [str(mine)]}
    job.prepare({**request, **more})
    assert "Finished" in run_job(str(job.path))


def test_the_environment_names_helpers_with_their_checksums(tmp_path):
    mine = plugin(tmp_path, problems__rod=ROD, scales="SCALE = 2.0\n", lib__INIT="", lib__more="")
    problem = build("problems", {"kind": "rod"}, [mine])
    before = environment_of(problem, [mine])["plugins"]
    assert sorted(before) == ["lib/__init__.py", "lib/more.py", "problems/rod.py", "scales.py"]
    (mine / "scales.py").write_text("SCALE = 3.0\n")
    after = environment_of(problem, [mine])["plugins"]
    assert json.dumps(after) != json.dumps(before) and after["problems/rod.py"] == before["problems/rod.py"]


EARLIER = '''\
from dataclasses import dataclass

from models.peer import minimised as least


class _Posterior:
    def believe(self, X):
        return ("believed", X, least.__module__)


@dataclass(frozen=True)
class {name}:
    """A kind as it was written for an earlier version."""

    def fit(self):
        return _Posterior()
'''


@pytest.mark.parametrize(
    ("folder", "group", "name"),
    [("peers", "rivals", "Mine"), ("sentences", "algorithms", "Mine"), ("surrogates", "surrogates", "Mine")],
)
def test_plugins_of_earlier_versions_are_found_and_understood(tmp_path, folder, group, name):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "mine.py").write_text(EARLIER.format(name=name))
    assert available(group, (tmp_path,))["mine"] == tmp_path / folder / "mine.py"
    assert load(group, "mine", (tmp_path,))().fit().fantasize(3) == ("believed", 3, "fieldcraft.models.rival")


def test_a_kind_in_the_folders_of_both_names_is_refused(tmp_path):
    for folder in ("peers", "rivals"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(EARLIER.format(name="Mine"))
    with pytest.raises(InputError, match=r"Kind 'mine' exists twice: .*rivals/mine\.py and .*peers/mine\.py"):
        load("rivals", "mine", (tmp_path,))
