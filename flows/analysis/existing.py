"""Variables of a design that exist in it, by what a campaign recorded of its space."""

from collections.abc import Mapping

from fieldcraft.storage.records import CampaignRecord, Level


def existing(campaign: CampaignRecord, design: Mapping[str, Level]) -> dict[str, Level]:
    """A design without its variables that do not exist for its levels (``only_if`` of the problem's space)."""
    gone = absent(campaign, design)
    return {name: value for name, value in design.items() if name not in gone}


def absent(campaign: CampaignRecord, design: Mapping[str, Level]) -> frozenset[str]:
    """Names of the variables that do not exist for the levels of a design."""
    conditions: Mapping[str, Mapping[str, list[str]]] = campaign.environment.get("only_if", {})
    return frozenset(
        name
        for name, condition in conditions.items()
        if any(design.get(of) not in levels for of, levels in condition.items())
    )
