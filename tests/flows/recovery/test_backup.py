"""``backup``, ``restore`` and ``move``: a campaign goes on elsewhere as it would have here; nothing is done twice."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import warm_start
from bench import OVEN_CAMPAIGN, Bench, bench
from rig import Rig, eventually, rig
from small import SMALL, contents

from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.identity import Person
from fieldcraft.flows.recovery.backup import back_up, move
from fieldcraft.flows.recovery.doctor import examine
from fieldcraft.flows.recovery.restore import COMMIT_POINTS, restore
from fieldcraft.flows.settings import Settings, settings_from
from fieldcraft.flows.spec.campaign_file import read_campaign
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage import backups
from fieldcraft.storage.backups import Backup, BackupError
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.ledger import LeaseHeld, NoLedger, Sealed
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import TrialState

ANA = Person("ana", "operator")
INLINE = SMALL.replace("trials: 3", "trials: 5") + "dispatcher: {kind: inline}\n"


def at(home: Path) -> Settings:
    return settings_from({"FIELDCRAFT_MLFLOW": "off"}, home)


def begun(folder: Path) -> Path:
    """A home in which the campaign ``small`` was created."""
    (folder / "small.yaml").write_text(INLINE)
    settings = at(folder / "home")
    wired = wire(read_campaign(folder / "small.yaml"), settings)
    assert created(open_ledger(settings.ledger, create=True), wired, folder / "small.yaml") is None
    return settings.home


def passes(home: Path, count: int = 50) -> str | None:
    """So many passes, or those to the end; why it ended."""
    ledger = open_ledger(at(home).ledger)
    for _ in range(count):
        lease = ledger.acquire("small")
        finished = make_pass(Ref(str(home), "small", lease.model_dump())).decision.finished
        ledger.release(lease)
        if finished:
            return finished
    return None


def told(home: Path) -> list[Any]:
    """What a campaign came to: designs, outputs, origins and the models' digests, all to the bit."""
    ledger = open_ledger(at(home).ledger)
    trials = [
        (t.id, t.design, t.outputs, t.field, t.origin.model_dump(exclude={"model"})) for t in ledger.trials("small")
    ]
    return [trials, [(p.step, p.iteration, p.reference) for p in ledger.products("small")]]


def at_rest(home: Path) -> dict[str, str]:
    """What is in a home once the ledger's log has been folded into its file."""
    open_ledger(at(home).ledger).close()
    return contents(home)


def well(home: Path) -> bool:
    """Whether the doctor finds nothing but what the next pass settles: no folder of a job comes with a backup."""
    settled = re.compile(
        r"has a result that no pass has taken|is RUNNING and no process runs it\. The next pass settles"
    )
    return all(settled.search(finding.text) for finding in examine(at(home)))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    home = begun(folder)
    assert passes(home).startswith("budget")
    return told(home)


@pytest.fixture(scope="module")
def halfway(tmp_path_factory):
    """A home whose campaign has three results and one model."""
    folder = tmp_path_factory.mktemp("halfway")
    home = begun(folder)
    while not any(product.step == "train" for product in open_ledger(at(home).ledger).products("small")):
        passes(home, 1)
    assert len(open_ledger(at(home).ledger).trials("small")) < 5
    return home


@pytest.fixture
def home(halfway, tmp_path) -> Path:
    open_ledger(at(halfway).ledger).close()
    shutil.copytree(halfway, tmp_path / "home")
    return tmp_path / "home"


def died(action, point: str) -> bool:
    """Whether a child that did ``action`` was killed at a commit point, which it passed."""
    child = os.fork()
    if child == 0:
        os.environ["FIELDCRAFT_DIE_AT"] = f"{point}#1"
        try:
            action()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_a_moved_campaign_goes_on_to_the_same_designs_and_its_first_home_refuses(home, undisturbed, tmp_path, capsys):
    new, backup = tmp_path / "new", tmp_path / "moved"
    assert main(["move", str(backup), "--home", str(home), "--reason", "a larger machine"]) == 0
    assert re.search(r"moved to .*moved: the ledger as of .* fields? \(\d new\)", capsys.readouterr().out)
    before = at_rest(home)
    assert main(["iterate", "small", "--home", str(home)]) == 2
    assert f"were moved to {backup}" in capsys.readouterr().err
    assert at_rest(home) == before
    assert main(["backup", str(tmp_path / "more"), "--home", str(home)]) == 2
    assert f"was moved to {backup}, and one more copy would" in capsys.readouterr().err
    assert not (tmp_path / "more" / "manifest.json").exists()
    home.rename(tmp_path / "gone")
    assert main(["restore", str(backup), "--home", str(new)]) == 0
    assert "was not sealed" not in capsys.readouterr().out
    assert well(new)
    assert passes(new).startswith("budget")
    assert told(new) == undisturbed
    history = open_ledger(at(new).ledger).history("small")
    events = [(e.action, e.reason) for e in history if e.action in ("seal", "restore")]
    assert events == [("seal", "a larger machine"), ("restore", f"restored from {backup}")]


