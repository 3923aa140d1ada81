"""Fields that the runs of a campaign left, for surrogates that learn from more than the outputs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.parametric.discrete import DiscreteSystem
from fieldcraft.physics.parametric.statement import UncertainCoefficient

Array = NDArray[np.float64]
Discrete = Callable[[Array], DiscreteSystem]
"""Function from encoded designs (k, d) to their discrete equations."""
Predict = Callable[[Array], Array]
"""Function from encoded designs (k, d) to fields (k, fields, cells)."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """Coefficients of an emulator that the fields of trials may calibrate.

    Args:
        coefficients: The k coefficients, with their ranges and stated values.
        values: Fields of the n trials on the emulator's own grid or a coarser one, shape (n, fields, cells).
        solve: Function from values (k,) of the coefficients to the emulator's fields on that grid.
        predict: Function from values (k,) of the coefficients to the emulator's fields on the grid of the snapshots.
    """

    coefficients: tuple[UncertainCoefficient, ...]
    values: Array
    solve: Callable[[Array], Predict]
    predict: Callable[[Array], Predict]


@dataclass(frozen=True, eq=False)
class Snapshots:
    """The fields of each trial on one grid, the fields that an emulator gives there, and how an output is read.

    Args:
        values: Fields of the n trials, in their units, shape (n, fields, cells).
        digests: Digest of each trial's stored field, n.
        predict: Function from encoded designs (k, d) to the emulator's fields on the same cells, (k, fields, cells).
        read: Function from fields (k, fields, cells) and encoded designs (k, d) to all outputs, (k, outputs).
        output: Number of the output that is learnt.
        calibration: Coefficients of the emulator that these fields may calibrate; None if it has none.
        residuals: Function from fields (k, fields, cells), encoded designs (k, d), and values of the coefficients or
            None for the stated ones, to the largest share that each leaves of a stated equation, (k,); None where no
            equation is stated or the cells are too few.
        names: Names of the fields; empty if they are not needed.
        discrete: The equations that the simulator solves on these cells; None where none are stated.
        terms: Function from encoded designs (k, d) to the terms (k, Q) of a convex stiffness above that of these
            equations (``Majorant``); None where none is stated.
    """

    values: Array
    digests: tuple[str, ...]
    predict: Predict
    read: Callable[[Array, Array], Array]
    output: int = 0
    calibration: Calibration | None = None
    residuals: Callable[[Array, Array, Array | None], Array] | None = None
    names: tuple[str, ...] = ()
    discrete: Discrete | None = None
    terms: Callable[[Array], Array] | None = None

    def outputs(self, fields: Array, X: Array) -> Array:
        """The output of fields (k, fields, cells) of encoded designs X (k, d), in its unit, shape (k,)."""
        return self.read(fields, X)[:, self.output]
