"""The command line: wrong input changes nothing, and what a campaign left behind is shown, traced and copied whole."""

import csv
import json
import math
import os
import re
import shutil
import sqlite3
from pathlib import Path

import pytest
import xarray as xr
from small import SMALL, alter, command, contents

from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import read_campaign
from fieldcraft.flows.text import quoted
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.open_ledger import open_ledger

TRIALS = ("small-0001", "small-0002", "small-0003")

# What is wrong with a file, by what is written into it and what is said about it.
WRONG = {
    "misspelt key": (SMALL + "bacth: 2\n", "unknown key 'bacth'. Did you mean 'batch'?"),
    "misspelt nested key": (SMALL.replace("{n: 2}", "{n: 2, propser: {}}"), "Did you mean 'proposer'?"),
    "reversed bounds": (SMALL + "space: {x1: [5, -5]}\n", "space.x1: [5, -5] is reversed"),
    "NaN": (SMALL.replace("0.5", ".nan"), "noise.sd: nan is no number to work with"),
    "budget below the start": (SMALL.replace("trials: 3", "trials: 1"), "the budget must cover the start"),
    "no mapping": ("- a\n", "holds a list, not a mapping"),
    "tag": (SMALL + "batch: !!int 2\n", "carries the tag"),
    "no YAML": ("a: [\n", "is not YAML"),
    "no text": (b"\xff\xfe\x00", "is not UTF-8 text"),
    "line break in a key": (SMALL + '"bat\\nch": 2\n', "unknown key 'bat\\nch'"),
}
WRONG_KIND = {
    "unknown kind": (SMALL.replace("branin", "branim"), "No kind 'branim' in problems. Did you mean 'branin'?"),
    "misspelt option": (SMALL.replace("exact_gp}", "exact_gp, kernal: rbf}"), "Did you mean 'kernel'?"),
    "bounds outside": (SMALL + "space: {x1: [-50, 5]}\n", "space: "),
}


def write(folder: Path, content: str | bytes) -> Path:
    file = folder / "campaign.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def tables(home: Path) -> dict[str, list[object]]:
    """Every row of the ledger, by table."""
    with sqlite3.connect(f"file:{home / 'ledger.sqlite'}?mode=ro", uri=True) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f"SELECT * FROM {name} ORDER BY rowid").fetchall() for name in sorted(names)}


