"""Outputs from which an objective is computed, as arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fieldcraft.models.data.arrays import Array, frozen, refuse_non_finite
from fieldcraft.physics.outputs.output import Derivation
from fieldcraft.physics.space import Continuous, Integer


@dataclass(frozen=True, eq=False)
class Composite:
    """The k outputs, or parts, from which an objective is computed (Astudillo and Frazier, 2019).

    A part that the formula divides by, or takes a root or logarithm of, is learnt by its logarithm while all of its
    results are above zero: what is believed of it is then above zero too.

    Args:
        names: Names of the parts.
        values: Their results, shape (n, k), in their units.
        formula: Rule by which the objective is computed.
        band: Ends of the band from which the objective is the distance of the only part; equal for a target. None for
            any other formula.
        variables: Numeric variables that the formula reads, by name.
        sds: Known standard deviations of the results, shape (n, k), NaN where none is known; empty where none is.

    Raises:
        ValueError: shapes disagree, or a result is not finite.
    """

    names: tuple[str, ...]
    values: Array
    formula: Derivation
    band: tuple[float, float] | None = None
    variables: Mapping[str, Continuous | Integer] = field(default_factory=dict)
    sds: Array = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen(self.values))
        stated = bool(np.size(self.sds)) and not np.isnan(self.sds).all()
        object.__setattr__(self, "sds", frozen(self.sds if stated else np.empty((0, 0))))
        refuse_non_finite(self.values, "values", "record such a trial as failed instead.")
        if self.values.shape[1:] != (len(self.names),) or (stated and self.sds.shape != self.values.shape):
            raise ValueError(
                f"values {self.values.shape} and sds {self.sds.shape} of the parts {', '.join(self.names)} do not fit: "
                "give one column for each part."
            )

    @cached_property
    def logarithmic(self) -> tuple[bool, ...]:
        """True for each part that is learnt by its logarithm."""
        asked = [name in self.formula.kept_from_zero for name in self.names]
        return tuple(each and bool((self.values[:, k] > 0).all()) for k, each in enumerate(asked))

    def learnt(self, k: int) -> tuple[Array, Array]:
        """Results of part k as they are learnt, (n,), and their standard deviations, (n, 1) or empty.

        The standard deviation of a logarithm is sd / y, to first order in it (the delta method).
        """
        y, sds = self.values[:, k], self.sds[:, k : k + 1] if self.sds.size else self.sds
        return (np.log(y), sds / y[:, None] if sds.size else sds) if self.logarithmic[k] else (y, sds)

    def of(self, parts: Sequence[Tensor], X: Tensor, columns: Mapping[str, slice]) -> Tensor:
        """The objective of parts as they are learnt, each (..., n), at encoded points X (n, d), shape (..., n).

        Args:
            parts: Values of the parts.
            X: Encoded points.
            columns: Coordinates of each variable, by its name.
        """
        known: dict[str, Any] = {
            name: part.exp() if log else part
            for name, part, log in zip(self.names, parts, self.logarithmic, strict=True)
        }
        for name, variable in self.variables.items():
            (middle, half), u = variable.scale, X[:, columns[name].start]
            known[name] = (middle + half * u).exp() if variable.log else middle + half * u
        found: Tensor = torch.as_tensor(self.formula(known))
        return found

    def among(self, rows: NDArray[np.intp]) -> "Composite":
        """The results of these trials."""
        return replace(self, values=self.values[rows], sds=self.sds[rows] if self.sds.size else self.sds)
