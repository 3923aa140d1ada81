"""Cheap predictions of the outputs of a design, and the readings that calibrate them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fieldcraft.models.data.arrays import Array
from fieldcraft.models.snapshots import Calibration


@dataclass(frozen=True, eq=False)
class Emulator:
    """A cheap prediction of one output of a design, such as that of a coarse mesh; it may be wrong.

    Args:
        predict: Function from encoded designs X (n, d) to the output in its unit, shape (n,), each by itself. Raises
            ValueError if there is no finite prediction for one of them.
        measured: Function that measures ``jitter``; None if the predictions have none.
        stepped: True for the coordinates (d,) of whole numbers and choices, where a small step changes no prediction;
            None where there are none.
    """

    predict: Callable[[Array], Array]
    measured: Callable[[], float] | None = None
    stepped: NDArray[np.bool_] | None = None

    @cached_property
    def jitter(self) -> float:
        """Standard deviation, in the output's unit, of an error that changes from design to design without order.

        A maximum over the cells of a coarse mesh has such an error.
        """
        return 0.0 if self.measured is None else self.measured()


@dataclass(frozen=True, eq=False)
class SparseFields:
    """Readings of the trials' fields at single places, which calibrate an emulator's coefficients.

    Args:
        X: Encoded designs of the n trials that left readings, shape (n, d).
        calibration: The coefficients, and these readings, shape (n, fields, places), with as many places for each trial
            as the one with the most has.
        emulators: Function from values of the coefficients to the emulators of all outputs.
        digests: Digest of each trial's readings, n.
        output: Number of the output that is learnt.
    """

    X: Array
    calibration: Calibration
    emulators: Callable[[Sequence[float]], tuple[Emulator, ...]]
    digests: tuple[str, ...]
    output: int = 0

    def emulator(self, values: Array) -> Emulator:
        """The emulator of the output for values (k,) of the coefficients."""
        return self.emulators(values.tolist())[self.output]

    @property
    def remark(self) -> str:
        """Numbers of readings and of trials that left them."""
        return f"{np.isfinite(self.calibration.values).sum()} at single places, of {len(self.X)} trials"
