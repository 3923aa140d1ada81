"""Published fields, opened: metadata is checked at once, values when they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fieldcraft.storage.field_store.content import Array
from fieldcraft.storage.field_store.folder import Folder
from fieldcraft.storage.field_store.staging import FieldError, Manifest

if TYPE_CHECKING:
    import xarray as xr
    import zarr
    from zarr.core.metadata import ArrayV3Metadata
    from zarr.storage import StorePath

GROUP = "field.zarr"


def load(folder: Folder, digest: str | None, names: Sequence[str] | None = None) -> xr.Dataset:
    """Load a field, or some of its variables with their coordinates, into memory; see ``FieldStore.read``."""
    opened = Opened.at(folder, digest)
    return opened.dataset(opened.variables(opened.choose(names)))


def zarr_group(source: Path | Mapping[str, bytes]) -> Path | StorePath:
    """The group of a folder, on the disk or in memory, for zarr."""
    if isinstance(source, Path):
        return source / GROUP
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import MemoryStore, StorePath

    buffer = default_buffer_prototype().buffer
    return StorePath(MemoryStore({name: buffer.from_bytes(content) for name, content in source.items()}), GROUP)


@dataclass(frozen=True)
class Opened:
    """A published folder whose files all have the listed sizes."""

    folder: Folder
    manifest: Manifest
    described: Path | Mapping[str, bytes]  # where the metadata are, checked
    group: zarr.Group
    arrays: dict[str, zarr.Array[Any]]
    coordinates: frozenset[str]

    @staticmethod
    def at(folder: Folder, digest: str | None) -> Opened:
        """Open a folder and check its metadata; raises ``FieldDamaged``."""
        import zarr

        manifest = folder.manifest(digest)
        folder.check_sizes(manifest)
        names = [file for file in manifest.files if file.endswith("/zarr.json")]
        described = folder.source(manifest, names)
        group = zarr.open_group(zarr_group(described), mode="r", zarr_format=3)
        owners = [file.split("/")[-2] for file in names]
        arrays = {owner: zarr.open_array(zarr_group(described) / owner, mode="r") for owner in owners if owner != GROUP}
        coordinates = frozenset(str(group.attrs.get("coordinates", "")).split())
        return Opened(folder, manifest, described, group, arrays, coordinates)

    def dims(self, name: str) -> tuple[str, ...]:
        """Names of a variable's dimensions."""
        metadata = cast("ArrayV3Metadata", self.arrays[name].metadata)
        return tuple(map(str, metadata.dimension_names or ()))

    def values(self, name: str, key: tuple[int | slice, ...] = ()) -> Array:
        """A variable or a part of it, after its files were checked."""
        import zarr

        files = [file for file in self.manifest.files if file.startswith(f"{GROUP}/{name}/")]
        source, array = self.folder.source(self.manifest, files), self.arrays[name]
        if not isinstance(source, Path):  # what was checked is in memory, and is what is read
            array = zarr.open_array(zarr_group(source) / name, mode="r")
        return np.asarray(array[key or ...])

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
        attrs = {key: value for key, value in self.group.attrs.items() if key != "coordinates"}
        return xr.Dataset(data, coords, attrs)