def test_a_plain_copy_of_the_folder_goes_on_to_the_same_designs(halfway, undisturbed, tmp_path):
    open_ledger(at(halfway).ledger).close()
    subprocess.run(["cp", "-r", str(halfway), str(tmp_path / "copied")], check=True)
    assert passes(tmp_path / "copied").startswith("budget")
    assert told(tmp_path / "copied") == undisturbed
    assert well(tmp_path / "copied")


def test_a_backup_is_added_to_and_restored_with_everything_it_mentions(home, undisturbed, tmp_path):
    backup, new = tmp_path / "backup", tmp_path / "new"
    first = back_up(at(home), backup, ANA)
    assert first.copied == len(first.manifest.fields) >= 3
    again = back_up(at(home), backup, ANA)
    assert (again.copied, again.manifest.fields) == (0, first.manifest.fields)
    passes(home, 1)
    later = back_up(at(home), backup, ANA)
    assert later.copied == len(later.manifest.fields) - len(first.manifest.fields) > 0
    assert sorted(path.name for path in backup.glob("state-*")) == [later.manifest.state]
    done = restore(at(new), backup, ANA)
    assert (done.campaigns, done.lost, done.aside) == (("small",), (), None)
    assert told(new) == told(home)
    assert well(new)
    assert passes(new).startswith("budget")
    assert told(new) == undisturbed


def test_a_home_that_has_a_ledger_is_never_restored_over(home, tmp_path):
    back_up(at(home), tmp_path / "backup", ANA)
    before = contents(home)
    with pytest.raises(InputError, match="has a ledger already, with 'small' in it"):
        restore(at(home), tmp_path / "backup", ANA)
    assert contents(home) == before


def test_what_is_no_ledger_is_told_to_be_moved_away_and_left_alone(home, tmp_path):
    back_up(at(home), tmp_path / "backup", ANA)
    other = tmp_path / "other" / "ledger.sqlite"
    other.parent.mkdir()
    other.write_text("garbage " * 600)
    with pytest.raises(InputError, match=r"stands where the ledger goes.*Move it away and restore again"):
        restore(at(tmp_path / "other"), tmp_path / "backup", ANA)
    assert other.read_text() == "garbage " * 600
    other.rename(tmp_path / "garbage")
    assert restore(at(tmp_path / "other"), tmp_path / "backup", ANA).campaigns == ("small",)


def test_a_backup_whose_manifest_is_damaged_is_made_anew_as_the_message_says(home, tmp_path):
    back_up(at(home), tmp_path / "backup", ANA)
    manifest = tmp_path / "backup" / "manifest.json"
    manifest.write_text("{")
    with pytest.raises(BackupError, match="delete this file and make the backup again: what is whole in it is kept"):
        back_up(at(home), tmp_path / "backup", ANA)
    manifest.unlink()
    assert back_up(at(home), tmp_path / "backup", ANA).copied == 0
    Backup(tmp_path / "backup").verify()


def test_a_ledger_that_holds_for_every_home_is_never_restored_over(home, tmp_path):
    back_up(at(home), tmp_path / "backup", ANA)
    settings = settings_from({"FIELDCRAFT_LEDGER": str(home / "ledger.sqlite")}, tmp_path / "new")
    with pytest.raises(InputError, match=r"that FIELDCRAFT_LEDGER names holds 'small' already.* Unset FIELDCRAFT_LEDG"):
        restore(settings, tmp_path / "backup", ANA)


@pytest.mark.parametrize("place", ["backup", "backup/new"])
def test_a_backup_is_not_restored_into_itself(home, tmp_path, place):
    back_up(at(home), tmp_path / "backup", ANA)
    before = contents(tmp_path / "backup")
    with pytest.raises(InputError, match="lies in the backup"):
        restore(at(tmp_path / place), tmp_path / "backup", ANA)
    assert contents(tmp_path / "backup") == before


