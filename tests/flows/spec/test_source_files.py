"""Which source files are found behind a kind: those that a process which imports it really loads."""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fieldcraft.flows.errors import FieldcraftError, InputError
from fieldcraft.flows.spec import source_files
from fieldcraft.flows.spec.registry import available
from fieldcraft.flows.spec.source_files import NotApproved, Sources, brief, require_approved, require_held
from fieldcraft.storage.code import Code

ROOT = Path(__file__).resolve().parents[3]
KINDS = [(group, kind) for group in ("problems", "simulators") for kind in available(group)]
LOADED = """\
import importlib, json, sys
from pathlib import Path
root, found = Path(sys.argv[1]), {}
for group, kind in json.loads(sys.argv[2]):
    for name in [name for name in sys.modules if name.partition(".")[0] == "physics"]:
        del sys.modules[name]
    importlib.import_module(f"physics.{group}.{kind}")
    ours = [m.__file__ for name, m in sys.modules.items() if name.partition(".")[0] == "physics"]
    found[f"{group}.{kind}"] = sorted(Path(file).relative_to(root).as_posix() for file in ours)
print(json.dumps(found))
"""


def write(folder: Path, **texts: str) -> Path:
    """Files of a plug-in directory: ``problems__rod`` is ``problems/rod.py``."""
    for name, text in texts.items():
        file = folder / f"{name.replace('__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def digest_of_text(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def found(folder: Path) -> set[str]:
    """What lies behind the problem ``rod``, without the modules of ours."""
    return {name for name in Sources((folder,)).of({"problems": "rod"}, {}).files if not name.startswith("physics/")}


def test_behind_every_built_in_kind_are_the_modules_that_importing_it_loads():
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOADED, str(ROOT), json.dumps(KINDS)], capture_output=True, text=True, check=True
    )
    loaded = json.loads(done.stdout)
    for group, kind in KINDS:
        assert set(loaded[f"{group}.{kind}"]) <= set(Sources(()).of({group: kind}, {}).files), kind


def test_each_file_is_named_with_the_digest_of_what_is_in_it():
    code = Sources(()).of({"problems": "heat"}, {})
    assert {"physics/__init__.py", "physics/problems/heat.py", "physics/space.py"} <= set(code.files)
    for name, digest in code.files.items():
        assert digest == hashlib.sha256((ROOT / name).read_bytes()).hexdigest()
    assert not any(name.startswith(("models/", "storage/", "flows/")) for name in code.files)


def test_a_dispatcher_brings_the_modules_of_its_folder_that_it_imports():
    files = set(Sources(()).of({"dispatchers": "command"}, {}).files)
    assert {"flows/dispatchers/command.py", "flows/dispatchers/local.py"} <= files
    assert "flows/dispatchers/lab.py" not in files


@pytest.mark.parametrize(
    ("text", "helpers"),
    [
        ("import shapes", {"problems/shapes.py", "tables.py"}),
        ("from shapes import area", {"problems/shapes.py", "tables.py"}),
        ("from . import shapes", {"problems/shapes.py", "tables.py"}),
        ("from .shapes import area", {"problems/shapes.py", "tables.py"}),
        ("from .. import tables", {"tables.py"}),
        ("def late():\n    import shapes", {"problems/shapes.py", "tables.py"}),
        ("import parts.deep.end", {"parts/__init__.py", "parts/deep/end.py"}),
        ("from parts.deep import end as e", {"parts/__init__.py", "parts/deep/end.py"}),
        ("import numpy, json, random, os.path", set()),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import shapes\nelse:\n    import tables",
            {"tables.py"},
        ),
        ("this is no Python", set()),
        ("from ............... import shapes", set()),
    ],
)
def test_helpers_of_a_plug_in_are_found_directly_and_through_one_another(tmp_path, text, helpers):
    write(
        tmp_path,
        problems__rod=f"{text}\nfrom fieldcraft.physics.problem import Problem\n",
        problems__shapes="import tables\n",
        problems__random="",
        problems__tables__data="",  # a folder that happens to bear a module's name
        tables="import problems.nothing\n",
        parts____init__="",
        parts__deep__end="from .. import nothing\n",
    )
    (tmp_path / "parts" / "__init__.py").touch()
    assert found(tmp_path) == {"problems/rod.py", *helpers}


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        (
            "def late():\n    from fieldcraft.physics.functions import harmonic",
            {"functions/__init__", "functions/harmonic"},
        ),
        ("from fieldcraft import Axis", {"domain", "variables"}),
        ("from fieldcraft import physics, Infeasible, Surrogate", {"problem"}),
        ("from physics import variables", {"variables"}),  # as plug-ins of earlier versions do
    ],
)
def test_a_plug_in_brings_the_modules_of_ours_that_it_imports(tmp_path, text, modules):
    write(tmp_path, problems__rod=text)
    files = Sources((tmp_path,)).of({"problems": "rod"}, {}).files
    assert {"problems/rod.py", "physics/__init__.py", *(f"physics/{name}.py" for name in modules)} <= set(files)
    assert "physics/problems/__init__.py" not in files


