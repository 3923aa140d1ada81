"""The desk in a real browser: every page and action, the keyboard alone, a phone's width, two people on one card."""

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from desk_site import TOKENS
from glued import WIDE, Glue, glue, glue_at, served
from playwright.sync_api import Route, expect

from fieldcraft.flows.identity import Person
from fieldcraft.flows.people import decisions
from fieldcraft.flows.rules.trial_labels import Choice
from fieldcraft.storage.ledgers.sqlite import close_idle

DOCS = Path(__file__).resolve().parents[2] / "docs"
PHONE = {"width": 390, "height": 844}
PAGES = {
    "campaigns": "/",
    "campaign": "/campaign/glue?sort=y.strength&down=1",
    "trial": "/campaign/glue/trial/glue-0003",
    "queue": "/queue/glue",
    "laboratory": "/laboratory/glue",
    "orders": "/laboratory/glue/orders",
    "result": "/laboratory/glue/result/glue-0009",
    "correction": "/laboratory/glue/result/glue-0003",
    "compare": "/compare?a=glue&b=resin",
    "audit": "/campaign/glue/audit",
    "studies": "/studies",
    "study": "/studies/constrained",
    "notices": "/notices",
    "doctor": "/doctor?look=1",
    "nothing": "/campaign/nothing",
}
SHOWN = {"campaigns", "campaign", "queue", "orders"}  # pictures of docs/desk.md


@pytest.fixture(scope="session")
def _glue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("glue")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDCRAFT_MLFLOW", "off")
        glue(folder)
    close_idle()
    return folder


