"""Results at the desk: checked and recorded as the commands do it, in parts, corrected, retracted, from tables."""

import csv
import re
import tempfile

import pytest
import xarray as xr
from bench import bench
from desk_site import SENT, TOKENS, parts, people
from test_desk_decisions import rows

from fieldcraft.flows.desk.parts.barcode import _WIDTHS, barcode, values_of
from fieldcraft.flows.desk.parts.order_table import order_table
from fieldcraft.flows.files.tables import unguarded
from fieldcraft.flows.text import printable
from fieldcraft.storage.records import TrialState

UPLOAD = "/laboratory/upload/oven"
WHOLE = {"y.strength": "50.5", "y.porosity": "-1"}

CASES = {
    "whole": (
        [["record", "oven-0001-1", "--value", "strength=50.5", "--value", "porosity=-1", "--sd", "strength=0.5",
          "--ran", "T=1001", "--cost", "2.5", "--seconds", "90", "--note", "a crack"]],
        [("record", {"trial": "oven-0001-1", **WHOLE, "sd.strength": "0.5", "x.T": "1001", "cost": "2.5",
                     "seconds": "90", "note": "a crack"})],
    ),
    "part, then the rest": (
        [["record", "oven-0001", "--value", "strength=50"], ["record", "oven-0001", "--value", "porosity=-1"]],
        [("record", {"trial": "oven-0001", "y.strength": "50", "y.porosity": ""}),
         ("record", {"trial": "oven-0001", "y.porosity": "-1"})],
    ),
    "part, withdrawn, then whole": (
        [["record", "oven-0001", "--value", "strength=50"],
         ["retract", "oven-0001", "--reason", "the wrong part"],
         ["record", "oven-0001", "--value", "strength=50.5", "--value", "porosity=-1"]],
        [("record", {"trial": "oven-0001", "y.strength": "50", "y.porosity": ""}),
         ("retract", {"trial": "oven-0001", "reason": "the wrong part"}),
         ("record", {"trial": "oven-0001", **WHOLE})],
    ),
    "corrected, then retracted": (
        [["record", "oven-0001", "--value", "strength=50.5", "--value", "porosity=-1"],
         ["correct", "oven-0001", "--value", "strength=39.5", "--reason", "misread"],
         ["retract", "oven-0001", "--reason", "the wrong part"]],
        [("record", {"trial": "oven-0001", **WHOLE}),
         ("correct", {"trial": "oven-0001", "y.strength": "39.5", "reason": "misread"}),
         ("retract", {"trial": "oven-0001", "reason": "the wrong part"})],
    ),
    "a cost, corrected": (
        [["record", "oven-0001", "--value", "strength=50.5", "--value", "porosity=-1", "--cost", "1000"],
         ["correct", "oven-0001", "--cost", "10", "--seconds", "7", "--reason", "a slip"]],
        [("record", {"trial": "oven-0001", **WHOLE, "cost": "1000"}),
         ("correct", {"trial": "oven-0001", "cost": "10", "seconds": "7", "reason": "a slip"})],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("commands", "forms"), CASES.values(), ids=CASES)
def test_a_result_writes_the_rows_of_its_command(oven, browsers, monkeypatch, commands, forms):
    by_command, at_desk = oven("command"), oven("desk")
    browser = browsers(at_desk.settings, "ana")
    for name, fields in forms:
        path = "/laboratory/oven/retract" if name == "retract" else f"{UPLOAD}/{name}"
        answer = browser.post(path, fields, files=None if name == "retract" else {})
        assert (answer.status, answer.headers["location"]) == (303, "/laboratory/oven"), answer.said
    monkeypatch.setenv("FIELDCRAFT_TOKEN", TOKENS["ana"])
    for words in commands:
        assert by_command.run(*words)[0] == 0
    assert rows(at_desk.ledger, "oven") == rows(by_command.ledger, "oven")
    assert at_desk.ledger.trial("oven-0001").state is TrialState.COMPLETED


def test_a_table_with_the_fields_that_it_names_is_recorded_whole(oven, browsers, monkeypatch, tmp_path):
    by_command, at_desk = oven("command"), oven("desk")
    lines = list(csv.reader((at_desk.orders / "batch-0000.csv").read_text().splitlines()))
    lines[0].append("field")
    for line, cells in zip(lines[1:], (["51", "-2", "", "map.nc"], ["", "", "", ""], ["49", "", "", ""]), strict=True):
        line[-3:] = cells
    table = "".join(f"{','.join(line)}\n" for line in lines)
    (tmp_path / "filled.csv").write_text(table)
    xr.Dataset({"density": ("z", [1.0, 2.0, 3.0])}).to_netcdf(tmp_path / "map.nc", engine="h5netcdf")
    files = {name: (tmp_path / name).read_bytes() for name in ("filled.csv", "map.nc")}
    browser = browsers(at_desk.settings, "ana")
    assert browser.post(f"{UPLOAD}/table", {}, files={"filled.csv": files["filled.csv"]}).status == 422  # no map.nc
    assert browser.post(f"{UPLOAD}/table", {}, files=files).status == 303
    said = browser.get("/laboratory/oven").said
    assert "oven-0001: recorded" in said and "oven-0003: kept as a part" in said
    monkeypatch.setenv("FIELDCRAFT_TOKEN", TOKENS["ana"])
    assert by_command.run("record", "--csv", tmp_path / "filled.csv")[0] == 0
    assert at_desk.ledger.trial("oven-0001").field == by_command.ledger.trial("oven-0001").field is not None
    assert placeless(rows(at_desk.ledger, "oven")) == placeless(rows(by_command.ledger, "oven"))


def test_the_table_of_the_open_orders_is_the_folders_and_is_uploaded_again_once_filled_in(oven, browsers):
    site = oven("desk")
    browser = browsers(site.settings, "ana")
    answer = browser.get("/laboratory/oven/orders.csv")
    assert (
        answer.headers["content-type"].startswith("text/csv") and "attachment" in answer.headers["content-disposition"]
    )
    assert "/laboratory/oven/orders.csv" in browser.get("/laboratory").text
    lines = list(csv.reader(answer.text.removeprefix("\ufeff").splitlines()))
    assert lines == list(csv.reader((site.orders / "batch-0000.csv").read_text().splitlines()))
    place = lines[0].index("strength [MPa]")
    lines[2][place : place + 2] = ["51.25", "-2"]
    filled = "\ufeff" + "".join(f"{';'.join(line)}\r\n" for line in lines)  # as a spreadsheet saves it
    assert browser.post(f"{UPLOAD}/table", {}, files={"filled.csv": filled.encode()}).status == 303
    trial = site.ledger.trial("oven-0002")
    assert (trial.outputs, trial.ran) == ({"strength": 51.25, "porosity": -2.0}, None)
    assert "oven-0002" not in browser.get("/laboratory/oven/orders.csv").text
    for number in (1, 3):
        fields = {"trial": f"oven-000{number}", **WHOLE}
        assert browser.post(f"{UPLOAD}/record", fields, files={}).status == 303
    assert browser.get("/laboratory/oven/orders.csv").status == 422
    assert "orders.csv" not in browser.get("/laboratory/oven").text


def test_no_cell_of_the_table_is_a_formula_and_numbers_stay_numbers(oven):
    record = oven("desk").ledger.campaign("oven")
    evil = ["=1+1", "+cmd", "-cmd", "@sum", "\tx", "\rx", " =1"]
    orders = [{"order": f"k-{n}", "trial": f"t-{n}", "design": {"T": -1.5, "gas": text}} for n, text in enumerate(evil)]
    rows = list(csv.reader(order_table(record, orders).splitlines()[1:]))
    assert [row[2] for row in rows] == ["-1.5"] * len(evil)
    assert all(row[3].startswith(("'", "\\t", "\\r")) for row in rows), rows
    assert {unguarded(row[3]) for row in rows} == {printable(text) for text in evil}


def test_a_completed_trial_of_a_laboratory_leads_to_its_correction(oven, browsers):
    site = oven("desk")
    ana, vera = browsers(site.settings, "ana"), browsers(site.settings, "vera")
    path, form = "/campaign/oven/trial/oven-0001", 'href="/laboratory/oven/result/oven-0001"'
    assert form in ana.get(path).text and "Enter its result" in ana.get(path).said
    assert ana.post(f"{UPLOAD}/record", {"trial": "oven-0001", **WHOLE}, files={}).status == 303
    assert form in ana.get(path).text and "Correct or retract its result" in ana.get(path).said
    assert form not in vera.get(path).text


@pytest.mark.parametrize("values", [{"y.strength": "50.5", "sd.strength": "0.5"}, {**WHOLE, "sd.strength": "0.5"}])
def test_the_form_for_more_of_a_result_shows_what_was_run_and_how_sure_it_is(oven, browsers, values):
    site = oven("desk")
    ana, form = browsers(site.settings, "ana"), "/laboratory/oven/result/oven-0001"
    asked = ana.get(form)
    assert "run as" not in asked.said and 'placeholder="0.5"' not in asked.text
    order = {"trial": "oven-0001", **values, "x.T": "1001.5"}
    assert ana.post(f"{UPLOAD}/record", order, files={}).status == 303
    shown = ana.get(form)
    assert "run as 1001.5 K" in shown.said and shown.said.count("run as") == 1
    assert re.search(r'name="x.T" placeholder="1001.5"', shown.text)
    assert re.search(r'name="sd.strength"[^>]* placeholder="0.5"', shown.text)
    assert "run as 1001.5 K" in ana.get("/campaign/oven/trial/oven-0001").said


def test_who_withdraws_a_part_does_not_retract_what_somebody_recorded_meanwhile(oven, browsers):
    site = oven("desk")
    ana = browsers(site.settings, "ana")
    path, order = "/laboratory/oven/retract", {"trial": "oven-0001", "reason": "the wrong part"}
    assert ana.post(f"{UPLOAD}/record", {"trial": "oven-0001", "y.strength": "50"}, files={}).status == 303
    form = ana.get("/laboratory/oven/result/oven-0001").text.partition(f'action="{path}"')[2]
    seen = re.search(r'name="seen" value="(\d+)"', form).group(1)
    assert ana.post(f"{UPLOAD}/record", {"trial": "oven-0001", "y.porosity": "-1"}, files={}).status == 303
    refused = ana.post(path, {**order, "seen": seen})
    assert refused.status == 422 and "oven-0001 has result 2 by ana since you looked" in refused.said
    assert site.ledger.trial("oven-0001").outputs == {"strength": 50.0, "porosity": -1.0}
    assert ana.post(path, {**order, "seen": "2"}).status == 303
    assert site.ledger.trial("oven-0001").outputs is None


@pytest.mark.parametrize("whole", [True, False])
def test_who_corrects_does_not_overwrite_what_somebody_corrected_meanwhile(oven, browsers, whole):
    site = oven("desk")
    ana = browsers(site.settings, "ana")
    values = WHOLE if whole else {"y.strength": "50.5"}
    assert ana.post(f"{UPLOAD}/record", {"trial": "oven-0001", **values}, files={}).status == 303
    form = ana.get("/laboratory/oven/result/oven-0001").text.partition(f'action="{UPLOAD}/correct"')[2]
    seen = re.search(r'name="seen" value="(\d+)"', form).group(1)
    order = {"trial": "oven-0001", "reason": "misread", "seen": seen}
    assert ana.post(f"{UPLOAD}/correct", {**order, "y.strength": "30"}, files={}).status == 303
    refused = ana.post(f"{UPLOAD}/correct", {**order, "y.strength": "13"}, files={})
    assert refused.status == 422 and "oven-0001 has result 2 by ana since you looked" in refused.said
    assert site.ledger.results("oven-0001")[-1].outputs["strength"] == 30.0


NARROW = """\
name: laser
seed: 1
sense: maximize
problem:
  kind: declared
  variables: [{name: 'wave "length"', low: 1550.0, high: 1550.01, unit: nm}, {name: power, low: 1, high: 5, unit: mW}]
  results: [{name: 'signal in 6" pipe', unit: uV}]
algorithm:
  start: {n: 4}
  surrogate: {kind: exact_gp}
  acquisition: {kind: log_ei}
  maximizer: {kind: multistart}
approval: auto
dispatcher: {kind: lab}
budget: {trials: 12}
"""


def test_settings_of_a_narrow_range_are_shown_apart_and_are_as_asked_when_typed_as_shown(
    tmp_path, browsers, monkeypatch
):
    bench(tmp_path / "home", NARROW, monkeypatch).make_pass()
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(people(tmp_path / "people.yaml")))
    site = bench(tmp_path / "home", NARROW, monkeypatch)
    ana, trials = browsers(site.settings, "ana"), site.ledger.trials("laser")
    waves = [trial.design['wave "length"'] for trial in trials]
    for page in ("/laboratory/laser/orders", "/laboratory/laser"):
        shown = re.findall(r"1550\.\d{6} nm", ana.get(page).said)
        assert {float(text.split()[0]) for text in shown} == {round(wave, 6) for wave in waves}, page
    form = ana.get("/laboratory/laser/result/laser-0001").text
    name, shown = re.search(r'<input name="(x\.[^"]+)" placeholder="(1550[^"]+)"', form).groups()
    value = re.search(r'<input name="(y\.[^"]+)"', form).group(1)
    answer = ana.post("/laboratory/upload/laser/record", {"trial": "laser-0001", name: shown, value: "5"}, files={})
    assert answer.status == 303, answer.said
    assert site.ledger.trial("laser-0001").outputs == {'signal in 6" pipe': 5.0}
    assert site.ledger.trial("laser-0001").ran is None
    monkeypatch.setenv("FIELDCRAFT_TOKEN", TOKENS["ana"])
    code, out, _ = site.run("show", "laser-0001")
    assert code == 0 and f"{waves[0]:.10g} nm" in out


