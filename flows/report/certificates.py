"""Section on proofs: how far each design's acquisition can be from the best of the space."""

from collections import Counter
from collections.abc import Sequence

from fieldcraft.flows.report.markup import Content, Markup, element, facts, note, picture, section, table
from fieldcraft.flows.report.material import Material
from fieldcraft.flows.report.sections import number
from fieldcraft.flows.views.charts import ACCENT, BEST, as_data_uri, labelled, logarithmic, new_figure, whole_numbers
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
    return section(
        "Proof of the proposals",
        facts(_cards(material, proven)),
        picture(_chart(material, proven), "Gap by iteration", caption),
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
    figure = new_figure(5.6, 2.9)
    axis = figure.subplots()
    axis.plot(list(bounds), [bound.best for bound in bounds.values()], "o-", ms=4.5, color=BEST, label="best result")
    axis.plot(list(bounds), [bound.lower for bound in bounds.values()], "o-", ms=4.5, color=ACCENT, label="lower bound")
    axis.set(xlabel="iteration", ylabel=labelled(*material.output))
    axis.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    whole_numbers(axis)
    return section(
        "Proof of the best result",
        facts(cards),
        picture(as_data_uri(figure), "Lower bound by iteration", "No design can have less than the lower bound."),
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


def _chart(material: Material, proven: Sequence[tuple[Trial, CertificateRecord]]) -> str:
    """The gap and, where the bounds give it, the possible improvement, on a logarithmic axis."""
    gains = [(trial, proof) for trial, proof in proven if proof.improvement is not None and trial.slot == 0]
    figure = new_figure(9.4 if gains else 5.6, 2.9)
    axes = figure.subplots(1, 1 + bool(gains), squeeze=False)[0]
    for closed, colour, label in ((True, ACCENT, "gap closed"), (False, BEST, "ended before")):
        shown = [(trial, proof) for trial, proof in proven if (proof.status == "optimal") is closed]
        if shown:
            gaps = [proof.gap for _, proof in shown]
            axes[0].plot([trial.iteration for trial, _ in shown], gaps, "o", ms=4.5, color=colour, label=label)
    axes[0].set(xlabel="iteration", ylabel="gap")
    axes[0].set_ylim(0.0, 1.1 * max(proof.gap for _, proof in proven) or 1.0)
    axes[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    if gains:
        values = [max(proof.improvement or 0.0, 1e-12) for _, proof in gains]
        axes[1].plot([trial.iteration for trial, _ in gains], values, "o-", ms=4.5, lw=1.2, color=ACCENT)
        axes[1].set(xlabel="iteration", ylabel=labelled("left to be gained", material.output[1]))
        logarithmic(axes[1], values)
    for axis in axes:
        whole_numbers(axis)
    return as_data_uri(figure)
