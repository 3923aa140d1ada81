"""The desk's charts in a real browser, under its policy: a campaign of fields, live; a proposal; who decided what."""

import re
import shutil
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from desk_site import TOKENS
from glued import glue, served
from playwright.sync_api import Page, expect, sync_playwright
from small import finish

from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.ledgers.sqlite import close_idle

CHROMIUM = {"executable_path": "/usr/bin/chromium", "args": ["--no-sandbox", "--disable-dev-shm-usage"]}
PLATE = """\
name: plate
seed: 5
sense: maximize
problem: {kind: heat, boundary: 2}
simulator: {kind: heat, cells: 48}
algorithm: {start: {n: 4}, surrogate: {kind: exact_gp}, acquisition: {kind: log_ei}, maximizer: {kind: multistart}}
dispatcher: {kind: inline}
budget: {trials: 5}
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, list[str], object]]:
    """The page of an operator at a desk of two campaigns, and what the browser complained of."""
    folder, wrong = tmp_path_factory.mktemp("desk"), list[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDCRAFT_MLFLOW", "off")
        site = glue(folder)
        (folder / "plate.yaml").write_text(PLATE)
        finish(folder / "plate.yaml", folder / "home")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**CHROMIUM)
        with served(site.settings) as address:
            page = browser.new_page(base_url=address)
            page.on("pageerror", lambda error: wrong.append(str(error)))
            page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
            page.on("request", lambda request: None if request.url.startswith(address) else wrong.append(request.url))
            page.goto("/sign-in")
            page.keyboard.type(TOKENS["ana"])
            page.keyboard.press("Enter")
            page.wait_for_url(re.compile(r":\d+/$"))
            yield page, wrong, site
            browser.close()
    close_idle()


def drawn(page: Page, *titles: str) -> None:
    for title in titles:
        chart = page.locator(".chart[data-drawn]", has=page.get_by_role("heading", name=title, exact=True)).first
        expect(chart.locator(".main-svg").first).to_be_attached()


def test_a_campaign_has_its_charts_and_the_field_of_any_trial_and_nothing_is_forbidden(desk):
    page, wrong, _ = desk
    page.goto("/campaign/plate")
    drawn(
        page, "Results by trial", "Trials over the field", "Predicted against simulated", "Cost so far", "Time by trial"
    )
    field = page.locator(".fields")
    expect(field.locator("output")).to_have_text("plate-0005")
    expect(field.locator(".heatmaplayer image")).to_be_attached()
    field.locator("input").focus()
    page.keyboard.press("Home")
    expect(field.locator("output")).to_have_text("plate-0001")
    page.locator(".chart").first.locator("summary").click()
    expect(page.locator(".chart").first.locator("tbody tr")).to_have_count(5)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert [each["id"] for each in Axe().run(page).response["violations"]] == []
    page.goto("/campaign/plate/trial/plate-0002")
    expect(page.locator("#trial .chart[data-drawn] .main-svg").first).to_be_attached()
    assert wrong == []


def test_a_field_is_drawn_again_after_a_renewal_and_a_lost_one_is_told(desk):
    page, wrong, site = desk
    page.goto("/campaign/plate/trial/plate-0002")
    picture = page.locator("#trial .chart[data-drawn] .main-svg").first
    expect(picture).to_be_attached()
    page.evaluate("document.querySelector('#trial .charts').replaceChildren()")
    page.evaluate("delete document.querySelector('#trial .charts').dataset.shown")
    page.evaluate("document.dispatchEvent(new CustomEvent('renewed'))")
    expect(picture).to_be_attached()
    field = site.ledger.trial("plate-0003").field
    shutil.rmtree(fields_at(site.settings.fields).place(field))
    page.goto("/campaign/plate/trial/plate-0003")
    expect(page.get_by_text("This field could not be drawn.")).to_be_visible()
    assert [line for line in wrong if not line.startswith("Failed to load resource")] == []
    wrong.clear()


def test_a_result_is_in_the_charts_as_soon_as_it_is_recorded(desk):
    page, wrong, site = desk
    page.goto("/campaign/glue")
    drawn(page, "Results by trial")
    points = page.locator(".chart").first.locator(".scatterlayer .point")
    before = points.count()
    site.approve("glue-0007", "glue-0008", "glue-0009")
    site.make_pass()
    site.measure("glue-0007")
    expect(points).to_have_count(before + 1)
    page.get_by_role("link", name="Who decided what, and when").click()
    expect(page.locator("tbody tr")).to_have_count(9)
    expect(page.locator("tbody tr").first).to_contain_text("ana")
    assert wrong == []


def test_a_proposal_is_shown_among_the_trials_seen(desk):
    page, wrong, site = desk
    for trial in ("glue-0008", "glue-0009"):
        site.measure(trial)
    site.make_pass()
    page.goto("/queue/glue")
    pictures = page.locator("details.pictures").first
    pictures.locator("summary").first.click()
    drawn(page, "Designs of the trials")
    assert "this proposal" in pictures.locator(".legendtext").all_text_contents()
    page.goto("/compare?a=glue&b=plate")
    assert wrong == []


def test_what_the_model_predicts_is_shown_while_a_design_is_edited_and_on_the_edited_card(desk):
    page, wrong, site = desk
    page.goto("/queue/glue")
    trial = page.locator(".card").last.get_attribute("data-choice").partition("@")[0]
    card = page.locator(f"#card-{trial}-1")
    card.focus()
    page.keyboard.press("e")
    page.keyboard.press("Control+A")
    page.keyboard.type("300")
    expect(card.locator(".tried")).to_contain_text("heat is 300.0, outside [20.0, 90.0] degC", timeout=30_000)
    page.keyboard.press("Control+A")
    page.keyboard.type("63")
    expect(card.locator(".tried")).to_contain_text(
        "exact_gp x log_ei x multistart), which proposed this trial", timeout=30_000
    )
    tried = card.locator(".tried .big").inner_text()
    assert re.fullmatch(r"strength [0-9.]+ ± [0-9.]+ MPa", tried)
    page.keyboard.press("Enter")
    edited = page.locator(f"#card-{trial}-2")
    expect(edited.locator(".predicted .big")).to_have_text(tried)
    assert site.ledger.trial(trial).design["heat"] == 63
    assert not Axe().run(page).response["violations"]
    assert wrong == []
