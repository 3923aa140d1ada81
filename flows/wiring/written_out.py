"""Written-out specifications: every option of every component, the defaults too."""

import dataclasses
from typing import TYPE_CHECKING, Any

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.spec.base import STORED
from fieldcraft.flows.spec.campaign_file import CampaignSpec, Component, ConstraintsSpec, Dispatch, NamedSpec
from fieldcraft.flows.spec.registry import options_of
from fieldcraft.flows.wiring.levels.built import shortened
from fieldcraft.flows.wiring.named_algorithms import MODEL, TRUE, expanded

if TYPE_CHECKING:
    from fieldcraft.flows.jobs.dispatcher import Dispatcher
    from fieldcraft.flows.wiring.campaign import Campaign


def written_out(campaign: "Campaign") -> CampaignSpec:
    """Write out the specification of a campaign, with every option of its built components."""
    spec, algorithm = campaign.spec, campaign.algorithm

    def full(component: Component, part: Any) -> Component:
        return Component.model_validate(options_of(component.kind, part))

    part = spec.algorithm
    words = {
        word: full(component, getattr(algorithm, word))
        for word in MODEL
        if (component := getattr(part, word)) is not None
    }
    kept = {
        word: full(component, getattr(algorithm.constraints, word))
        for word in ConstraintsSpec.model_fields
        if (component := getattr(part.constraints, word)) is not None
    }
    constraints = part.constraints.model_copy(update=kept)
    simulator = spec.simulator and full(spec.simulator, campaign.simulator)
    start = part.start.model_copy(update={"proposer": full(part.start.proposer, algorithm.initial)})
    return spec.model_copy(
        update={
            "problem": full(spec.problem, campaign.problem),
            "simulator": simulator,
            "levels": () if simulator is None else shortened(campaign.levels, simulator),
            "dispatcher": _with_options(spec.dispatcher, campaign.dispatcher),
            "algorithm": part.model_copy(update={"start": start, "constraints": constraints, **words}),
        }
    )


def resolved(campaign: "Campaign") -> dict[str, Any]:
    """Values in force of keys that the specification leaves to their component, by dotted key."""
    from fieldcraft.models.surrogate import Resolving

    found: dict[str, Any] = {} if campaign.spec.noise is None else {"noise.sd": campaign.noise_sd}
    constraints = zip(campaign.objective.constraints, campaign.constraint_sds, strict=False)
    found |= {f"noise.constraints.{name}": sd for name, sd in constraints}
    algorithm = campaign.algorithm
    surrogates = {"": algorithm.surrogate, "constraints.": algorithm.constraints.surrogate}
    for place, surrogate in surrogates.items():
        if isinstance(surrogate, Resolving):
            found |= {f"algorithm.{place}surrogate.{name}": value for name, value in surrogate.resolved.items()}
    return found


def _with_options(part: Dispatch, dispatcher: "Dispatcher") -> Dispatch:
    common = {name: getattr(part, name) for name in Dispatch.model_fields}
    options = options_of(part.kind, dispatcher)
    del options["place"]
    return Dispatch.model_validate({**common, **options}, context=STORED)


def require_true_name(campaign: "Campaign") -> None:
    """Accept an algorithm without ``named``, or with the words that ``named`` stands for.

    Raises:
        InputError: ``named`` stands for other words, or for no algorithm.
    """
    part, named = campaign.spec.algorithm, campaign.spec.algorithm.named
    if named is None:
        return
    data = {**campaign.data, "algorithm": {**named.model_dump(), "start": part.start.model_dump()}}
    try:
        meant = expanded(NamedSpec.model_validate(data), campaign.space.dimension, campaign.settings.plugins)
        whole = written_out(dataclasses.replace(campaign, spec=meant)).algorithm
    except InputError as error:
        told = str(error).removeprefix("algorithm.kind: ")
        raise InputError(f"algorithm.named: {told} Or remove it: it changes nothing.") from None
    other = [word for word in TRUE if getattr(whole, word) != getattr(part, word)]
    if other:
        raise InputError(
            f"algorithm.named says {named.kind!r}, whose {' and '.join(other)} would be others: remove it, or give "
            f"'algorithm: {{kind: {named.kind}}}' alone."
        )
