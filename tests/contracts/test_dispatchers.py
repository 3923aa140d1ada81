"""The contract of ``flows.jobs.dispatcher.Dispatcher``, run over every kind there is, with real processes and real
kills.

Where a kind cannot do something by its nature, its bench declares that, and what it does instead is asserted.
"""

import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import warm_start
from dispatchers import SITES, SUPPLIERS, Bench, ended, furnish, is_as
from ledgers import in_child, killed_at

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.jobs import forks
from fieldcraft.flows.jobs.dispatcher import Failed, Finished, Lost, Ordering, Running
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.spec.registry import available
from fieldcraft.flows.steps.dispatch import dispatch
from fieldcraft.flows.steps.harvest import harvest
from fieldcraft.flows.wiring.build import wire
from fieldcraft.storage.fields import FieldDamaged
from fieldcraft.storage.processes import is_alive, start_time
from fieldcraft.storage.records import TrialState

PEOPLE = ("desk", "lab")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def _sites() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        yield
        SITES.close()


@pytest.fixture(params=sorted(SUPPLIERS))
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    for name in [name for name in os.environ if name.startswith("FIELDCRAFT_")]:
        monkeypatch.delenv(name)
    for name, value in {**furnish(tmp_path), "PYTHONPATH": str(ROOT)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(forks, "begun", warm_start.server)  # of interpreters: tests/flows/dispatchers, tests/flows/jobs
    with SUPPLIERS[request.param](tmp_path) as bench:
        yield bench


def until_it_runs(bench: Bench, children: int = 0) -> list[tuple[int, float]]:
    """The processes of the run and of its children, each with its start, once they are there."""
    deadline = time.monotonic() + 60.0
    while not bench.log("run") or len(bench.log("child")) < children:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return [(pid, start_time(pid)) for pid in bench.log("run") + bench.log("child")]


def alive(processes: list[tuple[int, float]]) -> bool:
    """Whether any of them lives."""
    return any(is_alive(pid, started) for pid, started in processes)


def gone(processes: list[tuple[int, float]]) -> bool:
    """Whether all have ended, in a moment's time."""
    deadline = time.monotonic() + 20.0
    while alive(processes) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive(processes)


def test_every_dispatcher_is_put_to_the_contract():
    assert sorted([*available("dispatchers"), "desk"]) == sorted(SUPPLIERS)


def test_only_places_where_people_work_take_their_orders_and_results(bench):
    assert isinstance(bench.dispatcher(), Ordering) == bench.dispatcher().by_people == (not bench.nature.takes)


@pytest.mark.parametrize("bench", PEOPLE, indirect=True)
def test_a_place_where_people_work_is_given_orders_takes_results_and_is_relieved_of_both(bench):
    bench.approved("answer")
    dispatch(bench.site())
    dispatcher = bench.dispatcher()
    (order,) = dispatcher.at_large().values()
    assert (order["trial"], order["digest"]) == ("b-0001", bench.trial().digest)
    bench.let_go()
    done = bench.passes(lambda trial: trial.state is not TrialState.RUNNING, seconds=20.0)
    assert (done.state, done.outputs) == (TrialState.COMPLETED, {"value": 1.25})
    assert dispatcher.at_large() == {} and isinstance(dispatcher.look({"key": "b-0001-1"}), Lost)
    assert [file.name for file in dispatcher.inbox.glob("taken/*.json")] == ["r.json"]


@pytest.mark.parametrize("bench", PEOPLE, indirect=True)
def test_an_order_that_nobody_approved_is_refused_wherever_people_work(bench):
    bench.approved("answer")
    bench.dispatcher().submit(bench.job("answer"))
    with pytest.raises(InputError, match=r"order b-0001-1 is for a design that nobody approved for b-0001\."):
        harvest(bench.site())


def test_a_job_is_submitted_found_polled_fetched_and_forgotten(bench):
    dispatcher, job = bench.dispatcher(), bench.job("answer")
    assert dispatcher.find(job.key) is None
    handle = dispatcher.submit(job)
    assert json.loads(json.dumps(handle)) == handle, "the ledger keeps it as JSON"
    if not bench.nature.takes:
        assert isinstance(dispatcher.poll(handle), Running)
        with pytest.raises(FieldDamaged, match="has no field to fetch: record its result"):
            dispatcher.fetch(handle)
        dispatcher.forget(job.key)
        assert isinstance(dispatcher.poll(handle), Lost), "what was recorded is filed as done"
        return
    outcome = ended(dispatcher, handle)
    assert isinstance(outcome, Finished) and 0.0 <= outcome.seconds < 60.0
    assert dispatcher.look(handle) == outcome == dispatcher.poll(handle)
    assert dispatcher.find(job.key) == (handle if bench.nature.finds else None)
    fields = bench.dispatcher().fetch(handle)
    assert (float(fields["value"]), fields["value"].attrs) == (1.25, {"units": "K"})
    assert bench.runs() == bench.nature.runs[0]
    dispatcher.forget(job.key)
    dispatcher.forget(job.key)
    assert dispatcher.find(job.key) is None
    assert not (dispatcher.place.folder / job.key).exists()


def test_a_job_ends_as_it_is_told_and_its_failure_has_a_kind_and_a_reason(bench):
    dispatcher, acts = bench.dispatcher(), bench.nature.acts
    handles = {act: dispatcher.submit(bench.job(act, attempt)) for attempt, act in enumerate(acts, 1)}
    said = {act: ended(dispatcher, handle) for act, handle in handles.items()}
    assert {act: outcome for act, outcome in said.items() if not is_as(outcome, acts[act])} == {}
    for act, handle in handles.items():
        if acts[act] is not Finished:
            with pytest.raises(FieldDamaged, match=r"is missing|has no fields"):
                dispatcher.fetch(handle)
        dispatcher.forget(handle["key"])


def test_code_that_is_not_what_was_approved_does_not_begin_and_costs_nothing(bench):
    dispatcher, job = bench.dispatcher(), bench.job("answer")
    name = "program acting" if bench.kind == "command" else f"simulators/{bench.simulator}.py"
    handle = dispatcher.submit(replace(job, request={**job.request, "code": {name: "0" * 64}}))
    if not bench.nature.runs_code:
        assert not isinstance(dispatcher.poll(handle), Failed)
        return
    outcome = ended(dispatcher, handle)
    said = f"is not what was approved: it was changed since, or differs on {socket.gethostname()}"
    assert is_as(outcome, ("transient", said))
    assert name in outcome.reason
    assert (outcome.cost, bench.runs()) == (0.0, 0)


def test_a_key_submitted_twice_runs_once(bench):
    act = "wait" if bench.nature.processes else "answer"
    dispatcher, again = bench.dispatcher(), bench.dispatcher()
    handles = [dispatcher.submit(bench.job(act)), again.submit(bench.job(act))]
    bench.let_go()
    if bench.nature.takes:
        assert [type(ended(each, handle)) for each, handle in zip((dispatcher, again), handles, strict=True)] == [
            Finished,
            Finished,
        ]
        assert isinstance(ended(dispatcher, dispatcher.submit(bench.job(act))), Finished), "and long after"
    assert bench.runs() == (bench.nature.runs[0] if bench.nature.takes else 2), "one order and the result dropped"
    dispatcher.forget("b-0001-1")


def test_a_reply_that_was_lost_loses_neither_the_job_nor_its_result(bench):
    act = "wait" if bench.nature.processes else "answer"
    job = bench.job(act)
    assert in_child(lambda: bench.dispatcher().submit(job)) == 0, "whoever submitted is gone, and its handle with it"
    if bench.nature.processes:
        processes = until_it_runs(bench)
    dispatcher = bench.dispatcher()
    handle = dispatcher.find(job.key)
    assert (handle is not None) == bench.nature.finds
    if handle is None:
        handle = dispatcher.submit(job)
    if not bench.nature.takes:
        assert isinstance(dispatcher.poll(handle), Running) and bench.runs() == 1
        return
    if bench.nature.processes:
        assert isinstance(dispatcher.poll(handle), Running) and alive(processes)
    bench.let_go()
    assert isinstance(ended(dispatcher, handle), Finished)
    assert float(dispatcher.fetch(handle)["value"]) == 1.25
    assert bench.runs() == bench.nature.runs[1]
    dispatcher.forget(job.key)


@pytest.mark.parametrize("point", ["ledger.move.RUNNING.before", "ledger.move.RUNNING.after"])
def test_a_pass_killed_before_or_after_it_binds_the_handle_repeats_no_job_and_loses_no_result(bench, point):
    bench.approved("answer")
    assert killed_at(point, lambda: dispatch(bench.site()))
    assert bench.trial().state is (TrialState.RUNNING if point.endswith("RUNNING.after") else TrialState.STAGED)
    if not bench.nature.takes:
        assert bench.passes(lambda trial: trial.state is TrialState.RUNNING).handle == {"key": "b-0001-1"}
        assert bench.runs() == 1
        bench.let_go()
    done = bench.passes(lambda trial: trial.state is not TrialState.STAGED and trial.state is not TrialState.RUNNING)
    assert (done.state, done.outputs, done.attempt) == (TrialState.COMPLETED, {"value": 1.25}, 1)
    assert bench.runs() == (bench.nature.runs[1] if bench.nature.takes else 1)
    assert bench.site().ledger.check() == []


def test_a_job_over_its_wall_time_is_killed_with_all_it_started_or_no_limit_is_accepted(bench):
    if not bench.nature.processes:
        spec = bench.spec(budget={"trials": 2, "wall_time_h": 1.0})
        with pytest.raises(InputError, match=r"budget\.wall_time_h: 1 is given, .* nothing ends"):
            wire(parse(spec, "b.yaml"), settings_from(home=bench.folder / "home"), algorithm=False)
        return
    began = time.monotonic()
    ended(bench.dispatcher(), bench.dispatcher().submit(bench.job("answer", attempt=2)))
    limit = 1.0 + 3.0 * (time.monotonic() - began)  # long enough for a run to begin, on any machine
    (bench.folder / "log").unlink()
    short, job = bench.dispatcher(wall_time_s=limit), bench.job("stall")
    assert in_child(lambda: short.submit(job)) == 0, "whoever submitted is gone and limits nothing any more"
    processes = until_it_runs(bench, children=1)
    handle = short.find(job.key)
    assert handle is not None and len(processes) == 2
    outcome = ended(short, handle)
    assert isinstance(outcome, Failed) and outcome.kind == "unknown"
    told = f"ran over dispatcher.wall_time_s of {limit:g} s and was killed with all it had started"
    assert outcome.reason == f"{told}; begin a campaign with a longer one"
    assert gone(processes)


def test_a_cancelled_job_ends_with_all_it_started_and_one_that_has_ended_is_left_alone(bench):
    dispatcher, job = bench.dispatcher(), bench.job("stall" if bench.nature.processes else "answer")
    handle = dispatcher.submit(job)
    if bench.nature.processes:
        processes = until_it_runs(bench, children=1)
        dispatcher.cancel(handle)
        assert gone(processes)
        outcome = ended(dispatcher, handle)
        assert isinstance(outcome, Lost)
        dispatcher.cancel(handle)
        assert dispatcher.poll(handle) == outcome
    elif bench.nature.takes:
        outcome = dispatcher.poll(handle)
        dispatcher.cancel(handle)
        assert dispatcher.poll(handle) == outcome and isinstance(outcome, Finished)
    else:
        dispatcher.cancel(handle)
        assert dispatcher.poll(handle) == Failed("cancelled", f"order {job.key} was cancelled")
    assert bench.runs() <= 1
    dispatcher.cancel(handle)
    dispatcher.forget(job.key)


def test_a_result_that_comes_after_its_trial_was_given_up_is_kept_and_accepted(bench):
    bench.approved("wait" if bench.nature.processes else "answer")
    site = bench.site()
    dispatch(site)
    if bench.nature.processes:
        until_it_runs(bench)
    trial = bench.trial()
    site.ledger.move(trial.id, TrialState.FAILED, trial.expect, "ana", "too long", failure="cancelled")
    bench.let_go()
    if not bench.nature.finds:  # nothing comes late: what no pass has taken is asked for when it is wanted
        harvest(site)
        assert (bench.trial().state, site.ledger.results("b-0001")) == (TrialState.FAILED, ())
        return
    if bench.nature.processes:
        assert isinstance(ended(site.campaign.dispatcher, trial.handle), Finished)
    late = bench.passes(lambda trial: trial.state is not TrialState.FAILED)
    assert (late.state, late.outputs) == (TrialState.COMPLETED, {"value": 1.25})
    (result,) = site.ledger.results("b-0001")
    assert (result.attempt, result.verdict) == (1, "accepted")
    assert bench.runs() <= max(1, bench.nature.runs[1])
