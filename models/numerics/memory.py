"""Refusal of work that is predicted to need more memory than allowed."""

_GB_PER_DOUBLE = 8e-9


def refuse_memory(doubles: float, memory_gb: float, what: str, remedy: str) -> None:
    """Refuse, before anything is allocated, work that would hold this many float64 numbers at once.

    Args:
        doubles: Predicted peak.
        memory_gb: Limit in GB (10^9 bytes).
        what: Subject of the message.
        remedy: End of the message, the alternative to raising memory_gb.

    Raises:
        ValueError: the prediction is above the limit.
    """
    needed = _GB_PER_DOUBLE * doubles
    if needed > memory_gb:
        raise ValueError(
            f"{what} needs about {needed:.2g} GB and memory_gb is {memory_gb:g}: raise memory_gb, or {remedy}."
        )
