"""Bad campaign files, studies, tables, command lines and settings: one error a line, exit 2, and nothing is created.

The cases are data: ``wrong/*.yaml``, and below what YAML itself could not hold, and every number of a campaign file.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_origin

import pytest
import yaml
from bench import OVEN_CAMPAIGN, bench
from small import contents

from fieldcraft.flows.cli import main
from fieldcraft.flows.spec.base import Part, types_of
from fieldcraft.flows.spec.campaign_file import CampaignSpec
from fieldcraft.storage.ledgers.sqlite import close_idle

HERE = Path(__file__).resolve().parents[1]
CAMPAIGN = {
    "name": "small",
    "seed": "3",
    "sense": "minimize",
    "problem": "{kind: branin}",
    "simulator": "{kind: function}",
    "algorithm": "",
    "  start": "{n: 2}",
    "  surrogate": "{kind: exact_gp}",
    "  acquisition": "{kind: log_ei}",
    "  maximizer": "{kind: multistart}",
    "  collocation": "{n: 256}",
    "budget": "{trials: 3}",
}
STUDY = {
    "name": "s",
    "seeds": "2",
    "problems": "",
    "  - label": "one",
    "    problem": "{kind: branin}",
    "    sense": "minimize",
    "    start": "{n: 2}",
    "    budget": "{trials: 4}",
    "algorithms": "",
    "  - kind": "sobol",
    "  - label ": "gp",
    "    surrogate": "{kind: exact_gp}",
    "    acquisition": "{kind: log_ei}",
    "    maximizer": "{kind: multistart}",
}
NUMBERS = {
    "seed": ("seed", "%s"),
    "batch": ("batch", "%s"),
    "budget.trials": ("budget", "{trials: %s}"),
    "budget.cost": ("budget", "{trials: 3, cost: %s}"),
    "budget.wall_time_h": ("budget", "{trials: 3, wall_time_h: %s}"),
    "algorithm.start.n": ("  start", "{n: %s}"),
    "algorithm.collocation.n": ("  collocation", "{n: %s}"),
    "levels.0.cost": ("levels", "[{cells: 24, cost: %s}]"),
    "noise.sd": ("noise", "{sd: %s}"),
    "noise.of_sd": ("noise", "{of_sd: %s}"),
    "emulator.points": ("emulator", "{kind: pinn, points: %s}"),
    "emulator.steps": ("emulator", "{kind: pinn, steps: %s}"),
    "emulator.batch": ("emulator", "{kind: pinn, batch: %s}"),
    "emulator.width": ("emulator", "{kind: pinn, width: %s}"),
    "emulator.depth": ("emulator", "{kind: pinn, depth: %s}"),
    "emulator.rate": ("emulator", "{kind: pinn, rate: %s}"),
    "approval.cost": ("approval", "{policy: auto_below_cost, cost: %s}"),
    "approval.first": ("approval", "{policy: after_first, first: %s}"),
    "approval.expires_h": ("approval", "{policy: human, expires_h: %s}"),
    "dispatcher.parallel": ("dispatcher", "{parallel: %s}"),
    "dispatcher.wall_time_s": ("dispatcher", "{wall_time_s: %s}"),
    "dispatcher.attempts": ("dispatcher", "{attempts: %s}"),
    "dispatcher.backoff_s": ("dispatcher", "{backoff_s: %s}"),
    "dispatcher.lease_s": ("dispatcher", "{lease_s: %s}"),
    "stop.target": ("stop", "{target: %s}"),
    "stop.no_improvement": ("stop", "{no_improvement: %s}"),
    "stop.failure_rate.above": ("stop", "{failure_rate: {above: %s}}"),
    "stop.failure_rate.over": ("stop", "{failure_rate: {above: 0.5, over: %s}}"),
    "stop.certified_gap": ("stop", "{certified_gap: %s}"),
    "stop.certified_regret": ("stop", "{certified_regret: %s}"),
}
NO_NUMBERS = {
    '"5"': "%s: a number within quotes is text: take the quotes off (given: '5')",
    "true": "%s: true and false say nothing here: give a number, or quote the word (given: True)",
    "yes": "%s: Input should be a valid",
    "five": "%s: Input should be a valid",
    "[1]": "%s: Input should be a valid",
    ".nan": "%s: nan is no number to work with. Give a finite one.",
    "1:30": "holds 1:30, a number to the base 60 in YAML 1.1. Write the number out, or quote what is text.",
    "010": "holds 010, a number to the base 8 in YAML 1.1. Leave out the zero in front, or quote what is text.",
    "1.0e+300": "%s: 1e+300 is out of reach",
}
OF_ANY_FILE = (".nan", "1.0e+300")  # found wherever they stand, before it is known what the place is for
PLAIN: dict[str, tuple[str | bytes, Sequence[str]]] = {
    "a list": ("- a\n- b\n", ["holds a list, not a mapping. Begin from"]),
    "words": ("just words\n", ["holds a str, not a mapping"]),
    "nothing": ("", ["holds nothing, not a mapping"]),
    "a comment": ("# nothing\n", ["holds nothing, not a mapping"]),
    "a number": ("5\n", ["holds a int, not a mapping"]),
    "a python tag": ("a: !!python/object/apply:os.system [ls]\n", ["line 1 carries the tag 'tag:yaml.org,2002:py"]),
    "a tag": ("a: 1\nb: !mine 2\n", ["line 2 carries the tag '!mine': the file is plain data. Remove the tag."]),
    "an anchor": ("a: &x 1\nb: *x\n", ["line 1 uses the anchor 'x'. Write the value out.", "line 2 uses the anchor"]),
    "a bomb": ("a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n", ["line 1 uses", *["line 2 uses"] * 3, *["line 3 uses"] * 2]),
    "an alias of nothing": ("a: *nowhere\n", ["line 1 uses the anchor 'nowhere'"]),
    "a merge": ("a: {b: 1}\n<<: {c: 1}\n", ["line 2: key << is not text. Quote it."]),
    "a key twice": ("seed: 1\nname: a\nseed: 2\n", ["line 3: key 'seed' is given twice. Remove one."]),
    "a number for a key": ("1: a\n", ["line 1: key 1 is not text. Quote it."]),
    "true for a key": ("true: a\n", ["line 1: key true is not text. Quote it."]),
    "a list for a key": ("[a]: b\n", ["line 1: key that is a sequence is not text"]),
    "half a letter": ('a: "x\\ud800"\n', [r"line 1 holds half of a letter ('x\ud800'). Write the letter itself."]),
    "an open bracket": ("a: [1, 2\n", ["is not YAML: while parsing a flow sequence"]),
    "an open quote": ('a: "b\n', ["is not YAML: while scanning a quoted scalar"]),
    "a tab": (
        "a:\n\t- b\n",
        [
            r"is not YAML: while scanning for the next token, found character '\t' that cannot start any token "
            "(line 2, column 1). Indent by blanks, not by tabs."
        ],
    ),
    "a decimal comma": ("a: {high: 90,5}\n", ["line 1: key 5 is not text. A decimal takes a point, not a comma."]),
    "two documents": ("a: 1\n---\nb: 2\n", ["is not YAML: expected a single document"]),
    "a colon too many": ("a: b: c\n", ["allowed here (line 1, column 5). A blank follows a key's colon, and a"]),
    "5000 digits": (f"seed: {'9' * 5000}\n", ["line 1 holds a number with too many digits (99999"]),
    "very deep": ("a: " + "[" * 50_000, ["is not YAML: it is nested too deeply"]),
    "a null byte": ("a: 1\0", ["is not YAML: unacceptable character"]),
    "no UTF-8": (b"\x80\x81\xff", ["is not UTF-8 text. Give a YAML file."]),
    "UTF-16": ("a: 1\n".encode("utf-16"), ["is not UTF-8 text"]),
    "a picture": (bytes(range(256)) * 40, ["is not UTF-8 text"]),
    "a megabyte": ("#" * 1_000_001, ["is over 1000000 bytes, too large for a campaign file"]),
    "many keys": (
        "".join(f"k{n}: 1\n" for n in range(30)),
        [*(f"k{n}: unknown key" for n in range(10)), "And 25 more."],
    ),
}
WORDS = {
    ("status", "--home", "a\0b"): r"--home is 'a\x00b', which is no path",
    ("check", "a\0b"): "is no path",
    ("status", "\ud800", "--home", "{home}"): r"No campaign '\ud800' here.",
}


@cache
def read(file: str) -> dict[str, Any]:
    """A file of cases."""
    return yaml.safe_load((HERE / "wrong" / file).read_text())


def cases(file: str, *sections: str) -> list[Any]:
    """The cases of a file, by their names or their words."""
    data = read(file)
    found = [case for section in sections for case in data[section]]
    return [pytest.param(case, id=case.get("name") or " ".join(case["words"]) or "nothing") for case in found]


def filled(text: str, places: Mapping[str, object] | None = None) -> str:
    """A text of a case with all that it stands for."""
    long = {"long": "x" * 5000, "cut": "x" * 76, "digits": "9" * 5000, "digits cut": "9" * 76}
    for name, value in {**long, **(places or {})}.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def written(base: Mapping[str, str], change: Mapping[str, str | None]) -> str:
    """The file of a case."""
    lines = {**base, **change}
    return "".join(f"{filled(key)}: {filled(value)}\n" for key, value in lines.items() if value is not None)


def refused(capsys: pytest.CaptureFixture[str], said: Sequence[str], *words: object) -> None:
    """A command line exits with 2 and says exactly these lines, as parts of them tell."""
    assert main([str(word) for word in words]) == 2
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out in ("", f"    0.0 s  reading {words[1] if len(words) > 1 else ''}\n"), "compare says what it reads"
    assert len(lines) == len(said), err
    for line, part in zip(lines, said, strict=True):
        assert line.startswith("fieldcraft: ") and filled(part) in line, err
        assert len(line) < 1000 and "Traceback" not in line
        assert re.search(r"([x9])\1{80}", line) is None, "a value is cut at 80 characters"


def refused_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | bytes, said: Sequence[str], word: str = "create"
) -> None:
    """A file is refused and nothing is created."""
    file = tmp_path / "c.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    refused(capsys, said, word, file, "--home", tmp_path / "home")
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("case", cases("campaigns.yaml", "keys", "values", "kinds", "amounts", "several"))
def test_a_wrong_campaign_file_is_told_whole_a_fault_a_line_and_nothing_is_created(tmp_path, capsys, case):
    refused_file(tmp_path, capsys, written(CAMPAIGN, case["change"]), case["said"])


@pytest.mark.parametrize("given", list(NO_NUMBERS))
@pytest.mark.parametrize("place", list(NUMBERS))
def test_what_is_no_number_is_told_for_every_number_of_a_campaign_file(tmp_path, capsys, place, given):
    key, template = NUMBERS[place]
    said = NO_NUMBERS[given]
    if given in OF_ANY_FILE:
        place = place.replace(".0.", "[0].")
    refused_file(tmp_path, capsys, written(CAMPAIGN, {key: template % given}), [said % place if "%s" in said else said])


def test_every_number_of_the_specification_is_among_those():
    def numbers(model: type[Part], place: str) -> list[str]:
        found = []
        for name, field in model.model_fields.items():
            for kind in types_of(field.annotation):
                if kind in (int, float) and name != "space":
                    found.append(f"{place}{name}")
                elif isinstance(kind, type) and issubclass(kind, Part):
                    item = "0." if get_origin(field.annotation) is tuple else ""
                    found += numbers(kind, f"{place}{name}.{item}")
        return found

    assert set(numbers(CampaignSpec, "")) == set(NUMBERS)


@pytest.mark.parametrize("name", list(PLAIN))
def test_a_file_that_is_no_plain_yaml_is_told_and_nothing_is_created(tmp_path, capsys, name):
    refused_file(tmp_path, capsys, *PLAIN[name])


@pytest.mark.parametrize("case", cases("studies.yaml", "studies"))
def test_a_wrong_study_file_is_told_and_nothing_is_created(tmp_path, capsys, case):
    refused_file(tmp_path, capsys, written(STUDY, case["change"]), case["said"], "compare")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the oven's campaign file."""
    bench(tmp_path, OVEN_CAMPAIGN, monkeypatch)
    return tmp_path


