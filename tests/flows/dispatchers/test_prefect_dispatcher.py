"""The prefect dispatcher with a real server: one flow run for each attempt, and the job's folder tells what is true."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest
from mesh import brief, runs
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Late
from remote_workers import PrefectSite, prefect_site
from rig import Rig, eventually, rig

from fieldcraft.flows import simulate
from fieldcraft.flows.dispatchers import prefect as module
from fieldcraft.flows.dispatchers.prefect import Prefect
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.jobs.dispatcher import CannotTell, Failed, Finished, Job, NotSent, Place, Running
from fieldcraft.flows.jobs.job_folder import JobFolder
from fieldcraft.flows.jobs.remote_jobs import run_job
from fieldcraft.flows.machinery.progress import listening
from fieldcraft.flows.views.display import Display
from fieldcraft.storage.records import TrialState


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectSite]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3]))
        with prefect_site(tmp_path_factory.mktemp("prefect")) as made:
            yield made


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    (tmp_path / "plugins").mkdir()
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    return rig(tmp_path, dispatcher={"kind": "prefect"}, algorithm={"start": {"n": 2}})


def prefect(at: Rig, deployment: str = "simulate/simulate") -> Prefect:
    """The dispatcher of the rig's campaign."""
    work = at.settings.work / "b"
    return Prefect(Place("b", work, 60.0, "", work), deployment)


def job(at: Rig, key: str) -> Job:
    request = {
        "problem": {"kind": "rig"},
        "simulator": {"kind": "rig", "folder": str(at.folder)},
        "design": {"x": 0.5},
        "seed": 1,
        "iteration": 0,
        "slot": 0,
    }
    return Job(key.rpartition("-")[0], key, request)


def test_a_campaign_makes_one_flow_run_of_each_attempt_over_a_killed_pass_and_a_crashed_flow_run(site, at):
    reached = {"PREFECT_API_URL": site.url, "PREFECT_API_AUTH_STRING": site.password}
    died = at.step_in_child(FIELDCRAFT_DIE_AT="ledger.move.RUNNING.before#1", **reached)
    assert died == -signal.SIGKILL
    assert at.trial().state is TrialState.STAGED
    assert at.step().sent == 1
    (asked,) = site.runs("b-0001-1")
    assert (set(asked.tags), asked.state_name) == ({"fieldcraft", "b"}, "Scheduled")
    made = site.make("b-0001-1")
    assert made.state.message.startswith("b-0001-1: Finished")
    at.step()
    assert at.trials() == [("COMPLETED", None), ("RUNNING", None)]
    site.put("b-0002-1", "CRASHED")
    at.step()
    why = [event.reason for event in at.ledger.history("b", "b-0002") if event.after is TrialState.FAILED]
    assert why == ["flow run 'b-0002-1' ended as Crashed before it began: no message"]
    site.make("b-0002-2")
    assert at.finish() == "budget: 2 of 2 trials"
    assert [trial.attempt for trial in at.ledger.trials("b")] == [1, 2]
    assert len(at.started()) == 2
    assert {run.state_name for run in site.runs("b-")} == {"Completed", "Crashed"}


def test_a_key_submitted_twice_is_one_flow_run_and_what_prefect_says_of_a_job_that_has_begun_does_not_count(site, at):
    at.tell("wait")
    dispatcher, folder = prefect(at), JobFolder(at.settings.work / "b" / "b-0003-1")
    assert dispatcher.find("b-0003-1") is None
    handle = dispatcher.submit(job(at, "b-0003-1"))
    assert dispatcher.submit(job(at, "b-0003-1")) == handle == dispatcher.find("b-0003-1")
    assert len(site.runs("b-0003-1")) == 1
    assert isinstance(dispatcher.poll(handle), Running)
    worker = Thread(target=run_job, args=(str(folder.path),))
    worker.start()
    eventually(at.started)
    site.put("b-0003-1", "CRASHED")
    assert run_job(str(folder.path)) == "b-0003-1: another process runs it"
    assert isinstance(dispatcher.poll(handle), Running)
    at.let_go()
    dispatcher.wait([handle], 60.0)
    assert isinstance(dispatcher.poll(handle), Finished)
    assert float(dispatcher.fetch(handle)["value"]) == 1.0
    worker.join()
    assert len(at.started()) == 1


def test_a_flow_run_that_is_cancelled_forgotten_or_was_left_by_a_dead_worker_never_begins(site, at, monkeypatch):
    dispatcher = prefect(at)
    cancelled = dispatcher.submit(job(at, "b-0004-1"))
    dispatcher.cancel(cancelled)
    assert site.runs("b-0004-1")[0].state_name == "Cancelled"
    assert dispatcher.poll(cancelled) == Failed("transient", "it was cancelled before it began", 0.0, 0.0)
    forgotten = dispatcher.submit(job(at, "b-0004-2"))
    site.delete("b-0004-2")
    assert dispatcher.poll(forgotten) == Failed("transient", "Prefect has no flow run of it", 0.0, 0.0)
    left = dispatcher.submit(job(at, "b-0004-3"))
    site.put("b-0004-3", "PENDING")
    assert isinstance(dispatcher.poll(left), Running)
    monkeypatch.setattr(module, "_BEGIN_S", -60.0)
    outcome = dispatcher.poll(left)
    assert isinstance(outcome, Failed) and outcome.kind == "transient"
    assert outcome.reason.startswith("flow run 'b-0004-3' has been Pending for ")
    assert site.make("b-0004-3").state.message.startswith("b-0004-3: Failed"), "a worker that comes late"
    assert at.started() == []


