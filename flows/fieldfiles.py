"""Fields that people hand in: netCDF files and zarr folders, as datasets that the field store can keep."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.errors import InputError

if TYPE_CHECKING:
    import xarray as xr


def read_field(file: Path) -> "xr.Dataset":
    """A field in memory, its attributes as plain JSON; times stay the numbers, with units, that they are stored as.

    Args:
        file: netCDF 3 or 4, or a folder of zarr.

    Raises:
        InputError: it is not there, is something else, or is damaged.
    """
    import xarray as xr

    if not _exists(file):
        raise InputError(f"{str(file)[:300]}: there is no such file. Give a netCDF file or a zarr folder.")
    try:
        opened = (
            xr.open_zarr(file, consolidated=False, decode_times=False)
            if file.is_dir()
            else xr.open_dataset(file, decode_times=False)
        )
        with opened:
            dataset = opened.load()
    except Exception as error:  # the outermost edge of a damaged file: libraries raise what they stumble over
        reason = " ".join(str(error).split())[:300]
        raise InputError(
            f"{file}: cannot be read as a field ({reason}). Give a netCDF file or a zarr folder."
        ) from None
    if not dataset.data_vars:
        raise InputError(f"{file}: holds no variable. Give the file that holds the field.")
    return _plain(dataset)


def _exists(file: Path) -> bool:
    try:
        return file.exists()
    except (OSError, ValueError):  # a name that is too long, or holds NUL
        return False


def _plain(dataset: "xr.Dataset") -> "xr.Dataset":
    """The dataset with attributes as Python's own numbers, texts and lists."""
    made = dataset.copy()
    made.attrs = {name: _python(value) for name, value in dataset.attrs.items()}
    for name in made.variables:
        made[name].attrs = {key: _python(value) for key, value in dataset[name].attrs.items()}
    return made


def _python(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
