"""One nasty text, said wherever somebody can say something, and everything that people are then shown."""

import csv
import io
import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from bench import OVEN, OVEN_CAMPAIGN, Bench, bench
from hypothesis import example, given
from hypothesis import strategies as st

from fieldcraft.flows.campaign import _skipped, _state
from fieldcraft.flows.commands.shared import complain
from fieldcraft.flows.dispatchers._known_results import same, table_records
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.tables import table_of, unguarded, write_rows
from fieldcraft.flows.notices.deliver import message_of
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.steps.decide import Decision
from fieldcraft.flows.steps.one_pass import Passed
from fieldcraft.flows.views.display import Display
from fieldcraft.flows.views.export import export_csv
from fieldcraft.storage.records import TrialState
from fieldcraft.storage.text import one_line, printable, shown
from fieldcraft.storage.trackers.mlflow_names import about_model, about_trial, flatten, parameters, tags

MARKS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"  # of direction
UNSEEN = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u3164\U000e0041\U000e007f\U000e0100"
QUIET = f"=1+1{MARKS}{UNSEEN}\u2028\u2029z"  # what a person can hand in
NASTY = f"{QUIET}\x1b]0;owned\x07\x1b[2J\x00\x7f\x9b31m\r\t\b!"
TYPED = NASTY.replace("\x00", "")  # what a command can be given
SIGNS = "=+-@\uff1d\uff0b\uff0d\uff20"


