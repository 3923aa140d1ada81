"""A person's pick from the front: by name, knee or weights, with its reason, and where it is shown."""

import json

import pytest
from bench import Bench, bench

import fieldcraft as fc
from fieldcraft.flows.analysis.picks import as_weights, by_weights, knee
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.report.writing import write_report
from fieldcraft.storage.open_ledger import open_ledger

CAMPAIGN = """\
name: pair
seed: 5
problem:
  kind: declared
  variables: [{name: x, low: 0.0, high: 1.0}]
  results:
    - {name: price, unit: EUR, objective: minimize}
    - {name: yield, unit: "%", objective: maximize}
    - {name: smoke}
algorithm: {start: {n: 5}}
approval: batch
dispatcher: {kind: lab}
budget: {trials: 5}
"""
# price, yield, smoke: a front of three with its knee in the middle, one dominated, one not feasible.
RESULTS = ((0.0, 0.0, -1.0), (1.0, 8.0, -1.0), (4.0, 10.0, -1.0), (4.5, 9.0, -1.0), (0.0, 20.0, 0.5))


def front(*points: tuple[float, float]):
    """Data of a front: the first is minimised, the second maximised."""
    goals = [{"output": "price", "sense": "minimize"}, {"output": "yield", "sense": "maximize"}]
    trials = [
        {"trial": f"t{i}", "outputs": dict(zip(("price", "yield"), point, strict=True))}
        for i, point in enumerate(points)
    ]
    return {"objectives": goals, "trials": trials}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    with pytest.MonkeyPatch.context() as patch:
        made = bench(tmp_path_factory.mktemp("pair"), CAMPAIGN, patch)
        made.order()
        for number, values in enumerate(RESULTS, start=1):
            words = [f"{name}={value}" for name, value in zip(("price", "yield", "smoke"), values, strict=True)]
            assert made.run("record", f"pair-{number:04d}", *(w for word in words for w in ("--value", word)))[0] == 0
    return made


def test_the_knee_is_the_design_furthest_below_the_line_of_the_ends():
    """Distances to the line from (0, 0) to (4, 10), with both axes over the front's range."""
    points = [(0.0, 0.0), (1.0, 5.0), (1.6, 8.0), (4.0, 10.0)]
    below = [(y / 10 - x / 4) / 2**0.5 for x, y in points]
    assert knee(front(*points)) == f"t{below.index(max(below))}" == "t2"


def test_weights_are_of_the_front_s_own_ranges():
    points = [(0.0, 0.0), (1.0, 8.0), (4.0, 10.0)]
    assert by_weights(front(*points), {"price": 1, "yield": 1}) == "t1"
    assert by_weights(front(*points), {"price": 1, "yield": 5}) == "t2"
    assert by_weights(front(*points), {"price": 1, "yield": 0}) == "t0"
    wide = [(1000 * x, y / 1000) for x, y in points]
    assert by_weights(front(*wide), {"price": 1, "yield": 5}) == "t2"
    assert by_weights(front((2.0, 3.0)), {"price": 1, "yield": 5}) == "t0"


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ({"price": "much", "yield": 1}, "The weight of price is 'much': give a finite number"),
        ({"price": 10**400, "yield": 1}, "The weight of price is 1000"),
        ({"price": None, "yield": 1}, "The weight of price is None"),
        ([1, 2], r"The weights are \[1, 2\]: give one by the name of each objective"),
    ],
)
def test_weights_that_are_no_numbers_are_one_clear_error(weights, match):
    with pytest.raises(InputError, match=match):
        as_weights(weights)


def test_the_greatest_numbers_are_weights_and_results_too():
    points = [(0.0, 0.0), (1.0, 8.0), (4.0, 10.0)]
    assert by_weights(front(*points), {"price": 1e308, "yield": 1e308}) == "t1"
    assert by_weights(front(*points), {"price": 1e308, "yield": 5e-324}) == "t0"
    wide = [(1e308 * (x / 2 - 1), 1e308 * (y / 5 - 1)) for x, y in points]
    assert by_weights(front(*wide), {"price": 1, "yield": 5}) == "t2"


