"""Pages of the desk: what they show of a campaign, and the stream that tells them of commits."""

import asyncio
import json
import math
import re
import shutil
import time
from pathlib import Path

import plotly.graph_objects as go
import pytest
from desk_site import COOKIE, HOST, PORT, desk
from test_desk_decisions import card
from waiting import SPEC, Waiting

from fieldcraft.flows.desk.board import AWAY, MOST_OF_ONE, Board, Poller
from fieldcraft.flows.desk.pages import looking
from fieldcraft.flows.desk.pages.overview import spent_text
from fieldcraft.flows.desk.parts.cards import nearest
from fieldcraft.flows.desk.parts.trials_table import ROWS, Wanted, table_of
from fieldcraft.flows.desk.rendering import pm
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.recovery.doctor import examine
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.records import Origin, Proposal, TrialState, TrialSummary

STUDIES = Path(__file__).resolve().parents[3] / "studies" / "results"


def test_campaigns_at_a_glance(priced, oven, browsers):
    said = browsers(priced.settings, "vera").get("/").said
    assert "priced waits for a decision no result yet 0 of 7 trials Spent: 0 EUR 3 to decide" in said
    said = browsers(oven("lab").settings, "vera").get("/").said
    assert "oven with the laboratory" in said and "3 with the laboratory" in said


def test_a_rejected_trial_is_none_of_those_settled_of_the_budget(priced, browsers):
    browser, trials = browsers(priced.settings, "ana"), priced.trials()
    for trial in trials:
        browser.post("/queue/priced/decide", {"choice": card(trial), "verb": "reject", "reason": "too hot"})
    assert "no result yet 0 of 7 trials Spent: 0 EUR" in browser.get("/").said
    assert "trials settled 0 of 7" in browser.get("/campaign/priced").said


def test_while_no_result_is_feasible_the_glance_names_the_closest(oven, browsers):
    browser, none = browsers(oven("lab").settings, "ana"), "none is feasible yet, the closest is oven-0002"

    def enter(trial: str, strength: str, porosity: str) -> None:
        form = {"trial": trial, "y.strength": strength, "y.porosity": porosity}
        assert browser.post("/laboratory/upload/oven/record", form, files={}).status == 303

    enter("oven-0001", "60", "0.5")
    enter("oven-0002", "60", "0.25")
    assert none in browser.get("/").said and "no result yet" not in browser.get("/").said
    assert none in browser.get("/campaign/oven").said
    enter("oven-0003", "40", "-1")
    assert "best so far strength 40 MPa oven-0003" in browser.get("/").said


@pytest.mark.parametrize(
    ("spending", "said"),
    [
        ({"spent": 0.0, "reserved": 2.0, "limit": 10.0, "unit": ""}, "0 of 10, 2 reserved"),
        ({"spent": 0.0, "reserved": 2.0, "limit": 10.0, "unit": "EUR"}, "0 of 10 EUR, 2 reserved"),
        ({"spent": 3.0, "reserved": 0.0, "limit": None, "unit": "EUR"}, "3 EUR"),
        ({"spent": 3.0, "reserved": 0.0, "limit": None, "unit": ""}, "1 of 7 experiments sent"),
    ],
)
def test_the_cost_at_a_glance_has_its_unit_where_the_budget_names_one(spending, said):
    assert spent_text({"cost": spending, "trials": {"spent": 1, "limit": 7}}) == said


def summary(number: int, strength: float | None) -> TrialSummary:
    state = TrialState.COMPLETED if strength is not None else TrialState.PROPOSED
    outputs = None if strength is None else {"strength": strength}
    design = {"t": float(number), "alloy": "steel"}
    return TrialSummary(
        f"priced-{number:04d}", number, 0, state, design, None, outputs, None, 2.0, 0.0, 0.0, False, None
    )


