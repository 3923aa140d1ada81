"""Standard deviations that the results of a trial state."""

from collections.abc import Sequence

from fieldcraft.storage.records import Result


def known_sds(results: Sequence[Result], attempt: int) -> dict[str, float]:
    """Standard deviations of an attempt's outputs: those of its last accepted result and of additions to it."""
    known: dict[str, float] = {}
    for result in results:
        if result.attempt == attempt and result.verdict in ("accepted", "duplicate"):
            known |= result.details.get("sd", {})
    return known
