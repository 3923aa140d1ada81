"""Campaigns from Python: the trials that commands see, asked for once, told, corrected, decided, gone on with."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager

import httpx
import numpy as np
import pandas as pd
import pytest
import warm_start
import xarray as xr
from small import command

import fieldcraft as fc
from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError, Unfinished
from fieldcraft.flows.identity import Refused
from fieldcraft.flows.notebook import passes
from fieldcraft.flows.people.decisions import Overtaken
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import TrialState

SOBOL = {"start": {"n": 3}}  # a sequence and no model, which is quick
GP = {
    "start": {"n": 2},
    "surrogate": {"kind": "exact_gp"},
    "acquisition": {"kind": "log_ei"},
    "maximizer": {"kind": "multistart", "n_samples": 64, "n_starts": 2},
}
ROD = {"space": {"x": (0.0, 1.0, "m"), "power": (0, 50, "W")}, "minimize": {"spread": "K"}, "budget": 6}
ASKING = """
import signal, sys, fieldcraft as fc
campaign = fc.campaign("rod", home=sys.argv[1])
print(*campaign.ask(int(sys.argv[2])).index, flush=True)
signal.pause()
"""
LOOP = """
import sys, fieldcraft as fc
campaign = fc.campaign("rod", home=sys.argv[1])
while campaign.finished is None:
    for trial, row in campaign.ask().iterrows():
        campaign.tell(trial, row.x)
        print(trial, flush=True)
"""
SHOWN = """
import asyncio, sys, fieldcraft as fc
from fieldcraft.flows import campaign as flows
from fieldcraft.flows.notebook import passes
from fieldcraft.flows.steps.leases import held

def interrupted(name, function, within=flows.in_one_flow):
    within(name, function)
    raise KeyboardInterrupt

async def cell():  # as a notebook's
    sobol = {"start": {"n": 3}}
    known = {"problem": {"kind": "branin"}, "simulator": {"kind": "function"}, "dispatcher": {"kind": "inline"}}
    fc.campaign("shown", **known, minimize="value", algorithm=sobol, budget=3, home=sys.argv[1]).run()
    told = fc.campaign("told", space={"x": (0.0, 1.0)}, minimize="y", algorithm=sobol, budget=3, home=sys.argv[1])
    told.run(lambda design: design["x"], trials=1)
    left = fc.campaign("left", **known, minimize="value", algorithm=sobol, budget=3, home=sys.argv[1])
    flows.in_one_flow, passes.PASSES = interrupted, 1
    try:
        left.run()
    except KeyboardInterrupt as kept:  # as a notebook keeps the last error, with all that its frames hold
        with held(left._ledger, "left"):
            print("the lease is free")

asyncio.run(cell())
"""
PASSES = """
import sys, time
from pathlib import Path
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.steps.leases import held
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.storage.ledger import LeaseHeld
from fieldcraft.storage.open_ledger import open_ledger
ledger, finished = open_ledger(settings_from(home=Path(sys.argv[1])).ledger), None
while finished is None:
    try:
        with held(ledger, "rod") as lease:
            finished = make_pass(Ref(sys.argv[1], "rod", lease.model_dump())).decision.finished
    except LeaseHeld:
        pass
    time.sleep(0.1)  # until the next tick
"""


@pytest.fixture
def rod(tmp_path):
    """Begins the rod's campaign, or goes on with it."""

    def begun(algorithm=SOBOL, **changes):
        return fc.campaign("rod", home=tmp_path / "home", algorithm=algorithm, **{**ROD, **changes})

    return begun


@contextmanager
def asking(home, n):
    """The ids that a process is given that asks for n designs and lives on; killed at the end of the block."""
    process = warm_start.begun(["-c", ASKING, str(home), str(n)], dict(os.environ))
    try:
        yield process.stdout.readline().split()
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(30)


