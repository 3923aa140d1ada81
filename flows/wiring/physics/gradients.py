"""Gradients in the stored fields of a campaign's trials, for a surrogate that learns from them."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.models.capability import Capability, required
from fieldcraft.physics.gradients import gradient_names, gradient_of
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.space import Continuous, Design
from fieldcraft.storage.fields import FieldDamaged, fields_at
from fieldcraft.storage.records import FieldRef

if TYPE_CHECKING:
    from fieldcraft.flows.wiring.campaign import Campaign

# Gradients that a process keeps.
_KEPT = 65536
# Share of its size by which a result may differ from what its field reads.
_ALIKE = 1e-9


def uses_gradients(campaign: "Campaign") -> bool:
    """True if a campaign's surrogate may learn from gradients.

    False where noise is added to the results, which gradients have none of, and where another word of the algorithm
    needs an exact Gaussian process of values alone. False where several encoded points are one design.
    """
    from fieldcraft.models.surrogate import TakesGradients

    words, surrogate = campaign.algorithm, campaign.algorithm.surrogate
    if campaign.problem.outputs[0].formula is not None:  # a gradient is one of a measured output
        return False
    if not campaign.space.plain:  # a model sees other coordinates than those of the derivatives
        return False
    if campaign.noise_sd or not (isinstance(surrogate, TakesGradients) and surrogate.uses_gradients):
        return False
    return all(
        Capability.EXACT not in required(word) for word in (words.acquisition, words.maximizer) if word is not None
    )


def told(campaign: "Campaign") -> str | None:
    """Use of the gradients that a campaign's simulator is asked for; None if it is asked for none."""
    given, part = campaign.spec.simulator, campaign.spec.algorithm
    if given is None or getattr(campaign.simulator, "gradient", None) is not True:
        return None
    said = f"simulator {given.kind!r} returns gradients"
    if uses_gradients(campaign):
        return f"{said}, and the surrogate {part.surrogate and part.surrogate.kind} learns from them."
    if reasons := campaign.space.folds.reasons:
        return f"{said}, and nothing learns from them: {'; '.join(reasons)}."
    if campaign.noise_sd:
        return f"{said}, and nothing learns from them: noise is added to the results alone."
    return f"{said}, and {part.in_words} does not learn from them: the surrogates exact_gp and emulated_gp do."


def gradients_of(
    campaign: "Campaign", designs: Sequence[Design], digests: Sequence[str | None], results: Sequence[float]
) -> np.ndarray | None:
    """Derivatives of the objective by the encoded coordinates, shape (n, d), NaN where there is none.

    Args:
        campaign: The campaign.
        designs: The n designs as they were run.
        digests: Digest of each stored field; None for a trial without one.
        results: The objective as it counts, n numbers.

    Returns:
        None where no trial left a gradient. A field that is lost or damaged has none, and so has a result that was
        corrected since: its field reads otherwise.

    Raises:
        storage.fields.FieldError: the store does not answer.
    """
    space, place = campaign.space, campaign.settings.fields
    found = np.full((len(designs), space.dimension), np.nan)
    for row, design, digest, result in zip(found, designs, digests, results, strict=True):
        if digest is None or not gradient_names(space):
            continue
        try:
            gradient, read = _stored(place, digest, campaign.problem, tuple(design.items()))
        except FieldDamaged:
            continue
        if gradient is None or not abs(read - result) <= _ALIKE * abs(result):
            continue
        for variable in space.variables:
            if isinstance(variable, Continuous):
                row[space.columns[variable.name]] = gradient[variable.name] * variable.slope(
                    float(design[variable.name])
                )
    return None if np.isnan(found).all() else found


@lru_cache(maxsize=_KEPT)
def _stored(
    place: Path | str, digest: str, problem: Problem, design: tuple[tuple[str, float | int | str], ...]
) -> tuple[Mapping[str, float] | None, float]:
    """The gradient in a stored field, or None, and the objective that the problem reads from the field.

    Raises:
        storage.fields.FieldError: it is damaged or lost, which is not kept, or the store does not answer.
    """
    store, ref = fields_at(place), FieldRef(digest=digest, size=0)
    if not set(gradient_names(problem.space).values()) <= set(store.names(ref)):
        return None, 0.0
    fields = store.read(ref)
    try:
        return gradient_of(problem, fields), problem.evaluate(dict(design), fields)[problem.outputs[0].name]
    except (ValueError, KeyError):
        return None, 0.0
