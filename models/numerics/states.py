"""Several states in one, each under its own prefix."""

from collections.abc import Mapping

from torch import Tensor


def part(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Entries of a state under a prefix, with the prefix removed."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def named(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state with a prefix before each name."""
    return {prefix + name: value for name, value in state.items()}
