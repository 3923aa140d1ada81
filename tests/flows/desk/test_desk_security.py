"""Requests that must not be accepted: forged, stale, cross-origin, replayed and unauthorised, thousands of them."""

import json
import random
from collections.abc import Callable, Iterator
from itertools import cycle, product
from typing import Any
from urllib.parse import urlencode

import pytest
from desk_site import COOKIE, FORM, HOST, ORIGIN, SENT, TOKENS, Browser, desk, people
from length import LONG
from test_desk_decisions import card, rows

from fieldcraft.flows.desk.app import GROUPS
from fieldcraft.flows.desk.guard import FORM_BYTES
from fieldcraft.flows.desk.known_people import KnownPeople
from fieldcraft.flows.desk.place import Place, place_of
from fieldcraft.flows.desk.sessions import IDLE_S, LONGEST_S, TRIES, WINDOW_S, Attempts, Sessions
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.identity import Faulty, digest_of_token
from fieldcraft.flows.settings import DESK_PORT as PORT
from fieldcraft.flows.settings import settings_from

JSON = {"accept": "application/json"}
Request = tuple[str, str, list[tuple[str, str]], bytes]
EVIL = ("http://evil.example", "https://evil.example", "null", "file://", f"http://{HOST}.evil.example", "", "*")
NEAR = (
    f"https://{HOST}",
    f"http://127.0.0.1:{PORT + 1}",
    "http://127.0.0.1",
    f"http://127.0.0.2:{PORT}",
    f"{ORIGIN}/",
    f" {ORIGIN}x",
)
SITES = ("cross-site", "same-site", "none", "", "same-origin, same-origin", "SAME-ORIGIN ")
HOSTS = (
    "evil.example",
    f"evil.example:{PORT}",
    f"127.0.0.1:{PORT + 1}",
    "127.0.0.1",
    f"127.0.0.1:{PORT}.evil.example",
    f"[::1]:{PORT}",
    "",
)
COUNT = 10_000 if LONG else 4_000  # each thing wrong with each route and body at least once


def form(fields: dict[str, str], **changed: str | None) -> list[tuple[str, str]]:
    """Headers of a form; None takes one away."""
    headers: dict[str, str | None] = {
        **SENT,
        "content-type": FORM,
        **JSON,
        **{k.replace("_", "-"): v for k, v in changed.items()},
    }
    return [(name, value) for name, value in headers.items() if value is not None]


def routes(method: str) -> list[str]:
    """Paths of all routes of a method, but for the sign-in."""
    every = [route for group in GROUPS for route in group.router.routes if method in route.methods]
    return [route.path for route in every if route.path != "/sign-in"]


def changes() -> list[str]:
    """Paths of all routes that change anything."""
    paths = routes("POST")
    assert len(paths) >= 8
    return [path.replace("{name}", "priced") for path in paths]


@pytest.fixture
def scene(priced, browsers) -> dict[str, Any]:
    """People at one desk, a proposal that was decided, and one that was edited."""
    app = desk(priced.settings)
    people_ = {name: browsers(priced.settings, name, app) for name in TOKENS}
    first, second, third = priced.trials()
    people_["ana"].post("/queue/priced/decide", {"choice": card(first), "verb": "approve"}, **JSON)
    people_["ana"].post("/queue/priced/edit", {"choice": card(second), "x.t": "33"}, **JSON)
    assert priced.states() == ["APPROVED", "PROPOSED", "PROPOSED"] and priced.trials()[1].revision == 2
    gone = Browser(app).sign_in(TOKENS["olga"])
    gone.post("/sign-out")
    return {"app": app, "people": people_, "gone": gone, "decided": first, "stale": second, "open": third}


def bodies(scene: dict[str, Any]) -> Iterator[dict[str, str]]:
    """What a person who may do everything could send."""
    for trial in (scene["open"], scene["decided"], scene["stale"]):
        for verb in ("approve", "reject", "retry", "abandon", "cancel", "prioritise", "edit"):
            yield {
                "choice": card(trial),
                "verb": verb,
                "reason": "why",
                "x.t": "31",
                "priority": "3",
                "trial": trial.id,
                "y.strength": "5",
            }


