"""A trial reading of a compressed field that somebody hands in, in a process whose memory is bounded.

    python -m fieldcraft.flows.files.field_probe FILE BYTES

What a compressed piece says of its size is not what it becomes: a few kilobytes of deflate may be a gigabyte. Libraries
find out when the memory is gone. So such a field is read once by a process that may take no more than the field says it
has, and only then by the one that keeps it.
"""

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import without_secrets

if TYPE_CHECKING:
    import xarray as xr

_SPARE = 512 * 2**20  # bytes beside the field: what libraries take to read it
_LONGEST_S = 600.0


def require_bounded(file: Path, most: int) -> None:
    """Accept a field that can be read within so many bytes, and some for the reading itself.

    Raises:
        InputError: it takes more, or cannot be read.
    """
    environment = {**without_secrets(os.environ), "MALLOC_ARENA_MAX": "1"}  # each reserves what it may never take
    words = [sys.executable, "-P", "-m", __name__, str(file), str(most)]  # no module of the present folder
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", env=environment, timeout=_LONGEST_S
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{file}: was read for {_LONGEST_S:.0f} s without an end. Give a coarser field.") from None
    if done.returncode:
        reason = " ".join((done.stdout or f"the reader ended by signal {-done.returncode}").split())[:300]
        raise InputError(
            f"{file}: cannot be read within the {most} bytes that it says it has ({reason}). What is compressed in it "
            "is larger than stated, or damaged: write it again."
        )


def opened_field(file: Path, **options: Any) -> "xr.Dataset":
    """A field whose values are not read yet; ``options`` as of ``xarray.open_dataset``."""
    import xarray as xr

    opened: xr.Dataset = (
        xr.open_zarr(file, consolidated=False, decode_times=False, **options)
        if file.is_dir()
        else xr.open_dataset(file, decode_times=False, **options)
    )
    return opened


def _read(file: Path, most: int) -> None:
    import h5py
    import xarray as xr

    assert xr and h5py  # loaded before the memory is bounded
    with open("/proc/self/statm") as held:
        taken = int(held.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + most + _SPARE,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(_LONGEST_S),) * 2)  # also where nobody waits for it any more
    with opened_field(file) as opened:
        opened.load()


if __name__ == "__main__":
    try:
        _read(Path(sys.argv[1]), int(sys.argv[2]))
    except Exception as error:  # the outermost edge of this process: whatever a library stumbles over is its answer
        print(f"{type(error).__name__}: {error}"[:2000])
        raise SystemExit(1) from None
