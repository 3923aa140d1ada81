"""How a run of a campaign ended."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ran:
    """How a run ended.

    Args:
        name: Campaign.
        reason: Why it ended.
        anew: Whether anything was done; False for a campaign that had ended before.
        seconds: Wall time of this command.
    """

    name: str
    reason: str
    anew: bool
    seconds: float
