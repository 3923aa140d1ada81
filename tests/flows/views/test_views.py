"""What a person sees: what was spent, what waits and for whom, what was edited, corrected and really run."""

import csv
import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from small import SMALL

from fieldcraft.flows.analysis.best import best_trial
from fieldcraft.flows.cli import main
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.text import clock
from fieldcraft.flows.views.data import (
    next_steps,
    predicted_text,
    quantity,
    quantity_pm,
    show_data,
    status_data,
    trace_data,
)
from fieldcraft.flows.views.display import Display
from fieldcraft.flows.views.pending import queue_data, queue_text
from fieldcraft.flows.views.text import show_text, status_text, trace_text
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import (
    CampaignRecord,
    Grant,
    Known,
    Limits,
    Origin,
    Proposal,
    Trial,
    TrialState,
    digest_of,
)

HOSTILE = "fine\x1b[2J\x07\u202e\nsmall-0009: completed"
ENVIRONMENT = {"outputs": [{"name": "value", "unit": "K"}], "units": {"x1": "mm", "x2": ""}}


def campaign(home: Path, limits: Limits | None = None, **changes: Any) -> tuple[Ledger, str]:
    """A ledger with the small campaign and nothing else; ``changes`` are of its specification."""
    spec = parse({**yaml.safe_load(SMALL), **changes}, "test").model_dump(mode="json")
    ledger = open_ledger(home / "ledger.sqlite", create=True)
    ledger.create_campaign("small", spec, digest_of(spec), ENVIRONMENT, "ana", limits or Limits(trials=3))
    return ledger, "small"


def propose(ledger: Ledger, count: int = 1, cost: float = 1.0, iteration: int = 0) -> tuple[Trial, ...]:
    proposals = [
        Proposal(
            design={"x1": 1.0 + slot, "x2": 0.1},
            origin=Origin(kind="initial", algorithm="sobol", iteration=iteration, slot=slot),
            cost=cost,
        )
        for slot in range(count)
    ]
    return ledger.propose("small", iteration, proposals, "fieldcraft")


def run(ledger: Ledger, trial: Trial, comment: str = "") -> Trial:
    """The trial, approved by ana and sent."""
    trial = ledger.approve(trial.id, trial.expect, trial.digest, "ana", comment, "human", 2)
    trial = ledger.move(trial.id, TrialState.STAGED, trial.expect, "fieldcraft", "claimed")
    return ledger.move(trial.id, TrialState.RUNNING, trial.expect, "fieldcraft", "submitted", handle={"key": "k"})


def complete(ledger: Ledger, trial: Trial, value: float, **more: Any) -> Trial:
    done, _ = ledger.record(trial.id, trial.expect, {"value": value}, None, "fieldcraft", "local", {}, **more)
    return done


def status(ledger: Ledger) -> tuple[dict[str, Any], str]:
    """The status as data and as text; the data is JSON."""
    data = status_data(ledger, ledger.campaign("small"))
    return json.loads(json.dumps(data)), status_text(ledger, ledger.campaign("small"))


def stored(ledger: Ledger) -> CampaignRecord:
    return ledger.campaign("small")


def test_proposals_that_wait_for_a_person_are_counted_with_the_command_that_lists_them(tmp_path):
    ledger, _ = campaign(tmp_path, approval="human")
    propose(ledger, 2)
    data, text = status(ledger)
    assert data["waiting"]["approval"] == ["small-0001", "small-0002"]
    assert text.splitlines()[0] == "small: waits"
    assert "trials   0 of 3 sent: 2 proposed" in text
    assert "next     2 trials to approve: fieldcraft queue small" in text


def test_proposals_that_the_next_pass_approves_wait_for_nobody(tmp_path):
    ledger, _ = campaign(tmp_path)
    propose(ledger)
    data, text = status(ledger)
    assert data["waiting"]["approval"] == []
    assert text.splitlines()[0] == "small: stopped"
    assert "next     nobody makes passes over it: 'fieldcraft run FILE' or 'fieldcraft iterate small' goes on" in text


