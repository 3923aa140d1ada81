"""The dask dispatcher with a real scheduler and real workers, which die: a key runs once and its result is found."""

import os
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from mesh import SIMULATOR as MESH
from mesh import brief, runs
from remote_workers import DaskSite, dask_site, until
from rig import PROBLEM, SIMULATOR, Rig, eventually, rig

from fieldcraft.flows.dispatchers.dask import Dask
from fieldcraft.flows.errors import FieldcraftError, InputError
from fieldcraft.flows.jobs import dask_cluster, remote_jobs
from fieldcraft.flows.jobs.dask_cluster import NamedCluster, OwnCluster, Unreachable, client_of, known
from fieldcraft.flows.jobs.dispatcher import CannotTell, Failed, Finished, Job, Lost, NotSent, Place, Running
from fieldcraft.flows.jobs.job_folder import JobFolder, read_json, write_json
from fieldcraft.flows.jobs.remote_jobs import run_job
from fieldcraft.flows.settings import settings_from
from fieldcraft.storage.processes import is_alive, start_time
from fieldcraft.storage.records import TrialState


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskSite]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3]))
        folder = tmp_path_factory.mktemp("dask")
        for kind, name, text in (
            ("problems", "rig", PROBLEM),
            ("simulators", "rig", SIMULATOR),
            ("simulators", "mesh", MESH),
        ):
            (folder / "plugins" / kind).mkdir(parents=True, exist_ok=True)
            (folder / "plugins" / kind / f"{name}.py").write_text(text)
        with dask_site(folder) as made:
            yield made


