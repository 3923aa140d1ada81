"""The import rules of the design, read from the source with ``ast``; each rule is shown to be able to fail."""

import ast
import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import fieldcraft
from fieldcraft.flows.spec.registry import PACKAGES as KINDS
from fieldcraft.flows.spec.registry import folder_of

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("physics", "models", "storage", "flows")
FILES = tuple(sorted(file.relative_to(ROOT) for package in PACKAGES for file in (ROOT / package).rglob("*.py")))
MODULES = {f"fieldcraft.{'.'.join(one.with_suffix('').parts)}".removesuffix(".__init__"): one for one in FILES}
MOST = 13  # modules in one folder; a registry has as many as there are kinds
REGISTRIES = {folder_of(group).relative_to(ROOT) for group in KINDS}

# Which of our packages a package may import, and where alone a library may be imported.
OURS = {"physics": {"physics"}, "models": {"models", "physics"}, "storage": {"storage"}, "flows": set(PACKAGES)}
ONLY_IN = {
    "prefect": ("flows/",),
    "distributed": ("flows/",),
    "mlflow": ("storage/trackers/",),
    "zarr": ("storage/field_store/decoding.py", "storage/field_store/encoding.py"),
    "sqlalchemy": ("storage/ledgers/",),
    "yaml": ("flows/",),
    "ax": ("models/rivals/",),
    "baybe": ("models/rivals/",),
    "optuna": ("models/rivals/",),
    "pyscipopt": ("models/certified/scip_program.py",),
}
NEVER_IN = {"physics/": {"torch", "botorch", "gpytorch", "pydantic"}, "storage/": {"torch", "botorch", "gpytorch"}}
PICKLES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
RUN_TEXT = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "sympy.sympify", "sympy.parse_expr"}

# Floors, the ground first: a folder, or a file beside the folders, imports from lower floors alone.
FLOORS = {
    "physics": (
        "variables", "images", "constraints", "geometry functions structure", "space", "domain", "operators",
        "outputs parametric", "collocation counting problem", "constrained formulas gradients tangents",
        "problems", "simulators",
    ),
    "models": (
        "capability snapshots", "data", "observations", "proposer surrogate", "acquisition numerics", "linear",
        "composite feasibility maximizer networks pareto rival", "constraint_rule equations gaussian tangent",
        "gradients selection solutions", "trend", "certified earlier emulation physics_informed scoring", "coordinates",
        "levels", "maximizers rivals rules surrogates", "acquisitions proposers", "constraint_scale", "constraints",
        "algorithm", "named_algorithm", "algorithms",
    ),
    "storage": (
        "empty_databases failpoints origins processes text", "records", "code limits objective",
        "field_store pareto",
        "fields", "ledger", "ledgers.upgrades", "ledgers.tables", "ledgers.operations", "ledgers", "open_ledger",
        "trackers", "backups",
    ),
    "flows": (
        "errors products", "colours text", "settings", "files", "spec", "analysis identity machinery",
        "charts jobs notices", "wiring", "dispatchers", "rules", "people results", "steps views", "predictions",
        "campaign decide exporter recovery report simulate", "run", "studies", "desk", "commands",
        "cli notebook",
    ),
}  # fmt: skip
HEIGHT = {(p, room): n for p, floors in FLOORS.items() for n, rooms in enumerate(floors) for room in rooms.split()}


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """All that a source is made of."""
    return tuple(ast.walk(ast.parse(source)))


@pytest.fixture(autouse=True, scope="module")
def _forgotten() -> Iterator[None]:
    """What the sources are made of is not kept for the tests that follow."""
    yield
    nodes.cache_clear()


def imported(source: str, file: Path) -> Iterator[str]:
    """Every module that a file imports anywhere, also inside functions, under TYPE_CHECKING or by its name as text."""
    for node in nodes(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(file.parts[: len(file.parts) - node.level]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) in ("importlib.import_module", "import_module", "__import__"):
            yield from (a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))


