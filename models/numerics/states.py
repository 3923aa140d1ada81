"""Several states in one: each under a prefix of its own."""

from collections.abc import Mapping

from torch import Tensor


def part(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """What stands under a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def named(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state to stand under a prefix."""
    return {prefix + name: value for name, value in state.items()}