def test_the_table_sorts_filters_and_cuts_into_pages(priced):
    campaign = priced.ledger.campaign("priced")
    trials = [summary(n, None if n % 10 == 0 else float((7 * n) % 251)) for n in range(1, 252)]
    table = table_of(campaign, trials, Wanted(sort="y.strength", down=True), {})
    numbers = [row[0].outputs["strength"] for row in table["rows"]]
    assert len(numbers) == ROWS and numbers == sorted(numbers, reverse=True) and table["pages"] == 3
    last = table_of(campaign, trials, Wanted(sort="y.strength", down=True, page=99), {})
    assert [trial.outputs for trial, _ in last["rows"]][-25:] == [None] * 25  # without a result, whichever way
    assert table_of(campaign, trials, Wanted(state="PROPOSED"), {})["count"] == 25
    assert [trial.id for trial, _ in table_of(campaign, trials, Wanted(text="0123"), {})["rows"]] == ["priced-0123"]
    assert table_of(campaign, trials, Wanted(sort="no such column"), {})["rows"][0][0].number == 251


def test_the_table_leaves_out_a_variable_that_does_not_exist_in_a_design(priced):
    campaign = priced.ledger.campaign("priced")
    campaign.environment["only_if"] = {"t": {"alloy": ["brass"]}}
    table = table_of(campaign, [summary(1, 3.0)], Wanted(sort="x.t"), {})
    assert [cell["text"] for cell in table["rows"][0][1][2:4]] == ["", "steel"]


def test_a_value_of_the_table_is_found_as_it_is_shown(priced):
    campaign = priced.ledger.campaign("priced")
    trials = [summary(n, 10.0 + n / 7)._replace(design={"t": 20.0 + n / 3, "alloy": "steel"}) for n in range(1, 9)]
    trials[4] = trials[4]._replace(ran={"t": 99.5, "alloy": "Brass"})
    for text, number in (("22.3333", 7), ("99.5", 5), ("brass", 5), ("10.2857", 2), ("22.333333333333332", 7)):
        found = table_of(campaign, trials, Wanted(text=text), {})["rows"]
        assert [trial.number for trial, _ in found] == [number], text
    assert table_of(campaign, trials, Wanted(text="33.25"), {"priced-0009": {"strength": 33.25}})["count"] == 0


def test_the_cost_of_a_settled_trial_is_what_was_spent_and_of_another_what_is_expected(priced):
    campaign = priced.ledger.campaign("priced")
    states = {TrialState.PROPOSED: (0.0, "2"), TrialState.REJECTED: (0.0, "0"), TrialState.COMPLETED: (0.0, "0"),
              TrialState.FAILED: (3.0, "3"), TrialState.RUNNING: (3.0, "5")}  # fmt: skip
    trials = [
        summary(n, None)._replace(state=state, spent=spent) for n, (state, (spent, _)) in enumerate(states.items())
    ]
    rows = table_of(campaign, trials, Wanted(), {})["rows"]
    told = {trial.state: next(cell["text"] for cell in cells if cell["key"] == "cost") for trial, cells in rows}
    assert told == {state: said for state, (_, said) in states.items()}


def test_a_value_is_rounded_to_two_digits_of_its_deviation():
    assert pm(39.0885, 1.11, "MPa") == "39.1 ± 1.1 MPa" and pm(307.532, 47.6, "") == "308 ± 48"
    assert pm(0.001234, 0.00005, "m") == "0.001234 ± 0.000050 m" and pm(3.25, 0.0, "m") == "3.25 m"


def test_a_trial_is_shown_with_its_history_and_not_under_another_campaign(priced, browsers):
    browser, first = browsers(priced.settings, "ana"), priced.trials()[0]
    browser.post("/queue/priced/decide", {"choice": card(first), "verb": "approve", "reason": "go on"})
    said = browser.get("/campaign/priced/trial/priced-0001").said
    assert "ana approved for 3 attempts approved go on" in said
    assert "ana manual revision 1, 3 attempts" in said, "who approved what"
    assert browser.get("/campaign/nothing/trial/priced-0001").status == 404
    assert browser.get("/campaign/priced/trial/priced-0099").status == 404