def called(node: ast.Call) -> str:
    """Name of what is called: ``eval``, ``os.system``; a method of a value is no name of interest."""
    names, part = [], node.func
    while isinstance(part, ast.Attribute):
        names.append(part.attr)
        part = part.value
    return ".".join((part.id, *reversed(names))) if isinstance(part, ast.Name) else ""


def broken_imports(source: str, file: Path) -> list[str]:
    """Imports that the design forbids this file."""
    found = []
    for module in imported(source, file):
        top, _, ours = module.partition(".")
        if top in PACKAGES:
            found.append(f"{file} imports {module}: write fieldcraft.{module}")
        package = ours.partition(".")[0] if top == "fieldcraft" else ""
        if package in PACKAGES and package not in OURS[file.parts[0]]:
            found.append(f"{file} imports {module}: {file.parts[0]} may import {sorted(OURS[file.parts[0]])}")
        if top in ONLY_IN and not str(file).startswith(ONLY_IN[top]):
            found.append(f"{file} imports {module}: only {' and '.join(ONLY_IN[top])} may")
        if any(str(file).startswith(place) and top in barred for place, barred in NEVER_IN.items()):
            found.append(f"{file} imports {module}")
        if top in PICKLES:
            found.append(f"{file} imports {module}: nothing of ours is pickled")
    return found


def room(file: Path) -> tuple[str, str]:
    """The package and the room in it to which a file belongs."""
    package, *rest = file.with_suffix("").parts
    inner = package == "storage" and rest[0] == "ledgers" and len(rest) > 2
    return package, ".".join(rest[:2]) if inner else rest[0]


def own_imports(source: str, file: Path) -> set[Path]:
    """Files of ours that a file imports."""
    return {MODULES[name] for name in imported(source, file) if name in MODULES}


def upward(source: str, file: Path) -> list[str]:
    """Imports of a file from its own floor or from a higher one."""
    here = room(file)
    there = ((one, room(one)) for one in own_imports(source, file) if one.parts[0] == here[0] and len(one.parts) > 1)
    return [
        f"{file} imports {one}, which is no lower"
        for one, other in there
        if other != here and other[1] != "__init__" and HEIGHT[other] >= HEIGHT[here]
    ]


def circles(imports: Mapping[Path, set[Path]]) -> list[list[Path]]:
    """Files that import each other, however far around: what is left when files that import none are taken away."""
    left = {file: set(others) for file, others in imports.items()}
    while free := [file for file, others in left.items() if not others & left.keys()]:
        for file in free:
            del left[file]
    return [sorted(left)] if left else []


def run_text(source: str, file: Path) -> list[str]:
    """Calls that run text as a program or load a pickle."""
    found = []
    for node in nodes(source):
        if not isinstance(node, ast.Call):
            continue
        if called(node) in RUN_TEXT:
            found.append(f"{file}:{node.lineno} calls {called(node)}")
        for keyword in node.keywords:
            off = isinstance(keyword.value, ast.Constant) and not keyword.value.value
            if keyword.arg in ("shell", "allow_pickle") and not off:
                found.append(f"{file}:{node.lineno} passes {keyword.arg}={ast.unparse(keyword.value)}")
    return found


def shadows(names: Iterator[str] | list[str]) -> list[str]:
    """Module names that the standard library has too."""
    return sorted(name for name in names if name in sys.stdlib_module_names)


def every_file(check: object) -> list[str]:
    assert callable(check)
    return [problem for file in FILES for problem in check((ROOT / file).read_text(), file)]


