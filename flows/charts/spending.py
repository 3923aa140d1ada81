"""Time and cost by trial."""

from collections.abc import Mapping, Sequence
from typing import Any

from fieldcraft.flows.charts.chart import (
    BLUE,
    MOST,
    RED,
    Cell,
    Chart,
    axis,
    ends,
    labelled,
    level,
    line,
    numbers,
    whole,
)
from fieldcraft.flows.charts.series import Some
from fieldcraft.storage.records import CampaignRecord


def times(trials: Sequence[Some], trained: Mapping[int, float], work: str) -> Chart | None:
    """Seconds of each trial's simulation or experiment, and of the training that came before it; the latest ``MOST``.

    None where no time was told.

    Args:
        trials: The trials, by number.
        trained: Seconds of training by iteration.
        work: Word for one attempt: simulation or experiment.
    """
    if not any(trial.seconds for trial in trials) and not any(trained.values()):
        return None
    first = {trial.iteration: trial.id for trial in reversed(trials)}
    before = {first[iteration]: seconds for iteration, seconds in trained.items() if iteration in first}
    shown = trials[-MOST:]
    x, hover = [trial.number for trial in shown], [trial.id for trial in shown]
    bars = {"type": "bar", "x": x, "hovertext": hover, "hoverinfo": "text+y+name"}
    data = [
        {**bars, "y": numbers([trial.seconds for trial in shown]), "name": work, "marker": {"color": BLUE}},
        {
            **bars,
            "y": numbers([before.get(trial.id, 0.0) for trial in shown]),
            "name": "training",
            "marker": {"color": RED, "pattern": {"shape": "/"}},
        },
    ]
    layout: dict[str, Any] = {"barmode": "stack", "xaxis": whole(max(x, default=1)), "yaxis": axis("time (s)")}
    layout["xaxis"].pop("range")
    rows: list[list[Cell]] = [[trial.id, trial.seconds, before.get(trial.id, 0.0)] for trial in trials]
    return Chart("Time by trial", data, layout, ["trial", f"{work} (s)", "training before (s)"], rows, height=280)


def cost(campaign: CampaignRecord, trials: Sequence[Some]) -> Chart:
    """Cost of all attempts up to each trial, and the budget."""
    budget = campaign.spec["budget"]
    unit, limit, total = budget.get("unit") or "units", budget.get("cost"), 0.0
    sums = []
    for trial in trials:
        total += trial.spent
        sums.append(total)
    x = [trial.number for trial in trials]
    step = max(1, len(x) // MOST)
    data = [{**line(x[::step], numbers(sums[::step]), "spent", BLUE, shape="hv"), "showlegend": False}]
    layout = {
        "xaxis": whole(max(x, default=1)),
        "yaxis": axis(labelled("spent", unit), range=ends([0.0, *sums, limit])),
        "shapes": [] if limit is None else [level(limit, "budget", ends([0.0, *sums, limit]))],
    }
    head = ["trial", labelled("spent", unit), labelled("in all", unit)]
    rows: list[list[Cell]] = [[trial.id, trial.spent, at] for trial, at in zip(trials, sums, strict=True)]
    return Chart("Cost so far", data, layout, head, rows, height=280)