@pytest.mark.parametrize("case", cases("tables.yaml", "imported"))
def test_a_wrong_table_imports_nothing_and_creates_nothing(data, capsys, case):
    table = data / "data.csv"
    table.write_text(filled(case["table"]), newline="")
    before = contents(data)
    refused(capsys, [case["said"]], "import", data / "campaign.yaml", table, "--home", data / "home")
    assert contents(data) == before


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"T,t\n\xff\xfe,1\n", "is not UTF-8 text. Save it as UTF-8."),
        (b"PK\x03\x04", "is a spreadsheet's own file, not a table in text. Save its sheet as CSV (UTF-8)."),
    ],
)
def test_a_table_that_is_no_text_imports_nothing(data, capsys, raw, reason):
    (data / "data.csv").write_bytes(raw)
    refused(
        capsys, [f"data.csv: {reason}"], "import", data / "campaign.yaml", data / "data.csv", "--home", data / "home"
    )
    assert not (data / "home").exists()


@pytest.fixture(scope="module")
def _ordered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in whose ``home`` three orders of the oven are with the laboratory; no test here changes it."""
    folder = tmp_path_factory.mktemp("oven")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDCRAFT_MLFLOW", "off")
        bench(folder, OVEN_CAMPAIGN, patch).order()
    close_idle()
    (folder / "empty").mkdir()
    return folder


@pytest.fixture
def oven(_ordered: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, with the oven among the kinds."""
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(_ordered / "plugins"))
    return _ordered


