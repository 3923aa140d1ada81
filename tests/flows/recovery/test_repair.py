"""``fieldcraft repair`` shows what mends each finding, does it on a person's word alone, and writes who and why."""

import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from small import alter, command, contents

from fieldcraft.flows.cli import main
from fieldcraft.flows.identity import Person
from fieldcraft.flows.recovery import repair as repairs
from fieldcraft.flows.recovery.backup import back_up
from fieldcraft.flows.recovery.doctor import examine
from fieldcraft.flows.settings import Settings, settings_from
from fieldcraft.flows.steps.leases import trainer_held
from fieldcraft.flows.wiring.tensors import as_ever_stored
from fieldcraft.storage.field_store.content import Content
from fieldcraft.storage.fields import FieldDamaged, FieldError, FieldStore, fields_at, save_group
from fieldcraft.storage.ledger import LeaseHeld, LeaseLost, Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import FieldRef

NOBODY = 2**30  # no process can have this number
ANA = Person("ana", "operator")


def at(home: Path) -> Settings:
    return settings_from({"FIELDCRAFT_MLFLOW": "off"}, home)


@pytest.fixture
def home(finished) -> Path:
    return finished / "home"


def repair(home: Path, *words: object, status: int) -> dict[str, Any]:
    """What the command says as JSON."""
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["repair", *map(str, words), "--json", "--home", str(home)]) == status
    said: dict[str, Any] = json.loads(out.getvalue())
    return said


def recorded(home: Path) -> list[tuple[str, str, str]]:
    """Who, why and what, of every repair in the ledger."""
    history = open_ledger(at(home).ledger).history("small")
    return [(event.by, event.reason, event.details["does"]) for event in history if event.action == "repair"]


def ledger_of(home: Path) -> Ledger:
    return open_ledger(at(home).ledger)


def flip(store: FieldStore, ref: FieldRef) -> None:
    """Change one bit of a field's numbers, and no length."""
    chunk = next(path for path in store.path(ref).rglob("*") if path.is_file() and "c" in path.parts[-2:])
    chunk.write_bytes(bytes([chunk.read_bytes()[0] ^ 1, *chunk.read_bytes()[1:]]))
    with pytest.raises(FieldDamaged, match="checksum"):
        store.verify(ref)


def model(home: Path) -> FieldRef:
    found = next(p.reference for p in ledger_of(home).products("small") if p.step == "train")
    assert found is not None
    return found


def field(home: Path, trial: str = "small-0002") -> FieldRef:
    found = ledger_of(home).trial(trial).field
    assert found is not None
    return found


def orphan(home: Path) -> FieldRef:
    return fields_at(home / "fields").write("orphan", xr.Dataset({"a": ((), 1.0)}))


def litter(home: Path) -> list[Path]:
    """An orphan, a staging folder and scratch of a trial that is done."""
    places = [home / "fields" / ".staging" / f"small_0001-{NOBODY}-0", home / "work" / "small" / "small-0001-1"]
    for place in places:
        place.mkdir(parents=True)
    return [*places, fields_at(home / "fields").path(orphan(home))]


def test_a_sound_home_has_nothing_to_mend(home, capsys):
    before = contents(home)
    assert main(["repair", "--home", str(home)]) == 0
    assert capsys.readouterr().out == "There is nothing to mend.\n"
    assert contents(home) == before


def test_what_would_be_done_is_shown_with_its_reason_and_risk_and_nothing_is(home, capsys):
    places = litter(home)
    ledger_of(home).close()
    before = contents(home)
    assert main(["repair", "--home", str(home)]) == 1
    said = capsys.readouterr().out
    for place in places:
        assert re.search(rf"\d@[0-9a-f]{{6}}  .*\n    will: delete {re.escape(str(place))}\n    risk: \w+", said)
    assert said.endswith("Nothing was done yet: --yes --reason WHY does it all, --do N@MARK --reason WHY one of it.\n")
    ledger_of(home).close()
    assert contents(home) == before


