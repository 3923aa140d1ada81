"""A table that ``fieldcraft export`` wrote begins another campaign as it is."""

import pytest
from bench import OVEN_CAMPAIGN, Bench, bench

FOUR = OVEN_CAMPAIGN.replace("start: {n: 3}", "start: {n: 4}").replace("batch: 2", "batch: 4")
FRESH = FOUR.replace("name: oven", "name: fresh")


@pytest.fixture
def oven(tmp_path, monkeypatch) -> Bench:
    """Results with a deviation and a note, of another design than was asked for, retracted, and none."""
    made = bench(tmp_path, FOUR, monkeypatch)
    made.order()
    words = ["--value", "porosity=-0.5", "--sd", "strength=0.25", "--note", "=hot"]
    assert made.run("record", "oven-0001", "--value", "strength=30.125", *words)[0] == 0
    assert made.run("record", "oven-0002", "--value", "strength=41", "--value", "porosity=0.5", "--ran", "t=12")[0] == 0
    assert made.run("record", "oven-0003", "--value", "strength=1", "--value", "porosity=2")[0] == 0
    assert made.run("retract", "oven-0003", "--reason", "spilt")[0] == 0
    return made


def exported(made: Bench):
    table = made.file.with_name("old.csv")
    assert made.run("export", made.name, "--csv", table)[0] == 0
    return table


def test_results_that_count_are_those_of_the_new_campaign_and_the_rest_is_named(oven):
    table, fresh = exported(oven), oven.file.with_name("fresh.yaml")
    fresh.write_text(FRESH)
    status, out, error = oven.run("import", fresh, table)
    assert status == 0, error
    first, *others = out.splitlines()
    assert first == "fresh: imported 2 trials, fresh-0001 to fresh-0002."
    state = oven.ledger.trial("oven-0004").state
    assert others == ["left out: oven-0003, its result was retracted", f"left out: oven-0004, it is {state}"]
    old, new = oven.ledger.trials("oven")[:2], oven.ledger.trials("fresh")
    assert [trial.actual for trial in new] == [trial.actual for trial in old]
    assert new[1].actual["t"] == 12 != old[1].design["t"]
    assert [trial.outputs for trial in new] == [trial.outputs for trial in old]
    (result,) = oven.ledger.results("fresh-0001")
    assert result.details == {
        "place": "old.csv: line 2",
        "sd": {"strength": 0.25},
        "columns": {"trial": "oven-0001", "note": "=hot"},
    }
    again = oven.run("import", fresh, table)[1].splitlines()
    assert "nothing was changed" in again[0] and again[1:] == others


def test_a_column_that_is_mapped_by_hand_is_read_as_such(oven):
    table, fresh = exported(oven), oven.file.with_name("fresh.yaml")
    fresh.write_text(FRESH)
    table.write_text(table.read_text().replace("output.strength", "output.force"))
    status, _, error = oven.run("import", fresh, table)
    assert status == 2 and "no column 'strength'" in error and "output.force" in error
    status, out, error = oven.run("import", fresh, table, "--map", "output.force=strength")
    assert (status, out.splitlines()[0]) == (0, "fresh: imported 2 trials, fresh-0001 to fresh-0002."), error
    assert [trial.outputs["strength"] for trial in oven.ledger.trials("fresh")] == [30.125, 41.0]


def test_a_column_of_ones_own_stays_and_two_for_one_output_are_refused(oven):
    table, fresh = exported(oven), oven.file.with_name("fresh.yaml")
    fresh.write_text(FRESH)
    header, *lines = table.read_text().splitlines()
    table.write_text("\n".join([f"{header},sample", *(f"{line},A{number}" for number, line in enumerate(lines, 1))]))
    assert oven.run("import", fresh, table)[0] == 0
    (result,) = oven.ledger.results("fresh-0002")
    assert result.details["columns"] == {"trial": "oven-0002", "sample": "A2"}
    table.write_text("\n".join([f"{header},strength", *(f"{line},7" for line in lines)]))
    status, _, error = oven.run("import", fresh, table)
    assert status == 2 and "old.csv: two columns stand for 'strength'. Remove one; nothing was imported." in error


def test_a_table_of_trials_without_a_result_imports_nothing(oven):
    table, fresh = exported(oven), oven.file.with_name("fresh.yaml")
    fresh.write_text(FRESH)
    header, *lines = table.read_text().splitlines()
    table.write_text("\n".join([header, *(line for line in lines if not line.startswith(("oven-0001", "oven-0002")))]))
    status, _, error = oven.run("import", fresh, table)
    assert status == 2
    assert "old.csv: no trial in it has a result that counts. Nothing was imported." in error
    assert [each.name for each in oven.ledger.campaigns()] == ["oven"]
