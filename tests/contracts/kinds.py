"""The directory is the registry: what a package offers, as the contract tests see it."""

import dataclasses
import importlib
import random
from pathlib import Path

import numpy as np
import torch

from fieldcraft.flows.spec.registry import build

NEEDED = {
    "declared": {
        "variables": [
            {"name": "heat", "low": 20.0, "high": 90.0, "unit": "degC"},
            {"name": "coats", "low": 1.0, "high": 3.0, "whole": True},
            {"name": "glue", "choices": ["A", "B"]},
        ],
        "results": [{"name": "strength", "unit": "MPa"}, {"name": "excess", "unit": "mm"}],
    }
}


def kinds(package):
    """Names of the modules in a package's directory, sorted."""
    folder = Path(importlib.import_module(package).__file__).parent
    return sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))


def public_class(package, kind):
    """The one public class that the module of a kind defines."""
    module = importlib.import_module(f"{package}.{kind}")
    found = [
        value
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    assert len(found) == 1, f"{package}.{kind} defines {[c.__name__ for c in found]}: exactly one public class belongs"
    return found[0]


def is_frozen_dataclass(cls):
    return dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen


def generators():
    """State of the global generators, of which each number drawn is a part."""
    drawn = np.random.get_state(legacy=False)["state"]
    return random.getstate(), drawn["key"].tolist(), drawn["pos"], torch.get_rng_state().tolist()


def problem_of(kind, **options):
    """The problem of a kind, with what it must be given if it states nothing by itself."""
    return build("problems", {"kind": kind, **NEEDED.get(kind, {}), **options})