def test_litter_is_deleted_on_a_persons_word_and_who_and_why_are_kept(home):
    places = litter(home)
    done = repair(home, "--yes", "--reason", "the disk is full", status=0)
    assert [action["done"] for action in done["actions"]] == [True] * 3
    assert not any(place.exists() for place in places)
    assert examine(at(home)) == []
    me = ledger_of(home).history("small")[-1].by
    assert sorted(recorded(home)) == sorted((me, "the disk is full", f"delete {place}") for place in places)


def test_one_action_is_done_by_its_number_and_only_where_it_is_still_the_one_that_was_shown(home, capsys):
    litter(home)
    shown = repair(home, status=1)["actions"]
    first, second = shown[:2]
    assert main(["repair", "--do", f"1@{second['mark']}", "--reason", "x", "--home", str(home)]) == 2
    assert f"There is no action 1@{second['mark']}" in capsys.readouterr().err
    for wrong in ("0", "9", "first"):
        assert main(["repair", "--do", wrong, "--reason", "x", "--home", str(home)]) == 2
        assert f"There is no action {wrong}" in capsys.readouterr().err
    assert main(["repair", "--do", "1", "--home", str(home)]) == 2
    assert "give the --reason" in capsys.readouterr().err
    assert recorded(home) == []
    done = repair(home, "--do", f"1@{first['mark']}", "--reason", "why not", status=1)
    assert [action["done"] for action in done["actions"]] == [True, False, False]
    assert [does for _, _, does in recorded(home)] == [first["does"]]


def test_nothing_is_mended_while_a_process_makes_passes(home, capsys):
    (home / "fields" / ".staging" / f"small_0001-{NOBODY}-0").mkdir(parents=True)
    lease = ledger_of(home).acquire("small")
    assert main(["repair", "--yes", "--reason", "now", "--home", str(home)]) == 2
    assert "is being worked on by pid" in capsys.readouterr().err
    ledger_of(home).release(lease)
    assert recorded(home) == []
    assert len(repair(home, "--yes", "--reason", "now", status=0)["actions"]) == 1


def test_nothing_is_mended_while_a_process_trains_a_model(home):
    kept = fields_at(home / "fields").path(orphan(home))
    found = repairs.plan(at(home))
    with trainer_held(ledger_of(home), "small"), pytest.raises(LeaseHeld, match="model of 'small' is being worked on"):
        list(repairs.carry_out(at(home), found.actions, ANA, "to see"))
    assert kept.exists()
    assert recorded(home) == []


def test_an_action_that_the_disk_refuses_is_recorded_as_such(home):
    gone = fields_at(home / "fields").path(orphan(home))
    found = repairs.plan(at(home))
    shutil.rmtree(gone)
    with pytest.raises(FieldError, match="disk refused"):
        list(repairs.carry_out(at(home), found.actions, ANA, "to see"))
    assert [reason.partition(":")[0] for _, reason, _ in recorded(home)] == ["to see", "not mended"]


def test_a_damaged_model_is_trained_again_to_the_digest_that_the_ledger_recorded(home):
    store, ref = fields_at(home / "fields"), model(home)
    flip(store, ref)
    (action,) = repair(home, "--yes", "--reason", "a bad block", status=0)["actions"]
    assert action["does"] == "train the model of iteration 1 of small again"
    store.verify(ref)
    assert examine(at(home)) == []


def recorded_otherwise(home: Path, digest: str) -> None:
    """Let the ledger say, wherever it does, that the model which proposed nothing had another content."""
    last = max(product.iteration for product in ledger_of(home).products("small"))
    product = ledger_of(home).product("small", last, "train")
    altered = product.model_copy(update={"reference": FieldRef(digest=digest, size=product.reference.size)})
    of_last = f"json_extract({{0}}, '$.iteration') = {last}"
    for statement in (
        f"UPDATE products SET reference = json_set(reference, '$.digest', '{digest}') WHERE iteration = {last}"
        " AND step = 'train'",
        f"UPDATE events SET details = json_set(details, '$.digest', '{altered.digest}') WHERE action = 'note'"
        f" AND json_extract(details, '$.step') = 'train' AND {of_last.format('details')}",
        f"UPDATE outbox SET payload = json_set(payload, '$.reference.digest', '{digest}') WHERE kind = 'surrogate'"
        f" AND {of_last.format('payload')}",
    ):
        alter(home, statement)