@pytest.mark.parametrize("place", ["{home}/backup", "{home}"])
def test_a_backup_does_not_go_into_the_home_itself(home, place):
    with pytest.raises(InputError, match="lies in the home that it would be a copy of"):
        back_up(at(home), Path(place.format(home=home)), ANA)


def test_a_folder_of_something_else_or_of_another_ledger_is_no_place_for_a_backup(home, halfway, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(BackupError, match=r"holds 'thesis.tex', which is no part of a backup"):
        back_up(at(home), tmp_path / "other", ANA)
    (tmp_path / "x").mkdir()
    foreign = begun(tmp_path / "x")
    back_up(at(foreign), tmp_path / "backup", ANA)
    with pytest.raises(BackupError, match="is a backup of another ledger"):
        back_up(at(home), tmp_path / "backup", ANA)


def test_a_second_backup_at_once_into_one_folder_is_refused_and_leaves_the_first_alone(home, tmp_path):
    with Backup(tmp_path / "backup").writing(open_ledger(at(home).ledger).created()) as state:
        (state / "ledger.sqlite").touch()
        with pytest.raises(BackupError, match="Another backup is being written to"):
            back_up(at(home), tmp_path / "backup", ANA)
        assert (state / "ledger.sqlite").exists()


def test_only_who_may_operate_makes_copies(home, tmp_path, monkeypatch, capsys):
    people = tmp_path / "people.yaml"
    people.write_text("users: {}\n")
    people.chmod(0o600)
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(people))
    before = contents(tmp_path)
    place = str(tmp_path / "backup")
    for words in (["backup", place], ["move", place], ["restore", place], ["move", "--undo"], ["repair"]):
        assert main([*words, "--home", str(home)]) == 2
        assert "may not operate" in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_a_backup_with_one_bit_changed_or_one_byte_less_anywhere_is_refused(home, tmp_path):
    done = back_up(at(home), tmp_path / "backup", ANA)
    files = [path for path in sorted(done.folder.rglob("*")) if path.is_file() and path.name != ".lock"]
    assert {"manifest.json", "ledger.sqlite", "zarr.json"} <= {path.name for path in files}
    for file in files:
        sound = file.read_bytes()
        for torn in (sound[:-1], bytes([*sound[:-2], sound[-2] ^ 4, sound[-1]]) if len(sound) > 1 else b""):
            file.write_bytes(torn)
            with pytest.raises(BackupError, match="is damaged"):
                restore(at(tmp_path / "new"), done.folder, ANA)
            assert not (tmp_path / "new").exists()
        file.unlink()
        with pytest.raises(BackupError, match=r"is damaged|holds no finished backup"):
            restore(at(tmp_path / "new"), done.folder, ANA)
        file.write_bytes(sound)
    assert Backup(done.folder).verify() == done.manifest


def test_every_bit_of_the_manifest_counts(home, tmp_path):
    file = back_up(at(home), tmp_path / "backup", ANA).folder / "manifest.json"
    sound = file.read_bytes()
    for place in range(0, len(sound), 97):
        file.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        try:
            assert Backup(file.parent).manifest() == Backup(file.parent).verify()
            assert json.loads(file.read_text()) == json.loads(sound)  # white space
        except BackupError as error:
            assert "damaged" in str(error) or "format" in str(error)


def test_damage_in_a_backup_is_replaced_by_the_next_and_damage_in_the_home_never_reaches_it(home, tmp_path, capsys):
    done = back_up(at(home), tmp_path / "backup", ANA)
    ledger = open_ledger(at(home).ledger)
    first, second = (trial.field for trial in ledger.trials("small")[:2])
    store = fields_at(at(home).fields)
    for file in (done and Backup(done.folder).fields.path(first), store.path(second)):
        chunk = next(path for path in file.rglob("*") if path.is_file() and "c" in path.parts[-2:])
        chunk.write_bytes(bytes([chunk.read_bytes()[0] ^ 1, *chunk.read_bytes()[1:]]))
    assert back_up(at(home), done.folder, ANA).copied == 1
    assert Backup(done.folder).verify().missing == {}
    assert main(["backup", str(tmp_path / "fresh"), "--home", str(home)]) == 1
    assert re.search(r"NOT in it: Field \w+ is damaged", capsys.readouterr().out)
    assert set(Backup(tmp_path / "fresh").verify().missing) == {second.digest}
    assert main(["restore", str(tmp_path / "fresh"), "--home", str(tmp_path / "new")]) == 1
    assert re.search(r"NOT in the backup: Field \w+ is damaged", capsys.readouterr().out)
    assert {finding.kind for finding in examine(at(tmp_path / "new"))} - {"trial"} == {"field"}


