"""Standard deviations that a laboratory states, or a problem: they train the model, and are found again later."""

import dataclasses
import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from bench import OVEN, OVEN_CAMPAIGN, Bench, bench
from rig import rig

from fieldcraft.flows.analysis.best import best_of
from fieldcraft.flows.analysis.noise import noisy, noisy_constraints, stated_sds
from fieldcraft.flows.desk.parts.cards import reasons
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.jobs.dispatcher import Job
from fieldcraft.flows.products import Trained
from fieldcraft.flows.recovery.reproduce import remade
from fieldcraft.flows.rules.approved_code import covered
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.steps.dispatch import request_of
from fieldcraft.flows.views.text import show_text
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.observations import data_of, seen_by
from fieldcraft.storage.records import ResultSummary

WORDS = "  surrogate: {kind: %s}\n  acquisition: {kind: log_ei}\n  maximizer: {kind: multistart}\n"


def oven(folder: Path, patch: pytest.MonkeyPatch, surrogate: str = "exact_gp") -> Bench:
    """An oven whose first three parts were measured."""
    text = OVEN_CAMPAIGN.replace("  start: {n: 3}\n", "  start: {n: 3}\n" + WORDS % surrogate)
    made = bench(folder, text.replace("approval: batch", "approval: auto"), patch)
    made.make_pass()
    for number, sd in ((1, "0.5"), (2, "4"), (3, None)):
        words = ["record", f"oven-000{number}", "--value", f"strength={40 + 7 * number}", "--value", "porosity=-1"]
        assert made.run(*words, *(["--sd", f"strength={sd}"] if sd else []))[0] == 0
    return made


def learnt(made: Bench, **changes: object):
    """Data of the latest model, as its product names them."""
    site, ledger = made.site, made.ledger
    product = ledger.latest("oven", "train")
    product = product.model_copy(update={"payload": {**product.payload, **changes}})
    results = ledger.result_summaries("oven")
    seen = seen_by(product, ledger.summaries("oven"), results)
    return data_of(site.campaign, product, seen, None, results=results), Trained.of(product)


def test_what_a_laboratory_states_trains_the_model_and_is_found_again(tmp_path, monkeypatch):
    made = oven(tmp_path, monkeypatch)
    made.make_pass()
    data, model = learnt(made)
    np.testing.assert_array_equal(data.sds, [[0.5, np.nan], [4.0, np.nan], [np.nan, np.nan]])
    assert data.digest == model.data_digest
    assert model.remarks["noise"] == "stated by 2 of 3 results"
    assert made.ledger.trial("oven-0004").origin.remarks["noise"] == "stated by 2 of 3 results"
    # What is said later does not change what this model saw.
    assert made.run("record", "oven-0003", "--value", "strength=61", "--sd", "strength=2")[0] == 0
    assert made.run("correct", "oven-0002", "--value", "strength=50", "--reason", "scale")[0] == 0
    assert learnt(made)[0].digest == model.data_digest
    now = stated_sds(made.ledger.result_summaries("oven"))
    assert now == {"oven-0001": {"strength": 0.5}, "oven-0002": {"strength": 4.0}, "oven-0003": {"strength": 2.0}}
    product = made.ledger.latest("oven", "train")
    assert remade(made.site, product).equals(made.site.fields.read(product.reference))


def test_the_order_of_a_repeat_says_of_what(tmp_path, monkeypatch):
    made = oven(tmp_path, monkeypatch)
    site, trial = made.site, made.ledger.trial("oven-0001")
    repeat = trial.origin.model_copy(update={"remarks": {"repeat": "of oven-0002"}})
    code = covered(site.campaign.spec, site.campaign.settings)
    for key, origin, revision in (("one-1", trial.origin, 1), ("one-2", repeat, 1), ("one-3", repeat, 2)):
        told = request_of(site, trial.model_copy(update={"origin": origin, "revision": revision}), code)
        site.campaign.dispatcher.submit(Job(trial.id, key, told))
    orders = [json.loads((made.orders / "open" / f"one-{n}.json").read_text()) for n in (1, 2, 3)]
    assert [order.get("repeat") for order in orders] == [None, "of oven-0002", None]  # an edit makes it another design


def test_a_model_of_a_version_that_did_not_learn_from_them_has_none(tmp_path, monkeypatch):
    made = oven(tmp_path, monkeypatch)
    made.make_pass()
    assert learnt(made, weighed=False)[0].sds.size == 0
    site, ledger = made.site, made.ledger
    product = ledger.latest("oven", "train")
    older = {name: value for name, value in product.payload.items() if name != "weighed"}
    assert not Trained.of(product.model_copy(update={"payload": older})).weighed
    assert dataclasses.asdict(Trained.of(product))["weighed"]
    assert site.campaign.noisy