def test_no_two_test_files_have_one_name():
    """pytest imports them by their names alone."""
    names = [file.name for file in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_all_four_packages_are_looked_at():
    assert {file.parts[0] for file in FILES} == set(PACKAGES)
    assert len(FILES) > 50


def test_every_import_keeps_to_the_design():
    assert every_file(broken_imports) == []


def test_every_folder_imports_from_lower_floors_alone():
    assert every_file(upward) == []
    assert {room(file) for file in FILES if len(file.parts) > 1 and file.name != "__init__.py"} == set(HEIGHT)


def test_no_files_import_each_other_in_a_circle():
    assert circles({file: own_imports((ROOT / file).read_text(), file) - {file} for file in FILES}) == []


def test_a_circle_is_found():
    a, b, c = Path("a"), Path("b"), Path("c")
    assert circles({a: {b}, b: {c}, c: {a}}) == [[a, b, c]] and circles({a: {b, c}, b: {c}, c: set()}) == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("flows/spec/registry.py", "from fieldcraft.flows.wiring.build import wire"),
        ("flows/views/data.py", "from fieldcraft.flows.steps import approve"),
        ("models/gaussian/fit.py", "def f():\n    from fieldcraft.models.tangent.kernel import Kernel"),
        ("storage/ledgers/operations/leases.py", "from fieldcraft.storage.ledgers.sql import SqlLedger"),
        ("storage/ledgers/upgrades/schema_2.py", "from fieldcraft.storage.ledgers.tables import schema"),
    ],
)
def test_an_import_from_a_higher_floor_is_found(file, source):
    assert upward(source, Path(file)) != []


def test_no_folder_but_a_registry_holds_more_modules_than_one_sees_at_once():
    held = Counter(file.parent for file in FILES if file.name != "__init__.py" and file.parent not in REGISTRIES)
    assert {str(folder): count for folder, count in held.items() if count > MOST} == {}
    assert len(held) > 30


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("physics/space.py", "import fieldcraft.models.algorithm"),
        ("physics/problems/heat.py", "from physics.space import SearchSpace"),
        ("flows/run.py", "import storage.ledger"),
        ("physics/space.py", "from fieldcraft.storage import records"),
        ("physics/problems/heat.py", "def f():\n    import torch"),
        ("models/algorithm.py", "import fieldcraft.flows"),
        ("models/algorithm.py", "from fieldcraft.storage.records import Trial"),
        ("storage/fields.py", "from fieldcraft.physics.space import Design"),
        ("storage/ledger/contract.py", "import sqlalchemy"),
        ("storage/ledger/contract.py", "if TYPE_CHECKING:\n    from sqlalchemy.engine import Engine"),
        ("storage/ledgers/sql.py", "from fieldcraft.flows import spec"),
        ("storage/ledgers/sql.py", "from .. import mlflow\nfrom mlflow import tracking"),
        ("storage/field_store/staging.py", "import zarr"),
        ("storage/trackers/campaigns.py", "import torch.nn"),
        ("storage/records.py", "import yaml"),
        ("flows/views/export.py", "import mlflow"),
        ("flows/views/export.py", "import importlib\nimportlib.import_module('zarr')"),
        ("models/algorithm.py", "from prefect import flow"),
        ("storage/fields.py", "from distributed import Client"),
        ("models/surrogates/auto.py", "import optuna"),
        ("models/algorithms/ax.py", "from ax.api.client import Client"),
        ("flows/wiring/campaign.py", "import baybe"),
        ("models/maximizers/pk_miqp.py", "def f():\n    from pyscipopt import Model"),
        ("flows/steps/one_pass.py", "import pickle"),
        ("flows/steps/one_pass.py", "def f():\n    from joblib import dump"),
    ],
)
def test_an_import_against_the_design_is_found(file, source):
    assert broken_imports(source, Path(file)) != []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("models/algorithm.py", "from fieldcraft.physics.space import SearchSpace\nimport torch"),
        ("storage/ledgers/sql.py", "from fieldcraft.storage import records\nimport sqlalchemy"),
        ("models/rivals/optuna_tpe.py", "def f():\n    import optuna"),
        (
            "flows/campaign.py",
            "from prefect import flow\nfrom fieldcraft.models import algorithm\nimport fieldcraft.storage.ledger",
        ),
    ],
)
def test_an_import_of_the_design_is_not_complained_about(file, source):
    assert broken_imports(source, Path(file)) == []


def test_no_file_runs_text_as_a_program():
    assert every_file(run_text) == []