@pytest.fixture
def site(running: DaskSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DaskSite:
    """The site, up again where a test before killed a part of it."""
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    monkeypatch.setenv("FIELDCRAFT_DASK", running.address)
    running.up()
    return running


def made(tmp_path: Path, **keys: object) -> Rig:
    (tmp_path / "plugins").mkdir()
    return rig(tmp_path, dispatcher={"kind": "dask"}, algorithm={"start": {"n": 2}}, **keys)


def dask(at: Rig) -> Dask:
    """The dispatcher of the rig's campaign, under the settings of the environment."""
    work = at.settings.work / "b"
    return Dask(Place("b", work, 60.0, "", work))


def job(at: Rig, key: str = "b-0001-1") -> Job:
    request = {
        "problem": {"kind": "rig"},
        "simulator": {"kind": "rig", "folder": str(at.folder)},
        "design": {"x": 0.5},
        "seed": 1,
        "iteration": 0,
        "slot": 0,
    }
    return Job("b-0001", key, request)


def kill(pid: int) -> None:
    process = psutil.Process(pid)
    process.kill()
    process.wait(10)


def test_a_campaign_goes_on_over_a_killed_scheduler_and_a_pass_that_was_killed_before_it_bound_what_it_sent(
    site, tmp_path
):
    at = made(tmp_path)
    at.tell("wait", "answer 2")
    assert at.step_in_child(FIELDCRAFT_DIE_AT="ledger.move.RUNNING.before#1") == -signal.SIGKILL
    assert at.trial().state is TrialState.STAGED
    eventually(at.started)
    site.kill("scheduler")
    site.kill("worker")
    at.step()
    assert at.trial().state is TrialState.RUNNING, "found by its folder"
    assert at.ledger.history("b", "b-0001")[-1].reason == "found again after a crash"
    at.let_go()
    eventually(lambda: at.answered(at.trial()))
    with pytest.raises(NotSent, match=r"no Dask scheduler answers at tcp://127.* nothing is lost"):
        at.step()
    assert at.trials() == [("COMPLETED", None), ("STAGED", None)]
    site.up()
    assert at.finish() == "budget: 2 of 2 trials"
    assert at.trials() == [("COMPLETED", None)] * 2
    assert [trial.attempt for trial in at.ledger.trials("b")] == [1, 1]
    assert len(at.started()) == 2


def test_a_campaign_with_levels_runs_on_workers_what_it_runs_in_its_own_process(site, tmp_path):
    at, own = brief(tmp_path, "dask"), brief(tmp_path / "own", "inline")
    assert at.finish() == own.finish() == "budget: 1 of 1 trials"
    assert runs(at) == runs(own)
    (level, design, coarse), (target, same, fine) = runs(at)
    assert (level, target, design) == (0, None, same) and coarse != fine


def test_a_job_outlives_its_killed_worker_and_the_task_that_dask_repeats_leaves_it_alone(site, tmp_path):
    at = made(tmp_path)
    at.tell("wait")
    sent = at.send()
    before = site.workers()
    for process in before:
        process.kill()
    dispatcher = dask(at)
    ticket = JobFolder(at.settings.work / "b" / "b-0001-1").request["ticket"]
    with client_of(dispatcher._cluster) as client:
        until(lambda: not known(client, ticket), "the repeated task to end beside the job")
    assert not {process.pid for process in before} & {process.pid for process in site.workers()}
    assert isinstance(dispatcher.poll(sent.handle), Running)
    at.let_go()
    dispatcher.wait([sent.handle], 60.0)
    assert isinstance(dispatcher.poll(sent.handle), Finished)
    assert len(at.started()) == 1


def test_a_job_that_died_with_its_worker_is_lost_and_what_it_left_running_is_killed(site, tmp_path):
    at = made(tmp_path)
    at.tell("wait")
    dispatcher, handle = dask(at), at.send().handle
    (simulation,) = at.started()
    born = start_time(simulation)
    supervisor = JobFolder(at.settings.work / "b" / "b-0001-1").started["pid"]
    for process in [psutil.Process(supervisor), *site.workers()]:
        process.kill()
    until(lambda: isinstance(dispatcher.look(handle), Lost), "the supervisor to be gone")
    dispatcher.wait([handle], 60.0)
    until(lambda: isinstance(dispatcher.poll(handle), Lost), "the job to be lost")
    assert not is_alive(simulation, born)
    assert len(at.started()) == 1


def test_what_the_scheduler_forgot_before_it_began_never_begins(site, tmp_path):
    at = made(tmp_path)
    dispatcher, folder = dask(at), JobFolder(at.settings.work / "b" / "b-0001-1")
    site.kill("worker")
    handle = dispatcher.submit(job(at))
    assert dispatcher.submit(job(at)) == handle == dispatcher.find("b-0001-1")
    until(lambda: dispatcher.poll(handle) == Running("Dask's scheduler has no worker"), "the scheduler to miss it")
    site.kill("scheduler")
    with pytest.raises(CannotTell, match=r"Dask.* scheduler .*answer"):
        dispatcher.poll(handle)
    with pytest.raises(NotSent, match="no Dask scheduler answers"):
        dispatcher.submit(job(at, "b-0002-1"))
    assert dispatcher.find("b-0002-1") is None
    site.up()
    forgotten = Failed("transient", "Dask does not know its task, or has given it up", 0.0, 0.0)
    assert dispatcher.look(handle) == forgotten
    assert not folder.started, "to look changes nothing"
    assert dispatcher.poll(handle) == forgotten
    assert run_job(str(folder.path)).startswith("b-0001-1: Failed"), "a worker that comes late leaves it alone"
    assert at.started() == []


def test_a_client_that_cannot_be_closed_is_replaced(site, tmp_path, monkeypatch):
    """As where Dask's own attempt to connect again ends in the same moment."""
    cluster = dask(made(tmp_path))._cluster
    with client_of(cluster) as client:
        close = client.close

    def refused(timeout):
        close(timeout=timeout)
        raise RuntimeError("Cannot change state of expiring Timeout")

    monkeypatch.setattr(client, "close", refused)
    with pytest.raises(Unreachable, match="does not answer"), client_of(cluster):
        raise TimeoutError
    with client_of(cluster) as another:
        assert another is not client and not known(another, "b-0001-1-none")


def test_a_job_is_cancelled_before_it_begins_here_and_on_another_machine(site, tmp_path):
    at = made(tmp_path)
    at.tell("wait")
    dispatcher = dask(at)
    site.kill("worker")
    waiting = dispatcher.submit(job(at))
    dispatcher.cancel(waiting)
    assert dispatcher.poll(waiting) == Failed("transient", "it was cancelled before it began", 0.0, 0.0)
    site.up()
    far = dispatcher.submit(job(at, "b-0001-2"))
    eventually(at.started)
    (simulation,) = at.started()
    born, folder = start_time(simulation), JobFolder(at.settings.work / "b" / "b-0001-2")
    write_json(folder.path / "started.json", {**folder.started, "host": "elsewhere"})
    assert isinstance(dispatcher.poll(far), Running)
    dispatcher.cancel(far)
    dispatcher.wait([far], 60.0)
    assert dispatcher.poll(far) == Lost("it was cancelled")
    eventually(lambda: not is_alive(simulation, born))
    dispatcher.cancel(far)
    dispatcher.forget("b-0001-2")
    dispatcher.cancel(far)
    assert len(at.started()) == 1


def test_a_job_of_another_machine_that_gives_no_sign_of_life_is_lost(tmp_path):
    at = made(tmp_path)
    dispatcher, folder = dask(at), JobFolder(at.settings.work / "b" / "b-0001-1")
    folder.prepare({**job(at).request, "ticket": "t"})
    assert folder.begin()
    write_json(folder.path / "started.json", {**folder.started, "host": "elsewhere"})
    assert isinstance(dispatcher.poll({"key": "b-0001-1"}), Running)
    long_ago = folder.heard - remote_jobs.SILENT_S
    os.utime(folder.path / "started.json", (long_ago, long_ago))
    pid = os.getpid()
    assert dispatcher.poll({"key": "b-0001-1"}) == Lost(f"process {pid} on elsewhere ended without a result or a word")
    folder.delete()
    with pytest.raises(CannotTell, match=r"holds no request\.json: its disk is away"):
        dispatcher.poll({"key": "b-0001-1"})
    with pytest.raises(FieldcraftError, match="a worker must see the campaigns' work folder"):
        run_job(str(folder.path))


def test_what_a_killed_supervisor_left_running_is_killed_where_the_job_is_cancelled(tmp_path, monkeypatch):
    at = made(tmp_path)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    at.tell("wait")
    folder = JobFolder(at.settings.work / "b" / "b-0001-1")
    folder.prepare({**job(at).request, "wall_time_s": 60.0, "ticket": "t"})
    child = folder.start()
    eventually(at.started)
    (simulation,) = at.started()
    born = start_time(simulation)
    os.kill(child["pid"], signal.SIGKILL)
    eventually(lambda: not is_alive(child["pid"], child["started"]))
    dask(at).cancel({"key": "b-0001-1"})
    eventually(lambda: not is_alive(simulation, born), 10.0)


def test_a_scheduler_file_that_is_only_begun_names_no_scheduler(tmp_path):
    (tmp_path / "scheduler.json").write_text('{"type": "Sched')
    for cluster in (OwnCluster(tmp_path), NamedCluster(str(tmp_path / "scheduler.json"))):
        with pytest.raises(Unreachable, match=r"no Dask cluster was started in|is no scheduler file"):
            cluster.connect()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("none.json", "there is no scheduler file .*none.json$"),
        ("10.0.0.1:8786", "there is no scheduler file .*; an address begins with tcp:// or tls://"),
        ("garbage.json", "garbage.json is no scheduler file: it tells no address"),
        ("number.json", "number.json is no scheduler file: it tells no address"),
        ("folder", "folder is no scheduler file: it tells no address"),
        ("tls://127.0.0.1:1", "tls://127.0.0.1:1 needs certificates, and Dask's configuration has none"),
    ],
)
def test_what_names_no_scheduler_is_told_with_what_is_wrong(tmp_path, address, said):
    (tmp_path / "garbage.json").write_text("garbage")
    (tmp_path / "number.json").write_text('{"address": 5}')
    (tmp_path / "folder").mkdir()
    with pytest.raises(Unreachable, match=said):
        NamedCluster(address if "://" in address else str(tmp_path / address)).connect()