def test_a_loop_ends_with_the_budget_and_its_trials_are_a_table(rod):
    campaign, seen = rod(GP), []
    while len(asked := campaign.ask()):
        for trial, row in asked.iterrows():
            campaign.tell(trial, (row.x - 0.3) ** 2 + 0.01 * row.power)
            seen.append(trial)
    table = campaign.trials
    assert list(table.index) == seen == [f"rod-{number:04d}" for number in range(1, 7)]
    assert campaign.finished == "budget: 6 of 6 trials"
    assert np.allclose(table.spread, (table.x - 0.3) ** 2 + 0.01 * table.power)
    assert (table.state == "COMPLETED").all()
    assert table.best.sum() == 1
    assert table.attrs["units"] == {"x": "m", "power": "W", "spread": "K"}


def test_numbers_of_numpy_begin_the_same_campaign_as_those_of_python(rod, tmp_path):
    asked = rod().ask(1)
    power = {"low": np.float64(0), "high": np.int32(50), "unit": "W"}
    space = {"x": (np.float32(0), np.int64(1), "m"), "power": power}
    again = {"space": space, "budget": np.int64(6), "seed": np.int64(0), "algorithm": {"start": {"n": np.int64(3)}}}
    assert rod(**again).ask(1).equals(asked)
    for name, bounds in {"pair": (np.float32(0), np.int64(2)), "array": np.array([0, 2])}.items():
        new = fc.campaign(name, space={"x": bounds}, minimize="y", algorithm=SOBOL, budget=np.int64(3), home=tmp_path)
        assert 0.0 <= new.ask().x.iloc[0] <= 2.0


def test_what_is_asked_for_is_in_the_ledger_before_it_is_returned_with_what_its_model_predicts(rod, tmp_path):
    campaign = rod(GP)
    for trial in campaign.ask(2).index:
        campaign.tell(trial, 1.0 + int(trial[-1]))
    asked = campaign.ask()
    (trial,) = open_ledger(tmp_path / "home" / "ledger.sqlite").trials("rod", states={TrialState.RUNNING})
    row = asked.loc[trial.id]
    assert (row.x, row.power, row.digest) == (trial.design["x"], trial.design["power"], trial.digest)
    assert (row.predicted, row.sd) == (trial.origin.mean, trial.origin.sd)
    predicted = campaign.predict(asked)
    assert list(predicted.index) == [trial.id]
    assert predicted["mean"].iloc[0] == pytest.approx(row.predicted, rel=1e-9)
    assert predicted["sd"].iloc[0] == pytest.approx(row.sd, rel=1e-9)
    assert predicted.attrs["units"] == {"mean": "K", "sd": "K"}
    for wrong, said in (
        (3, "predict: int is no design: give a table with a column for each variable"),
        ({"x": 0.5, "power": 3.0, "powr": 4.0}, "predict: 'powr' is no variable. Did you mean 'power'"),
        ([{"x": 0.5}], "has no value for power"),
        ({"x": float("nan"), "power": 3.0}, "predict: x is nan: give a finite number"),
    ):
        with pytest.raises(InputError, match=re.escape(said)):
            campaign.predict(wrong)
    assert list(campaign.predict(campaign.trials).index) == list(campaign.trials.index), "further columns do no harm"


def test_the_start_is_the_same_asked_for_one_by_one_or_at_once(rod, tmp_path):
    at_once = rod().ask(4)
    other, singly = fc.campaign("rod", home=tmp_path / "other", algorithm=SOBOL, **ROD), []
    for _ in range(4):
        singly.append(other.ask().iloc[0])
        other.tell(singly[-1].name, 1.0)
    names = ["x", "power"]
    pd.testing.assert_frame_equal(at_once[names], pd.DataFrame(singly)[names].astype(float), check_names=False)


def test_a_model_that_has_no_result_yet_proposes_nothing_beyond_the_start(rod):
    assert len(rod(GP).ask(5)) == 2


def test_more_designs_than_the_batch_can_be_out_at_once(rod):
    campaign = rod(GP)
    for trial in campaign.ask(2).index:
        campaign.tell(trial, 1.0 + int(trial[-1]))
    first = campaign.ask(1)
    assert list(campaign.ask(3).index) == [*first.index, "rod-0004", "rod-0005"]
    assert len(campaign.ask(9)) == 4  # which is what the budget leaves