def reading(file: object) -> str:
    """What ``run`` says at once."""
    return f"    0.0 s  reading {file}\n"


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line that a refused command says; ``run`` has said before what it reads."""
    assert main([str(word) for word in words]) == 2
    said = capsys.readouterr()
    assert said.out == (reading(words[1]) if words and words[0] == "run" else "")
    assert said.err.startswith("fieldcraft: ")
    assert len(said.err.splitlines()) == 1
    return said.err


def told(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """What a command prints that succeeds."""
    assert main([str(word) for word in words]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


@pytest.mark.parametrize("word", ["check", "run"])
@pytest.mark.parametrize("wrong", list(WRONG))
def test_a_wrong_file_is_one_line_and_exit_code_2_and_nothing_is_made(tmp_path, capsys, word, wrong):
    content, message = WRONG[wrong]
    file = write(tmp_path, content)
    said = refused(capsys, word, file, "--home", tmp_path / "home")
    assert message in said
    assert str(file) in said
    assert [path.name for path in tmp_path.iterdir()] == ["campaign.yaml"]
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("wrong", list(WRONG_KIND))
def test_what_a_kind_refuses_is_one_line_when_checked(tmp_path, capsys, wrong):
    content, message = WRONG_KIND[wrong]
    assert message in refused(capsys, "check", write(tmp_path, content), "--home", tmp_path / "home")
    assert [path.name for path in tmp_path.iterdir()] == ["campaign.yaml"]


@pytest.mark.parametrize("wrong", list(WRONG_KIND))
def test_what_a_kind_refuses_is_one_line_when_run_and_no_store_is_made(tmp_path, wrong):
    content, message = WRONG_KIND[wrong]
    file = write(tmp_path, content)
    done = command("run", file, "--home", tmp_path / "home")
    assert (done.returncode, done.stdout) == (2, reading(file))
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["campaign.yaml"]
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", "nowhere.yaml"], "nowhere.yaml: cannot be read (No such file or directory)"),
        (["run", "."], ".: cannot be read (Is a directory)"),
        (["status"], "There is no ledger at"),
        (["iterate", "small"], "There is no ledger at"),
        (["show", "small-0001"], "There is no ledger at"),
        (["trace", "small-0001"], "There is no ledger at"),
        (["export", "small", "--csv", "x.csv"], "There is no ledger at"),
        (["predict", "small-0001", "x=1"], "There is no ledger at"),
        (["mlflow"], "FIELDCRAFT_MLFLOW is off. This serves the store of a home"),
        (["doctor"], "There is no ledger at"),
        (["notices"], "There is no ledger at"),
        (["sttaus"], "'sttaus' is no command. Did you mean 'status'? 'fieldcraft --help' lists them."),
        (["plto", "x", "y.png"], "'plto' is no command. Did you mean 'plot'?"),
        (["--home", "x", "status"], "--home stands before the command: give it after, as in"),
        (["--home=x", "status"], "--home stands before the command: give it after"),
        (["zzz" * 100], f"'{'zzz' * 25}z... is no command. 'fieldcraft --help' lists them."),
        (
            ["status", "--jsn"],
            "unrecognized arguments: --jsn. Did you mean '--json'? 'fieldcraft status --help' lists what there is.",
        ),
        (["check", "a.yaml", "b.yaml"], "unrecognized arguments: b.yaml. 'fieldcraft check --help' lists"),
        (
            ["record", "a-1", "--value", "strength", "=", "12.5"],
            "unrecognized arguments: = 12.5. Write NAME=VALUE as one word, without blanks. 'fieldcraft record",
        ),
        (["record", "a-1", "--value", "strength=", "12.5"], "unrecognized arguments: 12.5. Write NAME=VALUE as one"),
        (["record", "a-1", "--value", "strength", "=12.5"], "unrecognized arguments: =12.5. Write NAME=VALUE as one"),
        (
            ["approve", "a-1", "--attempts", "x"],
            "--attempts: 'x' is no number from 1 to 1,000: give one. 'fieldcraft ap",
        ),
        (["approve", "a-1", "--attempts", "2.5"], "'2.5' is no whole number: give one from 1 to 1,000"),
        (["token", "ana", "--role", "approvr"], "--role: 'approvr' is none of them. Did you mean 'approver'? Known:"),
        (["token", "ana", "--role", "approver", "--cost-limit", "nan"], "'nan' is no number from 0 to"),
        (["prioritise", "a-1", "1_0"], "'1_0' is no number from -1,000,000 to 1,000,000"),
        (["show"], "the following arguments are required: TRIAL"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_a_command_with_nothing_to_work_on_makes_nothing(monkeypatch, capsys, words, message):
    monkeypatch.setenv("FIELDCRAFT_HOME", "home")
    assert message in refused(capsys, *words)
    assert list(Path.cwd().iterdir()) == []


def test_a_file_that_is_missing_is_sought_under_the_name_of_a_campaign_and_among_the_ready_ones(tmp_path, capsys):
    write(tmp_path, SMALL)
    said = refused(capsys, "run", tmp_path / "campaign")
    assert f"A file is asked for, not a name. Did you mean {tmp_path / 'campaign.yaml'}?" in said
    said = refused(capsys, "check", "campaigns/heat.yaml")
    assert "'fieldcraft examples campaigns/heat.yaml > heat.yaml' writes the ready file here." in said
    for missing in ("campaigns/heet.yaml", "heat.yaml", tmp_path / "campaigns" / "heat.yaml"):
        assert "Check the path and your rights to it." in refused(capsys, "check", missing)


@pytest.mark.parametrize("words", [["check", "nowhere.yaml"], ["status"], ["sttaus"]])
def test_an_error_is_json_where_json_is_asked_for(capsys, words):
    assert main([*words, "--json"]) == 2
    said = capsys.readouterr()
    assert said.err == ""
    assert list(json.loads(said.out)) == ["error"]
    assert len(said.out.splitlines()) == 1


def test_a_plugin_directory_that_is_missing_is_an_error_of_every_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "nowhere"))
    assert f"{quoted(str(tmp_path / 'nowhere'))}, which is no directory" in refused(capsys, "status")


@pytest.mark.parametrize("path", ["~nobody-of-that-name/x", "a\0b"])
def test_a_path_that_is_none_is_an_error_that_names_its_setting(capsys, monkeypatch, path):
    assert f"--home is {path!r}, which is no path" in refused(capsys, "status", "--home", path)
    for name in ("FIELDCRAFT_HOME", "FIELDCRAFT_PEOPLE", "FIELDCRAFT_LAB", "FIELDCRAFT_PLUGINS"):
        with pytest.raises(InputError, match=f"{name} is .* which is no path"):
            settings_from({name: path})


@pytest.mark.parametrize(
    "words",
    [
        ["approve", "--batch", "small:99999999999999999999"],
        ["approve", "small-0001", "--attempts", "9" * 5000],
        ["show", "small-\ud800"],
        ["status", "\ud800"],
        ["retry", "small-\ud800"],
        ["report", "\ud800", "--html", "x.html"],
    ],
)
def test_numbers_and_texts_that_no_ledger_holds_are_one_clear_error(finished, capsys, words):
    assert refused(capsys, *words, "--home", finished / "home")


def test_a_viewer_may_not_export_to_mlflow(finished, capsys, monkeypatch):
    people = finished / "people.yaml"
    people.write_text("users: {}\n")
    people.chmod(0o600)
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(people))
    assert "may not operate" in refused(capsys, "export", "mlflow", "--home", finished / "home")
    assert told(capsys, "status", "--home", finished / "home")


def test_check_prints_all_that_a_file_says_with_every_default(tmp_path, capsys):
    file = write(tmp_path, SMALL)
    said = told(capsys, "check", file, "--home", tmp_path / "home")
    assert "kernel: matern52" in said
    assert "wall_time_s: 600.0" in said
    assert f"{file}: valid: exact_gp x log_ei x multistart, digest" in said
    data = json.loads(told(capsys, "check", file, "--home", tmp_path / "home", "--json"))
    assert data["campaign"] == "small"
    assert data["spec"]["algorithm"]["surrogate"]["kernel"] == "matern52"
    assert data["spec"]["noise"] == {"sd": 0.5, "of_sd": None, "fitted": False}
    assert f"digest {data['digest'][:12]}" in said
    assert [path.name for path in tmp_path.iterdir()] == ["campaign.yaml"]


def test_check_warns_of_a_budget_that_pays_for_no_trial_of_the_start(tmp_path, capsys):
    dear = SMALL.replace("{trials: 3}", "{trials: 3, cost: 0.5, unit: EUR}")
    said = told(capsys, "check", write(tmp_path, dear))
    warned = "warning: budget.cost is 0.5 EUR and the cheapest design of the start costs 1 EUR: none would be sent."
    assert warned in said
    enough = told(capsys, "check", write(tmp_path, dear.replace("0.5, unit", "1.0, unit")))
    assert "warning" not in enough


def test_an_unknown_campaign_or_trial_is_named_with_what_there_is(finished, capsys):
    at, before = ("--home", finished / "home"), contents(finished)
    for words in (
        ["status", "smal"],
        ["iterate", "smal"],
        ["notices", "smal"],
        ["export", "smal", "--csv", finished / "x.csv"],
    ):
        assert "No campaign 'smal' here. Did you mean 'small'? Known: small." in refused(capsys, *words, *at)
    for word in ("show", "trace"):
        said = refused(capsys, word, "small-0009", *at)
        assert "The ledger holds no trial 'small-0009'." in said
        assert "queue` lists those that wait, `fieldcraft export CAMPAIGN --csv FILE` all." in said
    assert "export needs --csv FILE or --fields DIR" in refused(capsys, "export", "small", *at)
    assert contents(finished) == before


def test_status_says_where_a_campaign_stands(finished, capsys, monkeypatch):
    assert "MLflow" not in told(capsys, "status", "--home", finished / "home"), "tracking is off"
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", f"sqlite:///{finished}/mlflow.db")
    said = told(capsys, "status", "--home", finished / "home")
    assert "small: finished (budget: 3 of 3 trials)" in said
    assert "trials   3 of 3 sent: 3 completed" in said
    assert re.search(r"time     [\d.]+ s spent", said)
    assert "next" not in said
    assert re.search(r"best result       value [\d.]+ in small-000\d\n +at x1 [-\d.]+, x2 [-\d.]+", said)
    assert re.search(r"best by the model value [\d.]+ \+- [\d.]+ in small-000\d \(model of iteration 2, of 3 re", said)
    assert "7 events not shown yet" in said
    (data,) = json.loads(told(capsys, "status", "small", "--home", finished / "home", "--json"))
    assert (data["campaign"], data["trials"], data["budget"], data["iteration"]) == ("small", 3, 3, 1)
    assert data["states"] == {"COMPLETED": 3}
    assert data["running"] is None
    values = {t.id: t.outputs["value"] for t in open_ledger(finished / "home" / "ledger.sqlite").trials("small")}
    assert data["best"]["trial"] == min(values, key=values.__getitem__)
    assert data["best"]["outputs"] == {"value": min(values.values())}


def test_show_tells_a_trial_with_its_history(finished, capsys):
    said = told(capsys, "show", "small-0003", "--home", finished / "home")
    assert "small-0003: completed, iteration 1, slot 0, attempt 1" in said
    assert re.search(r"foreseen [-\d.]+ \+- [\d.]+ by exact_gp x log_ei x multistart", said)
    moves = ["-> PROPOSED", "PROPOSED -> APPROVED", "APPROVED -> STAGED", "STAGED -> RUNNING", "RUNNING -> COMPLETED"]
    places = [said.index(move) for move in moves]
    assert places == sorted(places)
    data = json.loads(told(capsys, "show", "small-0003", "--home", finished / "home", "--json"))
    assert [event["after"] for event in data["history"]] == [move.split()[-1] for move in moves]
    assert [result["verdict"] for result in data["results"]] == ["accepted"]
    assert data["results"][0]["outputs"] == data["outputs"]
    assert data["results"][0]["details"]["noise_sd"] == 0.5
    assert [approval["digest"] for approval in data["approvals"]] == [data["digest"]]


@pytest.mark.parametrize("trial", TRIALS)
def test_the_lineage_of_every_trial_is_complete(finished, capsys, trial):
    home = finished / "home"
    said = told(capsys, "trace", trial, "--home", home)
    data = json.loads(told(capsys, "trace", trial, "--home", home, "--json"))
    ledger = open_ledger(home / "ledger.sqlite")
    campaign, stored = ledger.campaign("small"), ledger.trial(trial)
    assert data["trial"] == {
        "id": trial,
        "digest": stored.digest,
        "state": "COMPLETED",
        "design": dict(stored.design),
    }
    assert data["seed"] == {"seed": 3, "address": [stored.iteration, stored.slot]}
    assert data["code"]["specification"] == campaign.digest
    assert set(data["code"]) == {"commit", "specification", "approved"}
    assert {"physics/problems/branin.py", "flows/dispatchers/local.py"} <= set(data["code"]["approved"])
    assert data["environment"]["threads"] >= 1
    assert data["environment"]["versions"]["torch"]
    assert re.fullmatch("[0-9a-f]{64}", data["environment"]["digest"])
    assert [approval["policy"] for approval in data["approvals"]] == ["auto"]
    assert data["field"]["digest"] == stored.field.digest
    assert (Path(data["field"]["path"]) / "manifest.json").is_file()
    for word in (
        "trial",
        "acquisition",
        "model",
        "data",
        "collocation",
        "seed",
        "code",
        "environment",
        "mlflow",
        "field",
    ):
        assert re.search(f"^{word}", said, re.MULTILINE)
    if trial == "small-0003":
        assert data["acquisition"]["algorithm"] == "exact_gp x log_ei x multistart"
        assert all(math.isfinite(data["acquisition"][key]) for key in ("value", "mean", "sd"))
        first = {result.trial: result.id for result in ledger.campaign_results("small")}
        seen = {"trials": ["small-0001", "small-0002"], "results": [first["small-0001"], first["small-0002"]]}
        assert data["data"] == {"digest": stored.origin.data_digest, **seen}
        assert data["model"]["digest"] == stored.origin.model.digest
        assert data["model"]["metrics"]
        assert (Path(data["model"]["checkpoint"]["path"]) / "manifest.json").is_file()
    else:
        assert data["acquisition"]["algorithm"] == "sobol"
        assert (data["model"], data["data"], data["collocation"]) == (None, None, None)


def test_a_csv_holds_every_trial_and_its_numbers_read_back_to_the_bit(finished, capsys):
    home, file = finished / "home", finished / "out.csv"
    assert told(capsys, "export", "small", "--csv", file, "--home", home) == f"3 trials in {file}\n"
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    about = ["trial", "state", "priority", "cost", "spent", "seconds", "corrected", "feasible", "violation"]
    assert list(rows[0]) == [
        *about,
        *("design.x1", "design.x2", "ran.x1", "ran.x2", "output.value", "sd.value", "note"),
    ]
    trials = open_ledger(home / "ledger.sqlite").trials("small")
    assert [(row["trial"], row["state"]) for row in rows] == [(trial, "COMPLETED") for trial in TRIALS]
    for row, trial in zip(rows, trials, strict=True):
        assert {name: float(row[f"design.{name}"]) for name in ("x1", "x2")} == trial.design
        assert float(row["output.value"]) == trial.outputs["value"]
        assert {name: float(row[name]) for name in ("cost", "spent", "seconds")} == {
            "cost": trial.cost,
            "spent": trial.spent,
            "seconds": trial.seconds,
        }
        assert (row["priority"], row["corrected"], row["ran.x1"], row["ran.x2"]) == ("0", "", "", "")
    assert sorted(path.name for path in finished.iterdir()) == ["home", "out.csv", "small.yaml"]


def test_exported_fields_open_as_one_dataset_along_the_trials(finished, capsys):
    home, folder = finished / "home", finished / "fields.zarr"
    data = json.loads(told(capsys, "export", "small", "--fields", folder, "--home", home, "--json"))
    assert data == {"fields": 3}
    with xr.open_zarr(folder, consolidated=False) as dataset:
        assert dataset["value"].dims == ("trial",)
        assert dataset["trial"].values.tolist() == list(TRIALS)
        readings = [trial.outputs["value"] for trial in open_ledger(home / "ledger.sqlite").trials("small")]
        differences = dataset["value"].values - readings
    assert (differences != 0).all(), "a result has noise, its field has none"
    assert (abs(differences) < 5 * 0.5).all()
    before = contents(folder)
    assert f"{folder} exists" in refused(capsys, "export", "small", "--fields", folder, "--home", home)
    assert contents(folder) == before


def test_fields_are_exported_without_the_damaged_ones_which_are_named(finished, capsys):
    home, out = finished / "home", finished / "fields.zarr"
    fields = fields_at(home / "fields")
    first, second, third = (trial.field for trial in open_ledger(home / "ledger.sqlite").trials("small"))
    whole = fields.read(first)["value"].item()
    described = fields.path(second) / "field.zarr" / "value" / "zarr.json"
    described.write_bytes(described.read_bytes().replace(b"float64", b"float32"))
    shown = told(capsys, "export", "small", "--fields", out, "--home", home)
    count, left_out = shown.splitlines()
    assert count == f"2 fields in {out}"
    assert re.match(rf"Left out, small-0002: Field {second.digest} is damaged: .*\(altered\)", left_out)
    with xr.open_zarr(out, consolidated=False) as dataset:
        assert dataset["trial"].values.tolist() == ["small-0001", "small-0003"]
        assert dataset["value"].values[0] == whole
    again = json.loads(told(capsys, "export", "small", "--fields", f"{out}.2", "--home", home, "--json"))
    assert again["fields"] == 2
    assert list(again["damaged"]) == ["small-0002"]
    for ref in (first, third):
        shutil.rmtree(fields.path(ref))
    error = refused(capsys, "export", "small", "--fields", f"{out}.3", "--home", home)
    assert "All 3 fields of small are damaged, so none was exported" in error
    assert not Path(f"{out}.3").exists()
    # No field is read where the place is taken.
    assert f"{out} exists" in refused(capsys, "export", "small", "--fields", out, "--home", home)


def test_where_a_copy_cannot_be_written_nothing_is_left(finished, capsys):
    before = contents(finished)
    said = refused(capsys, "export", "small", "--csv", finished / "nowhere" / "x.csv", "--home", finished / "home")
    assert f"nowhere/x.csv: there is no folder {finished / 'nowhere'}. Make it first" in said
    assert contents(finished) == before


def test_a_table_of_a_campaign_that_is_called_mlflow_is_not_taken_for_an_export_to_it(finished, capsys):
    said = refused(capsys, "export", "mlflow", "--csv", finished / "x.csv", "--home", finished / "home")
    assert "No campaign 'mlflow' here" in said


def test_exporting_to_mlflow_says_that_tracking_is_off(finished, capsys):
    before = tables(finished / "home")
    said = refused(capsys, "export", "mlflow", "--home", finished / "home")
    assert "FIELDCRAFT_MLFLOW is 'off'" in said
    assert tables(finished / "home") == before


def test_a_finished_campaign_run_again_says_so_and_changes_nothing(finished):
    home = finished / "home"
    before, rows = contents(finished), tables(home)
    done = command("run", finished / "small.yaml", "--home", home)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Campaign 'small' had ended before; nothing was changed. It ended by budget: 3 of 3 trials" in done.stdout
    assert "fieldcraft plot small small.png" in done.stdout
    assert tables(home) == rows
    assert contents(finished) == before


def test_a_changed_file_is_refused_and_the_keys_are_named(finished):
    file, home = finished / "small.yaml", finished / "home"
    file.write_text(
        SMALL.replace("trials: 3", "trials: 4").replace("{kind: exact_gp}", "{kind: exact_gp, restarts: 3}")
    )
    before, rows = contents(finished), tables(home)
    done = command("run", file, "--home", home)
    assert (done.returncode, done.stdout) == (2, reading(file))
    assert len(done.stderr.splitlines()) == 1
    assert "(algorithm.surrogate.restarts: 2 -> 3; budget.trials: 3 -> 4)" in done.stderr
    assert done.stderr.endswith("or give the file another name to start anew.\n")
    assert tables(home) == rows
    assert contents(finished) == before


def test_a_larger_budget_is_refused_with_how_another_campaign_has_the_results_so_far(finished, capsys):
    file, home = finished / "small.yaml", finished / "home"
    file.write_text(SMALL.replace("trials: 3", "trials: 4"))
    said = refused(capsys, "create", file, "--home", home)
    assert "(budget.trials: 3 -> 4). Restore these keys to go on, or give the file another name" in said
    table = "'fieldcraft import FILE TABLE', with the table of 'fieldcraft export small --csv TABLE'."
    assert f"It then begins with the results so far by 'fieldcraft retarget small FILE', or {table}" in said
    more = write(finished, file.read_text().replace("name: small", "name: more"))
    assert "more: 3 trials of small read anew" in told(capsys, "retarget", "small", more, "--home", home)
    table_file = finished / "table.csv"
    told(capsys, "export", "small", "--csv", table_file, "--home", home)
    more.write_text(more.read_text().replace("name: more", "name: again"))
    assert "again: imported 3 trials" in told(capsys, "import", more, table_file, "--home", home)


def test_a_second_run_of_a_campaign_names_the_first(tmp_path):
    file, home = write(tmp_path, SMALL), tmp_path / "home"
    settings = settings_from({}, home=home)
    ledger = open_ledger(settings.ledger, create=True)
    created(ledger, wire(read_campaign(file), settings), file)
    lease = ledger.acquire("small")
    rows = tables(home)
    done = command("run", file, "--home", home)
    assert (done.returncode, done.stdout) == (2, reading(file))
    assert len(done.stderr.splitlines()) == 1
    assert f"pid {os.getpid()}" in done.stderr
    assert tables(home) == rows
    assert ledger.holder("small") == lease


def test_a_store_of_a_newer_schema_is_refused_by_every_command(finished, capsys):
    home = finished / "home"
    alter(home, "UPDATE store SET schema_version = 99")
    before, rows = contents(finished), tables(home)
    commands = [["status"], ["show", "small-0001"], ["trace", "small-0001"], ["doctor"], ["iterate", "small"]]
    for words in (*commands, ["export", "small", "--csv", finished / "x.csv"], ["plot", "small", finished / "x.png"]):
        assert "schema version 99; this fieldcraft knows versions up to 2" in refused(capsys, *words, "--home", home)
    done = command("run", finished / "small.yaml", "--home", home)
    assert done.returncode == 2
    assert "schema version 99" in done.stderr
    assert tables(home) == rows
    assert contents(finished) == before
