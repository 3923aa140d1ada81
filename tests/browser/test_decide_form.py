"""A person decides in Prefect's own page: the form of the deployment ``decide`` in a real browser."""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, sync_playwright

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "scenarios"), str(HERE.parent / "flows")]
from prefect_site import PASSWORD, Site, site, until  # noqa: E402
from waiting import PLUGINS, Waiting, campaign  # noqa: E402

TOKEN = "fc_of-this-test"
BROWSER = {
    "executable_path": "/usr/bin/chromium",
    "args": ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"],
}


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[tuple[Site, Waiting]]:
    """Prefect with its pages, a worker that knows carla's token, and three trials that wait for a person."""
    folder = tmp_path_factory.mktemp("site")
    people = folder / "people.yaml"
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    people.write_text(f"tokens: [{{name: carla, role: approver, cost_limit: 500, sha256: {digest}}}]\n")
    people.chmod(0o600)
    known = {"FIELDCRAFT_PEOPLE": str(people), "FIELDCRAFT_PLUGINS": str(PLUGINS)}
    with pytest.MonkeyPatch.context() as patch, site(folder, pages=True, **known) as prefect:
        patch.setenv("FIELDCRAFT_PLUGINS", str(PLUGINS))
        waiting = campaign(prefect.home, "human")
        waiting.make_pass()
        yield prefect, waiting


@pytest.fixture
def page(served) -> Iterator[Page]:
    """The form, after logging in to Prefect."""
    prefect, _ = served
    address = str(prefect.api.base_url).removesuffix("/").removesuffix("/api")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**BROWSER)
        page = browser.new_page(viewport={"width": 1300, "height": 1250})
        page.goto(address)
        page.locator("input").first.fill(PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url("**/dashboard**")
        page.goto(f"{address}/deployments/deployment/{prefect.deployment('decide/decide')['id']}/run")
        yield page
        browser.close()


def question(page: Page, name: str) -> Locator:
    """The part of the form that asks for a parameter."""
    label = page.locator(".schema-form-property__label", has_text=name)
    return page.locator(".schema-form-property", has=label).last


def decide(page: Page, trial: str, decision: str, token: str, comment: str) -> None:
    question(page, "trials").get_by_role("button", name="Add item").click()
    question(page, "trials").locator("textarea").fill(trial)
    question(page, "decision").locator(".p-select-button__control").focus()
    page.keyboard.press("ArrowDown")
    page.locator(".p-select-option", has_text=decision).click()
    question(page, "token").locator("textarea").fill(token)
    question(page, "comment").locator("textarea").fill(comment)
    with page.expect_response(lambda response: response.url.endswith("/create_flow_run")):
        page.get_by_role("button", name="Submit").click()


def stored_tokens(prefect: Site) -> set[str]:
    return {run["parameters"].get("token") for run in prefect.ask("/flow_runs/filter", {})}


def test_the_form_asks_for_trials_decision_token_and_comment_and_nothing_else(page):
    asked = page.locator(".schema-form-property__label")
    asked.first.wait_for()
    assert [text.partition(" ")[0] for text in asked.all_inner_texts()] == ["trials", "decision", "token", "comment"]


def test_a_decision_made_in_the_form_is_that_of_the_tokens_owner_and_its_token_is_not_kept(served, page):
    prefect, waiting = served
    decide(page, "priced-0001", "approve", TOKEN, "from the form")
    until(lambda: waiting.states()[0] == "APPROVED", "the approval")
    (approval,) = waiting.ledger.approvals("priced-0001")
    assert (approval.by, approval.comment) == ("carla", "from the form")
    assert stored_tokens(prefect) == {"(blanked)"}


def test_a_wrong_token_in_the_form_changes_nothing_and_the_page_says_why(served, page):
    prefect, waiting = served
    decide(page, "priced-0002", "approve", "fc_wrong", "")
    failed = until(lambda: [r for r in prefect.ask("/flow_runs/filter", {}) if r["state_type"] == "FAILED"], "its end")
    page.goto(f"{page.url.partition('/deployments')[0]}/runs/flow-run/{failed[0]['id']}")
    page.get_by_text("The token given is not known").first.wait_for()
    assert waiting.states()[1] == "PROPOSED"
    assert stored_tokens(prefect) == {"(blanked)"}