BACKUP_POINTS = ("ledger.schema.after", "ledger.copy.before", "ledger.copy.after", "field.rename.before")
BACKUP_POINTS = (*BACKUP_POINTS, "field.rename.after", *backups.COMMIT_POINTS)


@pytest.mark.parametrize("point", BACKUP_POINTS)
def test_a_backup_that_was_killed_is_there_whole_or_not_at_all_and_the_next_one_mends_it(home, tmp_path, point):
    folder = tmp_path / "backup"
    for round_, found in enumerate(("nothing", "the earlier one")):
        assert died(lambda: back_up(at(home), folder, ANA), point)
        if point == "backup.manifest.after" or found != "nothing":
            Backup(folder).verify()
        else:
            with pytest.raises(BackupError, match="holds no finished backup"):
                Backup(folder).verify()
        back_up(at(home), folder, ANA)
        passes(home, 1 if round_ == 0 else 0)
    Backup(folder).verify()
    assert len(list(folder.glob("state-*"))) == 1
    assert not list(folder.glob("fields/.staging/*"))


RESTORE_POINTS = (*COMMIT_POINTS, "ledger.take_over.after", "ledger.copy.before", "ledger.copy.after")


@pytest.mark.parametrize("point", ["field.rename.before", *RESTORE_POINTS])
def test_a_restore_that_was_killed_is_finished_by_the_same_command(home, tmp_path, point):
    folder, new = tmp_path / "backup", tmp_path / "new"
    move(at(home), folder, ANA, "")
    assert died(lambda: restore(at(new), folder, ANA), point)
    if point == "ledger.copy.after":
        with pytest.raises(InputError, match="has a ledger already"):
            restore(at(new), folder, ANA)
    else:
        restore(at(new), folder, ANA)
    assert told(new) == told(home)
    assert well(new)
    assert [e.action for e in open_ledger(at(new).ledger).history("small")].count("restore") == 1


@pytest.mark.parametrize(
    "point", ["backup.manifest.after", "ledger.seal.before", "ledger.seal.after", "ledger.lease.release.before"]
)
def test_a_move_that_was_killed_is_finished_by_the_same_command(home, tmp_path, point):
    folder = tmp_path / "moved"
    assert died(lambda: move(at(home), folder, ANA, ""), point)
    assert move(at(home), folder, ANA, "").manifest.sealed
    restore(at(tmp_path / "new"), folder, ANA)
    assert well(tmp_path / "new")
    assert told(tmp_path / "new") == told(home)


def test_a_move_arrives_once_and_is_undone_only_where_it_did_not(home, tmp_path):
    folder, new = tmp_path / "moved", tmp_path / "new"
    with pytest.raises(InputError, match="was not moved, so there is nothing to undo"):
        main_undo(home, "why")
    move(at(home), folder, ANA, "")
    with pytest.raises(InputError, match=f"was moved to {folder} already"):
        move(at(home), tmp_path / "third", ANA, "")
    with pytest.raises(InputError, match="give the --reason"):
        main_undo(home, " ")
    restore(at(new), folder, ANA)
    with pytest.raises(InputError, match="two copies would do experiments twice"):
        restore(at(tmp_path / "second"), folder, ANA)
    with pytest.raises(InputError, match=f"was restored to {new} on"):
        main_undo(home, "it is slow there")
    with pytest.raises(InputError, match=f"was restored to {new} on"):
        move(at(home), folder, ANA, "")
    shutil.rmtree(new)
    (folder / "restored.json").unlink()
    with pytest.raises(Sealed, match="were moved to"):
        open_ledger(at(home).ledger).acquire("small")
    main_undo(home, "the other machine burnt")
    assert passes(home).startswith("budget")


def main_undo(home: Path, reason: str) -> None:
    from fieldcraft.flows.recovery.backup import undo_move

    undo_move(at(home), ANA, reason)


