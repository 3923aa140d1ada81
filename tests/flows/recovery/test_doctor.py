"""``fieldcraft doctor`` finds what is wrong, says what mends it, and changes nothing."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from small import alter, contents

from fieldcraft.flows.cli import main
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.wiring.context import site_of
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.ledgers.sqlite import close_idle
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.processes import boot, start_time
from fieldcraft.storage.records import Origin, Proposal, Trial, TrialState, digest_of

NOBODY = 2**30  # no process can have this number

CLUSTER = """\
from dataclasses import dataclass
from typing import ClassVar

from fieldcraft.flows.jobs.dispatcher import CannotTell, Lost, Place, Running


@dataclass(frozen=True)
class Cluster:
    place: Place
    by_people: ClassVar[bool] = False

    def look(self, handle):
        assert handle == {{"job": 7}}
        {look}
"""


def found(home: Path, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    """Kind and text of every finding; the command must have changed nothing."""
    close_idle()  # folds the log into the file now, rather than whenever a ledger of the test is collected
    before = contents(home)
    status = main(["doctor", "--json", "--home", str(home)])
    said = capsys.readouterr()
    assert said.err == ""
    assert contents(home) == before
    findings = [(finding["kind"], finding["text"]) for finding in json.loads(said.out)]
    assert status == (1 if any(kind != "waiting" for kind, _ in findings) else 0)
    return findings


def approved(home: Path, expires: float | None = None, **changes: Any) -> tuple[Ledger, Trial]:
    """A second campaign in the same ledger, with one trial that is APPROVED; ``changes`` are of its specification."""
    ledger = open_ledger(home / "ledger.sqlite")
    first = ledger.campaign("small")
    spec = {**first.spec, "name": "other", **changes}
    ledger.create_campaign("other", spec, digest_of(spec), first.environment, "test")
    origin = Origin(kind="initial", algorithm="sobol", iteration=0, slot=0)
    (trial,) = ledger.propose("other", 0, [Proposal(design={"x1": 1.0, "x2": 2.0}, origin=origin)], "test")
    return ledger, ledger.approve(trial.id, trial.expect, trial.digest, "test", "", "auto", 3, expires)


def waiting(home: Path, **changes: Any) -> tuple[Ledger, Trial]:
    """The same, with the trial STAGED."""
    ledger, trial = approved(home, **changes)
    return ledger, ledger.move(trial.id, TrialState.STAGED, trial.expect, "test", "claimed")


def a_field(home: Path, trial: str) -> Path:
    stored = open_ledger(home / "ledger.sqlite").trial(trial)
    assert stored.field is not None
    return fields_at(home / "fields").path(stored.field)


def test_a_sound_campaign_is_well(finished, capsys):
    assert found(finished / "home", capsys) == []
    assert main(["doctor", "--home", str(finished / "home")]) == 0
    assert capsys.readouterr().out == "All is well.\n"


def test_a_field_that_nobody_refers_to_is_an_orphan(finished, capsys):
    home = finished / "home"
    ref = fields_at(home / "fields").write("orphan", xr.Dataset({"a": ((), 1.0)}))
    assert found(home, capsys) == [
        ("orphan", f"field {ref.digest}: no trial or model refers to it. It does no harm and may be deleted.")
    ]


@pytest.mark.parametrize("damage", ["altered", "missing"])
def test_a_damaged_field_is_named_with_its_trial_and_its_file(finished, capsys, damage):
    home = finished / "home"
    path = a_field(home, "small-0002")
    if damage == "altered":
        file = path / "field.zarr" / "value" / "zarr.json"
        file.write_bytes(file.read_bytes().replace(b"float64", b"float32"))
    else:
        shutil.rmtree(path)
    ((kind, text),) = found(home, capsys)
    assert kind == "field"
    assert re.match(r"result \d of small-0002: ", text)
    assert str(path) in text


def test_a_damaged_checkpoint_is_named_with_its_iteration(finished, capsys):
    home = finished / "home"
    model = open_ledger(home / "ledger.sqlite").product("small", 1, "train")
    (fields_at(home / "fields").path(model.reference) / "surplus").write_text("x")
    ((kind, text),) = found(home, capsys)
    assert (kind, text.partition(":")[0]) == ("field", "train 1 of small")
    assert "surplus is not in the manifest" in text


def test_what_a_dead_process_left_staged_is_found(finished, capsys):
    home = finished / "home"
    (home / "fields" / ".staging" / f"small_0001-{NOBODY}-0").mkdir(parents=True)
    text = f"small_0001-{NOBODY}-0: left by a process that died. The next pass removes it."
    assert found(home, capsys) == [("staging", text)]


def test_a_held_trial_is_named_with_its_reason(finished, capsys):
    home = finished / "home"
    ledger, trial = waiting(home)
    ledger.move(trial.id, TrialState.HELD, trial.expect, "test", "nobody knows what the laboratory did")
    text = "other-0001 is held: nobody knows what the laboratory did. 'fieldcraft queue other' says what can be done."
    assert found(home, capsys) == [("waiting", text)]


def test_a_trial_that_was_claimed_and_never_sent_is_found(finished, capsys):
    waiting(finished / "home")
    text = "other-0001 is STAGED and no process runs it. The next pass settles it."
    assert found(finished / "home", capsys) == [("trial", text)]


def test_a_running_trial_without_a_process_is_found(finished, capsys):
    home = finished / "home"
    ledger, trial = waiting(home)
    handle = {"key": "other-0001-1", "pid": NOBODY, "started": 0.0, "boot": boot()}
    ledger.move(trial.id, TrialState.RUNNING, trial.expect, "test", "submitted", handle=handle)
    text = "other-0001 is RUNNING and no process runs it. The next pass settles it."
    assert found(home, capsys) == [("trial", text)]


def test_a_running_trial_that_nobody_asked_about_within_its_lease_is_listed_as_well(finished, capsys):
    home = finished / "home"
    ledger, trial = waiting(home, dispatcher={"lease_s": 0.001})
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as child:
        handle = {"key": "other-0001-1", "pid": child.pid, "started": start_time(child.pid), "boot": boot()}
        ledger.move(trial.id, TrialState.RUNNING, trial.expect, "test", "submitted", handle=handle)
        ((kind, text),) = found(home, capsys)
        child.communicate(b"\n")
    assert kind == "waiting"
    assert text == (
        "other-0001: running, but not heard of for more than 0.001 s, and nobody makes passes. "
        "'fieldcraft iterate other' asks."
    )


def test_an_approval_that_has_expired_is_listed_and_no_damage(finished, capsys):
    home = finished / "home"
    approved(home, expires=time.time() - 1.0)
    text = "other-0001: its approval has expired. The next pass asks for another."
    assert found(home, capsys) == [("waiting", text)]


def test_an_approval_that_still_holds_is_not_listed(finished, capsys):
    approved(finished / "home", expires=time.time() + 3600.0)
    assert found(finished / "home", capsys) == []


def test_notices_that_could_not_be_told_are_listed_and_untried_ones_are_not(finished, capsys):
    home = finished / "home"
    ledger = open_ledger(home / "ledger.sqlite")
    ended = ledger.notices("small")[-1]
    assert found(home, capsys) == []
    ledger.told(ended.id, False)
    ledger.told(ended.id, False)
    text = (
        "1 notice of small could not be told (2 tries). 'fieldcraft notices small --deliver' tries again and says why."
    )
    assert found(home, capsys) == [("waiting", text)]


def test_a_trial_that_failed_while_nobody_made_passes_is_found(finished, capsys):
    home = finished / "home"
    ledger, trial = waiting(home)
    place = home / "work" / "other" / "other-0001-1"
    place.mkdir(parents=True)
    (place / "outcome.json").write_text('{"kind": "unknown", "reason": "it broke"}')
    handle = {"key": "other-0001-1", "pid": NOBODY, "started": 0.0, "boot": boot()}
    ledger.move(trial.id, TrialState.RUNNING, trial.expect, "test", "submitted", handle=handle)
    text = "other-0001 has failed and no pass has written that down. The next pass does."
    assert found(home, capsys) == [("trial", text)]


@pytest.mark.parametrize(
    ("look", "kind", "text"),
    [
        ('raise CannotTell("the cluster does not answer")', "waiting", "and its dispatcher cannot tell: the cluster"),
        ('return Lost("it is gone")', "trial", "and no process runs it. The next pass settles it."),
        ("return Running()", None, ""),
    ],
)
def test_every_kind_of_dispatcher_is_asked_what_became_of_its_trials(finished, capsys, monkeypatch, look, kind, text):
    home, plugins = finished / "home", finished / "plugins"
    (plugins / "dispatchers").mkdir(parents=True)
    (plugins / "dispatchers" / "cluster.py").write_text(CLUSTER.format(look=look))
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(plugins))
    ledger, trial = waiting(home, dispatcher={"kind": "cluster"})
    ledger.move(trial.id, TrialState.RUNNING, trial.expect, "test", "submitted", handle={"job": 7})
    findings = found(home, capsys)
    assert [found_kind for found_kind, _ in findings] == ([kind] if kind else [])
    assert all(text in said for _, said in findings)


def test_a_dispatcher_whose_file_is_gone_is_named_and_the_rest_is_still_looked_at(finished, capsys):
    home = finished / "home"
    waiting(home, dispatcher={"kind": "cluster"})
    (home / "fields" / ".staging" / f"small_0001-{NOBODY}-0").mkdir(parents=True)
    findings = found(home, capsys)
    assert [kind for kind, _ in findings] == ["kind", "staging"]
    assert findings[0][1].startswith("other cannot go on: dispatcher.kind: No kind 'cluster' in dispatchers.")


def test_a_problem_that_is_no_longer_the_one_of_the_campaign_is_named_until_the_campaign_has_ended(finished, capsys):
    home = finished / "home"
    ledger = open_ledger(home / "ledger.sqlite")
    first = ledger.campaign("small")
    (output,) = first.environment["outputs"]
    spec = {**first.spec, "name": "other"}
    ledger.create_campaign(
        "other", spec, digest_of(spec), {**first.environment, "outputs": [output | {"unit": "K"}]}, "t"
    )
    gone = {**first.spec, "name": "third", "problem": {"kind": "lost"}}
    ledger.create_campaign("third", gone, digest_of(gone), first.environment, "t")
    kinds, texts = zip(*found(home, capsys), strict=True)
    assert kinds == ("kind", "kind")
    assert texts[0].startswith("other cannot go on: Campaign 'other' was begun with the outputs ")
    assert texts[1].startswith("third cannot go on: problem.kind: No kind 'lost' in problems.")
    for name in ("other", "third"):
        ledger.finish(name, "given up", "t")
    assert all(kind == "waiting" for kind, _ in found(home, capsys))


def test_trials_of_a_campaign_that_is_being_worked_on_are_left_alone(finished, capsys):
    home = finished / "home"
    ledger, _ = waiting(home)
    lease = ledger.acquire("other")
    assert found(home, capsys) == []
    ledger.release(lease)
    assert len(found(home, capsys)) == 1


def test_scratch_files_of_a_trial_that_is_done_are_found(finished, capsys):
    home = finished / "home"
    place = home / "work" / "small" / "small-0001-1"
    place.mkdir(parents=True)
    assert found(home, capsys) == [("work", f"{place}: its result is stored. The next pass removes it.")]


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        (
            "UPDATE trials SET digest = 'f0' || substr(digest, 3) WHERE number = 2",
            "The design of trial small-0002 does",
        ),
        (
            'UPDATE trials SET design = \'{"x1": 1.0, "x2": 2.0}\' WHERE number = 2',
            "The design of trial small-0002 does",
        ),
        (
            "UPDATE results SET outputs = '{\"value\": 0.5}' WHERE trial = 'small-0002'",
            " of trial small-0002 does not have the digest",
        ),
        ("UPDATE campaigns SET spec = '{}'", "The specification of campaign small does not have the digest"),
        ("DELETE FROM events WHERE trial = 'small-0003' AND after = 'STAGED'", "of trial small-0003 starts from"),
    ],
)
def test_a_record_that_was_altered_is_found(finished, capsys, sql, problem):
    alter(finished / "home", sql)
    findings = found(finished / "home", capsys)
    assert {kind for kind, _ in findings} == {"ledger"}
    assert any(problem in text for _, text in findings)


@pytest.mark.parametrize("cell", ["'no JSON'", "CAST(X'7b80' AS TEXT)", "3"])
def test_a_row_that_cannot_be_read_is_named_and_all_the_rest_is_still_looked_at(finished, capsys, cell):
    home = finished / "home"
    waiting(home)
    alter(home, f"UPDATE trials SET design = {cell} WHERE id = 'small-0002'")
    alter(home, "UPDATE trials SET digest = 'f0' || substr(digest, 3) WHERE id = 'small-0003'")
    ref = fields_at(home / "fields").write("orphan", xr.Dataset({"a": ((), 1.0)}))
    (home / "fields" / ".staging" / f"small_0001-{NOBODY}-0").mkdir(parents=True)
    findings = found(home, capsys)
    assert findings[0][1].startswith("Row small-0002 of trials cannot be read: design")
    assert findings[1][1].startswith("The design of trial small-0003 does not have the digest f0")
    assert list(dict.fromkeys(kind for kind, _ in findings)) == ["ledger", "trial", "staging"]
    assert findings[-2][1].startswith("other-0001 is STAGED and no process runs it"), "in another campaign"
    assert all(ref.digest not in text for _, text in findings), "what a ledger in doubt refers to, nobody can say"


@pytest.mark.parametrize("words", [("status",), ("show", "small-0002"), ("trace", "small-0002"), ("repair",)])
def test_a_command_that_meets_a_row_that_cannot_be_read_names_it_in_one_line(finished, capsys, words):
    home = finished / "home"
    alter(home, "UPDATE trials SET origin = CAST(X'7bff' AS TEXT) WHERE id = 'small-0002'")
    alter(home, "UPDATE events SET reason = CAST(X'ff' AS TEXT) WHERE trial = 'small-0002' AND after = 'STAGED'")
    status = main([*words, "--home", str(home)])
    said = capsys.readouterr()
    assert status == (1 if words == ("repair",) else 2)
    assert "Row small-0002 of trials cannot be read: origin: Could not decode to UTF-8" in said.out + said.err
    assert "Traceback" not in said.err and (status == 1 or (said.err.count("\n"), said.out) == (1, ""))


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("UPDATE trials SET origin = replace(origin, '\"kind\"', '\"kinb\"') WHERE number = 1", ("status",)),
        ("UPDATE products SET payload = replace(payload, '\"seen\"', '\"seem\"')", ("report", "small", "--html")),
        ("UPDATE campaigns SET environment = replace(environment, '\"outputs\"', '\"outputt\"')", ("status",)),
    ],
)
def test_a_record_that_lacks_what_it_should_hold_is_an_error_of_the_ledger_and_no_traceback(
    finished, capsys, sql, words
):
    alter(finished / "home", sql)
    page = [str(finished / "page.html")] if words[-1] == "--html" else []
    assert main([*words, *page, "--home", str(finished / "home")]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and re.search("ledger.sqlite (does not hold what it should|was altered)", said.err)
    assert main(["doctor", "--home", str(finished / "home")]) == 1


def test_everything_wrong_is_said_at_once_with_one_line_each(finished, capsys):
    home = finished / "home"
    fields_at(home / "fields").write("orphan", xr.Dataset({"a": ((), 1.0)}))
    waiting(home)
    (home / "fields" / ".staging" / f"small_0001-{NOBODY}-0").mkdir(parents=True)
    assert main(["doctor", "--home", str(home)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["trial", "staging", "orphan"]


def test_a_ledger_of_an_older_schema_is_left_as_it_is(tmp_path, capsys):
    shutil.copy(Path(__file__).parents[2] / "storage" / "assets" / "ledger-v1.sqlite", tmp_path / "ledger.sqlite")
    before = contents(tmp_path)
    assert main(["doctor", "--home", str(tmp_path)]) == 2
    assert "has schema version 1" in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_a_corrupted_page_of_the_ledger_is_found(finished, capsys):
    home = finished / "home"
    close_idle()
    ledger = home / "ledger.sqlite"
    content = bytearray(ledger.read_bytes())
    for page in range(1, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    ledger.write_bytes(content)
    assert main(["doctor", "--home", str(home)]) != 0
    said = capsys.readouterr()
    assert "ledger.sqlite is not a ledger, or is damaged" in said.out + said.err
    assert "restore it from a copy" in said.out + said.err


def test_the_next_pass_removes_what_doctor_says_it_removes(finished, capsys):
    from fieldcraft.flows.steps.harvest import harvest

    home = finished / "home"
    (home / "fields" / ".staging" / f"small_0001-{NOBODY}-0").mkdir(parents=True)
    (home / "work" / "small" / "small-0001-1").mkdir(parents=True)
    assert len(found(home, capsys)) == 2
    lease = open_ledger(settings_from({}, home=home).ledger).acquire("small")
    assert harvest(site_of(str(home), "small", lease.model_dump())) == 0
    open_ledger(settings_from({}, home=home).ledger).release(lease)
    assert found(home, capsys) == []
