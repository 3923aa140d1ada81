"""Outcome of a run of a campaign."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ran:
    """Outcome of a run.

    Args:
        name: Campaign.
        reason: Reason why it ended.
        anew: True if the run did anything; False for a campaign that had ended before.
        seconds: Wall time of this command.
    """

    name: str
    reason: str
    anew: bool
    seconds: float
