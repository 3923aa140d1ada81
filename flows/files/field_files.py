"""Fields that people hand in: netCDF files, zarr folders and tables of readings, as datasets for the field store.

Anybody who may write to their folder can supply such a file, and it is read with the rights of the process that makes
passes. So it must be self-contained: through a link, or a part in another file, it could hold data that only that
process may read.
"""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.field_probe import opened_field, require_bounded
from fieldcraft.flows.files.tables import number, read_table
from fieldcraft.flows.text import quoted
from fieldcraft.physics.parametric.readings import NOISE, PLACE

if TYPE_CHECKING:
    import xarray as xr

_STRANGE = "did not find a match in any of xarray"  # how xarray begins for a file of another kind
_DEFLATE = 1032  # the most bytes that one of it may become, as zlib's authors state
_ZSTD = 2**15  # likewise: a block of 4 bytes stands for 128 KiB at most (RFC 8878, 3.1.1.2); of _KNOWN the most
_KNOWN = frozenset({"blosc", "gzip", "lz4", "zlib", "zstd"})
_WHOLE = frozenset({"BytesCodec", "NoneType"})  # serializers of zarr that compress nothing; zarr 2 has none

COLUMN = "field"
"""Column of a table that names a line's field."""


def named_field(table: Path, named: str, place: str, within: Path | None) -> Path:
    """The file of a field that a table names by a path relative to its own folder.

    Args:
        table: The table.
        named: The path, as it stands there.
        place: File and line, for errors.
        within: Folder that the file must lie in, once links are followed; None for anywhere.

    Raises:
        InputError: it lies outside, or no path can be so.
    """
    path = table.parent / named
    if within is None:
        return path
    try:
        folder = within.resolve()
        inside = path.resolve().is_relative_to(folder)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle
        raise InputError(f"{place}: the field file {quoted(named)} cannot be ({error}). Name a file.") from None
    if not inside:
        raise InputError(f"{place}: the field file {quoted(named)} lies outside {folder}. Put it beside the table.")
    return path


def read_field(file: Path) -> "xr.Dataset":
    """A field in memory, its attributes as plain JSON; times stay numbers with units, as stored.

    Args:
        file: netCDF 3 or 4, a folder of zarr, or a table of readings at single places: a line for each place, with its
            coordinates, each field, and the standard deviation of its noise as "NAME sd".

    Raises:
        InputError: it is not there, is something else, is damaged, too large, or not self-contained.
    """
    if not _exists(file):
        raise InputError(
            f"{str(file)[:300]}: there is no such file. Give a netCDF file, a zarr folder or a table of readings."
        )
    if file.suffix.lower() == ".csv" and file.is_file():
        return _readings(file)
    try:
        _require_whole(file)
        with opened_field(file, create_default_indexes=False) as found:  # an index would be read at once
            most = _require_numbers(file, found)
            if _swells(file, found):
                require_bounded(file, most)
        with opened_field(file) as opened:
            dataset = opened.load()
    except InputError:
        raise
    except Exception as error:  # the outermost edge of a damaged file: libraries raise what they stumble over
        reason = "it has no format of fields" if _STRANGE in str(error) else " ".join(str(error).split())[:300]
        raise InputError(
            f"{file}: cannot be read as a field ({reason}). Give a netCDF file or a zarr folder."
        ) from None
    if not dataset.data_vars:
        raise InputError(f"{file}: holds no variable. Give the file that holds the field.")
    return _plain(dataset)


def _readings(file: Path) -> "xr.Dataset":
    """A table of readings as a dataset of variables along ``place``; "NAME sd" becomes ``NAME_sd``.

    Raises:
        InputError: it is no table of numbers, or has no line.
    """
    import xarray as xr

    table = read_table(file)
    if not table.rows:
        raise InputError(f"{file}: has a header and no line. Give a line for each place.")
    columns = {}
    for title, unit in table.units.items():
        name = f"{title.removesuffix(' sd')}{NOISE}" if title.endswith(" sd") else title
        values = [number(row.cells[title], f"{row.place}: {title}") for row in table.rows]
        columns[name] = ((PLACE,), values, {} if unit is None else {"units": unit})
    return xr.Dataset(columns)


def _exists(file: Path) -> bool:
    try:
        return file.is_file() or file.is_dir()  # a named pipe would be waited for
    except (OSError, ValueError):  # a name that is too long, or holds NUL
        return False


