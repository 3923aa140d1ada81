"""What the docs show as a command's output is what the command prints: words and columns, and what is drawn.

Times, paths, digests and what a trained model says differ between machines and stand as N here. The first designs are
a Sobol sequence: they and their results are compared as they are.
"""

import json
import os
import re
from pathlib import Path

import pytest
import warm_start
from shown import HEATS, ROOT, figures, sample, shown, table, text_of

from fieldcraft.flows.cli import main
from fieldcraft.flows.notices.deliver import message_of
from fieldcraft.storage.open_ledger import open_ledger

FEWER = (("n: 6}", "n: 2}"), ("trials: 30", "trials: 3"))  # a start of two, and one proposal of a model


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shown") / "home"


@pytest.fixture(scope="module")
def printed(home: Path, tmp_path_factory: pytest.TempPathFactory, prefect_api: dict[str, str]) -> str:
    """What ``fieldcraft run campaigns/heat.yaml`` prints, with fewer trials."""
    file = tmp_path_factory.mktemp("campaigns") / "heat.yaml"
    text = text_of("campaigns/heat.yaml")
    for whole, part in FEWER:
        assert text.count(whole) == 1
        text = text.replace(whole, part)
    file.write_text(text)
    words = ["-m", "fieldcraft.flows.cli", "run", str(file), "--home", str(home)]
    done = warm_start.run(words, {**os.environ, "PYTHONPATH": str(ROOT), **prefect_api}, 180, str(ROOT))
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(str(file), "campaigns/heat.yaml")


def timeless(line: str) -> str:
    """A line of progress without its times."""
    line = re.sub(r"^ *[\d.]+ s  ", "S s  ", line)
    return re.sub(r"(in|;) [\d.]+ s(?=[.;:]|$)", r"\1 S s", line)


def shape(line: str) -> str:
    """A line without its numbers, and without what they decide."""
    line = re.sub(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "N", re.sub(r"(iteration) +", r"\1 ", timeless(line)))
    return line.removesuffix("  <- best").replace(" +- N", "")


def test_the_sample_of_heat_is_what_the_demo_prints(printed, home):
    told, said = (text.splitlines() for text in (shown("docs/heat.md", "heat"), sample(printed, home)))
    shapes = [list(dict.fromkeys(map(shape, lines))) for lines in (told, said)]  # of more iterations once
    assert shapes[0] == shapes[1]
    first = [
        [timeless(line).partition("; best")[0] for line in lines if "iteration   0" in line] for lines in (told, said)
    ]
    assert len(first[0]) == 4
    assert first[0] == first[1], "a Sobol design, and its result"


def test_the_table_of_heat_campaigns_agrees_with_its_sample_and_with_the_files():
    rows = table("docs/heat.md", "file | surrogate")
    assert [row["file"] for row in rows] == [f"{name}.yaml" for name in HEATS]
    assert (rows[0]["best result"], rows[0]["regret, without noise"]) == figures(shown("docs/heat.md", "heat"))
    words = {"Thompson sampling": "kind: thompson", "log expected improvement": "kind: log_ei"}
    words |= {"a trained network and Laplace's equation": "engine: trained", "harmonic polynomials": "engine: basis"}
    words |= {"Gaussian process": "kind: exact_gp"}
    for row in rows:
        file = text_of(f"campaigns/{row['file']}")
        assert words[row["surrogate"]] in file and words[row["acquisition"]] in file


def test_the_table_of_compare_runs_has_the_rows_that_are_printed(printed, home, capsys):
    told = shown("docs/mlflow.md", "compare-runs")
    assert main(["create", str(ROOT / "campaigns" / "heat-gp.yaml"), "--home", str(home)]) == 0
    created = capsys.readouterr().out.strip().replace("heat-gp", "heat")
    assert f"fieldcraft create campaigns/heat.yaml               # {created}\n" in text_of("docs/operations.md")
    assert main(["compare-runs", "heat", "heat-gp", "--home", str(home)]) == 0
    said = capsys.readouterr().out
    rows, differences = _parts(told)
    now, differ = _parts(said)
    assert [row for row in rows if not row.startswith("best after")] == now, "heat-gp has no result here"
    fewer = ("budget.trials", "algorithm.start.n")
    assert differences == [line for line in differ if not line.strip().startswith(fewer)]
    best = re.search(r"^best result +(\S+) K +(\S+) K$", told, re.MULTILINE)
    shown_there = [row["best result"] for row in table("docs/heat.md", "file | surrogate")]
    assert best and [f"{float(value):.1f} K" for value in best.groups()] == [shown_there[0], shown_there[2]]


def _parts(text: str) -> tuple[list[str], list[str]]:
    """Names of the rows, and the differences."""
    above, _, below = text.partition("differences\n")
    return [re.split(r"  +", line)[0] for line in above.splitlines()[1:]], below.splitlines()


def test_the_next_commands_that_the_sample_names_work(printed, home, tmp_path, capsys):
    picture = tmp_path / "heat.png"
    assert main(["plot", "heat", str(picture), "--home", str(home)]) == 0
    assert _size(picture) == _size(ROOT / "docs" / "heat.png"), "the picture of docs/heat.md is of this form"
    best = re.search(r"fieldcraft trace (\S+)", printed)
    assert best and main(["trace", best[1], "--home", str(home)]) == 0
    assert best[1] in capsys.readouterr().out


def _size(picture: Path) -> tuple[int, int]:
    head = picture.read_bytes()[16:24]  # of a PNG
    return int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")


def test_the_page_lists_every_command_and_no_other(capsys):
    assert main(["--help"]) == 0
    known = set(re.findall(r"(?m)^    ([a-z-]+)  +", capsys.readouterr().out))
    assert {"run", "compare-runs", "doctor"} < known
    cells = [row["command"] for row in table("docs/commands.md", "command | what it does")]
    listed = {re.split(r" ", name.removeprefix("fieldcraft "))[0] for cell in cells for name in cell.split("`, `")}
    assert (sorted(listed - known), sorted(known - listed)) == ([], [])


def test_the_notice_that_is_shown_is_told_so(printed, home):
    (block,) = re.findall(r'```\n(\{"key".*?)```', text_of("docs/operations.md"), re.DOTALL)
    told = json.loads(block.replace("{...}", '{"trials": ["heat-0007", "heat-0008"]}'))
    ledger = open_ledger(home / "ledger.sqlite")
    ledger.notify("heat", told["event"], "shown", told["payload"])
    (notice,) = [notice for notice in ledger.notices() if notice.key == "shown"]
    said = message_of(ledger.campaign("heat"), notice)
    number = re.compile(r"(?<=fieldcraft-)[0-9a-f]{16}-\d+$")
    assert number.search(said["key"]) and number.search(told["key"])
    assert list(said) == list(told)
    changing = ("key", "id", "created")
    assert {k: v for k, v in said.items() if k not in changing} == {k: v for k, v in told.items() if k not in changing}