COMPUTED = """\
name: oven
seed: 5
problem:
  kind: declared
  variables: [{name: T, low: 900, high: 1500, unit: K}]
  results: [{name: hardness, unit: HRC, target: 40}]
algorithm: {start: {n: 2}}
dispatcher: {kind: lab}
budget: {trials: 2}
"""


def test_people_are_not_asked_for_what_is_computed_and_see_it(tmp_path, browsers, monkeypatch):
    for _ in range(2):
        bench(tmp_path, COMPUTED, monkeypatch).make_pass()
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(people(tmp_path / "people.yaml")))
    site = bench(tmp_path, COMPUTED, monkeypatch)
    browser = browsers(site.settings, "ana")
    (trial,) = site.ledger.trials("oven")[:1]
    asked = browser.get(f"/laboratory/oven/result/{trial.id}").text
    assert 'name="y.hardness"' in asked and "y.hardness_distance" not in asked
    assert "hardness_distance" not in browser.get("/laboratory/oven/orders.csv").text
    assert "hardness_distance" not in browser.get("/laboratory/oven/orders").text
    form = {"trial": trial.id, "y.hardness": "38.5"}
    assert browser.post(f"{UPLOAD}/record", form, files={}).status == 303
    assert "hardness_distance 1.5 HRC, hardness 38.5 HRC" in browser.get("/laboratory/oven").said
    assert "hardness_distance" in browser.get(f"/campaign/oven/trial/{trial.id}").text
    refused = browser.post(
        f"{UPLOAD}/correct", {"trial": trial.id, "y.hardness_distance": "1", "reason": "x"}, files={}
    )
    assert (refused.status, "hardness_distance is computed" in refused.said) == (422, True), refused.said


