"""prefect.yaml deployed by Prefect's own command to a real server, and run by a real worker."""

import os
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import warm_start
from prefect_site import ROOT, Site, site, until, worker

from fieldcraft.flows.settings import Settings, settings_from
from fieldcraft.flows.spec.campaign_file import read_campaign
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.steps.schedule import LATE_S, Tick
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import TrialState

BRANIN = """\
name: {name}
seed: {seed}
sense: minimize
problem: {{kind: branin}}
simulator: {{kind: function}}
noise: {{sd: 0.5}}
algorithm:
  start: {{n: 2}}
  surrogate: {{kind: exact_gp}}
  acquisition: {{kind: log_ei}}
  maximizer: {{kind: multistart}}
budget: {{trials: {trials}}}
"""


@pytest.fixture(scope="module")
def prefect(tmp_path_factory):
    with site(tmp_path_factory.mktemp("site")) as made:
        yield made


def settings(prefect: Site) -> Settings:
    return settings_from({}, home=prefect.home)


def campaign(settings: Settings, name: str, seed: int = 3, trials: int = 3, more: str = "") -> Ledger:
    """Create a campaign, with more keys where they are given; its ledger."""
    settings.home.mkdir(parents=True, exist_ok=True)
    file = settings.home / f"{name}.yaml"
    file.write_text(BRANIN.format(name=name, seed=seed, trials=trials) + more)
    ledger = open_ledger(settings.ledger, create=True)
    assert created(ledger, wire(read_campaign(file), settings), file) is None
    return ledger


def designs(ledger: Ledger, name: str) -> list:
    return [trial.design for trial in ledger.trials(name)]


def alone(folder: Path, name: str, seed: int) -> list:
    """The designs that the first pass over such a campaign proposes where it is alone and not scheduled."""
    at = settings_from({}, home=folder / f"alone-{name}")
    ledger = campaign(at, name, seed)
    lease = ledger.acquire(name)
    make_pass(Ref(str(at.home), name, lease.model_dump()))
    ledger.release(lease)
    return designs(ledger, name)


def test_prefect_yaml_deploys_its_flows_by_module_with_schedules_that_wait_to_be_switched_on(prefect):
    names = ("iterate", "decide", "export", "simulate", "train")
    found = {name: prefect.deployment(f"{name}/{name}") for name in names}
    assert {name: place["entrypoint"] for name, place in found.items()} == {
        "iterate": "fieldcraft.flows.campaign.iterate",
        "decide": "fieldcraft.flows.decide.decide",
        "export": "fieldcraft.flows.campaign.export",
        "simulate": "fieldcraft.flows.simulate.simulate",
        "train": "fieldcraft.flows.campaign.train",
    }
    schedules = [schedule for place in found.values() for schedule in place["schedules"]]
    assert {key for schedule in schedules for key in schedule["schedule"]} >= {"cron", "interval"}
    assert not any(schedule["active"] for schedule in schedules)


def test_a_schedule_alone_brings_a_campaign_to_its_end(prefect):
    ledger = campaign(settings(prefect), "scheduled", trials=2)
    own = f"command={sys.executable} -m prefect.engine"
    words = ("--name", "scheduled", "--pool", "local", "--param", "name=scheduled", "--job-variable", own)
    flow = "fieldcraft.flows.campaign.iterate"
    done = prefect.command("prefect", "--no-prompt", "deploy", flow, *words, "--interval", "15")
    assert done.returncode == 0, done.stdout + done.stderr
    assert prefect.command("prefect", "--no-prompt", "deploy", "--all").returncode == 0
    until(lambda: ledger.campaign("scheduled").finished, "the scheduled campaign to end")
    place = prefect.deployment("iterate/scheduled")
    assert [schedule["active"] for schedule in place["schedules"]] == [True]
    (schedule,) = place["schedules"]
    paused = prefect.command("prefect", "deployment", "schedule", "pause", "iterate/scheduled", schedule["id"])
    assert paused.returncode == 0, paused.stderr
    assert [schedule["active"] for schedule in prefect.deployment("iterate/scheduled")["schedules"]] == [False]
    runs = prefect.runs("iterate/scheduled")
    assert {run.type for run in runs} == {"COMPLETED"}
    assert all(run.scheduled for run in runs)
    assert {trial.state for trial in ledger.trials("scheduled")} == {TrialState.COMPLETED}


def test_a_hundred_ticks_of_one_instant_make_one_pass(tmp_path):
    at = settings_from({}, home=tmp_path / "runs")
    ledger = campaign(at, "burst")
    words = ["-m", "scenarios.ticks", str(at.home), "burst", "100"]
    done = warm_start.run(words, {**os.environ, "PYTHONPATH": str(ROOT)}, 200)
    assert done.returncode == 0, done.stderr
    assert Counter(done.stdout.split()) == {"2": 1, "null": 99}
    assert len(ledger.trials("burst")) == 2