def test_a_model_of_an_earlier_version_is_trained_again_to_the_digest_that_the_ledger_recorded(home):
    store = fields_at(home / "fields")
    last = max(product.iteration for product in ledger_of(home).products("small"))
    product = ledger_of(home).product("small", last, "train")
    *_, earlier = as_ever_stored(store.read(product.reference))
    ref = FieldRef(digest=Content.of(earlier).digest, size=product.reference.size)
    recorded_otherwise(home, ref.digest)
    shown = repair(home, status=1)["actions"]
    number = next(action["number"] for action in shown if action["kind"] == "field")
    # The model as it is stored now is left, which nothing refers to.
    assert main(["repair", "--do", str(number), "--reason", "a bad block", "--home", str(home)]) == 1
    store.verify(ref)


def test_a_model_that_comes_out_otherwise_is_not_stored_and_the_attempt_is_recorded(home, capsys):
    recorded_then, before = "f" * 64, contents(home / "fields")
    recorded_otherwise(home, recorded_then)
    shown = repair(home, status=1)["actions"]
    number = next(action["number"] for action in shown if action["kind"] == "field")
    assert main(["repair", "--do", str(number), "--reason", "a bad block", "--home", str(home)]) == 2
    said = capsys.readouterr().err
    assert re.search(rf"came out as [0-9a-f]{{64}} here, and the ledger recorded {recorded_then}", said)
    assert contents(home / "fields") == before
    assert [reason.partition(" came out")[0] for _, reason, _ in recorded(home)] == [
        "a bad block",
        "not mended: train 2 of small",
    ]


def test_a_damaged_field_is_taken_from_a_backup_or_said_to_be_lost_with_what_stands(home, tmp_path, capsys):
    back_up(at(home), tmp_path / "backup", ANA)
    store, ref = fields_at(home / "fields"), field(home)
    flip(store, ref)
    (beyond,) = repair(home, status=1)["beyond"]
    assert beyond["lost"]
    value = ledger_of(home).trial("small-0002").outputs["value"]
    assert f"the field of small-0002. Its outputs stand (value {value:g})" in beyond["advice"]
    (action,) = repair(home, "--from", tmp_path / "backup", "--yes", "--reason", "a bad block", status=0)["actions"]
    assert action["does"].startswith(f"copy it from {tmp_path / 'backup' / 'fields'}")
    store.verify(ref)
    assert examine(at(home)) == []
    assert main(["repair", "--from", str(tmp_path), "--home", str(home)]) == 2
    assert "holds no finished backup" in capsys.readouterr().err


def test_a_damaged_field_whose_job_still_has_its_result_is_taken_from_there(home):
    store, ref = fields_at(home / "fields"), field(home)
    save_group(home / "work" / "small" / "small-0002-1" / "result", store.read(ref))
    shutil.rmtree(store.path(ref))
    shown = repair(home, status=1)["actions"]
    number = next(action["number"] for action in shown if action["kind"] == "field")
    repair(home, "--do", number, "--reason", "deleted by mistake", status=1)
    store.verify(ref)
    assert {finding.kind for finding in examine(at(home))} == {"work"}


def test_a_copy_that_is_damaged_itself_is_not_taken(home, tmp_path, capsys):
    done = back_up(at(home), tmp_path / "backup", ANA)
    store, ref = fields_at(home / "fields"), field(home)
    flip(fields_at(done.folder / "fields"), ref)
    flip(store, ref)
    words = ["repair", "--from", str(done.folder), "--yes", "--reason", "try", "--home", str(home)]
    assert main(words) == 2
    assert "does not have the checksum of the manifest" in capsys.readouterr().err
    assert recorded(home)[-1][1].startswith("not mended: Field")
    assert store.path(ref).exists()


def test_a_lease_of_another_machine_is_taken_by_its_own_number_alone(home):
    lease = ledger_of(home).acquire("small")
    alter(home, "UPDATE leases SET host = 'gone' WHERE campaign = 'small'")
    (finding,) = examine(at(home))
    assert finding.harmless
    assert f"is being worked on by pid {lease.pid} on host gone" in finding.text
    (action,) = repair(home, "--yes", "--reason", "it burnt", status=1)["actions"]
    assert (action["done"], action["forced"]) == (False, True)
    assert recorded(home) == []
    repair(home, "--do", 1, "--reason", "it burnt", status=0)
    assert ledger_of(home).holder("small") is None
    assert [(reason, does) for _, reason, does in recorded(home)] == [("it burnt", action["does"])]