def test_a_surrogate_that_does_not_use_them_says_so(tmp_path, monkeypatch):
    made = oven(tmp_path, monkeypatch, "random_forest")
    made.make_pass()
    said = "stated by 2 of 3 results, and not used: the surrogate exact_gp does"
    assert learnt(made)[1].remarks["noise"] == said
    assert "the surrogate random_forest does not use it: exact_gp does" in made.json("check", made.file)["note"]


def test_duplicates_add_corrections_replace_and_retractions_forget():
    def result(number: int, verdict: str, **sd: float) -> ResultSummary:
        return ResultSummary(number, "b-1", {"y": 1.0}, None, verdict, None, sd)

    history = [result(1, "partial", y=9.0), result(2, "accepted", y=1.0), result(3, "duplicate", g=2.0)]
    assert stated_sds(history) == {"b-1": {"y": 1.0, "g": 2.0}}
    assert stated_sds([*history, result(4, "superseded", y=7.0)]) == {"b-1": {"y": 1.0, "g": 2.0}}
    assert stated_sds([*history, result(4, "accepted", y=3.0)]) == {"b-1": {"y": 3.0}}
    assert stated_sds([*history, result(4, "retraction")]) == {}
    assert stated_sds([*history, result(4, "retraction"), result(5, "duplicate", y=3.0)]) == {}


CUPS = """
from dataclasses import dataclass

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, SearchSpace


@dataclass(frozen=True)
class Cups(Problem):
    \"\"\"Warmth, and a limit.\"\"\"

    @property
    def space(self):
        return SearchSpace((Continuous("size", 1, 3),))

    @property
    def outputs(self):
        return (Output("warmth", "K", sd=0.25), Output("limit", sd=0.0))

    def function(self, design):
        return {"warmth": (2.0 - design["size"]) ** 2, "limit": -1.0}
"""


def cups(folder: Path, patch: pytest.MonkeyPatch, **given: object):
    (folder / "plugins" / "problems").mkdir(parents=True)
    (folder / "plugins" / "problems" / "cups.py").write_text(CUPS)
    patch.setenv("FIELDCRAFT_PLUGINS", str(folder / "plugins"))
    words = {"surrogate": {"kind": "exact_gp", "noise": "known"}, "acquisition": {"kind": "log_ei"}}
    keys = {"problem": {"kind": "cups"}, "simulator": {"kind": "function"}, "dispatcher": {"kind": "inline"}}
    keys |= {"algorithm": {"start": {"n": 4}, **words, "maximizer": {"kind": "multistart"}}, "budget": {"trials": 5}}
    return rig(folder, **{**keys, **given})


def test_what_the_problem_states_of_an_output_is_that_of_each_of_its_results(tmp_path, monkeypatch):
    made = cups(tmp_path, monkeypatch)
    made.finish()
    assert made.campaign.noisy
    assert not made.campaign.noisy_constraints  # an sd of 0 is that of an exact output
    metrics = Trained.of(made.ledger.latest("b", "train")).metrics
    assert metrics["noise_sd"] == pytest.approx(1e-3)  # all that is left beside what is stated
    best = best_of(made.ledger, made.ledger.campaign("b"), made.ledger.trials("b"))
    assert best.by_model


@pytest.mark.parametrize(
    ("outputs", "spec", "results", "constraints"),
    [
        (("y", "g"), {}, False, False),
        (("y", "g"), {"noise": {"sd": 0.1}}, True, False),
        (("y", "g"), {"dispatcher": {"noisy": True}}, True, True),
        (("y 0.3", "g"), {}, True, False),
        (("y", "g 0.3"), {}, True, True),
        (("y", "g 0"), {}, False, False),
        (("min y", "max z 0.3"), {}, True, False),
        (("min y", "max z", "g 0.3"), {}, True, True),
    ],
)
def test_results_and_constraints_are_noisy_by_what_the_record_says(outputs, spec, results, constraints):
    told = []
    for text in outputs:
        *marked, name = [word for word in text.split() if not word[0].isdigit()]
        sd = [float(word) for word in text.split() if word[0].isdigit()]
        told.append({"name": name} | ({"objective": marked[0]} if marked else {}) | ({"sd": sd[0]} if sd else {}))
    assert noisy(spec, told, people=False) is results
    assert noisy_constraints(spec, told, people=False) is constraints
    assert noisy(spec, told, people=True) and noisy_constraints(spec, told, people=True)


