"""The command itself, with its Prefect server, its simulations and its exporter as real processes."""

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import httpx
import psutil
import pytest
import warm_start
from clock import Clock
from prefect_site import until

from fieldcraft.flows.recovery.doctor import examine
from fieldcraft.flows.settings import settings_from
from fieldcraft.storage.ledger import LeaseHeld, Ledger
from fieldcraft.storage.ledgers.sqlite import close_idle
from fieldcraft.storage.open_ledger import open_ledger

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLATE = HERE / "plate.yaml"


def command(home: Path, *words: str, **environment: str) -> subprocess.Popen | warm_start.Command:
    """A command; it has a Prefect server of its own unless the environment names one."""
    names = ("PREFECT_API_URL", "PREFECT_HOME", "FIELDCRAFT_DIE_AT")
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    ours = {**inherited, "PYTHONPATH": str(ROOT), **environment}
    return warm_start.begun(["-m", "fieldcraft.flows.cli", *words, "--home", str(home)], ours)


def finish(process: subprocess.Popen | warm_start.Command) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=180)
    return process.returncode, out, err


def _served(home: Path) -> bool:
    """Whether a Prefect server of this home still lives."""
    for process in psutil.process_iter(["cmdline"]):
        with suppress(psutil.Error):
            if "fieldcraft.flows.machinery.prefect_server" in (process.info["cmdline"] or ()) and str(home) in str(
                process.environ()
            ):
                return True
    return False


def designs(home: Path) -> list:
    trials = open_ledger(home / "ledger.sqlite").trials("plate")
    return [(trial.design, trial.outputs, trial.field) for trial in trials]


