"""Columns of the table that ``fieldcraft export`` writes of a campaign, and which of its rows hold a result."""

from collections.abc import Mapping

from fieldcraft.storage.records import TrialState

ABOUT = ("trial", "state", "priority", "cost", "spent", "seconds", "corrected", "feasible", "violation")
"""What is said of every trial, before its design."""
LEVEL = "level"
"""Of a campaign with levels: empty for the target."""
FRONT = "front"
"""Of several objectives."""


def no_result(cells: Mapping[str, str]) -> str | None:
    """Reason why a row holds no result that counts, by what is said of its trial; None if it may hold one."""
    if cells.get(LEVEL):
        return f"a coarser run ({cells[LEVEL]})"
    if cells.get("corrected") == "retracted":
        return "its result was retracted"
    if (state := cells.get("state", TrialState.COMPLETED)) != TrialState.COMPLETED:
        return f"it is {state}"
    return None