def test_a_campaign_of_the_first_version_whose_policy_stands_alone_is_shown(tmp_path):
    ledger, _ = campaign(tmp_path)
    old = {**stored(ledger).spec, "name": "old", "approval": "auto", "budget": {"trials": 7}, "dispatcher": {}}
    ledger.create_campaign("old", old, digest_of(old), ENVIRONMENT, "ana")
    data = status_data(ledger, ledger.campaign("old"))
    assert (data["budget"], data["spending"]["trials"]["limit"]) == (7, 7)
    assert "0 of 7 sent: none yet" in status_text(ledger, ledger.campaign("old"))


def test_a_held_trial_is_shown_with_its_reason_harmlessly(tmp_path):
    ledger, _ = campaign(tmp_path)
    trial = run(ledger, *propose(ledger))
    ledger.move(trial.id, TrialState.HELD, trial.expect, "fieldcraft", HOSTILE)
    data, text = status(ledger)
    assert data["waiting"]["held"] == [{"trial": "small-0001", "reason": HOSTILE}]
    assert r"held     small-0001: fine\x1b[2J\x07\u202e small-0009: completed" in text
    assert "next     1 trial held, to retry, record or abandon: fieldcraft queue small" in text


def test_experiments_that_a_laboratory_does_are_shown_as_waited_for(tmp_path):
    ledger, _ = campaign(tmp_path, simulator=None, dispatcher={"kind": "lab"})
    run(ledger, *propose(ledger))
    data, text = status(ledger)
    assert data["waiting"]["laboratory"] == ["small-0001"]
    assert "next     1 trial with the laboratory: fieldcraft record TRIAL --value NAME=NUMBER" in text


def test_simulations_are_not_waited_for_by_a_person(tmp_path):
    ledger, _ = campaign(tmp_path)
    run(ledger, *propose(ledger))
    assert status(ledger)[0]["waiting"]["laboratory"] == []


def test_a_retry_to_come_is_shown_with_its_time(tmp_path):
    ledger, _ = campaign(tmp_path, dispatcher={"backoff_s": 1000.0})
    trial = run(ledger, *propose(ledger))
    failed = ledger.move(trial.id, TrialState.FAILED, trial.expect, "fieldcraft", "no licence", failure="transient")
    data, text = status(ledger)
    (retry,) = data["waiting"]["retries"]
    assert retry["trial"] == failed.id
    assert retry["due"] == pytest.approx(failed.updated + 1000.0, abs=1.0)
    assert re.search(r"retry    small-0001 in (1000|9\d\d) s", text)


def test_spending_is_shown_against_every_limit_with_what_is_reserved(tmp_path):
    limits = Limits(trials=10, cost=50.0, seconds=7200.0, attempt_seconds=600.0)
    ledger, _ = campaign(tmp_path, limits, budget={"trials": 10, "cost": 50, "wall_time_h": 2, "unit": "EUR"})
    done, out = propose(ledger, 2, cost=5.0)
    complete(ledger, run(ledger, done), 1.0, cost=7.5, seconds=90.0)
    run(ledger, out)
    data, text = status(ledger)
    assert data["spending"] == {
        "trials": {"spent": 2, "reserved": 0, "limit": 10, "unit": ""},
        "cost": {"spent": 7.5, "reserved": 5.0, "limit": 50.0, "unit": "EUR"},
        "seconds": {"spent": 90.0, "reserved": 600.0, "limit": 7200.0, "unit": "s"},
    }
    assert "trials   2 of 10 sent: 1 completed, 1 running" in text
    assert "cost     7.5 EUR of 50 EUR spent, 5 EUR reserved" in text
    assert "time     90 s of 7200 s spent, 600 s reserved" in text


def test_what_has_no_limit_and_no_unit_is_not_spoken_of(tmp_path):
    ledger, _ = campaign(tmp_path)
    propose(ledger)
    text = status(ledger)[1]
    assert "cost" not in text
    assert "time" not in text


def test_imported_data_are_told_from_trials_that_were_sent(tmp_path):
    ledger, _ = campaign(tmp_path)
    ledger.adopt("small", [Known(design={"x1": 1.0, "x2": 2.0}, outputs={"value": 3.0})], "0" * 64, "data.csv", "ana")
    data, text = status(ledger)
    assert data["imported"] == 1
    assert "trials   0 of 3 sent: 1 completed; 1 imported, which count to no limit" in text


