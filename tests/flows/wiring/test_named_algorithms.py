"""A named algorithm: what it expands to, what a campaign file can change in it, and what is stored."""

import json
import re

import pytest
import yaml
from small import SMALL, finish

from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.machinery.progress import listening
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse, stored
from fieldcraft.flows.wiring.build import rewire, wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.open_ledger import open_ledger

MINE = '''\
"""A named algorithm of a user's own."""
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Mine:
    """See the test."""

    preset: Literal["default"] = "default"
    points: int = 4

    def words(self, dimension, batch):
        return {
            "start": {"proposer": {"kind": "random"}, "n": dimension * self.points},
            "surrogate": {"kind": "exact_gp", "kernel": "rbf", "restarts": batch},
            "acquisition": {"kind": "ucb", "beta": 1.0},
            "maximizer": {"kind": "multistart", "n_samples": 128},
        }
'''

SAME_DATA = '''\
"""A named algorithm that gives the same data each time."""
from dataclasses import dataclass
from typing import Literal

_WORDS = {{"start": {start}}}


@dataclass(frozen=True)
class SameData:
    """See the test."""

    preset: Literal["default"] = "default"

    def words(self, dimension, batch):
        return _WORDS
'''


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "mine" / "algorithms").mkdir(parents=True)
    (tmp_path / "mine" / "algorithms" / "mine.py").write_text(MINE)
    (tmp_path / "mine" / "algorithms" / "same_data.py").write_text(SAME_DATA.format(start={"n": 20}))
    (tmp_path / "mine" / "algorithms" / "no_start.py").write_text(SAME_DATA.format(start=None))
    return settings_from({"FIELDCRAFT_PLUGINS": str(tmp_path / "mine")}, home=tmp_path / "home")


def test_words_that_raise_are_told_with_their_line(settings, tmp_path):
    (tmp_path / "mine" / "algorithms" / "broken.py").write_text(
        MINE.replace("        return {", "        1 / 0\n        return {")
    )
    with pytest.raises(
        InputError, match=r"broken\.py, line 14: Mine cannot give its words: ZeroDivisionError.* Mend it"
    ):
        campaign(settings, {"kind": "broken"})


def campaign(settings, algorithm, **keys):
    data = {**yaml.safe_load(SMALL), "budget": {"trials": 30}, "algorithm": algorithm, **keys}
    return wire(parse(data, "c.yaml"), settings)


def test_a_name_becomes_its_words_with_every_default_written_out(settings):
    part = campaign(settings, {"kind": "mine"}, batch=3).spec.algorithm
    assert part.in_words == "exact_gp x ucb x multistart"
    assert (part.start.n, part.start.proposer.kind) == (8, "random")
    assert part.surrogate.model_dump().items() >= {"kernel": "rbf", "restarts": 3, "noise": "fitted"}.items()
    assert part.named.model_dump() == {"kind": "mine", "preset": "default", "points": 4}


def test_what_the_file_gives_wins_option_by_option(settings):
    given = {"kind": "mine", "points": 3, "surrogate": {"kernel": "matern52"}, "start": {"proposer": {"kind": "sobol"}}}
    part = campaign(settings, given).spec.algorithm
    assert (part.surrogate.kernel, part.surrogate.restarts) == ("matern52", 1)
    assert (part.start.proposer.kind, part.start.n) == ("sobol", 6)
    assert part.named.points == 3


def test_a_word_of_another_kind_replaces_the_named_one_whole(settings):
    part = campaign(settings, {"kind": "mine", "acquisition": {"kind": "log_ei"}}).spec.algorithm
    assert part.acquisition.model_dump() == {"kind": "log_ei", "doubts": 1.0}


def test_a_rival_replaces_the_three_words_and_they_replace_a_peer(settings):
    part = campaign(settings, {"kind": "mine", "peer": {"kind": "optuna_tpe"}}).spec.algorithm
    assert part.in_words == "optuna_tpe" and part.surrogate is None
    words = {"surrogate": {"kind": "exact_gp"}, "acquisition": {"kind": "ucb"}, "maximizer": {"kind": "multistart"}}
    assert campaign(settings, {"kind": "optuna_tpe", **words}).spec.algorithm.peer is None