def test_a_kernel_that_was_killed_is_given_the_same_designs_again(rod, tmp_path):
    rod()
    with asking(tmp_path / "home", 2) as first:
        pass
    with asking(tmp_path / "home", 2) as second:
        assert first == second == ["rod-0001", "rod-0002"]


def test_two_notebooks_at_once_are_given_different_designs_and_the_command_sees_all(rod, tmp_path, capsys):
    campaign = rod()
    with asking(tmp_path / "home", 2) as theirs:
        ours = list(campaign.ask(2).index)
        assert (theirs, ours) == (["rod-0001", "rod-0002"], ["rod-0003", "rod-0004"])
        assert main(["queue", "rod", "--json", "--home", str(tmp_path / "home")]) == 0
        (queue,) = json.loads(capsys.readouterr().out)
        assert [entry["trial"] for entry in queue["laboratory"]] == [*theirs, *ours]
        campaign.tell(theirs[0], 1.0)  # whoever has a result may tell it
        assert list(campaign.ask(2).index) == ours


@pytest.mark.usefixtures("prefect")
def test_a_design_that_is_approved_after_it_was_given_is_given_to_nobody_else(rod, tmp_path):
    campaign = rod(approval="human")
    with asking(tmp_path / "home", 1) as theirs:
        assert list(campaign.ask(1).index) != theirs
        assert main(["approve", *theirs, "--home", str(tmp_path / "home")]) == 0
        assert main(["iterate", "rod", "--home", str(tmp_path / "home")]) in (0, 3)
        assert campaign.trials.state[theirs[0]] == "RUNNING"
        assert theirs[0] not in campaign.ask(3).index


def test_two_notebooks_and_a_schedule_on_one_campaign_try_no_design_twice(rod, tmp_path):
    campaign, home = rod(budget=8), str(tmp_path / "home")
    processes = [warm_start.begun(["-c", code, home], dict(os.environ)) for code in (LOOP, LOOP, PASSES)]
    told = []
    for process in processes:
        said, complaints = process.communicate(300)
        assert process.returncode == 0, complaints
        told += said.split()
    table = campaign.trials
    assert sorted(told) == list(table.index) == [f"rod-{number:04d}" for number in range(1, 9)]
    assert not table.duplicated(["x", "power"]).any()
    assert (table.state == "COMPLETED").all()


