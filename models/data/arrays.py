"""Arrays that data are made of: read-only, and finite."""

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def frozen(values: ArrayLike) -> Array:
    """A read-only float64 copy, so that data cannot change after their digest was taken."""
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array


def digest_of(arrays: Mapping[str, Array], of: str) -> str:
    """SHA-256, in hexadecimal, of arrays with their names and shapes.

    Args:
        arrays: The arrays, in their order.
        of: Name of the format, which is part of it.
    """
    sha = hashlib.sha256(of.encode())
    for name, array in arrays.items():
        sha.update(f"|{name}{array.shape}|".encode())
        # Adding zero turns -0.0 into 0.0: equal data must have equal digests.
        sha.update(np.ascontiguousarray(array + 0.0, dtype="<f8").tobytes())
    return sha.hexdigest()


def refuse_non_finite(array: Array, name: str, remedy: str) -> None:
    """Refuse an array that holds NaN or an infinite value.

    Raises:
        ValueError: it does; names the first such value and its index.
    """
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        place = tuple(int(i) for i in bad[0])
        raise ValueError(
            f"{name} holds {array[place]} at index {place} ({len(bad)} such values): "
            f"every value must be finite; {remedy}"
        )
