"""What strangers and careless people send to the desk, found by attacking it as it runs."""

import asyncio

import pytest
from desk_site import FORM, SENT, Browser, asked, desk
from test_desk_decisions import card
from test_desk_security import JSON

from fieldcraft.flows.desk.guard import FORM_BYTES
from fieldcraft.flows.desk.sessions import MOST_OF_ONE, TRIES, Sessions
from fieldcraft.flows.settings import settings_from


def test_attempts_that_are_made_at_once_are_limited_too(priced):
    app, more = desk(priced.settings), 5

    async def all_at_once() -> list[int]:
        together = asyncio.Barrier(TRIES + more)
        headers = [*SENT.items(), ("content-type", FORM)]
        ask = [asked(app, "POST", "/sign-in", headers, b"token=x", together=together) for _ in range(TRIES + more)]
        return sorted(answer.status for answer in await asyncio.gather(*ask))

    assert Browser.runner.run(all_at_once()) == [403] * TRIES + [429] * more


def test_a_person_with_many_sessions_ends_their_own_and_nobody_elses():
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    other, own = sessions.begin("other"), []
    for now[0] in range(MOST_OF_ONE + 2):
        own.append(sessions.begin("one"))
    assert [sessions.find(secret) is None for secret in own] == [True] * 2 + [False] * MOST_OF_ONE
    assert sessions.find(other)


@pytest.mark.parametrize("charset", ["undefined", "punycode", "utf-7", '"utf-16"'])
def test_a_form_in_another_code_is_not_read(priced, browsers, charset):
    ana = browsers(priced.settings, "ana")
    kind = f"multipart/form-data; boundary=edge; charset={charset}"
    assert (
        ana.post("/queue/priced/decide", {"choice": card(priced.trials()[0])}, {}, **{"content-type": kind}).status
        == 415
    )
    assert ana.post("/queue/priced/decide", {}, **{"content-type": f"{FORM};charset=UTF-8"}).status == 422


def test_only_a_form_of_several_parts_may_be_long(priced, browsers):
    ana, long = browsers(priced.settings, "ana"), {"trial": "x" * FORM_BYTES}
    assert ana.post("/laboratory/upload/priced/record", long).status == 413
    assert ana.post("/laboratory/uploads/retract", {}, {"a.csv": b"x" * FORM_BYTES}).status == 413


def test_who_leaves_in_the_middle_of_a_form_is_no_error(priced):
    headers = [*SENT.items(), ("content-type", FORM)]
    assert Browser.runner.run(asked(desk(priced.settings), "POST", "/sign-in", headers, None)).status == 400


def test_strangers_are_not_told_where_the_file_of_people_lies(priced, browsers):
    app, file = desk(priced.settings), priced.settings.people
    carla = browsers(priced.settings, "carla", app)
    assert str(file.parent) not in Browser(app).post("/sign-in", {"token": "x"}).text
    file.write_text("tokens: []\n")
    assert str(file.parent) not in carla.post("/queue/priced/decide", {}, **JSON).text
    file.write_text("tokens: [\n")
    answer = Browser(app).post("/sign-in", {"token": "x"})
    assert str(file.parent) not in answer.text and "from line" in answer.said


def test_a_link_of_others_does_not_sign_in_by_itself(priced, monkeypatch):
    """Somebody could else sign others in as themselves, or use up their attempts."""
    direct = {"sec-fetch-site": "none"}
    assert "data-direct" not in Browser(desk(priced.settings)).get("/sign-in", **direct).text
    monkeypatch.delenv("FIELDCRAFT_PEOPLE")
    browser = Browser(desk(settings_from(home=priced.settings.home)))
    assert "data-direct" in browser.get("/sign-in", **direct).text
    for site in ("cross-site", "same-site", "same-origin"):
        found = browser.get("/sign-in", **{"sec-fetch-site": site, "sec-fetch-mode": "navigate"})
        assert found.status == 200 and "data-direct" not in found.text
    assert "stands in the terminal" in browser.post("/queue/priced/decide").said


def test_what_was_sent_while_the_ledger_was_away_is_not_sent_again_by_the_page(priced, browsers):
    browser, ledger = browsers(priced.settings, "ana"), priced.settings.ledger
    first = priced.trials()[0]
    ledger.rename(ledger.with_suffix(".away"))
    answer = browser.post("/queue/priced/act", {"choice": card(first), "verb": "prioritise", "priority": "2"})
    assert answer.status == 503 and 'id="away"' not in answer.text and "Look whether it was done" in answer.said
    assert 'id="away"' in browser.get("/queue").text
