"""Creation of a campaign in the ledger, or a check that the campaign there is unchanged."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.identity import acting
from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.campaign_file import differing
from fieldcraft.flows.wiring.build import rewire
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.named_algorithms import TRUE
from fieldcraft.flows.wiring.written_out import resolved
from fieldcraft.storage.ledger import Ledger, SpecChanged


def created(ledger: Ledger, campaign: Campaign, file: Path, *, strictly: bool = False) -> str | None:
    """Create the campaign, or find it unchanged; return the reason why it has ended, or None.

    A specification that an earlier version stored is unchanged if this version reads the same from it. Where its named
    algorithm stood for other words then, it goes on with those.

    Args:
        ledger: Ledger of the campaigns.
        campaign: The campaign, as its file states it.
        file: The file, for messages.
        strictly: True to refuse such other words.

    Raises:
        identity.Refused: the person who acts may not create campaigns.
        InputError: the ledger's campaign of that name has another specification, or its problem had other outputs or
            variables; names what differs.
    """
    from fieldcraft.flows.wiring.environment import environment_of, require_recorded

    person = acting(campaign.settings, "operate")
    try:
        known = ledger.create_campaign(
            campaign.name,
            campaign.data,
            campaign.digest,
            {
                **environment_of(campaign.problem, campaign.settings.plugins),
                "by_people": campaign.dispatcher.by_people,
                "resolved": resolved(campaign),
            },
            person.name,
            campaign.limits,
        )
    except SpecChanged as error:
        stored = _said_now(error.stored, campaign.settings)
        now = campaign.data if strictly else _as_begun(campaign.data, stored)
        if stored != now:
            keys = differing(stored, now)
            raise InputError(
                f"{file}: campaign {campaign.name!r} was started with another specification ({'; '.join(keys)}). "
                f"Restore these keys to go on, or give the file another name to start anew.{_more(campaign, keys)}"
            ) from None
        if others := differing(stored, campaign.data):
            tell("other words", keys="; ".join(others))
        known = ledger.campaign(campaign.name)
    require_recorded(known, campaign.problem)
    return known.finished


def _more(campaign: Campaign, keys: Sequence[str]) -> str:
    """Sentence on how a campaign of another name has the same results, where only the budget is another."""
    if not all(key.startswith("budget.") for key in keys):
        return ""
    again = "'fieldcraft import FILE TABLE', with the table of 'fieldcraft export"
    how = f"{again} {campaign.name} --csv TABLE'"
    if not campaign.dispatcher.by_people:
        how = f"'fieldcraft retarget {campaign.name} FILE', or {how}"
    return f" It then begins with the results so far by {how}."


def _as_begun(given: Mapping[str, Any], stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """A given specification, with the words of the stored one where both have the same named algorithm."""
    now, before = given["algorithm"], stored["algorithm"]
    if now.get("named") is None or now["named"] != before.get("named"):
        return given
    others = {name: value for name, value in now.items() if name not in TRUE}
    return {**given, "algorithm": {**others, **{name: before[name] for name in TRUE if name in before}}}


def _said_now(stored: Mapping[str, Any], settings: Settings) -> Mapping[str, Any]:
    """The stored specification as this version would store it; unchanged where this version cannot read it."""
    try:
        return rewire(stored, settings).data
    except InputError:
        return stored
