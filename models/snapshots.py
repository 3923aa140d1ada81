"""Fields that the runs of a campaign left, for surrogates that learn from more than the outputs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Snapshots:
    """The fields of each trial on one grid, the fields that an emulator gives there, and how an output is read.

    Args:
        values: Fields of the n trials, in their units, shape (n, fields, cells).
        digests: Digest of each trial's stored field, n.
        predict: Function from encoded designs (k, d) to the emulator's fields on the same cells, (k, fields, cells).
        read: Function from fields (k, fields, cells) and encoded designs (k, d) to all outputs, (k, outputs).
        output: Number of the output that is learnt.
    """

    values: Array
    digests: tuple[str, ...]
    predict: Callable[[Array], Array]
    read: Callable[[Array, Array], Array]
    output: int = 0

    def outputs(self, fields: Array, X: Array) -> Array:
        """The output of fields (k, fields, cells) of encoded designs X (k, d), in its unit, shape (k,)."""
        return self.read(fields, X)[:, self.output]