def placeless(text: str) -> str:
    """Rows without the folder in which the table lay."""
    return re.sub(r'"[^" ]*/filled.csv', '"filled.csv', text)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"trial": "oven-0001", "y.strength": "fifty"}, "fifty"),
        ({"trial": "oven-0001", "y.hardness": "5"}, "which is no output"),
        ({"trial": "oven-0009", "y.strength": "5"}, "No trial 'oven-0009' here"),
        ({"trial": "oven-0001"}, "no value was given"),
        ({"trial": "oven-0001", **WHOLE, "cost": "-1"}, "cost"),
    ],
)
def test_a_wrong_result_is_told_and_not_kept(oven, browsers, fields, told):
    site = oven("desk")
    before = rows(site.ledger, "oven")
    answer = browsers(site.settings, "ana").post(f"{UPLOAD}/record", fields, files={})
    assert answer.status == 422 and told in answer.said
    assert rows(site.ledger, "oven") == before


@pytest.mark.parametrize("name", ["../up.csv", "/etc/up.csv", "..\\up.csv", ".hidden.csv", "a\x07.csv"])
def test_a_files_name_leads_nowhere_else(oven, browsers, name, tmp_path):
    answer = browsers(oven("desk").settings, "ana").post(f"{UPLOAD}/table", {}, files={name: b"key\nx\n"})
    assert answer.status == 422
    assert not list(tmp_path.rglob("up.csv"))


