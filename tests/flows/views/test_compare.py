"""Two campaigns of one home, told apart as text, as data and as a page."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from small import SMALL, finish

from fieldcraft.flows.cli import main
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.views.compare import best_after, compare, milestones
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Origin, Proposal, TrialState, digest_of

OTHER = SMALL.replace("name: small", "name: other").replace("seed: 3", "seed: 4").replace("trials: 3", "trials: 2")
OPPOSITE = OTHER.replace("name: other", "name: opposite").replace("minimize", "maximize")


@pytest.fixture
def home(finished: Path) -> Path:
    """``small`` of three trials beside ``other``, another seed and two trials."""
    (finished / "other.yaml").write_text(OTHER)
    finish(finished / "other.yaml", finished / "home")
    return finished / "home"


def ledger_of(home: Path) -> Ledger:
    return open_ledger(home / "ledger.sqlite")


def told(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> str:
    capsys.readouterr()
    assert main(["compare-runs", *words, "--home", str(home)]) == 0
    return capsys.readouterr().out


def test_two_campaigns_are_compared_after_equal_numbers_of_trials(home):
    ledger = ledger_of(home)
    data = compare(settings_from(home=home), ledger, ("small", "other"))
    small, other = ([trial.outputs["value"] for trial in ledger.trials(name)] for name in ("small", "other"))
    assert [row["trials"] for row in data["progress"]] == [1, 2, 3]
    assert [row["best"] for row in data["progress"]] == [
        [small[0], other[0]],
        [min(small[:2]), min(other)],
        [min(small), None],
    ]
    assert data["comparable"] is True
    assert data["differences"] == ["budget.trials: 3 -> 2", "seed: 3 -> 4"]


def test_each_side_says_best_regret_cost_time_and_failures(home):
    ledger = ledger_of(home)
    (side, _) = compare(settings_from(home=home), ledger, ("small", "other"))["campaigns"]
    best = min(ledger.trials("small"), key=lambda trial: trial.outputs["value"])
    models = [product for product in ledger.products("small") if product.step == "train"]
    assert (side["best"], side["best_trial"]) == (best.outputs["value"], best.id)
    assert (side["trials"], side["completed"], side["failed"]) == (3, 3, 0)
    assert side["optimum"] == pytest.approx(0.397887, abs=1e-6)
    assert side["regret"] > 0
    assert side["spent"] == ledger.spending("small").spent == 3.0
    assert side["seconds"] == ledger.spending("small").seconds > 0
    assert side["training_seconds"] == sum(model.payload["seconds"] for model in models)


def test_the_text_shows_both_side_by_side_and_json_says_the_same(home, capsys):
    said = told(capsys, home, "small", "other").splitlines()
    assert said[0].split() == ["small", "other"]
    assert [line.split()[-1] for line in said if line.startswith("spent")] == ["units"]
    assert said[-3:] == ["differences", "  budget.trials: 3 -> 2", "  seed: 3 -> 4"]
    assert any(line.startswith("best after 2") for line in said)
    data = json.loads(told(capsys, home, "small", "other", "--json"))
    assert data == compare(settings_from(home=home), ledger_of(home), ("small", "other"))


def test_the_page_has_one_chart_of_both_and_asks_for_nothing(home, capsys):
    file = home.parent / "both.html"
    told(capsys, home, "small", "other", "--html", str(file))
    text = file.read_text(encoding="utf-8")
    assert text.count('<script type="application/json">') == 1
    assert (
        " src=" not in text.replace("<script>", "").partition("</main>")[0] and "default-src &#x27;none&#x27;" in text
    )
    assert "<code>seed</code></td><td>3 -&gt; 4" in text
    assert "true optimum" in text.partition('<script type="application/json">')[2].partition("</script>")[0]


def test_campaigns_of_opposite_senses_are_told_not_to_compare(finished, capsys):
    (finished / "opposite.yaml").write_text(OPPOSITE)
    finish(finished / "opposite.yaml", finished / "home")
    said = told(capsys, finished / "home", "small", "opposite", "--html", str(finished / "page.html"))
    assert "their results do not compare" in said
    assert "best after" not in said
    page = (finished / "page.html").read_text()
    assert "their results do not compare" in page
    assert "application/json" not in page


def test_campaigns_of_different_problems_do_not_compare_though_their_outputs_bear_one_name(finished, capsys):
    ledger = ledger_of(finished / "home")
    small = ledger.campaign("small")
    spec = {**small.spec, "name": "ackley", "problem": {"kind": "ackley"}}
    ledger.create_campaign("ackley", spec, digest_of(spec), small.environment, "test")
    assert "objectives of different problems" in told(capsys, finished / "home", "small", "ackley")


def test_one_campaign_or_an_unknown_one_is_refused(finished, capsys):
    home = str(finished / "home")
    assert main(["compare-runs", "small", "small", "--home", home]) == 2
    assert "small and small are one campaign. Name two that differ." in capsys.readouterr().err
    assert main(["compare-runs", "small", "smal", "--home", home]) == 2
    assert "No campaign 'smal' here. Did you mean 'small'?" in capsys.readouterr().err


def test_the_best_meets_the_constraints_and_failures_do_not_count(tmp_path):
    ledger, spec = open_ledger(tmp_path / "ledger.sqlite", create=True), {"sense": "minimize"}
    environment = {"outputs": [{"name": "cost", "unit": "EUR"}, {"name": "g", "unit": ""}], "units": {"x": ""}}
    campaign = ledger.create_campaign("c", spec, digest_of(spec), environment, "test")
    origins = [Origin(kind="initial", algorithm="sobol", iteration=0, slot=slot) for slot in range(4)]
    proposals = [Proposal(design={"x": 1.0}, origin=origin) for origin in origins]
    readings = [(5.0, 1.0), (4.0, 0.0), None, (6.0, -1.0)]
    for trial, reading in zip(ledger.propose("c", 0, proposals, "test"), readings, strict=True):
        trial = ledger.approve(trial.id, trial.expect, trial.digest, "test", "", "auto", 1)
        for state in (TrialState.STAGED, TrialState.RUNNING):
            trial = ledger.move(trial.id, state, trial.expect, "test", "by hand")
        if reading is None:
            ledger.move(trial.id, TrialState.FAILED, trial.expect, "test", "broke", failure="unknown")
        else:
            outputs = dict(zip(("cost", "g"), reading, strict=True))
            ledger.record(trial.id, trial.expect, outputs, None, "test", "person", {})
    assert best_after(campaign, ledger.trials("c")) == [None, 4.0, 4.0]


@pytest.mark.parametrize(("length", "shown"), [(3, [1, 2, 3]), (20, [3, 6, 9, 12, 15, 18, 20])])
def test_a_text_shows_a_few_rows_and_always_the_last(length, shown):
    rows = [{"trials": n + 1, "best": [1.0, 2.0]} for n in range(length)] + [
        {"trials": length + 1, "best": [1.0, None]}
    ]
    assert [row["trials"] for row in milestones(rows)] == shown


def test_comparing_loads_no_torch(home, tmp_path):
    program = f"""
import sys
from fieldcraft.flows.cli import main
assert main(["compare-runs", "small", "other", "--html", {str(tmp_path / "page.html")!r}, "--home", {str(home)!r}]) == 0
print(sorted({{"torch", "prefect", "mlflow"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_text_of_many_lines_stays_on_its_own(home, capsys):
    (home.parent / "lines.yaml").write_text(
        OTHER.replace("name: other", "name: lines") + 'dispatcher: {instructions: "one\\nregret  0 K"}\n'
    )
    finish(home.parent / "lines.yaml", home)
    said = told(capsys, home, "other", "lines").splitlines()
    assert "  dispatcher.instructions: '' -> one regret  0 K" in said
    assert sum(line.startswith("regret") for line in said) == 1
