"""Garbage is looked for seldom while a process imports, and as usual from then on."""

import gc
import weakref

from fieldcraft.flows.machinery.collecting import as_usual, seldom


class Knot:
    def __init__(self):
        self.self = self


def forgotten(n: int) -> bool:
    """Whether a knot is gone once n more were made."""
    knot = weakref.ref(Knot())
    kept = [Knot() for _ in range(n)]
    return knot() is None and bool(kept)


def test_garbage_stays_while_imports_go_on_and_no_longer():
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        gc.collect()
        seldom()
        assert not forgotten(5_000)
        as_usual()
        assert gc.get_freeze_count() > frozen
        assert forgotten(5_000)
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
