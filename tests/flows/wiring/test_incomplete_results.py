"""A laboratory that has measured some outputs of a trial and not yet the others."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from bench import Bench, bench
from sqlalchemy import Engine, event
from test_several_objectives import CAMPAIGN, MARKED, kiln

from fieldcraft.flows.analysis.incomplete import incomplete
from fieldcraft.flows.products import Trained
from fieldcraft.flows.recovery.reproduce import remade
from fieldcraft.flows.steps.acquire import acquire
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.steps.train import lesson_of, train
from fieldcraft.flows.wiring.context import site_of
from fieldcraft.flows.wiring.fit.partial import partial_remark
from fieldcraft.storage.ledgers.sqlite import close_idle
from fieldcraft.storage.records import OUT

LAB = CAMPAIGN.replace("simulator: {kind: function}\ndispatcher: {kind: inline}", "dispatcher: {kind: lab}")
LAB = LAB.replace("trials: 7", "trials: 9")
WHOLE = {"kiln-0001": (0.9, 0.1, -0.2), "kiln-0002": (0.7, 0.05, -0.1)}


@pytest.fixture(scope="module")
def _begun(tmp_path_factory):
    """Four orders: two results are whole, of the third price and smoke are known, and of the fourth nothing."""
    folder = tmp_path_factory.mktemp("incomplete")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDCRAFT_MLFLOW", "off")
        made = kiln(folder, MARKED, LAB, patch)
        made.make_pass()
        made.make_pass()
        for name, (strength, price, smoke) in WHOLE.items():
            told(made, name, strength=strength, price=price, smoke=smoke)
        told(made, "kiln-0003", price=0.4)
        told(made, "kiln-0003", smoke=-0.3)
    close_idle()
    return folder


@pytest.fixture
def begun(_begun, tmp_path, monkeypatch):
    """Makes copies of that campaign."""

    def made(name: str) -> Bench:
        monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
        return kiln(Path(shutil.copytree(_begun, tmp_path / name)), MARKED, LAB, monkeypatch)

    return made


def told(made: Bench, trial: str, **values: float) -> None:
    words = [word for name, value in values.items() for word in ("--value", f"{name}={value}")]
    assert made.run("record", trial, *words)[0] == 0


def passed(made: Bench, asked: int) -> None:
    lease = made.ledger.acquire("kiln")
    make_pass(Ref(str(made.settings.home), "kiln", lease.model_dump()), asked=asked)
    made.ledger.release(lease)


def test_what_is_known_teaches_the_models_of_its_outputs_and_is_no_result(begun):
    made = begun("home")
    data = lesson_of(made.site, 1).data
    third = made.site.campaign.space.encode([made.ledger.trial("kiln-0003").design])
    assert (len(data), len(data.objective_of(0)), len(data.objective_of(1)), len(data.constraint(0))) == (2, 2, 3, 3)
    assert np.array_equal(data.objective_of(1).X[2:], third)
    assert (data.objective_of(1).y[2], data.constraint(0).y[2]) == (0.4, -0.3)
    front = made.json("status", "kiln")[0]["front"]
    assert front["results"] == 2 and "kiln-0003" not in {each["trial"] for each in front["trials"]}


def test_status_queue_and_the_trials_of_the_desk_show_that_it_is_incomplete(begun):
    made = begun("home")
    said = "incomplete: price 0.4 EUR, smoke -0.3 %; still missing: strength"
    assert f"part     kiln-0003 {said}" in made.run("status", "kiln")[1]
    assert said in made.run("queue", "kiln")[1]
    (known,) = made.json("status", "kiln")[0]["incomplete"]
    said = known.pop("known")
    assert {name: each.keys() for name, each in said.items()} == {
        name: {"by", "created"} for name in ("price", "smoke")
    }
    assert said["price"]["created"] < said["smoke"]["created"]
    assert known == {"trial": "kiln-0003", "outputs": {"price": 0.4, "smoke": -0.3}, "sd": {}, "missing": ["strength"]}
    told(made, "kiln-0003", strength=0.5)
    assert made.json("status", "kiln")[0]["incomplete"] == []
    assert "incomplete" not in made.run("status", "kiln")[1] + made.run("queue", "kiln")[1]


def test_a_model_says_what_it_learnt_in_part_and_is_made_again_from_that_when_the_rest_has_come(begun):
    made = begun("home")
    passed(made, 1)
    product = made.ledger.product("kiln", 1, "train")
    (part,) = (each for each in made.ledger.results("kiln-0003") if each.id == incomplete_of(made))
    design = dict(made.ledger.trial("kiln-0003").design)
    assert Trained.of(product).partial == {"kiln-0003": {"result": part.id, "design": design}}
    assert part.outputs == {"price": 0.4, "smoke": -0.3}
    said = "learnt in part, since other outputs are still to come: kiln-0003 (price, smoke)"
    assert made.ledger.trial("kiln-0005").origin.remarks["partial"] == said
    before = made.site.fields.read(product.reference)
    assert same(remade(made.site, product), before)
    told(made, "kiln-0003", strength=0.5)
    assert same(remade(made.site, product), before)
    assert lesson_of(made.site, 2).data.partial is None and len(lesson_of(made.site, 2).data) == 3


def incomplete_of(made: Bench) -> int:
    (known,) = incomplete(made.ledger, "kiln", made.ledger.summaries("kiln"))
    return known.result


def same(one, other) -> bool:
    return all(np.array_equal(one[name].values, other[name].values) for name in other.data_vars)


def test_a_pass_that_is_interrupted_after_the_training_proposes_the_same_though_the_rest_has_come(begun):
    straight, broken = begun("straight"), begun("broken")
    passed(straight, 1)
    lease = broken.ledger.acquire("kiln")
    ref = {"home": str(broken.settings.home), "name": "kiln", "lease": lease.model_dump()}
    train(site_of(**ref), 1)
    told(broken, "kiln-0003", strength=0.5)
    acquire(site_of(**ref), 1, 1)
    broken.ledger.release(lease)
    one, other = (made.ledger.trial("kiln-0005") for made in (straight, broken))
    left = {"model", "environment"}  # the model's record has the time that the training took
    assert one.design == other.design
    assert one.origin.model_dump(exclude=left) == other.origin.model_dump(exclude=left)
    products = [made.ledger.product("kiln", 1, "train") for made in (straight, broken)]
    assert products[0].reference == products[1].reference


def test_a_pass_that_is_interrupted_after_the_training_proposes_the_same_though_the_parts_are_withdrawn(begun):
    straight, broken = begun("straight"), begun("broken")
    passed(straight, 1)
    lease = broken.ledger.acquire("kiln")
    ref = {"home": str(broken.settings.home), "name": "kiln", "lease": lease.model_dump()}
    product = train(site_of(**ref), 1)
    said = broken.run("retract", "kiln-0003", "--reason", "the part was another")[1]
    assert f"the model of iteration 1 had seen the old value ({product.digest[:12]})" in said
    acquire(site_of(**ref), 1, 1)
    broken.ledger.release(lease)
    one, other = (made.ledger.trial("kiln-0005") for made in (straight, broken))
    assert (one.design, one.origin.remarks) == (other.design, other.origin.remarks)
    assert same(remade(broken.site, product), broken.site.fields.read(product.reference))
    assert broken.json("trace", "kiln-0005")["data"]["partial"] == {"kiln-0003": 4}
    assert lesson_of(broken.site, 2).data.partial is None
    assert broken.json("status", "kiln")[0]["incomplete"] == []


def test_what_was_known_of_a_trial_that_is_given_up_teaches_nothing(begun):
    made = begun("home")
    assert made.run("abandon", "kiln-0003", "--reason", "the part broke")[0] == 0
    assert lesson_of(made.site, 1).data.partial is None
    assert made.json("status", "kiln")[0]["incomplete"] == []


def test_a_model_is_made_again_of_parts_that_came_in_another_order_than_their_trials(begun):
    made = begun("home")
    told(made, "kiln-0004", strength=0.8)
    assert made.run("correct", "kiln-0003", "--value", "price=0.42", "--reason", "typing")[0] == 0
    before = lesson_of(made.site, 1)
    passed(made, 1)
    product = made.ledger.product("kiln", 1, "train")
    assert list(Trained.of(product).partial) == ["kiln-0003", "kiln-0004"]
    assert same(remade(made.site, product), made.site.fields.read(product.reference))
    told(made, "kiln-0003", strength=0.5)
    assert same(remade(made.site, product), made.site.fields.read(product.reference))
    assert Trained.of(product).data_digest == before.data.digest


def test_who_corrects_a_value_is_told_of_the_models_that_saw_it_in_part(begun):
    made = begun("home")
    told(made, "kiln-0004", strength=0.8)
    passed(made, 1)
    model = made.ledger.product("kiln", 1, "train")
    for trial, rest in (("kiln-0003", {"strength": 0.5}), ("kiln-0004", {"price": 0.1, "smoke": -0.1})):
        told(made, trial, **rest)
    seen = f"the model of iteration 1 had seen the old value ({model.digest[:12]})"
    changed = ("--value", "strength=0.6", "--reason", "typing")
    assert "No model had seen the old value" in made.run("correct", "kiln-0003", *changed)[1]
    said = made.run("correct", "kiln-0003", "--value", "price=0.41", "--reason", "typing")[1]
    assert seen in said and "kiln-0005 was proposed by such a model" in said
    assert seen in made.run("correct", "kiln-0004", "--ran", "T=0.9", "--reason", "typing")[1]
    assert seen in made.run("retract", "kiln-0004", "--reason", "the part was another")[1]


def test_a_trace_names_the_parts_that_the_model_learnt(begun):
    made = begun("home")
    passed(made, 1)
    learnt = made.json("trace", "kiln-0005")["data"]
    assert (learnt["trials"], learnt["partial"]) == (["kiln-0001", "kiln-0002"], {"kiln-0003": incomplete_of(made)})


def test_an_order_without_a_part_costs_no_statement(begun):
    made, sent = begun("home"), []

    def note(connection, cursor, statement, *rest) -> None:
        sent.append(statement)

    ledger = made.ledger
    trials = ledger.summaries("kiln")
    told = [trial for trial in trials if trial.id == "kiln-0003"]
    event.listen(Engine, "before_cursor_execute", note)
    try:
        (alone,) = incomplete(ledger, "kiln", told)
        few = list(sent)
        assert incomplete(ledger, "kiln", trials) == [alone]
        assert few and sent == 2 * few
        assert incomplete(ledger, "kiln", [trial for trial in trials if trial.state not in OUT]) == []
        assert sent == 2 * few
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert sum(trial.state in OUT for trial in trials) == 2


COMPUTED = """\
name: pot
seed: 5
problem:
  kind: declared
  variables: [{name: x, low: 0.0, high: 1.0}]
  results:
    - {name: price, unit: EUR, objective: minimize, formula: 3 * mass / density}
    - {name: strength, unit: MPa, objective: maximize}
    - {name: mass, unit: kg, plain: true}
    - {name: density, plain: true}
    - {name: colour, plain: true}
