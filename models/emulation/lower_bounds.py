"""Lower bounds of a compliance for one design and for all designs of a polytope.

With a stiffness s+ = sum_q t_q(d) f_q >= s that is convex in the design (``Majorant``) and any field v,

    g_v(d) = 2 b . v - sum_q t_q(d) v^T A_q v <= 2 b . v - v^T A(d) v <= J(d),   A_q = B^T diag(f_q) B,

is concave in d, so that its least value in a polytope is at a corner. Two fields of the basis are tried: the best for
the design in the middle, whose bound misses what is quadratic in the size of the polytope, and the best for the
largest of every term over the corners, which is better for large polytopes. Both need only the matrices V^T A_q V.
"""

from dataclasses import dataclass

import numpy as np

from fieldcraft.models.emulation.galerkin import Projection
from fieldcraft.models.observations import Array
from fieldcraft.physics.parametric.discrete import DiscreteSystem


@dataclass(frozen=True, eq=False)
class LowerBounds:
    """Bounds of one projection.

    Args:
        matrices: V^T A_q V, shape (Q, K, K).
        right: V^T b, shape (K,).
    """

    matrices: Array
    right: Array

    @classmethod
    def of(cls, projection: Projection, system: DiscreteSystem) -> "LowerBounds":
        """The bounds of a projection of equations that state a stiffness above theirs."""
        assert system.above is not None  # else nothing is proven
        strained = projection.strained
        found = [(strained.T * shape) @ strained for shape in system.above.shapes]
        return cls(np.array(found), system.loads[0] @ projection.basis)

    def values(self, terms: Array) -> Array:
        """Lower bounds of the compliance of designs with terms (m, Q), shape (m,)."""
        fields = self._best(terms)
        return np.asarray(2 * fields @ self.right - np.einsum("mq,mq->m", terms, self._energies(fields)))

    def over(self, terms: Array, corners: Array, kept: Array) -> Array:
        """Lower bounds for the polytopes whose corners have terms (m, v, Q) where ``kept`` (m, v), shape (m,).

        That of a polytope without corners is infinite.

        Args:
            terms: Terms (m, Q) of a design in the middle of each.
            corners: Terms of the points among which the corners are.
            kept: True for those that are.
        """
        some = kept.any(axis=1, keepdims=True)
        largest = np.where(some, np.where(kept[..., None], corners, -np.inf).max(axis=1), terms)
        return np.maximum(*(self._least(self._best(at), corners, kept) for at in (terms, largest)))

    def _best(self, terms: Array) -> Array:
        """Coefficients (m, K) of the fields of largest potential for designs with terms (m, Q)."""
        k = len(self.right)
        matrices = (terms @ self.matrices.reshape(-1, k * k)).reshape(-1, k, k)
        return np.asarray(np.linalg.solve(matrices, np.broadcast_to(self.right, (len(terms), k))[..., None])[..., 0])

    def _energies(self, fields: Array) -> Array:
        """c^T V^T A_q V c of coefficients c (m, K), shape (m, Q)."""
        m, k = fields.shape
        pairs = (fields[:, :, None] * fields[:, None, :]).reshape(m, k * k)
        return np.asarray(pairs @ self.matrices.reshape(-1, k * k).T)

    def _least(self, fields: Array, corners: Array, kept: Array) -> Array:
        """Least g_v at the corners, shape (m,)."""
        values = 2 * (fields @ self.right)[:, None] - np.einsum("mvq,mq->mv", corners, self._energies(fields))
        return np.asarray(np.where(kept, values, np.inf).min(axis=1))
