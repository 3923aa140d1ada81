"""Warnings of what is kept all the same: a design that was run outside the space, a result far from all others."""

from collections.abc import Iterator, Mapping

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.context import Site
from fieldcraft.physics.space import Design, SpaceError
from fieldcraft.storage.records import Trial

_FEWEST = 5  # results that tell how far they lie apart
_FAR = 10.0  # times the distance between the least and the largest of them


def unusual(site: Site, trial: Trial, ran: Design | None, values: Mapping[str, float], where: str) -> tuple[str, ...]:
    """Warnings of a measurement.

    Args:
        site: The campaign.
        trial: The trial.
        ran: The whole design as run, where it was given; else None.
        values: Outputs, in their units.
        where: Place of the measurement, for errors.

    Raises:
        InputError: ``ran`` cannot be a design at all.
    """
    outside = () if ran is None else _outside(site.campaign, trial, ran, where)
    return (*outside, *_far_off(site, trial, values))


def _outside(campaign: Campaign, trial: Trial, ran: Design, where: str) -> tuple[str, ...]:
    """A warning if a design as run lies outside the campaign's space."""
    try:
        campaign.space.encode([ran])
    except SpaceError as error:
        raise InputError(f"{where}{trial.id}: {error}") from None
    try:
        campaign.space.check(ran)
    except SpaceError as error:
        return (f"{trial.id}: what was run lies outside the campaign's space and is kept as it is: {error}",)
    return ()


def _far_off(site: Site, trial: Trial, values: Mapping[str, float]) -> Iterator[str]:
    """A warning for each output that lies far from all other results, as where a digit was typed twice."""
    others = [each for each in site.ledger.summaries(site.name) if each.counts and each.id != trial.id]
    units = {output.name: output.unit for output in site.campaign.problem.outputs}
    for name, value in values.items():
        known = [outputs[name] for each in others if name in (outputs := each.outputs or {})]
        if len(known) < _FEWEST:
            continue
        least, most = min(known), max(known)
        if max(least - value, value - most) > _FAR * (most - least) > 0:
            unit = f" {units[name]}" if units[name] else ""
            yield (
                f"{trial.id}: {name} {value:.6g}{unit} is far from the {len(known)} other results, {least:.6g} to "
                f"{most:.6g}{unit}. It is kept; if it is a slip, 'fieldcraft correct {trial.id}' changes it."
            )
