"""Conversion of named tensors into datasets of plain arrays, which the field store keeps, and back."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    import xarray as xr


def as_dataset(state: Mapping[str, "torch.Tensor"]) -> "xr.Dataset":
    """Convert named tensors into a dataset; a name may have any characters.

    Tensors of one type lie one after the other in one array of its name: a store flushes each array to the disk by
    itself, and a model has dozens of single numbers.
    """
    import xarray as xr

    arrays: dict[str, list[np.ndarray]] = {}
    for tensor in state.values():
        values = tensor.detach().cpu().numpy()
        arrays.setdefault(values.dtype.name, []).append(values.ravel())
    return xr.Dataset(
        {kind: (f"{kind}_0", np.concatenate(parts)) for kind, parts in arrays.items()},
        attrs={
            "names": list(state),
            "kinds": [str(tensor.dtype).removeprefix("torch.") for tensor in state.values()],
            "shapes": [list(tensor.shape) for tensor in state.values()],
        },
    )


def as_state(dataset: "xr.Dataset") -> dict[str, "torch.Tensor"]:
    """Return the named tensors of a dataset of ``as_dataset``, or of an earlier version's, equal to the bit."""
    import torch

    names = dataset.attrs["names"]
    if "shapes" not in dataset.attrs:
        return {name: torch.from_numpy(np.array(dataset[f"a{i}"].values, copy=True)) for i, name in enumerate(names)}
    state, read = {}, dict.fromkeys(map(str, dataset.data_vars), 0)
    for name, kind, shape in zip(names, dataset.attrs["kinds"], dataset.attrs["shapes"], strict=True):
        first = read[kind]
        read[kind] += math.prod(shape)
        state[name] = torch.from_numpy(dataset[kind].values[first : read[kind]].reshape(shape).copy())
    return state


def as_ever_stored(dataset: "xr.Dataset") -> Iterator["xr.Dataset"]:
    """The dataset itself; one of ``as_dataset`` also as earlier versions stored it, with an array for each tensor."""
    import xarray as xr

    yield dataset
    if "shapes" in dataset.attrs:
        arrays = {f"a{i}": tensor.numpy() for i, tensor in enumerate(as_state(dataset).values())}
        dims = {name: tuple(f"{name}_{axis}" for axis in range(a.ndim)) for name, a in arrays.items()}
        yield xr.Dataset({name: (dims[name], a) for name, a in arrays.items()}, attrs={"names": dataset.attrs["names"]})