def test_told_again_is_a_correction_and_the_same_again_is_none(rod, tmp_path):
    campaign = rod()
    (trial,) = campaign.ask().index
    campaign.tell(trial, {"spread": 3.2}, sd={"spread": 0.1})
    assert "duplicate" in campaign.tell(trial, 3.2)
    assert campaign.tell(trial, 2.9, reason="misread") == f"{trial}: corrected (result 2 replaces 1)."
    assert campaign.trials.spread[trial] == 2.9
    results = open_ledger(tmp_path / "home" / "ledger.sqlite").results(trial)
    assert [result.outputs["spread"] for result in results] == [3.2, 2.9]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("1_5", "without the underscore"),
        ("2,5", "no number"),
        (True, "give one number"),
        (np.bool_(True), "give one number"),
        (float("nan"), "finite"),
        (np.array([0.5, 0.6]), "give one number"),
        ({"spread": "1_5"}, "spread is '1_5'"),
        ({"spread": False}, "spread is False"),
    ],
)
def test_a_slip_is_no_result(rod, told, said):
    campaign = rod()
    (trial,) = campaign.ask().index
    with pytest.raises(InputError, match=said):
        campaign.tell(trial, told)
    assert campaign.trials.spread.isna().all()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda rod, trial: rod.ask("3"), "ask: n is '3': give a whole number of at least 1"),
        (lambda rod, trial: rod.ask(1.5), "ask: n is 1.5: give"),
        (lambda rod, trial: rod.ask(True), "ask: n is True: give"),
        (lambda rod, trial: rod.ask(0), "ask: n is 0: give"),
        (lambda rod, trial: rod.tell(1, 2.0), "tell: trial is 1: give the id of one trial"),
        (lambda rod, trial: rod.tell([trial], 2.0), "give the id of one trial"),
        (lambda rod, trial: rod.tell(trial, 2.0, ran=[1]), r"tell: ran is \[1\]: give a mapping"),
        (lambda rod, trial: rod.tell(trial, 2.0, ran={"x": None}), "tell: x is 'None', no number"),
        (
            lambda rod, trial: rod.tell(trial, 2.0, field="rod.nc"),
            "field is 'rod.nc': give a dataset, or the file as a P",
        ),
        (lambda rod, trial: rod.tell(trial, 2.0, note=5), "The note is 5: give a text"),
        (lambda rod, trial: rod.tell(trial, None, reason=5), "The reason is 5: give a text"),
        (lambda rod, trial: rod.decide(None, "approve"), "decide: trials is None: give a name, or several"),
        (lambda rod, trial: rod.decide(trial, "edit", design="x=1"), "decide: design is 'x=1': give a mapping"),
        (lambda rod, trial: rod.run(5), "run: simulate is 5: give a function"),
        (lambda rod, trial: rod.run(lambda design: 1.0, trials=0), "run: trials is 0: give a whole number"),
        (lambda rod, trial: rod.run(lambda design: 1.0, trials="3"), "run: trials is '3': give"),
        (lambda rod, trial: rod.run(lambda design: None, trials=1), "simulate returned None: let it return a number"),
        (
            lambda rod, trial: rod.run(lambda design: xr.Dataset({"other": 1.0}), trials=1),
            "cannot read its outputs from the field: .*gave no 'spread'",
        ),
    ],
)
def test_a_call_with_a_value_of_another_kind_is_one_error_and_records_nothing(rod, call, said):
    campaign = rod()
    (trial,) = campaign.ask().index
    with pytest.raises(InputError, match=said):
        call(campaign, trial)
    assert campaign.trials.spread.isna().all() and len(campaign.trials) == 1


@pytest.mark.parametrize("told", [2, 2.0, "2.0", np.float32(2.0), np.array([2.0]), np.array(2), {"spread": "2"}])
def test_a_number_may_be_told_as_a_text_or_an_array_of_one(rod, told):
    campaign = rod()
    (trial,) = campaign.ask().index
    campaign.tell(trial, told)
    assert campaign.trials.spread.tolist() == [2.0]


def test_failures_are_told_with_their_reason_and_infeasible_designs_teach(rod, tmp_path):
    campaign = rod()
    first, second = campaign.ask(2).index
    with pytest.raises(InputError, match="without a reason"):
        campaign.tell(first, None)
    campaign.tell(first, None, reason="it cracked")
    campaign.tell(second, None, reason="melts", infeasible=True)
    ledger = open_ledger(tmp_path / "home" / "ledger.sqlite")
    assert [(t.state, t.failure) for t in ledger.trials("rod")] == [
        (TrialState.ABANDONED, None),
        (TrialState.FAILED, "infeasible"),
    ]


def test_fields_are_kept_and_read_lazily_along_the_trials(rod, tmp_path):
    campaign = rod()
    places = ("x", np.linspace(0.0, 1.0, 5), {"units": "m"})
    for number, trial in enumerate(campaign.ask(2).index):
        field = xr.Dataset({"temperature": ("x", np.full(5, float(number)), {"units": "K"})}, coords={"x": places})
        campaign.tell(trial, float(number), field=field)
    fields = campaign.fields
    assert dict(fields.sizes) == {"trial": 2, "x": 5}
    assert fields.temperature.attrs["units"] == "K"
    assert fields.temperature.chunks is not None
    assert fields.temperature.sel(trial="rod-0002").values.tolist() == [1.0] * 5


def test_several_objectives_have_a_front_of_best_designs(tmp_path):
    campaign = fc.campaign(
        "both",
        home=tmp_path,
        space={"x": (0.0, 1.0)},
        minimize={"price": "EUR"},
        maximize={"strength": "MPa"},
        algorithm=SOBOL,
        budget=3,
    )
    for (trial, _), results in zip(campaign.ask(3).iterrows(), [(1.0, 1.0), (2.0, 3.0), (2.0, 2.0)], strict=True):
        campaign.tell(trial, {"price": results[0], "strength": results[1]})
    assert campaign.trials.best.to_dict() == {"both-0001": True, "both-0002": True, "both-0003": False}
    assert "hypervolume" in campaign._repr_html_()


