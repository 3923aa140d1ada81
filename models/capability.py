"""Capabilities: properties that the parts of an algorithm provide to each other and require of each other."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, Protocol, runtime_checkable

from fieldcraft.physics.space import SearchSpace

Scale = Literal["log", "positive", "free"]
"""Whether a score is the logarithm of something positive, something positive itself, or neither."""


class Capability(StrEnum):
    """A property that one part of an algorithm, its problem or its space has and that another part may require.

    A class states its properties in ``provides: ClassVar[frozenset[Capability]]`` and its needs in ``requires``. Each
    is a property if it depends on options, and is left out if it is empty. A campaign in which a need is not met is
    refused before it begins (``flows.wiring.compatibility``).
    """

    EQUATION = "equation"
    """An equation for the objective, without which a surrogate cannot be fitted; of the problem."""
    EMULATOR = "emulator"
    """A cheap prediction of the outputs of any design; of the problem."""
    EARLIER = "earlier"
    """Results of an earlier campaign on the same variables; of a campaign."""
    LEVELS = "levels"
    """Coarser levels of the simulator; of a campaign, and of what learns from them."""
    FIELDS = "fields"
    """Fields of every design, from which the outputs are read; of the problem."""
    EXACT = "exact"
    """Posteriors that are exact Gaussian processes; of a surrogate."""
    GROUPED = "grouped"
    """Posteriors that are sums over groups of variables, and ``columns(space)``, the groups; of a surrogate."""
    INFORMED = "informed"
    """Posteriors that know their information gain; of a surrogate."""
    OF_MOMENTS = "of_moments"
    """A score that is a function of mean and standard deviation (``MomentScore``); of an acquisition."""
    OPTIMISTIC = "optimistic"
    """A score of moments that is b sd - mean; of an acquisition."""
    SEPARABLE = "separable"
    """A score that is a sum over groups of variables (``SeparableScore``); of an acquisition."""
    SCALED = "scaled"
    """A score that is positive or a logarithm; of an acquisition, which says so by its ``scale``."""
    CONSTRAINED = "constrained"
    """Unknown constraints are kept to by itself; of an acquisition or a rival."""
    COMPOSITE = "composite"
    """An objective computed from several outputs is scored through beliefs about these; of an acquisition."""
    SEVERAL = "several"
    """Several objectives, weighed against each other; of an acquisition or a rival, and of a problem that has them."""
    PROVES = "proves"
    """A bound of the score itself, and not of an approximation to it; of a maximizer."""
    BOUNDS_REGRET = "bounds_regret"
    """Posteriors that bound a compliance from below where the problem states its discrete equations; of a surrogate."""
    BY_GROUP = "by_group"
    """The ``SeparableScore`` of a grouped surrogate is searched group by group; of a maximizer."""
    BOX = "box"
    """No known constraints; of a space."""


@runtime_checkable
class TakesSomeSpaces(Protocol):
    """A maximizer or a rival that cannot search every space; campaigns with another are refused before they begin."""

    def refuse_space(self, space: SearchSpace) -> None:
        """Accept a space that it can search.

        Raises:
            ValueError: it cannot search the space; states the reason.
        """
        ...


# Flags that classes from before there were capabilities declare true instead; ``constrained`` of a rule is a method.
_NEVER_FLAGS = (
    Capability.EQUATION,
    Capability.EMULATOR,
    Capability.EARLIER,
    Capability.LEVELS,
    Capability.FIELDS,
    Capability.SCALED,
    Capability.SEVERAL,
    Capability.COMPOSITE,
    Capability.BOX,
)
_PROVIDED_BEFORE = {each.value: each for each in Capability if each not in _NEVER_FLAGS}
_REQUIRED_BEFORE = {
    "needs_physics": Capability.EQUATION,
    "exact_only": Capability.EXACT,
    "grouped_only": Capability.GROUPED,
    "informed_only": Capability.INFORMED,
    "of_moments_only": Capability.OF_MOMENTS,
    "optimism_only": Capability.OPTIMISTIC,
    "scaled_only": Capability.SCALED,
    "box_only": Capability.BOX,
}


def require_known(word: object) -> None:
    """Accept a part of an algorithm that names only known capabilities.

    Raises:
        ValueError: it names an unknown one; lists the known ones.
    """
    for attribute in ("provides", "requires"):
        if unknown := [each for each in getattr(word, attribute, ()) if each not in frozenset(Capability)]:
            raise ValueError(f"{attribute} names {unknown[0]!r}, which is no capability: name {', '.join(Capability)}")


def provided(word: object) -> frozenset[Capability]:
    """Capabilities that a part of an algorithm has; none if it states none, and none for None."""
    scaled = frozenset({Capability.SCALED}) if scale_of(word) != "free" else frozenset()
    return _stated(word, "provides", _PROVIDED_BEFORE) | scaled


def required(word: object) -> frozenset[Capability]:
    """Capabilities that a part of an algorithm needs of others; none if it states none, and none for None."""
    return _stated(word, "requires", _REQUIRED_BEFORE)


def scale_of(word: object) -> Scale:
    """Kind of an acquisition's score; "free" if it states none."""
    scale: Scale = getattr(word, "scale", "free")
    return scale


def _stated(word: object, attribute: str, before: Mapping[str, Capability]) -> frozenset[Capability]:
    stated = getattr(word, attribute, ())
    flagged = {each for flag, each in before.items() if getattr(word, flag, False) is True}
    return frozenset(map(Capability, stated)) | flagged
