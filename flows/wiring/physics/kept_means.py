"""Means of stored fields over fewer cells, kept on the disk, so that no process reads the many cells again.

WORK/.means/DIGEST-KEY/     the fields of one stored dataset (``storage.fields.save_group``), checksums verified

The key tells over what the means were taken, and of which fields. Whoever deletes a folder loses time alone.
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from fieldcraft.physics.parametric.statement import Fields
from fieldcraft.storage.fields import FieldDamaged, FieldError, load_group, save_group, stray_staging
from fieldcraft.storage.records import digest_of

MEANS = ".means"
"""Folder of the means among the scratch folders."""
# Raised when means of the same cells come out otherwise.
_FORM = 1


def place_of(folder: Path, digest: str, stated: Fields, cells: tuple[int, ...] | None) -> Path | None:
    """Place of the means of one stored dataset over so many cells along each axis, or over as many as are kept.

    None for a domain with a mask: it is a function, which no key tells.
    """
    if stated.domain.mask is not None:
        return None
    axes = [[axis.name, axis.low, axis.high] for axis in stated.domain.axes]
    told = [_FORM, [each.name for each in stated.fields], axes, list(stated.repeats), cells and list(cells)]
    return folder / f"{digest}-{digest_of(told)[:16]}"


def loaded(place: Path, stated: Fields) -> dict[str, np.ndarray] | None:
    """The fields that are kept at a place, each (*cells), in the order of the statement; None if none can be read.

    Damaged ones are deleted. Those of a newer version are left to it.
    """
    if not os.path.isdir(place):
        return None
    try:
        found = load_group(place)
    except FieldDamaged:
        shutil.rmtree(place, ignore_errors=True)
        return None
    except FieldError:
        return None
    return {each.name: found[each.name].values for each in stated.fields if each.name in found} or None


def keep(place: Path, stated: Fields, fields: Mapping[str, np.ndarray]) -> None:
    """Keep fields, each (*cells), at a place; nothing is kept where the disk refuses.

    What a killed process left half written beside the place is deleted.
    """
    import xarray as xr

    for left in stray_staging(place.parent):
        shutil.rmtree(left, ignore_errors=True)
    with suppress(FieldError):
        save_group(place, xr.Dataset({name: (stated.domain.names, each) for name, each in fields.items()}))
