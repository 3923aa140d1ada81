"""The directory is the registry: what a directory may hold, and what a name may be."""

import dataclasses
import importlib
import re
import sys
from pathlib import Path

import pytest

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from, without_secrets
from fieldcraft.flows.spec.registry import PACKAGES, available, build, load, made_of, options_of
from fieldcraft.flows.text import quoted
from fieldcraft.storage.text import without_password

PARABOLA = '''\
"""A parabola."""
from dataclasses import dataclass
from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, SearchSpace


@dataclass(frozen=True)
class Parabola(Problem):
    """y = (x - centre)^2."""

    centre: float = 0.5

    def __post_init__(self):
        if self.centre < 0:
            raise ValueError(f"centre is {self.centre}: give one of at least 0")

    @property
    def space(self):
        return SearchSpace((Continuous("x", 0.0, 1.0),))

    @property
    def outputs(self):
        return (Output("y"),)

    def function(self, design):
        return {"y": (design["x"] - self.centre) ** 2}
'''
EMPTY = "from dataclasses import dataclass\n\n\n@dataclass(frozen=True)\nclass {}:\n    size: int = 1\n"


def plugin(folder: Path, files: dict[str, str]) -> Path:
    """A plug-in directory with these files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return plugin(tmp_path / "mine", {"problems/parabola.py": PARABOLA})


def test_a_file_in_a_listed_directory_is_a_kind(mine):
    assert available("problems", [mine])["parabola"] == mine / "problems" / "parabola.py"
    assert build("problems", {"kind": "parabola", "centre": 0.25}, [mine]).function({"x": 0.75}) == {"y": 0.25}


def test_a_file_in_a_directory_that_is_not_listed_is_none(mine):
    assert "parabola" not in available("problems")
    with pytest.raises(
        InputError, match=r"No kind 'parabola' in problems\. Known: .*branin, .*chips, .*heat.*\. To add one, write"
    ):
        load("problems", "parabola")


@pytest.mark.parametrize("name", ["my-problem", "PP", "my problem"])
def test_a_file_whose_name_is_no_kind_is_told_with_a_name_that_is(tmp_path, name):
    mine = plugin(tmp_path, {f"problems/{name}.py": "x = 1"})
    with pytest.raises(InputError, match=rf"problems/{name}\.py is there, but .*: rename the file, as [a-z_]+\.py\."):
        load("problems", name, [mine])


def test_a_kind_of_one_group_is_none_of_another(mine):
    with pytest.raises(InputError, match="No kind 'parabola' in simulators"):
        load("simulators", "parabola", [mine])


def test_listing_imports_nothing(tmp_path):
    broken = plugin(tmp_path, {"problems/broken.py": "raise SystemExit('imported')"})
    assert set(available("problems", [broken])) == {*available("problems"), "broken"}


@pytest.mark.parametrize("group", sorted(PACKAGES))
def test_every_built_in_kind_loads_as_one_frozen_dataclass(group):
    kinds = available(group)
    assert kinds
    for kind in kinds:
        cls = load(group, kind)
        assert dataclasses.is_dataclass(cls)
        assert cls.__module__ == f"{PACKAGES[group]}.{kind}"


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("x.py", "../x"),
        ("problems/Upper.py", "Upper"),
        ("problems/__init__.py", "__init__"),
        ("problems/_hidden.py", "_hidden"),
        ("problems/two-words.py", "two-words"),
        ("problems/9lives.py", "9lives"),
        ("problems/deep/x.py", "deep/x"),
        ("problems/deep/x.py", "deep.x"),
        ("problems/notes.txt", "notes"),
    ],
)
def test_a_file_whose_name_is_none_for_a_kind_cannot_be_named(tmp_path, file, kind):
    directory = plugin(tmp_path / "mine", {file: EMPTY.format("Thing"), "problems/fine.py": EMPTY.format("Fine")})
    assert set(available("problems", [directory])) == {*available("problems"), "fine"}
    with pytest.raises(InputError, match=re.escape(f"No kind {kind!r} in problems.")):
        load("problems", kind, [directory])


@pytest.mark.parametrize("kind", ["", "/etc/passwd", "heat.py", "heat\n", "os", "fieldcraft.flows.cli", None, 3])
def test_what_is_no_name_of_a_file_names_no_kind(mine, kind):
    with pytest.raises(InputError, match=re.escape(f"No kind {str(kind)!r} in problems.")):
        build("problems", {"kind": kind}, [mine])


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        (EMPTY.format("One") + EMPTY.format("Two"), "One, Two"),
        (EMPTY.format("One").replace("(frozen=True)", ""), "One"),
        ("class One:\n    size = 1\n", "One"),
        (EMPTY.format("_Base") + "\n\nclass One(_Base):\n    pass\n", "One"),
        (EMPTY.format("_Hidden"), "no public class"),
        ("from fieldcraft.physics.problems.branin import Branin\n", "no public class"),
        ("size = 1\n", "no public class"),
        ("", "no public class"),
    ],
)
def test_a_file_that_does_not_hold_exactly_one_public_frozen_dataclass_is_refused(tmp_path, text, holds):
    directory = plugin(tmp_path, {"problems/odd.py": text})
    message = f"{directory / 'problems' / 'odd.py'} holds {holds}: it must hold exactly one public frozen dataclass"
    with pytest.raises(InputError, match=re.escape(message)):
        load("problems", "odd", [directory])


def test_classes_of_its_own_and_imported_ones_do_not_count(tmp_path):
    text = "from fieldcraft.physics.problems.branin import Branin\n" + EMPTY.format("_Part") + EMPTY.format("Whole")
    assert load("problems", "fine", [plugin(tmp_path, {"problems/fine.py": text})]).__name__ == "Whole"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def f(:\n", "SyntaxError: invalid syntax"),
        ("import a_module_that_is_not_there\n", "ModuleNotFoundError: No module named 'a_module_that_is_not_there'"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_one_error_and_may_be_mended_at_once(tmp_path, text, problem):
    file = plugin(tmp_path, {"problems/late.py": text}) / "problems" / "late.py"
    for _ in range(2):  # a module that failed half-way is not kept
        with pytest.raises(InputError, match=re.escape(f"{file} cannot be loaded: {problem}")):
            load("problems", "late", [tmp_path])
    file.write_text(EMPTY.format("Mended") + "# longer than before, so that no cached bytecode can stand in for it\n")
    importlib.invalidate_caches()
    assert load("problems", "late", [tmp_path]).__name__ == "Mended"


def test_a_kind_that_is_built_in_cannot_be_replaced(tmp_path):
    directory = plugin(tmp_path, {"problems/heat.py": EMPTY.format("Heat")})
    with pytest.raises(InputError, match=r"Kind 'heat' exists twice: .*physics/problems/heat\.py and .*Rename yours"):
        available("problems", [directory])


def test_two_directories_cannot_hold_the_same_kind(tmp_path):
    one = plugin(tmp_path / "one", {"problems/mine.py": EMPTY.format("Mine")})
    two = plugin(tmp_path / "two", {"problems/mine.py": EMPTY.format("Mine")})
    message = f"Kind 'mine' exists twice: {one / 'problems' / 'mine.py'} and {two / 'problems' / 'mine.py'}. Rename"
    with pytest.raises(InputError, match=re.escape(message)):
        load("problems", "mine", [one, two])


def test_a_models_file_of_the_user_never_meets_ours(tmp_path):
    ours = importlib.import_module("fieldcraft.models")
    one = plugin(
        tmp_path / "one",
        {
            "models.py": "raise SystemExit('the models.py of the user was imported')",
            "problems/models.py": EMPTY.format("Models"),
            "problems/mine.py": "import fieldcraft.models\nOURS = fieldcraft.models.__file__\n" + EMPTY.format("Mine"),
        },
    )
    two = plugin(
        tmp_path / "two", {"problems/flows.py": EMPTY.format("Flows"), "simulators/mine.py": EMPTY.format("Mine")}
    )
    path = list(sys.path)
    models, mine = load("problems", "models", [one, two]), load("problems", "mine", [one, two])
    simulator = load("simulators", "mine", [one, two])
    assert load("problems", "flows", [one, two]).__name__ == "Flows"
    assert sys.modules["fieldcraft.models"] is ours
    seen = sys.modules[mine.__module__].OURS
    assert seen == ours.__file__
    assert sys.path == path
    names = {cls.__module__ for cls in (models, mine, simulator)}
    assert len(names) == 3
    assert all(name.startswith("_fieldcraft_plugin_") for name in names)


def test_the_class_of_a_file_is_one_class_however_often_it_is_asked_for(mine):
    assert load("problems", "parabola", [mine]) is load("problems", "parabola", [mine])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"center": 0.5}, "problem.center: unknown key 'center'. Did you mean 'centre'?"),
        ({"zzz": 0.5}, "problem.zzz: unknown key 'zzz'. Known: centre."),
        ({"centre": "half"}, "problem.centre: Input should be a valid number"),
        ({"centre": float("nan")}, "problem.centre: Input should be a finite number"),
        ({"centre": -1.0}, "centre is -1.0: give one of at least 0"),
    ],
)
def test_an_option_the_kind_does_not_take_is_one_error(mine, options, message):
    with pytest.raises(InputError, match=re.escape(message)):
        build("problems", {"kind": "parabola", **options}, [mine], "problem")


@dataclasses.dataclass(frozen=True)
class Part:
    """An option with options of its own."""

    on: bool = False
    size: float = 1.0
    either: float | str = 2.0


@dataclasses.dataclass(frozen=True)
class Parts:
    """A component with such options."""

    one: Part = Part()
    some: tuple[Part, ...] = ()


def test_an_option_within_an_option_is_as_strict_as_one_outside():
    def made(**options):
        return made_of(Parts, options, "w", {}, ())

    assert made(one={"on": True, "either": "5"}, some=[{"on": False}]) == Parts(Part(True, 1.0, "5"), (Part(),))
    for options, said in (
        ({"one": {"size": "5"}}, "w.one.size: '5' is text"),
        ({"one": {"either": True}}, "w.one.either: True is no number"),
        ({"some": [{}, {"size": True}]}, "w.some.1.size: True is no number"),
    ):
        with pytest.raises(InputError, match=f"^{re.escape(said)}"):
            made(**options)


def test_a_component_is_written_out_with_every_default(mine):
    parabola = build("problems", {"kind": "parabola"}, [mine])
    assert options_of("parabola", parabola) == {"kind": "parabola", "centre": 0.5}


def test_the_settings_list_directories_as_a_path_does(tmp_path):
    one, two = plugin(tmp_path / "one", {"problems/a.py": ""}), plugin(tmp_path / "two", {"problems/b.py": ""})
    assert settings_from({"FIELDCRAFT_PLUGINS": f"{one}:{two}"}).plugins == (one, two)
    assert settings_from({"FIELDCRAFT_PLUGINS": ""}).plugins == ()


def test_a_directory_that_is_missing_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for name in ("nowhere", "file"):
        with pytest.raises(
            InputError, match=re.escape(f"FIELDCRAFT_PLUGINS names {quoted(str(tmp_path / name))}, which is no")
        ):
            settings_from({"FIELDCRAFT_PLUGINS": f"{tmp_path}:{tmp_path / name}"})


def test_a_home_that_is_named_wins_over_the_environment(tmp_path):
    environment = {"FIELDCRAFT_HOME": str(tmp_path / "there")}
    assert settings_from(environment).home == tmp_path / "there"
    assert settings_from(environment, home=tmp_path / "here").home == tmp_path / "here"
    assert settings_from({}).home == Path.cwd() / "runs"
    assert settings_from({}, home=tmp_path).mlflow == f"sqlite:///{tmp_path}/mlflow/mlflow.db"
    assert settings_from({"FIELDCRAFT_MLFLOW": "http://host:5000"}).mlflow == "http://host:5000"


def test_the_ledger_is_a_file_under_the_home_unless_it_is_named_and_its_password_is_shown_nowhere(tmp_path):
    assert settings_from({}, home=tmp_path).ledger == tmp_path / "ledger.sqlite"
    assert settings_from({"FIELDCRAFT_LEDGER": "l.db"}, home=tmp_path).ledger == str(Path.cwd() / "l.db")
    url = "postgresql://ann:hush@db.lab:5432/campaigns"
    settings = settings_from({"FIELDCRAFT_LEDGER": url}, home=tmp_path)
    assert settings.ledger == url
    assert settings.ledger_shown == "postgresql://db.lab:5432/campaigns"
    assert "hush" not in repr(settings)
    assert "hush" not in repr(settings_from({"FIELDCRAFT_MLFLOW": "https://ann:hush@host"}, home=tmp_path))
    for password in ("hush", "hu/sh", "hu@sh", "hu:s?h"):
        assert without_password(f"https://ann:{password}@host:5000/mlflow") == "https://host:5000/mlflow"
    assert without_password("sqlite:////home/ann@lab/mlflow.db") == "sqlite:////home/ann@lab/mlflow.db"
    secrets = {"FIELDCRAFT_LEDGER": url, "PGPASSWORD": "hush", "PGPASSFILE": "/home/ann/.pgpass"}
    secrets["PGSERVICEFILE"] = "/home/ann/.pg_service.conf"
    assert without_secrets({**secrets, "PGTZ": "UTC"}) == {"PGTZ": "UTC"}