@pytest.fixture
def site(_glue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Glue:
    """A copy of the home."""
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    return glue_at(Path(shutil.copytree(_glue, tmp_path / "glue")))


def states(site: Glue) -> dict[str, str]:
    return {trial.id: trial.state.value for trial in site.ledger.trials("glue") if trial.number > 6}


def test_every_page_can_be_read_by_everybody_at_any_width(site, enter):
    site.approve("glue-0009")
    site.make_pass()
    folder = site.settings.home / "studies" / "constrained"
    folder.mkdir(parents=True)
    (folder / "study").write_text("constrained")
    shutil.copy(DOCS.parent / "studies" / "results" / "constrained.json", folder / "study.json")
    page, axe, found = enter("ana"), Axe(), []
    for name, path in [*PAGES.items(), ("sign-in", "/sign-in"), ("sign-in, refused", "/sign-in#refused")]:
        for width, scheme in ((WIDE, "light"), (PHONE, "dark")):
            page.set_viewport_size(width)
            page.emulate_media(color_scheme=scheme)
            if path == "/sign-in":
                page.context.clear_cookies()
            page.goto(path)
            if path == "/sign-in#refused":
                page.get_by_label("Token").fill("fc_nobody")
                page.keyboard.press("Enter")
                expect(page.get_by_role("alert")).to_be_visible()
            if name == "study":
                expect(page.locator(".chart[data-drawn]").first).to_be_attached()
            violations = axe.run(page).response["violations"]
            found += [(name, scheme, each["id"], each["nodes"][0]["html"]) for each in violations]
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                found.append((name, width, "scrolls sideways"))
            if name in SHOWN and scheme == "light" and (folder := os.environ.get("FIELDCRAFT_SCREENSHOTS")):
                height = 420 if name == "campaigns" else 860
                page.screenshot(
                    path=Path(folder) / f"desk-{name}.png", clip={"x": 0, "y": 0, "width": 1280, "height": height}
                )
    assert not found, "\n".join(map(str, found))
    assert {f"desk-{name}.png" for name in SHOWN} <= {file.name for file in DOCS.glob("desk-*.png")}


def test_decisions_by_the_keyboard_take_two_keys_each_and_lead_to_the_next_card(site, enter):
    page = enter("ana")
    page.goto("/queue/glue")
    expect(page.locator(".card").first).to_be_focused()
    pressed = []

    def press(*keys: str) -> None:
        pressed.append(keys)
        for key in keys:
            page.keyboard.press(key)

    press("a", "Enter")
    expect(page.locator("#card-glue-0007-1")).to_have_count(0)
    expect(page.locator("#card-glue-0008-1")).to_be_focused()
    press("r", "2")
    expect(page.locator("#card-glue-0008-1")).to_have_count(0)
    expect(page.locator("#card-glue-0009-1")).to_be_focused()
    assert all(len(keys) == 2 for keys in pressed)
    assert states(site) == {"glue-0007": "APPROVED", "glue-0008": "REJECTED", "glue-0009": "PROPOSED"}
    assert site.ledger.history("glue", "glue-0008")[-1].reason == "Too close to an earlier trial"
    page.keyboard.press("e")
    page.keyboard.press("Control+A")
    page.keyboard.type("55.5")
    page.keyboard.press("Enter")
    expect(page.locator("#card-glue-0009-2")).to_be_visible()
    assert site.ledger.trial("glue-0009").design["heat"] == 55.5


def test_a_notice_leads_to_its_card_and_an_opened_rejection_takes_one_key_more(site, enter):
    page = enter("ana")
    page.goto("/notices")
    page.get_by_role("link", name="glue-0008").last.click()
    expect(page.locator("#card-glue-0008-1")).to_be_focused()
    page.locator("#card-glue-0008-1 .reject summary").click()
    page.keyboard.press("4")
    expect(page.locator("#card-glue-0008-1")).to_have_count(0)
    expect(page.locator("#card-glue-0009-1")).to_be_focused()
    assert site.ledger.history("glue", "glue-0008")[-1].reason == "Not safe"


def test_a_batch_is_chosen_and_approved_by_the_keyboard(site, enter):
    page = enter("ana")
    page.goto("/queue")
    page.locator(".card").first.focus()
    for key in ("x", "j", "j", "x", "b", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#said")).to_contain_text("glue-0007, glue-0009: approved.")
    assert states(site) == {"glue-0007": "APPROVED", "glue-0008": "PROPOSED", "glue-0009": "APPROVED"}


def test_the_second_of_two_people_on_one_card_sees_at_once_who_was_first(site, enter):
    ana, olga = enter("ana"), enter("olga")
    for page in (ana, olga):
        page.goto("/queue/glue")
    card = olga.locator("#card-glue-0007-1")
    ana.locator("#card-glue-0007-1 .approve").click()
    expect(card.locator(".told")).to_contain_text("This card is stale: glue-0007 was approved by ana", timeout=2000)
    expect(card.locator(".approve")).to_be_disabled()


def test_a_card_that_is_stale_before_the_page_knows_is_refused(site, enter):
    page = enter("ana")
    page.route("**/live", lambda route: route.abort())
    page.goto("/queue/glue")
    decisions.reject(site.ledger, Person("ben", "operator"), [Choice("glue-0007")], "no resin left")
    page.locator("#card-glue-0007-1 .approve").click()
    expect(page.locator("#card-glue-0007-1 .told")).to_contain_text("was rejected by ben")


def test_a_commit_is_on_the_screen_within_a_second(site, enter):
    page = enter("vera")
    page.goto("/campaign/glue")
    expect(page.locator("#live")).to_have_text("Live")
    page.wait_for_timeout(500)  # the poller's first reading
    took = []
    for trial in ("glue-0007", "glue-0008", "glue-0009"):
        began = time.monotonic()
        site.approve(trial)
        page.locator("tr", has_text=trial).locator(".state.approved").wait_for(timeout=5000)
        took.append(time.monotonic() - began)
    assert max(took) < 1.0, took


def test_a_viewer_and_an_approver_see_no_button_that_is_not_theirs(site, enter):
    for name, buttons in (("vera", 0), ("carla", 3)):
        page = enter(name)
        page.goto("/queue/glue")
        expect(page.locator(".card")).to_have_count(3)
        expect(page.locator(".approve")).to_have_count(buttons)
        page.goto("/laboratory/glue/result/glue-0003")
        expect(page.locator("button.main")).to_be_disabled()


def test_results_are_entered_corrected_and_uploaded(site, enter, tmp_path):
    site.approve("glue-0007", "glue-0008")
    site.make_pass()
    page = enter("ana")
    page.goto("/laboratory")
    page.get_by_label("Scan or type an order").fill("glue-0007-1")
    page.keyboard.press("Enter")
    expect(page.get_by_label("strength [MPa]", exact=True)).to_be_focused()
    page.keyboard.type("33.5")
    page.get_by_label("standard deviation").fill("wide")
    page.get_by_role("button", name="Record").click()
    expect(page.get_by_role("alert")).to_contain_text("sd of strength")
    expect(page.get_by_label("strength [MPa]", exact=True)).to_have_value("33.5")
    page.get_by_label("standard deviation").fill("0.4")
    page.get_by_text("It was run otherwise than asked").click()
    page.get_by_label("heat [degC]").fill("61")
    page.get_by_role("button", name="Record").click()
    expect(page.locator("#said")).to_contain_text("glue-0007: recorded, strength 33.5 MPa")
    page.get_by_role("link", name="correct or retract glue-0007").click()
    page.get_by_label("strength [MPa]", exact=True).fill("34.5")
    page.get_by_label("Reason of the correction").fill("misread")
    page.get_by_role("button", name="Correct").click()
    expect(page.locator("#said")).to_contain_text("corrected to strength 34.5 MPa")
    table = tmp_path / "results.csv"
    table.write_text("key,strength [MPa]\nglue-0008-1,30.25\n")
    page.locator("input[type=file]").set_input_files(table)
    page.get_by_role("button", name="Record").click()
    expect(page.locator("#said")).to_contain_text("glue-0008: recorded, strength 30.25 MPa")
    assert site.ledger.trial("glue-0007").outputs == {"strength": 34.5}
    assert site.ledger.trial("glue-0007").ran["heat"] == 61


def test_the_table_of_trials_is_sorted_and_filtered(site, enter):
    page = enter("vera")
    page.goto("/campaign/glue")
    page.get_by_role("link", name="strength [MPa]").click()
    page.wait_for_url("**sort=y.strength**")
    page.get_by_role("link", name="strength [MPa]").click()
    page.wait_for_url("**down=1**")
    cells = page.locator("#trials tbody tr td:nth-child(6)").all_inner_texts()
    numbers = [float(cell) for cell in cells if cell]
    assert len(numbers) == 6 and numbers == sorted(numbers, reverse=True)
    page.get_by_label("State").select_option("PROPOSED")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#trials tbody tr")).to_have_count(3)


def test_a_page_whose_person_was_taken_out_leads_to_the_sign_in(site, enter):
    page = enter("carla")
    page.goto("/queue/glue")
    expect(page.locator("#live")).to_have_text("Live")
    file = site.settings.people
    kept = [each for each in json.loads(file.read_text())["tokens"] if each["name"] != "carla"]
    file.write_text(json.dumps({"tokens": kept}))
    site.approve("glue-0007")
    page.wait_for_url("**/sign-in?to=/queue/glue")


def test_the_one_time_token_of_the_address_signs_in_and_leaves_the_address(site, chromium):
    printed: list[str] = []
    with served(replace(site.settings, people=None), printed.append) as address:
        page = chromium.new_context().new_page()
        page.goto(f"{address}/sign-in#{printed[0]}")
        page.wait_for_url(f"{address}/")
        expect(page.locator(".who")).to_contain_text("operator")
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url(f"{address}/sign-in")
        page.context.close()


def test_a_link_with_somebodys_token_signs_nobody_in(site, chromium):
    with served(site.settings) as address:
        page = chromium.new_context().new_page()
        page.goto(f"{address}/sign-in?to=/queue#{TOKENS['vera']}")
        page.wait_for_url(f"{address}/sign-in?to=/queue")  # the token has left the address
        expect(page.get_by_label("Token")).to_have_value("")
        assert not page.context.cookies()
        page.context.close()


def test_a_ledger_that_is_away_leaves_the_cards_as_they_are(site, enter):
    page, ledger = enter("ana"), site.settings.ledger
    page.goto("/queue")
    live = page.locator("#live")
    expect(live).to_have_text("Live")
    ledger.rename(ledger.with_suffix(".away"))
    expect(live).to_have_text("The ledger cannot be read now")
    expect(page.locator(".card:not(.settled)")).to_have_count(3)
    ledger.with_suffix(".away").rename(ledger)
    expect(live).to_have_text("Live")
    expect(page.locator(".card:not(.settled)")).to_have_count(3)
    page.get_by_role("button", name="Approve", exact=True).first.click()
    expect(page.locator("#said")).to_contain_text("approved")


def test_a_commit_before_the_stream_is_on_the_screen_too(site, enter):
    page = enter("vera")

    def late(route: Route) -> None:
        site.approve("glue-0007")
        time.sleep(0.7)  # the last page's poller, which would tell of it, has ended
        route.continue_()

    page.route("**/live", late, times=1)
    page.goto("/campaign/glue")
    page.locator("tr", has_text="glue-0007").locator(".state.approved").wait_for()


def test_a_result_whose_answer_is_lost_is_not_sent_again(site, enter):
    page, sent = enter("ana"), []
    page.route("**/correct", lambda route: (sent.append(route.request.url), route.abort()))
    page.goto("/laboratory/glue/result/glue-0003")
    page.get_by_label("strength [MPa]", exact=True).fill("33")
    page.get_by_label("Reason of the correction").fill("misread")
    page.keyboard.press("Enter")
    expect(page.locator(".told")).to_contain_text("Look whether this was recorded")
    expect(page.get_by_role("button", name="Correct")).to_be_enabled()
    assert len(sent) == 1 and page.get_by_label("strength [MPa]", exact=True).input_value() == "33"


def test_a_page_goes_on_once_the_desk_is_back(site, chromium):
    with served(site.settings) as address:
        page = chromium.new_context(base_url=address).new_page()
        page.goto("/sign-in")
        page.get_by_label("Token").fill(TOKENS["vera"])
        page.keyboard.press("Enter")
        page.wait_for_url(f"{address}/")
        page.goto("/campaign/glue")
        expect(page.locator("#live")).to_have_text("Live")
    expect(page.locator("#live")).to_have_text("Not live: the desk does not answer")
    with served(site.settings, port=int(address.rpartition(":")[2])):
        page.wait_for_url("**/sign-in?to=/campaign/glue", timeout=15_000)
    page.context.close()


def test_a_trial_is_cancelled_and_sent_again_from_its_page(site, enter):
    site.approve("glue-0007")
    site.make_pass()
    page = enter("ana")
    page.goto("/campaign/glue/trial/glue-0007")
    page.get_by_label("reason: Cancel").fill("no resin left")
    page.keyboard.press("Enter")
    expect(page.locator("#said")).to_contain_text("glue-0007: it is FAILED now.")
    page.get_by_role("button", name="Send again").click()
    expect(page.locator("#said")).to_contain_text("glue-0007: approved again.")
    assert states(site)["glue-0007"] == "APPROVED"


def test_a_page_that_nobody_looks_at_holds_no_stream(site, enter):
    page = enter("vera")
    expect(page.locator("#live")).to_have_text("Live")  # the stream of the page that the sign-in leads to
    streams = []
    page.on("request", lambda request: streams.append(request.url) if request.url.endswith("/live") else None)
    page.goto("/doctor")
    expect(page.locator("#live")).to_have_text("")
    assert streams == []
    page.goto("/campaign/glue")
    expect(page.locator("#live")).to_have_text("Live")
    assert len(streams) == 1
    hide = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true});"
    page.evaluate(hide % "true" + "document.dispatchEvent(new Event('visibilitychange'))")
    site.approve("glue-0007")
    page.wait_for_timeout(700)
    expect(page.locator("tr", has_text="glue-0007").locator(".state.approved")).to_have_count(0)
    page.evaluate(hide % "false" + "document.dispatchEvent(new Event('visibilitychange'))")
    page.locator("tr", has_text="glue-0007").locator(".state.approved").wait_for()