def test_a_lease_that_changed_hands_since_it_was_shown_stays_with_its_new_holder(home):
    first = ledger_of(home).acquire("small")
    alter(home, "UPDATE leases SET host = 'gone' WHERE campaign = 'small'")
    (action,) = repairs.plan(at(home)).actions
    second = ledger_of(home).acquire("small", break_lease=True)
    with pytest.raises(LeaseLost, match=rf"token {first.token}\) is none any more: it is held by pid {second.pid} on"):
        list(repairs.carry_out(at(home), [action], ANA, "it burnt"))
    assert ledger_of(home).holder("small") == second
    assert [reason for _, reason, _ in recorded(home)][-1].startswith("not mended: The lease on 'small'")
    ledger_of(home).release(second)
    with pytest.raises(LeaseLost, match=r"it is free\. It was left so; look again"):
        action.act()


def test_what_was_shown_in_a_store_of_mlflow_that_is_gone_is_shown_again(home, monkeypatch):
    ledger = ledger_of(home)
    count = len(ledger.pending())
    for item in ledger.pending():
        ledger.exported(item.id, f"run-{item.id}")
    assert examine(at(home)) == []
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", f"sqlite:///{home}/mlflow/mlflow.db")
    gone = command("export", "mlflow", "--home", home)
    assert gone.returncode == 2 and "is not there. Was it elsewhere? Set FIELDCRAFT_MLFLOW to that." in gone.stderr
    (action,) = repair(home, "--yes", "--reason", "copied without it", status=0)["actions"]
    assert (action["kind"], action["does"]) == ("tracking", "let the next export show all of small again")
    assert len(ledger.pending()) == count > 5
    assert repair(home, status=0) == {"actions": [], "beyond": []}


@pytest.mark.parametrize(
    "damage",
    [
        lambda home: alter(home, "UPDATE trials SET design = 'no JSON' WHERE number = 2"),
        lambda home: alter(home, "UPDATE results SET outputs = '{\"value\": 0.5}' WHERE trial = 'small-0002'"),
    ],
)
def test_in_a_ledger_in_doubt_nothing_is_mended_and_the_way_back_is_said(home, tmp_path, damage):
    back_up(at(home), tmp_path / "backup", ANA)
    litter(home)
    damage(home)
    ledger_of(home).close()
    said = repair(home, "--from", tmp_path / "backup", "--yes", "--reason", "try", status=1)
    assert said["actions"] == []
    assert {beyond["lost"] for beyond in said["beyond"]} == {True, False}
    assert re.search(r"'fieldcraft restore BACKUP --home NEW' .* \(\d{4}-\d\d-\d\d ", said["beyond"][0]["advice"])


def killed(home: Path, point: str) -> bool:
    """Whether a repair that was killed at a commit point passed it."""
    child = os.fork()
    if child == 0:
        os.environ["FIELDCRAFT_DIE_AT"] = f"{point}#1"
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        main(["repair", "--yes", "--reason", "first", "--home", str(home)])
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


WHEN = ("before", "after")
DELETING = ("ledger.mend.before", "ledger.mend.after", *repairs.COMMIT_POINTS)
DAMAGE: list[tuple[str, Callable[[Path], object]]] = [
    *((point, orphan) for point in DELETING),
    *((f"field.rename.{when}", lambda home: flip(fields_at(home / "fields"), model(home))) for when in WHEN),
]


@pytest.mark.parametrize(("point", "damage"), DAMAGE)
def test_a_repair_that_was_killed_is_finished_by_the_same_command_and_nothing_was_done_unsaid(home, point, damage):
    damage(home)
    ledger_of(home).close()
    assert killed(home, point)
    begun = [reason for _, reason, _ in recorded(home)]
    assert begun == ([] if point == "ledger.mend.before" else ["first"])
    repair(home, "--yes", "--reason", "second", status=0)
    assert examine(at(home)) == []
    assert {reason for _, reason, _ in recorded(home)} <= {"first", "second"}
    assert recorded(home)