def _require_whole(file: Path) -> None:
    """Accept a file or folder that is self-contained.

    Raises:
        InputError: a part of it is a link, no plain file, or lies in another file.
    """
    import h5py

    strange = None
    if file.is_dir():
        parts = (part for part in file.rglob("*") if part.is_symlink() or not (part.is_file() or part.is_dir()))
        strange = next((str(part.relative_to(file)) for part in parts), None)
    elif h5py.is_hdf5(file):
        with h5py.File(file, "r") as opened:
            strange = opened.visititems_links(_links_away) or opened.visititems(_reads_elsewhere)
    if strange is not None:
        raise InputError(f"{file}: {strange[:200]!r} is a link, or lies in another file. Put it into this one.")


def _links_away(name: str, link: Any) -> str | None:
    """The name of a link to another file; None for any other link."""
    import h5py

    return name if isinstance(link, h5py.ExternalLink) else None


def _reads_elsewhere(name: str, item: Any) -> str | None:
    """The name of a dataset whose values lie in other files; None for anything else."""
    import h5py

    return name if isinstance(item, h5py.Dataset) and (item.external or item.is_virtual) else None


def _require_numbers(file: Path, dataset: "xr.Dataset") -> int:
    """Bytes of memory that a dataset of numbers takes, with those to decode it; its values are not read.

    Raises:
        InputError: a variable holds objects, or the whole would take more than half of this machine's memory.
    """
    for name, variable in dataset.variables.items():
        if variable.dtype.kind == "O":
            raise InputError(f"{file}: {str(name)[:200]!r} holds objects, and fields hold numbers only. Take it out.")
    most = _half_the_memory()
    # What is compressed, or never written, may be a few bytes on the disk; a piece is decoded whole, however little of
    # it counts.
    takes = dataset.nbytes + sum(_piece(variable) for variable in dataset.variables.values())
    if takes > most:
        raise InputError(f"{file}: takes {takes} bytes of memory, of {most} that it may. Give a coarser field.")
    return int(takes)


def _half_the_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _piece(variable: "xr.Variable") -> int:
    """Bytes of one piece (chunk or shard) of a stored variable; 0 where it is not stored in pieces."""
    pieces = (variable.encoding.get(name) for name in ("shards", "chunks", "chunksizes"))
    shape = next((piece for piece in pieces if piece), None)
    return math.prod(shape) * variable.dtype.itemsize if shape else 0


def _swells(file: Path, dataset: "xr.Dataset") -> bool:
    """True if what is compressed in a file may become more than the memory that it may take."""
    stored, most = [variable.encoding for variable in dataset.variables.values()], _half_the_memory()
    if not file.is_dir():
        packed = any(each.get("chunksizes") for each in stored)  # what is contiguous is not compressed
        return packed and (file.stat().st_size * _DEFLATE > most or _packed_twice(file))
    if not all(_packed_once(each) for each in stored):
        return True
    held = sum(part.stat().st_size for part in file.rglob("*"))
    return any(each.get("compressors") or each.get("filters") for each in stored) and held * _ZSTD > most


def _packed_twice(file: Path) -> bool:
    """True if a dataset of a netCDF 4 was compressed, and what came of it again: each time it may swell."""
    import h5py

    def packed(name: str, item: Any) -> str | None:
        made = item.id.get_create_plist() if isinstance(item, h5py.Dataset) else None
        kinds = [made.get_filter(place)[0] for place in range(made.get_nfilters())] if made else []
        plain = {h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}  # which leave the size as it is
        return name if sum(kind not in plain for kind in kinds) > 1 else None

    with h5py.File(file, "r") as opened:
        return opened.visititems(packed) is not None


def _packed_once(stored: Mapping[Any, Any]) -> bool:
    """True if a variable of zarr is compressed at most once, by what is known; a shard within a shard may hide more."""
    codecs = [codec for name in ("compressors", "filters") for codec in stored.get(name) or ()]
    known = all(type(codec).__name__.lower().removesuffix("codec") in _KNOWN for codec in codecs)
    return known and len(codecs) < 2 and type(stored.get("serializer")).__name__ in _WHOLE


def _plain(dataset: "xr.Dataset") -> "xr.Dataset":
    """The dataset with attributes as Python's own numbers, texts and lists."""
    made = dataset.copy()
    made.attrs = {name: _python(value) for name, value in dataset.attrs.items()}
    for name in made.variables:
        made[name].attrs = {key: _python(value) for key, value in dataset[name].attrs.items()}
    return made


def _python(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
