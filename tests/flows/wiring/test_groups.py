"""Groups of variables in a campaign file: which words go together, which spaces, and a campaign with a certificate."""

import re

import pytest
import yaml
from small import SMALL, finish

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import rewire, wire
from fieldcraft.storage.open_ledger import open_ledger

CUT = '''\
"""A problem whose constraint couples two of its variables."""
from dataclasses import dataclass

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Categorical, Continuous, LinearConstraint, SearchSpace


@dataclass(frozen=True)
class Cut(Problem):
    """See the test."""

    space = SearchSpace(
        (Continuous("x", 0.0, 1.0), Continuous("y", 0.0, 1.0), Categorical("gas", ("N2", "Ar"))),
        (LinearConstraint({"x": 1.0, "y": 1.0}, 0.5),),
    )
    outputs = (Output("value"),)

    def function(self, design):
        return {"value": (design["x"] - 0.4) ** 2 + design["y"] + (design["gas"] == "Ar")}
'''


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "problems").mkdir()
    (tmp_path / "problems" / "cut.py").write_text(CUT)
    return settings_from({"FIELDCRAFT_PLUGINS": str(tmp_path)}, home=tmp_path / "home")


def asked(surrogate, acquisition, maximizer, problem="branin"):
    words = {"surrogate": surrogate, "acquisition": acquisition, "maximizer": maximizer}
    words = {name: {"kind": kind} if isinstance(kind, str) else kind for name, kind in words.items()}
    return parse(
        {**yaml.safe_load(SMALL), "problem": {"kind": problem}, "algorithm": {"start": {"n": 2}, **words}}, "c"
    )


GROUPED = {"kind": "grouped_gp", "groups": [["y", "x"]]}


@pytest.mark.parametrize("words", [("grouped_gp", "add_ucb"), ("grouped_gp", "ucb"), ("grouped_gp", "thompson")])
def test_a_sum_goes_with_any_acquisition_that_needs_no_exact_process_and_multistart(settings, words):
    assert (
        wire(asked(*words, "multistart"), settings).spec.algorithm.in_words == f"{words[0]} x {words[1]} x multistart"
    )
    assert wire(asked(*words, "multistart", problem="cut"), settings)


@pytest.mark.parametrize("maximizer", ["certified", "pk_miqp"])
def test_maximizers_with_a_bound_take_a_sum_term_by_term(settings, maximizer):
    campaign = wire(asked("grouped_gp", {"kind": "add_ucb", "beta": "growing"}, maximizer), settings)
    assert campaign.spec.algorithm.in_words == f"grouped_gp x add_ucb x {maximizer}"
    cut = wire(asked(GROUPED, "add_ucb", maximizer, problem="cut"), settings)
    assert cut.algorithm.surrogate.columns(cut.space) == ((1, 0), (2, 3))
    again = rewire(cut.data, settings)
    assert again.algorithm == cut.algorithm and again.digest == cut.digest


@pytest.mark.parametrize(
    ("words", "problem", "message"),
    [
        (
            ("exact_gp", "add_ucb", "certified"),
            "branin",
            "algorithm.acquisition: 'add_ucb' needs a sum of functions of groups of variables, and the surrogate "
            "'exact_gp' gives none. Use the surrogate grouped_gp, or the acquisition ucb, which takes any.",
        ),
        (("additive_gp", "add_ucb", "multistart"), "branin", "'add_ucb' needs a sum of functions of groups"),
        (
            ("grouped_gp", "ucb", "certified"),
            "branin",
            "algorithm.maximizer: 'certified' searches the groups of the surrogate 'grouped_gp' one by one, and the "
            "acquisition 'ucb' is no sum over them. Use add_ucb, or the surrogate exact_gp, or the maximizer multis",
        ),
        (("grouped_gp", "log_ei", "pk_miqp"), "branin", "acquisition 'log_ei' is no sum over them. Use add_ucb"),
        (("grouped_gp", "mes", "multistart"), "branin", "acquisition: 'mes' needs an exact Gaussian process"),
        (
            ({"kind": "grouped_gp", "groups": [["x1", "x3"]]}, "ucb", "multistart"),
            "branin",
            "algorithm.surrogate: groups name 'x3', and the variables are x1, x2: correct the name.",
        ),
        (({"kind": "grouped_gp", "groups": [["x1"], ["x1"]]}, "ucb", "multistart"), "branin", "name 'x1' twice"),
        (
            ("grouped_gp", "add_ucb", "certified"),
            "cut",
            "algorithm.maximizer: The constraint x + y <= 0.5 couples groups of variables that are searched one by "
            "one: put x, y into one of the surrogate's groups, or use `maximizer: multistart`.",
        ),
        (("grouped_gp", "add_ucb", "pk_miqp"), "cut", "put x, y into one of the surrogate's groups"),
    ],
)
def test_words_and_spaces_that_do_not_go_with_groups_are_refused_at_check(settings, words, problem, message):
    with pytest.raises(InputError, match=re.escape(message)):
        wire(asked(*words, problem=problem), settings)


def test_a_campaign_of_groups_has_a_certificate_for_each_design(tmp_path):
    data = {**yaml.safe_load(SMALL), "dispatcher": {"kind": "inline"}, "budget": {"trials": 4}}
    words = {
        "surrogate": {"kind": "grouped_gp"},
        "acquisition": {"kind": "add_ucb"},
        "maximizer": {"kind": "certified"},
    }
    data["algorithm"] = {"start": {"n": 2}, **words}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(data))
    finish(tmp_path / "small.yaml", tmp_path / "home")
    ledger = open_ledger(tmp_path / "home" / "ledger.sqlite")
    for number in (3, 4):
        origin = ledger.trial(f"small-000{number}").origin
        assert (origin.certificate.status, origin.certificate.bound_of) == ("optimal", "exact")
        assert 0 <= origin.certificate.gap <= 0.01
