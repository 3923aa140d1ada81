"""Who reads the results of a campaign, and whether a reading may be a lucky one: from the record alone."""

from collections.abc import Mapping
from typing import Any

from fieldcraft.storage.records import Campaign


def noisy(spec: Mapping[str, Any], *, people: bool) -> bool:
    """Whether readings are noisy under a stored specification.

    Noise is added to them or is their own, people measure, or the dispatcher's option ``noisy`` says that its program's
    answers are.
    """
    noise = spec.get("noise") or {}
    return noisy_constraints(spec, people=people) or any(noise.get(way) for way in ("sd", "of_sd", "fitted"))


def noisy_constraints(spec: Mapping[str, Any], *, people: bool) -> bool:
    """Whether readings of the constraints are noisy, too: noise that a campaign adds is on its objective alone."""
    return people or bool((spec.get("dispatcher") or {}).get("noisy"))


def by_people(campaign: Campaign) -> bool:
    """Whether people do the experiments of a campaign, as was written down when it was created.

    Where it was not, no program could answer a design either, and who names no simulator has people.
    """
    known: bool = campaign.environment.get("by_people", campaign.spec.get("simulator") is None)
    return known