def forged(scene: dict[str, Any], rng: random.Random) -> Iterator[tuple[str, Browser, Request]]:
    """Requests, each with one thing wrong; that they are right but for it is shown beside."""
    ana, everybody = scene["people"]["ana"], list(scene["people"].values())
    pairs = list(product(changes(), bodies(scene)))
    rng.shuffle(pairs)
    for path, fields in cycle(pairs):
        who = rng.choice(everybody)
        right = {"csrf": ana.csrf, **fields}

        def post(fields: dict[str, str], path: str = path, **changed: str | None) -> Request:
            return "POST", path, form(fields, **changed), urlencode(fields).encode()

        yield "origin", ana, post(right, origin=rng.choice((*EVIL, *NEAR, None)))
        yield "site", ana, post(right, sec_fetch_site=rng.choice((*SITES, None)))
        host = rng.choice(HOSTS)
        yield "host", ana, post(right, host=host, origin=rng.choice((ORIGIN, f"http://{host}")))
        twice = form(right)
        yield (
            "twice",
            ana,
            ("POST", path, [*twice, rng.choice((("host", HOST), ("origin", ORIGIN)))], urlencode(right).encode()),
        )
        wrong = rng.choice(
            (
                who.csrf if who is not ana else "",
                ana.csrf[:-1],
                ana.csrf.swapcase(),
                f"{rng.getrandbits(256):x}",
                scene["gone"].csrf,
            )
        )
        yield "csrf", ana, post({**right, "csrf": wrong})
        yield "no csrf", ana, post(fields)
        yield "method", ana, (rng.choice(("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")), *post(right)[1:])
        for cookie in (None, f"{rng.getrandbits(256):x}", ana.cookie[:-1], ana.cookie.swapcase(), scene["gone"].cookie):
            stranger = Browser(scene["app"], cookie or "")
            yield "session", stranger, post(right)
        vera, carla = scene["people"]["vera"], scene["people"]["carla"]
        if path != "/sign-out":
            yield "viewer", vera, post({**right, "csrf": vera.csrf})
        if path.startswith("/laboratory") or (path.endswith("/act") and fields["verb"] in ("cancel", "abandon")):
            yield "approver", carla, post({**right, "csrf": carla.csrf})
        if path.endswith("/act"):
            yield "replayed", ana, post({**right, "choice": card(scene["stale"])})
        if path.endswith(("/decide", "/edit")):
            trial = rng.choice((scene["decided"], scene["stale"]))
            yield "replayed", ana, post({**right, "choice": card(trial)})
            seen = rng.choice(
                (
                    f"1-{rng.getrandbits(256):064x}",
                    f"{rng.randrange(2, 9)}-{scene['open'].digest}",
                    "",
                    "1-",
                    scene["open"].digest[:8],
                )
            )
            yield "digest", ana, post({**right, "choice": f"{scene['open'].id}@{seen}"})


def test_none_of_thousands_of_wrong_requests_is_accepted(priced, scene):
    before, sessions = rows(priced.ledger, "priced"), len(scene["app"].app.state.sessions._by_digest)
    rng, counted, accepted = random.Random(1), dict[str, int](), list[Any]()
    every = len(changes()) * len(list(bodies(scene)))
    for kind, browser, request in forged(scene, rng):
        answer = browser.ask(*request)
        counted[kind] = counted.get(kind, 0) + 1
        if answer.status < 400:
            accepted.append((kind, request, answer))
        if sum(counted.values()) == COUNT:
            break
    assert not accepted, accepted[:3]
    assert rows(priced.ledger, "priced") == before
    assert len(scene["app"].app.state.sessions._by_digest) == sessions
    assert len(counted) == 12 and counted["origin"] >= every and min(counted.values()) > 50, counted


def test_the_same_request_with_nothing_wrong_is_accepted(priced, scene):
    fields = {"csrf": scene["people"]["ana"].csrf, "choice": card(scene["open"]), "verb": "approve"}
    answer = scene["people"]["ana"].ask("POST", "/queue/priced/decide", form(fields), urlencode(fields).encode())
    assert (answer.status, priced.states()[2]) == (200, "APPROVED")


def test_nobody_unknown_sees_a_page_or_a_stream(priced):
    app = desk(priced.settings)
    browser = Browser(app)
    assert len(routes("GET")) >= 15
    for route in routes("GET"):
        path = route.replace("{name}", "priced").replace("{trial_id}", "priced-0001").replace("{word}", "priced-0001")
        path = path.replace("{group}", "cost").replace("{place}", "0").replace("{number}", "0")
        answer = browser.get(path, cookie=f"{COOKIE}=nobody")
        assert (answer.status, answer.headers["location"]) == (303, f"/sign-in?to={path}"), path
        assert not answer.text


