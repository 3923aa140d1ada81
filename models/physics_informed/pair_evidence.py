"""Evidence of the joint process of a stationary covariance whose terms are few, with its gradient in closed form.

With t_p = s_p^2 for the input scales s_p, all that a covariance of two functionals, (c, b, A) at x and (c', b', A') at
x', is made of (see ``operator_kernels``) is a polynomial in t whose coefficients depend on the two rows alone. With
rho = x - x', all of them unscaled,

    r^2 = sum t_p rho_p^2,    l = sum t_p (A_pp + b_p rho_p),    m = sum t_p (A'_pp - b'_p rho_p),
    s = sum t_p t_q A_pq rho_p rho_q,    s' the same of A',    u = sum t_p t_q t_r rho_p A_pq A'_qr rho_r,
    e = sum t_p (l_p c' + c m_p - b_p b'_p),
    f = c' s + c s' + 2 sum t_p t_q (b_p A'_pq rho_q - b'_p A_pq rho_q + A_pq A'_pq),

and the covariance is c c' D0 + e D1 + (f + l m) D2 + (l s' + s m + 4 u) D3 + s s' D4. The coefficients are laid out
once for all pairs of rows; a value is then a product of each with the monomials of t, and a gradient the same product
backwards, since dD_j/d(r^2) = D_(j+1)/2. For rbf, where D_(j+1) = -D_j, three polynomials are left of the seven:

    covariance = D0 ((c c' - e + f - 4 u) + (l - s) (m - s')),    d covariance / d(r^2) = -covariance / 2.

With facts z, results y, S_zz = L L^T, B = S_zz^-1 S_zy, a = S_zz^-1 z, C = S_yy - S_yz B, alpha = C^-1 (y - S_yz a) and
G = (alpha alpha^T - C^-1) / 2, the derivatives of log p(y | z) by S_yy, S_zy and S_zz are G, a alpha^T - 2 B G and
B G B^T - B alpha a^T. Where the rows e of equations, the first of z, are larger than expected, e^T S_ee^-1 e > r, half
of the difference is taken off: its derivative by S_ee is that of -(e^T S_ee^-1 e) / 2, S_ee^-1 e e^T S_ee^-1 / 2.
"""

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import torch
from torch import Tensor

from fieldcraft.models.equations.functionals import Functionals, JointRows
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.physics_informed.joint_process import EXACT, Hyper
from fieldcraft.models.physics_informed.operator_kernels import Kernel, Stationary, radial

# Variables up to which the coefficients take less memory than automatic differentiation whatever the rows are. Without
# mixed derivatives there are at most eight for each variable, and they always do.
_MOST_VARIABLES = 3