@pytest.mark.parametrize("case", cases("tables.yaml", "handed"))
def test_a_wrong_result_is_told_and_nothing_is_recorded(oven, tmp_path, capsys, case):
    file = tmp_path / case["file"]
    file.write_text(filled(case["table"]))
    before = contents(oven)
    refused(capsys, [case["said"]], "record", "--csv", file, "--home", oven / "home")
    assert contents(oven) == before
    assert [path.name for path in tmp_path.iterdir()] == [case["file"]]


def test_json_that_is_nested_too_deeply_is_told(oven, tmp_path, capsys):
    (tmp_path / "r.json").write_text("[" * 100_000)
    refused(capsys, ["r.json: is no JSON ("], "record", "--csv", tmp_path / "r.json", "--home", oven / "home")


@pytest.mark.parametrize(
    "case",
    [
        *cases("command_lines.yaml", "words"),
        *(pytest.param({"words": words, "said": said}, id=repr(words)) for words, said in WORDS.items()),
    ],
)
def test_a_wrong_command_line_is_told_and_nothing_is_changed(oven, capsys, case):
    places = {"home": oven / "home", "file": oven / "campaign.yaml", "empty": oven / "empty"}
    before = contents(oven)
    refused(capsys, [case["said"]], *(filled(word, places) for word in case["words"]))
    assert contents(oven) == before
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("case", cases("command_lines.yaml", "settings"))
def test_a_wrong_setting_is_told_and_nothing_is_changed(oven, capsys, monkeypatch, case):
    monkeypatch.setenv(case["name"], filled(case["value"]))
    before = contents(oven)
    home = () if case["name"] == "FIELDCRAFT_HOME" else ("--home", oven / "home")
    refused(capsys, [case["said"]], "status", *home)
    assert contents(oven) == before


def test_the_corpus_has_three_hundred_cases_and_more():
    files = cases("campaigns.yaml", "keys", "values", "kinds", "amounts", "several") + cases("studies.yaml", "studies")
    tables, words = cases("tables.yaml", "imported", "handed"), cases("command_lines.yaml", "words", "settings")
    assert len(files) + len(tables) + len(words) + len(PLAIN) > 300
