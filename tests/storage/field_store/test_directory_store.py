"""Fields in a directory: what is of a disk alone."""

import os
import resource
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from shelves import Directory
from stores import field, rewrite

from fieldcraft.storage.field_store.staging import copy_file, staged
from fieldcraft.storage.fields import DirectoryStore, FieldDamaged, FieldError, Sweep
from fieldcraft.storage.records import FieldRef


def test_verify_finds_content_that_is_not_the_digests(local: DirectoryStore, tmp_path: Path) -> None:
    ref, other = local.write("a", field(0)), local.write("b", field(1))
    os.rename(local.path(other), local.root / "away")
    os.rename(local.path(ref), local.path(other))
    rewrite(Directory(tmp_path), other, digest=other.digest)
    with pytest.raises(FieldDamaged, match=f"holds the content {ref.digest}"):
        local.verify(other)
    with pytest.raises(FieldDamaged, match="reference 7"):
        os.rename(local.path(other), local.path(ref))
        rewrite(Directory(tmp_path), ref, digest=ref.digest)
        local.verify(FieldRef(digest=ref.digest, size=7))


def test_a_full_disk_publishes_nothing_and_says_so(local: DirectoryStore) -> None:
    noise = xr.Dataset({"v": ("k", np.random.default_rng(0).random(5000))})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))  # the kernel refuses the write, as a full disk does
    try:
        with pytest.raises(FieldError, match=r"The disk refused .*Nothing was published. Check the free space"):
            local.write("heat-0001", noise)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert local.digests() == set() and list((local.root / ".staging").iterdir()) == []
    local.verify(local.write("heat-0001", noise))


def test_a_copy_onto_a_full_disk_names_the_file_that_was_to_be_written(tmp_path: Path) -> None:
    (tmp_path / "from").write_bytes(bytes(40_000))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(OSError, match="File too large") as refused:
            copy_file(tmp_path / "from", tmp_path / "to" / "it")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (refused.value.filename, refused.value.filename2) == (str(tmp_path / "to" / "it"), None)


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fields").write_text("not a folder")
    with pytest.raises(FieldError, match=r"The disk refused .*fields"):
        DirectoryStore(tmp_path / "fields").write("a", field())


def test_a_sweep_tells_a_live_writer_from_one_whose_pid_is_another_processes_by_now(local: DirectoryStore) -> None:
    kept, orphan = local.write("a", field(0)), local.write("b", field(1))
    folder = local.root / ".staging"
    (folder / f"live-{os.getpid()}-999").mkdir()
    (folder / f"other-{os.getpid()}@another_host-997").mkdir()  # of whose processes nothing is known here
    reused = folder / f"reused-{os.getpid()}-998"  # an earlier process had our pid
    reused.mkdir()
    os.utime(reused, (1e9, 1e9))
    expected = Sweep(staging=(reused.name,), orphans=(orphan.digest,))
    assert local.sweep({kept.digest}, remove=False) == expected
    assert local.digests() == {kept.digest, orphan.digest} and reused.exists()
    assert local.sweep({kept.digest}, remove=True) == expected
    assert local.digests() == {kept.digest}
    left = [f"live-{os.getpid()}-999", f"other-{os.getpid()}@another_host-997"]
    assert sorted(path.name for path in folder.iterdir()) == left
    local.verify(kept)


def test_what_a_live_process_writes_is_spared_though_the_clock_was_set_since(local: DirectoryStore) -> None:
    with staged(local.root, "a") as writing:
        os.utime(writing, (1e9, 1e9))
        assert local.sweep((), remove=True).staging == ()
        assert writing.exists()
