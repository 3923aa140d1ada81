"""Garbage is looked for seldom while a process imports, and as usual from then on."""

import gc
import subprocess
import sys
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


def at_end(begun: str) -> str:
    """Output of a process that leaves a knot, which says when it is found."""
    knot = "class Knot:\n    def __del__(self): print('found')\nknot = Knot()\nknot.self = knot\ndel knot\n"
    done = subprocess.run([sys.executable, "-c", begun + knot], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_nothing_is_looked_through_as_a_process_ends_that_collects_seldom():
    ours = "from fieldcraft.flows.machinery.collecting import as_usual, seldom\nseldom()\n"
    assert at_end("") == "found"
    assert at_end(ours) == ""
    assert at_end(ours + "as_usual()\n") == "found"  # of what a simulator left


def test_a_program_that_imports_fieldcraft_ends_as_usual():
    assert at_end("from fieldcraft import campaign\n") == "found"
