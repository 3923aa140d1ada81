"""A pick from the front at the desk: a form on the trial's page, the rows of the command, and who may not."""

from pathlib import Path

import pytest
from bench import Bench, bench
from desk_site import TOKENS, people
from test_desk_decisions import card, rows

from fieldcraft.flows.settings import settings_from

CAMPAIGN = """\
name: pair
seed: 5
problem:
  kind: declared
  variables: [{name: x, low: 0.0, high: 1.0}]
  results: [{name: price, unit: EUR, objective: minimize}, {name: yield, objective: maximize}]
algorithm: {start: {n: 2}}
approval: batch
dispatcher: {kind: lab}
budget: {trials: 2}
"""


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Two results: the second is better in both objectives."""
    made = bench(tmp_path, CAMPAIGN, monkeypatch)
    made.order()
    for number, (price, value) in enumerate(((2.0, 1.0), (1.0, 3.0)), start=1):
        words = ("--value", f"price={price}", "--value", f"yield={value}")
        assert made.run("record", f"pair-{number:04d}", *words)[0] == 0
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(people(tmp_path / "people.yaml")))
    return made


def test_a_trial_of_the_front_is_picked_with_a_reason_by_who_may_decide(pair, browsers):
    settings = settings_from(home=pair.settings.home)
    first, second = pair.ledger.trials("pair")
    assert "Pick it from the front" not in browsers(settings, "carla").get("/campaign/pair/trial/pair-0001").said
    browser = browsers(settings, "carla")
    assert "Pick it from the front" in browser.get("/campaign/pair/trial/pair-0002").said
    form = {"verb": "pick", "back": "trial", "version": str(second.version), "reason": "both are better"}
    refused = browsers(settings, "vera")
    refused.get("/campaign/pair/trial/pair-0002")
    assert refused.post("/queue/pair/act", {**form, "choice": card(second)}).status == 403
    of_first = {**form, "choice": card(first), "version": str(first.version)}
    assert browser.post("/queue/pair/act", of_first).status == 422
    assert browser.post("/queue/pair/act", {**form, "choice": card(second), "reason": " "}).status == 422
    before = rows(pair.ledger, "pair")
    assert browser.post("/queue/pair/act", {**form, "choice": card(second)}).status == 303
    assert rows(pair.ledger, "pair") != before
    event = pair.ledger.picked("pair")
    assert (event.trial, event.by, event.reason) == ("pair-0002", "carla", "both are better")
    assert "pair-0002 picked" in browser.get("/campaign/pair").said


def test_a_result_that_was_corrected_since_it_was_seen_is_not_picked(pair, browsers, monkeypatch):
    browser, (_, second) = browsers(settings_from(home=pair.settings.home), "carla"), pair.ledger.trials("pair")
    page = browser.get("/campaign/pair/trial/pair-0002").text
    assert f'name="version" value="{second.version}"' in page
    form = {"verb": "pick", "back": "trial", "reason": "cheap", "choice": card(second)}
    monkeypatch.setenv("FIELDCRAFT_TOKEN", TOKENS["ana"])
    assert pair.run("correct", "pair-0002", "--value", "price=1.5", "--reason", "misread")[0] == 0
    stale = browser.post("/queue/pair/act", {**form, "version": str(second.version)})
    assert stale.status == 409 and "was corrected since" in stale.said
    for version in ("", "x", "9" * 40):
        assert browser.post("/queue/pair/act", {**form, "version": version}).status == 422
    assert pair.ledger.picked("pair") is None
    now = pair.ledger.trial("pair-0002").version
    assert browser.post("/queue/pair/act", {**form, "version": str(now)}).status == 303
    assert pair.ledger.picked("pair").details["outputs"]["price"] == 1.5
