"""The report in a real browser: it draws every chart, asks for nothing, and can be read without scripts."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "flows")]
from small import SMALL, finish  # noqa: E402

from fieldcraft.flows.cli import main  # noqa: E402

CHROMIUM = {"executable_path": "/usr/bin/chromium", "args": ["--no-sandbox", "--disable-dev-shm-usage"]}
DRAWN = "[...document.querySelectorAll('.chart')].every((chart) => chart.dataset.drawn)"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a campaign that has ended."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "small.yaml").write_text(SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDCRAFT_MLFLOW", "off")
        finish(folder / "small.yaml", folder / "home")
        assert main(["report", "small", "--html", str(folder / "page.html"), "--home", str(folder / "home")]) == 0
    return folder / "page.html"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**CHROMIUM)
        yield browser
        browser.close()


def opened(browser: Browser, file: Path, **options: object) -> tuple[Page, list[str]]:
    """The page with what it complained of, and every address but its own that it asked for."""
    page, wrong = browser.new_page(**options), list[str]()
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url) if request.url != file.as_uri() else None)
    page.goto(file.as_uri())
    return page, wrong


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_without_a_complaint_and_nothing_is_asked_for(chromium, report, scheme):
    page, wrong = opened(chromium, report, color_scheme=scheme)
    page.wait_for_function(DRAWN)
    assert page.locator(".chart").count() >= 4
    for chart in page.locator(".chart").all():
        assert chart.locator(".plot .main-svg").count() > 0
        assert chart.locator(".plot .trace, .plot .heatmaplayer image").count() > 0
    ink = page.locator(".xtick text").first.evaluate("text => getComputedStyle(text).fill")
    assert ink == {"light": "rgb(29, 33, 38)", "dark": "rgb(232, 236, 240)"}[scheme]
    assert wrong == []
    page.close()


def test_a_table_is_sorted_by_a_click_on_its_head_and_data_is_saved(chromium, report, tmp_path):
    page, wrong = opened(chromium, report)
    page.wait_for_function(DRAWN)
    table = page.locator("table.sortable", has=page.get_by_role("button", name="foreseen")).last
    head = table.get_by_role("button", name="value")
    place = table.locator("th").all_inner_texts().index("value") + 1
    for order in ("ascending", "descending"):
        head.click()
        values = [float(text) for text in table.locator(f"tbody td:nth-child({place})").all_inner_texts()]
        assert values == sorted(values, reverse=order == "descending")
        assert table.locator(f"th[aria-sort={order}]").count() == 1
    chart = page.locator(".chart").first
    chart.locator("summary").click()
    expect(chart.locator("tbody tr")).to_have_count(3)
    with page.expect_download() as download:
        chart.get_by_role("button", name="Save as CSV").click()
    download.value.save_as(tmp_path / "data.csv")
    lines = (tmp_path / "data.csv").read_text().splitlines()
    told = json.loads(chart.locator("script").inner_text())
    assert lines[0].split(",") == told["head"] and len(lines) == 4
    assert wrong == []
    page.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_the_page_can_be_read_by_everybody_at_any_width(chromium, report, scheme, width):
    viewport = {"width": width, "height": 900}
    context = chromium.new_context(color_scheme=scheme, viewport=viewport, bypass_csp=True)  # axe is a script, too
    page = context.new_page()
    page.goto(report.as_uri())
    page.wait_for_function(DRAWN)
    assert [(each["id"], each["nodes"][0]["html"]) for each in Axe().run(page).response["violations"]] == []
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    context.close()


def test_without_scripts_the_page_has_its_answers_and_tables(chromium, report):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.get_by_text("The pictures need JavaScript").first.is_visible()
    assert page.get_by_role("heading", name="What was found").is_visible()
    assert page.get_by_role("cell", name="small-0003", exact=True).first.is_visible()
    context.close()


def test_a_wide_table_is_printed_whole_on_a_page_across(tmp_path, chromium, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    (tmp_path / "small.yaml").write_text(SMALL.replace("{kind: branin}", "{kind: levy, dimension: 10}"))
    finish(tmp_path / "small.yaml", tmp_path / "home")
    assert main(["report", "small", "--html", str(tmp_path / "page.html"), "--home", str(tmp_path / "home")]) == 0
    page, _ = opened(chromium, tmp_path / "page.html", viewport={"width": 1017, "height": 690})
    sizes = set(re.findall(rb"/MediaBox ?\[0 0 (\d+)[.\d]* (\d+)", page.pdf(format="A4")))
    assert sizes == {(b"595", b"842"), (b"842", b"595")}
    page.emulate_media(media="print")
    widths = page.evaluate(
        "[...document.querySelectorAll('.scroll')].map((each) => [each.scrollWidth, each.clientWidth])"
    )
    assert max(whole - seen for whole, seen in widths) <= 0
