"""Campaigns on a mixture: every design is a blend, whatever chooses, edits, orders, records or imports it."""

import csv
import dataclasses
import json
from pathlib import Path

import pytest
import yaml
from bench import Bench, bench
from small import SEARCH, finish

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.report.belief import believed
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse, read_campaign
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.context import Site
from fieldcraft.flows.wiring.observations import observations
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import TrialState

ROOT = Path(__file__).resolve().parents[3]
YARN = yaml.safe_load((ROOT / "campaigns" / "yarn.yaml").read_text())
SHARES = ("polyethylene", "polystyrene", "polypropylene")
LAB = {"dispatcher": {"kind": "lab"}, "approval": "human", "budget": {"trials": 3}}


def written(folder: Path, **changes: object) -> Path:
    file = folder / "yarn.yaml"
    file.write_text(yaml.safe_dump({**YARN, **changes}))
    return file


def site(file: Path, home: Path) -> Site:
    settings = settings_from({}, home)
    campaign = wire(read_campaign(file), settings)
    return Site(campaign, open_ledger(settings.ledger), fields_at(settings.fields))


@pytest.mark.parametrize(
    ("algorithm", "chosen"),
    [
        ({"kind": "gp_ei"}, 3),
        ({"kind": "sto_bnts_linear"}, 3),
        ({"kind": "gp_ucb", "maximizer": {"kind": "certified"}}, 3),
        ({"kind": "botorch_log_ei"}, 1),  # each takes a walk of 26,000 steps on the plane
    ],
    ids=["gp_ei", "sto_bnts_linear", "certified", "botorch_log_ei"],
)
def test_every_design_of_a_campaign_is_a_blend(algorithm, chosen, tmp_path):
    file = written(tmp_path, algorithm={"start": {"n": 6}, **algorithm}, budget={"trials": 6 + chosen})
    finish(file, tmp_path / "home")
    found = site(file, tmp_path / "home")
    trials = found.ledger.trials("yarn")
    assert len(trials) == 6 + chosen and all(trial.state is TrialState.COMPLETED for trial in trials)
    for trial in trials:
        assert sum(trial.design.values()) == pytest.approx(1.0, abs=1e-11)
        assert min(trial.design.values()) >= 0
    # The median of six quasi-random blends reads 14.6; a search that knows of the plane is above 17 soon.
    assert max(trial.outputs["elongation"] for trial in trials[6:]) > 16.9
    if "maximizer" in algorithm:
        assert {trial.origin.certificate.status for trial in trials[6:]} == {"optimal"}


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("yarn")
    file = written(folder, algorithm={"kind": "gp_ei", "start": {"n": 7}, "maximizer": SEARCH}, budget={"trials": 8})
    finish(file, folder / "home")
    return site(file, folder / "home")


def test_what_is_learnt_from_says_on_which_plane_designs_are(learnt):
    data = observations(learnt.campaign, learnt.ledger.trials("yarn"), None)
    assert data.planes == learnt.campaign.space and data.objective.planes == data.planes
    plain = dataclasses.replace(data, space=None)
    assert plain.planes is None and plain.digest == data.digest


def test_the_picture_of_what_is_believed_keeps_to_the_plane(learnt):
    best = max(learnt.ledger.trials("yarn")[:7], key=lambda trial: trial.outputs["elongation"])  # the model knows seven
    plane = believed(learnt, best).plane
    assert len(plane.names) == 2 and {*plane.names, *plane.tied} == {*SHARES} and plane.held == {}
    first, second = plane.axes
    possible = first[:, None] + second[None, :] <= 1 + 1e-9
    assert ((plane.mean == plane.mean) == possible).all() and 0.4 < possible.mean() < 0.6
    # The model interpolates: what it says at the best result's place is about what was read there.
    i, j = (abs(axis - best.actual[name]).argmin() for axis, name in zip(plane.axes, plane.names, strict=True))
    assert plane.mean[i, j] == pytest.approx(best.outputs["elongation"], abs=0.2)
    assert sum(plane.shares.values()) == pytest.approx(1.0)
    assert set(believed(learnt, best, ("polystyrene",)).plane.tied) == {"polyethylene", "polypropylene"}


