"""What people forget when they write their first problem: one line with file, line and remedy, and exit 2."""

import json
from pathlib import Path

import pytest
from small import SMALL, finish

from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import read_campaign
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.views.regret import regret_of
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.open_ledger import open_ledger

HEAD = """\
from dataclasses import dataclass

import numpy as np

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.problem import Infeasible, Output, Problem, Simulator
from fieldcraft.physics.space import Continuous, SearchSpace


@dataclass(frozen=True)
"""
RIGHT = """\
class Rod(Problem):
    scale: float = 1.0

    @property
    def space(self):
        return SearchSpace((Continuous("x", 0.0, 1.0, "m"),))

    @property
    def outputs(self):
        return (Output("y", "K"),)

    def function(self, design):
        return {"y": design["x"]}
"""
OUTPUTS = '    @property\n    def outputs(self):\n        return (Output("y", "K"),)\n'
SPACE = '        return SearchSpace((Continuous("x", 0.0, 1.0, "m"),))\n'
FIRST = len(HEAD.splitlines())  # the line above the class

# What takes the place of what, the line that is named, and what is said of it.
MISTAKES = {
    "no outputs": (
        OUTPUTS,
        "",
        FIRST,
        "Rod has no 'outputs': give it a property that returns a tuple, such as (Output(",
    ),
    "no space": (
        f"    @property\n    def space(self):\n{SPACE}",
        "",
        FIRST,
        "Rod has no 'space': give it a property that",
    ),
    "outputs without @property": (
        OUTPUTS,
        OUTPUTS[14:],
        18,
        "'outputs' is a method and must be a property: write @prope",
    ),
    "space without @property": (
        "    @property\n    def space",
        "    def space",
        14,
        "'space' is a method and must be a",
    ),
    "sd without @property": (
        "    scale",
        "    def sd(self):\n        return 1.0\n\n    scale",
        12,
        "'sd' is a method and must",
    ),
    "a bare output": (
        '(Output("y", "K"),)',
        'Output("y", "K")',
        18,
        "'outputs' gives Output('y', 'K'): return (Output('y', 'K'),), a tuple with its comma.",
    ),
    "outputs that are words": ('(Output("y", "K"),)', '("y",)', 18, "'outputs' gives ('y',): return (Output(\"value\""),
    "no output at all": (
        '(Output("y", "K"),)',
        "()",
        18,
        '\'outputs\' gives (): return (Output("value", "K"),), a tuple',
    ),
    "two outputs of one name": (
        '"K"),)',
        '"K"), Output("y"))',
        18,
        "two outputs are named 'y': give each its own name",
    ),
    "an error in space": (
        SPACE,
        SPACE.replace("0.0, 1.0", "2.0, 1.0"),
        16,
        "Rod cannot give its 'space': SpaceError: x has",
    ),
    "a name in space": (
        SPACE,
        "        return Serchspace()\n",
        16,
        "Rod cannot give its 'space': NameError: name 'Serch",
    ),
    "no space in space": (
        SPACE,
        "        return 3\n",
        14,
        "'space' gives 3: return a SearchSpace, such as SearchSpace((",
    ),
    "an error in outputs": (
        '(Output("y", "K"),)',
        "1 / 0",
        20,
        "Rod cannot give its 'outputs': ZeroDivisionError: div",
    ),
    "an error in domain": (
        "    def function",
        '    @property\n    def domain(self):\n        return Domain((Axis("x", 1.0, 0.0),))\n\n    def function',
        24,
        "Rod cannot give its 'domain': ",
    ),
    "no problem": (
        "class Rod(Problem)",
        "class Rod",
        FIRST,
        "Rod is no Problem: write class Rod(Problem), with 'from fieldcraft import Problem'",
    ),
    "another base": (
        "class Rod(Problem)",
        "class Rod(Simulator)",
        FIRST,
        "Rod is no Problem: write class Rod(Problem)",
    ),
    "an error where it is made": (
        "    scale: float = 1.0\n",
        "    scale: float = 1.0\n\n    def __post_init__(self):\n        self.scale = 2.0\n",
        15,
        "Rod cannot be made of these options: FrozenInstanceError: cannot assign to field 'scale'",
    ),
    "an option of no known type": (
        "scale: float = 1.0",
        "scale: np.generic = 1.0",
        FIRST,
        "Rod cannot be made of these",
    ),
    "an error in cost": (
        "    def function",
        "    def cost(self, design):\n        return design['z']\n\n    def function",
        23,
        "Rod cannot tell the cost of a design: KeyError: 'z'",
    ),
    **{
        f"a cost of {cost}": (
            "    def function",
            f"    def cost(self, design):\n        return {cost}\n\n    def function",
            FIRST,
            f"Rod cannot tell the cost of a design: ValueError: its cost is {said}: give a finite number >= 0",
        )
        for cost, said in {"-1": "-1", "float('nan')": "nan", "None": "None", "'2'": "'2'"}.items()
    },
}


def rod(folder: Path, text: str) -> Path:
    """A campaign file of a problem of this text."""
    (folder / "mine" / "problems").mkdir(parents=True)
    (folder / "mine" / "problems" / "rod.py").write_text(text)
    file = folder / "rod.yaml"
    file.write_text(SMALL.replace("{kind: branin}", "{kind: rod}").replace("noise: {sd: 0.5}\n", ""))
    return file