def second(priced: Waiting, monkeypatch: pytest.MonkeyPatch) -> str:
    """Begins another campaign in the same ledger; its name."""
    monkeypatch.delenv("FIELDCRAFT_PEOPLE")
    settings = settings_from(home=priced.settings.home)
    wired = wire(parse(SPEC | {"name": "second"}, "test"), settings)
    assert created(priced.ledger, wired, settings.home / "second.yaml") is None
    return wired.name


def test_two_campaigns_that_differ_stand_ready_to_be_compared(priced, browsers, monkeypatch):
    browser = browsers(priced.settings, "vera")
    assert re.findall(r"<option selected>(\w+)", browser.get("/compare").text) == [], "there is one campaign"
    assert second(priced, monkeypatch) == "second"
    assert re.findall(r"<option selected>(\w+)", browser.get("/compare").text) == ["second"]
    chosen = browser.get("/compare?a=second&b=priced")
    assert re.findall(r"<option selected>(\w+)", chosen.text) == ["second", "priced"] and "trials" in chosen.said


def test_what_happened_last_is_told_however_much_happened_to_another_campaign_since(priced, browsers, monkeypatch):
    browser, first = browsers(priced.settings, "ana"), priced.trials()[0]
    begun = second(priced, monkeypatch)
    origin = Origin(kind="initial", algorithm="sobol", iteration=0, slot=0)
    proposal = Proposal(design=dict(first.design), origin=origin)
    priced.ledger.propose(begun, 0, [proposal] * 250, "fieldcraft")
    browser.post("/queue/priced/decide", {"choice": card(first), "verb": "approve", "reason": "go on"})
    history = browser.get("/campaign/priced").text.partition("What happened last")[2]
    told = priced.ledger.history("priced")
    assert 4 < len(told) <= 30 and history.count("<li>") == len(told) and "wrote the campaign down" in history


def test_a_retracted_result_is_told_in_the_tables_row(oven, browsers):
    browser = browsers(oven("lab").settings, "ana")
    form = {"trial": "oven-0001", "y.strength": "60", "y.porosity": "-1"}
    assert browser.post("/laboratory/upload/oven/record", form, files={}).status == 303
    assert "completed retracted" not in browser.get("/campaign/oven").said
    assert browser.post("/laboratory/oven/retract", {"trial": "oven-0001", "reason": "wrong"}).status == 303
    assert "oven-0001 completed retracted" in browser.get("/campaign/oven").said


def test_studies_notices_and_findings_are_shown(priced, browsers):
    browser = browsers(priced.settings, "vera")
    folder = priced.settings.home / "studies" / "quick"
    folder.mkdir(parents=True)
    (folder / "study").write_text("quick")
    (folder / "study.html").write_text("<p>curves</p>")
    assert "download the page of quick" in browser.get("/studies").said
    assert browser.get("/studies/quick").status == 404, "its results are not there"
    answer = browser.get("/studies/quick/page")
    assert answer.text == "<p>curves</p>" and answer.headers["content-disposition"].startswith("attachment")
    for name in ("other", "..", "%2e%2e"):
        assert browser.get(f"/studies/{name}").status == 404
    assert "3 trials of priced wait for approval" in browser.get("/notices").said
    assert "All is well." in browser.get("/doctor?look=1").said
    (priced.settings.home / "fields" / ".staging" / "half-written.4000000-1").mkdir(parents=True)
    said = browser.get("/doctor?look=1").said
    assert examine(priced.settings)[0].text in said and "All is well." not in said


