"""Campaigns with several objectives: what is refused, and what every view shows of a short one."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
import small
from bench import Bench, bench

from fieldcraft.flows.analysis.best import objective_of
from fieldcraft.flows.analysis.predicted import predicted_data, predictions_met
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.notebook.tables import asked_table
from fieldcraft.flows.predictions.of_trial import Models, foreseen
from fieldcraft.flows.products import Trained
from fieldcraft.flows.run import Ran
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.views.data import predicted_text, quantity_pm
from fieldcraft.flows.views.display import Display
from fieldcraft.flows.views.summary import summary_data, summary_text
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.observations import observations
from fieldcraft.models.observations import Aim
from fieldcraft.storage.objective import Goal, Objective
from fieldcraft.storage.origins import Origin
from fieldcraft.storage.pareto import front_of
from fieldcraft.storage.trackers.mlflow_names import counted, held_out_errors
from fieldcraft.storage.trackers.mlflow_names import foreseen as mlflow_foreseen

WORDS = {"start": {"n": 4}, "surrogate": {"kind": "exact_gp"}, "maximizer": {"kind": "multistart"}}
ONE = {**WORDS, "acquisition": {"kind": "log_ei"}}
PROBLEM = '''\
"""A problem of the tests: two numbers of the temperature that pull apart, and a limit."""
from dataclasses import dataclass

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, SearchSpace


@dataclass(frozen=True)
class Kiln(Problem):
    """The strongest part is not the cheapest, and the hottest ones smoke."""

    @property
    def space(self):
        return SearchSpace((Continuous("T", 0.0, 1.0, "K"),))

    @property
    def outputs(self):
        return OUTPUTS

    def function(self, design):
        T = design["T"]
        return {"strength": 1 - (T - 0.3) ** 2, "price": (T - 0.6) ** 2, "smoke": T - 0.55}
'''
MARKED = '(Output("strength", "MPa", "maximize"), Output("price", "EUR", "minimize"), Output("smoke", "%"))'
MODEL = "gp_ehvi, maximizer: {n_samples: 64, n_starts: 2}"
CAMPAIGN = """\
name: kiln
seed: 5
problem: {kind: kiln}
simulator: {kind: function}
dispatcher: {kind: inline}
algorithm: {kind: gp_ehvi, maximizer: {n_samples: 64, n_starts: 2}}
budget: {trials: 7}
"""


def wired(folder: Path, **keys: object):
    data = {
        "name": "c",
        "seed": 1,
        "problem": {"kind": "branin_currin"},
        "simulator": {"kind": "function"},
        "algorithm": {"kind": "gp_ehvi"},
        "budget": {"trials": 12},
        **keys,
    }
    return wire(parse(data, "c"), settings_from(home=folder))


def kiln(folder: Path, outputs: str, text: str, patch: pytest.MonkeyPatch) -> Bench:
    problems = folder / "plugins" / "problems"
    problems.mkdir(parents=True, exist_ok=True)
    (problems / "kiln.py").write_text(PROBLEM.replace("OUTPUTS", outputs))
    return bench(folder, text, patch)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"sense": "minimize"},
            r"sense: 'minimize' is given, and the problem has 2 objectives: minimize branin, ",
        ),
        ({"stop": {"target": 3.0}}, r"stop\.target: it is a value of one objective, and the problem has 2 objectives"),
        ({"stop": {"certified_regret": 0.1}}, r"stop\.certified_regret: it is proven for one objective"),
        ({"noise": {"sd": 0.1}}, r"noise: it is in the unit of one objective.*or say noise: fitted"),
        ({"algorithm": {"kind": "auto"}}, r"algorithm\.acquisition: 'log_ei' weighs one objective.*algorithm gp_ehvi"),
        (
            {"algorithm": ONE},
            r"algorithm\.acquisition: 'log_ei' weighs one objective, and the problem has several: ",
        ),
        ({"algorithm": {"kind": "optuna_tpe"}}, r"algorithm\.peer: 'optuna_tpe' is told of one objective"),
        (
            {"algorithm": {"kind": "gp_ehvi", "start": {"proposer": {"kind": "emulated"}}}},
            r"algorithm\.start\.proposer: 'emulated' begins with the best design by one objective",
        ),
        (
            {"problem": {"kind": "branin"}, "sense": "minimize"},
            r"algorithm\.acquisition: 'log_nehvi' weighs several objectives, and the problem has one\. Use log_ei\.",
        ),
        ({"problem": {"kind": "branin"}, "algorithm": ONE}, r"sense: missing\. Give it: minimize or maximize\."),
    ],
)
def test_what_takes_one_objective_is_refused_for_several_and_the_other_way_round(keys, message, tmp_path):
    with pytest.raises(InputError, match=message):
        wired(tmp_path, **keys)


@pytest.mark.parametrize(
    "algorithm",
    [
        {"kind": "sobol"},
        {**WORDS, "surrogate": {"kind": "auto"}, "acquisition": {"kind": "hypervolume_thompson"}},
        {"kind": "gp_ehvi", "surrogate": {"kind": "random_forest"}},
    ],
)
def test_what_can_do_several_objectives_is_accepted(algorithm, tmp_path):
    made = wired(tmp_path, algorithm=algorithm, noise="fitted")
    assert made.objective.goals == (Goal("branin", False, 18.0), Goal("currin", False, 6.0))


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ('(Output("strength", "", "maximize"), Output("price"))', "only the output 'strength' is marked"),
        (
            '(Output("smoke"), Output("strength", "", "maximize"), Output("price", "", "minimize"))',
            "the outputs strength, price are marked.*the first outputs are smoke, strength. Name the objectives first",
        ),
    ],
)
def test_marks_that_cannot_be_are_told(outputs, message, tmp_path, monkeypatch):
    status, _, err = kiln(tmp_path, outputs, CAMPAIGN, monkeypatch).run("check", tmp_path / "campaign.yaml")
    assert status == 2 and re.search(message, err)


@pytest.fixture(scope="module")
def _ended(tmp_path_factory):
    """A campaign of seven trials with two objectives, a constraint and no stated reference, at its end."""
    folder = tmp_path_factory.mktemp("kiln")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDCRAFT_MLFLOW", "off")
        made = kiln(folder, MARKED, CAMPAIGN, patch)
        small.finish(made.file, made.settings.home, folder / "plugins")
    return folder


@pytest.fixture
def ended(_ended, monkeypatch):
    return kiln(_ended, MARKED, CAMPAIGN, monkeypatch)


def test_status_and_show_tell_the_front_its_hypervolume_and_that_the_reference_is_inferred(ended):
    data = ended.json("status", "kiln")[0]
    trials = {trial.id: trial.outputs for trial in ended.ledger.trials("kiln")}
    objective = Objective("strength", True, ("smoke",), (Goal("strength", True), Goal("price", False)))
    front = front_of(objective, list(trials.values()))
    assert data["best"] is None and data["best_design"] is None
    assert {each["trial"] for each in data["front"]["trials"]} == {list(trials)[place] for place in front.members}
    assert data["front"]["hypervolume"] == front.hypervolume > 0
    assert [each["inferred"] for each in data["front"]["objectives"]] == [True, True]
    strengths = [each["outputs"]["strength"] for each in data["front"]["trials"]]
    assert strengths == sorted(strengths, reverse=True)
    text = ended.run("status", "kiln")[1]
    assert f"front    {len(front.members)} of 7 results, hypervolume {front.hypervolume:.6g} within strength" in text
    assert text.count("(inferred from the front)") == 2 and "  best " not in text
    on = data["front"]["trials"][0]["trial"]
    assert "front    on it" in ended.run("show", on)[1] and ended.json("show", on)["dominated_by"] == []
    shown = ended.run("show", "kiln-0007")[1]
    both = r"strength \S+ \+- \S+ MPa, price \S+ \+- \S+ EUR"
    every = rf"foreseen {both}, feasible with probability \S+, by trend_gp x log_nehvi"
    assert re.search(every, shown)


def test_an_origin_has_the_prediction_of_every_objective_as_the_model_makes_it_again(ended):
    trial = ended.ledger.trial("kiln-0007")
    again = foreseen(ended.site, trial, {}, Models())
    told = [(trial.origin.mean, trial.origin.sd)] + [(each.mean, each.sd) for each in trial.origin.further.values()]
    assert again.proposed and [each.output for each in again.outputs] == ["strength", "price", "smoke"]
    assert list(trial.origin.further) == ["price"] and trial.origin.feasible == pytest.approx(again.feasible)
    np.testing.assert_allclose(told, [(each.mean, each.sd) for each in again.outputs[:2]], rtol=1e-12)
    assert all(sd > 0 for _, sd in told) and told[0] != told[1]
    first = ended.ledger.trial("kiln-0001").origin
    assert (first.mean, dict(first.further), first.feasible) == (None, {}, None)


def test_every_objective_is_held_against_what_was_foreseen_of_it(ended, tmp_path):
    record, trials = ended.ledger.campaign("kiln"), ended.ledger.trials("kiln")
    met = predictions_met(record, trials)
    own = [trial for trial in trials if trial.origin.mean is not None]
    assert len(own) > 1
    assert {name: [each.trial for each in of] for name, of in met.items()} == {"strength": own, "price": own}
    assert ended.run("report", "kiln", "--html", tmp_path / "kiln.html")[0] == 0
    page, counts = (tmp_path / "kiln.html").read_text(), []
    for name, unit in (("strength", "MPa"), ("price", "EUR")):
        told = [trial.origin if name == "strength" else trial.origin.further[name] for trial in own]
        errors = [abs(trial.outputs[name] - each.mean) for trial, each in zip(own, told, strict=True)]
        held = sum(error <= 2 * each.sd for error, each in zip(errors, told, strict=True))
        counts.append(f"{name} {held} of {len(own)} as predicted")
        assert f"Median error {np.median(errors):.6g} {unit} over {len(own)} trials." in page
        assert f"Predicted against simulated: {name}" in page
    assert ", ".join(counts) in page
    (trial, *_), objective = own, objective_of(record)
    assert held_out_errors(trial.origin, objective, trial.outputs) == {
        "held_out_error": abs(trial.origin.mean - trial.outputs["strength"]),
        "held_out_error.price": abs(trial.origin.further["price"].mean - trial.outputs["price"]),
    }
    assert held_out_errors(trial.origin, objective, {}) == {}


def test_every_view_of_a_proposal_tells_every_objective_with_its_unit(ended, tmp_path):
    trial = ended.ledger.trial("kiln-0007")
    origin, price = trial.origin, trial.origin.further["price"]
    told = predicted_data(ended.ledger.campaign("kiln"), origin)
    assert told["others"] == [{"output": "price", "unit": "EUR", "mean": price.mean, "sd": price.sd}]
    assert (told["output"], told["unit"], told["feasible"]) == ("strength", "MPa", origin.feasible)
    chosen = ended.json("trace", trial.id)["acquisition"]
    assert (chosen["predicted"], chosen["mean"], chosen["feasible"]) == ("strength", origin.mean, origin.feasible)
    assert chosen["others"] == {"price": {"mean": price.mean, "sd": price.sd, "unit": "EUR"}}
    shown = mlflow_foreseen(origin)
    assert (shown["origin.mean.price"], shown["origin.sd.price"]) == (price.mean, price.sd)
    assert (shown["origin.mean"], shown["origin.feasible"]) == (origin.mean, origin.feasible)
    table = asked_table(ended.ledger.campaign("kiln"), [trial]).loc[trial.id]
    assert (table["predicted price"], table["sd price"], table["feasible"]) == (price.mean, price.sd, origin.feasible)
    assert ended.run("report", "kiln", "--html", tmp_path / "kiln.html")[0] == 0
    page = (tmp_path / "kiln.html").read_text()
    assert "foreseen strength (MPa)" in page and "foreseen price (EUR)" in page
    assert quantity_pm(price.mean, price.sd, "").replace("+-", "±") in page


def test_a_variable_called_feasible_keeps_its_column_beside_the_probability(ended):
    record, trial = ended.ledger.campaign("kiln"), ended.ledger.trial("kiln-0007")
    named = {"environment": {**record.environment, "units": {"feasible": "K"}}}
    design = {"feasible": trial.design["T"]}
    table = asked_table(record.model_copy(update=named), [trial.model_copy(update={"design": design})])
    assert list(table.columns) == list(dict.fromkeys(table.columns))
    assert table.loc[trial.id, ["feasible", "feasible_"]].tolist() == [trial.design["T"], trial.origin.feasible]


def test_every_third_proposal_probes_and_says_so_on_its_origin(ended):
    probing = [trial.number for trial in ended.ledger.trials("kiln") if "probing" in trial.origin.remarks]
    assert probing == [4, 7]  # of the model's 4 to 7; they follow three others and six
    assert "where feasibility is in doubt" in ended.run("show", "kiln-0007")[1]


def test_a_proposal_that_is_rejected_does_not_make_the_next_one_probe(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    made = kiln(tmp_path, MARKED, CAMPAIGN + "approval: batch\n", monkeypatch)
    made.make_pass()
    assert made.run("approve", "--batch", "kiln:0")[0] == 0
    assert [made.make_pass().sent for _ in range(2)] == [2, 1]
    probing = []
    for number in range(4, 11):
        made.make_pass()
        trial = made.ledger.trial(f"kiln-{number:04d}")
        probing.append("probing" in trial.origin.remarks)
        assert made.run("reject", trial.id, "--reason", "not today")[0] == 0
    assert probing == [True, False, False, True, False, False, True]


def test_a_design_that_fails_takes_one_turn_of_probing(ended, tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    first = ended.ledger.trial("kiln-0001").design["T"]
    made = kiln(tmp_path, MARKED, CAMPAIGN, monkeypatch)
    file, at = tmp_path / "plugins" / "problems" / "kiln.py", '        T = design["T"]\n'
    cracks = f'{at}        if abs(T - {first!r}) < 1e-12:\n            raise Infeasible("it cracks")\n'
    file.write_text(file.read_text().replace(at, cracks).replace("import Output,", "import Infeasible, Output,"))
    small.finish(made.file, made.settings.home, tmp_path / "plugins")
    trials = made.ledger.trials("kiln")
    assert [trial.failure for trial in trials] == ["infeasible"] + [None] * (len(trials) - 1)
    # The fourth has its turn too, but of the results before it none is feasible.
    assert [trial.number for trial in trials if "probing" in trial.origin.remarks] == [7]
    assert all(trial.outputs["smoke"] > 0 for trial in trials[1:3])


def test_an_origin_of_an_earlier_version_tells_the_first_objective_alone(ended):
    trial = ended.ledger.trial("kiln-0007")
    before = trial.origin.model_copy(update={"further": {}, "feasible": None})
    assert not {"further", "feasible"} & set(before.model_dump(mode="json"))
    assert Origin.model_validate(before.model_dump(mode="json")) == before
    told = predicted_data(ended.ledger.campaign("kiln"), before)
    assert predicted_text(told) == f"strength {quantity_pm(before.mean, before.sd, 'MPa')}"


def test_progress_says_that_the_hypervolume_is_within_an_inferred_reference(ended, capsys):
    shown = {"trial": ended.ledger.trial("kiln-0007"), "seconds": 1.0}
    Display(lambda: ended.ledger, as_json=False)("completed", shown)
    front = ended.json("status", "kiln")[0]["front"]
    expected = f"front {len(front['trials'])}, hypervolume {front['hypervolume']:.5g} (reference inferred)"
    assert expected in capsys.readouterr().out


def test_the_line_of_a_training_tells_of_every_output(ended, capsys):
    (*_, product) = (each for each in ended.ledger.products("kiln") if each.step == "train")
    metrics = Trained.of(product).metrics
    shown = {"campaign": "kiln", "iteration": 1, "trials": 4, "seconds": 0.5, "metrics": metrics}
    Display(lambda: ended.ledger, as_json=False)("trained", shown)
    keys = {"strength": "", "price": "objective2.", "smoke": "constraint1."}
    told = ", ".join(f"log_posterior of {name} {metrics[f'{key}log_posterior']:.3g}" for name, key in keys.items())
    assert f"4 trials in 0.5 s: {told}\n" in " ".join(capsys.readouterr().out.split()) + "\n"


def test_the_end_of_a_run_names_the_choice_that_is_left(ended):
    ran = summary_data(Ran("kiln", "budget", True, 1.0), ended.settings)
    trial = ran["front"]["trials"][0]["trial"]
    assert f"fieldcraft pick kiln {trial} --why '...'" in summary_text(ran, ended.file)
    picked = {**ran, "picked": {"trial": trial}}
    assert "fieldcraft pick" not in summary_text(picked, ended.file)


def test_each_objective_is_learnt_in_its_sense_and_the_outputs_after_them_as_constraints(ended):
    trials = ended.ledger.trials("kiln")
    data = observations(ended.site.campaign, trials, None)
    names = {"strength": data.y, "price": data.further[:, 0], "smoke": data.constraints[:, 0]}
    for name, values in names.items():
        assert values.tolist() == [trial.outputs[name] for trial in trials]
    assert data.aims == (Aim(maximize=True), Aim(maximize=False)) and data.maximize
    assert (data.further.shape, data.constraints.shape) == ((7, 1), (7, 1))


def test_a_result_that_is_dominated_names_what_dominates_it(ended):
    trials = ended.ledger.trials("kiln")
    told = {trial.id: ended.json("show", trial.id)["dominated_by"] for trial in trials}
    for trial in trials:
        if trial.outputs["smoke"] > 0:
            assert told[trial.id] is None
        else:
            above = [
                other.id
                for other in trials
                if other.outputs["smoke"] <= 0
                and told[other.id] == []
                and other.outputs["strength"] >= trial.outputs["strength"]
                and other.outputs["price"] <= trial.outputs["price"]
                and other.outputs != trial.outputs
            ]
            assert told[trial.id] == above


def test_the_table_the_page_and_the_picture_show_the_front(ended, tmp_path):
    assert ended.run("export", "kiln", "--csv", tmp_path / "kiln.csv")[0] == 0
    rows = list(csv.DictReader((tmp_path / "kiln.csv").read_text().splitlines()))
    members = {each["trial"] for each in ended.json("status", "kiln")[0]["front"]["trials"]}
    assert {row["trial"] for row in rows if row["front"] == "yes"} == members
    assert {row["front"] for row in rows} == {"yes", "no"}
    assert ended.run("plot", "kiln", tmp_path / "kiln.svg")[0] == 0
    drawn = (tmp_path / "kiln.svg").read_text()
    assert "reference, inferred" in drawn and "hypervolume, reference inferred" in drawn and "best so far" not in drawn
    assert ended.run("report", "kiln", "--html", tmp_path / "kiln.html")[0] == 0
    page = (tmp_path / "kiln.html").read_text()
    assert "Maximise strength in MPa, minimise price in EUR of problem kiln" in page
    assert ">Front</h2>" in page and "Best so far" not in page and "best result" not in page
    assert "hypervolume, reference inferred" in page
    assert "Predicted against simulated: strength" in page and "Predicted against simulated: price" in page


def test_two_campaigns_compare_by_hypervolume_within_one_reference(ended, tmp_path):
    other = ended.file.with_name("other.yaml")
    other.write_text(
        CAMPAIGN.replace("name: kiln", "name: other").replace(
            "gp_ehvi, maximizer: {n_samples: 64, n_starts: 2}", "sobol"
        )
    )
    small.finish(other, ended.settings.home, ended.file.parent / "plugins")
    data = ended.json("compare-runs", "kiln", "other")
    assert data["comparable"] and data["campaigns"][0]["best"] is None
    results = [trial.outputs for name in ("kiln", "other") for trial in ended.ledger.trials(name)]
    objective = Objective("strength", True, ("smoke",), (Goal("strength", True), Goal("price", False)))
    reference = front_of(objective, results).reference
    stated = Objective(
        "strength", True, ("smoke",), (Goal("strength", True, reference[0]), Goal("price", False, reference[1]))
    )
    for place, name in enumerate(("kiln", "other")):
        own = [trial.outputs for trial in ended.ledger.trials(name)]
        assert data["progress"][-1]["best"][place] == pytest.approx(front_of(stated, own).hypervolume)
    text = ended.run("compare-runs", "kiln", "other")[1]
    assert "hypervolume after 7" in text and re.search(r"best result +several objectives", text)


def test_a_campaign_ends_when_trials_add_no_hypervolume(tmp_path, monkeypatch):
    text = CAMPAIGN.replace(MODEL, "sobol")
    text = text.replace("trials: 7", "trials: 40") + "stop: {no_improvement: 3}\n"
    made = kiln(tmp_path, MARKED, text, monkeypatch)
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    small.finish(made.file, made.settings.home, tmp_path / "plugins")
    trials, reason = made.ledger.trials("kiln"), made.ledger.campaign("kiln").finished
    assert re.search(
        r"3 completed trials in a row added nothing to the hypervolume of \S+ within the reference", reason
    )
    assert reason.endswith("within the reference inferred from the front") and len(trials) < 40
    goals = (Goal("strength", True), Goal("price", False))
    objective = Objective("strength", True, ("smoke",), goals)
    front = front_of(objective, [trial.outputs for trial in trials])
    assert max(front.members) <= len(trials) - 4


def test_a_laboratory_that_gives_some_objectives_is_asked_for_the_others(tmp_path, monkeypatch):
    text = CAMPAIGN.replace("simulator: {kind: function}\ndispatcher: {kind: inline}", "dispatcher: {kind: lab}")
    made = kiln(tmp_path, MARKED, text.replace("trials: 7", "trials: 8"), monkeypatch)
    made.make_pass()
    said = made.run("record", "kiln-0001", "--value", "price=0.4", "--value", "smoke=-1")[1]
    assert "kept as a part; still missing: strength" in said
    assert made.json("status", "kiln")[0]["front"]["results"] == 0
    made.run("record", "kiln-0001", "--value", "strength=0.5")
    front = made.json("status", "kiln")[0]["front"]
    assert [each["trial"] for each in front["trials"]] == ["kiln-0001"] and front["noisy"]
    assert "by results, which are noisy" in made.run("status", "kiln")[1]


def test_mlflow_gets_the_hypervolume_only_within_a_stated_reference():
    stated = Objective("a", False, (), (Goal("a", False, 4.0), Goal("b", False, 4.0)))
    results = [{"a": 1.0, "b": 3.0}, {"a": 3.0, "b": 1.0}]
    assert counted(stated, results, 0) == {"front": 2.0, "hypervolume": 5.0}
    inferred = Objective("a", False, (), (Goal("a", False), Goal("b", False, 4.0)))
    assert counted(inferred, results, 0) == {"front": 2.0}


def test_a_specification_of_one_objective_is_stored_as_before(tmp_path):
    made = wired(tmp_path, problem={"kind": "branin"}, sense="minimize", algorithm=ONE)
    assert made.digest == "ee7a6336b6c77d9e7eb8f239d3af3643411731756d9956b19253ffeb7999bd77"
    assert json.loads(json.dumps(made.data))["sense"] == "minimize"
