"""A campaign as a card in a notebook: its state, the best design, and the trace."""

from html import escape

from fieldcraft.flows.notices.deliver import channels
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.views.charts import as_data_uri, completed, new_figure, progress
from fieldcraft.flows.views.regret import optimum_of
from fieldcraft.flows.views.text import status_text
from fieldcraft.flows.wiring.build import rewire
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import CampaignRecord


def card(settings: Settings, ledger: Ledger, campaign: CampaignRecord) -> str:
    """The card as HTML without scripts; all texts are escaped."""
    text = escape(status_text(ledger, campaign, telling=bool(channels(settings))))
    trials = ledger.trials(campaign.name)
    picture = ""
    if completed(trials):
        known = optimum_of(rewire(campaign.spec, settings, algorithm=False))
        figure = new_figure(5.5, 2.8)
        progress(figure.subplots(), campaign, trials, None if known is None else known.value)
        picture = f'<img alt="results and the best so far by trial" src="{as_data_uri(figure)}">'
    return f'<div><pre style="line-height:1.35">{text}</pre>{picture}</div>'