@pytest.mark.parametrize("name", ["brusselator", "constrained", "certified", "rivals"])
def test_a_study_is_shown_with_its_tables_and_curves_and_the_data_behind_them(priced, browsers, name):
    browser, told = browsers(priced.settings, "vera"), json.loads((STUDIES / f"{name}.json").read_text())
    folder = priced.settings.home / "studies" / name
    folder.mkdir(parents=True)
    (folder / "study").write_text(name)
    shutil.copy(STUDIES / f"{name}.json", folder / "study.json")
    assert f'href="/studies/{name}"' in browser.get("/studies").text
    said = browser.get(f"/studies/{name}").said
    for algorithm, ranks in (told["ranks"] or {}).items():
        assert f"{algorithm} {ranks['mean']:.2f} {ranks['best']} {ranks['last']}" in said
    assert f"{sum(cell['state'] == 'finished' for cell in told['cells'])} of {len(told['cells'])}" in said
    for number, problem in list(enumerate(told["problems"]))[:2]:
        charts = json.loads(browser.get(f"/studies/{name}/figures/{number}").text)["charts"]
        assert len(charts) == (4 if "metric" in problem else 1)
        data = json.loads(browser.get(f"/studies/{name}/figures/{number}/{charts[0]['place']}").text)
        means = {
            (row["algorithm"], n): mean for row in problem["rows"] for n, mean in enumerate(row["curve"]["mean"], 1)
        }
        assert data["head"][0] == "algorithm" and data["rows"]
        for algorithm, _, n, mean, _ in data["rows"]:
            assert mean == pytest.approx(means[algorithm, n], rel=1e-5)
        assert len(data["rows"]) == sum(mean is not None for mean in means.values())
        for chart in charts:
            go.Figure({"data": chart["data"], "layout": chart["layout"]})  # plotly's own check
    assert browser.get(f"/studies/{name}/figures/99").status == 404
    (folder / "study.json").write_text('{"study": "old"}')
    assert "written by another version" in browser.get(f"/studies/{name}").said


def test_one_poller_tells_all_streams_of_a_commit_within_a_second_and_stops_after_them(priced, browsers):
    app = desk(priced.settings)
    cookie = browsers(priced.settings, "ana", app).cookie

    async def followed() -> list[tuple[float, str]]:
        got: list[tuple[float, str]] = []
        away = asyncio.Event()

        async def follow() -> None:
            asked = False

            async def receive() -> object:
                nonlocal asked
                if asked:
                    await away.wait()
                    return {"type": "http.disconnect"}
                asked = True
                return {"type": "http.request", "body": b"", "more_body": False}

            async def send(message: dict[str, object]) -> None:
                if re.match(rb"data:", bytes(message.get("body", b""))):
                    got.append((time.monotonic(), bytes(message["body"]).decode()))

            headers = [(b"host", HOST.encode()), (b"cookie", f"{COOKIE}={cookie}".encode())]
            scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1"}
            scope |= {"method": "GET", "path": "/live", "raw_path": b"/live", "query_string": b"", "root_path": ""}
            await app({**scope, "scheme": "http", "headers": headers, "server": ("127.0.0.1", PORT)}, receive, send)

        streams = [asyncio.create_task(follow()) for _ in range(5)]
        poller: Poller = app.app.state.poller
        while not (poller._task and poller.ready):
            await asyncio.sleep(0.01)
        began = time.monotonic()
        await asyncio.to_thread(priced.ledger.prioritise, "priced-0001", 3, "ana", "first")
        while len(got) < 5:
            await asyncio.sleep(0.01)
        task = poller._task
        away.set()
        await asyncio.gather(*streams)
        await task
        return [(at - began, text) for at, text in got]

    told = asyncio.run(followed())
    assert {text for _, text in told} == {'data: ["priced"]\n\n'} and len(told) == 5
    assert max(at for at, _ in told) < 1.0


def test_the_poller_tells_when_the_ledger_is_away_and_back(priced):
    poller, ledger = Poller(Board(priced.settings)), priced.settings.ledger

    async def told() -> list[set[str]]:
        changes = poller.changes("ana")
        assert await anext(changes) == set() and poller.ready
        ledger.rename(ledger.with_suffix(".away"))
        names = [await anext(changes)]
        ledger.with_suffix(".away").rename(ledger)
        names.append(await anext(changes))
        await changes.aclose()
        return names

    assert asyncio.run(told()) == [{AWAY}, {AWAY}]
    with pytest.raises(InputError, match="name"):
        parse({**SPEC, "name": AWAY}, "test")