def test_a_part_that_is_told_again_with_another_value_is_corrected(tmp_path):
    goals = {"minimize": {"price": "EUR"}, "maximize": {"strength": "MPa"}}
    campaign = fc.campaign("both", home=tmp_path, space={"x": (0.0, 1.0)}, **goals, algorithm=SOBOL, budget=3)
    (trial,) = campaign.ask(1).index
    assert "still missing: strength" in campaign.tell(trial, {"price": 1.0}, sd={"price": 0.1})
    assert campaign.tell(trial, {"price": 2.0}, reason="misread") == f"{trial}: corrected (result 2 replaces 1)."
    assert "it is COMPLETED" in campaign.tell(trial, {"price": 3.0, "strength": 4.0})
    told = open_ledger(tmp_path / "ledger.sqlite").results(trial)
    assert [(result.outputs["price"], result.details.get("reason")) for result in told] == [
        (1.0, None),
        (2.0, "misread"),
        (3.0, "told again in a notebook"),
        (3.0, None),
    ]
    assert told[-1].outputs == {"price": 3.0, "strength": 4.0}


def test_a_part_stays_as_it_is_where_something_beside_its_new_value_is_wrong(tmp_path):
    goals = {"minimize": {"price": "EUR"}, "maximize": {"strength": "MPa"}}
    campaign = fc.campaign("both", home=tmp_path, space={"x": (0.0, 1.0)}, **goals, algorithm=SOBOL, budget=3)
    (trial,) = campaign.ask(1).index
    campaign.tell(trial, {"price": 1.0})
    for name, value in (("strength", float("nan")), ("strenght", 4.0)):
        with pytest.raises(InputError, match=name):
            campaign.tell(trial, {"price": 2.0, name: value})
    assert len(open_ledger(tmp_path / "ledger.sqlite").results(trial)) == 1
    said = campaign.tell(trial, {"price": 3.0, "strength": 4.0}, sd={"price": 0.1, "strength": 0.2})
    assert f"{trial}: corrected (result 2 replaces 1)." in said and "it is COMPLETED" in said
    assert open_ledger(tmp_path / "ledger.sqlite").results(trial)[-1].sd == {"price": 0.1, "strength": 0.2}


def test_decisions_are_bound_to_what_was_shown(rod, tmp_path):
    campaign = rod(approval="human")
    asked = campaign.ask(3)
    assert list(asked.state) == ["PROPOSED"] * 3
    first, second, third = asked.index
    assert campaign.decide([first, second], "approve") == (f"{first}: APPROVED", f"{second}: APPROVED")
    with pytest.raises(InputError, match="without a reason"):
        campaign.decide(third, "reject")
    command("edit", third, "x=0.5", "--home", tmp_path / "home")  # somebody else
    with pytest.raises(Overtaken, match="is not what you saw"):
        campaign.decide(third, "approve")
    with pytest.raises(InputError, match="was not shown here"):
        fc.campaign("rod", home=tmp_path / "home").decide(third, "approve")
    assert campaign.ask(3).state.to_dict() == {first: "RUNNING", second: "RUNNING", third: "PROPOSED"}
    campaign.decide(third, "edit", design={"power": 10})
    assert campaign.trials.power[third] == 10.0
    for word in ("cancel", "retry"):  # somebody else
        command(word, first, *(["--reason", "spilt"] if word == "cancel" else []), "--home", tmp_path / "home")
    fc.campaign("rod", home=tmp_path / "home").ask()
    with pytest.raises(Overtaken, match=f"{first} was sent by fieldcraft .* Nothing was changed"):
        campaign.decide(first, "abandon", "lost")
    assert campaign.trials.state[first] == "RUNNING"
    assert campaign.decide(first, "abandon", "lost") == (f"{first}: ABANDONED",)