def test_the_best_is_what_was_really_run_and_a_retracted_result_is_never_it(tmp_path):
    ledger, _ = campaign(tmp_path)
    first, second = propose(ledger, 2)
    first = complete(ledger, run(ledger, first), 1.0)
    complete(ledger, run(ledger, second), 2.0, ran={"x1": 2.5, "x2": 0.1})
    best = best_trial(stored(ledger), ledger.trials("small"))
    assert best is not None
    assert best.id == first.id
    (counts,) = (result.id for result in ledger.results(first.id))
    ledger.correct(first.id, first.expect, counts, None, None, "ana", "the sensor was loose", {})
    data, text = status(ledger)
    assert data["best"] == {"trial": second.id, "design": {"x1": 2.5, "x2": 0.1}, "outputs": {"value": 2.0}}
    assert (data["corrected"], data["retracted"]) == (0, 1)
    assert "results  0 corrected, 1 retracted" in text
    assert "at x1 2.5 mm, x2 0.1" in text


def test_notices_are_counted_and_those_that_could_not_be_told_are_told_apart(tmp_path):
    ledger, _ = campaign(tmp_path)
    notice = ledger.notify("small", "budget nearly spent", "budget", {"limits": []})
    data, text = status(ledger)
    assert data["notices"] == {"waiting": 1, "failing": 0}
    assert "notices  1 not told; 'fieldcraft notices small' shows them" in text
    ledger.told(notice.id, False)
    data, text = status(ledger)
    assert data["notices"] == {"waiting": 1, "failing": 1}
    assert "notices  1 could not be told; 'fieldcraft notices small --deliver' tries and says why" in text
    ledger.told(notice.id, True)
    assert "notices" not in status(ledger)[1]


def test_a_finished_campaign_asks_nothing_of_anybody(tmp_path):
    ledger, _ = campaign(tmp_path, approval="human")
    propose(ledger)
    ledger.finish("small", HOSTILE, "fieldcraft")
    data, text = status(ledger)
    assert next_steps(data) == []
    assert text.splitlines()[0] == r"small: finished (fine\x1b[2J\x07\u202e small-0009: completed)"
    assert "  next " not in text


def test_a_campaign_whose_trials_all_failed_says_why_and_what_to_do(tmp_path):
    ledger, _ = campaign(tmp_path)
    for trial in propose(ledger, 2):
        sent = run(ledger, trial)
        ledger.move(sent.id, TrialState.FAILED, sent.expect, "fieldcraft", HOSTILE, failure="unknown")
    data, text = status(ledger)
    assert data["fruitless"].startswith("all 2 trials failed: fine")
    assert "\n  failed   all 2 trials failed: fine" in text
    mended = "mend what failed ('fieldcraft show small-0001' says more)"
    assert next_steps(data) == [f"{mended}, then 'fieldcraft retry small-0001 small-0002'"]
    ledger.finish("small", "budget", "fieldcraft")
    data, text = status(ledger)
    assert text.endswith(f"next     {mended}, and begin a campaign of another name: this one sends nothing more")


def edited(ledger: Ledger) -> Trial:
    """A trial with two revisions, a priority, an expiring approval, and a result that was corrected."""
    (trial,) = propose(ledger)
    trial = ledger.approve(trial.id, trial.expect, trial.digest, "ben", "looks fine", "human", 1)
    trial = ledger.edit(trial.id, trial.expect, {"x1": 4.0, "x2": 0.1}, 2.5, "ana", HOSTILE)
    ledger.prioritise(trial.id, 7, "ana", "soon")
    trial = ledger.approve(trial.id, trial.expect, trial.digest, "ana", HOSTILE, "human", 2, time.time() + 3600.0)
    trial = ledger.move(trial.id, TrialState.STAGED, trial.expect, "fieldcraft", "claimed")
    trial = ledger.move(trial.id, TrialState.RUNNING, trial.expect, "fieldcraft", "submitted", handle={"key": "k"})
    trial, first = ledger.record(
        trial.id, trial.expect, {"value": 3.0}, None, "ana", "person", {}, ran={"x1": 4.1, "x2": 0.1}, seconds=12.0
    )
    ledger.correct(trial.id, trial.expect, first.id, {"value": 3.5}, None, "ben", "read wrongly", {}, ran=trial.ran)
    return ledger.trial(trial.id)


