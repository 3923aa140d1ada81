"""Laplace's approximation of a latent Gaussian process observed by signs (Rasmussen and Williams, 2006, section 3.4).

With signs y_i = +1 or -1, p(y_i | f_i) = Phi(y_i f_i) and f ~ N(m, K), the posterior of f is approximated by
N(f^, (K^-1 + W)^-1) at its mode f^ = m + K a, where a = d log p(y | f) / df and W = -d^2 log p(y | f) / df^2, diagonal
and positive. All computations use B = I + W^1/2 K W^1/2, whose eigenvalues are at least one: K itself is never
inverted, so that repeated designs are allowed.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fieldcraft.models.linear.conditioning import Factor

# Change of f and of the weights by a Newton step after which it is the last: the next would be of its square.
_LAST = 1e-6
_STEPS = 100


def _hazard(z: Tensor) -> Tensor:
    """r(z) = phi(z) / Phi(z), to full precision in both tails."""
    hazard: Tensor = math.sqrt(2 / math.pi) / torch.special.erfcx(-z / math.sqrt(2))
    return hazard


@dataclass(frozen=True, eq=False)
class Laplace:
    """The approximation at one a, which is the mode if ``gap`` is zero.

    Args:
        signs: y, each +1 or -1, shape (n,).
        weights: a, shape (n,).
        centred: f - m = K a, shape (n,).
        latent: f, shape (n,).
        slope: d log p(y | f) / df, shape (n,).
        root: W^1/2, shape (n,).
        factor: Of B.
    """

    signs: Tensor
    weights: Tensor
    centred: Tensor
    latent: Tensor
    slope: Tensor
    root: Tensor
    factor: Factor

    @classmethod
    def at(cls, K: Tensor, constant: float, signs: Tensor, weights: Tensor) -> "Laplace":
        """Approximation at given weights, in O(n^3).

        Args:
            K: Prior covariance of the latent values, shape (n, n).
            constant: m, their prior mean.
            signs: Shape (n,).
            weights: a, shape (n,).

        Raises:
            ValueError: a number is not finite.
        """
        centred = K @ weights
        z = signs * (constant + centred)
        hazard = _hazard(z)
        root = (hazard * (hazard + z).clamp_min(0)).sqrt()
        factor = Factor.of(root[:, None] * K * root, 1.0)
        return cls(signs, weights, centred, signs * z, signs * hazard, root, factor)

    @classmethod
    def mode(cls, K: Tensor, constant: float, signs: Tensor) -> "Laplace":
        """Approximation at the mode, by Newton's method from f = m (algorithm 3.1).

        log p(y | f) is concave, so the mode is unique. Full steps converge with this likelihood: at most 15 of them
        over thousands of random cases, s up to 50.

        Args:
            K: Shape (n, n).
            constant: m.
            signs: Shape (n,).

        Raises:
            ValueError: Newton's method does not converge, or a number is not finite.
        """
        here = cls.at(K, constant, signs, torch.zeros_like(signs))
        for _ in range(_STEPS):
            step = here._newton(K)
            here = cls.at(K, constant, signs, here.weights + step)
            if float(torch.maximum(step.abs(), (K @ step).abs()).max()) <= _LAST:
                return here
        raise ValueError(
            f"The mode of {len(signs)} latent values was not found in {_STEPS} Newton steps: lower the output scale."
        )

    @property
    def gap(self) -> Tensor:
        """d log p(y | f) / df - a, shape (n,); zero at the mode."""
        return self.slope - self.weights

    def _newton(self, K: Tensor) -> Tensor:
        """Newton's step of the weights (n,): (I + W K) step = gap.

        The system is solved for the step and not for the new weights, so that rounding errors do not accumulate.
        """
        return self.gap - self.root * self.factor.solve(self.root * (K @ self.gap))

    def log_evidence(self) -> float:
        """The approximate log p(y): log p(y | f^) - 1/2 (f^ - m)^T K^-1 (f^ - m) - 1/2 log det B (eq. 3.32)."""
        joint = torch.special.log_ndtr(self.signs * self.latent).sum() - 0.5 * self.weights @ self.centred
        return float(joint - 0.5 * self.factor.logdet())

    def evidence_slope(self, K: Tensor) -> tuple[Tensor, float]:
        """Derivatives of ``log_evidence`` by K, a symmetric matrix (n, n), and by m, the mode moving along (5.5.1).

        With R = W^1/2 B^-1 W^1/2, s_i = 1/2 [(K^-1 + W)^-1]_ii d^3 log p / df_i^3 and u = (I - R K) s they are
        1/2 (a a^T - R + u a^T + a u^T) and sum(a + u).
        """
        inverse = torch.cholesky_inverse(self.factor.lower)
        z = self.signs * self.latent
        hazard = self.signs * self.slope
        # [(K^-1 + W)^-1]_ii is (1 - [B^-1]_ii) / W_ii; the third derivative over W_ii stays finite as W_ii vanishes.
        ratio = self.signs * (2 * hazard + z - 1 / (hazard + z))
        s = 0.5 * (1 - inverse.diagonal()) * ratio
        u = s - self.root * (inverse @ (self.root * (K @ s)))
        both = torch.outer(self.weights, 0.5 * self.weights + u)
        slope = 0.5 * (both + both.mT - self.root[:, None] * inverse * self.root)
        return slope, float((self.weights + u).sum())

    def predict(self, prior: Tensor, cross: Tensor) -> tuple[Tensor, Tensor]:
        """Mean, less m, and variance of the latent value at new points, both shape (c,) (algorithm 3.2).

        Args:
            prior: k(x, x), shape (c,).
            cross: k(X, x), shape (n, c).
        """
        return self.weights @ cross, self.factor.variance(prior, self.root[:, None] * cross)
