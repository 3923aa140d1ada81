"""Fields that people hand in: netCDF files and zarr folders, as datasets that the field store can keep."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.errors import InputError

if TYPE_CHECKING:
    import xarray as xr


def read_field(file: Path) -> "xr.Dataset":
    """A field in memory, its attributes as plain JSON.

    Args:
        file: netCDF 3 or 4, or a folder of zarr.

    Raises:
        InputError: it is not there, is something else, or is damaged.
    """
    import xarray as xr

    if not file.exists():
        raise InputError(f"{file}: there is no such file. Give a netCDF file or a zarr folder.")
    try:
        opened = xr.open_zarr(file, consolidated=False) if file.is_dir() else xr.open_dataset(file)
        with opened:
            dataset = opened.load()
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, EOFError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(
            f"{file}: cannot be read as a field ({reason}). Give a netCDF file or a zarr folder."
        ) from None
    if not dataset.data_vars:
        raise InputError(f"{file}: holds no variable. Give the file that holds the field.")
    return _plain(dataset)


def _plain(dataset: "xr.Dataset") -> "xr.Dataset":
    """The dataset with attributes as Python's own numbers, texts and lists."""
    made = dataset.copy()
    made.attrs = {name: _python(value) for name, value in dataset.attrs.items()}
    for name in made.variables:
        made[name].attrs = {key: _python(value) for key, value in dataset[name].attrs.items()}
    return made


def _python(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