def test_a_function_is_run_to_the_end_and_an_interrupted_one_goes_on(rod):
    campaign, called = rod(), []

    def simulate(design):
        called.append(design)
        if len(called) == 3:
            raise KeyboardInterrupt
        return {"spread": design["x"]}

    with pytest.raises(KeyboardInterrupt):
        campaign.run(simulate, trials=4)
    assert (campaign.trials.state == "COMPLETED").sum() == 2
    campaign.run(simulate, trials=1)
    assert called[3] == called[2]  # the design without a result, again
    campaign.run(simulate)
    assert len(called) == 7
    assert campaign.finished == "budget: 6 of 6 trials"
    assert np.allclose(campaign.trials.spread, campaign.trials.x)


def test_a_function_may_return_fields_and_say_that_a_design_is_infeasible(rod):
    campaign = rod(budget=3)

    def simulate(design):
        if design["x"] > 0.6:
            raise fc.Infeasible("too far out")
        return xr.Dataset({"spread": ((), design["x"], {"units": "K"})})

    campaign.run(simulate)
    table = campaign.trials
    assert (table.state == np.where(table.x > 0.6, "FAILED", "COMPLETED")).all()
    assert 0 < (table.state == "FAILED").sum() < 3
    assert len(campaign.fields.trial) == (table.state == "COMPLETED").sum()


def test_a_campaign_with_a_simulator_runs_and_refuses_to_be_asked(tmp_path, capsys):
    campaign = fc.campaign(
        "formula",
        problem={"kind": "branin"},
        simulator={"kind": "function"},
        dispatcher={"kind": "inline"},
        minimize="value",
        algorithm=SOBOL,
        budget=4,
        home=tmp_path,
    )
    with pytest.raises(InputError, match=r"run by 'inline': call run\(\)"):
        campaign.ask()
    campaign.run(trials=4)
    campaign.run()
    assert "formula-0004" in capsys.readouterr().out
    assert (campaign.trials.state == "COMPLETED").all()
    assert "4 of 4" in campaign._repr_html_()


def test_a_run_shows_in_the_prefect_that_is_named_as_that_of_the_command_does(tmp_path, prefect_api):
    environment = {**os.environ, **prefect_api, "FIELDCRAFT_MLFLOW": "off"}
    done = warm_start.run(["-c", SHOWN, str(tmp_path)], environment, 120)
    assert done.returncode == 0, done.stderr
    assert "do not show" not in done.stdout and done.stdout.endswith("the lease is free\n")
    user, _, password = prefect_api["PREFECT_API_AUTH_STRING"].partition(":")
    with httpx.Client(base_url=f"{prefect_api['PREFECT_API_URL']}/", auth=(user, password)) as prefect:
        for name in ("shown", "told"):
            asked = {"flow_runs": {"name": {"any_": [name]}}}
            (run,) = prefect.post("flow_runs/filter", json=asked).json()
            flow = prefect.get(f"flows/{run['flow_id']}").json()
            assert (run["state_type"], flow["name"]) == ("COMPLETED", "run")
            deadline, steps = time.monotonic() + 30, Counter[str]()  # the server writes tasks down once a second
            while not (steps["harvest"] > 1 and steps["acquire"]) and time.monotonic() < deadline:
                tasks = prefect.post("task_runs/filter", json=asked).json()
                steps = Counter(task["name"].rpartition("-")[0] for task in tasks)
            assert steps["harvest"] > 1 and steps["acquire"], steps


