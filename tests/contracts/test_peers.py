"""The contract of models/peer.py, for every file in models/peers: the packages themselves, on two small spaces."""

import logging
import random
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from kinds import is_frozen_dataclass, kinds, public_class

from models.observations import Array, Observations
from models.peer import require
from physics.space import Categorical, Continuous, Integer, LinearConstraint, SearchSpace

PACKAGE = "models.peers"
SPACE = SearchSpace((Continuous("x", 0.0, 2.0, "m"), Continuous("y", -1.0, 1.0)))
MIXED = SearchSpace((Continuous("x", 0.0, 2.0, "m"), Integer("n", 1, 3), Categorical("metal", ("iron", "tin"))))
CUT = SearchSpace(SPACE.variables, (LinearConstraint({"x": 1.0, "y": 1.0}, 1.0),))
TAKES_CONSTRAINTS = {"botorch_log_ei", "botorch_qlognei"}


def data(space, maximize=False):
    """Six readings that are best near the encoded point (0.3, 0, ...), and one from before the space was narrowed."""
    X = np.concatenate([space.sample(6, np.random.default_rng(1)), space.repair(np.full((1, space.dimension), 2.0))])
    X[-1, 0] = 1.5
    y = (X[:, 0] - 0.3) ** 2 + 0.2 * (X[:, 1:] ** 2).sum(axis=1)
    return Observations(X=X, y=-y if maximize else y, maximize=maximize)


@dataclass(frozen=True)
class Asked:
    """What a peer answered, and what it left behind."""

    kind: str
    pending: Array
    low: Array
    high: Array
    mixed: Array
    silent: bool
    untouched: bool


def generators():
    return (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())


@pytest.fixture(scope="module", params=kinds(PACKAGE))
def asked(request):
    peer = public_class(PACKAGE, request.param)()
    pending, none = SPACE.encode([{"x": 1.3, "y": 0.0}]), np.empty((0, MIXED.dimension))
    before, heard = generators(), list[logging.LogRecord]()
    listener = logging.Handler()
    listener.emit = heard.append
    logging.getLogger().addHandler(listener)
    low = peer.suggest(data(SPACE), pending, SPACE, 2, np.random.default_rng(3))
    high = peer.suggest(data(SPACE, maximize=True), pending, SPACE, 2, np.random.default_rng(3))
    mixed = peer.suggest(data(MIXED), none, MIXED, 1, np.random.default_rng(3))
    logging.getLogger().removeHandler(listener)
    return Asked(request.param, pending, low, high, mixed, not heard, generators() == before)


def test_a_peer_is_one_public_frozen_dataclass(asked):
    assert is_frozen_dataclass(public_class(PACKAGE, asked.kind))


def test_every_design_is_feasible_and_encoded_exactly(asked):
    for space, X in ((SPACE, asked.low), (MIXED, asked.mixed)):
        for design in space.decode(X):
            space.check(design)
        np.testing.assert_allclose(space.encode(space.decode(X)), X, atol=1e-12)
    assert (len(asked.low), len(asked.mixed)) == (2, 1)


def test_maximising_is_minimising_with_the_sign_turned_and_the_seed_determines_the_designs(asked):
    np.testing.assert_array_equal(asked.low, asked.high)


def test_designs_differ_from_each_other_and_from_what_is_pending(asked):
    designs = np.concatenate([asked.low, asked.pending])
    assert len(np.unique(designs.round(6), axis=0)) == 3


def test_the_global_generators_are_left_alone_and_nothing_is_logged(asked):
    assert asked.untouched
    assert asked.silent


@pytest.mark.parametrize("kind", [kind for kind in kinds(PACKAGE) if kind not in TAKES_CONSTRAINTS])
def test_a_peer_that_cannot_keep_linear_constraints_refuses_them(kind):
    with pytest.raises(ValueError, match=r"linear constraints \(1 x \+ 1 y <= 1\).*use another sentence"):
        public_class(PACKAGE, kind)().suggest(data(SPACE), np.empty((0, 2)), CUT, 1, np.random.default_rng(0))


def test_botorch_keeps_linear_constraints():
    peer = public_class(PACKAGE, "botorch_log_ei")()
    (design,) = CUT.decode(peer.suggest(data(SPACE), np.empty((0, 2)), CUT, 1, np.random.default_rng(0)))
    CUT.check(design)


def test_baybe_refuses_to_write_out_what_would_fill_the_memory():
    wide = SearchSpace((Integer("n", 0, 999), Integer("m", 0, 999)))
    few = Observations(X=wide.sample(2, np.random.default_rng(0)), y=[1.0, 2.0], maximize=False)
    with pytest.raises(ValueError, match=r"1e\+06 combinations of discrete values.*more than 100000 are refused"):
        public_class(PACKAGE, "baybe")().suggest(few, np.empty((0, 2)), wide, 1, np.random.default_rng(0))


def test_a_missing_package_is_one_error_that_says_how_to_install_it():
    with pytest.raises(ValueError, match=r"Rival is not installed: .*\.venv/bin/pip install .*-e '\.\[rivals\]'"):
        require("Rival", "a_package_that_nobody_has")
