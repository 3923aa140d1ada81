"""Decisions at the desk: the rows of the command, bound to the digest of the card, one winner, within the limits."""

import json
import re
from typing import Any

import pytest
from desk_site import TOKENS, desk, people
from waiting import PLUGINS, Waiting, campaign

from fieldcraft.flows.cli import main
from fieldcraft.flows.identity import Person
from fieldcraft.flows.people import decisions, interventions
from fieldcraft.flows.rules.trial_labels import Choice
from fieldcraft.flows.settings import settings_from
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import Trial, TrialState

JSON = {"accept": "application/json"}
TIMES = {"id", "created", "updated", "heard", "expires"}


def rows(ledger: Ledger, name: str) -> str:
    """All that the ledger holds of a campaign's trials, but for times and running numbers."""
    trials = ledger.trials(name)
    records = [*trials, *ledger.history(name), *(a for t in trials for a in ledger.approvals(t.id))]
    records += [result for trial in trials for result in ledger.results(trial.id)]
    numbers = {"replaces", "parts"}

    def kept(data: Any) -> Any:
        if isinstance(data, dict):
            return {key: kept(value) for key, value in data.items() if key not in TIMES | numbers or data.get("number")}
        return [kept(each) for each in data] if isinstance(data, list) else data

    plain = [record.model_dump(mode="json") for record in records]
    return json.dumps([{**kept(each), "created": 0, "updated": 0, "heard": 0} for each in plain], indent=1)


def card(trial: Trial) -> str:
    return f"{trial.id}@{trial.revision}-{trial.digest}"


CASES = {
    "approve": (
        ["approve", "priced-0001", "--comment", "go on"],
        "decide",
        {"verb": "approve", "reason": "go on"},
    ),
    "reject": (["reject", "priced-0001", "--reason", "too hot"], "decide", {"verb": "reject", "reason": "too hot"}),
    "edit": (
        ["edit", "priced-0001", "t=31.5", "alloy=brass", "--reason", "off the rim"],
        "edit",
        {"x.t": "31.5", "x.alloy": "brass", "reason": "off the rim"},
    ),
    "prioritise": (
        ["prioritise", "priced-0001", "5", "--reason", "first"],
        "act",
        {"verb": "prioritise", "priority": "5", "reason": "first"},
    ),
}


@pytest.mark.parametrize("words", CASES.values(), ids=CASES)
def test_a_decision_writes_the_rows_of_its_command(home, browsers, monkeypatch, capsys, words):
    by_command, at_desk = home("command"), home("desk")
    command, path, fields = words
    before = rows(at_desk.ledger, "priced")
    monkeypatch.setenv("FIELDCRAFT_TOKEN", TOKENS["ana"])
    assert main([*command, "--home", str(by_command.settings.home)]) == 0, capsys.readouterr().err
    browser = browsers(at_desk.settings, "ana")
    done = browser.post(f"/queue/priced/{path}", {"choice": card(at_desk.trials()[0]), **fields}, **JSON)
    assert done.status == 200, done.text
    assert rows(at_desk.ledger, "priced") == rows(by_command.ledger, "priced") != before


@pytest.mark.parametrize("verb", ["cancel", "abandon", "retry"])
def test_an_intervention_writes_the_rows_of_its_command(home, browsers, monkeypatch, capsys, verb):
    sites = home("command"), home("desk")
    for site in sites:
        trial = site.trials()[0]
        decisions.approve(site.ledger, site.settings, Person("ana", "operator"), [Choice(trial.id)])
        trial = site.ledger.trial(trial.id)
        site.ledger.move(trial.id, TrialState.STAGED, trial.expect, "test", "", code=site.code)
        trial = site.ledger.trial(trial.id)
        if verb == "retry":
            site.ledger.move(trial.id, TrialState.HELD, trial.expect, "test", "who knows")
    monkeypatch.setenv("FIELDCRAFT_TOKEN", TOKENS["ana"])
    reason = "--comment" if verb == "retry" else "--reason"
    assert main([verb, "priced-0001", reason, "why not", "--home", str(sites[0].settings.home)]) == 0
    fields = {"choice": card(sites[1].trials()[0]), "verb": verb, "reason": "why not"}
    done = browsers(sites[1].settings, "ana").post("/queue/priced/act", fields, **JSON)
    assert done.status == 200, done.text
    assert rows(sites[1].ledger, "priced") == rows(sites[0].ledger, "priced")


