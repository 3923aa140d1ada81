"""Campaigns that begin with the results of an earlier one: read once, kept by digest, and one error if wrong."""

from types import SimpleNamespace

import numpy as np
import pytest

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.recovery.reproduce import remade
from fieldcraft.flows.results.correct import retract
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.steps.leases import held
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.context import site_of
from fieldcraft.flows.wiring.create import created
from fieldcraft.flows.wiring.warm.kept import earlier_at, first_designs
from fieldcraft.flows.wiring.warm.sources import read_source, told
from fieldcraft.models.observations import EarlierResults
from fieldcraft.storage.objective import Objective
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Known

OLD = {
    "name": "old",
    "seed": 3,
    "sense": "minimize",
    "problem": {"kind": "branin"},
    "simulator": {"kind": "function"},
    "algorithm": {"kind": "sobol"},
    "dispatcher": {"kind": "inline"},
    "budget": {"trials": 8},
}
NEW = {
    **OLD,
    "name": "new",
    "seed": 4,
    "algorithm": {"kind": "auto", "start": {"n": 2}, "surrogate": {"candidates": ["exact_gp", "warm_gp"]}},
    "budget": {"trials": 5},
    "warm_start": {"campaign": "old"},
}


def wired(home, **changes):
    """The campaign of a home's file."""
    return wire(parse({**NEW, **changes}), settings_from({}, home=home))