def test_a_tick_fired_twice_and_those_missed_while_no_worker_ran_make_one_pass_together(prefect):
    ledger = campaign(settings(prefect), "backlog")
    now, place = time.time(), prefect.deployment("iterate/iterate")["id"]
    asked = [prefect.ask_for(place, {"name": "backlog"}, due, {}) for due in (now, now, now - 600)]
    assert Counter(prefect.ended(flow_run_id).name for flow_run_id in asked) == {"Completed": 1, "Skipped": 2}
    assert len(ledger.trials("backlog")) == 2


def test_a_tick_that_begins_late_makes_no_pass_where_late_ones_are_to_be_skipped(prefect):
    ledger = campaign(settings(prefect), "punctual")
    place = prefect.deployment("iterate/iterate")["id"]
    run = prefect.ended(prefect.ask_for(place, {"name": "punctual", "catch_up": "skip"}, time.time() - 600, {}))
    assert (run.type, run.name) == ("COMPLETED", "Skipped")
    assert "catch_up is 'skip'" in run.message
    assert designs(ledger, "punctual") == []


def test_the_tick_after_a_killed_pass_goes_on_to_the_same_designs(prefect, tmp_path):
    ledger = campaign(settings(prefect), "killed")
    crashed = prefect.run("iterate/iterate", {"FIELDCRAFT_DIE_AT": "ledger.propose.after#1"}, name="killed")
    assert crashed.type == "CRASHED"
    assert {trial.state for trial in ledger.trials("killed")} == {TrialState.PROPOSED}
    assert prefect.run("iterate/iterate", name="killed").name == "Completed"
    assert {trial.state for trial in ledger.trials("killed")} == {TrialState.RUNNING}
    assert designs(ledger, "killed") == alone(tmp_path, "killed", seed=3)
    assert any(event.reason == "its holder no longer lives" for event in ledger.history("killed"))


def test_two_campaigns_share_server_worker_and_store_without_touching_one_another(prefect, tmp_path):
    seeds = {"left": 4, "right": 5}
    place = prefect.deployment("iterate/iterate")["id"]
    ledgers = {name: campaign(settings(prefect), name, seed) for name, seed in seeds.items()}
    asked = [prefect.ask_for(place, {"name": name}, time.time(), {}) for name in seeds]
    assert [prefect.ended(flow_run_id).name for flow_run_id in asked] == ["Completed", "Completed"]
    for name, seed in seeds.items():
        assert designs(ledgers[name], name) == alone(tmp_path, name, seed)
        assert {event.campaign for event in ledgers[name].history(name)} == {name}
    assert designs(ledgers["left"], "left") != designs(ledgers["right"], "right")


def test_a_tick_that_meets_a_running_pass_ends_quietly_and_a_person_is_told(prefect):
    ledger = campaign(settings(prefect), "busy")
    lease = ledger.acquire("busy")
    tick = prefect.run("iterate/iterate", name="busy")
    person = prefect.command("fieldcraft.flows.cli", "iterate", "busy")
    ledger.release(lease)
    assert (tick.type, tick.name) == ("COMPLETED", "Skipped")
    assert f"pid {os.getpid()} on host" in tick.message
    assert person.returncode == 2
    assert f"pid {os.getpid()} on host" in person.stderr
    assert designs(ledger, "busy") == []


def test_a_tick_of_an_unknown_campaign_fails_and_names_it(prefect):
    run = prefect.run("iterate/iterate", name="nowhere")
    assert run.type == "FAILED"
    assert "nowhere" in run.message


def test_the_deployment_export_shows_everything_in_mlflow_and_gives_way_to_another_exporter(prefect):
    ledger = campaign(settings(prefect), "shown")
    lease = ledger.acquire_exporter()
    met = prefect.run("export/export")
    ledger.release(lease)
    assert (met.type, met.name) == ("COMPLETED", "Skipped")
    assert f"pid {os.getpid()} on host" in met.message
    done = prefect.run("export/export", name="shown")
    assert done.message == "export: 1 events shown in MLflow"
    assert ledger.pending("shown") == ()


@pytest.mark.parametrize(
    ("policy", "late", "missed"), [("once", 1e6, False), ("skip", LATE_S, False), ("skip", LATE_S + 1, True)]
)
def test_a_tick_is_missed_only_where_late_ones_are_to_be_skipped(policy, late, missed):
    assert (Tick(100.0, policy).missed(100.0 + late) is not None) == missed


def test_simulations_are_flow_runs_in_a_work_pool_of_their_own(prefect):
    ledger = campaign(settings(prefect), "farmed", trials=2, more="dispatcher: {kind: prefect}")
    assert prefect.run("iterate/iterate", name="farmed").name == "Completed"
    assert [trial.state for trial in ledger.trials("farmed")] == [TrialState.RUNNING] * 2
    with worker(prefect, "simulations"):
        made = until(lambda: len(found := prefect.runs("simulate/simulate")) == 2 and found, "two flow runs to end")
    assert all(run.name == "Completed" and "Finished" in run.message for run in made)
    assert prefect.run("iterate/iterate", name="farmed").name == "Completed"
    assert [trial.state for trial in ledger.trials("farmed")] == [TrialState.COMPLETED] * 2
