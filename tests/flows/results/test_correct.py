"""Corrections and models: each model is rebuilt from the very results it saw, and the next one sees what counts."""

from pathlib import Path

import pytest
from bench import Bench, bench

from fieldcraft.flows.analysis.learnt import learnt_by
from fieldcraft.flows.files.tables import Measurement
from fieldcraft.flows.products import Seen, Trained
from fieldcraft.flows.results.correct import correct, retract
from fieldcraft.flows.results.record import check_correction
from fieldcraft.flows.steps import acquire, decide, train
from fieldcraft.flows.wiring.context import Site, site_of
from fieldcraft.flows.wiring.observations import observations, seen_by

CAMPAIGN = """\
name: bench
seed: 3
sense: minimize
problem: {kind: branin}
algorithm:
  start: {n: 3}
  surrogate: {kind: exact_gp}
  acquisition: {kind: log_ei}
  maximizer: {kind: multistart}
approval: human
dispatcher: {kind: lab}
budget: {trials: 8}
"""


def trained(folder: Path, patch: pytest.MonkeyPatch) -> tuple[Bench, Site]:
    """Three results are in, and the model of iteration 1 is trained; its designs are still to be proposed."""
    made = bench(folder, CAMPAIGN, patch)
    made.order()
    for number, value in enumerate((25.0, 3.0, 120.0), start=1):
        assert made.run("record", f"bench-{number:04d}", "--value", f"value={value}")[0] == 0
    site = site_of(str(made.settings.home), "bench", None)
    decision = decide.decide(site)
    assert (decision.propose, decision.iteration, decision.model) == (1, 1, True)
    train.train(site, 1)
    return made, site


def designs(site: Site) -> list[object]:
    return [trial.design for trial in acquire.acquire(site, 1, 1)]


def test_a_correction_between_training_and_acquisition_changes_no_proposal(tmp_path, monkeypatch):
    (_, plain), (made, corrected), (_, retracted), (_, ran) = (
        trained(tmp_path / name, monkeypatch) for name in ("plain", "corrected", "retracted", "ran")
    )
    expected = designs(plain)
    reading = Measurement("bench-0002", values={"value": 300.0})
    done = correct(corrected, check_correction(corrected, reading), "ana", "misread")
    assert list(done.models) == [1]
    assert done.proposals == ()
    retract(retracted, "bench-0002", "ana", "spilt")
    other = Measurement("bench-0002", ran={"x1": 0.0})
    correct(ran, check_correction(ran, other), "ana", "another sample")
    assert designs(corrected) == expected
    assert designs(retracted) == expected
    assert designs(ran) == expected
    again = retract(corrected, "bench-0002", "ana", "spilt")
    assert (again.models, again.proposals) == ({}, ())  # that model had seen the first value, not the second
    assert made.ledger.check() == []


def test_the_next_model_learns_what_counts_where_it_was_really_run(tmp_path, monkeypatch):
    made, site = trained(tmp_path, monkeypatch)
    first = made.ledger.product("bench", 1, "train")
    reading = Measurement("bench-0002", values={"value": 300.0}, ran={"x1": 0.0})
    new = correct(site, check_correction(site, reading), "ana", "misread")
    retract(site, "bench-0003", "ana", "spilt")
    second = train.train(site, 2)
    results = made.ledger.campaign_results("bench")
    learnt = learnt_by(Trained.of(second), results)
    assert {trial: result.id for trial, result in learnt.items()} == {
        "bench-0001": made.ledger.results("bench-0001")[0].id,
        "bench-0002": new.result,
    }
    assert Trained.of(second).seen == Seen.of([result.id for result in learnt.values()], results[-1].id)
    assert not {"trials", "results"} & second.payload.keys(), "a model names a count and a digest, and not every trial"
    seen = seen_by(second, site.ledger.summaries("bench"), site.ledger.result_summaries("bench"))
    data = observations(site.campaign, seen, None)
    assert data.digest == second.payload["data_digest"] != first.payload["data_digest"]
    assert data.y.tolist() == [25.0, 300.0]
    assert site.campaign.space.decode(data.X)[1]["x1"] == pytest.approx(0.0, abs=1e-12)
    assert made.ledger.product("bench", 1, "train") == first


def test_a_retraction_names_the_models_and_the_trials_they_proposed(tmp_path, monkeypatch):
    made, site = trained(tmp_path, monkeypatch)
    (proposed,) = acquire.acquire(site, 1, 1)
    done = made.json("retract", "bench-0001", "--reason", "spilt")
    assert done["models"] == {"1": made.ledger.product("bench", 1, "train").digest}
    assert done["proposals"] == [proposed.id]
    out = made.run("correct", "bench-0002", "--value", "value=4", "--reason", "misread")[1]
    assert "the model of iteration 1 had seen the old value (" in out
    assert f"\n  {proposed.id} was proposed by such a model\n" in out
    assert out.endswith("Nothing of that is undone: the next model learns from what counts now.\n")


def test_a_cost_alone_is_corrected_and_no_model_has_anything_to_learn(tmp_path, monkeypatch):
    made, site = trained(tmp_path, monkeypatch)
    assert made.run("correct", "bench-0002", "--cost", "0.25", "--reason", "a slip")[:2] == (
        0,
        "bench-0002: corrected to cost 0.25; its outputs stay (result 4 replaces 2).\n",
    )
    trial, spending = made.ledger.trial("bench-0002"), made.ledger.spending("bench")
    assert (trial.outputs, trial.spent, spending.spent) == ({"value": 3.0}, 0.25, 2.25)
    status, _, error = made.run("correct", "bench-0002", "--cost", "0.25", "--reason", "a slip")
    assert status == 2 and "says this already" in error
    both = made.run("correct", "bench-0002", "--value", "value=4", "--seconds", "60", "--reason", "a slip")[1]
    assert both.startswith(
        "bench-0002: corrected to value 4, seconds 60 (result 5 replaces 4).\n  the model of iteration 1"
    )
    assert list(retract(site, "bench-0003", "ana", "spilt").models) == [1]
    assert made.ledger.check() == []


def test_a_model_saw_the_value_whose_cost_was_corrected_since(tmp_path, monkeypatch):
    made, site = trained(tmp_path, monkeypatch)
    made.run("correct", "bench-0002", "--cost", "3", "--reason", "a slip")
    assert list(retract(site, "bench-0002", "ana", "spilt").models) == [1]


def test_a_correction_after_the_end_says_that_no_model_learns_from_it(tmp_path, monkeypatch):
    made, _ = trained(tmp_path, monkeypatch)
    lease = made.ledger.acquire("bench")
    made.ledger.fenced(lease).finish("bench", "target: reached", "fieldcraft")
    made.ledger.release(lease)
    out = made.run("correct", "bench-0002", "--value", "value=4", "--reason", "misread")[1]
    assert "had seen the old value (" in out and "Nothing of that is undone" not in out
    assert "The campaign has ended (target: reached), so that no later model learns from what counts now." in out


def test_a_rejected_design_is_not_proposed_again(tmp_path, monkeypatch):
    made, site = trained(tmp_path, monkeypatch)
    (proposed,) = acquire.acquire(site, 1, 1)
    assert made.run("reject", proposed.id, "--reason", "too hot")[0] == 0
    train.train(site, 2)
    (instead,) = acquire.acquire(site, 2, 1)
    gap = max(abs(float(instead.design[name]) - float(proposed.design[name])) for name in ("x1", "x2"))
    assert gap > 0.1
