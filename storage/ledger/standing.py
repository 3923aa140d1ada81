"""Parts of a trial's results that were not withdrawn, and standard deviations that its results state."""

from collections.abc import Sequence

from fieldcraft.storage.records import Result


def standing_parts(results: Sequence[Result], attempt: int) -> tuple[Result, ...]:
    """The parts of an attempt's result that were not withdrawn, from a trial's results, oldest first."""
    parts = [result for result in results if result.verdict == "partial" and result.attempt == attempt]
    withdrawn = max((number for number, part in enumerate(parts, 1) if part.withdraws), default=0)
    return tuple(parts[withdrawn:])


def known_sds(results: Sequence[Result], attempt: int) -> dict[str, float]:
    """Standard deviations of an attempt's outputs: those of its last accepted result and of additions to it."""
    known: dict[str, float] = {}
    for result in results:
        if result.attempt == attempt and result.verdict in ("accepted", "duplicate"):
            known |= result.details.get("sd", {})
    return known
