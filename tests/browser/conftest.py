"""Browsers, and people who have signed in at the desk of a test's ``site``."""

import re
from collections.abc import Callable, Iterator

import pytest
from desk_site import TOKENS
from glued import WIDE, Glue, served
from playwright.sync_api import Browser, Page, sync_playwright

ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def enter(site: Glue, chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a browser of somebody's at the desk. A script error, or anything the policy forbids, fails the test."""
    wrong, contexts = [], []
    with served(site.settings) as address:

        def entered(name: str, **options: object) -> Page:
            context = chromium.new_context(base_url=address, viewport=WIDE, **options)
            contexts.append(context)
            page = context.new_page()
            page.on("pageerror", lambda error: wrong.append(str(error)))
            page.on("console", lambda line: wrong.append(line.text) if "Content Security" in line.text else None)
            page.goto("/sign-in")
            page.keyboard.type(TOKENS[name])
            page.keyboard.press("Enter")
            page.wait_for_url(re.compile(r":\d+/$"))
            return page

        yield entered
        for context in contexts:
            context.close()
    assert not wrong