_NAMES = ("squares", "l", "m", "e", "s", "s_right", "f", "u")
# The three of rbf, as sums of those with factors.
_OF_BELL = {
    "left": {"l": 1.0, "s": -1.0},
    "right": {"m": 1.0, "s_right": -1.0},
    "rest": {"e": -1.0, "f": 1.0, "u": -4.0},
}
Terms = Mapping[tuple[int, ...], Tensor]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Covariances of all pairs i <= j of N functionals of one field, as a function of its input scales.

    Args:
        kind: Kind of covariance.
        level: Variance of the constant beside it.
        constant: c c', shape (P,).
        coefficients: Of each polynomial that has any, shape (k, P).
        powers: Exponents of the scales in its monomials, shape (k, d).
    """

    kind: Kernel
    level: float
    constant: Tensor
    coefficients: Mapping[str, Tensor]
    powers: Mapping[str, Tensor]

    @classmethod
    def of(cls, kind: Kernel, a: Functionals, level: float) -> "Pairs":
        """The pairs of these functionals with each other."""
        left, right = torch.triu_indices(len(a), len(a)).unbind()
        found, d = {name: _told(terms) for name, terms in _terms(a, left, right).items()}, a.points.shape[1]
        if kind == "rbf":
            found = {"squares": found["squares"], **{name: _sum(found, parts) for name, parts in _OF_BELL.items()}}
        powers = {name: _powers(list(terms), d) for name, terms in found.items() if terms}
        planes = {name: torch.stack(list(terms.values())) for name, terms in found.items() if terms}
        return cls(kind, level, a.zeroth[left] * a.zeroth[right], planes, powers)

    def at(self, log_scales: Tensor) -> "Values":
        """The covariances at the logarithms of the scales (d,)."""
        monomials = {name: (powers @ log_scales).exp() for name, powers in self.powers.items()}
        zero, names = torch.zeros_like(self.constant), ("squares", *_OF_BELL) if self.kind == "rbf" else _NAMES
        parts = {name: monomials[name] @ self.coefficients[name] if name in monomials else zero for name in names}
        return (_OfBell if self.kind == "rbf" else _OfMatern)(self, monomials, parts)


@dataclass(frozen=True, eq=False)
class Values(ABC):
    """The covariances at certain scales.

    Args:
        pairs: Of which rows.
        monomials: Monomials of each polynomial, shape (k,).
        parts: The polynomials by name, shape (P,) each.
    """

    pairs: Pairs
    monomials: Mapping[str, Tensor]
    parts: Mapping[str, Tensor]

    @property
    @abstractmethod
    def covariance(self) -> Tensor:
        """Shape (P,)."""

    @abstractmethod
    def _slopes(self, weights: Tensor) -> Mapping[str, Tensor]:
        """Derivatives of the covariances by each polynomial, times ``weights`` (P,)."""

    def back(self, weights: Tensor) -> Tensor:
        """Derivatives of the sum of the covariances times ``weights`` (P,) by the log scales, shape (d,)."""
        by, pairs = self._slopes(weights), self.pairs
        each = [
            (pairs.coefficients[name] @ by[name] * own) @ pairs.powers[name] for name, own in self.monomials.items()
        ]
        return torch.stack(each).sum(0)


class _OfBell(Values):
    """Those of rbf."""

    @cached_property
    def covariance(self) -> Tensor:
        return self._around + self.pairs.level * self.pairs.constant

    @cached_property
    def _around(self) -> Tensor:
        at = self.parts
        return (self.pairs.constant + at["rest"] + at["left"] * at["right"]) * self._bell

    def _slopes(self, weights: Tensor) -> Mapping[str, Tensor]:
        rest, at = weights * self._bell, self.parts
        squares = -0.5 * weights * self._around
        return {"squares": squares, "rest": rest, "left": rest * at["right"], "right": rest * at["left"]}

    @cached_property
    def _bell(self) -> Tensor:
        return radial("rbf", self.parts["squares"])[0]


class _OfMatern(Values):
    """Those of Matern-5/2."""

    @cached_property
    def covariance(self) -> Tensor:
        return self._by_radial(self._radial) + self.pairs.level * self.pairs.constant

    @cached_property
    def _radial(self) -> tuple[Tensor, ...]:
        """D_0 to D_4, shape (P,) each."""
        return radial("matern52", self.parts["squares"])

    def _slopes(self, weights: Tensor) -> Mapping[str, Tensor]:
        D, at = self._radial, self.parts
        by = {
            "squares": 0.5 * self._by_radial((*D[1:], self._fifth)),
            "l": at["m"] * D[2] + at["s_right"] * D[3],
            "m": at["l"] * D[2] + at["s"] * D[3],
            "e": D[1],
            "s": at["m"] * D[3] + at["s_right"] * D[4],
            "s_right": at["l"] * D[3] + at["s"] * D[4],
            "f": D[2],
            "u": 4 * D[3],
        }
        return {name: weights * own for name, own in by.items()}

    def _by_radial(self, D: tuple[Tensor, ...]) -> Tensor:
        one, other, e, s, s_right, f, u = (self.parts[name] for name in _NAMES[1:])
        found = self.pairs.constant * D[0] + e * D[1] + (f + one * other) * D[2]
        return found + (one * s_right + s * other + 4 * u) * D[3] + s * s_right * D[4]

    @property
    def _fifth(self) -> Tensor:
        """D_5, shape (P,)."""
        # D_4 = k (1 + z) exp(-z) / r^3 with z = sqrt(5) r, and D_5 is its derivative by r over r.
        z = (5 * self.parts["squares"]).clamp_min(5e-24).sqrt()
        return -self._radial[4] * (z * z + 3 * z + 3) / ((1 + z) * z * z / 5)


@dataclass(frozen=True, eq=False)
class PairEvidence:
    """log p(y | u) of the results given the rows of equations and known sides, and its gradient.

    Args:
        fields: Pairs of each field's functionals.
        rows: Equations, known sides and results.
    """

    fields: tuple[Pairs, ...]
    rows: JointRows

    @staticmethod
    def suits(rows: JointRows) -> bool:
        """True if it takes less memory than automatic differentiation: few variables, or no mixed derivatives."""
        d = rows.fields[0].points.shape[1]
        return d <= _MOST_VARIABLES or all(_unmixed(field) for field in rows.fields)

    @classmethod
    def of(cls, covariances: tuple[Stationary, ...], rows: JointRows) -> "PairEvidence":
        """The evidence of fields with these covariances."""
        pairs = (Pairs.of(each.kind, of, each.level) for each, of in zip(covariances, rows.fields, strict=True))
        return cls(tuple(pairs), rows)

    def __call__(self, hyper: Hyper) -> tuple[float, Hyper]:
        """The value, and its derivative by each hyper-parameter.

        Raises:
            ValueError: the covariance is not positive definite to rounding.
        """
        variances = (2 * hyper.sds).exp()
        values = [pairs.at(scales) for pairs, scales in zip(self.fields, hyper.scales, strict=True)]
        each = torch.stack([variance * found.covariance for variance, found in zip(variances, values, strict=True)])
        value, weights, noise, slack = self._weighed(each.sum(0), hyper)
        by_scales = [variance * found.back(weights) for variance, found in zip(variances, values, strict=True)]
        return value, Hyper(torch.stack(by_scales), 2 * each @ weights, noise, slack)

    def _weighed(self, covariance: Tensor, hyper: Hyper) -> tuple[float, Tensor, Tensor, Tensor]:
        """log p, its derivative by each pair's covariance (P,), and by the logarithms of noise and slack."""
        size, facts, equations = len(self.rows), self.rows.facts, self.rows.equations
        # Above the diagonal; its transpose is what a factorisation reads.
        S = torch.zeros(size, size, dtype=covariance.dtype)
        S.view(-1).index_copy_(0, self._places, covariance)
        share, noise = hyper.slack.exp(), hyper.noise.exp()
        slack = share * S.diagonal()[:equations].mean()
        exact = EXACT * S.diagonal()[equations:facts]
        factor = Factor.of(S[:facts, :facts].mT, torch.cat([slack.expand(equations), exact]))
        across, known, read = S[:facts, facts:], self.rows.targets[:facts], self.rows.targets[facts:]
        solved = factor.solve(torch.cat([across, known[:, None]], dim=1))
        B, a = solved[:, :-1], solved[:, -1]
        inner = Factor.of(S[facts:, facts:].mT - across.mT @ B, float(noise))
        left = read - across.mT @ a
        alpha = inner.solve(left)
        G = 0.5 * (torch.outer(alpha, alpha) - torch.cholesky_inverse(inner.lower))
        stated = known[:equations]
        doubted = torch.cholesky_solve(stated[:, None], factor.lower[:equations, :equations])[:, 0]
        excess = max(float(stated @ doubted) - equations, 0.0)
        value = -0.5 * (left @ alpha + float(inner.logdet()) + len(read) * math.log(2 * math.pi) + excess)
        # 2 B G B^T - B alpha a^T - a alpha^T B^T as one product.
        pulled, carried = 2 * B @ G, torch.stack([B @ alpha, a], dim=1)
        W = torch.zeros_like(S)
        torch.mm(torch.cat([pulled, -carried], dim=1), torch.cat([B, carried.flip(1)], dim=1).mT, out=W[:facts, :facts])
        if excess > 0:
            W[:equations, :equations] += torch.outer(doubted, doubted)
        W[:facts, facts:] = torch.outer(a, alpha) - pulled
        W[facts:, facts:] = 2 * G
        # A covariance off the diagonal counts twice, and twice is what W has.
        W.diagonal().mul_(0.5)
        by_slack = W.diagonal()[:equations].sum()
        W.diagonal()[equations:facts] *= 1 + EXACT
        W.diagonal()[:equations] += share * by_slack / equations
        return float(value), W.view(-1).index_select(0, self._places), noise * G.trace(), slack * by_slack

    @cached_property
    def _places(self) -> Tensor:
        """Places of the pairs in a matrix, row by row."""
        left, right = torch.triu_indices(len(self.rows), len(self.rows)).unbind()
        return left * len(self.rows) + right