def test_without_a_prefect_a_run_says_once_that_it_does_not_show_there(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    passes._say_so.cache_clear()
    campaign = fc.campaign("bowl", space={"x": (0.0, 1.0)}, minimize="y", algorithm=SOBOL, budget=3, home=tmp_path)
    campaign.run(lambda design: design["x"], trials=1)
    campaign.run(lambda design: design["x"])
    told = "These passes do not show in Prefect: PREFECT_API_URL names no server.\n"
    assert capsys.readouterr().out == told


def test_a_person_who_is_waited_for_is_named(rod):
    campaign = rod(approval="human")
    with pytest.raises(Unfinished, match="proposal to decide on"):
        campaign.run(lambda design: 1.0)


def test_the_card_has_the_state_and_the_trace_and_no_markup_of_a_name(tmp_path):
    campaign = fc.campaign(
        "card", home=tmp_path, algorithm=SOBOL, space={"<b>x</b>": (0, 1)}, minimize="<i>y</i>", budget=3
    )
    campaign.tell(campaign.ask().index[0], 2.0)
    page = campaign._repr_html_()
    assert "&lt;b&gt;x" in page
    assert "<b>" not in page and "<i>" not in page
    assert 'src="data:image/svg+xml;base64,' in page


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"budget": 7}, r"campaign 'rod': .*another specification \(budget.trials: 6 -> 7\)"),
        ({"minimize": None}, "give minimize or maximize"),
        ({"minimize": None, "minimise": "spread"}, r"rod: unknown key 'minimise'\. Did you mean 'minimize'\?"),
        ({"maximize": "spread"}, "name at least one, and each once"),
        ({"space": {"x": (1.0, 0.0)}}, "the lower must be below the upper"),
        ({"space": {"x": 3}}, r"x is 3: give \(low, high\)"),
        ({"space": {"x": [1, 2, 3]}}, r"x is \[1, 2, 3\]: .* Levels that are numbers are written as words"),
        ({"space": {"x": [True, False]}}, r"x is \[True, False\]: give"),
        ({"space": ["x"]}, r"space is \['x'\]: give a mapping of names to values"),
        ({"minimize": 5}, "minimize, maximize or constraints is 5: give a name, or several"),
        ({"constraints": [2]}, "minimize, maximize or constraints is 2: give a name, or several"),
        ({"budgt": 3}, "unknown key 'budgt'. Did you mean 'budget'"),
        ({"problem": {"kind": "branin"}, "space": None}, "the results are spread, and the problem's value"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_a_campaign_file(rod, changes, said):
    rod()
    with pytest.raises(InputError, match=said):
        rod(**changes)


def test_only_a_name_opens_a_campaign_that_exists(rod, tmp_path):
    rod().ask()
    assert list(fc.campaign("rod", home=tmp_path / "home").trials.index) == ["rod-0001"]
    with pytest.raises(InputError, match=r"No campaign 'rode' here\. Did you mean 'rod'"):
        fc.campaign("rode", home=tmp_path / "home")


def test_a_file_begins_a_campaign_too_and_takes_nothing_beside_it(tmp_path):
    file = tmp_path / "glue.yaml"
    file.write_text(
        "name: glue\nseed: 1\nsense: maximize\nproblem:\n  kind: declared\n  variables:\n"
        "    - {name: heat, low: 20, high: 90, unit: degC}\n    - {name: kind, choices: [A, B]}\n"
        "    - {name: coats, low: 1, high: 3, whole: true}\n  results: [{name: strength, unit: MPa}]\n"
        "algorithm: {start: {n: 4}}\ndispatcher: {kind: lab}\nbudget: {trials: 4}\n"
    )
    asked = fc.campaign(file, home=tmp_path).ask(4)
    assert set(asked.kind) <= {"A", "B"}
    assert all(isinstance(coats, int | np.integer) for coats in asked.coats)
    with pytest.raises(InputError, match="a campaign file says it all"):
        fc.campaign(file, home=tmp_path, budget=3)


def test_rights_hold_here_as_in_the_commands(rod, tmp_path, monkeypatch):
    campaign = rod()
    trial = campaign.ask().index[0]
    people = tmp_path / "people.yaml"
    people.write_text("users: {nobody-here: {role: viewer}}\n")
    people.chmod(0o600)
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(people))
    viewer = fc.campaign("rod", home=tmp_path / "home")
    for act in (viewer.ask, lambda: viewer.tell(trial, 1.0), lambda: viewer.decide(trial, "retry")):
        with pytest.raises(Refused):
            act()


def test_importing_fieldcraft_alone_imports_no_large_library():
    code = "import sys, fieldcraft; print([name for name in ('torch', 'pandas', 'xarray') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_a_home_that_is_no_path_is_refused():
    with pytest.raises(InputError, match="home is 5: give the path of a folder"):
        fc.campaign("rod", home=5)
