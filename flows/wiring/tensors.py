"""Conversion of named tensors into datasets of plain arrays, which the field store keeps, and back."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    import xarray as xr


def as_dataset(state: Mapping[str, "torch.Tensor"]) -> "xr.Dataset":
    """Convert named tensors into a dataset of plain arrays; a name may have any characters."""
    import xarray as xr

    arrays = {f"a{i}": tensor.detach().cpu().numpy() for i, tensor in enumerate(state.values())}
    return xr.Dataset(
        {name: (tuple(f"{name}_{axis}" for axis in range(a.ndim)), a) for name, a in arrays.items()},
        attrs={"names": list(state)},
    )


def as_state(dataset: "xr.Dataset") -> dict[str, "torch.Tensor"]:
    """Return the named tensors of a dataset of ``as_dataset``, equal to the bit."""
    import torch

    return {
        key: torch.from_numpy(np.array(dataset[f"a{i}"].values, copy=True))
        for i, key in enumerate(dataset.attrs["names"])
    }