@pytest.mark.parametrize("verb", ["abandon", "retry"])
def test_an_old_page_of_a_held_trial_changes_nothing_once_somebody_has_settled_it(priced, browsers, verb):
    ben, browser = Person("ben", "operator"), browsers(priced.settings, "ana")
    decisions.approve(priced.ledger, priced.settings, ben, [Choice("priced-0001")])

    def sent_and_held() -> None:
        for state in (TrialState.STAGED, TrialState.HELD):
            trial = priced.ledger.trial("priced-0001")
            priced.ledger.move(trial.id, state, trial.expect, "test", "who knows", code=priced.code)

    sent_and_held()
    for path in ("/queue/priced", "/campaign/priced/trial/priced-0001"):
        page = browser.get(path).text
        form = next(form for form in re.findall("<form.*?</form>", page, re.DOTALL) if f'value="{verb}"' in form)
        fields = dict(re.findall('name="(choice|version|verb)" value="([^"]+)"', form))
        interventions.retry(priced.ledger, priced.settings, ben, "priced-0001")
        sent_and_held()
        before = rows(priced.ledger, "priced")
        answer = browser.post("/queue/priced/act", {**fields, "reason": "lost"}, **JSON)
        assert answer.status == 409
        assert re.search(r"priced-0001 was held for a person by test \d s ago \(who knows\)\. Nothing", answer.text)
        assert rows(priced.ledger, "priced") == before


def test_a_card_shows_all_that_a_decision_needs(priced, browsers):
    answer = browsers(priced.settings, "ana").get("/queue/priced")
    trial = priced.trials()[0]
    assert answer.text.count("<article") == 3 and card(trial) in answer.text
    for said in (
        "priced-0001",
        trial.digest[:16],
        f"t {trial.design['t']:.6g} degC",
        "No model yet.",
        "Chosen by the start, not by a model of the results",
        f"{trial.cost:g} EUR leaves 6 of 7 trials",
        "The next pass sends priced-0001 to 'local', up to 3 times if it fails in passing.",
        "The approval does not expire.",
    ):
        assert said in answer.said, said


def test_a_card_counts_what_is_approved_and_not_sent_yet_to_what_the_budget_leaves(tmp_path, browsers, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(PLUGINS))
    made = campaign(tmp_path / "home", "human", budget={"trials": 7, "cost": 20, "unit": "EUR"})
    made.make_pass()
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(people(tmp_path / "people.yaml")))
    first, second, third = made.trials()
    browser, rest = browsers(settings_from(home=made.settings.home), "ana"), 20 - third.cost
    assert f"{third.cost:g} EUR leaves 6 of 7 trials and {rest:g} of 20 EUR" in browser.get("/queue/priced").said
    for number, trial in enumerate((first, second), start=1):
        assert browser.post("/queue/priced/decide", {"choice": card(trial), "verb": "approve"}).status == 303
        left = f"{third.cost:g} EUR leaves {6 - number} of 7 trials and {(rest := rest - trial.cost):g} of 20 EUR"
        assert left in browser.get("/queue/priced").said


def test_a_card_of_an_edited_design_gives_the_persons_reason_and_not_the_models(priced, browsers):
    first, browser = priced.trials()[0], browsers(priced.settings, "ana")
    asked = "Chosen by the start, not by a model of the results"
    assert browser.get("/queue/priced").said.count(asked) == 3
    decisions.edit(priced.ledger, priced.settings, Person("ben", "operator"), Choice(first.id), {"t": "33"}, "cooler")
    shown = browser.get("/queue/priced")
    said = shown.said
    assert f"ben changed t from {first.design['t']:.6g} degC to 33 degC: cooler." in said
    assert "No model asked for this design." in said and "The model is asked what it predicts" in said
    assert shown.text.count(f'data-predicted="/queue/priced/predicted/{first.id}"') == 1
    assert said.count(asked) == 2


def test_a_stale_card_says_so_and_who_changed_it(priced, browsers):
    ben, first = Person("ben", "operator"), priced.trials()[0]
    decisions.edit(priced.ledger, priced.settings, ben, Choice(first.id), {"t": "33"}, "cooler")
    before = rows(priced.ledger, "priced")
    browser = browsers(priced.settings, "ana")
    answer = browser.post("/queue/priced/decide", {"choice": card(first), "verb": "approve"}, **JSON)
    assert answer.status == 409
    assert re.search(r"priced-0001 is not what you saw: .* it was edited by ben \d s ago \(cooler\)", answer.text)
    said = browser.get(f"/queue/priced/stale?choice={card(first)}", **JSON)
    assert "was edited by ben" in said.text
    assert rows(priced.ledger, "priced") == before