algorithm: {kind: gp_ehvi, start: {n: 4}, maximizer: {n_samples: 64, n_starts: 2}}
dispatcher: {kind: lab}
approval: batch
budget: {trials: 6}
"""


def test_a_part_teaches_what_is_computed_from_it_and_only_that_is_called_learnt(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    made = bench(tmp_path, COMPUTED, monkeypatch)
    made.order()
    for trial in ("pot-0001", "pot-0002"):
        told(made, trial, strength=float(trial[-1]), mass=2.0, density=4.0, colour=1.0)
    told(made, "pot-0003", colour=3.0)
    assert lesson_of(made.site, 1).known == []
    told(made, "pot-0004", mass=4.0, density=2.0)
    lesson = lesson_of(made.site, 1)
    assert [each.trial for each in lesson.known] == ["pot-0004"]
    np.testing.assert_array_equal(lesson.data.partial.Y, [[6.0, np.nan]])
    said = partial_remark(made.site.campaign, lesson.known)
    assert said == {"partial": "learnt in part, since other outputs are still to come: pot-0004 (price)"}


def test_parts_of_which_a_computed_output_has_no_number_teach_it_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    made = bench(tmp_path, COMPUTED, monkeypatch)
    made.order()
    told(made, "pot-0001", strength=1.0, mass=2.0, density=4.0, colour=1.0)
    told(made, "pot-0002", mass=4.0)
    told(made, "pot-0002", density=0.0)
    assert lesson_of(made.site, 1).data.partial is None


FIELDS = '''\
"""Two numbers of a profile that is measured as a whole."""

from dataclasses import dataclass

import numpy as np

from fieldcraft import Axis, Continuous, Domain, Field, Fields, Output, Problem, SearchSpace


@dataclass(frozen=True)
class Oven(Problem):
    @property
    def space(self):
        return SearchSpace((Continuous("a", 0.0, 1.0, "V"), Continuous("b", 0.0, 1.0, "V")))

    @property
    def outputs(self):
        return Output("least", "K", "maximize"), Output("most", "K", "minimize")

    @property
    def fields(self):
        return Fields(Domain((Axis("s", 0.0, 1.0, "m"),)), (Field("rise", "K"),))

    def functional(self, fields, axes, designs):
        return np.stack([fields["rise"].min(axis=1), fields["rise"].max(axis=1)], axis=1)

    def function(self, design):
        return {"least": design["a"], "most": design["b"]}
'''
UNTIL = "A result of which some outputs are still to come teaches nothing until it is whole:"
POD = {"surrogate": {"kind": "field_pod"}, "acquisition": {"kind": "log_ehvi"}, "maximizer": {"kind": "multistart"}}


@pytest.mark.parametrize(
    ("algorithm", "dispatcher", "said"),
    [
        ({"kind": "gp_ehvi"}, "lab", None),
        ({"kind": "optuna_nsga2"}, "lab", f"{UNTIL} optuna_nsga2 learns from whole results alone."),
        ({"kind": "optuna_nsga2"}, "local", None),
        ({**POD, "start": {"n": 4}}, "lab", f"{UNTIL} field_pod learns from fields."),
    ],
)
def test_check_says_who_leaves_out_results_in_part(tmp_path, monkeypatch, algorithm, dispatcher, said):
    (tmp_path / "plugins" / "problems").mkdir(parents=True)
    (tmp_path / "plugins" / "problems" / "oven.py").write_text(FIELDS)
    stated = {"name": "oven", "seed": 1, "problem": {"kind": "oven"}, "algorithm": algorithm, "budget": {"trials": 9}}
    stated |= {"dispatcher": {"kind": dispatcher}}
    if dispatcher == "local":
        stated |= {"simulator": {"kind": "function"}}
    made = bench(tmp_path, yaml.safe_dump(stated), monkeypatch)
    note = made.json("check", made.file)["note"] or ""
    assert (said or UNTIL) in note if said else UNTIL not in note


def test_a_batch_beside_parts_is_the_same_after_an_interruption_and_repeats_no_design(begun):
    straight, broken = begun("straight"), begun("broken")
    passed(straight, 3)
    lease = broken.ledger.acquire("kiln")
    ref = {"home": str(broken.settings.home), "name": "kiln", "lease": lease.model_dump()}
    train(site_of(**ref), 1)
    told(broken, "kiln-0004", price=0.2)
    acquire(site_of(**ref), 1, 3)
    broken.ledger.release(lease)
    batches = [made.ledger.trials("kiln", iteration=1) for made in (straight, broken)]
    assert [trial.design for trial in batches[0]] == [trial.design for trial in batches[1]]
    assert all("kiln-0003 (price, smoke)" in trial.origin.remarks["partial"] for trial in (*batches[0], *batches[1]))
    places = [trial.design["T"] for trial in straight.ledger.trials("kiln")]
    assert len(batches[0]) == 3 and np.diff(sorted(places)).min() > 1e-3
    passed(broken, 4)
    *_, last = broken.ledger.trials("kiln")
    assert "kiln-0004 (price)" in last.origin.remarks["partial"] and "kiln-0003" in last.origin.remarks["partial"]