@pytest.mark.parametrize(
    ("damage", "said"), [("{", "cannot be read: Expecting"), ("{}", "not say who"), ("[]", "not say who")]
)
def test_a_damaged_record_of_who_took_a_move_over_is_one_line_with_the_way_on(home, tmp_path, damage, said):
    folder = tmp_path / "moved"
    move(at(home), folder, ANA, "")
    (folder / "restored.json").write_text(damage)
    for act in (lambda: restore(at(tmp_path / "new"), folder, ANA), lambda: main_undo(home, "why")):
        with pytest.raises(BackupError, match=rf"restored\.json .*{said}.* If nobody did, delete that file and repeat"):
            act()
    (folder / "restored.json").unlink()
    restore(at(tmp_path / "new"), folder, ANA)


def test_nothing_is_moved_while_a_process_makes_passes(home, tmp_path):
    lease = open_ledger(at(home).ledger).acquire("small")
    with pytest.raises(LeaseHeld, match="is being worked on by pid"):
        move(at(home), tmp_path / "moved", ANA, "")
    assert not (tmp_path / "moved").exists()
    open_ledger(at(home).ledger).release(lease)


@pytest.fixture(params=[False])
def working(request, tmp_path, monkeypatch) -> Rig:
    """A rig whose first simulation runs until it is let go; with the parameter True it may be done twice."""
    if request.param:
        idempotent = f"{sys.modules['rig'].SIMULATOR}    idempotent: ClassVar[bool] = True\n"
        monkeypatch.setattr(sys.modules["rig"], "SIMULATOR", idempotent)
    folder = tmp_path / "rig"
    folder.mkdir()
    made = rig(folder, budget={"trials": 1})
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(folder / "plugins"))
    made.tell("wait", "answer 2")
    made.send()
    return made


def test_nothing_is_moved_while_a_simulation_runs_and_a_result_that_is_not_taken_yet_comes_along(working, tmp_path):
    with pytest.raises(InputError, match="b-0001 still runs, and its result would be lost on the way"):
        move(working.settings, tmp_path / "moved", ANA, "")
    assert open_ledger(working.settings.ledger).sealed() is None
    working.let_go()
    eventually(lambda: working.answered(working.trial()))
    eventually(lambda: move_when_quiet(working.settings, tmp_path / "moved"))
    new = settings_from({"FIELDCRAFT_PLUGINS": str(working.folder / "plugins")}, tmp_path / "new")
    assert restore(new, tmp_path / "moved", ANA).lost == ()
    elsewhere = Rig(working.folder, wire(working.campaign.spec, new), open_ledger(new.ledger))
    assert elsewhere.finish().startswith("budget")
    assert elsewhere.trial().outputs == {"value": 1.0, "excess": -1.0}
    assert len(working.started()) == 1


def move_when_quiet(settings: Settings, folder: Path) -> bool:
    try:
        move(settings, folder, ANA, "")
    except InputError:
        return False
    return True


@pytest.mark.parametrize("working", [False, True], indirect=True)
def test_a_job_that_ran_while_the_backup_was_made_is_never_done_again_in_silence(working, tmp_path):
    back_up(working.settings, tmp_path / "backup", ANA)
    working.let_go()
    eventually(lambda: working.answered(working.trial()))
    new = settings_from({"FIELDCRAFT_PLUGINS": str(working.folder / "plugins")}, tmp_path / "new")
    assert restore(new, tmp_path / "backup", ANA).lost == ("b-0001",)
    elsewhere = Rig(working.folder, wire(working.campaign.spec, new), open_ledger(new.ledger))
    if working.campaign.idempotent:
        assert elsewhere.finish().startswith("budget")
        assert elsewhere.trial().outputs == {"value": 2.0, "excess": -1.0}
        assert len(working.started()) == 2
        return
    assert elsewhere.steps(lambda decision: decision.wait == "person").wait == "person"
    assert elsewhere.trial().state is TrialState.HELD
    assert "when the backup was made" in elsewhere.ledger.history("b", "b-0001")[-1].reason
    assert len(working.started()) == 1


def test_a_job_that_was_staged_when_the_backup_was_made_is_held_too(tmp_path, monkeypatch):
    folder = tmp_path / "rig"
    folder.mkdir()
    staged = rig(folder, budget={"trials": 1})
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(folder / "plugins"))
    restored_home = settings_from({"FIELDCRAFT_PLUGINS": str(folder / "plugins")}, tmp_path / "new")
    assert died(staged.step, "ledger.move.STAGED.after")
    assert staged.trial().state is TrialState.STAGED
    back_up(staged.settings, tmp_path / "backup", ANA)
    assert restore(restored_home, tmp_path / "backup", ANA).lost == ("b-0001",)
    elsewhere = Rig(folder, wire(staged.campaign.spec, restored_home), open_ledger(restored_home.ledger))
    elsewhere.steps(lambda decision: decision.wait == "person")
    assert elsewhere.trial().state is TrialState.HELD
    assert staged.started() == []