def test_of_two_people_on_one_card_one_wins_and_the_other_is_told_who_did(priced, browsers):
    app = desk(priced.settings)
    ana, olga = browsers(priced.settings, "ana", app), browsers(priced.settings, "olga", app)
    fields = {"choice": card(priced.trials()[0]), "verb": "approve"}
    assert ana.post("/queue/priced/decide", fields, **JSON).status == 200
    late = olga.post("/queue/priced/decide", {**fields, "verb": "reject", "reason": "too hot"}, **JSON)
    assert late.status == 409 and "was approved by ana" in late.text
    (approval,) = priced.ledger.approvals("priced-0001")
    assert approval.by == "ana" and approval.live


def test_a_batch_is_decided_whole_or_not_at_all(priced, browsers):
    browser, trials = browsers(priced.settings, "ana"), priced.trials()
    choices = [("choice", card(trial)) for trial in trials]
    stale = [("choice", card(trials[0])), ("choice", f"{trials[1].id}@1-{'0' * 64}")]
    assert browser.post("/queue/priced/decide", [("verb", "approve"), *stale], **JSON).status == 409
    assert priced.states() == ["PROPOSED"] * 3
    answer = browser.post("/queue/priced/decide", [("verb", "approve"), ("reason", "all"), *choices], **JSON)
    assert (answer.status, json.loads(answer.text)["trials"]) == (200, [trial.id for trial in trials])
    assert priced.states() == ["APPROVED"] * 3


def test_an_approver_keeps_to_the_limit_of_the_file(priced, browsers):
    browser = browsers(priced.settings, "carla")
    dear = max(priced.trials(), key=lambda trial: trial.cost)
    assert dear.cost > 6
    answer = browser.post("/queue/priced/decide", {"choice": card(dear), "verb": "approve"}, **JSON)
    assert answer.status == 403 and "carla may approve up to 6" in answer.text
    assert priced.states() == ["PROPOSED"] * 3


def test_a_rejection_needs_a_reason_and_a_decision_its_digest(priced, browsers):
    browser, first = browsers(priced.settings, "ana"), priced.trials()[0]
    before = rows(priced.ledger, "priced")
    for fields, told in (
        ({"choice": card(first), "verb": "reject", "reason": " "}, "without a reason"),
        ({"choice": first.id, "verb": "approve"}, "names no digest"),
        ({"choice": card(first), "verb": "shred"}, "is no decision"),
        ({"verb": "approve"}, "No trial was chosen"),
    ):
        answer = browser.post("/queue/priced/decide", fields, **JSON)
        assert answer.status == 422 and told in answer.text
    answer = browser.post("/queue/priced/edit", {"choice": card(first), "x.t": "3_3"}, **JSON)
    assert answer.status == 422 and "3_3" in answer.text
    assert rows(priced.ledger, "priced") == before


def test_without_a_script_the_next_page_tells_what_was_done(priced, browsers):
    browser = browsers(priced.settings, "ana")
    answer = browser.post("/queue/priced/decide", {"choice": card(priced.trials()[0]), "verb": "approve"})
    assert (answer.status, answer.headers["location"]) == (303, "/queue/priced")
    assert "priced-0001: approved." in browser.get("/queue/priced").said
    assert "priced-0001: approved." not in browser.get("/queue/priced").said


def test_the_campaign_of_a_decision_is_that_of_its_trial(priced: Waiting, browsers):
    browser = browsers(priced.settings, "ana")
    fields = {"choice": card(priced.trials()[0]), "verb": "approve"}
    assert browser.post("/queue/other/decide", fields, **JSON).status == 422
    assert priced.states() == ["PROPOSED"] * 3


def test_two_trials_for_an_action_on_one_and_a_word_for_a_number_are_told(priced, browsers):
    browser, cards = browsers(priced.settings, "ana"), [("choice", card(trial)) for trial in priced.trials()]
    for path, fields, told in (
        ("edit", [*cards, ("x.t", "33")], "this is for one"),
        ("act", [*cards, ("verb", "retry")], "this is for one"),
        ("act", [cards[0], ("verb", "prioritise"), ("priority", "high")], "is a whole number"),
        ("act", [cards[0], ("verb", "shred")], "is nothing that can be done"),
        ("edit", [cards[0], ("x.t", str(priced.trials()[0].design["t"]))], "no value differs"),
        ("edit", [cards[0], ("x.t", "900")], "priced-0001"),
    ):
        answer = browser.post(f"/queue/priced/{path}", fields, **JSON)
        assert answer.status in (403, 422) and told in answer.text, answer.text
    assert priced.states() == ["PROPOSED"] * 3