def test_the_start_leaves_half_of_the_budget_to_the_model_unless_the_file_says_otherwise(settings):
    assert campaign(settings, {"kind": "mine"}, budget={"trials": 6}).spec.algorithm.start.n == 3
    assert campaign(settings, {"kind": "mine"}, budget={"trials": 1}).spec.algorithm.start.n == 1
    assert campaign(settings, {"kind": "mine", "start": {"n": 5}}, budget={"trials": 6}).spec.algorithm.start.n == 5


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        ({"kind": "mina"}, "No kind 'mina' in algorithms. Did you mean 'mine'?"),
        ({"kind": "mine", "pointz": 2}, "algorithm.pointz: unknown key 'pointz'. Did you mean 'points'?"),
        ({"kind": "mine", "surogate": {}}, "algorithm.surogate: unknown key 'surogate'. Did you mean 'surrogate'?"),
        ({"kind": "mine", "preset": "paper"}, "algorithm.preset: Input should be 'default' (given: 'paper')"),
        ({"kind": "mine", "surrogate": {"krnel": "rbf"}}, "algorithm.surrogate.krnel: unknown key 'krnel'."),
        ({"kind": "mine", "start": {"m": 2}}, "algorithm 'mine': algorithm.start.m: unknown key 'm'."),
        ({"kind": "mine", "start": {"n": 31}}, "budget.trials is 30 and algorithm.start.n is 31"),
        ({"kind": "no_start"}, "algorithm: 'no_start' has the start None: its words must have"),
        ({"kind": 5}, "c.yaml: algorithm.kind: Input should be a valid string (given: 5)"),
        ({"start": {"n": 2}, "peer": {"kind": "optuna_tqe"}}, "in rivals. Did you mean 'optuna_tpe'?"),
        (
            {"start": {"n": 2}, "peer": {"kind": "ax"}, "surrogate": {"kind": "exact_gp"}},
            "a rival (peer) is a whole optimiser, and surrogate given beside it: leave one out",
        ),
    ],
)
def test_a_wrong_name_is_one_clear_error(settings, algorithm, message):
    with pytest.raises(InputError, match=re.escape(message)):
        campaign(settings, algorithm)


@pytest.mark.parametrize(("keys", "start"), [({}, 4), ({"start": {"n": 2}}, 2)])
def test_an_acquisition_that_counts_the_start_is_told_how_long_it_is(settings, keys, start):
    data = yaml.safe_load(SMALL) | {"algorithm": {"kind": "admmbo", **keys}, "budget": {"trials": 8}}
    campaign = wire(parse(data, "small.yaml"), settings)
    assert campaign.spec.algorithm.start.n == campaign.algorithm.acquisition.start == start
    assert wire(parse(campaign.data, "printed"), settings).digest == campaign.digest


def test_a_short_budget_shortens_one_campaigns_start_and_not_the_name(settings):
    assert campaign(settings, {"kind": "same_data"}, budget={"trials": 4}).spec.algorithm.start.n == 2
    assert campaign(settings, {"kind": "same_data"}, budget={"trials": 40}).spec.algorithm.start.n == 20


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "mine", "points": 3},
        {"kind": "mine", "surrogate": {"kernel": "matern52"}, "start": {"n": 5}},
        {"kind": "mine", "acquisition": {"kind": "log_ei"}, "collocation": {"n": 7}},
        {"kind": "mine", "peer": {"kind": "optuna_tpe"}},
    ],
)
def test_what_check_prints_can_be_given_again(settings, given):
    made = campaign(settings, given)
    assert campaign(settings, json.loads(json.dumps(made.data))["algorithm"]).digest == made.digest


def test_words_that_are_not_those_of_the_algorithm_named_beside_them_are_refused(settings):
    words = campaign(settings, {"kind": "mine"}).data["algorithm"]
    message = re.escape("algorithm.named says 'mine', whose acquisition would be others: remove it, or give")
    with pytest.raises(InputError, match=message):
        campaign(settings, {**words, "acquisition": {"kind": "ucb", "beta": 1.5}})
    with pytest.raises(InputError, match=re.escape("algorithm.named: algorithm.pointz: unknown key 'pointz'.")):
        campaign(settings, {**words, "named": {"kind": "mine", "pointz": 1}})
    with pytest.raises(InputError, match=re.escape("algorithm.named: No kind 'mina' in algorithms.")):
        campaign(settings, {**words, "named": {"kind": "mina"}})


def test_what_is_stored_needs_no_second_expansion(settings, tmp_path):
    made = campaign(settings, {"kind": "mine"})
    (tmp_path / "mine" / "algorithms" / "mine.py").write_text("raise RuntimeError('nobody may ask')")
    again = rewire(json.loads(json.dumps(made.data)), settings)
    assert (again.data, again.digest) == (made.data, made.digest)
    assert stored(made.data, "the ledger") == made.spec