def test_a_trial_shows_its_revisions_approvals_results_and_what_was_really_run(tmp_path):
    ledger, _ = campaign(tmp_path, budget={"trials": 3, "unit": "EUR"})
    text = show_text(ledger, edited(ledger))
    assert "small-0001: completed, iteration 0, slot 0, attempt 1, revision 2, priority 7" in text
    assert "  design   x1 4 mm, x2 0.1\n  ran      x1 4.1 mm, other than asked\n  outputs  value 3.5 K\n" in text
    assert "  cost     2.5 EUR expected of an attempt, 2.5 EUR spent in 12.0 s\n" in text
    escaped = r"fine\x1b[2J\x07\u202e small-0009: completed"
    assert f"ben, policy human, revision 1, 1 attempt: looks fine [void: edited: {escaped}]" in text
    assert f"ana: x1 1 mm -> x1 4 mm: {escaped}" in text
    assert "ana, policy human, revision 2, 2 attempts, until " in text
    assert "accepted, attempt 1: value 3 K, by ana (person)" in text
    assert "correction of 1, attempt 1: value 3.5 K, by ben (" in text
    assert all(line.isprintable() for line in text.splitlines())
    assert not any(line.startswith("small-0009") for line in text.splitlines())


def test_a_trial_as_data_is_json_and_keeps_what_people_wrote_as_they_wrote_it(tmp_path):
    ledger, _ = campaign(tmp_path)
    data = json.loads(json.dumps(show_data(ledger, edited(ledger))))
    (revision,) = data["revisions"]
    assert (revision["by"], revision["reason"]) == ("ana", HOSTILE)
    assert (revision["was"], revision["design"]) == ({"x1": 1.0, "x2": 0.1}, {"x1": 4.0, "x2": 0.1})
    assert [approval["comment"] for approval in data["approvals"]] == ["looks fine", HOSTILE]
    assert [result["replaces"] for result in data["results"]] == [None, 1]


def test_a_retracted_trial_says_so_where_its_outputs_were(tmp_path):
    ledger, _ = campaign(tmp_path)
    trial = edited(ledger)
    ledger.correct(trial.id, trial.expect, 2, None, None, "ana", "wrong sample", {})
    text = show_text(ledger, ledger.trial(trial.id))
    assert "  outputs  retracted\n" in text
    assert "retraction of 2, attempt 1, by ana (" in text


def test_a_failed_trial_shows_the_kind_of_its_failure(tmp_path):
    ledger, _ = campaign(tmp_path)
    trial = run(ledger, *propose(ledger))
    failed = ledger.move(trial.id, TrialState.FAILED, trial.expect, "fieldcraft", "no", failure="infeasible")
    assert "small-0001: failed, iteration 0, slot 0, attempt 1, failure infeasible\n" in show_text(ledger, failed)


def test_a_prediction_is_said_to_be_older_than_an_edit(tmp_path):
    ledger, _ = campaign(tmp_path)
    origin = Origin(kind="model", algorithm="a x b x c", iteration=1, slot=0, mean=2.0, sd=0.5)
    (trial,) = ledger.propose("small", 1, [Proposal(design={"x1": 1.0, "x2": 2.0}, origin=origin)], "fieldcraft")
    assert "  foreseen 2 +- 0.5 K by a x b x c\n" in show_text(ledger, trial)
    trial = ledger.edit(trial.id, trial.expect, {"x1": 1.5, "x2": 2.0}, 1.0, "ana", "")
    assert "  foreseen 2 +- 0.5 K by a x b x c before the edit ('fieldcraft predict small-0001' asks" in show_text(
        ledger, trial
    )


def test_a_prediction_has_the_figures_that_its_standard_deviation_leaves():
    first = {"output": "p", "unit": "Pa", "mean": 100000.2286, "sd": 0.248207}
    assert predicted_text(first) == "p 100000.23 +- 0.248 Pa"
    assert predicted_text({**first, "sd": 0.0}, named=False) == "100000 Pa"
    both = {**first, "others": [{"output": "price", "unit": "EUR", "mean": 3.0, "sd": 0.25}], "feasible": 0.5}
    assert predicted_text(both) == "p 100000.23 +- 0.248 Pa, price 3 +- 0.25 EUR, feasible with probability 0.5"