def hidden(text: str) -> list[str]:
    """The characters of a text that do more than stand there."""
    unseen = {
        *UNSEEN,
        *map(chr, range(0xE0100, 0xE01F0)),
        *"\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\uffa0",
    }
    return [c for c in text if c != "\n" and (unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") or c in unseen)]


def words(data: Any) -> list[str]:
    """Every text in JSON data."""
    if isinstance(data, dict):
        return [text for key, value in data.items() for text in (key, *words(value))]
    return [text for item in data for text in words(item)] if isinstance(data, list) else [str(data)]


def quoted(text: str) -> str:
    """A text in YAML, every character by its number."""
    return '"' + "".join(f"\\U{ord(character):08x}" for character in text) + '"'


@pytest.fixture
def oven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A laboratory where everybody says the nasty text: campaign file, plug-in, approver, laboratory, passes."""
    problems = tmp_path / "plugins" / "problems"
    problems.mkdir(parents=True)
    levels, unit = ascii(("N2", f"Ar{NASTY}")), ascii(f"MPa{QUIET}\x1b\x9b")  # brackets end a unit in a header
    text = OVEN.replace('("N2", "Ar")', levels).replace('"MPa"', unit)
    (problems / "oven.py").write_text(text)
    said = OVEN_CAMPAIGN.replace('"Weigh the part first."', quoted(f"Weigh it.\n{NASTY}"))
    made = bench(tmp_path, said.replace("approval: batch", "approval: human"), monkeypatch)
    made.make_pass()
    first, second, third = made.ledger.trials("oven")
    for trial in (first, second):
        made.ledger.approve(trial.id, trial.expect, trial.digest, f"ana{NASTY}", NASTY, "manual", 1, code=made.code)
    made.ledger.edit(third.id, third.expect, {**third.design, "T": 1000.0}, 1.0, f"ben{NASTY}", NASTY)
    made.make_pass()
    made.drop("mine.json", json.dumps({"trial": first.id, "values": {"strength": 1, "porosity": 0}, "notes": QUIET}))
    made.drop("bad.json", json.dumps({"trial": f"{first.id}{NASTY}", "values": {"strength": 1}}))
    made.make_pass()
    held = made.ledger.trial(second.id)
    made.ledger.move(held.id, TrialState.HELD, held.expect, f"eve{NASTY}", NASTY)
    made.ledger.notify(
        "oven", "budget nearly spent", "b", {"limits": [{"of": NASTY, "used": 1, "limit": 2, "unit": "x"}]}
    )
    return made


def test_nothing_that_people_are_shown_does_more_than_stand_there(oven, tmp_path, capsys):
    name, ledger = "oven", oven.ledger
    trials, campaign = ledger.trials(name), ledger.campaign(name)
    told: dict[str, str] = {}
    commands = [
        "status",
        "queue",
        "notices",
        "doctor",
        *(f"{word} {t.id}" for t in trials for word in ("show", "trace")),
    ]
    for command in (*commands, f"compare-runs {name} {name}", f"approve oven-0009{TYPED}", f"check {tmp_path}/{TYPED}"):
        _, out, err = oven.run(*command.split(" ", 2))
        told[command] = out + err
    for command in ("status", "queue", "show oven-0001"):
        told[f"{command} --json"] = oven.run(*command.split(), "--json")[1]
    assert oven.run("report", name, "--html", tmp_path / "page.html")[0] == 0
    assert oven.run("export", name, "--csv", tmp_path / "all.csv")[0] == 0
    for file in (
        tmp_path / "page.html",
        tmp_path / "all.csv",
        *oven.orders.rglob("*.txt"),
        *oven.orders.rglob("*.csv"),
    ):
        told[str(file)] = re.sub(r"<script>.*?</script>", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert {"instructions.txt", "batch-0000.csv", "mine.json.said.txt", "bad.json.why.txt"} <= {
        Path(place).name for place in told
    }
    drawn = re.findall(r'<script type="application/json">(.*?)</script>', told[str(tmp_path / "page.html")], re.DOTALL)
    assert len(drawn) > 2
    told |= {f"picture {n}": "\n".join(words(json.loads(figure))) for n, figure in enumerate(drawn)}
    for notice in ledger.notices():
        told[f"notice {notice.id}"] = "\n".join(words(message_of(campaign, notice)))
    orders = [json.loads(file.read_text()) for file in oven.orders.glob("*/*.json")]
    told["orders"] = "\n".join(words(orders))
    show = Display(lambda: ledger, as_json=False)
    for event in ("failed", "held", "unsent", "retry", "approval void"):
        show(event, {"trial": trials[0], "reason": NASTY})
    show("exported", {"problem": NASTY})
    show("unshown", {"problem": NASTY})
    show("training elsewhere", {"iteration": 1, "what": NASTY, "state": NASTY})
    complain([NASTY], as_json=False)
    told["progress"] = "".join(capsys.readouterr())
    decision = Decision(finished=NASTY)
    for state in (_state(name, Passed(name, 1, 1, 1, 1, decision, 0)), _skipped(name, NASTY)):
        told[f"Prefect {state.name}"] = state.message or ""
    told["an error that leaves a flow"] = str(InputError(NASTY))
    logged = [tags(about_trial(trial, 0)) | tags(about_model({NASTY: NASTY}, {})[0]) for trial in trials]
    logged += [parameters(flatten(campaign.spec)), *(parameters(trial.design) for trial in trials)]
    told["MLflow"] = "\n".join(text for labels in logged for pair in labels.items() for text in pair)
    assert {place: found for place, text in told.items() if (found := hidden(text))} == {}
    assert sum(r"\u202e" in text for text in told.values()) > 20, "it was said where it was looked for"


def test_what_is_stored_stays_as_it_was(oven):
    (approval,) = oven.ledger.approvals("oven-0001")
    assert (approval.by, approval.comment) == (f"ana{NASTY}", NASTY)
    (result,) = oven.ledger.results("oven-0001")
    assert result.details["note"] == QUIET
    assert oven.ledger.campaign("oven").spec["dispatcher"]["instructions"] == f"Weigh it.\n{NASTY}"


def test_no_table_holds_a_formula_and_numbers_stay_numbers(oven, tmp_path):
    export_csv(oven.ledger, "oven", tmp_path / "all.csv")
    for file in (tmp_path / "all.csv", *oven.orders.rglob("*.csv")):
        for line in csv.reader(io.StringIO(file.read_text(encoding="utf-8"))):
            assert not any(cell.strip()[:1] in tuple(SIGNS) for cell in line if not _is_number(cell)), line
    rows = list(csv.DictReader(io.StringIO((tmp_path / "all.csv").read_text(encoding="utf-8"))))
    assert rows[0]["note"] == f"'{one_line(QUIET)}"
    assert [float(row["design.T"]) for row in rows] == [trial.design["T"] for trial in oven.ledger.trials("oven")]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_the_laboratorys_table_is_filled_in_and_read_whatever_its_texts(oven):
    assert list(oven.site.campaign.dispatcher.at_large()) == ["oven-0002-1"]
    table = oven.orders / "batch-0000.csv"
    header, line = csv.reader(io.StringIO(table.read_text(encoding="utf-8")))
    filled = [*line[:-3], "-3.5", "-0.25", "=2+3"]
    written = io.StringIO()
    csv.writer(written).writerows([header, filled])
    table.write_text(written.getvalue(), encoding="utf-8")
    oven.site.campaign.dispatcher.write_tables()
    oven.site.campaign.dispatcher.write_tables()
    assert list(csv.reader(io.StringIO(table.read_text(encoding="utf-8"))))[1] == [*filled[:-1], "'=2+3"]
    status, out, err = oven.run("record", "--csv", table)
    assert (status, hidden(out)) == (0, []), err
    assert "recorded" in out
    trial = oven.ledger.trial("oven-0002")
    assert trial.outputs == {"strength": -3.5, "porosity": -0.25}
    (result,) = oven.ledger.results(trial.id)
    assert (result.ran, result.details["note"]) == (None, "=2+3")


TEXTS = st.text(st.sampled_from([*SIGNS, *"'a1.e \t\r\n;,\"", "\u202e"]), max_size=8).map(str.strip)


@given(st.lists(TEXTS, min_size=1, max_size=4))
@example(["=1+1"])
@example(["'=1+1", "''@x", "'x", "-3.5", "'-3.5", "+1e5"])
def test_a_text_reads_back_as_it_was_written(texts):
    out = io.StringIO(newline="")
    write_rows(out, [[f"c{n}" for n in range(len(texts) + 1)], ["x", *texts]])
    (row,) = table_of(Path("t.csv"), out.getvalue().encode()).rows
    assert list(row.cells.values()) == ["x", *(text.replace("\r\n", "\n") for text in texts)]


@given(st.text(max_size=20))
@example(NASTY)
def test_what_is_shown_is_shown_once_and_plain_text_is_left_alone(text):
    assert hidden(printable(text)) == []
    assert printable(printable(text)) == printable(text)
    assert "\n" not in one_line(text)
    assert hidden("".join(words(shown({text: [text, {"a": text}]})))) == []
    if not hidden(text):
        assert printable(text) == text


@pytest.mark.parametrize("value", [-3.5, 1e-300, -7, "-3.5", "+4", "-1e-5", "a=b", "", "'quoted'", "N2"])
def test_what_is_no_formula_is_written_as_it_is(value):
    out = io.StringIO()
    write_rows(out, [[value, "x"]], end="\n")
    assert out.getvalue() == f"{value},x\n"
    assert unguarded(str(value)) == str(value)


def test_levels_that_look_like_formulas_are_exported_imported_and_replayed(tmp_path, monkeypatch):
    problems = tmp_path / "plugins" / "problems"
    problems.mkdir(parents=True)
    (problems / "oven.py").write_text(OVEN.replace('("N2", "Ar")', '("-5%", "=Ar\\u202e")'))
    one = bench(tmp_path, OVEN_CAMPAIGN, monkeypatch)
    data = tmp_path / "data.csv"
    data.write_text("T,t,gas,strength,porosity,note\n1000,10,-5%,30,-1,=1+1\n1100,20,=Ar\u202e,40,-2,x\n")
    assert one.run("import", one.file, data)[0] == 0
    out = tmp_path / "records" / "all.csv"
    out.parent.mkdir()
    assert one.run("export", "oven", "--csv", out)[0] == 0
    (tmp_path / "campaign.yaml").write_text(OVEN_CAMPAIGN.replace("name: oven", "name: again"))
    names = ("design.T=T", "design.t=t", "design.gas=gas", "output.strength=strength", "output.porosity=porosity")
    status, _, err = one.run("import", one.file, out, *(word for name in names for word in ("--map", name)))
    assert status == 0, err
    first, second = (one.ledger.trials(name) for name in ("oven", "again"))
    assert [trial.design for trial in second] == [trial.design for trial in first]
    assert second[1].design["gas"] == "=Ar\u202e"
    records = table_records(settings_from({"FIELDCRAFT_RECORDS": str(out.parent)}, tmp_path / "home"), "all.csv")
    assert all(same(record.design, trial.design) for record, trial in zip(records, first, strict=True))
