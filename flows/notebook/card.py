"""A campaign as a card in a notebook: its state, the best design, and the trace or the front."""

from html import escape

from fieldcraft.flows.charts.front import pairs
from fieldcraft.flows.charts.trace import trace
from fieldcraft.flows.notices.deliver import channels
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.views.charts import as_data_uri, drawn_still, front_chart, new_figure
from fieldcraft.flows.views.regret import optimum_of
from fieldcraft.flows.views.text import status_text
from fieldcraft.flows.wiring.build import rewire
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import CampaignRecord


def card(settings: Settings, ledger: Ledger, campaign: CampaignRecord) -> str:
    """The card as HTML without scripts; all texts are escaped.

    Its picture is the report's trace, of several objectives the front of the first two, drawn as a still one: a
    notebook strips the scripts of files that are not trusted, and plotly.js would add 5 MB to each cell that shows a
    card.
    """
    text = escape(status_text(ledger, campaign, telling=bool(channels(settings))))
    trials = ledger.trials(campaign.name)
    picture = ""
    if any(trial.outputs for trial in trials):
        if goals := pairs(campaign, trials):
            figure, said = new_figure(5.5, 3.4), "all results, and those on the front"
            front_chart(figure.subplots(), campaign, trials, *goals[0])
        else:
            known = optimum_of(rewire(campaign.spec, settings, algorithm=False))
            target = (campaign.spec.get("stop") or {}).get("target")
            chart = trace(campaign, trials, None if known is None else known.value, target)
            figure, said = drawn_still(chart, 5.5, 2.8), "results and the best so far by trial"
        picture = f'<img alt="{said}" src="{as_data_uri(figure)}">'
    return f'<div><pre style="line-height:1.35">{text}</pre>{picture}</div>'