def test_a_stream_begins_with_a_word_after_which_no_commit_is_missed(priced):
    poller = Poller(Board(priced.settings))

    async def told() -> list[set[str]]:
        first, second = poller.changes("ana"), poller.changes("ana")
        names = [await anext(first), await anext(second)]  # the second finds the ledger read already
        await asyncio.to_thread(priced.ledger.prioritise, "priced-0001", 3, "ana", "at once")
        names += [await anext(first), await anext(second)]
        for changes in (first, second):
            await changes.aclose()
        return names

    assert asyncio.run(told()) == [set(), set(), {"priced"}, {"priced"}]


def test_notices_lead_to_the_cards_and_the_trial_that_they_tell_of(priced, browsers):
    ledger, (first, *_) = priced.ledger, priced.trials()
    assert [notice.event for notice in ledger.notices()] == ["approval waiting"]
    browser = browsers(priced.settings, "vera")
    for trial in priced.trials():
        assert f'href="/queue/priced#t-{trial.id}"' in browser.get("/notices").text
        assert f'id="t-{trial.id}"' in browser.get("/queue/priced").text
    ledger.notify("priced", "submission unknown", "held", {"trial": first.id, "reason": "who knows"})
    ledger.notify("priced", "budget nearly spent", "budget", {"limits": []})
    text = browser.get("/notices").text
    assert f'href="/campaign/priced/trial/{first.id}"' in text and 'href="/campaign/priced"' in text


def test_a_person_with_many_pages_takes_no_stream_of_anybody_elses(priced):
    poller = Poller(Board(priced.settings))

    async def told() -> tuple[bool, bool, int]:
        streams = [poller.changes("ana") for _ in range(MOST_OF_ONE + 3)]  # all begun before one is read
        begun = [await anext(stream, None) for stream in streams]
        full = poller.full("ana"), poller.full("olga")
        for stream in streams:
            await stream.aclose()
        assert not poller.full("ana")
        return *full, sum(names is not None for names in begun)

    assert asyncio.run(told()) == (True, False, MOST_OF_ONE)


def test_one_examination_at_a_time_and_nobody_waits_for_it(priced, browsers):
    browser = browsers(priced.settings, "vera")
    with looking._examining:
        answer = browser.get("/doctor?look=1")
    assert answer.status == 422 and "Somebody looks just now" in answer.said
    assert browser.get("/doctor?look=1").status == 200


def test_the_nearest_trials_are_those_by_their_shares_of_the_ranges(priced):
    board = Board(priced.settings)
    standing = board.standing("priced")
    space = board.space(standing.campaign)
    seen = [summary(number, 1.0)._replace(design={"t": t, "n": n, "alloy": alloy}) for number, t, n, alloy in DESIGNS]
    found = nearest(standing, space, {"t": 55.0, "n": 3, "alloy": "steel"}, seen)
    apart = [
        math.sqrt(((t - 55) / 70) ** 2 / 3 + ((n - 3) / 4) ** 2 / 3 + (alloy != "steel") / 3)
        for _, t, n, alloy in DESIGNS
    ]
    order = sorted(range(len(seen)), key=lambda place: apart[place])[:3]
    assert len(nearest(standing, space, {"t": 55.0, "n": 3, "alloy": "steel"}, seen[:2])) == 2
    assert [each[:2] for each in found] == [(seen[place].id, f"{100 * apart[place]:.0f} %") for place in order]


DESIGNS = (
    (1, 20.0, 3, "steel"),
    (2, 55.0, 3, "brass"),
    (3, 60.0, 2, "steel"),
    (4, 90.0, 5, "steel"),
    (5, 54.0, 3, "steel"),
)