def test_noise_is_not_stated_and_added_at_once(tmp_path, monkeypatch):
    said = "noise: the campaign file gives results of 'warmth' the standard deviation 0.1, and the problem 0.25"
    with pytest.raises(InputError, match=said):
        cups(tmp_path, monkeypatch, noise={"sd": 0.1})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"surrogate": {"kind": "exact_gp", "noise": "known"}}, None),
        ({"surrogate": {"kind": "additive_gp", "noise": "known"}}, "states the noise of warmth to this surrogate"),
        (
            {
                "surrogate": {"kind": "exact_gp"},
                "constraints": {"surrogate": {"kind": "additive_gp", "noise": "known"}},
            },
            r"algorithm.constraints.surrogate.noise is known, .* State noise: {sd: ...} in the campaign file, or leave",
        ),
    ],
)
def test_noise_is_known_where_something_states_it(tmp_path, monkeypatch, words, said):
    algorithm = {"start": {"n": 4}, "acquisition": {"kind": "log_ei"}, "maximizer": {"kind": "multistart"}, **words}
    with pytest.raises(InputError, match=said) if said else nullcontext():
        cups(tmp_path, monkeypatch, algorithm=algorithm)


def test_noise_that_nothing_states_is_not_known_unless_people_may_state_it(tmp_path, monkeypatch):
    words = {"surrogate": {"kind": "exact_gp", "noise": "known"}, "acquisition": {"kind": "log_ei"}}
    algorithm = {"start": {"n": 4}, **words, "maximizer": {"kind": "multistart"}}
    branin = {"problem": {"kind": "branin"}, "sense": "minimize", "algorithm": algorithm}
    with pytest.raises(InputError, match=r"nothing states the noise of value. State noise: .*, or the output's sd, or"):
        cups(tmp_path, monkeypatch, **branin)
    text = OVEN_CAMPAIGN.replace("  start: {n: 3}\n", "  start: {n: 3}\n" + WORDS % "exact_gp, noise: known")
    made = bench(tmp_path / "oven", text, monkeypatch)
    assert made.run("check", made.file)[0] == 0


@pytest.mark.parametrize("sd", ["-1.0", "float('nan')", "float('inf')"])
def test_an_impossible_statement_of_the_problem_is_refused(tmp_path, monkeypatch, sd):
    text = OVEN.replace('Output("porosity", "%")', f'Output("porosity", "%", sd={sd})')
    (tmp_path / "plugins" / "problems").mkdir(parents=True)
    (tmp_path / "plugins" / "problems" / "oven.py").write_text(text)
    made = bench(tmp_path, OVEN_CAMPAIGN, monkeypatch)
    status, _, said = made.run("check", made.file)
    assert status != 0
    assert "The output 'porosity' has the sd" in said
    assert "give a finite number >= 0, or leave it out" in said


def test_a_repeat_is_proposed_where_it_pays_and_says_of_what(tmp_path, monkeypatch):
    words = {"kind": "gp_ei", "start": {"n": 4}, "repeats": True}
    made = cups(tmp_path, monkeypatch, algorithm=words, budget={"trials": 8}, batch=2)
    made.finish()
    trials = made.ledger.trials("b")
    first: dict[str, object] = {}
    for trial in trials[4:]:
        said = trial.origin.remarks.get("repeat")
        before = [one.id for one in trials if one.iteration < trial.iteration and one.design == trial.design]
        assert (said or "").partition(";")[0] == (f"of {before[0]}" if before else "")
        first |= {trial.id: said}
    assert any(first.values())
    assert made.campaign.data["algorithm"]["repeats"] is True
    assert made.campaign.algorithm.repeats
    assert wire(parse(made.campaign.data), made.campaign.settings).digest == made.campaign.digest
    repeat = made.ledger.trial(next(name for name, said in first.items() if said))
    assert f"repeat: {first[repeat.id]}" in show_text(made.ledger, repeat)
    assert f"A repeat {first[repeat.id]}: the same design once more, since results are noisy." in reasons(repeat)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"problem": {"kind": "branin"}, "sense": "minimize"}, "has the same result. State the noise"),
        ({"algorithm": {"kind": "auto", "repeats": True}}, "the surrogate 'auto' is none. Use exact_gp"),
        ({"algorithm": {"kind": "sobol", "repeats": True}}, "there is no surrogate"),
        ({"algorithm": {"kind": "gp_ei", "maximizer": {"kind": "certified"}, "repeats": True}}, "proves a bound"),
        ({"algorithm": {"kind": "gp_ei", "repeats": "often"}}, "algorithm.repeats: "),
    ],
)
def test_repeats_are_refused_where_they_would_mean_nothing(tmp_path, monkeypatch, given, said):
    words = {"algorithm": {"kind": "gp_ei", "repeats": True}}
    with pytest.raises(InputError, match=said):
        cups(tmp_path, monkeypatch, **{**words, **given})


def test_a_campaign_without_repeats_is_stored_as_before(tmp_path, monkeypatch):
    made = cups(tmp_path, monkeypatch, algorithm={"kind": "gp_ei", "repeats": False})
    assert "repeats" not in made.campaign.data["algorithm"]
