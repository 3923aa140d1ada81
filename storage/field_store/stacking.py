"""Stacks: many fields as one lazy dataset along the new leading dimension ``trial``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcraft.storage.field_store.content import Array
from fieldcraft.storage.field_store.staging import FieldError

if TYPE_CHECKING:
    import xarray as xr

    from fieldcraft.storage.field_store.opened import Opened


@dataclass(frozen=True)
class _Rows:
    """One variable of many fields as an array (trial, ...); a field is checked and read when a slice needs it."""

    members: Sequence[Opened]
    name: str

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.members), *self.members[0].arrays[self.name].shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.members[0].arrays[self.name].dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, key: tuple[int | slice, ...]) -> Array:
        row, *rest = key
        if isinstance(row, slice):
            return np.stack([member.values(self.name, tuple(rest)) for member in self.members[row]])
        return self.members[row].values(self.name, tuple(rest))


def stacked(fields: Mapping[str, Opened]) -> xr.Dataset:
    """One lazy dataset of many fields; see ``FieldStore.stack``."""
    import dask.array
    import xarray as xr

    trials, members = tuple(fields), tuple(fields.values())
    first, distinct = members[0], {id(member): trial for trial, member in fields.items()}
    if "trial" in first.arrays or any("trial" in first.dims(name) for name in first.arrays):
        raise FieldError(f"The field of {trials[0]} uses the name 'trial', along which fields are stacked. Rename it.")
    found = first.variables(name for name in first.arrays if name in first.coordinates)
    for trial in distinct.values():
        _require_alike(trials[0], first, found, trial, fields[trial])
    for name in first.arrays.keys() - first.coordinates:
        chunks = (1, *first.arrays[name].chunks)
        data = dask.array.from_array(_Rows(members, name), chunks=chunks, name=False, fancy=False)  # type: ignore[no-untyped-call]
        attrs = _shared([dict(member.arrays[name].attrs) for member in members])
        found[name] = xr.Variable(("trial", *first.dims(name)), data, attrs)
    dataset = first.dataset(found).assign_coords(trial=np.array(trials, dtype=object))
    dataset.attrs = _shared([dict(member.attrs) for member in members])
    dataset.attrs.pop("coordinates", None)
    return dataset


def _shared(attrs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in attrs[0].items() if all(other.get(key, None) == value for other in attrs)}


def _require_alike(one: str, first: Opened, coords: Mapping[str, xr.Variable], trial: str, other: Opened) -> None:
    def described(field: Opened) -> dict[str, object]:
        return {
            name: (name in field.coordinates, field.dims(name), array.shape, array.dtype, array.attrs.get("units"))
            for name, array in field.arrays.items()
        }

    mine, theirs = described(first), described(other)
    differing = [name for name in sorted({*mine, *theirs}) if mine.get(name) != theirs.get(name)]
    if not differing:
        differing = [name for name, kept in coords.items() if other.values(name).tobytes() != kept.values.tobytes()]
    if differing:
        raise FieldError(
            f"The fields of {one} and {trial} cannot be stacked: they differ in '{differing[0]}' (presence, "
            "dimensions, shape, dtype, units or, for a coordinate, values). Stack trials of one mesh."
        )
