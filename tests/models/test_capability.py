"""What words give and need: one vocabulary, which classes from before it speak too."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from fieldcraft.models.capability import Capability, provided, require_known, required, scale_of
from fieldcraft.models.maximizers.pk_miqp import PKMIQP
from fieldcraft.models.rules.bound import Bound
from fieldcraft.models.surrogates.exact_gp import ExactGP

BEFORE = {
    "exact": Capability.EXACT,
    "grouped": Capability.GROUPED,
    "informed": Capability.INFORMED,
    "of_moments": Capability.OF_MOMENTS,
    "optimistic": Capability.OPTIMISTIC,
    "separable": Capability.SEPARABLE,
    "constrained": Capability.CONSTRAINED,
    "proves": Capability.PROVES,
    "by_group": Capability.BY_GROUP,
}
NEEDED_BEFORE = {
    "needs_physics": Capability.EQUATION,
    "exact_only": Capability.EXACT,
    "grouped_only": Capability.GROUPED,
    "informed_only": Capability.INFORMED,
    "of_moments_only": Capability.OF_MOMENTS,
    "optimism_only": Capability.OPTIMISTIC,
    "scaled_only": Capability.SCALED,
    "box_only": Capability.BOX,
}


@dataclass(frozen=True)
class Word:
    """A word that says by its option what it needs."""

    needs: bool = False
    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.PROVES})

    @property
    def requires(self) -> frozenset[Capability]:
        """By its option."""
        return frozenset({Capability.EXACT}) if self.needs else frozenset()


def test_a_word_says_what_it_has_and_needs_by_its_class_or_by_its_options():
    assert provided(Word()) == {Capability.PROVES}
    assert (required(Word()), required(Word(needs=True))) == (frozenset(), {Capability.EXACT})
    assert Capability.INFORMED in required(Bound(beta="gamma")) and not required(Bound())


def test_a_word_that_says_nothing_has_and_needs_nothing():
    assert not provided(object()) and not required(object()) and not provided(None) and not required(None)


@pytest.mark.parametrize(
    ("ask", "flag", "meant"),
    [*((provided, *each) for each in BEFORE.items()), *((required, *each) for each in NEEDED_BEFORE.items())],
)
def test_a_flag_of_a_class_from_before_is_understood(ask, flag, meant):
    assert ask(type("Older", (), {flag: True})()) == {meant}
    assert ask(type("Older", (), {flag: property(lambda self: True)})()) == {meant}
    assert not ask(type("Older", (), {flag: False})())


def test_a_method_that_bears_the_name_of_a_flag_is_none():
    assert Capability.CONSTRAINED not in provided(Bound())


@pytest.mark.parametrize(("scale", "scaled"), [("log", True), ("positive", True), ("free", False)])
def test_a_score_is_scaled_as_its_acquisition_says(scale, scaled):
    acquisition = type("Acquisition", (), {"scale": scale})()
    assert scale_of(acquisition) == scale and (Capability.SCALED in provided(acquisition)) == scaled


def test_the_words_that_come_with_the_package_name_capabilities_alone():
    for word in (ExactGP(), PKMIQP(), Bound(), Word()):
        require_known(word)


def test_a_capability_that_there_is_not_is_told():
    with pytest.raises(
        ValueError,
        match=r"^requires names 'exatc', which is no capability: name equation, emulator, earlier, levels, fields",
    ):
        require_known(type("Mistyped", (), {"requires": {"exatc"}})())
