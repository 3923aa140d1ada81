"""Earlier results as a campaign keeps them: read once, before its first design, and stored under their digest."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.flows.spec.campaign_file import WarmStart
from fieldcraft.flows.wiring.warm.sources import SourceResults
from fieldcraft.models.data.scaling import Scaling
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import FieldRef

if TYPE_CHECKING:
    import xarray as xr

    from fieldcraft.flows.wiring.campaign import Campaign
    from fieldcraft.models.observations import EarlierResults

BEFORE = 0
"""Iteration of what is kept before the first design."""


def as_stored(found: list[SourceResults]) -> "xr.Dataset":
    """The results of all earlier campaigns as one dataset."""
    import xarray as xr

    arrays: dict[str, tuple[tuple[str, str], np.ndarray]] = {}
    for number, each in enumerate(found, start=1):
        arrays[f"designs_{number}"] = ((f"result_{number}", "coordinate"), each.X)
        arrays[f"outputs_{number}"] = ((f"result_{number}", "output"), each.Y)
    return xr.Dataset(arrays)


def earlier_at(campaign: "Campaign", ledger: Ledger) -> "tuple[EarlierResults, ...]":
    """The earlier results that a campaign keeps, read once by a process; empty where it names no earlier campaign.

    Raises:
        ValueError: they have not been kept yet.
        storage.fields.FieldError: they are damaged or lost, or the store does not answer.
    """
    if not campaign.spec.warm_start:
        return ()
    product = ledger.product(campaign.name, BEFORE, "warm_start")
    if product is None or product.reference is None:
        raise ValueError(f"The earlier results of {campaign.name} have not been read yet: make a whole pass.")
    return _read(campaign.settings.fields, product.reference.digest, campaign.spec.warm_start)


@lru_cache(maxsize=8)
def _read(place: Path | str, digest: str, sources: tuple[WarmStart, ...]) -> "tuple[EarlierResults, ...]":
    from fieldcraft.models.observations import EarlierResults

    stored = fields_at(place).read(FieldRef(digest=digest, size=0))  # found by their digest alone
    return tuple(
        EarlierResults(source.campaign, stored[f"designs_{number}"].values, stored[f"outputs_{number}"].values)
        for number, source in enumerate(sources, start=1)
    )


def first_designs(campaign: "Campaign", earlier: "tuple[EarlierResults, ...]") -> np.ndarray | None:
    """Best design of each earlier campaign, encoded, shape (k, d), each once; None where there is none.

    The best keeps to the unknown constraints, or violates them least, by the sum of the outputs above 0 over their
    spread. Of several objectives no single design is the best.
    """
    if not earlier or campaign.objective.goals:
        return None
    sign = -1.0 if campaign.objective.maximize else 1.0
    best: list[np.ndarray] = []
    for each in earlier:
        spread = np.array([Scaling.of(read, maximize=False).sd for read in each.Y[:, 1:].T])
        above = np.maximum(each.Y[:, 1:], 0.0) / spread
        found = each.X[np.lexsort((sign * each.Y[:, 0], above.sum(axis=1)))[0]]
        if not any(np.array_equal(found, other) for other in best):
            best.append(found)
    return np.array(best)