def test_check_prints_what_a_named_algorithm_expands_to(settings, tmp_path, capsys):
    (tmp_path / "c.yaml").write_text(yaml.safe_dump({**yaml.safe_load(SMALL), "algorithm": {"kind": "gp_ucb"}}))
    assert main(["check", str(tmp_path / "c.yaml")]) == 0
    said = capsys.readouterr().out
    assert "gp_ucb stands for: exact_gp x ucb x multistart" in said
    assert yaml.safe_load(said.rpartition("\n\n")[0])["algorithm"]["surrogate"]["kind"] == "exact_gp"


def test_physics_that_a_surrogate_can_do_without_is_used_where_the_problem_states_an_equation_of_its_design(settings):
    heat = {"problem": {"kind": "heat"}, "simulator": {"kind": "heat"}}
    assert campaign(settings, {"kind": "auto"}, **heat).known_physics is not None
    assert campaign(settings, {"kind": "auto"}).known_physics is None
    assert campaign(settings, {"kind": "gp_ei"}, **heat).known_physics is None
    with pytest.raises(InputError, match="'pinn_bo' needs an equation and problem 'branin' states none"):
        campaign(settings, {"kind": "pinn_bo"})


def test_a_choice_by_evidence_is_on_the_origin_and_its_time_is_written_down(tmp_path):
    data = {**yaml.safe_load(SMALL), "algorithm": {"kind": "auto", "start": {"n": 2}}, "dispatcher": {"kind": "inline"}}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(data))
    finish(tmp_path / "small.yaml", tmp_path / "home")
    ledger = open_ledger(tmp_path / "home" / "ledger.sqlite")
    origin, trained = ledger.trial("small-0003").origin, ledger.product("small", 1, "train").payload
    assert set(origin.scores) >= {"exact_gp", "sampled_linear"}
    assert origin.scores["exact_gp"] == trained["metrics"]["score.exact_gp"]
    assert origin.remarks == trained["remarks"] and origin.remarks["chosen"] in origin.scores
    assert trained["cpu_seconds"] > 0 and trained["seconds"] > 0
    assert ledger.product("small", 1, "acquire").payload["cpu_seconds"] > 0


def test_a_certificate_is_on_the_origin_shown_and_traced_and_a_limit_of_time_is_said(tmp_path, capsys):
    data = {**yaml.safe_load(SMALL), "dispatcher": {"kind": "inline"}}
    certified = {"kind": "certified", "time_s": 1e-6}
    data["algorithm"] = {"kind": "gp_ucb", "start": {"n": 2}, "maximizer": certified}
    data["budget"] = {"trials": 3}
    found = {}
    for limit in (None, 1e-6):
        certified["time_s"] = limit
        home = tmp_path / f"home{limit}"
        (tmp_path / "small.yaml").write_text(yaml.safe_dump(data))
        finish(tmp_path / "small.yaml", home)
        found[limit] = open_ledger(home / "ledger.sqlite").trial("small-0003").origin
        assert main(["show", "small-0003", "--home", str(home)]) == 0
        assert (
            f"  proven   {found[limit].certificate.status}: no acquisition of the space exceeds"
            in capsys.readouterr().out
        )
        assert main(["trace", "small-0003", "--home", str(home), "--json"]) == 0
        traced = json.loads(capsys.readouterr().out)["acquisition"]
        assert traced["certificate"] == found[limit].certificate.model_dump()
        assert traced["reproducible"] is found[limit].reproducible is (limit is None)
    proven = found[None].certificate
    assert (proven.status, proven.bound_of) == ("optimal", "exact") and 0 <= proven.gap <= 0.01 and proven.nodes > 0
    assert proven.bound == pytest.approx(found[None].acquisition + proven.gap)
    assert found[1e-6].certificate.status == "time_limit" and found[1e-6].certificate.gap > 0.01


def test_what_a_maximizer_remarks_is_on_the_origin_beside_a_bound_of_an_approximation(tmp_path, capsys):
    data = {**yaml.safe_load(SMALL), "dispatcher": {"kind": "inline"}, "budget": {"trials": 3}}
    maximizer = {"kind": "pk_miqp", "exact_gram": False, "nodes": 1}
    data["algorithm"] = {"kind": "gp_ucb", "start": {"n": 2}, "maximizer": maximizer}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(data))
    finish(tmp_path / "small.yaml", tmp_path / "home")
    origin = open_ledger(tmp_path / "home" / "ledger.sqlite").trial("small-0003").origin
    assert origin.certificate.bound_of == "approximate" and origin.certificate.gap >= 0
    assert "was added to its diagonal" in origin.remarks["gram_matrix"]
    assert main(["show", "small-0003", "--home", str(tmp_path / "home")]) == 0
    shown = capsys.readouterr().out
    assert ", as it was approximated" in shown and "piecewise_kernel: " in shown


