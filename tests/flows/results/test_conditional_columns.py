"""A variable that only some choices have: left out of cards, empty in tables of orders, and free in what comes back."""

import csv

import pytest
from bench import bench

from fieldcraft.flows.desk.board import Board
from fieldcraft.flows.desk.parts.cards import cards_of
from fieldcraft.flows.desk.parts.order_table import order_table
from fieldcraft.flows.views.pending import queue_data

TEXT = """\
name: bonds
seed: 5
sense: maximize
problem:
  kind: declared
  variables:
    - {name: glue, choices: [A, B]}
    - {name: cure, low: 20, high: 90, unit: degC, only_if: {glue: [B]}}
    - {name: turn, low: 0, high: 360, unit: deg, periodic: true}
    - {name: w, low: 0, high: 1, unit: mm, size: 2}
  results: [{name: strength, unit: MPa}]
  keeps: [{sum: {w: 1}, at_most: 2}]
algorithm: {start: {n: 4}}
approval: batch
dispatcher: {kind: lab}
budget: {trials: 6}
"""


@pytest.fixture(scope="module")
def bonds(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDCRAFT_MLFLOW", "off")
        made = bench(tmp_path_factory.mktemp("bonds"), TEXT, patch)
        made.make_pass()
        yield made


def test_what_does_not_exist_is_on_no_card_and_in_no_table_and_comes_back_empty(bonds):
    board = Board(bonds.settings)
    standing = board.standing("bonds")
    proposals = bonds.ledger.trials("bonds")
    waiting = queue_data(bonds.ledger, standing.campaign)["waiting"]
    cards = cards_of(standing, board.space(standing.campaign), waiting, proposals)
    glued = {trial.id: trial.design["glue"] for trial in proposals}
    assert set(glued.values()) == {"A", "B"}
    for card in cards:
        shown = [strip.name for strip in card["strips"] if strip.exists]
        assert ("cure" in shown) == (glued[card["trial"]] == "B")
        assert ("cure" in card["design_text"]) == (glued[card["trial"]] == "B")
        assert {"turn", "w[0]", "w[1]"} <= set(shown)

    assert bonds.run("approve", "--batch", "bonds:0")[0] == 0
    bonds.make_pass()
    with (bonds.orders / "batch-0000.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header[2:7] == ["glue", "cure [degC]", "turn [deg]", "w[0] [mm]", "w[1] [mm]"]
    assert {row[2]: row[3] == "" for row in rows} == {"A": True, "B": False}

    orders = [{**entry, "order": f"k-{entry['trial']}"} for entry in waiting]
    desk = list(csv.reader(order_table(standing.campaign, orders).removeprefix("\ufeff").splitlines()))
    assert [row[2:7] for row in desk[1:]] == [row[2:7] for row in sorted(rows, key=lambda row: row[1])]

    lines = [[*row[:7], "12.5", ""] for row in rows]
    bonds.drop("filled.csv", "\n".join(",".join(line) for line in [header, *lines]))
    bonds.make_pass()
    done = bonds.ledger.trials("bonds")[:4]
    assert [(trial.outputs, trial.ran) for trial in done] == [({"strength": 12.5}, None)] * 4


def test_what_came_to_exist_as_it_was_run_is_given_a_value(bonds):
    trial = next(each for each in bonds.ledger.trials("bonds") if each.design["glue"] == "A")
    words = ["correct", trial.id, "--reason", "the other glue", "--ran", "glue=B"]
    status, _, err = bonds.run(*words)
    assert status != 0 and f"{trial.id}: cure exists in the design as run" in err
    assert bonds.ledger.trial(trial.id).ran is None
    assert bonds.run(*words, "--ran", "cure=55")[0] == 0  # the value at which it rested
    assert bonds.ledger.trial(trial.id).ran == {**trial.design, "glue": "B"}
    assert "  ran      glue B, cure 55 degC, other than asked\n" in bonds.run("show", trial.id)[1]
    assert bonds.run(*words[:-1], "w[0]=0.5")[0] == 0  # it is known by now
    assert bonds.ledger.trial(trial.id).ran == {**trial.design, "glue": "B", "w[0]": 0.5}


def test_a_revision_tells_what_came_to_exist_and_what_changed_alone(tmp_path, monkeypatch):
    made = bench(tmp_path, TEXT, monkeypatch)
    made.make_pass()
    trial = next(each for each in made.ledger.trials("bonds") if each.design["glue"] == "A")
    for words in (["glue=B", "cure=30"], ["cure=80"]):
        assert made.run("edit", trial.id, *words)[0] == 0
    said = made.run("show", trial.id)[1]
    assert ": glue A -> glue B, cure 30 degC: " in said and ": cure 30 degC -> cure 80 degC: " in said


def test_a_table_that_is_imported_leaves_out_what_does_not_exist(bonds, tmp_path):
    table = tmp_path / "old.csv"
    head = "glue,cure [degC],turn [deg],w[0] [mm],w[1] [mm],strength [MPa]"
    table.write_text(f"{head}\nA,,360,0.5,0.25,9.5\nB,30,10,0.5,0.25,9.75\n")
    assert bonds.run("import", bonds.file, table)[0] == 0
    first, second = bonds.ledger.trials("bonds")[-2:]
    assert first.design == {"glue": "A", "cure": 55.0, "turn": 360.0, "w[0]": 0.5, "w[1]": 0.25}
    assert second.design["cure"] == 30.0
    table.write_text(f"{head}\nB,,10,0.5,0.25,9.75\n")
    status, _, err = bonds.run("import", bonds.file, table)
    assert status != 0 and "cure is empty. Fill it in" in err


def test_narrower_bounds_of_a_variable_leave_out_what_does_not_exist_too(tmp_path, monkeypatch):
    made = bench(tmp_path, TEXT.replace("algorithm:", "space: {cure: [20, 40]}\nalgorithm:"), monkeypatch)
    table = tmp_path / "old.csv"
    table.write_text("glue,cure [degC],turn [deg],w[0] [mm],w[1] [mm],strength [MPa]\nA,,360,0.5,0.25,9.5\n")
    assert made.run("import", made.file, table)[0] == 0
    assert made.ledger.trials("bonds")[0].design["cure"] == 30.0
