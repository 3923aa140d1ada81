"""One run of an external program: its files, the meaning of its exit code, and its output as fields.

The program works in ``KEY/files``, a folder of its own within the job's folder (``flows.jobs.job_folder``). Its input
is written there and its output is read from there. It is started with the arguments of the job's request, without a
shell, as a child of the process whose time is limited.
"""

import json
import math
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fieldcraft.flows.files.json_data import each_key_once
from fieldcraft.storage.processes import signal_name
from fieldcraft.storage.records import FailureKind

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from fieldcraft.flows.jobs.job_folder import JobFolder


class ProgramEnded(Exception):
    """The program gave no fields; the message has the reason.

    Args:
        kind: Kind of failure; ``lost`` where it was killed.
        reason: Reason.
    """

    def __init__(self, kind: FailureKind | Literal["lost"], reason: str) -> None:
        super().__init__(reason)
        self.kind = kind

    def tell(self, job: "JobFolder", seconds: float) -> None:
        """Record it in the job's folder."""
        if self.kind == "lost":
            job.lose(str(self))
        else:
            job.fail(self.kind, str(self), seconds)


def run_program(job: "JobFolder", request: Mapping[str, Any]) -> "xr.Dataset":
    """Run the program that a job's request describes and read its output.

    Raises:
        ProgramEnded: it could not be started, failed or was killed, or its output is not as agreed.
    """
    order, folder = request["program"], job.path / "files"
    name = Path(order["argv"][0]).name
    folder.mkdir(exist_ok=True)
    (folder / order["input"]["file"]).write_text(order["input"]["text"], encoding="utf-8")
    try:
        code = subprocess.run(order["argv"], cwd=folder, stdin=subprocess.DEVNULL, check=False).returncode
    except OSError as error:
        raise ProgramEnded("unknown", f"{name} could not be started: {error.strerror or error}") from None
    if code < 0:
        raise ProgramEnded("lost", f"{name} was killed by {signal_name(-code)}")
    if code > 0:
        kind = order["exit_codes"].get(str(code), "unknown")
        raise ProgramEnded(kind, f"{name} ended with exit code {code}: {job.last_line()}")
    try:
        return _fields(folder / order["output"]["file"], order["output"]["format"], request["outputs"])
    except (OSError, ValueError, RecursionError) as error:
        raise ProgramEnded("unknown", f"{name} ended well, but its output cannot be used: {error}") from None


def _fields(file: Path, form: str, units: Mapping[str, str]) -> "xr.Dataset":
    """The fields in an output file; an output without a unit of its own has the problem's.

    Raises:
        ValueError: the file is missing, no output of that form, or one of its units is another than the problem's.
    """
    if file.is_symlink() or not file.is_file():
        raise ValueError(f"it wrote no file {file.name!r}. Compare dispatcher.output.file with what it writes")
    fields = from_json(file.read_bytes()) if form == "json" else from_netcdf(file)
    for name, unit in units.items():
        if name in fields and (said := fields[name].attrs.setdefault("units", unit)) != unit:
            raise ValueError(f"{name!r} is in {said!r}, and the problem has it in {unit!r}. Let both agree")
    return fields


def from_json(raw: bytes) -> "xr.Dataset":
    """Fields from a mapping of names to numbers, or to ``{values: ..., dims: [...], units: ...}``, in UTF-8.

    Raises:
        ValueError: it is not that; names the variable.
    """
    import xarray as xr

    try:
        data = json.loads(raw.decode("utf-8-sig"), object_pairs_hook=each_key_once)
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    except ValueError as error:
        raise ValueError(f"it is no JSON ({error})") from None
    if not isinstance(data, dict) or not data:
        raise ValueError(f"it holds {data!r:.40}, not a mapping of names to numbers or arrays")
    return xr.Dataset({name: _variable(name, value) for name, value in data.items()})


def _variable(name: str, given: Any) -> "tuple[tuple[str, ...], np.ndarray, dict[str, str]]":
    part = given if isinstance(given, dict) else {"values": given}
    dims, units = part.get("dims", []), part.get("units")
    if "values" not in part or part.keys() - {"values", "dims", "units"}:
        raise ValueError(f"{name!r} has the keys {', '.join(part)}: give 'values', and 'dims' and 'units' where due")
    if not isinstance(dims, list) or not all(isinstance(each, str) for each in [*dims, units or ""]):
        raise ValueError(f"{name!r} has dims {dims!r} and units {units!r}: give a list of names, and text")
    values = _array(name, part["values"])
    if values.ndim != len(dims):
        raise ValueError(f"{name!r} has {values.ndim} dimensions and the dims {dims!r}: name each")
    return tuple(dims), values, {} if units is None else {"units": units}


def _array(name: str, values: Any) -> "np.ndarray":
    import numpy as np

    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "if":
        raise ValueError(f"{name!r} is {values!r:.40}: give a number, or a list of numbers of one shape")
    return array if array.dtype.kind == "f" or array.ndim else np.asarray(float(array))


def from_netcdf(file: Path) -> "xr.Dataset":
    """Fields of a netCDF-4 file, whole in memory, times as numbers.

    Raises:
        ValueError: it is no such file.
    """
    import xarray as xr

    try:
        with xr.open_dataset(file, engine="h5netcdf", decode_times=False) as opened:
            fields = opened.load()
    except (OSError, KeyError, ValueError) as error:
        raise ValueError(f"it is no netCDF-4 file that can be read ({error})") from None
    fields.attrs = {str(key): _plain(value) for key, value in fields.attrs.items()}
    for variable in fields.variables.values():
        variable.attrs = {str(key): _plain(value) for key, value in variable.attrs.items()}
    return fields


def _plain(value: Any) -> Any:
    """An attribute as JSON data; infinity and NaN as text."""
    found = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(found, bytes):
        return found.decode(errors="replace")
    return str(found) if isinstance(found, float) and not math.isfinite(found) else found