def test_a_campaign_of_a_rival_is_traced_shown_and_reported_without_a_model(tmp_path, capsys):
    data = {**yaml.safe_load(SMALL), "algorithm": {"kind": "optuna_gp", "start": {"n": 2}}}
    data["dispatcher"] = {"kind": "inline"}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(data))
    finish(tmp_path / "small.yaml", tmp_path / "home")
    ledger = open_ledger(tmp_path / "home" / "ledger.sqlite")
    trial = ledger.trial("small-0003")
    assert (trial.origin.kind, trial.origin.algorithm, trial.origin.model) == ("model", "optuna_gp", None)
    assert trial.origin.data_digest is not None and trial.origin.mean is None
    assert [product.step for product in ledger.products("small")] == ["acquire"]
    assert ledger.product("small", 1, "acquire").payload.items() >= {"designs": 1}.items()
    assert {"seconds", "cpu_seconds"} <= set(ledger.product("small", 1, "acquire").payload)
    for words in (("trace", "small-0003"), ("show", "small-0003"), ("report", "small", "--html", tmp_path / "r.html")):
        assert main([*map(str, words), "--home", str(tmp_path / "home")]) == 0
    assert "optuna_gp" in capsys.readouterr().out
    assert re.search(r'class="lead">M[^<]* of problem branin by optuna_gp\.', (tmp_path / "r.html").read_text())


def test_a_campaign_goes_on_with_the_words_that_its_name_stood_for_when_it_began(settings, tmp_path):
    plugin, heard = tmp_path / "mine" / "algorithms" / "mine.py", []
    ledger, began = open_ledger(settings.ledger, create=True), campaign(settings, {"kind": "mine"})
    assert created(ledger, began, tmp_path / "c.yaml") is None
    plugin.write_text(MINE.replace('"kernel": "rbf"', '"kernel": "matern32"').replace("1.0}", "3.0}"))
    now = campaign(settings, {"kind": "mine"})
    assert now.spec.algorithm.surrogate.kernel == "matern32"
    with listening(lambda event, details: heard.append((event, details))):
        assert created(ledger, now, tmp_path / "c.yaml") is None
    keys = "algorithm.acquisition.beta: 1.0 -> 3.0; algorithm.surrogate.kernel: rbf -> matern32"
    assert heard == [("other words", {"keys": keys})]
    assert rewire(ledger.campaign(now.name).spec, settings).spec.algorithm.surrogate.kernel == "rbf"
    # What the file itself changes is refused, and so is anything where campaigns are compared.
    for changed, said in (
        ({"seed": 8}, r"\(seed: \d+ -> 8\)"),
        ({"algorithm": {"kind": "mine", "surrogate": {"kernel": "matern32"}}}, r"\(.*named\.surrogate\.kernel: .*\)"),
    ):
        other = campaign(settings, **{"algorithm": {"kind": "mine"}, **changed})
        with pytest.raises(InputError, match=rf"another specification {said}"):
            created(ledger, other, tmp_path / "c.yaml")
    with pytest.raises(InputError, match=r"surrogate\.kernel: rbf -> matern32"):
        created(ledger, now, tmp_path / "c.yaml", strictly=True)


@pytest.mark.parametrize(
    ("algorithm", "noted"),
    [("{start: {n: 3}}", True), ("{kind: sobol}", False), ("{kind: auto, start: {n: 3}}", False)],
)
def test_check_notes_that_a_start_alone_learns_nothing(algorithm, noted, tmp_path, capsys):
    file = tmp_path / "c.yaml"
    words = "name: c\nseed: 1\nsense: minimize\nproblem: {kind: branin}\nsimulator: {kind: function}\n"
    file.write_text(f"{words}algorithm: {algorithm}\nbudget: {{trials: 5}}\n")
    assert main(["check", str(file), "--home", str(tmp_path)]) == 0
    said = "all designs are those of the proposer sobol, and nothing is learnt from results"
    assert (said in capsys.readouterr().out) is noted
