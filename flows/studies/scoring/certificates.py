"""Certificates of a study's maximizers for the designs they chose, and the time of choosing."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fieldcraft.flows.products import Acquired
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import CertificateRecord

CERTIFIED = 0.01  # in units of the score, which for ucb is a standard deviation of the results

PROOF_HEAD = ("algorithm", "iterations", "certified", "largest gap", "CPU s, median", "CPU s, 90%")

ABOUT_PROOFS = (
    f"certified: share of iterations whose design is proven to have a score within {CERTIFIED:g} of the best in the "
    "space (for ucb in standard deviations of the results), or of the best of an approximation to the score; CPU s: "
    "choosing one iteration's designs with a trained model (a rival trains within it), median and ninetieth percentile "
    "over all iterations."
)


def acquired(ledger: Ledger, campaign: str) -> list[dict[str, Any]]:
    """The iterations in which a model or a rival chose designs, in order.

    Returns:
        For each its number as ``iteration``; ``seconds`` and ``cpu_seconds`` of the choosing; ``gap``, the largest of
        its designs' certificates; and ``bound_of``, "exact" where all of these bound the score itself, else
        "approximate". Both are None where a design has no certificate.
    """
    certificates: dict[int, list[CertificateRecord | None]] = {}
    for trial in ledger.trials(campaign):
        if trial.origin.kind == "model":
            certificates.setdefault(trial.iteration, []).append(trial.origin.certificate)
    return [
        {
            "iteration": product.iteration,
            "seconds": (took := Acquired.of(product)).seconds,
            "cpu_seconds": took.cpu_seconds,
            **_proven(certificates.get(product.iteration, [])),
        }
        for product in ledger.products(campaign)
        if product.step == "acquire"
    ]


def _proven(certificates: Sequence[CertificateRecord | None]) -> dict[str, Any]:
    known = [certificate for certificate in certificates if certificate is not None]
    if not known or len(known) < len(certificates):
        return {"gap": None, "bound_of": None}
    exact = all(certificate.bound_of == "exact" for certificate in known)
    return {
        "gap": max(certificate.gap for certificate in known),
        "bound_of": "exact" if exact else "approximate",
    }


def proof_of(iterations: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Summary of an algorithm's certificates and of its time of choosing on a problem; None without iterations.

    Args:
        iterations: Iterations of ``acquired``, of all campaigns together.

    Returns:
        ``iterations``, their number; ``certified``, the share whose gap is at most ``CERTIFIED``, and
        ``largest_gap``, both None where no iteration has a certificate; ``bound_of``, the kind of the bounds;
        ``cpu_median``, ``cpu_p90`` and ``wall_p90``: median and ninetieth percentiles, in seconds, of an iteration.
    """
    if not iterations:
        return None
    gaps = [each["gap"] for each in iterations if each["gap"] is not None]
    kinds = {each["bound_of"] for each in iterations} - {None}
    cpu = [each["cpu_seconds"] for each in iterations]
    return {
        "iterations": len(iterations),
        "certified": sum(gap <= CERTIFIED for gap in gaps) / len(iterations) if gaps else None,
        "largest_gap": max(gaps, default=None),
        "bound_of": ("exact" if kinds == {"exact"} else "approximate") if kinds else None,
        "cpu_median": float(np.median(cpu)),
        "cpu_p90": float(np.percentile(cpu, 90)),
        "wall_p90": float(np.percentile([each["seconds"] for each in iterations], 90)),
    }


def proof_lines(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Lines of ``PROOF_HEAD``, one for each row of a problem's table that has a ``proof``; none without a certificate.

    Args:
        rows: Rows of a problem, each with its ``algorithm`` and its ``proof``.
    """
    told = [(row["algorithm"], row["proof"]) for row in rows if row.get("proof") is not None]
    if all(proof["certified"] is None for _, proof in told):
        return []
    return [
        [
            algorithm,
            str(proof["iterations"]),
            _share(proof),
            "" if proof["largest_gap"] is None else f"{proof['largest_gap']:.2g}",
            f"{proof['cpu_median']:.2g}",
            f"{proof['cpu_p90']:.2g}",
        ]
        for algorithm, proof in told
    ]


def _share(proof: Mapping[str, Any]) -> str:
    """The certified share in per cent; 100% only for all and 0% only for none."""
    if proof["certified"] is None:
        return ""
    share = 100 * proof["certified"]
    text = f"{share:.0f}%" if share in (0, 100) else f"{min(max(share, 0.1), 99.9):.1f}%"
    return text if proof["bound_of"] == "exact" else f"{text} of an approximation"