@pytest.mark.parametrize("host", [host for host in HOSTS if host])
def test_a_name_of_others_that_leads_here_is_not_answered(scene, host):
    answer = scene["people"]["ana"].get("/queue/priced", host=host)
    assert answer.status == 421 and "priced" not in answer.text


def test_every_answer_carries_the_headers_that_protect_it(scene):
    ana = scene["people"]["ana"]
    for answer in (
        ana.get("/"),
        ana.get("/static/desk.css"),
        ana.get("/nothing"),
        ana.ask("PUT", "/", SENT),
        ana.get("/", host="evil.example"),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert ana.get("/").headers["cache-control"] == "no-store"


def test_no_page_has_a_script_or_a_style_of_its_own(scene):
    for path in ("/", "/queue/priced", "/campaign/priced", "/campaign/priced/trial/priced-0001", "/sign-in"):
        text = scene["people"]["ana"].get(path).text
        assert "style=" not in text and "<style" not in text and "onclick" not in text and "<script>" not in text


def test_text_of_others_stays_text(priced, browsers):
    browser, evil = browsers(priced.settings, "ana"), '<img src=x onerror="alert(1)">\x1b'
    first = priced.trials()[0]
    fields = {"choice": card(first), "x.t": "33", "reason": evil.rstrip("\x1b")}
    assert browser.post("/queue/priced/edit", fields, **JSON).status == 200
    text = browser.get("/queue/priced").text
    assert "<img src=x" not in text and "&lt;img src=x" in text


def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(priced):
    answer = Browser(desk(priced.settings)).post("/sign-in", {"token": TOKENS["ana"]})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and "domain" not in cookie


def test_a_token_taken_out_of_the_file_ends_its_sessions_at_once(priced, browsers):
    browser = browsers(priced.settings, "carla")
    file = priced.settings.people
    file.write_text(file.read_text().replace('"carla"', '"carl"', 1).replace("carla", "carla"))
    assert browser.get("/").status == 200 and "carl " in browser.get("/").said  # the same token, another name
    file.write_text("tokens: []\n")
    assert browser.get("/").status == 303
    people(file)
    assert browser.get("/").status == 303


def test_a_slip_in_the_file_signs_nobody_out_and_lets_nobody_in(priced, browsers, caplog):
    app, file = desk(priced.settings), priced.settings.people
    ana, carla = browsers(priced.settings, "ana", app), browsers(priced.settings, "carla", app)
    good, digest = file.read_text(), digest_of_token("fc_of-somebody-new")
    new = json.dumps({"name": "new", "role": "operator", "sha256": digest})
    for slip in (good.replace("viewer", "veiwer"), good[:-1], good + "x"):
        file.write_text(slip.replace('{"name"', f'{new}, {{"name"', 1))
        for _ in range(2):
            assert "operator" in ana.get("/").said and "The file of people has a fault" in ana.get("/doctor").said
        assert carla.get("/").status == 200 and "has a fault" not in carla.get("/").said
        assert Browser(app).post("/sign-in", {"token": TOKENS["vera"]}).status == (403 if "veiwer" in slip else 303)
        refused = Browser(app).post("/sign-in", {"token": "fc_of-somebody-new"})
        assert refused.status == 403 and str(file.parent) not in refused.text
        file.write_text(good)
        assert "has a fault" not in ana.get("/doctor").said
    told = [record.getMessage() for record in caplog.records if record.name == "fieldcraft.desk"]
    assert len(told) == 6 and str(file) in told[0] and "again" in told[1]


def test_a_person_taken_out_is_out_at_once_also_by_an_edit_that_has_a_slip(priced, browsers):
    app, file = desk(priced.settings), priced.settings.people
    ana, carla = browsers(priced.settings, "ana", app), browsers(priced.settings, "carla", app)
    people, good = json.loads(file.read_text()), file.read_text()
    less = {"tokens": [each for each in people["tokens"] if each["name"] != "carla"]}
    file.write_text(json.dumps(less).replace("viewer", "veiwer"))
    assert carla.get("/").status == 303 and ana.get("/").status == 200
    assert Browser(app).post("/sign-in", {"token": TOKENS["carla"]}).status == 403
    file.write_text(good)
    assert carla.get("/").status == 200, "it was the same session all the time"
    file.write_text(json.dumps(less))  # seen by the desk before the slip that follows
    assert ana.get("/").status == 200
    file.write_text(good.replace("viewer", "veiwer"))
    assert carla.get("/").status == 303, "she was not among those read last"
    file.unlink()
    assert ana.get("/").status == 303, "without a file nobody is known"
    file.write_text(good)
    file.chmod(0o600)
    assert ana.get("/").status == 303, "and those sessions are over"


ONE, TWO = digest_of_token("fc_one"), digest_of_token("fc_two")
FLOW = f"tokens:\n  - {{name: one, role: operator, sha256: {ONE}}}\n  - {{name: two, role: viewer, sha256: {TWO}}}\n"
BLOCK = f"tokens:\n- name: one\n  sha256: {ONE}\n  role: operator\n- name: two\n  sha256: {TWO}\n  role: viewer\n"
ENTRY = f"- name: one\n  sha256: {ONE}\n  role: operator\n"
CHANGED = {
    "demoted": (FLOW, "role: operator", "role: viewer"),
    "demoted in a block": (BLOCK, "role: operator", "role: viewer"),
    "a comment": (FLOW, "  - {name: one", "  # - {name: one"),
    "a comment in a block": (BLOCK, ENTRY, "".join(f"# {line}\n" for line in ENTRY.splitlines())),
    "an indented comment in a block": (BLOCK, ENTRY, "".join(f"  # {line}\n" for line in ENTRY.splitlines())),
    "kept in a comment, and changed": (FLOW, "role: operator", f"role: viewer}} # {{role: operator, sha256: {ONE}"),
}


@pytest.mark.parametrize(("good", "entry", "now"), CHANGED.values(), ids=CHANGED)
def test_whoever_is_demoted_or_made_a_comment_keeps_no_right_by_a_slip(tmp_path, good, entry, now):
    file = tmp_path / "people.yaml"
    file.write_text(good)
    known = KnownPeople(settings_from({"FIELDCRAFT_PEOPLE": str(file)}, tmp_path))
    for fault in (good + "x", good.replace("viewer", "veiwer"), "slip: 1\n" + good):
        file.write_text(fault)
        assert known.owner(ONE).role == "operator" and known.fault
        file.write_text(fault.replace(entry, now, 1))
        with pytest.raises(Faulty):
            known.owner(ONE)
    file.write_text(good)
    file.chmod(0o666)
    assert known.owner(ONE).role == "operator"
    file.write_text(good.replace(entry, now, 1))
    with pytest.raises(Faulty):
        known.owner(ONE)


def test_a_session_ends_when_idle_and_after_a_day_in_any_case():
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    secret = sessions.begin("digest")
    now[0] += IDLE_S - 1
    assert sessions.find(secret, renew=False) and sessions.find(secret)
    now[0] += IDLE_S - 1
    assert sessions.find(secret, renew=False)  # a stream looks, and renews nothing
    now[0] += 2
    assert sessions.find(secret) is None
    secret = sessions.begin("digest")
    for _ in range(int(LONGEST_S / IDLE_S) * 2 - 1):
        now[0] += IDLE_S / 2
        assert sessions.find(secret)
    now[0] += IDLE_S / 2
    assert sessions.find(secret) is None


def test_a_page_that_only_renews_itself_does_not_keep_its_session_alive(priced, browsers):
    app, now = desk(priced.settings), [0.0]
    app.app.state.sessions = Sessions(lambda: now[0])
    for headers, later in (({}, 200), ({"fieldcraft-live": "1"}, 303)):
        browser = browsers(priced.settings, "ana", app)
        now[0] += 0.9 * IDLE_S
        assert browser.get("/", **headers).status == 200
        now[0] += 0.2 * IDLE_S
        assert browser.get("/").status == later


def test_attempts_to_sign_in_are_limited_by_address_and_then_free_again(priced):
    app, now = desk(priced.settings), [0.0]
    app.app.state.attempts = Attempts(lambda: now[0])
    statuses = [Browser(app).post("/sign-in", {"token": "fc_wrong"}).status for _ in range(TRIES + 2)]
    assert statuses == [403] * TRIES + [429] * 2
    assert Browser(app).post("/sign-in", {"token": TOKENS["ana"]}).status == 429
    assert Browser(app, address="10.0.0.9").post("/sign-in", {"token": TOKENS["ana"]}).status == 303
    now[0] += WINDOW_S + 1
    assert Browser(app).post("/sign-in", {"token": TOKENS["ana"]}).status == 303


def test_without_a_file_of_people_a_printed_token_is_good_for_one_sign_in(priced, monkeypatch):
    monkeypatch.delenv("FIELDCRAFT_PEOPLE")
    printed: list[str] = []
    app = desk(settings_from(home=priced.settings.home), printed.append)
    assert Browser(app).get("/").status == 303 and len(printed) == 1
    assert "operator" in Browser(app).sign_in(printed[0]).get("/").said
    assert Browser(app).post("/sign-in", {"token": printed[0]}).status == 403
    assert len(printed) == 2 and Browser(app).sign_in(printed[1])
    assert Browser(app).post("/sign-in", {"token": ""}).status == 403


@pytest.mark.parametrize("stated", ["0", str(FORM_BYTES + 1), "-1", "many"])
def test_a_form_that_is_too_long_is_not_read(scene, stated):
    fields = {"csrf": scene["people"]["ana"].csrf, "reason": "x" * FORM_BYTES}
    answer = scene["people"]["ana"].ask(
        "POST", "/queue/priced/decide", form(fields, content_length=stated), urlencode(fields).encode()
    )
    assert answer.status == 413


def test_mlflow_that_is_away_is_not_missed(priced, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "http://127.0.0.1:9")
    settings = settings_from(home=priced.settings.home)
    browser = Browser(desk(settings)).sign_in(TOKENS["ana"])
    for path in (
        "/",
        "/queue/priced",
        "/campaign/priced",
        "/campaign/priced/trial/priced-0001",
        "/laboratory",
        "/notices",
    ):
        assert browser.get(path).status == 200


def test_a_ledger_that_is_away_is_one_plain_page(priced, browsers):
    browser = browsers(priced.settings, "ana")
    ledger = priced.settings.ledger
    ledger.rename(ledger.with_suffix(".away"))
    for path in ("/", "/queue", "/campaign/priced", "/laboratory", "/notices", "/compare"):
        answer = browser.get(path)
        assert answer.status == 503 and "The ledger cannot be read now" in answer.said, path
        assert "Traceback" not in answer.text
    ledger.with_suffix(".away").rename(ledger)
    assert browser.get("/").status == 200


def refused(**words: Any) -> Callable[[Any], Place]:
    given = {"host": "127.0.0.1", "port": PORT, "names": (), "certificate": None, "key": None, **words}
    return lambda settings: place_of(settings, **given)


def test_other_machines_need_a_file_of_people_and_tls(priced, monkeypatch, tmp_path):
    with pytest.raises(InputError, match="tokens would be readable on the way"):
        refused(host="192.0.2.1")(priced.settings)
    pem = tmp_path / "some.pem"
    pem.touch()
    with pytest.raises(InputError, match="give --name"):
        refused(host="::", certificate=pem, key=pem)(priced.settings)
    with pytest.raises(InputError, match="needs both"):
        refused(certificate=pem)(priced.settings)
    place = refused(host="0.0.0.0", names=("Desk.lab",), certificate=pem, key=pem)(priced.settings)
    assert place.hosts == {f"desk.lab:{PORT}"} and place.origins == {f"https://desk.lab:{PORT}"}
    monkeypatch.delenv("FIELDCRAFT_PEOPLE")
    alone = settings_from(home=priced.settings.home)
    with pytest.raises(InputError, match="no file says who may do what"):
        refused(host="192.0.2.1", certificate=pem, key=pem)(alone)
    assert refused(host="localhost")(alone).hosts >= {HOST, f"localhost:{PORT}"}


@pytest.mark.parametrize(
    "to", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "/%0d%0aX: y"]
)
def test_a_sign_in_leads_to_a_page_of_the_desk_alone(priced, to):
    app = desk(priced.settings)
    answer = Browser(app).post("/sign-in", {"token": TOKENS["ana"], "to": to})
    assert (answer.status, answer.headers["location"]) == (303, "/")
    answer = Browser(app).post("/sign-in", {"token": TOKENS["ana"], "to": "/queue/priced"})
    assert answer.headers["location"] == "/queue/priced"


def test_a_link_of_another_site_leads_to_the_page_once_the_browser_sends_its_cookie(priced):
    site = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    answer = Browser(desk(priced.settings)).get("/queue/priced", **site)
    assert answer.status == 200 and 'http-equiv="refresh"' in answer.text and "0001" not in answer.text
    framed = Browser(desk(priced.settings)).get("/queue/priced", **{**site, "sec-fetch-mode": "no-cors"})
    assert framed.status == 403