def test_what_is_wrong_with_a_table_is_told_by_its_own_name(oven, browsers):
    browser = browsers(oven("desk").settings, "ana")
    table = b"trial,strength,field\noven-0001,5,../up.nc\n"
    answer = browser.post(f"{UPLOAD}/table", {}, files={"filled.csv": table})
    assert answer.status == 422 and " filled.csv: line 2: " in answer.said and "fieldcraft-desk-" not in answer.said
    workbook = browser.post(f"{UPLOAD}/table", {}, files={"filled.xlsx": b"PK\x03\x04"})
    assert workbook.status == 422 and "Save its sheet as CSV" in workbook.said
    twice = parts([("csrf", browser.csrf)], {"a.csv": table}).removesuffix(b"--edge--\r\n") + parts(
        [], {"a.csv": table}
    )
    kind = {"content-type": "multipart/form-data; boundary=edge"}
    answer = browser.ask("POST", f"{UPLOAD}/table", {**SENT, **kind}, twice)
    assert answer.status == 422 and "Two files have the name 'a.csv'" in answer.said


def test_an_upload_that_finds_no_room_is_not_laid_to_the_ledger(oven, browsers, tmp_path, monkeypatch):
    browser = browsers(oven("desk").settings, "ana")
    (tmp_path / "no-folder").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "no-folder"))
    answer = browser.post(f"{UPLOAD}/table", {}, files={"filled.csv": b"trial,strength\noven-0001,5\n"})
    assert answer.status == 503 and "A file cannot be read or written now" in answer.said
    assert "Not a directory" in answer.said and "no-folder" in answer.said


def test_orders_are_printed_with_a_code_that_finds_the_form_again(oven, browsers):
    browser = browsers(oven("desk").settings, "ana")
    sheets = browser.get("/laboratory/oven/orders")
    assert sheets.text.count('class="barcode"') == 3 and "Weigh the part first." in sheets.said
    assert str(barcode("oven-0002-1")) in sheets.text
    found = browser.get("/find?key=oven-0002-1")
    assert (found.status, found.headers["location"]) == (303, "/laboratory/oven/result/oven-0002-1")
    assert "Result of oven-0002" in browser.get(found.headers["location"]).said


def test_the_code_is_code_128():
    """Every symbol is 11 modules wide with an even number of them dark; the check of a text is the standard's sum."""
    assert len(set(_WIDTHS)) == 107 and {sum(map(int, widths)) for widths in _WIDTHS[:-1]} == {11}
    assert all(sum(map(int, widths[::2])) % 2 == 0 for widths in _WIDTHS[:-1])
    assert values_of("PJJ123C")[-2] == (104 + 48 + 2 * 42 + 3 * 42 + 4 * 17 + 5 * 18 + 6 * 19 + 7 * 35) % 103
    assert barcode("é") == ""