def checksums(home: Path) -> str:
    """Checksums of the stores, taken by another process: to close a ledger's file here would drop SQLite's locks."""
    close_idle()  # else the log might be folded in, and be gone, as it is read
    files = sorted(str(path) for path in home.rglob("*") if path.is_file() and "prefect" not in path.parts)
    return subprocess.run(["cksum", *files], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """An uninterrupted run, every process of it watched: its home, what it printed, and where it wanted to connect."""
    folder = tmp_path_factory.mktemp("plate")
    log = folder / "connections"
    watching = {"PYTHONPATH": f"{HERE / 'watch'}{os.pathsep}{ROOT}", "WATCHED": str(log)}
    run = [sys.executable, "-m", "fieldcraft.flows.cli", "run", str(PLATE), "--profile", "--home", str(folder / "home")]
    done = subprocess.run(run, env={**os.environ, **watching}, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return folder / "home", done.stdout, log


def test_a_run_prints_its_steps_and_ends_with_best_regret_places_and_next_commands(watched):
    home, out, _ = watched
    for step in ("acquire", "dispatch", "harvest", "train"):
        assert step in out
    assert "budget: 4 of 4 trials" in out
    for word in ("best by the model temperature", "best result       temperature", "regret", f"ledger    {home}"):
        assert word in out
    assert "fieldcraft plot plate" in out and "fieldcraft trace" in out


def test_where_the_time_of_a_run_went_adds_up_to_all_of_it(watched):
    _, out, _ = watched
    total, _, *lines = out[re.search(r"^[0-9.]+ s, 4 trials settled$", out, re.MULTILINE).start() :].splitlines()
    rows = {line[:15].strip(): line[15:].split() for line in lines}
    steps = ["harvest", "dispatch", "decide", "collocate", "train", "acquire", "approve"]
    assert list(rows) == [*steps, "notices", "waiting", "export", "prefect", "start and end"]
    assert sum(float(seconds) for _, seconds, _, _ in rows.values()) == pytest.approx(float(total.split()[0]), abs=0.06)
    assert int(rows["train"][0]) == 3 and int(rows["harvest"][0]) == int(rows["notices"][0]) >= 4
    assert int(rows["prefect"][0]) == 2, "its start, and one flow of all passes"
    assert float(rows["prefect"][2]) == pytest.approx(float(rows["prefect"][1]) / 4, abs=1e-3)


def test_no_process_of_a_run_asks_for_an_address_off_this_machine(watched):
    _, _, log = watched
    assert not log.exists() or log.read_text() == ""


def test_the_watch_would_have_seen_a_connection(tmp_path):
    ask = "import socket\ntry: socket.getaddrinfo('fieldcraft.invalid', 80)\nexcept OSError: pass"
    environment = {**os.environ, "PYTHONPATH": str(HERE / "watch"), "WATCHED": str(tmp_path / "log")}
    subprocess.run([sys.executable, "-c", ask], env=environment, check=True)
    assert "socket.getaddrinfo fieldcraft.invalid" in (tmp_path / "log").read_text()


def test_prefect_shows_a_run_with_all_its_steps(watched):
    home, _, _ = watched
    with sqlite3.connect(home / "prefect" / "server" / "prefect.db") as connection:
        flows = connection.execute("SELECT name, state_type FROM flow_run").fetchall()
        steps = {name.rpartition("-")[0] for (name,) in connection.execute("SELECT name FROM task_run")}
    assert flows == [("plate", "COMPLETED")]
    assert steps == {"harvest", "dispatch", "decide", "collocate", "train", "acquire", "approve"}


def test_mlflow_has_the_campaigns_run_and_below_it_those_of_its_trials_and_surrogates(watched):
    from mlflow.tracking import MlflowClient

    home, _, _ = watched
    client = MlflowClient(f"sqlite:///{home / 'mlflow' / 'mlflow.db'}")
    runs = client.search_runs([e.experiment_id for e in client.search_experiments() if e.name == "plate"])
    kinds = sorted(run.data.tags["fieldcraft.kind"] for run in runs)
    assert kinds == ["campaign", *["surrogate"] * 3, *["trial"] * 4]
    (campaign,) = (run for run in runs if run.data.tags["fieldcraft.kind"] == "campaign")
    assert "mlflow.parentRunId" not in campaign.data.tags
    assert {run.data.tags["mlflow.parentRunId"] for run in runs if run != campaign} == {campaign.info.run_id}
    surrogates = [run for run in runs if run.data.tags["fieldcraft.kind"] == "surrogate"]
    assert sum("held_out_error" in run.data.metrics for run in surrogates) == 2, "the last one proposed nothing"
    for run in surrogates:
        assert {file.path for file in client.list_artifacts(run.info.run_id)} == {"checkpoint.npz", "collocation.npz"}


def test_a_server_killed_as_it_starts_a_run_that_is_stopped_and_a_clock_set_back_change_nothing(
    watched, prefect_api, tmp_path
):
    reference, _, _ = watched
    home, clock = tmp_path / "home", Clock(tmp_path / "clock").set("+0")
    process = command(home, "run", str(PLATE))
    until(lambda: served(process), "its server to be started")
    served(process)[0].kill()
    code, out, err = finish(process)
    assert (code, out, err.count("\n")) == (2, f"    0.0 s  reading {PLATE}\n", 1), (out, err)
    assert re.match("fieldcraft: The local Prefect server was killed by SIGKILL before it .*Nothing is lost", err)
    stopped = command(home, "run", str(PLATE), **prefect_api)
    while "harvest" not in stopped.stdout.readline():
        assert stopped.poll() is None, stopped.stderr.read()
    ledger = stop(stopped, home)
    before = [event.created for event in ledger.history("plate")]
    code, _, err = finish(command(home, "run", str(PLATE), "--break-lease", **clock.set("-1h").environment))
    assert code == 0, err
    stopped.send_signal(signal.SIGCONT)
    code, _, err = finish(stopped)
    lost = err.count("\n") == 1 and "This process no longer holds the lease on 'plate'" in err
    assert (code == 2 and lost) or (code, err) == (0, ""), "stopped between two passes, it finds the campaign ended"
    after = [event.created for event in ledger.history("plate")][len(before) :]
    assert max(after) < min(before), "all that the second run did was done an hour before the first"
    assert designs(home) == designs(reference)
    assert all(0.0 < trial.seconds < 3000.0 for trial in ledger.trials("plate"))
    assert all(len(ledger.results(trial.id)) == 1 for trial in ledger.trials("plate"))
    until(lambda: ledger.pending() == (), "the exporter of the run that was stopped, which goes on by itself, to end")
    left = [finding.kind for finding in examine(settings_from({}, home))]
    assert left in ([], ["work"]), "of the training that was stopped"


def stop(process: subprocess.Popen | warm_start.Command, home: Path) -> Ledger:
    """Stop a run between two writes; it lives, so that nobody takes its campaign over unasked."""
    ledger = open_ledger(home / "ledger.sqlite")
    while True:
        process.send_signal(signal.SIGSTOP)
        until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, "it to be stopped")
        if not writes(home):
            break
        process.send_signal(signal.SIGCONT)
        time.sleep(0.02)
    with pytest.raises(LeaseHeld, match=rf"'plate' is being worked on by pid {process.pid} .*--break-lease"):
        ledger.acquire("plate")
    return ledger


def writes(home: Path) -> bool:
    """Whether it was stopped amid a write, for which every other would wait."""
    with closing(sqlite3.connect(home / "ledger.sqlite", timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        connection.execute("ROLLBACK")
        return False


def served(process: subprocess.Popen) -> list[psutil.Process]:
    """The Prefect server that a command has started."""
    found = []
    for child in psutil.Process(process.pid).children():
        with suppress(psutil.Error):
            if "fieldcraft.flows.machinery.prefect_server" in child.cmdline():
                found.append(child)
    return found


def test_a_run_killed_at_three_commit_points_in_turn_is_resumed_to_the_same_designs(watched, prefect_api, tmp_path):
    reference, _, _ = watched
    home, own = tmp_path / "home", dict[str, str]()
    # The second process passes its second RUNNING where it sends the campaign's fourth trial.
    points = {
        "ledger.note.train.after#1": own,
        "ledger.move.RUNNING.before#2": prefect_api,
        "field.rename.before#1": prefect_api,
    }
    for point, server in points.items():
        code, _, err = finish(command(home, "run", str(PLATE), FIELDCRAFT_DIE_AT=point, **server))
        assert code == -signal.SIGKILL, err
    until(lambda: not _served(home), "the killed run's server to end")
    shutil.rmtree(home / "prefect")
    code, _, err = finish(command(home, "run", str(PLATE)))
    assert code == 0, err
    assert designs(home) == designs(reference)
    assert examine(settings_from({}, home)) == []
    assert open_ledger(home / "ledger.sqlite").pending() == ()


def test_prefect_says_that_the_run_of_a_killed_process_crashed_once_its_campaign_goes_on(prefect_api, tmp_path):
    def run(**environment):
        """The flow run of a run, and how the process ended."""
        before = flow_runs(prefect_api)
        code, _, _ = finish(command(tmp_path / "home", "run", str(PLATE), FIELDCRAFT_MLFLOW="off", **environment))
        (new,) = flow_runs(prefect_api).keys() - before.keys()
        return new, code

    dies = {"FIELDCRAFT_DIE_AT": "ledger.note.train.after#1", **prefect_api}
    elsewhere, _ = run(**dies)
    (tmp_path / "home").rename(tmp_path / "another machine's, of the same path")
    killed, code = run(**dies)
    assert code == -signal.SIGKILL
    found = flow_runs(prefect_api)
    assert found[elsewhere]["type"] == found[killed]["type"] == "RUNNING"
    last, code = run(**prefect_api)
    assert code == 0
    found = flow_runs(prefect_api)
    assert (found[killed]["type"], found[last]["type"]) == ("CRASHED", "COMPLETED")
    assert "Its process ended without a word" in found[killed]["message"]
    assert found[elsewhere]["type"] == "RUNNING", "of a campaign of the same name in another ledger"


def flow_runs(server: dict[str, str]) -> dict[str, dict[str, str]]:
    """The state of each run of the campaign that a Prefect server has, by its identity."""
    user, _, password = server["PREFECT_API_AUTH_STRING"].partition(":")
    wanted = {"flow_runs": {"name": {"any_": ["plate"]}}}
    said = httpx.post(f"{server['PREFECT_API_URL']}/flow_runs/filter", json=wanted, auth=(user, password))
    return {run["id"]: run["state"] for run in said.raise_for_status().json()}


def test_a_second_run_of_a_campaign_is_refused_and_names_the_holder_and_a_killed_run_leaves_no_server(
    prefect_api, tmp_path
):
    home = tmp_path / "home"
    first = command(home, "run", str(PLATE), FIELDCRAFT_MLFLOW="off")
    try:
        assert "reading" in first.stdout.readline() and "acquire" in first.stdout.readline()
        stop(first, home)  # the campaign might end before the second run begins
        (server,) = served(first)
        code, _, err = finish(command(home, "run", str(PLATE), FIELDCRAFT_MLFLOW="off", **prefect_api))
        assert code == 2
        assert f"pid {first.pid}" in err
        assert err.count("\n") == 1
    finally:
        first.kill()
        first.communicate()
    server.wait(timeout=20)


def test_a_finished_campaign_says_so_and_a_changed_file_is_refused_with_its_keys(watched, prefect_api, tmp_path):
    home, _, _ = watched
    before = checksums(home)
    code, out, _ = finish(command(home, "run", str(PLATE), **prefect_api))
    assert code == 0
    assert "had ended before; nothing was changed" in out
    changed = tmp_path / "plate.yaml"
    changed.write_text(PLATE.read_text().replace("trials: 4", "trials: 9").replace("seed: 5", "seed: 6"))
    code, _, err = finish(command(home, "run", str(changed), **prefect_api))
    assert code == 2
    assert "budget.trials: 4 -> 9; seed: 5 -> 6" in err
    assert checksums(home) == before


def test_mlflow_out_of_reach_is_said_once_and_an_export_catches_up(prefect_api, tmp_path):
    home = tmp_path / "home"
    with socket.socket() as closed:  # bound, never listening: every connection is refused
        closed.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{closed.getsockname()[1]}"
        code, out, err = finish(command(home, "run", str(PLATE), FIELDCRAFT_MLFLOW=away, **prefect_api))
    assert code == 0, err
    assert (out + err).count("fieldcraft export mlflow") == 1
    assert len(open_ledger(home / "ledger.sqlite").pending()) == 9
    code, out, _ = finish(command(home, "export", "mlflow", "--json"))
    assert (code, json.loads(out)) == (0, {"mlflow": 9})
    code, out, _ = finish(command(home, "export", "mlflow", "--json"))
    assert (code, json.loads(out)) == (0, {"mlflow": 0})


def test_a_prefect_api_out_of_reach_is_one_clear_error(tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/api"
        code, _, err = finish(command(tmp_path / "home", "run", str(PLATE), PREFECT_API_URL=url))
    assert code == 2
    assert f"No Prefect API answers at {url}" in err
