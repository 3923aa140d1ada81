"""Evidence of decisions made by programs: the scores of rival surrogates, and proofs of proposals and of the best."""

from collections.abc import Mapping, Sequence

from fieldcraft.flows.charts.chart import BLUE, COLOURS, RED, Cell, Chart, axis, line, marks, numbers, whole
from fieldcraft.flows.charts.constraints import dash
from fieldcraft.storage.records import CertificateRecord, RegretRecord, Trial


def scores(by_iteration: Mapping[int, Mapping[str, float]]) -> Chart | None:
    """Scores of the surrogates between which each model was chosen, by iteration; None where there was no choice.

    A score is the log predictive density of the results before they were seen, per choice in nats less the best one's,
    so that the chosen one lies at 0.

    Args:
        by_iteration: Scores by surrogate, by iteration.
    """
    told = {iteration: found for iteration, found in by_iteration.items() if found}
    names = sorted({name for found in told.values() for name in found})
    if not names:
        return None
    data = []
    for place, name in enumerate(names):
        at = [iteration for iteration, found in told.items() if name in found]
        behind = [told[iteration][name] - max(told[iteration].values()) for iteration in at]
        made = line(at, numbers(behind), name, COLOURS[place % len(COLOURS)], dash=dash(place))
        data.append({**made, "mode": "lines+markers"})
    layout = {"xaxis": whole(max(told), "iteration"), "yaxis": axis("score less the best one's (nats)")}
    rows: list[list[Cell]] = [[iteration, *(found.get(name) for name in names)] for iteration, found in told.items()]
    return Chart("Evidence for each surrogate", data, layout, ["iteration", *names], rows, height=300)


def gaps(proven: Sequence[tuple[Trial, CertificateRecord]]) -> Chart:
    """Gap of each search by iteration: how much better than the design's the acquisition can be anywhere."""
    data = []
    for closed, colour, name, symbol in ((True, BLUE, "gap closed", "circle"), (False, RED, "ended before", "x")):
        group = [(trial, proof) for trial, proof in proven if (proof.status == "optimal") is closed]
        if group:
            x, y = [trial.iteration for trial, _ in group], numbers([proof.gap for _, proof in group])
            data.append(marks(x, y, name, colour, [f"{t.id}: gap {p.gap:.3g}" for t, p in group], symbol=symbol))
    last = max(trial.iteration for trial, _ in proven)
    layout = {"xaxis": whole(last, "iteration"), "yaxis": axis("gap", rangemode="tozero")}
    head = ["trial", "iteration", "gap", "nodes", "ended", "bound of"]
    rows: list[list[Cell]] = [[t.id, t.iteration, p.gap, p.nodes, p.status, p.bound_of] for t, p in proven]
    return Chart("Gap by iteration", data, layout, head, rows, height=280)


def gains(proven: Sequence[tuple[Trial, CertificateRecord]], label: str) -> Chart | None:
    """Largest improvement to be expected of any design, by iteration; None where no bound gives it.

    Args:
        proven: Trials with their certificates.
        label: Label of the objective, with its unit.
    """
    found = [(t, p.improvement) for t, p in proven if p.improvement is not None and t.slot == 0]
    if not found:
        return None
    x, y = [trial.iteration for trial, _ in found], [max(gain or 0.0, 1e-12) for _, gain in found]
    data = [{**line(x, numbers(y), "left to be gained", BLUE), "mode": "lines+markers", "showlegend": False}]
    layout = {"xaxis": whole(max(x), "iteration"), "yaxis": axis(f"left to be gained: {label}", type="log")}
    return Chart(
        "Left to be gained", data, layout, ["iteration", "left to be gained"], list(zip(x, y, strict=True)), height=280
    )


def bounds(by_iteration: Mapping[int, RegretRecord], label: str) -> Chart:
    """Best result and proven lower bound by iteration.

    Args:
        by_iteration: Records of the bound, by iteration.
        label: Label of the objective, with its unit.
    """
    x = list(by_iteration)
    best, lower = (numbers([getattr(bound, name) for bound in by_iteration.values()]) for name in ("best", "lower"))
    data = [
        {**line(x, best, "best result", RED), "mode": "lines+markers"},
        {**line(x, lower, "lower bound", BLUE, dash="dash"), "mode": "lines+markers"},
    ]
    layout = {"xaxis": whole(max(x), "iteration"), "yaxis": axis(label)}
    return Chart(
        "Lower bound by iteration",
        data,
        layout,
        ["iteration", "best result", "lower bound"],
        list(zip(x, best, lower, strict=True)),
        height=300,
    )
