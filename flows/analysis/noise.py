"""Noise of a campaign's results, and the people who measure them: from the record alone."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fieldcraft.storage.records import CampaignRecord, ResultSummary


def noisy(spec: Mapping[str, Any], outputs: Sequence[Mapping[str, Any]], *, people: bool) -> bool:
    """True if results are noisy under a stored specification and the outputs that its environment records.

    They are noisy if the campaign adds noise, if noise is fitted, if the problem states the standard deviation of an
    output, if people measure, or if the dispatcher's option ``noisy`` says that its program's answers are.
    """
    noise = spec.get("noise") or {}
    added = any(noise.get(way) for way in ("sd", "of_sd", "fitted"))
    return people or _noisy_program(spec) or added or any(output.get("sd") for output in outputs)


def noisy_constraints(spec: Mapping[str, Any], outputs: Sequence[Mapping[str, Any]], *, people: bool) -> bool:
    """True if results of the constraints are noisy too.

    Noise that a campaign adds is on its objective alone, unless the specification says otherwise; noise of the results'
    own, which is fitted, is on all of them. A constraint that is computed counts as noisy where any output has a
    standard deviation: it may read that one.
    """
    objectives = sum(bool(output.get("objective")) for output in outputs) or 1
    limits = [output for output in outputs[objectives:] if not output.get("plain")]
    known = outputs if any(output.get("formula") for output in limits) else limits
    noise = spec.get("noise") or {}
    stated = bool(noise.get("fitted") or (noise.get("constraints") and noise.get("of_sd")))
    return people or _noisy_program(spec) or stated or any(output.get("sd") for output in known)


def _noisy_program(spec: Mapping[str, Any]) -> bool:
    return bool((spec.get("dispatcher") or {}).get("noisy"))


def stated_sds(results: Iterable[ResultSummary]) -> dict[str, dict[str, float]]:
    """Standard deviations of outputs that the results which count state, by trial; of results oldest first.

    A duplicate adds to those of the result that it repeats.
    """
    found: dict[str, dict[str, float]] = {}
    for result in results:
        if result.verdict == "accepted":
            found[result.trial] = dict(result.sd)
        elif result.verdict == "retraction":
            found.pop(result.trial, None)
        elif result.verdict == "duplicate" and result.trial in found:
            found[result.trial] |= result.sd
    return found


def by_people(campaign: CampaignRecord) -> bool:
    """True if people do the experiments of a campaign, as recorded when it was created.

    Campaigns of versions that did not record it have people if they name no simulator: no program could answer a design
    then.
    """
    known: bool = campaign.environment.get("by_people", campaign.spec.get("simulator") is None)
    return known
