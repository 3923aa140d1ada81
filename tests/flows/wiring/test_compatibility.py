"""Words of plug-ins: what they need is asked for before a campaign begins, in whichever way they say it."""

import pytest

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire

WORD = """
from dataclasses import dataclass
from typing import ClassVar

from fieldcraft import Capability


@dataclass(frozen=True)
class Mine:
    says

    def score(self, posterior, data, pending, q, rng):
        raise NotImplementedError
"""
SAID = {
    "of today": "requires: ClassVar[frozenset[Capability]] = frozenset({Capability.EXACT})",
    "in text": "requires: ClassVar[set[str]] = {'exact'}",
    "by options": "@property\n    def requires(self):\n        return frozenset({Capability.EXACT})",
    "from before": "exact_only: ClassVar[bool] = True",
    "that need nothing": "beta: float = 1.0",
}


@pytest.fixture
def wired(tmp_path):
    def wired(says: str, surrogate: str, kind: str = "mine"):
        (tmp_path / "acquisitions").mkdir()
        (tmp_path / "acquisitions" / "mine.py").write_text(WORD.replace("says", says))
        words = {"surrogate": {"kind": surrogate}, "acquisition": {"kind": kind}, "maximizer": {"kind": "multistart"}}
        data = {
            "name": "c",
            "seed": 1,
            "sense": "minimize",
            "problem": {"kind": "branin"},
            "simulator": {"kind": "function"},
            "algorithm": {"start": {"n": 4}, **words},
            "budget": {"trials": 9},
        }
        return wire(parse(data, "c"), settings_from({"FIELDCRAFT_PLUGINS": str(tmp_path)}, home=tmp_path))

    return wired


@pytest.mark.parametrize("form", [form for form in SAID if form != "that need nothing"])
def test_a_word_of_a_plug_in_that_needs_an_exact_process_is_refused_another(wired, form):
    with pytest.raises(
        InputError,
        match=r"^algorithm\.acquisition: 'mine' needs an exact Gaussian process, and the surrogate 'random_forest' "
        r"gives none\. Use the surrogate exact_gp, or the acquisition log_ei, which takes any\.$",
    ):
        wired(SAID[form], "random_forest")


@pytest.mark.parametrize("form", SAID)
def test_a_word_of_a_plug_in_whose_needs_are_met_is_taken(wired, form):
    assert wired(SAID[form], "exact_gp").spec.algorithm.acquisition.kind == "mine"


def test_a_word_of_a_plug_in_that_needs_nothing_takes_any(wired):
    assert wired(SAID["that need nothing"], "random_forest").spec.algorithm.surrogate.kind == "random_forest"


def test_a_capability_that_a_plug_in_misspells_is_told_with_its_place(wired):
    with pytest.raises(InputError) as told:
        wired("requires: ClassVar[set[str]] = {'exatc'}", "exact_gp")
    place = (
        r"^algorithm\.acquisition: .*acquisitions/mine\.py, line \d+: Mine cannot say what it provides and requires: "
    )
    assert told.match(
        place
        + r"ValueError: requires names 'exatc', which is no capability: name equation, emulator, earlier, levels, .*\.$"
    )