def test_the_lineage_tells_revisions_and_results_harmlessly(tmp_path):
    ledger, _ = campaign(tmp_path)
    data = trace_data(ledger, edited(ledger), None, None)
    assert [revision["by"] for revision in data["revisions"]] == ["ana"]
    first, second = data["results"]
    assert (first["verdict"], first["replaces"], second["replaces"]) == ("accepted", None, first["id"])
    text = trace_text(data)
    assert all(line.isprintable() for line in text.splitlines())
    assert r"fine\x1b[2J\x07\u202e small-0009: completed" in text


def test_a_model_that_does_not_say_which_results_it_saw_is_traced_all_the_same(tmp_path):
    ledger, _ = campaign(tmp_path)
    payload = {"surrogate": None, "metrics": {}, "seconds": 1.0, "trials": ["small-0001"], "environment": {}}
    model = ledger.note("small", 1, "train", payload, None)
    origin = Origin(kind="model", algorithm="a x b x c", iteration=1, slot=0, model=model.ref, data_digest="0" * 64)
    (trial,) = ledger.propose("small", 1, [Proposal(design={"x1": 1.0, "x2": 2.0}, origin=origin)], "fieldcraft")
    assert trace_data(ledger, trial, None, None)["data"] == {
        "digest": "0" * 64,
        "trials": ["small-0001"],
        "results": None,
    }


def test_the_csv_has_what_was_run_where_it_differed_and_what_was_corrected(tmp_path, capsys):
    ledger, _ = campaign(tmp_path)
    trial = edited(ledger)
    later, gone = propose(ledger, 2, iteration=1)
    complete(ledger, run(ledger, later), 0.1 + 0.2)
    gone = complete(ledger, run(ledger, gone), 4.0)
    ledger.correct(gone.id, gone.expect, ledger.results(gone.id)[0].id, None, None, "ana", "wrong", {})
    assert main(["export", "small", "--csv", str(tmp_path / "out.csv"), "--home", str(tmp_path)]) == 0
    with (tmp_path / "out.csv").open(newline="") as stream:
        rows = {row["trial"]: row for row in csv.DictReader(stream)}
    first = rows[trial.id]
    assert (first["priority"], first["corrected"]) == ("7", "corrected")
    assert (first["design.x1"], first["ran.x1"], first["ran.x2"]) == ("4.0", "4.1", "")
    assert (first["cost"], first["spent"], first["seconds"]) == ("2.5", "2.5", "12.0")
    assert float(rows[later.id]["output.value"]) == 0.1 + 0.2
    assert (rows[gone.id]["corrected"], rows[gone.id]["output.value"]) == ("retracted", "")


def measured(ledger: Ledger) -> Trial:
    """A trial of which somebody told the standard deviation, and more."""
    trial, said = run(ledger, *propose(ledger)), {"sd": {"value": 0.8}, "note": HOSTILE}
    return ledger.record(trial.id, trial.expect, {"value": 51.0}, None, "ana", "person", said)[0]


def test_what_was_said_of_a_result_is_shown_with_it_harmlessly(tmp_path):
    ledger, _ = campaign(tmp_path)
    text = show_text(ledger, measured(ledger))
    escaped = r"fine\x1b[2J\x07\u202e small-0009: completed"
    assert f"accepted, attempt 1: value 51 K (sd 0.8), by ana (person): {escaped}\n" in text


def test_the_csv_has_standard_deviations_and_notes_on_one_line(tmp_path):
    ledger, _ = campaign(tmp_path)
    measured(ledger)
    assert main(["export", "small", "--csv", str(tmp_path / "out.csv"), "--home", str(tmp_path)]) == 0
    header, row = (tmp_path / "out.csv").read_text().splitlines()
    assert header.endswith(",output.value,sd.value,note")
    assert row.endswith(r",51.0,0.8,fine\x1b[2J\x07\u202e small-0009: completed")


def test_a_unit_cannot_make_lines_of_its_own():
    assert quantity(2.0, "EUR\nheld") == "2 EUR held"


