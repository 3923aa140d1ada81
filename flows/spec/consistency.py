"""Consistency of the values of a campaign file, as data; values that are not given are not checked."""

from collections.abc import Iterator, Mapping
from typing import Any

from fieldcraft.flows.text import quoted


def reversed_bounds(data: Mapping[str, Any]) -> Iterator[str]:
    """Faults of bounds that are not in order."""
    space = data.get("space")
    for name, bounds in space.items() if isinstance(space, Mapping) else ():
        if isinstance(bounds, list | tuple) and len(bounds) != 2:
            yield f"space.{name}: {quoted(bounds)} is no pair of bounds. Give [low, high]."
        elif isinstance(bounds, list | tuple) and not _increasing(bounds):
            said = "leaves one value. Give" if bounds[0] == bounds[1] else "is reversed. Give"
            yield f"space.{name}: [{bounds[0]}, {bounds[1]}] {said} [low, high]."


def across(data: Mapping[str, Any], wall_time_s: float) -> Iterator[str]:
    """Faults of values that do not go together.

    Args:
        data: Content of the file.
        wall_time_s: Limit of one simulation where the file gives none.
    """
    trials, n = _at(data, "budget", "trials"), _at(data, "algorithm", "start", "n")
    whole = type(trials) is int and type(n) is int and trials >= 1 and not _at(data, "levels")
    if whole and (fault := uncovered(trials, n, n)) is not None:
        yield fault
    hours, seconds = _at(data, "budget", "wall_time_h"), _at(data, "dispatcher", "wall_time_s") or wall_time_s
    if type(hours) in (int, float) and type(seconds) in (int, float) and 0 < 3600 * hours < seconds:
        yield (
            f"budget.wall_time_h is {hours:g} h and one simulation may take dispatcher.wall_time_s of {seconds:g} s: "
            "none could be sent; raise the one or lower the other"
        )
    if _at(data, "algorithm", "maximizer", "n_starts") == 0 and _at(data, "algorithm", "named") is None:
        yield "algorithm.maximizer.n_starts: 0 improves no sample by gradients. Give at least 1, or leave it out."


def uncovered(trials: int, n: int, runs: int) -> str | None:
    """Fault of a budget with fewer trials than a start of n designs sends ``runs`` of; None where it covers them."""
    if trials >= runs:
        return None
    of_target = "" if runs == n else f", of which {runs} run the simulator as it stands"
    return (
        f"budget.trials is {trials} and algorithm.start.n is {n}{of_target}: the budget must cover the "
        "start; raise the one or lower the other"
    )


def _increasing(bounds: Any) -> bool:
    low, high = bounds
    return not (isinstance(low, int | float) and isinstance(high, int | float)) or low < high


def _at(data: Any, *path: str) -> Any:
    """Value in a place of the file; None where there is none."""
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data