def test_check_and_the_report_say_what_designs_keep(learnt, tmp_path, capsys, monkeypatch):
    from fieldcraft.flows.cli import main

    kept = "polyethylene + polystyrene + polypropylene = 1"
    file = ROOT / "campaigns" / "yarn.yaml"
    assert main(["check", str(file)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-2] == f"{file}: every design keeps {kept}" and said[-1].startswith(f"{file}: valid: gp_ei stands for")
    assert main(["check", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["constraints"] == [kept]
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    page = tmp_path / "yarn.html"
    assert main(["report", "yarn", "--html", str(page), "--home", str(learnt.campaign.settings.home)]) == 0
    text = page.read_text()
    assert f"Every design keeps {kept}." in text
    assert "make up the rest; blank where they cannot" in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": {"kind": "ax"}}, r"algorithm.peer: .*polypropylene = 1\), which are not passed on to ax: use"),
        ({"algorithm": {"kind": "optuna_gp"}}, r"which are not passed on to optuna_gp: use another algorithm"),
        ({"algorithm": {"kind": "optuna_tpe"}}, r"which are not passed on to optuna_tpe: use another algorithm"),
        ({"space": {name: [0.0, 0.3] for name in SHARES}}, r"space: No design satisfies polyethylene .* = 1 within"),
        (
            {"space": {"polyethylene": [0.0, 0.5], "polystyrene": [0.0, 0.25], "polypropylene": [0.0, 0.25]}},
            r"space: The only design that satisfies .* is \{'polyethylene': 0.5, 'polystyrene': 0.25, 'polypropy",
        ),
        (
            {"algorithm": {"surrogate": {"kind": "grouped_gp"}, "acquisition": {"kind": "add_ucb"},
                           "maximizer": {"kind": "certified"}, "start": {"n": 4}}},
            r"The constraint polyethylene .* = 1 couples groups of variables",
        ),
    ],
)  # fmt: skip
def test_what_cannot_keep_to_a_mixture_is_refused_before_anything_begins(changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        wire(parse({**YARN, **changes}, "yarn.yaml"), settings_from({}, tmp_path))


def test_baybe_is_told_of_the_equality(tmp_path):
    wired = wire(parse({**YARN, "algorithm": {"kind": "baybe"}}, "yarn.yaml"), settings_from({}, tmp_path))
    assert wired.algorithm.peer is not None


@pytest.fixture
def blends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Three blends wait for a decision."""
    plan = {key: value for key, value in YARN.items() if key != "simulator"}
    made = bench(tmp_path, yaml.safe_dump({**plan, **LAB, "algorithm": {"start": {"n": 3}}}), monkeypatch)
    made.make_pass()
    return made


def test_an_edit_keeps_the_blend_or_is_refused_with_what_would(blends):
    before = blends.ledger.trial("yarn-0001").design
    status, _, error = blends.run("edit", "yarn-0001", "polyethylene=0.25", "polystyrene=0.25")
    assert status == 2 and "= 1, for its sum is " in error and "Nothing was changed." in error
    assert "change it; with polypropylene = 0.5, for one, it would be kept" in error
    assert blends.ledger.trial("yarn-0001").design == before
    words = ("polyethylene=0.25", "polystyrene=0.25", "polypropylene=0.5")
    assert blends.run("edit", "yarn-0001", *words)[0] == 0
    assert blends.ledger.trial("yarn-0001").design == dict(zip(SHARES, (0.25, 0.25, 0.5), strict=True))


def test_a_blend_read_back_from_an_order_is_the_one_that_was_asked(blends, tmp_path):
    assert blends.run("approve", "yarn-0001", "yarn-0002", "yarn-0003")[0] == 0
    blends.make_pass()
    rows = list(csv.DictReader((blends.orders / "batch-0000.csv").read_text().splitlines()))
    for order in (blends.orders / "open").glob("*.json"):
        said = json.loads(order.read_text())
        assert said["design"] == blends.ledger.trial(said["trial"]).design
    for row in rows:
        asked = {name: float(row[name]) for name in SHARES}
        blends.site.campaign.space.check(asked)
        assert asked == blends.ledger.trial(row["trial"]).design
        # A spreadsheet keeps 15 digits.
        row.update({name: f"{value:.15g}" for name, value in asked.items()}, **{"elongation [kgf]": "12.5"})
    done = tmp_path / "done.csv"
    with done.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0].keys())
        table.writeheader()
        table.writerows(rows)
    assert blends.run("record", "--csv", done)[0] == 0
    assert [trial.ran for trial in blends.ledger.trials("yarn")] == [None] * 3


def test_what_was_really_run_off_the_plane_is_kept_and_said(blends):
    assert blends.run("approve", "yarn-0001", "yarn-0002", "yarn-0003")[0] == 0
    blends.make_pass()
    status, out, error = blends.run(
        "record", "yarn-0001", "--value", "elongation=13", *(f"--ran={name}=0.33" for name in SHARES)
    )
    assert status == 0, error
    assert "lies outside the campaign's space and is kept as it is" in out + error
    assert "for its sum is 0.99" in out + error
    assert blends.ledger.trial("yarn-0001").actual == dict.fromkeys(SHARES, 0.33)


def test_an_import_takes_blends_alone_and_says_by_how_much_a_line_is_off(blends, tmp_path):
    data = tmp_path / "old.csv"
    header = f"{','.join(SHARES)},elongation"
    data.write_text(f"{header}\n0.3,0.3,0.4,12\n0.333,0.333,0.333,12\n")
    status, _, error = blends.run("import", blends.file, data)
    assert status == 2 and "old.csv: line 3: The design" in error and "for its sum is 0.999: change it" in error
    assert "Nothing was imported" in error
    data.write_text(f"{header}\n0.3,0.3,0.4,12\n0.333,0.333,0.334,12\n")
    status, out, error = blends.run("import", blends.file, data)
    assert (status, "imported 2 trials" in out) == (0, True), error