def test_a_server_that_is_no_scheduler_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(dask_cluster, "_ANSWER_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match=f"at {address} .*does not speak as Dask does"):
            NamedCluster(address).connect()


def test_a_cluster_of_this_machine_outlives_the_pass_that_started_it_and_is_private(tmp_path, monkeypatch):
    at = made(tmp_path)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    cluster = OwnCluster(at.settings.work / ".dask")
    with monkeypatch.context() as earlier:
        earlier.delenv("FIELDCRAFT_PLUGINS")
        cluster.start()  # for a campaign without plug-ins
    try:
        assert at.step_in_child() == 0
        processes = read_json(cluster.folder / "cluster.json")
        assert all(is_alive(process["pid"], process["started"]) for process in processes.values())
        assert stat.S_IMODE(cluster.folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((cluster.folder / "tls.pem").stat().st_mode) == 0o600
        ports = psutil.Process(processes["scheduler"]["pid"]).net_connections("tcp")
        assert {port.laddr.ip for port in ports} == {"127.0.0.1"}
        assert at.finish() == "budget: 2 of 2 trials"
        assert read_json(cluster.folder / "cluster.json") == processes, "found again, not started again"
        assert cluster.ended() is None
        kill(processes["worker"]["pid"])
        JobFolder(at.settings.work / "b" / "b-0008-1").prepare({**job(at).request, "ticket": "t"})
        assert isinstance(dask(at).poll({"key": "b-0008-1"}), Failed)
        assert read_json(cluster.folder / "cluster.json")["worker"] != processes["worker"], "it was replaced"
    finally:
        for process in read_json(cluster.folder / "cluster.json").values():
            os.killpg(process["pid"], signal.SIGKILL)
    until(cluster.ended, "the cluster to end")
    dispatcher = dask(at)
    JobFolder(at.settings.work / "b" / "b-0009-1").prepare({**job(at).request, "ticket": "t"})
    assert dispatcher.poll({"key": "b-0009-1"}).reason == "the local Dask cluster that was to run it has ended"


@pytest.mark.parametrize("address", ["http://farm:8786", "tcp://farm", "tcp://farm:x", "tls://me:secret@farm:1"])
def test_an_address_that_is_no_schedulers_is_refused_without_quoting_a_password(address):
    with pytest.raises(InputError, match=r"FIELDCRAFT_DASK is '[^']*', which is no scheduler") as error:
        settings_from({"FIELDCRAFT_DASK": address})
    assert "secret" not in str(error.value)
    assert settings_from({"FIELDCRAFT_DASK": "tcp://farm:8786"}).dask == "tcp://farm:8786"