def test_a_notice_is_past_when_all_its_trials_were_decided_on(tmp_path, capsys):
    ledger, _ = campaign(tmp_path, approval="human")
    first, second = propose(ledger, 2)
    ledger.notify("small", "approval waiting", "a", {"trials": [first.id, second.id]})
    run(ledger, first)
    assert status(ledger)[0]["notices"]["waiting"] == 1
    run(ledger, second)
    data, text = status(ledger)
    assert data["notices"] == {"waiting": 0, "failing": 0}
    assert "notices" not in text
    assert main(["notices", "--home", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "Nothing waits to be told.\n"


def test_where_nobody_is_told_of_notices_only_a_try_that_failed_is_spoken_of(tmp_path):
    ledger, _ = campaign(tmp_path)
    notice = ledger.notify("small", "budget nearly spent", "budget", {"limits": []})
    assert "notices" not in status_text(ledger, stored(ledger), telling=False)
    ledger.told(notice.id, False)
    assert "notices  1 could not be told" in status_text(ledger, stored(ledger), telling=False)


def test_status_speaks_of_notices_where_a_channel_is_set(tmp_path, capsys, monkeypatch):
    ledger, _ = campaign(tmp_path)
    ledger.notify("small", "budget nearly spent", "budget", {"limits": []})
    assert main(["status", "--home", str(tmp_path)]) == 0
    assert "notices" not in capsys.readouterr().out
    monkeypatch.setenv("FIELDCRAFT_NOTIFY_COMMAND", "true")
    assert main(["status", "--home", str(tmp_path)]) == 0
    assert "notices  1 not told" in capsys.readouterr().out


def test_times_are_told_in_utc_with_the_zone(tmp_path):
    ledger, _ = campaign(tmp_path)
    trial = edited(ledger)
    (approval,) = [approval for approval in ledger.approvals(trial.id) if approval.live]
    text = trace_text(trace_data(ledger, trial, None, None))
    for at in (approval.created, approval.expires):
        assert re.search(rf" {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC$", text, re.MULTILINE)
    told = [line.split("  ")[-2] for line in show_text(ledger, trial).splitlines() if ": looks fine [void" in line]
    assert told == [f"{datetime.fromtimestamp(ledger.approvals(trial.id)[0].created, UTC):%Y-%m-%d %H:%M:%S} UTC"]


def test_the_queue_lists_what_the_laboratory_has(tmp_path):
    ledger, _ = campaign(tmp_path, simulator=None, dispatcher={"kind": "lab"})
    trial, _ = propose(ledger, 2)
    run(ledger, trial)
    data = json.loads(json.dumps(queue_data(ledger, stored(ledger))))
    assert [(entry["trial"], entry["order"]) for entry in data["laboratory"]] == [(trial.id, f"{trial.id}-1")]
    text = queue_text(data, time.time() + 7200.0)
    assert "  with the laboratory\n" in text
    assert f"order {trial.id}-1, given 2 h ago: 'fieldcraft record {trial.id} --value NAME=NUMBER'" in text
    given = clock(data["laboratory"][0]["since"])
    assert f"order {trial.id}-1, given on {given}: 'fieldcraft record" in queue_text(data, time.time() - 7200.0)


def test_what_simulations_do_is_not_in_the_queue(tmp_path):
    ledger, _ = campaign(tmp_path)
    run(ledger, *propose(ledger))
    assert queue_data(ledger, stored(ledger))["laboratory"] == []
    assert queue_text(queue_data(ledger, stored(ledger)), time.time()) == "small: nothing waits"


@pytest.mark.parametrize(
    ("event", "step"),
    [("failed", "harvest"), ("held", "harvest"), ("cancelled", "harvest"), ("late", "harvest"), ("retry", "dispatch")],
)
def test_progress_tells_what_became_of_a_trial_harmlessly(tmp_path, capsys, event, step):
    ledger, _ = campaign(tmp_path)
    (trial,) = propose(ledger)
    Display(lambda: ledger, as_json=False)(event, {"trial": trial, "reason": HOSTILE})
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith(rf"{step:<9}  small-0001  {event}: fine\x1b[2J\x07\u202e small-0009: completed")


@pytest.mark.parametrize(
    ("event", "details", "said"),
    [
        ("refused", {"reason": HOSTILE}, r"is refused: fine\x1b[2J\x07\u202e small-0009: completed"),
        ("taken", {"lines": [HOSTILE]}, r": fine\x1b[2J\x07\u202e small-0009: completed"),
    ],
)
def test_progress_tells_what_came_of_a_laboratorys_file_harmlessly(tmp_path, capsys, event, details, said):
    ledger, _ = campaign(tmp_path)
    Display(lambda: ledger, as_json=False)(event, {"file": "batch\x1b.csv", **details})
    (line,) = capsys.readouterr().out.splitlines()
    assert "laboratory: batch\\x1b.csv" in line
    assert line.endswith(said)


def test_progress_tells_of_a_notice_that_could_not_be_told(tmp_path, capsys):
    ledger, _ = campaign(tmp_path)
    Display(lambda: ledger, as_json=False)("untold", {"notice": 1, "reason": "The webhook at h answered 500."})
    assert "a notice could not be told: The webhook at h answered 500." in capsys.readouterr().out


def test_status_of_many_trials_asks_the_ledger_a_few_questions_only(tmp_path):
    ledger, _ = campaign(tmp_path, budget={"trials": 500})
    grants = [Grant(trial=trial.id, expect=trial.expect, digest=trial.digest) for trial in propose(ledger, 400)]
    ledger.approve_all(grants, "ana", "", "human", 1)

    def seconds() -> float:
        began = time.process_time()
        status_text(ledger, stored(ledger))
        return time.process_time() - began

    assert min(seconds() for _ in range(3)) < 0.5


CHOSEN = {"chosen": "exact_gp", "out.dngo": "fine\nsmall-0009: completed"}


def test_what_a_model_was_chosen_among_is_shown_best_first_and_traced_harmlessly(tmp_path):
    ledger, _ = campaign(tmp_path)
    payload = {"surrogate": None, "metrics": {}, "seconds": 1.0, "trials": [], "environment": {}, "remarks": CHOSEN}
    model = ledger.note("small", 1, "train", payload, None)
    scores = {"physics_informed/basis": -20.25, "exact_gp": -3.0}
    origin = Origin(
        kind="model", algorithm="a x b x c", iteration=1, slot=0, model=model.ref, remarks=CHOSEN, scores=scores
    )
    (trial,) = ledger.propose("small", 1, [Proposal(design={"x1": 1.0, "x2": 2.0}, origin=origin)], "fieldcraft")
    text = show_text(ledger, trial)
    assert "  scores   exact_gp -3.0, physics_informed/basis -20.2\n" in text
    assert "  model    chosen: exact_gp; out.dngo: fine small-0009: completed\n" in text
    data = json.loads(json.dumps(trace_data(ledger, trial, None, None)))
    assert list(data["acquisition"]["scores"].items()) == [("exact_gp", -3.0), ("physics_informed/basis", -20.25)]
    assert data["acquisition"]["remarks"] == data["model"]["remarks"] == CHOSEN
    assert re.search(r"^    exact_gp +-3.0\n", trace_text(data), re.MULTILINE)


def test_a_design_that_was_not_chosen_by_scores_has_none_to_show(tmp_path):
    ledger, _ = campaign(tmp_path)
    (trial,) = propose(ledger)
    assert "scores" not in show_text(ledger, trial)
    assert re.search(r"^  scores +-$", trace_text(trace_data(ledger, trial, None, None)), re.MULTILINE)


def test_a_standard_deviation_of_zero_is_not_shown():
    assert quantity_pm(50.2, 0.8, "MPa") == "50.2 +- 0.8 MPa"
    assert quantity_pm(50.2, 0.0, "MPa") == "50.2 MPa"


@pytest.mark.parametrize("as_json", [False, True])
def test_a_simulation_that_waits_is_told_once_for_each_reason(tmp_path, capsys, as_json):
    ledger, _ = campaign(tmp_path)
    (trial,) = propose(ledger)
    shown = Display(lambda: ledger, as_json=as_json)
    for reason in ("no worker", "no worker", "late", "no worker"):
        shown("waits", {"trial": trial, "reason": reason})
    told = capsys.readouterr().out.splitlines()
    assert [("no worker" in line, "late" in line) for line in told] == [(True, False), (False, True)]