def test_files_of_one_name_in_two_directories_are_both_found(tmp_path):
    one = write(tmp_path / "one", problems__rod="import shared", shared="a = 1")
    two = write(tmp_path / "two", simulators__rod="import shared", shared="a = 2")
    files = Sources((one, two)).of({"problems": "rod", "simulators": "rod"}, {}).files
    assert set(files) == {"problems/rod.py", "simulators/rod.py", "shared.py (1)", "shared.py (2)"}


def test_a_changed_an_added_and_a_removed_file_each_make_another_code(tmp_path):
    write(tmp_path, problems__rod="import shapes", problems__shapes="a = 1")
    before = Sources((tmp_path,)).of({"problems": "rod"}, {})
    write(tmp_path, problems__shapes="a = 2")
    changed = Sources((tmp_path,)).of({"problems": "rod"}, {})
    assert before.differing(changed) == ("problems/shapes.py",)
    write(tmp_path, problems__rod="import shapes, tables", tables="")
    added = Sources((tmp_path,)).of({"problems": "rod"}, {})
    assert changed.differing(added) == added.differing(changed) == ("problems/rod.py", "tables.py")
    assert len({before.digest, changed.digest, added.digest}) == 3


def test_a_file_that_was_changed_a_moment_ago_is_read_each_time(tmp_path):
    file = tmp_path / "cup.py"
    for number in range(100):  # its time may be the same before and after a change
        file.write_bytes(text := f"{number:09d}".encode())
        first, second = source_files._content(file), source_files._content(file)
        assert first == second == text and first is not second


def test_a_file_at_rest_is_not_read_again_until_it_changes_whatever_its_dates_say(tmp_path):
    (tmp_path / "problems").mkdir()
    file = tmp_path / "problems" / "cup.py"
    file.write_text("x = 1")
    os.utime(file, ns=(0, 0))
    while source_files._content(file) is not source_files._content(file):  # until it is at rest
        time.sleep(0.1)
    first = file.stat()
    while file.stat().st_ctime_ns == first.st_ctime_ns:
        file.write_text("x = 2")
        os.utime(file, ns=(0, 0))
    assert (file.stat().st_mtime_ns, file.stat().st_size) == (first.st_mtime_ns, first.st_size)
    assert Sources([tmp_path]).of({"problems": "cup"}, {}).files["problems/cup.py"] == digest_of_text(file)


def test_where_a_kind_is_not_here_the_directory_that_has_it_is_asked_for(tmp_path):
    with pytest.raises(InputError, match=r"No kind 'rod' in problems here: set FIELDCRAFT_PLUGINS to the directory"):
        Sources((tmp_path,)).of({"problems": "rod"}, {})


def test_a_process_that_would_import_other_files_than_it_was_told_is_refused_and_told_which(tmp_path):
    write(tmp_path, problems__rod="import shapes", problems__shapes="", simulators__rod="from physics import domain")
    kinds = {"problems": "rod", "simulators": "rod"}
    told = brief(Sources((tmp_path,)).of(kinds, {}))
    assert set(told) == {"problems/rod.py", "problems/shapes.py", "simulators/rod.py", "fieldcraft"}
    request = {"problem": {"kind": "rod"}, "simulator": {"kind": "rod"}, "code": told}
    require_approved(request, (tmp_path,))
    write(tmp_path, problems__shapes="a = 1")
    with pytest.raises(NotApproved, match=r"^problems/shapes\.py is not what was approved"):
        require_approved(request, (tmp_path,))
    with pytest.raises(NotApproved, match=r"^fieldcraft, problems/shapes\.py is not what was approved"):
        require_approved({**request, "code": {**told, "fieldcraft": "0" * 64}}, (tmp_path,))
    require_approved({"problem": {"kind": "gone"}}, ())  # sent by a version that told nothing


def test_a_process_that_holds_another_state_of_our_own_files_goes_no_further():
    require_held(Code(files={"physics/nowhere.py": "0" * 64, "problems/rod.py": "0" * 64}))
    require_held(Code(files={"physics/nowhere.py": "0" * 64, "problems/rod.py": "1" * 64}))
    with pytest.raises(FieldcraftError, match=r"physics/nowhere\.py has changed since this process began"):
        require_held(Code(files={"physics/nowhere.py": "1" * 64}))
