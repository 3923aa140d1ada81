"""What is said later of a result, in parts, tables and corrections: nothing said before is lost by it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from bench import OVEN, OVEN_CAMPAIGN, Bench, bench, ordered

from fieldcraft.storage.records import TrialState

EVALUATED = f'''{OVEN}
    def evaluate(self, design, fields):
        """Strength from the field, and from the temperature that was really run."""
        return {{"strength": float(fields["m"].max()) + design["T"], "porosity": -1.0}}
'''
WHOLE = ["--value", "strength=30", "--value", "porosity=-1"]


@pytest.fixture(scope="module")
def _ordered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("oven")
    (folder / "plugins" / "problems").mkdir(parents=True)
    (folder / "plugins" / "problems" / "oven.py").write_text(EVALUATED)
    return ordered(folder)


@pytest.fixture
def oven(_ordered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Three orders are with the laboratory."""
    return bench(Path(shutil.copytree(_ordered, tmp_path / "oven")), OVEN_CAMPAIGN, monkeypatch)


def say(oven: Bench, *words: object) -> str:
    status, out, error = oven.run(*words)
    assert status == 0, error
    return out


def test_each_part_adds_to_what_was_really_run(oven):
    asked = oven.ledger.trial("oven-0001").design
    say(oven, "record", "oven-0001", "--value", "strength=30", "--ran", "T=1210")
    say(oven, "record", "oven-0001", "--value", "porosity=-1", "--ran", "t=7")
    assert oven.ledger.trial("oven-0001").ran == {**asked, "T": 1210.0, "t": 7}


def test_a_part_can_say_that_the_design_asked_was_run_after_all(oven):
    asked = oven.ledger.trial("oven-0001").design
    say(oven, "record", "oven-0001", "--value", "strength=30", "--ran", "T=1210")
    say(oven, "record", "oven-0001", "--value", "porosity=-1", "--ran", f"T={asked['T']:.12g}")
    assert oven.ledger.trial("oven-0001").ran is None


def test_a_table_that_repeats_what_was_asked_takes_nothing_back(oven, tmp_path):
    asked = oven.ledger.trial("oven-0001").design
    say(oven, "record", "oven-0001", "--value", "strength=30", "--ran", "T=1210")
    header = "trial,T [K],t [min],gas,porosity [%]"
    (tmp_path / "t.csv").write_text(f"{header}\noven-0001,{asked['T']},7,{asked['gas']},-1\n")
    say(oven, "record", "--csv", tmp_path / "t.csv")
    assert oven.ledger.trial("oven-0001").ran == {**asked, "T": 1210.0, "t": 7}


def test_a_correction_of_what_was_run_keeps_the_other_variables_even_after_a_retraction(oven):
    asked = oven.ledger.trial("oven-0001").design
    say(oven, "record", "oven-0001", *WHOLE, "--ran", "T=1210")
    say(oven, "correct", "oven-0001", "--ran", "t=7", "--reason", "clock")
    assert oven.ledger.trial("oven-0001").ran == {**asked, "T": 1210.0, "t": 7}
    say(oven, "retract", "oven-0001", "--reason", "lost")
    say(oven, "correct", "oven-0001", *WHOLE, "--reason", "found")
    assert oven.ledger.trial("oven-0001").ran == {**asked, "T": 1210.0, "t": 7}


def test_a_corrected_field_is_read_at_what_was_really_run(oven, tmp_path):
    for name, value in (("a", 0.0), ("b", 1.0)):
        xr.Dataset({"m": (("x",), np.array([value]))}).to_netcdf(tmp_path / f"{name}.nc", engine="scipy")
    say(oven, "record", "oven-0001", "--field", tmp_path / "a.nc", "--ran", "T=1000")
    assert oven.ledger.trial("oven-0001").outputs["strength"] == 1000.0
    say(oven, "correct", "oven-0001", "--field", tmp_path / "b.nc", "--reason", "another file")
    assert oven.ledger.trial("oven-0001").outputs["strength"] == 1001.0


