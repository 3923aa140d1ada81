"""A model that is sure of a wrong place: the second-best one proposes instead, and the campaign goes on from there."""

import os
import signal

import pytest
import warm_start
from rig import rig

from fieldcraft.flows.desk.parts.cards import reasons
from fieldcraft.flows.views.data import trace_data
from fieldcraft.flows.views.text import show_text

SAID = (
    "physics_informed/basis chose this design: physics_informed/kernel, which predicts best, would go back to a place "
    "with 2 results"
)
"""What the twelfth design says: since the eighth `kernel` is sure of a corner of 1,357 K, where another has 1,775 K."""
PLATE = {
    "problem": {"kind": "heat", "boundary": 1, "margin": 0.1},
    "simulator": {"kind": "exact"},
    "noise": {"of_sd": 0.01},
    "algorithm": {"kind": "auto", "start": {"n": 6}},
    "dispatcher": {"kind": "inline"},
    "budget": {"trials": 12},
}
PASSES = """\
import sys
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.storage.open_ledger import open_ledger
lease = open_ledger(f"{sys.argv[1]}/ledger.sqlite").acquire("b").model_dump()
while not make_pass(Ref(sys.argv[1], "b", lease)).decision.finished:
    pass
"""


@pytest.fixture(scope="module")
def plate(tmp_path_factory):
    """The campaign, made in one process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDCRAFT_MLFLOW", "off")
        made = rig(tmp_path_factory.mktemp("plate"), **PLATE)
        made.finish()
        yield made


def test_the_second_best_model_leaves_the_corner_which_the_best_one_repeats(plate):
    designs = [plate.trial(number).design for number in (8, 11, 12)]
    assert designs[0] == designs[1] != designs[2]
    remarks = [plate.trial(number).origin.remarks for number in (11, 12)]
    assert [each["chosen"] for each in remarks] == ["physics_informed/kernel"] * 2
    assert [each.get("second_model") for each in remarks] == [None, SAID]
    temperatures = [trial.outputs["temperature"] for trial in plate.ledger.trials("b")]
    assert max(temperatures[:11]) < 1400 < 1700 < temperatures[11]


def test_trace_and_card_say_who_proposed(plate):
    trial = plate.trial(12)
    assert f"second_model: {SAID}" in reasons(trial)
    assert f"second_model: {SAID}" in show_text(plate.ledger, trial)
    assert trace_data(plate.ledger, trial, None, None)["acquisition"]["remarks"]["second_model"] == SAID


def test_a_campaign_killed_while_the_second_model_proposes_goes_on_bit_for_bit(plate, tmp_path):
    killed = rig(tmp_path, **PLATE)
    dies = {**os.environ, "FIELDCRAFT_DIE_AT": "ledger.propose.before#7"}  # the first six designs are proposed at once
    assert warm_start.run(["-c", PASSES, str(killed.settings.home)], dies, 120).returncode == -signal.SIGKILL
    assert (killed.present(11), killed.present(12)) == (True, False)
    killed.finish()
    told = [
        [(trial.design, trial.outputs, trial.origin.model_copy(update={"model": None})) for trial in trials]
        for trials in (plate.ledger.trials("b"), killed.ledger.trials("b"))
    ]  # the reference to a model's record tells of its seconds
    assert told[0] == told[1]
