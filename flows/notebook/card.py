"""A campaign as a card in a notebook: its state, the best design, and the trace."""

from html import escape
from typing import Any

from fieldcraft.flows.charts.chart import Chart
from fieldcraft.flows.charts.trace import trace
from fieldcraft.flows.notices.deliver import channels
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.views.charts import as_data_uri, drawn_still
from fieldcraft.flows.views.regret import optimum_of
from fieldcraft.flows.views.text import status_text
from fieldcraft.flows.wiring.build import rewire
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import CampaignRecord

PLOTLY = "application/vnd.plotly.v1+json"
"""Type of a figure that a notebook draws with its own plotly.js."""


def card(settings: Settings, ledger: Ledger, campaign: CampaignRecord) -> str:
    """The card as HTML without scripts, its picture a still one; all texts are escaped."""
    chart = _trace(settings, ledger, campaign)
    return f"<div>{_state(settings, ledger, campaign)}{'' if chart is None else _still(chart)}</div>"


def parts(settings: Settings, ledger: Ledger, campaign: CampaignRecord) -> list[dict[str, Any]]:
    """The card as one or two outputs of a notebook's cell, each in all forms of which a notebook shows the one it can.

    The picture is the report's own figure where the notebook draws such, as JupyterLab does with the package plotly,
    and a still picture without scripts elsewhere, as in nbconvert's pages. The figure is data alone: the notebook has
    plotly.js, which would add 5 MB to each cell.
    """
    text = status_text(ledger, campaign, telling=bool(channels(settings)))
    shown: list[dict[str, Any]] = [{"text/html": _state(settings, ledger, campaign), "text/plain": text}]
    if (chart := _trace(settings, ledger, campaign)) is not None:
        figure = {key: chart.payload()[key] for key in ("data", "layout")}
        shown.append({PLOTLY: figure, "text/html": _still(chart), "text/plain": chart.title})
    return shown


def _state(settings: Settings, ledger: Ledger, campaign: CampaignRecord) -> str:
    text = escape(status_text(ledger, campaign, telling=bool(channels(settings))))
    return f'<pre style="line-height:1.35">{text}</pre>'


def _trace(settings: Settings, ledger: Ledger, campaign: CampaignRecord) -> Chart | None:
    """The report's trace; None before the first result."""
    trials = ledger.trials(campaign.name)
    if not any(trial.outputs for trial in trials):
        return None
    known = optimum_of(rewire(campaign.spec, settings, algorithm=False))
    target = (campaign.spec.get("stop") or {}).get("target")
    return trace(campaign, trials, None if known is None else known.value, target)


def _still(chart: Chart) -> str:
    source = as_data_uri(drawn_still(chart, 5.5, 2.8))
    return f'<img alt="results and the best so far by trial" src="{source}">'