def run(home, spec, passes=None):
    """Passes over a campaign, to its end or so many."""
    campaign = wire(parse(spec), settings_from({}, home=home))
    ledger = open_ledger(campaign.settings.ledger, create=True)
    created(ledger, campaign, home / f"{spec['name']}.yaml")
    with held(ledger, spec["name"]) as lease:
        while passes != 0 and not make_pass(Ref(str(home), spec["name"], lease.model_dump())).decision.finished:
            passes = None if passes is None else passes - 1
    return site_of(str(home), spec["name"], None)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home with an earlier campaign, and a later one that began with it."""
    place = tmp_path_factory.mktemp("home")
    run(place, OLD)
    run(place, NEW)
    return place


def designs(site):
    return [trial.design for trial in site.ledger.trials("new")]


def test_the_first_design_is_the_earlier_best_and_models_learn_from_the_earlier_results(home):
    site = site_of(str(home), "new", None)
    old, new = site.ledger.trials("old"), site.ledger.trials("new")
    assert new[0].design == min(old, key=lambda trial: trial.outputs["value"]).design
    assert new[1].design not in [trial.design for trial in old]
    assert "score.warm_gp" in site.ledger.latest("new", "train").payload["metrics"]
    (earlier,) = earlier_at(site.campaign, site.ledger)
    assert earlier.name == "old" and earlier.Y[:, 0].tolist() == [trial.outputs["value"] for trial in old]
    assert np.array_equal(earlier.X, site.campaign.space.encode([trial.design for trial in old]))


def test_the_earlier_best_violates_least_though_one_constraint_never_changes():
    campaign = SimpleNamespace(objective=Objective("value", maximize=False))
    X, Y = np.arange(6.0).reshape(3, 2) / 6, np.array([[1.0, 0.5, 9.0], [2.0, 0.5, 3.0], [3.0, 0.5, 5.0]])
    found = first_designs(campaign, (EarlierResults("old", X, Y),))
    assert found.tolist() == X[[1]].tolist()


def test_what_was_read_is_kept_though_the_earlier_campaign_grows_and_the_new_one_is_interrupted(home, tmp_path):
    whole = site_of(str(home), "new", None)
    run(tmp_path, OLD)
    run(tmp_path, NEW, passes=2)
    retract(site_of(str(tmp_path), "old", None), "old-0001", "ana", "spilt")
    resumed = run(tmp_path, NEW)
    assert designs(resumed) == designs(whole)
    kept = [site.ledger.product("new", 0, "warm_start") for site in (whole, resumed)]
    assert kept[0].reference.digest == kept[1].reference.digest
    assert told(resumed.campaign) is None
    assert resumed.fields.verify(kept[1].reference) is None
    assert remade(resumed, kept[1]).equals(resumed.fields.read(kept[1].reference))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"name": "x", "warm_start": {"campaign": "odl"}}, "campaign 'odl' is not in its ledger. Known: old, new"),
        ({"warm_start": {"campaign": "new2"}, "name": "new2"}, "is this campaign itself"),
        ({"warm_start": [{"campaign": "old"}, {"campaign": "old"}], "name": "x"}, "named twice: name it once"),
        (
            {"name": "x", "warm_start": {"campain": "old"}},
            r"warm_start\.campain: unknown key 'campain'\. Did you mean 'ca",
        ),
        (
            {"name": "x", "warm_start": [{"campaign": "old", "hme": "a"}]},
            r"0\.hme: unknown key 'hme'\. Did you mean 'home'",
        ),
        ({"name": "x", "warm_start": {"home": "a"}}, r"warm_start\.campaign: missing\. Give it"),
        ({"name": "x", "warm_start": "old"}, r"warm_start: give an earlier campaign as \{campaign: NAME\}, or a list"),
        ({"name": "x", "problem": {"kind": "hartmann"}}, "has the variables x1, x2, and this one has"),
        (
            {"name": "x", "space": {"x1": [9.99, 10.0], "x2": [14.9, 15]}},
            "8 results, and none of a design in the space",
        ),
        (
            {"name": "x", "algorithm": {"kind": "gp_ei"}},
            "exact_gp x log_ei x multistart learns nothing from an earlier",
        ),
        ({"name": "x", "warm_start": {"campaign": "old", "home": "old"}}, "Ask for FIELDCRAFT_RECORDS to be set"),
        (
            {"name": "x", "warm_start": (), "algorithm": {"kind": "gp_ei", "surrogate": {"kind": "warm_gp"}}},
            "no `warm_start` names one",
        ),
    ],
)
def test_a_wrong_earlier_campaign_is_one_clear_error(home, changes, match):
    with pytest.raises(InputError, match=match):
        wired(home, **changes)


def test_check_says_with_what_a_campaign_begins_and_what_is_left_out(home):
    campaign = wired(home, name="x", space={"x1": [0.0, 10.0]})
    inside = sum(trial.design["x1"] >= 0 for trial in open_ledger(home / "ledger.sqlite").trials("old"))
    assert 0 < inside < 8
    left = f"({8 - inside} of designs outside the space are left out)"
    assert told(campaign) == f"it begins with {inside} results of campaign 'old' {left}."


GLUED = {
    "seed": 5,
    "sense": "maximize",
    "problem": {
        "kind": "declared",
        "variables": [{"name": "glue", "choices": ["A", "B"]}, {"name": "cure", "low": 20, "high": 90}],
        "results": [{"name": "y", "unit": "MPa"}],
    },
    "algorithm": {"kind": "auto", "start": {"n": 4}},
    "dispatcher": {"kind": "lab"},
    "budget": {"trials": 6},
}


def glued(home, name, only_if, **more):
    """A campaign in which a time of curing exists for some glue alone, or for all."""
    glue, cure = GLUED["problem"]["variables"]
    variables = [glue, {**cure, "only_if": {"glue": only_if}} if only_if else cure]
    spec = {**GLUED, "name": name, "problem": {**GLUED["problem"], "variables": variables}, **more}
    return wire(parse(spec), settings_from({}, home=home))


@pytest.mark.parametrize(
    ("then", "now", "learnt"),
    [
        (["B"], ["B"], [("A", 55.0), ("B", 30.0)]),
        (["B"], ["A"], []),
        (["B"], None, [("B", 30.0)]),
        (None, ["B"], [("A", 70.0), ("B", 30.0)]),
    ],
)
def test_only_values_that_were_measured_are_learnt_where_a_variable_does_not_always_exist(tmp_path, then, now, learnt):
    campaign = glued(tmp_path, "then", then)
    ledger = open_ledger(campaign.settings.ledger, create=True)
    created(ledger, campaign, tmp_path / "then.yaml")
    given = [{"glue": "A", "cure": 55.0 if then else 70.0}, {"glue": "B", "cure": 30.0}]
    ledger.adopt("then", [Known(design=design, outputs={"y": 1.0}) for design in given], "0" * 64, "imported", "ana")
    later = {"warm_start": {"campaign": "then"}}
    if not learnt:
        with pytest.raises(InputError, match="has 2 results, and none of a design in the space of 'now'"):
            glued(tmp_path, "now", now, **later)
        return
    campaign = glued(tmp_path, "now", now, **later)
    read = read_source(campaign, campaign.spec.warm_start[0])
    found = [(design["glue"], design["cure"]) for design in campaign.space.decode(read.X)]
    assert found == [(glue, cure if glue != "A" or not now else 55.0) for glue, cure in learnt]
    assert read.outside == 2 - len(learnt)


def test_another_home_is_read_from_the_folder_of_records(home, tmp_path):
    settings = settings_from({"FIELDCRAFT_RECORDS": str(home.parent)}, home=tmp_path)
    source = {"campaign": "old", "home": home.name}
    assert told(wire(parse({**NEW, "warm_start": source}), settings)) == "it begins with 8 results of campaign 'old'."


@pytest.mark.parametrize("place", ["../..", "/etc", "a\0b", "a" * 300, "\ud800", "loop", "out", "linked"])
def test_another_home_outside_the_folder_of_records_is_one_clear_error(home, tmp_path, place):
    records = tmp_path / "records"
    (records / "linked").mkdir(parents=True)
    (records / "loop").symlink_to("loop")
    (records / "out").symlink_to(home)
    (records / "linked" / "ledger.sqlite").symlink_to(home / "ledger.sqlite")
    settings = settings_from({"FIELDCRAFT_RECORDS": str(records)}, home=tmp_path)
    with pytest.raises(InputError, match="is no folder in"):
        wire(parse({**NEW, "warm_start": {"campaign": "old", "home": place}}), settings)