@pytest.mark.parametrize(
    "source",
    [
        "eval('1 + 1')",
        "exec(text)",
        "compile(text, 'x', 'exec')",
        "import os\nos.system('ls')",
        "os.popen('ls')",
        "subprocess.run('ls', shell=True)",
        "subprocess.Popen(words, shell=chosen)",
        "numpy.load(file, allow_pickle=True)",
    ],
)
def test_text_run_as_a_program_is_found(source):
    assert run_text(source, Path("flows/x.py")) != []


def test_what_only_looks_like_it_is_not_complained_about():
    source = "network.eval()\nre.compile('x')\nsubprocess.run(['ls'], shell=False)\nnumpy.load(f, allow_pickle=False)"
    assert run_text(source, Path("flows/x.py")) == []


def test_nothing_in_flows_bears_the_name_of_a_standard_library_module():
    names = [path.stem for path in (ROOT / "flows").iterdir() if path.name != "__init__.py"]
    assert len(names) > 20
    assert shadows(names) == []


def test_a_name_of_the_standard_library_is_found():
    assert shadows(["queue", "harvest", "site", "types"]) == ["queue", "site", "types"]


def loaded_after(program: str, folder: Path) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded when ``program`` has run."""
    code = f"import json, sys\n{program}\nprint(json.dumps(sorted(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


def test_the_command_line_starts_without_torch(tmp_path):
    loaded = loaded_after("import fieldcraft.flows.cli", tmp_path)
    assert "fieldcraft" in loaded
    assert not loaded & {"torch", "prefect", "mlflow", "zarr", "pde"}


def test_a_whole_status_command_loads_neither_torch_nor_a_solver(tmp_path):
    program = f"""
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import digest_of
from fieldcraft.flows.cli import main
spec = {{"sense": "minimize", "budget": {{"trials": 3}}}}
environment = {{"outputs": [{{"name": "value", "unit": ""}}], "units": {{"x1": ""}}}}
ledger = open_ledger({str(tmp_path / "ledger.sqlite")!r}, create=True)
ledger.create_campaign("small", spec, digest_of(spec), environment, "test")
assert main(["status", "--home", {str(tmp_path)!r}]) == 0
"""
    loaded = loaded_after(program, tmp_path)
    assert "sqlalchemy" in loaded
    assert not loaded & {"torch", "prefect", "mlflow", "zarr", "pde", "scipy"}


def test_the_contract_of_the_ledger_loads_no_database(tmp_path):
    loaded = loaded_after("import fieldcraft.storage.ledger, fieldcraft.storage.open_ledger", tmp_path)
    assert "fieldcraft" in loaded
    assert not loaded & {"sqlalchemy", "sqlite3", "psycopg"}


def test_a_module_that_is_loaded_is_seen(tmp_path):
    assert "zarr" in loaded_after("import fieldcraft.storage.fields, zarr", tmp_path)


def test_every_public_name_is_what_a_type_checker_is_told_and_costs_nothing_before_it_is_asked_for(tmp_path):
    tree = ast.parse((ROOT / "fieldcraft" / "__init__.py").read_text())
    told = {
        alias.asname: node.module.removeprefix("fieldcraft.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("fieldcraft.")
        for alias in node.names
    }
    assert told == fieldcraft.HOMES and len(told) > 30
    assert all(getattr(fieldcraft, name).__name__ == name for name in told if name != "Design")
    assert not loaded_after("import fieldcraft", tmp_path) & {"numpy", "torch", "xarray"}


def test_every_test_file_is_run_or_has_a_target_of_its_own():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    run = [ROOT / place for place in (*settings["testpaths"], "tests/browser", "tests/gpu")]
    files = set((ROOT / "tests").rglob("test_*.py"))
    assert len(files) > 200 and not {file for file in files if not any(file.is_relative_to(place) for place in run)}
    names = Counter(file.name for file in files)
    assert not [name for name, n in names.items() if n > 1], "of two files of one name pytest runs one"
