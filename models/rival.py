"""Protocol of a rival: a whole optimiser of another package, called anew in each iteration."""

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fieldcraft.models.numerics.randomness import seeded
from fieldcraft.models.observations import Array, Observations
from fieldcraft.physics.space import SearchSpace


class Rival(Protocol):
    """A rival: an optimiser as its own package offers it, with that package's defaults; a frozen description.

    It keeps nothing between iterations: each call passes all trials to the package and asks for the next designs. None
    is told of designs that gave no result. In ``provides`` (see ``Capability``) it may state that it takes unknown
    constraints (CONSTRAINED), and in ``requires`` that it takes only spaces without known ones (BOX). One that takes
    only some known constraints is ``TakesSomeSpaces``, as maximizers are.
    """

    def suggest(
        self, data: Observations, pending: Array, space: SearchSpace, q: int, rng: np.random.Generator
    ) -> Array:
        """The next batch, encoded and feasible, shape (q, d); the same arguments give the same batch.

        Args:
            data: The trials that were read.
            pending: Encoded points without a result, which must not be proposed again, shape (k, d).
            space: Where to search.
            q: Number of designs.
            rng: The only source of randomness.

        Raises:
            ValueError: the package is not installed, or cannot search such a space.
        """
        ...


def require(package: str, *modules: str, extra: str = "rivals") -> None:
    """Check that the package of a rival, or of another extra, is installed.

    Raises:
        ValueError: one of its modules is not installed; names the command that installs it.
    """
    if any(find_spec(module) is None for module in modules):
        raise ValueError(
            f"{package} is not installed: \".venv/bin/pip install -c constraints.txt -e '.[{extra}]'\" installs it."
        )


def require_box(space: SearchSpace, package: str) -> None:
    """Accept a space without known constraints.

    Raises:
        ValueError: it has some, and this rival searches only boxes.
    """
    if space.constraints:
        raise ValueError(
            f"The search space has known constraints ({'; '.join(map(str, space.constraints))}), which are not passed "
            f"on to {package}: use another algorithm, such as auto, gp_ei or botorch_log_ei."
        )


def require_lines(space: SearchSpace, package: str) -> None:
    """Accept a space whose known constraints are linear and involve continuous variables only.

    Raises:
        ValueError: one of them is quadratic, or involves an integer.
    """
    (A, _), (E, _) = space.linear, space.equalities
    whole = [
        name for name, at in space.columns.items() if space.discrete[at].any() and np.any(np.vstack([A, E])[:, at])
    ]
    if space.curves or whole:
        why = f"{space.curves[0]} is quadratic" if space.curves else f"{whole[0]} is a whole number"
        raise ValueError(
            f"The search space has known constraints ({'; '.join(map(str, space.constraints))}), and {package} is told "
            f"of linear ones between continuous variables alone: {why}; use another algorithm, such as auto, gp_ei or "
            "botorch_log_ei."
        )


def minimised(data: Observations) -> Array:
    """Results of the objective in its unit, negated where the objective is maximised, shape (n,): less is better."""
    return -data.y if data.maximize else data.y


def all_minimised(data: Observations) -> Array:
    """Results of all objectives in their units, those that are maximised negated, shape (n, m)."""
    signs = [-1.0 if aim.maximize else 1.0 for aim in data.aims] or [-1.0 if data.maximize else 1.0]
    return np.asarray(np.column_stack([data.y, data.further]) * signs)


def feasible(data: Observations) -> NDArray[np.bool_]:
    """True for trials whose results satisfy all constraints, shape (n,)."""
    return np.asarray((data.constraints <= 0).all(axis=1))


def seed_of(rng: np.random.Generator) -> int:
    """A seed of 31 bits, which all packages accept."""
    return int(rng.integers(2**31 - 1))


@contextmanager
def contained(rng: np.random.Generator) -> Iterator[None]:
    """Seed the global generators of Python, numpy and torch from rng, restore them afterwards, and silence warnings.

    For packages that draw from global generators and give warnings that no user of a campaign can act on.
    """
    python, legacy = random.getstate(), np.random.get_state()
    try:
        with seeded(rng), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            random.seed(seed_of(rng))
            np.random.seed(seed_of(rng))
            yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)
