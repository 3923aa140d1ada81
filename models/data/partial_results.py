"""Results of which some outputs are measured and others are still to come."""

from dataclasses import dataclass, field

import numpy as np

from fieldcraft.models.data.arrays import Array, frozen, refuse_non_finite


@dataclass(frozen=True, eq=False)
class PartialResults:
    """Results of a campaign with several objectives that give only some of the outputs.

    Each output is learnt from all results that give it. A design counts as tried, and may be on the front, once all of
    its outputs are known.

    Args:
        X: Encoded designs, shape (k, d), k >= 1.
        Y: Outputs in their units, the objectives first and then the constraints, shape (k, outputs); NaN where one is
            still to come.
        sds: Known standard deviations of the same, NaN where none is stated; empty where none is.

    Raises:
        ValueError: shapes disagree, an output is infinite, or a result gives none.
    """

    X: Array
    Y: Array
    sds: Array = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self) -> None:
        for name in ("X", "Y"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        stated = bool(np.size(self.sds)) and not np.isnan(self.sds).all()
        object.__setattr__(self, "sds", frozen(self.sds if stated else np.empty((0, 0))))
        refuse_non_finite(self.X, "PartialResults.X", "encode the designs with SearchSpace.encode.")
        fitting = self.X.ndim == self.Y.ndim == 2 and len(self.X) == len(self.Y) > 0
        if not fitting or (stated and self.sds.shape != self.Y.shape):
            raise ValueError(
                f"X {self.X.shape}, Y {self.Y.shape} and sds {self.sds.shape} of partial results do not fit: give X "
                "(k, d), Y (k, outputs) and, if any is known, sds (k, outputs), with at least one result."
            )
        if np.isinf(self.Y).any() or np.isnan(self.Y).all(axis=1).any():
            raise ValueError("A partial result is infinite, or gives no output: leave it out.")

    def require_fits(self, coordinates: int, outputs: int, *, fields: bool) -> None:
        """Accept partial results beside whole ones.

        Args:
            coordinates: Number of coordinates of a design.
            outputs: Number of objectives and constraints, where there are several objectives.
            fields: True if a surrogate learns from the fields of all results.

        Raises:
            ValueError: shapes disagree, or fields would be missing.
        """
        if self.X.shape[1] != coordinates or self.Y.shape[1] != outputs:
            raise ValueError(
                f"partial has X {self.X.shape} and Y {self.Y.shape}, and there are {coordinates} coordinates and "
                f"{outputs} outputs of several objectives: give one column for each."
            )
        if fields:
            raise ValueError("partial results leave no fields, and fields are learnt here: leave them out.")

    def after(self, X: Array, y: Array, sds: Array, k: int) -> tuple[Array, Array, Array]:
        """Whole results of output number k, followed by those here that give it: X (n, d), y (n,) and sds (n, 1).

        ``sds`` may be empty, for none; where one is known, those that are not are NaN.
        """
        rows = np.isfinite(self.Y[:, k])
        own = self.sds[rows, k : k + 1] if self.sds.size else np.full((int(rows.sum()), 1), np.nan)
        before = sds if sds.size else np.full((len(X), 1), np.nan)
        return np.vstack([X, self.X[rows]]), np.concatenate([y, self.Y[rows, k]]), np.vstack([before, own])