def test_a_value_that_is_corrected_back_counts_again(oven):
    say(oven, "record", "oven-0001", "--value", "strength=50")
    for strength in (51, 50):
        say(oven, "correct", "oven-0001", "--value", f"strength={strength}", "--reason", "measured again")
    say(oven, "record", "oven-0001", "--value", "porosity=-1")
    assert oven.ledger.trial("oven-0001").outputs["strength"] == 50.0


def test_what_is_said_later_beside_the_same_values_of_a_part_is_kept(oven):
    say(oven, "record", "oven-0001", "--value", "strength=30")
    again = ["record", "oven-0001", "--value", "strength=30", "--sd", "strength=0.5", "--cost", "12", "--note", "warp"]
    say(oven, *again)
    assert "nothing new" in say(oven, *again)
    say(oven, "record", "oven-0001", "--value", "porosity=-1")
    _, second, last = oven.ledger.results("oven-0001")
    assert (second.details["note"], last.details["sd"]) == ("warp", {"strength": 0.5})
    assert oven.ledger.trial("oven-0001").spent == 12.0


def test_what_is_said_later_of_a_completed_trial_is_kept_and_moves_nothing(oven):
    say(oven, "record", "oven-0001", *WHOLE)
    before = oven.ledger.trial("oven-0001")
    again = ["record", "oven-0001", "--value", "strength=30", "--sd", "strength=0.5", "--note", "warp"]
    assert "what is new beside them is kept" in say(oven, *again)
    assert "nothing was changed" in say(oven, *again)
    assert oven.ledger.trial("oven-0001") == before
    _, late = oven.ledger.results("oven-0001")
    assert (late.verdict, late.details) == ("duplicate", {"sd": {"strength": 0.5}, "note": "warp"})
    assert oven.ledger.check() == []


def test_a_correction_keeps_the_standard_deviations_that_it_does_not_name(oven):
    say(oven, "record", "oven-0001", *WHOLE, "--sd", "strength=0.5")
    say(oven, "record", "oven-0001", *WHOLE, "--sd", "porosity=0.1")
    say(oven, "correct", "oven-0001", "--value", "strength=31", "--sd", "porosity=0.2", "--reason", "scale")
    assert oven.ledger.results("oven-0001")[-1].details["sd"] == {"strength": 0.5, "porosity": 0.2}


def test_json_that_names_a_variable_means_it(oven, tmp_path):
    asked = oven.ledger.trial("oven-0001").design
    say(oven, "record", "oven-0001", "--value", "strength=30", "--ran", "T=1210", "--ran", "t=7")
    said = {"trial": "oven-0001", "values": {"porosity": -1}, "ran": {"T": asked["T"]}}
    (tmp_path / "r.json").write_text(json.dumps(said))
    say(oven, "record", "--csv", tmp_path / "r.json")
    assert oven.ledger.trial("oven-0001").ran == {**asked, "t": 7}


def test_a_result_of_an_earlier_attempt_is_of_the_design_that_was_sent_with_it(oven, tmp_path):
    sent = oven.ledger.trial("oven-0001")
    say(oven, "record", "oven-0001", "--value", "strength=30")
    known = oven.ledger.trial("oven-0001")
    lost = oven.ledger.move(sent.id, TrialState.FAILED, known.expect, "ana", "", failure="transient")
    again = oven.ledger.move(lost.id, TrialState.APPROVED, lost.expect, "ana", "again")
    oven.ledger.edit(again.id, again.expect, {**sent.design, "T": 1250.0}, sent.cost, "ana", "hotter")
    table = tmp_path / "late.csv"
    table.write_text(f"key,T,strength\noven-0001-1,{sent.design['T']:.12g},30\n")
    assert "nothing new" in say(oven, "record", "oven-0001-1", "--value", "strength=30")
    assert "still missing: porosity" in say(oven, "record", "--csv", table)
    say(oven, "record", "oven-0001-1", "--value", "porosity=-1", "--ran", "t=7")
    say(oven, "record", "oven-0001-1", "--value", "porosity=-1")
    first, late, whole = oven.ledger.results("oven-0001")
    assert (first.ran, first.verdict) == (None, "partial")
    assert late.ran == {**sent.design, "t": 7}
    assert whole.ran == dict(sent.design)
    assert oven.ledger.trial("oven-0001").design["T"] == 1250.0
