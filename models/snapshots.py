"""Fields that the runs of a campaign left, for surrogates that learn from more than the outputs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.parametric.discrete import DiscreteSystem
from fieldcraft.physics.parametric.grid import Grid
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
        noise: Standard deviations of ``values``, in the fields' units and of their shape, NaN where one of ``values``
            does not count; None for fields without noise, each kind of which counts in units of its own spread.
    """

    coefficients: tuple[UncertainCoefficient, ...]
    values: Array
    solve: Callable[[Array], Predict]
    predict: Callable[[Array], Predict]
    noise: Array | None = None


@dataclass(frozen=True, eq=False)
class Snapshots:
    """The fields of each trial on one grid, the fields that an emulator gives there, and how an output is read.

    Args:
        values: Fields of the n trials, in their units, shape (n, fields, cells).
        digests: Digest of each trial's stored field, n.
        predict: Function from encoded designs (k, d) to the emulator's fields on the same cells, (k, fields, cells);
            None where there is no emulator of the fields.
        read: Function from fields (k, fields, cells) and encoded designs (k, d) to all outputs, (k, outputs).
        output: Number of the output that is learnt.
        calibration: Coefficients of the emulator that these fields may calibrate; None if it has none.
        residuals: Function from fields (k, fields, cells), encoded designs (k, d), and values of the coefficients or
            None for the stated ones, to the largest share that each leaves of a stated equation, (k,); None where no
            equation is stated or the cells are too few.
        shape: Cells along each axis; empty for cells in no order.
        grid: The cells and where they are; None where nobody asks.
        coarser: Function from a number of cells to these snapshots on no more than about so many, as means; None where
            the fields are not on equal cells.
        names: Names of the fields; empty where nobody asks.
        discrete: The equations that the simulator solves on these cells; None where none are stated.
        terms: Function from encoded designs (k, d) to the terms (k, Q) of a convex stiffness above that of these
            equations (``Majorant``); None where none is stated.
        stepped: As that of an ``Emulator``.
    """

    values: Array
    digests: tuple[str, ...]
    predict: Predict | None
    read: Callable[[Array, Array], Array]
    output: int = 0
    calibration: Calibration | None = None
    residuals: Callable[[Array, Array, Array | None], Array] | None = None
    shape: tuple[int, ...] = ()
    grid: Grid | None = None
    coarser: "Callable[[int], Snapshots] | None" = None
    names: tuple[str, ...] = ()
    discrete: Discrete | None = None
    terms: Callable[[Array], Array] | None = None
    stepped: NDArray[np.bool_] | None = None

    def emulated(self, X: Array) -> Array:
        """The emulator's fields at encoded designs X (k, d), (k, fields, cells); zeros (k, 1, 1) without one."""
        return np.zeros((len(X), 1, 1)) if self.predict is None else self.predict(X)

    def outputs(self, fields: Array, X: Array) -> Array:
        """The output of fields (k, fields, cells) of encoded designs X (k, d), in its unit, shape (k,)."""
        return self.read(fields, X)[:, self.output]
