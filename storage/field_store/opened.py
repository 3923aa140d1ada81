"""Published fields, opened: metadata is checked at once, values when they are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fieldcraft.storage.field_store.content import Array
from fieldcraft.storage.field_store.decoding import Described, decoded
from fieldcraft.storage.field_store.encoding import DESCRIPTION, GROUP
from fieldcraft.storage.field_store.folder import Folder
from fieldcraft.storage.field_store.labels import labels_of, unlabelled
from fieldcraft.storage.field_store.staging import FieldError, Manifest, damaged

if TYPE_CHECKING:
    import xarray as xr


def load(folder: Folder, digest: str | None, names: Sequence[str] | None = None) -> xr.Dataset:
    """Load a field, or some of its variables with their coordinates, into memory; see ``FieldStore.read``."""
    opened = Opened.at(folder, digest)
    return opened.dataset(opened.variables(opened.choose(names)))


@dataclass(frozen=True)
class Opened:
    """A published folder whose files all have the listed sizes."""

    folder: Folder
    manifest: Manifest
    attrs: dict[str, Any]  # of the group
    labels: dict[str, Any]  # beside them
    arrays: dict[str, Described]
    coordinates: frozenset[str]

    @staticmethod
    def at(folder: Folder, digest: str | None) -> Opened:
        """Open a folder and check its metadata; raises ``FieldDamaged``."""
        manifest = folder.manifest(digest)
        folder.check_sizes(manifest)
        names = [file for file in manifest.files if file.endswith(f"/{DESCRIPTION}")]
        told = dict(folder.contents(manifest, names))
        group = told.pop(f"{GROUP}/{DESCRIPTION}", None)
        if group is None:
            raise damaged(str(folder), f"{GROUP}/{DESCRIPTION}", "is missing")
        attrs = json.loads(group)["attributes"]
        arrays = {name.split("/")[-2]: Described.of(text) for name, text in told.items()}
        coordinates = frozenset(str(attrs.get("coordinates", "")).split())
        return Opened(folder, manifest, unlabelled(attrs), labels_of(attrs), arrays, coordinates)

    def dims(self, name: str) -> tuple[str, ...]:
        """Names of a variable's dimensions."""
        return self.arrays[name].dims

    def values(self, name: str, key: tuple[int | slice, ...] = ()) -> Array:
        """A variable or a part of it, after its files were checked."""
        place = f"{GROUP}/{name}/"
        files = [file for file in self.manifest.files if file.startswith(place)]
        found = self.folder.contents(self.manifest, files)
        return decoded(self.arrays[name], {file.removeprefix(place): text for file, text in found.items()}, key)

    def variables(self, names: Iterable[str]) -> dict[str, xr.Variable]:
        """Variables by name, in memory."""
        import xarray as xr

        return {name: xr.Variable(self.dims(name), self.values(name), dict(self.arrays[name].attrs)) for name in names}

    def choose(self, names: Sequence[str] | None) -> Iterable[str]:
        """Names of the variables to read: ``names`` with their coordinates, or all; raises ``FieldError``."""
        if names is None:
            return self.arrays
        if unknown := sorted(set(names) - self.arrays.keys()):
            raise FieldError(
                f"Field {self.folder.name} has no variable {unknown[0]!r}. It has: {', '.join(self.arrays)}."
            )
        dims = {dim for name in names for dim in self.dims(name)}
        return (
            name
            for name in self.arrays
            if name in names or (name in self.coordinates and dims.issuperset(self.dims(name)))
        )

    def dataset(self, variables: Mapping[str, xr.Variable]) -> xr.Dataset:
        """Variables as a dataset with the field's coordinates and attributes."""
        import xarray as xr

        data = {name: variable for name, variable in variables.items() if name not in self.coordinates}
        coords = {name: variable for name, variable in variables.items() if name in self.coordinates}
        attrs = {key: value for key, value in self.attrs.items() if key != "coordinates"}
        return xr.Dataset(data, coords, attrs)