def _unmixed(a: Functionals) -> bool:
    return a.second is None or not bool((a.second - a.second.diagonal(dim1=-2, dim2=-1).diag_embed()).any())


def _terms(a: Functionals, left: Tensor, right: Tensor) -> dict[str, Terms]:
    """Coefficients (P,) of the monomials of each polynomial, by the numbers of their scales in order."""
    rho = (a.points[left] - a.points[right]).unbind(1)
    (c, other_c), d = (a.zeroth[left], a.zeroth[right]), len(rho)
    (b, other_b) = (a.slopes[rows].unbind(1) for rows in (left, right))
    # Without mixed derivatives only d pairs of variables occur.
    occurring = [(int(p), int(q)) for p, q in a.bends.any(dim=0).nonzero()]
    (A, other_A) = (
        {(p, q): a.bends[:, p, q][rows] for p, q in {*occurring, *((p, p) for p in range(d))}} for rows in (left, right)
    )
    found: dict[str, defaultdict[tuple[int, ...], Tensor]] = {
        name: defaultdict(lambda: torch.zeros_like(c)) for name in _NAMES
    }
    for p in range(d):
        here, there = A[p, p] + b[p] * rho[p], other_A[p, p] - other_b[p] * rho[p]
        found["squares"][p,], found["l"][p,], found["m"][p,] = rho[p].square(), here, there
        found["e"][p,] = here * other_c + c * there - b[p] * other_b[p]
    for p, q in occurring:
        at, along = (min(p, q), max(p, q)), rho[p] * rho[q]
        found["s"][at] += A[p, q] * along
        found["s_right"][at] += other_A[p, q] * along
        crossed = b[p] * other_A[p, q] * rho[q] - other_b[p] * A[p, q] * rho[q] + A[p, q] * other_A[p, q]
        found["f"][at] += other_c * A[p, q] * along + c * other_A[p, q] * along + 2 * crossed
    for (p, q), (middle, r) in product(occurring, repeat=2):
        if q == middle:
            one, two, three = sorted((p, q, r))
            found["u"][one, two, three] += rho[p] * A[p, q] * other_A[q, r] * rho[r]
    return dict(found)


def _sum(terms: Mapping[str, Terms], factors: Mapping[str, float]) -> Terms:
    """The sum of some polynomials with factors; no two of them have a monomial in common."""
    return {at: factor * plane for name, factor in factors.items() for at, plane in terms[name].items()}


def _told(terms: Terms) -> Terms:
    """The terms that are not zero in all pairs."""
    return {at: plane for at, plane in terms.items() if bool(plane.any())}


def _powers(terms: list[tuple[int, ...]], d: int) -> Tensor:
    """Exponents of the scales in monomials of their squares, shape (k, d)."""
    return torch.tensor([[2.0 * at.count(p) for p in range(d)] for at in terms], dtype=torch.float64)
