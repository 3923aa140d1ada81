"""Spaces in which several encoded points are one design: which words of an algorithm can take them, and who is told."""

from typing import TYPE_CHECKING

from fieldcraft.flows.errors import InputError
from fieldcraft.models.capability import Capability, required

if TYPE_CHECKING:
    from fieldcraft.flows.wiring.campaign import Campaign


def require_takes_folds(campaign: "Campaign") -> None:
    """Accept an acquisition that does not sample in the box of the encoded points, where these are not designs.

    Raises:
        InputError: it does, and something in the space is periodic, exchangeable or conditional.
    """
    reasons, acquisition = campaign.space.folds.reasons, campaign.algorithm.acquisition
    if reasons and Capability.EXACT in required(acquisition):
        part = campaign.spec.algorithm
        raise InputError(
            f"algorithm.acquisition: {part.acquisition and part.acquisition.kind!r} samples minima in a box, and "
            f"models see no box, for {'; '.join(reasons)}. Use log_ei, ucb, pi or thompson."
        )


def told(campaign: "Campaign") -> str | None:
    """Facts of the space that a rival does not know; None where there is no rival, or no such fact."""
    reasons, part = campaign.space.folds.reasons, campaign.spec.algorithm
    if not reasons or part.peer is None:
        return None
    return (
        f"the rival {part.peer.kind} is told plain numbers and choices, and does not know that {'; '.join(reasons)}. "
        "Designs that it repeats for this reason are replaced."
    )
