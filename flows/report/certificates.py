"""Section on proofs: how far each design's acquisition can be from the best of the space."""

from collections import Counter
from collections.abc import Sequence

from fieldcraft.flows.charts.chart import labelled
from fieldcraft.flows.charts.evidence import bounds as bounds_chart
from fieldcraft.flows.charts.evidence import gains, gaps
from fieldcraft.flows.report.answers import number
from fieldcraft.flows.report.markup import Content, Markup, chart, element, facts, note, row, section, table
from fieldcraft.flows.report.material import Material
from fieldcraft.flows.views.data import quantity
from fieldcraft.storage.records import CertificateRecord, Trial

_ENDED = {
    "optimal": "gap closed",
    "node_limit": "limit of nodes",
    "time_limit": "limit of time",
    "numerical": "rounding",
}


def certificate_section(material: Material) -> Markup | None:
    """Gap by iteration, share certified and how the searches ended; None without certificates."""
    proven = [(trial, trial.origin.certificate) for trial in material.trials if trial.origin.certificate is not None]
    if not proven:
        return None
    approximate = any(certificate.bound_of == "approximate" for _, certificate in proven)
    caption = "Gap: how much better than the design's the acquisition can be anywhere, in its own units."
    if any(certificate.improvement is not None for _, certificate in proven):
        caption += " Left to be gained: by how much any design can be expected to improve on the best believed value."
    left = gains(proven, labelled(*material.output))
    return section(
        "Proof of the proposals",
        facts(_cards(material, proven)),
        row(chart(gaps(proven)), chart(left) if left else None),
        note(caption),
        element("h3", "How the searches ended"),
        _ends([certificate for _, certificate in proven]),
        note(
            "Bounds of an approximation to the acquisition: the acquisition itself may exceed them."
            if approximate
            else "Bounds of the acquisition itself, as the model has it; they say nothing of the model being right."
        ),
    )


def regret_section(material: Material) -> Markup | None:
    """Best result and proven lower bound by iteration; None where no model bounds the objective."""
    bounds = {trial.iteration: trial.origin.regret for trial in material.trials if trial.origin.regret is not None}
    if not bounds:
        return None
    last, unit = bounds[max(bounds)], material.output[1]
    share = f"{last.regret / abs(last.best):.2%} of the best result" if last.best else "of the best result, 0"
    cards = [
        ("regret at most", quantity(float(f"{last.regret:.3g}"), unit), share),
        ("no design below", quantity(float(f"{last.lower:.6g}"), unit), f"best result {number(last.best, 6)}"),
    ]
    return section(
        "Proof of the best result",
        facts(cards),
        chart(bounds_chart(bounds, labelled(*material.output)), "No design can have less than the lower bound."),
        note("By the simulator's discrete equations, which all stored fields that the model saw satisfy to rounding."),
    )


def _cards(material: Material, proven: Sequence[tuple[Trial, CertificateRecord]]) -> list[tuple[str, str, str]]:
    proofs = [certificate for _, certificate in proven]
    latest = max(trial.iteration for trial, _ in proven)
    first = next(proof for trial, proof in proven if trial.iteration == latest)
    closed = sum(proof.status == "optimal" for proof in proofs)
    kinds = " and ".join(sorted({proof.bound_of for proof in proofs}))
    cards = [
        ("certified", f"{closed / len(proofs):.0%}", f"{closed} of {len(proofs)} searches closed their gap"),
        ("last gap", number(proofs[-1].gap, 3), "in units of the acquisition"),
        ("bounds", kinds, f"{sum(proof.nodes for proof in proofs)} nodes in all"),
    ]
    if (gain := first.improvement) is not None:
        unit = material.output[1]
        cards.append(("left to be gained", quantity(float(f"{gain:.3g}"), unit), "at most, by the last proof"))
    return cards


def _ends(proofs: Sequence[CertificateRecord]) -> Markup:
    groups = Counter((proof.status, proof.bound_of) for proof in proofs)
    rows: list[list[Content]] = []
    for (status, bound_of), count in sorted(groups.items()):
        gaps = [proof.gap for proof in proofs if (proof.status, proof.bound_of) == (status, bound_of)]
        rows.append([f"{status} ({_ENDED[status]})", bound_of, str(count), number(max(gaps), 3)])
    return table(["ended", "bound of", "searches", "largest gap"], rows, numbers=(2, 3))
