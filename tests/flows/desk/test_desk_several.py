"""Several objectives at the desk: all are predicted on a card, and what is known in part is shown as incomplete."""

import html
import re
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest
from bench import Bench, bench
from desk_site import people

from fieldcraft.flows.files.tables import Measurement
from fieldcraft.flows.results.correct import correct
from fieldcraft.flows.results.record import check, check_correction, record
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.text import clock

CAMPAIGN = """\
name: pair
seed: 5
problem:
  kind: declared
  variables: [{name: x, low: 0.0, high: 1.0}]
  results:
    - {name: price, unit: EUR, objective: minimize}
    - {name: yield, unit: g, objective: maximize}
    - {name: smoke, unit: "%"}
algorithm: {kind: gp_ehvi, start: {n: 2}, maximizer: {n_samples: 64, n_starts: 2}}
approval: batch
dispatcher: {kind: lab}
budget: {trials: 4}
"""
RESULT = "/laboratory/pair/result/pair-0002"


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Two orders: one result is whole, and of the other the price is known."""
    made = bench(tmp_path, CAMPAIGN, monkeypatch)
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    made.order()
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(people(tmp_path / "people.yaml")))
    tell(made, "pair-0001", price=2.0, smoke=-1.0, **{"yield": 1.0})
    tell(made, "pair-0002", price=1.25)
    return made


def tell(made: Bench, trial: str, **values: float) -> None:
    record(made.site, check(made.site, Measurement(trial, values=values)), "ann", "person")


def words(typed: str) -> list[str]:
    """Words that a shell hands to a command."""
    done = subprocess.run(["sh", "-c", f"printf '%s\\n' {typed}"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_result_in_part_is_shown_as_incomplete_until_the_rest_has_come(pair, browsers):
    browser = browsers(settings_from(home=pair.settings.home), "carla")
    pages = ("/campaign/pair", "/campaign/pair/trial/pair-0002", "/laboratory/pair")
    for page in pages:
        assert "incomplete" in browser.get(page).said and "1.25" in browser.get(page).said
    row = next(r for r in browser.get(pages[0]).text.split("<tr") if "trial/pair-0002" in r)
    assert "incomplete" in row and "1.25" in row
    assert "incomplete" not in browser.get("/campaign/pair/trial/pair-0001").said
    tell(pair, "pair-0002", smoke=-0.5, **{"yield": 3.0})
    for page in pages:
        assert "incomplete" not in browser.get(page).said


def test_a_card_tells_every_objective_with_its_unit_and_the_chance_to_be_feasible(pair, browsers):
    tell(pair, "pair-0002", smoke=-0.5, **{"yield": 3.0})
    pair.make_pass()
    origin = pair.ledger.trial("pair-0003").origin
    browser = browsers(settings_from(home=pair.settings.home), "carla")
    card = browser.get("/queue/pair").said
    means = {"price": origin.mean, "yield": origin.further["yield"].mean}
    for name, unit in (("price", "EUR"), ("yield", "g")):
        (told,) = re.findall(rf"{name} (\S+) (?:±|\+-) \S+ {unit}\b", card)
        assert float(told) == pytest.approx(means[name], rel=0.02)
    assert f"feasible with probability {origin.feasible:.2g}" in card
    page = browser.get("/campaign/pair/trial/pair-0003").said
    assert re.search(r"price not measured predicted \S+ .*EUR yield not measured predicted \S+ .*g smoke", page)
    assert page.count("predicted feasible") == 1 and f"with probability {origin.feasible:.2g}" in page
    assert "predicted feasible" not in browser.get("/campaign/pair/trial/pair-0001").said


def test_the_form_shows_what_is_measured_already_and_asks_for_the_rest(pair, browsers):
    browser = browsers(settings_from(home=pair.settings.home), "ana")
    page = browser.get("/laboratory/pair/result/pair-0002-1")
    (part,) = pair.ledger.results("pair-0002")
    assert f"price measured already 1.25 EUR recorded by ann, {clock(part.created)}" in page.said
    assert "Still missing: yield , smoke ." in page.said
    record_form, correct_form, retract_form = page.text.split('class="panel entry"')[1:]
    assert re.findall(r'name="y\.(\w+)"', record_form) == ["yield", "smoke"]
    assert re.findall(r'name="y\.(\w+)"', correct_form) == ["price"]
    assert 'action="/laboratory/pair/retract"' in retract_form and "all of it is asked for again" in retract_form
    assert "measured: 1.25 EUR" in browser.get("/laboratory/pair/orders").said
    browser.post("/laboratory/upload/pair/record", {"trial": "pair-0002-1", "y.yield": "3", "y.smoke": ""}, files={})
    assert "Still missing: smoke ." in browser.get("/laboratory/pair/result/pair-0002-1").said
    assert "measured already" not in browser.get("/laboratory/pair/result/pair-0001").said


def test_at_the_desk_a_part_with_another_value_is_refused_and_corrected_with_a_reason(pair, browsers):
    browser = browsers(settings_from(home=pair.settings.home), "ana")
    answer = browser.post("/laboratory/upload/pair/record", {"trial": "pair-0002", "y.price": "1.5"}, files={})
    assert answer.status == 422 and "the known price 1.25 EUR (recorded by ann, " in answer.said
    fields = {"trial": "pair-0002", "y.price": "1.5", "reason": "misread"}
    assert browser.post("/laboratory/upload/pair/correct", fields, files={}).status == 303
    assert "pair-0002: corrected to price 1.5 EUR (result 3 replaces 2)" in browser.get("/laboratory/pair").said
    assert "price measured already 1.5 EUR recorded by ana, " in browser.get("/laboratory/pair/result/pair-0002").said


def test_a_form_with_a_standard_deviation_alone_states_it_for_what_is_measured_already(pair, browsers):
    browser = browsers(settings_from(home=pair.settings.home), "ana")
    fields = {"trial": "pair-0002", "sd.price": "0.25", "reason": "of five weighings"}
    assert browser.post("/laboratory/upload/pair/correct", fields, files={}).status == 303
    assert pair.ledger.results("pair-0002")[-1].sd == {"price": 0.25}
    assert "price measured already 1.25 ± 0.25 EUR recorded by ann, " in browser.get(RESULT).said
    answer = browser.post("/laboratory/upload/pair/correct", {**fields, "sd.yield": "1"}, files={})
    assert answer.status == 422 and "pair-0002: yield is not known yet, so there is nothing to correct" in answer.said
    whole = {"trial": "pair-0001", "sd.yield": "0.5", "reason": "of five weighings"}
    assert browser.post("/laboratory/upload/pair/correct", whole, files={}).status == 303
    (_, last) = pair.ledger.results("pair-0001")
    assert (last.verdict, last.outputs["yield"], last.sd) == ("accepted", 1.0, {"yield": 0.5})
    assert pair.ledger.check() == []


def test_a_form_of_a_trial_that_was_completed_meanwhile_says_where_its_value_is_changed(pair, browsers):
    browser = browsers(settings_from(home=pair.settings.home), "ana")
    browser.post("/laboratory/upload/pair/record", {"trial": "pair-0001-1", "y.price": "3"}, files={})
    assert (
        "'fieldcraft correct' or the form of pair-0001 at the desk changes that" in browser.get("/laboratory/pair").said
    )


def test_each_field_of_the_form_is_named_by_its_output(pair, browsers):
    page = browsers(settings_from(home=pair.settings.home), "ana").get(RESULT).text
    for name in ("price", "yield", "smoke"):
        assert f'name="sd.{name}" aria-label="standard deviation of {name}' in page


def test_an_output_of_any_name_is_asked_for_told_and_given(tmp_path, monkeypatch, browsers):
    name = '<b>"peel" strength$'
    made = bench(tmp_path, CAMPAIGN.replace("name: price", f"name: '{name}'"), monkeypatch)
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    made.order()
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(people(tmp_path / "people.yaml")))
    browser, path = browsers(settings_from(home=made.settings.home), "ana"), "/laboratory/pair/result/pair-0001"
    (field,) = re.findall(r'name="(y\.[^"]*peel[^"]*)"', browser.get(path).text)
    assert unquote(field) == f"y.{name}"
    assert (
        browser.post("/laboratory/upload/pair/record", {"trial": "pair-0001", "y.smoke": "1"}, files={}).status == 303
    )
    (asked,) = re.findall(r"fieldcraft record pair-0001 (.*)' takes the rest", made.run("queue", "pair")[1])
    assert words(asked) == ["--value", f"{name}=NUMBER", "--value", "yield=NUMBER"]
    for value, status in (("2", 303), ("3", 422)):
        fields = {"trial": "pair-0001", field: value}
        answer = browser.post("/laboratory/upload/pair/record", fields, files={})
        assert answer.status == status
    (told,) = re.findall(r"fieldcraft correct (.*) --reason", html.unescape(answer.text))
    assert words(told) == ["pair-0001", "--value", f"{name}=3.0"]
    page = browser.get(path)
    assert f"{name} measured already 2 EUR recorded by ana" in page.said and "<b>&#34;" not in page.text


def test_trials_of_the_front_are_marked_where_they_stand(pair, browsers):
    browser = browsers(settings_from(home=pair.settings.home), "carla")
    assert "recorded a part of a result pair-0002" in browser.get("/campaign/pair").said
    tell(pair, "pair-0002", smoke=-0.5, **{"yield": 0.5})
    for trial in ("pair-0001", "pair-0002"):
        assert "on the front" in browser.get(f"/campaign/pair/trial/{trial}").said
    assert browser.get("/campaign/pair").text.count(">front</span>") == 2
    correct(pair.site, check_correction(pair.site, Measurement("pair-0002", values={"price": 9.0})), "ann", "misread")
    assert "on the front" not in browser.get("/campaign/pair/trial/pair-0002").said
    assert browser.get("/campaign/pair").text.count(">front</span>") == 1
