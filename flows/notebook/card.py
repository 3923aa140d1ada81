"""A campaign as a card in a notebook: its state, the best design, and the trace or the front."""

from html import escape
from typing import Any

from fieldcraft.flows.charts.chart import Chart
from fieldcraft.flows.charts.front import fronts, pairs
from fieldcraft.flows.charts.trace import trace
from fieldcraft.flows.notices.deliver import channels
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.views.charts import as_data_uri, drawn_still, front_chart, new_figure
from fieldcraft.flows.views.regret import optimum_of
from fieldcraft.flows.views.text import status_text
from fieldcraft.flows.wiring.build import rewire
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import CampaignRecord

PLOTLY = "application/vnd.plotly.v1+json"
"""Type of a figure that a notebook draws with its own plotly.js."""


def card(settings: Settings, ledger: Ledger, campaign: CampaignRecord) -> str:
    """The card as HTML without scripts, its picture a still one; all texts are escaped."""
    picture = _picture(settings, ledger, campaign)
    return f"<div>{_state(settings, ledger, campaign)}{'' if picture is None else picture[1]}</div>"


def parts(settings: Settings, ledger: Ledger, campaign: CampaignRecord) -> list[dict[str, Any]]:
    """The card as one or two outputs of a notebook's cell, each in all forms of which a notebook shows the one it can.

    The picture is the report's own figure where the notebook draws such, as JupyterLab does with the package plotly,
    and a still picture without scripts elsewhere, as in nbconvert's pages. The figure is data alone: the notebook has
    plotly.js, which would add 5 MB to each cell.
    """
    text = status_text(ledger, campaign, telling=bool(channels(settings)))
    shown: list[dict[str, Any]] = [{"text/html": _state(settings, ledger, campaign), "text/plain": text}]
    if (picture := _picture(settings, ledger, campaign)) is not None:
        chart, still = picture
        figure = {key: chart.payload()[key] for key in ("data", "layout")}
        shown.append({PLOTLY: figure, "text/html": still, "text/plain": chart.title})
    return shown


def _state(settings: Settings, ledger: Ledger, campaign: CampaignRecord) -> str:
    text = escape(status_text(ledger, campaign, telling=bool(channels(settings))))
    return f'<pre style="line-height:1.35">{text}</pre>'


def _picture(settings: Settings, ledger: Ledger, campaign: CampaignRecord) -> tuple[Chart, str] | None:
    """The report's trace, or of several objectives the front of the first two, and a still picture of it as HTML.

    None before the first result.
    """
    trials = ledger.trials(campaign.name)
    if not any(trial.counts for trial in trials):
        return None
    if goals := pairs(campaign, trials):
        figure, said = new_figure(5.5, 3.4), "all results, and those on the front"
        pick = ledger.picked(campaign.name)
        picked = pick.trial if pick else None
        front_chart(figure.subplots(), campaign, trials, *goals[0], picked)
        chart = fronts(campaign, trials, picked)[0]
    else:
        known = optimum_of(rewire(campaign.spec, settings, algorithm=False))
        target = (campaign.spec.get("stop") or {}).get("target")
        chart = trace(campaign, trials, None if known is None else known.value, target)
        figure, said = drawn_still(chart, 5.5, 2.8), "results and the best so far by trial"
    return chart, f'<img alt="{said}" src="{as_data_uri(figure)}">'
