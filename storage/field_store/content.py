"""Content of a dataset, independent of how it is stored: its arrays, its attributes and the digest of both."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcraft.storage.field_store.labels import CONVENTIONS, unlabelled
from fieldcraft.storage.field_store.staging import FORMAT, FieldError

if TYPE_CHECKING:
    import xarray as xr

Array = np.ndarray[Any, Any]
DTYPES = frozenset(np.dtype(code).name for code in "?bhilqBHILQefdFD")  # what numpy and zarr both store exactly


@dataclass(frozen=True)
class Content:
    """Content of a dataset, independent of how it is stored; its digest is the field's address."""

    variables: dict[str, tuple[tuple[str, ...], Array, dict[str, Any]]]  # name -> dimensions, values, attributes
    attrs: dict[str, Any]  # of the group: the dataset's own, and the names of its coordinates
    digest: str
    size: int
    labels: Mapping[str, Any]  # of the group, beside the content; none where nobody gave any

    @staticmethod
    def of(dataset: xr.Dataset, labels: Mapping[str, Any] | None = None) -> Content:
        """Content of a dataset; the digest does not depend on labels, nor the order of variables, attributes or bytes.

        Raises:
            FieldError: Text or objects as values, attributes that are not JSON, names that cannot be paths.
        """
        variables = {}
        for name in sorted(dataset.variables, key=str):
            variable = dataset.variables[name]
            attrs = _json_attrs(unlabelled(variable.attrs), f"variable {name!r}")
            variables[str(name)] = (tuple(map(str, variable.dims)), _numbers(name, variable.values), attrs)
        attrs = _json_attrs(unlabelled(dataset.attrs), "the dataset")
        if "coordinates" in attrs or any(" " in str(name) for name in dataset.coords):
            raise FieldError(
                "A dataset attribute 'coordinates' and coordinate names with blanks cannot be stored, because readers "
                "of zarr find the coordinates by such an attribute. Rename them."
            )
        if dataset.coords:
            attrs["coordinates"] = " ".join(sorted(map(str, dataset.coords)))
        header = {name: (dims, a.dtype.name, a.shape, own) for name, (dims, a, own) in variables.items()}
        digest = hashlib.sha256(json.dumps([FORMAT, header, attrs], sort_keys=True, separators=(",", ":")).encode())
        for _, values, _ in variables.values():
            digest.update(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())
        size = sum(values.nbytes for _, values, _ in variables.values())
        return Content(variables, attrs, digest.hexdigest(), size, {**CONVENTIONS, **labels} if labels else {})


def _numbers(name: object, values: Array) -> Array:
    if not isinstance(name, str) or not re.fullmatch(r"[^/\\.][^/\\]*", name) or name == "zarr.json":
        raise FieldError(f"A variable is named {name!r}. Use text without slashes that does not start with a dot.")
    if values.dtype.name not in DTYPES:
        raise FieldError(
            f"Variable {name!r} has dtype {values.dtype}, and fields hold numbers only. Code text as integers, and say "
            "in an attribute what they mean."
        )
    return np.asarray(values, dtype=values.dtype.newbyteorder("="), order="C")


def _json_attrs(attrs: Mapping[Any, Any], owner: str) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in attrs.items():
        try:
            kept[str(key)] = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise FieldError(
                f"Attribute {key!r} of {owner} is {value!r} ({type(value).__name__}), which is not JSON. "
                "Use text, bool, int, finite float, list or dict, or store it as a variable."
            ) from error
    return kept
