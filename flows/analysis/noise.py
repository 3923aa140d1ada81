"""Noise of a campaign's results, and the people who measure them: from the record alone."""

from collections.abc import Mapping
from typing import Any

from fieldcraft.storage.records import CampaignRecord


def noisy(spec: Mapping[str, Any], *, people: bool) -> bool:
    """True if results are noisy under a stored specification.

    They are noisy if the campaign adds noise, if noise is fitted, if people measure, or if the dispatcher's option
    ``noisy`` says that its program's answers are.
    """
    noise = spec.get("noise") or {}
    return noisy_constraints(spec, people=people) or any(noise.get(way) for way in ("sd", "of_sd", "fitted"))


def noisy_constraints(spec: Mapping[str, Any], *, people: bool) -> bool:
    """True if results of the constraints are noisy too. Noise that a campaign adds is on its objective alone."""
    return people or bool((spec.get("dispatcher") or {}).get("noisy"))


def by_people(campaign: CampaignRecord) -> bool:
    """True if people do the experiments of a campaign, as recorded when it was created.

    Campaigns of versions that did not record it have people if they name no simulator: no program could answer a design
    then.
    """
    known: bool = campaign.environment.get("by_people", campaign.spec.get("simulator") is None)
    return known