@pytest.mark.parametrize(
    ("points", "match"),
    [
        ([], "The front is empty: no result is feasible yet"),
        ([(0.0, 0.0)], "The front has 1 design, and a knee needs three"),
        ([(0.0, 0.0), (1.0, 1.0)], "The front has 2 designs"),
        ([(0.0, 0.0), (3.0, 2.0), (4.0, 10.0)], "no design lies below the line"),
        ([(0.0, 0.0), (1.0, 5.0), (2.0, 7.5), (4.0, 10.0)], "t1, t2 are equally the knee: pick one"),
    ],
)
def test_a_front_without_one_knee_is_a_clear_error(points, match):
    with pytest.raises(InputError, match=match):
        knee(front(*points))


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ({"price": 1}, "The weights are of price, and the objectives are price, yield: give one of each"),
        ({"price": 1, "yield": 1, "mass": 1}, "The weights are of price, yield, mass"),
        ({"price": -1, "yield": 1}, "that of price is -1"),
        ({"price": float("nan"), "yield": 1}, "that of price is nan"),
        ({"price": 0, "yield": 0}, "all are 0"),
    ],
)
def test_wrong_weights_are_a_clear_error(weights, match):
    with pytest.raises(InputError, match=match):
        by_weights(front((0.0, 0.0), (1.0, 8.0)), weights)
    with pytest.raises(InputError, match="The front is empty"):
        by_weights(front(), {"price": 1, "yield": 1})
    with pytest.raises(InputError, match="t0, t1 are equally the best by these weights"):
        by_weights(front((0.0, 8.0), (0.0, 8.0)), {"price": 1, "yield": 1})


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (
            ["pair-0004", "--why", "x"],
            "pair-0004 is dominated by other results, so it is not on the front. On it: pair-0",
        ),
        (["pair-0005", "--why", "x"], "pair-0005 is not feasible (smoke 0.5 above 0)"),
        (["--why", "x"], "Give exactly one of a trial, the knee and weights"),
        (["pair-0001", "--knee", "--why", "x"], "Give exactly one of a trial, the knee and weights"),
        (["--knee", "--why", " "], "A pick without a reason teaches nobody"),
        (["--weights", "price=2,yield", "--why", "x"], "'yield' is no OUTPUT=WEIGHT"),
        (["--weights", "price=2,price=1", "--why", "x"], "given twice"),
        (["other-0001", "--why", "x"], "other-0001"),
    ],
)
def test_a_pick_that_cannot_be_is_one_error_and_records_nothing(pair, monkeypatch, words, match):
    code, _, err = pair.run("pick", "pair", *words)
    assert code == 2 and match in err
    assert open_ledger(pair.settings.ledger).picked("pair") is None


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"knee": True, "why": 5}, "The reason is 5: give a text"),
        ({"knee": True, "why": None}, "The reason is None: give a text"),
        ({"knee": "yes", "why": "x"}, "knee is 'yes': give True or False"),
        ({"knee": 1, "why": "x"}, "knee is 1: give True or False"),
    ],
)
def test_a_pick_in_python_of_another_type_is_one_error_too(pair, words, match):
    with pytest.raises(InputError, match=match):
        fc.campaign("pair", home=pair.settings.home).pick(**words)
    assert open_ledger(pair.settings.ledger).picked("pair") is None


def test_a_pick_is_recorded_and_shown_in_status_report_and_python(pair, tmp_path):
    assert pair.run("pick", "pair", "pair-0001", "--why", "cheap")[0] == 0
    code, out, _ = pair.run("pick", "pair", "--knee", "--why", "little is gained beyond")
    assert code == 0 and out.startswith("picked pair-0002, the knee, by ")
    picked = json.loads(pair.run("status", "pair", "--json")[1])[0]["picked"]
    assert (picked["trial"], picked["how"], picked["since"]) == ("pair-0002", {"rule": "the knee"}, None)
    assert picked["outputs"] == {"price": 1.0, "yield": 8.0, "smoke": -1.0}
    assert "picked   pair-0002, the knee, by " in pair.run("status", "pair")[1]
    campaign = fc.campaign("pair", home=pair.settings.home)
    assert campaign.picked["trial"] == "pair-0002"
    assert campaign.pick(weights={"price": 1, "yield": 5}, why="yield first") == "pair-0003"
    assert campaign.picked["how"] == {"rule": "weights", "weights": {"price": 1.0, "yield": 5.0}}
    assert "all results, and those on the front" in campaign._repr_html_()
    page = tmp_path / "pair.html"
    ledger = open_ledger(pair.settings.ledger)
    write_report(pair.settings, ledger, ledger.campaign("pair"), page)
    text = page.read_text()
    assert "Picked: pair-0003, by weights price 1, yield 5, by " in text
    assert "picked from the front: the knee" in text


def test_a_pick_says_if_its_result_was_corrected_since(pair):
    campaign = fc.campaign("pair", home=pair.settings.home)
    campaign.pick("pair-0003", why="the best yield")
    campaign.tell("pair-0003", {"price": 4.0, "yield": 7.0, "smoke": -1.0}, reason="misread")
    assert campaign.picked["since"] == "corrected, off the front" and campaign.picked["outputs"]["yield"] == 10.0
    said = "the best yield; its result was corrected since; it is off the front by now"
    assert said in pair.run("status", "pair")[1]
    assert pair.run("retract", "pair-0003", "--reason", "the wrong vessel")[0] == 0
    assert campaign.picked["since"] == "retracted"
    assert "the best yield; its result was retracted since\n" in pair.run("status", "pair")[1]


def test_a_campaign_of_one_objective_has_no_front_to_pick_from(tmp_path, monkeypatch):
    one = CAMPAIGN.replace("yield", "yield_").replace(", objective: maximize", "").replace(", objective: minimize", "")
    made = bench(tmp_path, one.replace("seed: 5", "seed: 5\nsense: minimize"), monkeypatch)
    made.order()
    code, _, err = made.run("pick", "pair", "--knee", "--why", "x")
    assert code == 2 and "has one objective, whose best" in err