def test_later_jobs_of_a_home_that_is_restored_in_its_place_lend_their_names_to_no_other(working, tmp_path):
    back_up(working.settings, tmp_path / "backup", ANA)
    working.let_go()
    assert working.finish()
    for path in working.settings.home.glob("ledger.sqlite*"):
        path.unlink()
    later = working.settings.work / "b" / "b-0002-1"
    later.mkdir(parents=True)
    (later / "started.json").write_text("{}")
    done = restore(working.settings, tmp_path / "backup", ANA)
    assert done.aside is not None
    assert not later.exists()
    assert (done.aside / "b" / "b-0002-1" / "started.json").exists()


@pytest.fixture
def oven(tmp_path, monkeypatch) -> Bench:
    return bench(tmp_path, OVEN_CAMPAIGN, monkeypatch)


def test_work_orders_come_along_and_orders_given_since_stand_against_a_restore(oven, tmp_path, monkeypatch):
    oven.order()
    orders = oven.settings.home / "lab" / "oven"
    given = sorted(path.name for path in (orders / "open").iterdir())
    back_up(oven.settings, tmp_path / "backup", ANA)
    new = settings_from(os.environ, tmp_path / "new")
    assert restore(new, tmp_path / "backup", ANA).lost == ()
    assert sorted(path.name for path in (new.home / "lab" / "oven" / "open").iterdir()) == given
    assert examine(new) == []
    monkeypatch.setenv("FIELDCRAFT_LAB", str(oven.settings.home / "lab"))
    (orders / "open" / "oven-0009-1.json").write_text("{}")
    with pytest.raises(InputError, match="has had the order oven-0009-1 since this backup was made"):
        restore(settings_from(os.environ, tmp_path / "newer"), tmp_path / "backup", ANA)


def test_an_order_that_is_filed_while_the_backup_copies_takes_nothing_else_out_of_it(oven, tmp_path, monkeypatch):
    oven.order()
    orders = oven.settings.home / "lab" / "oven"
    first, *_, last = sorted((orders / "open").iterdir())
    (orders / "results" / "measured.csv").write_text("key\n")
    (orders / "done").mkdir(exist_ok=True)
    copy_file = backups.copy_file

    def filed(file: Path, target: Path) -> Any:
        if file == first:
            last.rename(orders / "done" / last.name)
        return copy_file(file, target)

    monkeypatch.setattr(backups, "copy_file", filed)
    manifest = back_up(oven.settings, tmp_path / "backup", ANA).manifest
    wanted = {f"open/{first.name}", f"done/{last.name}", "results/measured.csv", "campaign.json"}
    assert {f"lab/oven/{name}" for name in wanted} <= manifest.files.keys()


def has_campaign(home: Path) -> bool:
    try:
        return bool(open_ledger(at(home).ledger).campaigns())
    except NoLedger:
        return False


def test_backups_taken_while_a_campaign_runs_are_consistent(tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL.replace("trials: 3", "trials: 8"))
    environment = {**os.environ, "FIELDCRAFT_HOME": str(tmp_path / "home"), "EXPORT_LATER": "1"}
    running = warm_start.begun(["-m", "scenarios.driver", str(tmp_path / "small.yaml")], environment)
    taken: list[set[TrialState]] = []
    try:
        eventually(lambda: has_campaign(tmp_path / "home"))
        while running.poll() is None and len(taken) < 6:
            back_up(at(tmp_path / "home"), tmp_path / "backup", ANA)
            new = tmp_path / f"new-{len(taken)}"
            restore(at(new), tmp_path / "backup", ANA)
            trials = open_ledger(at(new).ledger).trials("small")
            assert {f.kind for f in examine(at(new))} <= {"trial"}, examine(at(new))
            taken.append({trial.state for trial in trials})
        events, errors = running.communicate(timeout=120)
        assert (events.splitlines()[-1], errors, running.returncode) == ("finished", "", 0)
    finally:
        running.kill()
    assert len(taken) > 2
    assert any(states - {TrialState.COMPLETED} for states in taken), "none was taken in the middle"