def test_a_flow_run_that_is_due_when_the_clock_was_before_it_was_set_back_never_begins(site, at):
    dispatcher = prefect(at)
    asked = dispatcher.submit(job(at, "b-0007-1"))
    site.put("b-0007-1", "SCHEDULED", datetime.now(UTC) + timedelta(minutes=10))
    assert isinstance(dispatcher.poll(asked), Running), "a worker takes it soon"
    site.put("b-0007-1", "SCHEDULED", due := datetime.now(UTC) + timedelta(days=365))
    told = f"flow run 'b-0007-1' is Scheduled as of {due:%Y-%m-%d %H:%M:%S} UTC, and the clock was set back since"
    assert dispatcher.poll(asked) == Failed("transient", told, 0.0, 0.0)
    site.put("b-0007-1", "SCHEDULED", datetime.now(UTC))
    assert site.make("b-0007-1").state.message.startswith("b-0007-1: Failed"), "a worker that comes when it is due"
    assert at.started() == []


def test_a_worker_that_does_not_see_the_folder_says_so(site, at):
    dispatcher = prefect(at)
    handle = dispatcher.submit(job(at, "b-0005-1"))
    (at.settings.work / "b").rename(at.folder / "away")
    assert site.make("b-0005-1").state_name == "Failed"
    with pytest.raises(CannotTell, match="its disk is away"):
        dispatcher.poll(handle)
    (at.folder / "away").rename(at.settings.work / "b")
    outcome = dispatcher.poll(handle)
    assert isinstance(outcome, Failed)
    assert "a worker must see the campaigns' work folder" in outcome.reason


def test_a_run_says_once_of_a_simulation_that_no_worker_takes_that_it_waits(site, at, capsys):
    with listening(Display(lambda: at.ledger, as_json=False)):
        at.step()
        asked = next(run for run in site.runs("b-0001-1") if run.state_name == "Scheduled")
        at.step()
        assert "waits" not in capsys.readouterr().out, "a worker may still come in time"
        with site.client() as client:
            client.set_flow_run_state(asked.id, Late(), force=True)
        at.step()
        at.step()
    said = "b-0001  waits: flow run 'b-0001-1' is late: no worker of its work pool has taken it yet"
    assert capsys.readouterr().out.count(said) == 1
    assert at.trials()[0] == ("RUNNING", None)


def test_a_worker_ends_well_where_a_pass_has_taken_the_outcome_before_it_saw_the_end(site, at):
    at.tell("wait")
    dispatcher, folder = prefect(at), JobFolder(at.settings.work / "b" / "b-0006-1")
    dispatcher.submit(job(at, "b-0006-1"))
    with ThreadPoolExecutor() as pool:
        made = pool.submit(run_job, str(folder.path))
        eventually(at.started)
        supervisor = folder.started["pid"]  # whose end the worker waits for
        os.kill(supervisor, signal.SIGSTOP)
        at.let_go()
        eventually(folder.verdict)
        dispatcher.forget("b-0006-1")
        os.kill(supervisor, signal.SIGCONT)
        assert made.result(60.0) == "b-0006-1: its folder is gone: a pass took its outcome, or the disk is away"
    assert not folder.path.exists()


def test_a_worker_says_of_a_simulation_that_was_cancelled_that_it_was_killed(site, at):
    at.tell("wait")
    dispatcher = prefect(at)
    handle = dispatcher.submit(job(at, "b-0008-1"))
    with ThreadPoolExecutor() as pool:
        made = pool.submit(run_job, str(at.settings.work / "b" / "b-0008-1"))
        eventually(at.started)
        dispatcher.cancel(handle)
        assert made.result(60.0) == "b-0008-1: its process was killed"


def test_a_server_out_of_reach_leaves_it_open_what_became_of_a_job(site, at):
    dispatcher = prefect(at)
    handle = dispatcher.submit(job(at, "b-0006-1"))
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        with pytest.raises(CannotTell, match=r"The Prefect server at http://127\.0\.0\.1:9/api does not do"):
            dispatcher.poll(handle)
        with pytest.raises(NotSent, match=r"http://127\.0\.0\.1:9/api .* nothing is lost"):
            dispatcher.submit(job(at, "b-0006-2"))
        dispatcher.cancel(handle)
    assert dispatcher.find("b-0006-2") is None
    assert isinstance(dispatcher.poll(handle), Failed)
    with pytest.raises(NotSent, match=r"has no deployment of simulations by that name\. Deploy prefect\.yaml"):
        prefect(at, "simulate/nowhere").submit(job(at, "b-0006-2"))


def test_a_campaign_file_can_name_no_deployment_but_one_of_simulations(tmp_path):
    (tmp_path / "plugins").mkdir()
    with pytest.raises(InputError, match=r"dispatcher.*no deployment of the flow 'simulate': give 'simulate/NAME'"):
        rig(tmp_path, dispatcher={"kind": "prefect", "deployment": "decide/decide"})
    assert simulate.simulate.name == "simulate"


def test_a_campaign_with_levels_has_prefect_run_what_it_runs_in_its_own_process(site, tmp_path, monkeypatch):
    at, own = brief(tmp_path, "prefect"), brief(tmp_path / "own", "inline")
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    assert own.finish() == "budget: 1 of 1 trials"
    for left in site.runs("b-"):  # the campaigns of other tests bear the same name
        site.delete(left.name)
    while not at.step().decision.finished:
        for trial in at.ledger.trials("b"):
            if trial.state is TrialState.RUNNING:
                site.make(f"{trial.id}-1")
    assert at.ledger.check() == [] and at.ledger.campaign("b").finished == own.ledger.campaign("b").finished
    assert runs(at) == runs(own)
    (level, design, coarse), (target, same, fine) = runs(at)
    assert (level, target, design) == (0, None, same) and coarse != fine
