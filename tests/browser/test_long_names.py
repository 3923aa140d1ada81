"""Many proposals of many variables with long names: what waits is counted, and nothing leaves a phone's page."""

import os
import re
from pathlib import Path

import pytest
import yaml
from desk_site import people
from glued import WIDE, Glue, glue_at
from playwright.sync_api import expect

from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.open_ledger import open_ledger

NAMES = [f'a_rather_long_name_of_"variable"_number_{n}' for n in range(1, 9)]
MANY, SHOWN = 33, 30
BIG = {
    "name": "glue",
    "seed": 1,
    "problem": {
        "kind": "declared",
        "variables": [{"name": name, "low": 0.001, "high": 0.002, "unit": "kg m^-3 s^-2"} for name in NAMES],
        "results": [{"name": f"a_long_output_{n}", "unit": "kg m^-3 s^-2", "objective": "minimize"} for n in range(3)],
    },
    "algorithm": {"kind": "gp_ehvi", "start": {"n": MANY}},
    "approval": "human",
    "dispatcher": {"kind": "lab"},
    "budget": {"trials": 60},
}
NARROW = {"width": 380, "height": 800}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Glue:
    """More proposals than a page shows."""
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    people(tmp_path / "people.yaml")
    made = glue_at(tmp_path)
    (tmp_path / "glue.yaml").write_text(yaml.safe_dump(BIG))
    ledger = open_ledger(made.settings.ledger, create=True)
    created(ledger, wire(parse(BIG, "glue"), made.settings), tmp_path / "glue.yaml")
    made.make_pass()
    return made


def test_the_page_counts_what_waits_also_beyond_what_it_shows(site, enter):
    page = enter("ana")
    page.goto("/queue/glue")
    count, head, more = page.locator("#count"), page.locator("#head-glue"), page.locator("#more-glue")
    expect(count).to_have_text(str(MANY))
    expect(head).to_contain_text(f"{MANY} waiting")
    expect(more).to_have_text(f"And {MANY - SHOWN} more proposals, shown once these are decided.")
    page.locator(".card .approve").first.click()
    expect(count).to_have_text(str(MANY - 1))
    expect(head).to_contain_text(f"{MANY - 1} waiting")
    expect(more).to_have_text(f"And {MANY - 1 - SHOWN} more proposals, shown once these are decided.")
    site.approve(*(trial.id for trial in site.ledger.trials("glue")[1:-1]))
    expect(head).to_contain_text("1 waiting")
    expect(count).to_have_text("1")
    expect(more).to_be_empty()
    expect(page.locator("#batch-glue")).to_be_hidden()


def test_long_names_stay_on_the_page_of_a_phone_and_a_quotation_mark_in_its_field(site, enter):
    trials = [trial.id for trial in site.ledger.trials("glue")]
    site.approve(*trials[:2])
    site.make_pass()
    page, wide = enter("ana"), []
    pages = {
        "trial": "/campaign/glue/trial/glue-0001",
        "result": "/laboratory/glue/result/glue-0001",
        "orders": "/laboratory/glue/orders",
        "queue": "/queue/glue",
    }
    page.set_viewport_size(NARROW)
    for name, path in pages.items():
        page.goto(path)
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        if folder := os.environ.get("FIELDCRAFT_SCREENSHOTS"):
            page.screenshot(path=Path(folder) / f"long-{name}.png", clip={"x": 0, "y": 0, **NARROW})
        found = page.evaluate("document.documentElement.scrollWidth")
        wide += [(name, found)] if found > NARROW["width"] else []
    assert not wide
    page.set_viewport_size(WIDE)
    page.goto(pages["result"])
    page.get_by_text("It was run otherwise than asked").click()
    for n in range(3):
        page.get_by_label(re.compile(f"^a_long_output_{n}")).first.fill(str(n))
    page.get_by_label(re.compile(f"^{re.escape(NAMES[0])}")).fill("0.0015")
    page.get_by_role("button", name="Record").click()
    page.wait_for_url(re.compile("/laboratory/glue$"))
    done = site.ledger.trial("glue-0001")
    assert done.outputs == {f"a_long_output_{n}": float(n) for n in range(3)}
    assert done.ran is not None and done.ran[NAMES[0]] == 0.0015
