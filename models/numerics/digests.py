"""Digests that tie a state to the data it was fitted to."""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

_DIGEST = "digest"


class Digested(Protocol):
    """Data that have a digest."""

    @property
    def digest(self) -> str:
        """SHA-256, in hexadecimal."""
        ...


def stamped(data: Digested) -> dict[str, Tensor]:
    """Digest of data as bytes, shape (32,), under the name that states use for it."""
    return {_DIGEST: torch.tensor(list(bytes.fromhex(data.digest)), dtype=torch.uint8)}


def refuse_other_data(data: Digested, state: Mapping[str, Tensor]) -> None:
    """Refuse a state that does not carry the digest of these data.

    Raises:
        ValueError: it carries none or another.
    """
    digest = bytes(state[_DIGEST].tolist()).hex() if _DIGEST in state else "none"
    if digest != data.digest:
        raise ValueError(
            f"The state is of data with digest {digest[:12]} and these data have {data.digest[:12]}: "
            "restore with the data of the fit, or fit again."
        )
