"""Files of the stores cut short or with a bit turned: found, said in one line, or mended; nothing wrong is ever used.

The long form turns every bit of every file; the short form some of each. A backup of the ledger has its place here too.
"""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
import xarray as xr
from length import LONG

from fieldcraft.flows.steps.train import Unfinished
from fieldcraft.flows.wiring.tensors import as_dataset
from fieldcraft.storage.fields import FieldError, FieldStore, fields_at, load_group, save_group
from fieldcraft.storage.ledger import LedgerError
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import FieldRef

BITS = 12  # turned in each file in the short form
FIELD = xr.Dataset(
    {"u": ("x", np.linspace(0.0, 1.0, 40) ** 3, {"units": "K"}), "level": ((), 3.5, {"units": "m"})},
    coords={"x": ("x", np.arange(40.0), {"units": "m"})},
    attrs={"seed": 7},
)


def damages(file: Path, *, every: bool) -> Iterator[str]:
    """Damage a file, in one way after the other; it is whole again after each, and in the end."""
    whole = file.read_bytes()
    bits = range(8 * len(whole)) if every else sorted(Random(file.name).sample(range(8 * len(whole)), BITS))
    cuts = range(len(whole)) if every else (0, 1, len(whole) // 2, len(whole) - 1)
    for length in cuts:
        file.write_bytes(whole[:length])
        yield f"{file.name} cut to {length} bytes"
    for bit in bits:
        turned = bytearray(whole)
        turned[bit // 8] ^= 1 << bit % 8
        file.write_bytes(turned)
        yield f"{file.name}: bit {bit} turned"
    file.write_bytes(whole)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def told(error: Exception, what: str) -> None:
    """One line that says what is wrong and what to do."""
    assert "\n" not in str(error), what
    assert any(word in str(error) for word in ("repair", "Upgrade")), f"{what}: {error}"


def test_a_damaged_field_is_found_and_never_read_as_anything_else(ram, count):
    store, seen = fields_at(ram / "fields"), Counter()
    ref = store.write("a", FIELD)
    for file in files(store.path(ref)):
        for what in damages(file, every=LONG):
            try:
                found = store.read(ref)
            except FieldError as error:
                told(error, what)
                seen["damage found"] += 1
            else:  # a space between two words of the manifest, or a number that only ``verify`` looks at
                assert found.identical(FIELD), what
                seen["harmless damage"] += 1
    store.verify(ref)
    assert seen["damage found"] > 5 * seen["harmless damage"]
    count(Counter({"faults injected": sum(seen.values())}) + seen)


def test_verify_finds_every_damage_but_of_spaces_in_the_manifest(ram, count):
    store, seen = fields_at(ram / "verified"), Counter()
    ref = store.write("a", FIELD)
    for file in files(store.path(ref)):
        for what in damages(file, every=LONG):
            if file.name == "manifest.json" and same_manifest(store, ref):
                continue
            with pytest.raises(FieldError, match=r"repair|Upgrade"):
                store.verify(ref)
            seen["damage found"] += 1
            assert what
    count(Counter({"faults injected": sum(seen.values())}) + seen)


def same_manifest(store: FieldStore, ref: FieldRef) -> bool:
    """Whether the manifest still says what it said: JSON has room for other bytes."""
    from fieldcraft.storage.field_store.staging import Manifest

    try:
        manifest = Manifest.model_validate_json((store.path(ref) / "manifest.json").read_bytes())
    except ValueError:
        return False
    return all((store.path(ref) / name).exists() for name in manifest.files) and manifest.digest == ref.digest


def test_a_damaged_field_is_mended_by_whoever_computes_it_again(ram):
    store = fields_at(ram / "mended")
    ref = store.write("a", FIELD)
    chunk = next(file for file in files(store.path(ref)) if file.parent.name == "c" or file.name == "0")
    chunk.write_bytes(chunk.read_bytes()[:-1])
    assert store.write("a", FIELD) == ref
    assert store.read(ref).identical(FIELD)


def test_a_damaged_checkpoint_of_an_unfinished_training_is_dropped_and_the_training_begins_anew(ram, count):
    folder, seen = ram / "train-0001", Counter()
    state = {"weight": torch.arange(6.0, dtype=torch.float64), "step": torch.tensor(4)}
    sound = as_dataset(state).assign_attrs(data="d" * 64, step=4, curve=[{"step": 4, "loss": 0.5}])
    save_group(folder / "000000004", sound)
    shutil.copytree(folder, kept := ram / "kept")
    for name in [file.relative_to(kept) for file in files(kept)]:
        for what in damages(folder / name, every=False):
            found = Unfinished(folder, "d" * 64).load()
            assert found is None or all(torch.equal(found[key], state[key]) for key in state), what
            seen["damage found" if found is None else "harmless damage"] += 1
            if found is None:
                assert not (folder / "000000004").exists(), "it would be tried again at every start"
                shutil.copytree(kept, folder, dirs_exist_ok=True)
    assert load_group(folder / "000000004").identical(load_group(kept / "000000004"))
    assert seen["damage found"] > 5 * seen["harmless damage"]
    count(Counter({"faults injected": sum(seen.values())}) + seen)


def test_a_ledger_that_is_cut_short_is_refused_in_one_line_and_found_by_its_own_check(ram, count):
    path = ram / "torn" / "ledger.sqlite"
    open_ledger(path, create=True).create_campaign("c", {}, EMPTY, {}, "ana")
    whole = closed(path)
    for share in (0.1, 0.5, 0.9):
        cut = ram / f"cut-{share}" / "ledger.sqlite"
        cut.parent.mkdir()
        cut.write_bytes(whole[: int(share * len(whole))])
        try:
            problems = open_ledger(cut).check()
        except LedgerError as error:
            problems = [str(error)]
        assert problems and all("\n" not in problem for problem in problems), share
    count(Counter({"faults injected": 3, "damage found": 3}))


EMPTY = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"  # SHA-256 of {}


def closed(path: Path) -> bytes:
    """The file's bytes, once no connection has it open and its log is folded in."""
    from fieldcraft.storage.ledgers.sqlite import close_idle

    close_idle()
    return path.read_bytes()
