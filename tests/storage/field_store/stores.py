"""What the tests of field stores share: a field, damage, and children that write and die."""

import json
import os
import signal
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import warm_start
import xarray as xr
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from shelves import Bucket, Directory, bucket

from fieldcraft.storage.field_store.content import DTYPES
from fieldcraft.storage.records import FieldRef

Shelf = Directory | Bucket
# Arrays of every type that a field may hold, of few values.
ARRAYS = arrays.arrays(
    st.sampled_from(sorted(DTYPES)).map(np.dtype), arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
)
_names = count()


def new_bucket(client: Any) -> Bucket:
    return bucket(client, f"bucket-{next(_names)}")


CHILD = """
import sys, numpy as np, xarray as xr
from pathlib import Path
from fieldcraft.storage.fields import FieldStore, fields_at, save_group
root = sys.argv[2] if "://" in sys.argv[2] else Path(sys.argv[2])
dataset = xr.Dataset({"u": ("x", np.arange(float(sys.argv[3])))})
if sys.argv[1] == "field":
    print(fields_at(root).write("heat-0001", dataset).digest)
else:
    save_group(root, dataset, written=12.5)
"""


def field(seed: int = 0, n: int = 6) -> xr.Dataset:
    values = np.random.default_rng(seed).standard_normal((n, n))
    return xr.Dataset(
        {"temperature": (("x", "y"), values, {"units": "K"}), "reading": ((), np.float64(seed))},
        coords={"x": ("x", np.linspace(0, 1, n), {"units": "m"}), "y": np.linspace(0, 2, n), "area": ((), 2.0)},
        attrs={"solver": "direct", "mesh": [n, n]},
    )


def child(*arguments: object, **environment: str) -> warm_start.Command:
    return warm_start.Command(["-c", CHILD, *map(str, arguments)], {**os.environ, **environment})


def kill_at(point: str, *arguments: object) -> None:
    process = child(*arguments, FIELDCRAFT_DIE_AT=point)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def assert_same_bits(got: xr.Dataset, expected: xr.Dataset) -> None:
    assert set(got.variables) == set(expected.variables) and set(got.coords) == set(expected.coords)
    assert got.attrs == expected.attrs
    for name, variable in expected.variables.items():
        assert got[name].dims == variable.dims and got[name].attrs == variable.attrs
        assert got[name].dtype == variable.dtype and got[name].shape == variable.shape
        assert got[name].values.tobytes() == variable.values.tobytes()


CHUNK = "field.zarr/temperature/c/0/0"


def chunk(path: Path) -> Path:
    return path / CHUNK


def flip(file: Path) -> None:
    file.write_bytes(flipped(file.read_bytes()))


def flipped(content: bytes) -> bytes:
    changed = bytearray(content)
    changed[len(changed) // 2] ^= 1
    return bytes(changed)


def alter(shelf: Shelf, ref: FieldRef, name: str, change: Any) -> None:
    shelf.write(ref, name, change(shelf.read(ref, name)))


def rewrite(shelf: Shelf, ref: FieldRef, **changes: object) -> None:
    alter(shelf, ref, "manifest.json", lambda text: json.dumps({**json.loads(text), **changes}).encode())