def told(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    """What ``check`` says on one line of a problem that cannot be."""
    file = rod(folder, text)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(folder / "mine"))
    assert main(["check", str(file), "--home", str(folder / "home")]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert not (folder / "home").exists()
    return err


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_an_ordinary_mistake_is_one_line_with_file_line_and_remedy(tmp_path, capsys, monkeypatch, mistake):
    old, new, line, said = MISTAKES[mistake]
    assert old in RIGHT
    err = told(tmp_path, capsys, monkeypatch, HEAD + RIGHT.replace(old, new))
    place = tmp_path / "mine" / "problems" / "rod.py"
    assert f"rod.yaml: line 4: problem: {place}, line {line}: {said}" in err


def test_without_a_mistake_it_is_a_problem(tmp_path, capsys, monkeypatch):
    file = rod(tmp_path, HEAD + RIGHT)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "mine"))
    assert main(["check", str(file), "--home", str(tmp_path / "home")]) == 0
    assert capsys.readouterr().err == ""


def test_what_a_file_prints_when_it_is_loaded_does_not_mix_with_the_answer(tmp_path, capsys, monkeypatch):
    file = rod(tmp_path, HEAD.replace("import numpy", "print('loaded')\nimport numpy") + RIGHT)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "mine"))
    assert main(["check", str(file), "--json", "--home", str(tmp_path / "home")]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) and "loaded" in err


def test_a_file_that_ends_the_program_or_cannot_be_read_is_one_line_too(tmp_path, capsys, monkeypatch):
    said = told(tmp_path / "one", capsys, monkeypatch, "raise SystemExit(0)\n")
    assert "rod.py cannot be loaded: SystemExit: 0 (" in said and "rod.py, line 1). Mend the file." in said
    assert "SyntaxError: invalid syntax (rod.py, line 2)" in told(
        tmp_path / "two", capsys, monkeypatch, "x = 1\ndef (\n"
    )


def test_a_simulator_without_run_is_told_with_what_it_needs(tmp_path, capsys, monkeypatch):
    file = rod(tmp_path, HEAD + RIGHT)
    (tmp_path / "mine" / "simulators").mkdir()
    solver = tmp_path / "mine" / "simulators" / "rod.py"
    solver.write_text(HEAD + "class Solver(Simulator):\n    cells: int = 3\n")
    file.write_text(file.read_text().replace("{kind: function}", "{kind: rod}"))
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "mine"))
    assert main(["check", str(file), "--home", str(tmp_path / "home")]) == 2
    said = f"{solver}, line {FIRST}: Solver has no 'run': give it a method run(self, problem, design, rng) that returns"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "told"), [("None", "None"), ("{'y': 1.0}", "a dict")])
def test_a_simulator_that_gives_no_fields_is_told_with_what_it_gave(tmp_path, monkeypatch, answer, told):
    file = rod(tmp_path, HEAD + RIGHT)
    (tmp_path / "mine" / "simulators").mkdir()
    solver = tmp_path / "mine" / "simulators" / "rod.py"
    run = f"    def run(self, problem, design, rng):\n        return {answer}\n"
    solver.write_text(f"{HEAD}class Solver(Simulator):\n    idempotent = True\n{run}")
    file.write_text(file.read_text().replace("{kind: function}", "{kind: rod}") + "dispatcher: {kind: inline}\n")
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "mine"))
    settings = settings_from({"FIELDCRAFT_PLUGINS": str(tmp_path / "mine")}, tmp_path / "home")
    ledger = open_ledger(settings.ledger, create=True)
    assert created(ledger, wire(read_campaign(file), settings), file) is None
    ref = Ref(str(settings.home), "small", ledger.acquire("small").model_dump())
    for _ in range(2):
        make_pass(ref)
    said = f"{solver}, line {FIRST + 3}: 'run' gave {told}: return an xarray.Dataset"
    assert any(said in event.reason for event in ledger.history("small", "small-0001"))


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (
            "optimum(self, sense):\n        return self.exact(np.zeros((1, 1)))[0]",
            "line 26: Rod cannot tell its optimum",
        ),
        ("optimum(self, sense):\n        return 0.0", "Rod cannot tell its optimum: AttributeError"),
        ('exact(self, points):\n        return points / "m"', "line 26: Rod cannot tell its exact objective"),
        ("exact(self, points):\n        return [None]", "Rod cannot tell its exact objective: TypeError"),
        (
            "exact_constraints(self, points):\n        raise KeyError(7)",
            "line 26: Rod cannot tell its exact constraints",
        ),
    ],
)
def test_what_a_problem_cannot_tell_of_the_truth_is_one_line_too(tmp_path, monkeypatch, method, said):
    known = "\n    def optimum(self, sense):\n        return Optimum({'x': 0.0}, 0.0)\n" * (
        not method.startswith("optimum")
    )
    head = HEAD.replace("import Infeasible", "import Infeasible, Optimum")
    file, plugins = rod(tmp_path, f"{head}{RIGHT}\n    def {method}\n{known}"), tmp_path / "mine"
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(plugins))
    file.write_text(
        file.read_text()[: file.read_text().index("algorithm")] + "algorithm: {kind: random}\nbudget: {trials: 1}\n"
    )
    finish(file, tmp_path / "home", plugins)
    settings = settings_from({"FIELDCRAFT_PLUGINS": str(plugins)}, tmp_path / "home")
    (trial,) = open_ledger(settings.ledger).trials("small")
    with pytest.raises(InputError, match=rf"rod\.py, .*{said}.* Mend it"):
        regret_of(wire(read_campaign(file), settings), trial)
