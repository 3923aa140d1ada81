"""Figures of the desk as JSON: made of the rows of the ledger, once for each state of it, and their tables apart."""

import json

from desk_site import HOST, TOKENS

JSON = {"accept": "application/json"}


def figures(browser, path: str, **headers: str) -> dict[str, dict]:
    answer = browser.get(path, **JSON, **headers)
    assert answer.status == 200, answer.said
    return {chart["title"]: chart for chart in json.loads(answer.text)["charts"]}


def test_the_figures_of_a_campaign_are_its_results_and_their_tables_come_apart(oven, browsers, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_TOKEN", TOKENS["ana"])
    made = oven("lab")
    for number, strength, porosity in ((1, 51.0, -1.0), (2, 44.0, 2.0)):
        values = ("--value", f"strength={strength}", "--value", f"porosity={porosity}")
        assert made.run("record", f"oven-{number:04d}", *values)[0] == 0
    browser = browsers(made.settings, "vera")
    found = figures(browser, "/campaign/oven/figures")
    assert {"Results by trial", "Designs of the trials", "Violation by trial", "Cost so far"} <= found.keys()
    told = {trace["name"]: trace["y"] for trace in found["Results by trial"]["data"]}
    assert told["start"] == [51.0] and told["start, not feasible"] == [44.0]
    assert found["Results by trial"]["rows"] is None
    table = json.loads(browser.get(f"/campaign/oven/figures/{found['Results by trial']['place']}", **JSON).text)
    assert [row[0] for row in table["rows"]] == ["oven-0001", "oven-0002"] and table["head"][0] == "trial"
    assert browser.get("/campaign/oven/figures/progress/7", **JSON).status == 404
    assert browser.get("/campaign/oven/figures/nothing/0", **JSON).status == 404
    assert browser.get("/campaign/oven/field/oven-0001", **JSON).text == '{"charts": []}'


def test_figures_are_sent_again_only_when_the_ledger_has_changed(oven, browsers, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_TOKEN", TOKENS["ana"])
    made = oven("lab")
    browser = browsers(made.settings, "vera")
    tag = browser.get("/campaign/oven/figures", **JSON).headers["etag"]
    again = browser.ask("GET", "/campaign/oven/figures", {"host": HOST, "if-none-match": tag, **JSON})
    assert (again.status, again.text) == (304, "")
    assert made.run("record", "oven-0001", "--value", "strength=51", "--value", "porosity=-1")[0] == 0
    after = browser.ask("GET", "/campaign/oven/figures", {"host": HOST, "if-none-match": tag, **JSON})
    assert after.status == 200 and after.headers["etag"] != tag


def test_a_proposal_is_drawn_among_trials_and_under_its_own_campaign_alone(priced, browsers):
    browser, first = browsers(priced.settings, "vera"), priced.trials()[0]
    assert browser.get(f"/queue/priced/figures/{first.id}", **JSON).text == '{"charts": []}', "nothing was seen yet"
    assert browser.get(f"/queue/other/figures/{first.id}", **JSON).status == 404
    assert browser.get("/campaign/priced/field/priced-0099", **JSON).status == 404


def test_who_decided_what_is_shown_and_what_a_policy_gave_is_counted(priced, browsers):
    browser, first = browsers(priced.settings, "ana"), priced.trials()[0]
    assert "0 decisions by people" in browser.get("/campaign/priced/audit").said
    choice = f"{first.id}@{first.revision}-{first.digest}"
    browser.post("/queue/priced/decide", {"choice": choice, "verb": "approve", "reason": "go <on>"})
    said = browser.get("/campaign/priced/audit").said
    assert "1 decision by people" in said and "0 approvals by policy" in said and "go <on>" in said and "ana" in said
