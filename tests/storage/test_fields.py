import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from shelves import SECRET, Bucket, Directory, bucket, s3_server

from fieldcraft.storage import fields
from fieldcraft.storage.field_store import objects, staging
from fieldcraft.storage.field_store.staging import StoreAway, staged
from fieldcraft.storage.fields import FieldDamaged, FieldError, FieldStore, load_group, save_group, stray_staging
from fieldcraft.storage.records import FieldRef

CHILD = """
import sys, numpy as np, xarray as xr
from pathlib import Path
from fieldcraft.storage.fields import FieldStore, save_group
root = sys.argv[2] if "://" in sys.argv[2] else Path(sys.argv[2])
dataset = xr.Dataset({"u": ("x", np.arange(float(sys.argv[3])))})
print(FieldStore(root).write("heat-0001", dataset).digest if sys.argv[1] == "field" else save_group(root, dataset))
"""


def field(seed: int = 0, n: int = 6) -> xr.Dataset:
    values = np.random.default_rng(seed).standard_normal((n, n))
    return xr.Dataset(
        {"temperature": (("x", "y"), values, {"units": "K"}), "reading": ((), np.float64(seed))},
        coords={"x": ("x", np.linspace(0, 1, n), {"units": "m"}), "y": np.linspace(0, 2, n), "area": ((), 2.0)},
        attrs={"solver": "direct", "mesh": [n, n]},
    )


def child(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, *map(str, arguments)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_at(point: str, *arguments: object) -> None:
    process = child(*arguments, FIELDCRAFT_DIE_AT=point)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def assert_same_bits(got: xr.Dataset, expected: xr.Dataset) -> None:
    assert set(got.variables) == set(expected.variables) and set(got.coords) == set(expected.coords)
    assert got.attrs == expected.attrs
    for name, variable in expected.variables.items():
        assert got[name].dims == variable.dims and got[name].attrs == variable.attrs
        assert got[name].dtype == variable.dtype and got[name].shape == variable.shape
        assert got[name].values.tobytes() == variable.values.tobytes()


Shelf = Directory | Bucket
POINTS = {
    Directory: ["field.rename.before", "field.rename.after"],
    Bucket: ["objects.staged.before", "objects.staged.after", "objects.commit.before", "objects.commit.after"],
}
_names = count()


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    with s3_server() as client:
        yield client


@pytest.fixture(params=["directory", "s3"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    """Every test that takes it, or ``store``, runs over both stores."""
    if request.param == "directory":
        return Directory(tmp_path)
    return bucket(request.getfixturevalue("s3"), f"bucket-{next(_names)}")


@pytest.fixture
def store(shelf: Shelf) -> FieldStore:
    return shelf.store


@pytest.fixture
def local(tmp_path: Path) -> FieldStore:
    return FieldStore(tmp_path / "fields")


def test_a_field_comes_back_with_its_coordinates_units_and_attributes(store: FieldStore) -> None:
    ref = store.write("heat-0001", field())
    assert_same_bits(store.read(ref), field())
    assert ref.size == sum(variable.nbytes for variable in field().variables.values())
    store.verify(ref)


def test_xarray_alone_reads_a_stored_field(shelf: Shelf) -> None:
    ref = shelf.store.write("heat-0001", field())
    with xr.open_zarr(shelf.group(ref), consolidated=False) as opened:
        xr.testing.assert_identical(opened.load(), field())


def test_checkpoint_arrays_keep_dtype_and_bits(store: FieldStore) -> None:
    checkpoint = xr.Dataset(
        {
            "generator": ("byte", np.arange(256, dtype=np.uint8)),
            "step": ((), np.int64(2**60 + 1)),
            "points": (("row", "axis"), np.empty((0, 2))),
            "weights": (("out", "in"), np.full((3, 2), 0.1, dtype=np.float32)),
            "odd": ("k", np.array([-0.0, np.nan, np.inf, 5e-324])),
            "negative zeros": ("k", np.full(4, -0.0)),
            "minus zero": ((), np.float64(-0.0)),
            "done": ((), np.bool_(True)),
        }
    )
    assert_same_bits(store.read(store.write("checkpoint", checkpoint)), checkpoint)


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(
        st.sampled_from([np.dtype(name) for name in ("f8", "f4", "f2", "u1", "i8", "c16", "?")]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    )
)
def test_any_numeric_array_comes_back_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, values: np.ndarray) -> None:
    store = FieldStore(tmp_path_factory.getbasetemp() / "any")
    dataset = xr.Dataset({"v": (tuple(f"d{axis}" for axis in range(values.ndim)), values)})
    ref = store.write("any", dataset)
    assert_same_bits(store.read(ref), dataset)
    store.verify(ref)


def test_an_array_larger_than_a_chunk_is_cut_and_comes_back(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    store = shelf.store
    monkeypatch.setattr(fields, "CHUNK_BYTES", 1000)
    large = xr.Dataset({"v": (("a", "b", "c"), np.random.default_rng(0).random((3, 50, 7)))})
    ref = store.write("large", large)
    chunks = [name for name in shelf.everything() if "/field.zarr/v/c/" in name]
    assert len(chunks) == 3 * 3  # 17 rows of 7 numbers are 952 bytes
    assert_same_bits(store.read(ref), large)


def test_an_identical_field_is_stored_once(shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = shelf.store
    monkeypatch.setenv("FIELDCRAFT_POINTS_LOG", str(tmp_path / "points"))
    one = field()
    two = field()[["reading", "temperature"]]
    two.attrs = dict(reversed(one.attrs.items()))
    assert store.write("heat-0001", one) == store.write("heat-0002", two)
    assert len(store.digests()) == 1
    assert sum(name.endswith("/manifest.json") for name in shelf.everything()) == 1
    passed = [line.partition("#")[0] for line in (tmp_path / "points").read_text().splitlines()]
    assert passed == POINTS[type(shelf)]  # the second write did nothing


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.assign(reading=np.nextafter(d.reading, 1)),
        lambda d: d.assign(reading=-d.reading),
        lambda d: d.assign(reading=d.reading.astype(np.float32)),
        lambda d: d.rename({"x": "z"}),
        lambda d: d.reset_coords("area"),
        lambda d: d.assign_attrs(solver="iterative"),
        lambda d: d.assign(temperature=d.temperature.assign_attrs(units="C")),
        lambda d: d.drop_vars("reading"),
    ],
    ids=["last bit", "sign of zero", "dtype", "name", "coordinate", "attribute", "unit", "variable"],
)
def test_every_difference_gives_another_digest(store: FieldStore, change: object) -> None:
    assert store.write("a", field()).digest != store.write("b", change(field())).digest
    assert len(store.digests()) == 2


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (xr.Dataset({"label": ("k", np.array(["a", "b"]))}), "'label' has dtype <U1, and fields hold numbers only"),
        (xr.Dataset({"thing": ("k", np.array([{}, None], dtype=object))}), "'thing' has dtype object"),
        (xr.Dataset({"when": ("k", np.array(["2026-01-01"], "M8[ns]"))}), "'when' has dtype datetime64"),
        (xr.Dataset({"v": ((), 1.0, {"made": Path("x")})}), "Attribute 'made' of variable 'v' is .*not JSON"),
        (xr.Dataset(attrs={"limit": float("nan")}), "Attribute 'limit' of the dataset is nan .*not JSON"),
        (xr.Dataset({"a/b": ((), 1.0)}), "named 'a/b'.*without slashes"),
        (xr.Dataset({3: ((), 1.0)}), "named 3"),
        (xr.Dataset(attrs={"coordinates": "x"}), "attribute 'coordinates'.*Rename"),
    ],
)
def test_what_is_not_numbers_and_json_is_refused_and_nothing_is_made(
    shelf: Shelf, dataset: xr.Dataset, message: str
) -> None:
    with pytest.raises(FieldError, match=message):
        shelf.store.write("heat-0001", dataset)
    assert shelf.everything() == []


def test_some_variables_are_read_with_their_coordinates(store: FieldStore) -> None:
    ref = store.write("heat-0001", field())
    assert set(store.read(ref, ["temperature"]).variables) == {"temperature", "x", "y", "area"}
    assert set(store.read(ref, ["reading"]).variables) == {"reading", "area"}
    with pytest.raises(FieldError, match=r"no variable 'pressure'. It has: area, reading, temperature, x, y"):
        store.read(ref, ["pressure"])


CHUNK = "field.zarr/temperature/c/0/0"


def chunk(path: Path) -> Path:
    return path / CHUNK


def flip(file: Path) -> None:
    file.write_bytes(flipped(file.read_bytes()))


def flipped(content: bytes) -> bytes:
    changed = bytearray(content)
    changed[len(changed) // 2] ^= 1
    return bytes(changed)


def alter(shelf: Shelf, ref: FieldRef, name: str, change: Any) -> None:
    shelf.write(ref, name, change(shelf.read(ref, name)))


def rewrite(shelf: Shelf, ref: FieldRef, **changes: object) -> None:
    alter(shelf, ref, "manifest.json", lambda text: json.dumps({**json.loads(text), **changes}).encode())


DAMAGE: dict[str, tuple[Any, str]] = {
    "missing chunk": (lambda s, ref: s.delete(ref, CHUNK), "temperature/c/0/0 is missing"),
    "truncated chunk": (
        lambda s, ref: alter(s, ref, CHUNK, lambda content: content[:40]),
        "temperature/c/0/0 has 40 bytes instead of .*truncated",
    ),
    "flipped bit": (lambda s, ref: alter(s, ref, CHUNK, flipped), "temperature/c/0/0 does not have the checksum"),
    "flipped metadata": (
        lambda s, ref: alter(s, ref, "field.zarr/temperature/zarr.json", flipped),
        "zarr.json does not have the checksum",
    ),
    "missing manifest": (lambda s, ref: s.delete(ref, "manifest.json"), "manifest.json is missing"),
    "torn manifest": (
        lambda s, ref: alter(s, ref, "manifest.json", lambda text: text[:50]),
        "manifest.json is broken",
    ),
    "strange manifest": (lambda s, ref: rewrite(s, ref, extra=1), "manifest.json is broken .*Extra inputs"),
    "manifest of another": (lambda s, ref: rewrite(s, ref, digest="f" * 64), "belongs to the digest f{64}"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_found_by_verify_and_never_read(shelf: Shelf, kind: str) -> None:
    ref = shelf.store.write("heat-0001", field())
    damage, message = DAMAGE[kind]
    damage(shelf, ref)
    with pytest.raises(FieldDamaged, match=message):
        shelf.store.verify(ref)
    with pytest.raises(FieldDamaged, match=message):
        shelf.store.read(ref)


def test_verify_finds_a_file_too_many(shelf: Shelf) -> None:
    ref = shelf.store.write("a", field())
    shelf.write(ref, "field.zarr/notes.txt", b"mine")
    with pytest.raises(FieldDamaged, match=r"field.zarr/notes.txt is not in the manifest"):
        shelf.store.verify(ref)


def test_verify_finds_content_that_is_not_the_digests(local: FieldStore, tmp_path: Path) -> None:
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


def test_a_field_that_was_never_written_and_one_of_a_newer_format_are_told_apart(shelf: Shelf) -> None:
    store = shelf.store
    with pytest.raises(FieldDamaged, match=r"manifest.json is missing"):
        store.read(FieldRef(digest="0" * 64, size=1))
    ref = store.write("a", field())
    rewrite(shelf, ref, format=2)
    with pytest.raises(FieldError, match=r"field format 2, newer than 1. Upgrade"):
        store.read(ref)


def test_a_copy_replaces_what_is_damaged_without_a_change_of_size_in_either_kind_of_store(
    shelf: Shelf, s3: Any, tmp_path: Path
) -> None:
    source = bucket(s3, f"source-{next(_names)}").store if isinstance(shelf, Directory) else FieldStore(tmp_path)
    ref = source.write("a", field())
    assert shelf.store.take(ref, source)
    alter(shelf, ref, CHUNK, lambda content: bytes([content[0] ^ 1, *content[1:]]))
    assert shelf.store.take(ref, source)
    shelf.store.verify(ref)
    assert not shelf.store.take(ref, source)


def test_writing_a_damaged_field_again_repairs_it(shelf: Shelf) -> None:
    ref = shelf.store.write("a", field())
    alter(shelf, ref, CHUNK, lambda content: content[:3])
    assert shelf.store.write("a", field()) == ref
    shelf.store.verify(ref)
    assert not [name for name in shelf.everything() if name.startswith(".staging")]


@pytest.mark.parametrize("point", ["objects.staged.before", "objects.staged.after", "objects.commit.before"])
def test_a_kill_before_the_commit_of_objects_publishes_nothing_and_leaves_what_a_sweep_deletes(
    s3: Any, point: str
) -> None:
    shelf = bucket(s3, f"bucket-{next(_names)}")
    kill_at(f"{point}#1", "field", shelf.root, 9)
    assert shelf.store.digests() == set()
    found = shelf.store.sweep((), remove=False)
    assert [name.split("-")[0] for name in found.staging] == ["heat_0001"] and found.orphans == ()
    assert shelf.store.sweep((), remove=True) == found
    assert shelf.everything() == []
    kept = shelf.store.write("heat-0001", xr.Dataset({"u": ("x", np.arange(9.0))}))
    shelf.store.verify(kept)


def test_a_kill_after_the_commit_of_objects_has_published_a_sound_field_that_a_sweep_keeps(s3: Any) -> None:
    shelf = bucket(s3, f"bucket-{next(_names)}")
    kill_at("objects.commit.after#1", "field", shelf.root, 9)
    (digest,) = shelf.store.digests()
    shelf.store.tidy()
    shelf.store.verify(FieldRef(digest=digest, size=72))
    assert shelf.store.sweep({digest}, remove=False) == fields.Sweep(staging=(), orphans=())


def test_two_writers_of_one_content_leave_one_sound_field_of_objects(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def overtake(point: str) -> None:
        if point == "objects.staged.after":
            monkeypatch.undo()
            shelf.store.write("other", field())

    shelf = bucket(s3, f"bucket-{next(_names)}")
    monkeypatch.setattr(objects, "commit_point", overtake)
    ref = shelf.store.write("heat-0001", field())
    shelf.store.verify(ref)
    writers = {name.split("/")[2] for name in shelf.everything()}
    assert sum(not name.endswith(".json") for name in writers) == 1 and not any("heat" in name for name in writers)


def test_what_another_machine_writes_is_stray_only_after_a_day(s3: Any) -> None:
    shelf = bucket(s3, f"bucket-{next(_names)}")
    for writer, age_s in (("young", 3600.0), ("old", 1e5)):
        begun = f"{time.time_ns() - int(age_s * 1e9):x}"
        shelf.client.put_object(
            Bucket=shelf.name, Key=f"fields/.staging/{writer}-{'0' * 12}-5.00-{os.getpid()}-{begun}-0", Body=b"a" * 64
        )
    assert [name.split("-")[0] for name in shelf.store.sweep((), remove=True).staging] == ["old"]
    assert len(shelf.everything()) == 1


@pytest.mark.parametrize("action", ["write", "read", "sweep"])
def test_a_bucket_that_is_not_there_is_one_clear_error(s3: Any, action: str) -> None:
    store = FieldStore("s3://nobodys-bucket/fields")
    ref = FieldRef(digest="0" * 64, size=1)
    act = {"write": lambda: store.write("a", field()), "read": lambda: store.read(ref), "sweep": store.digests}
    with pytest.raises(StoreAway, match="There is no bucket 'nobodys-bucket'"):
        act[action]()


def test_a_server_that_is_away_or_refuses_is_one_clear_error_without_credentials(
    s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = bucket(s3, f"bucket-{next(_names)}")
    ref = shelf.store.write("a", field())
    with socket.socket() as closed, monkeypatch.context() as patch:  # bound, never listening
        closed.bind(("127.0.0.1", 0))
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{closed.getsockname()[1]}")
        run = child("field", shelf.root, 9)
        _, said = run.communicate()
    last = said.strip().splitlines()[-1]
    assert run.returncode == 1 and "StoreAway: The object store of s3://" in last and "Nothing was published" in last
    assert SECRET not in said
    shelf.store.verify(ref)


def test_a_kill_before_the_rename_publishes_nothing_and_leaves_one_directory_to_sweep(local: FieldStore) -> None:
    kill_at("field.rename.before#1", "field", local.root, 9)
    assert local.digests() == set()
    found = local.sweep((), remove=False)
    assert [name.rsplit("-", 2)[0] for name in found.staging] == ["heat_0001"] and found.orphans == ()
    assert local.sweep((), remove=True) == found
    assert local.sweep((), remove=False) == fields.Sweep(staging=(), orphans=())


def test_a_kill_after_the_rename_has_published_a_sound_field(local: FieldStore) -> None:
    kill_at("field.rename.after#1", "field", local.root, 9)
    (digest,) = local.digests()
    local.verify(FieldRef(digest=digest, size=72))
    assert local.sweep({digest}, remove=False) == fields.Sweep(staging=(), orphans=())


def test_several_processes_writing_one_field_store_it_once(shelf: Shelf) -> None:
    store = shelf.store
    outputs = [process.communicate() for process in [child("field", shelf.root, 5) for _ in range(2)]]
    digests = {out.strip() for out, _ in outputs}
    assert digests == store.digests() and len(digests) == 1, outputs
    store.verify(FieldRef(digest=digests.pop(), size=40))


def test_a_writer_that_is_overtaken_at_the_rename_takes_the_other_ones_field(
    local: FieldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtake(point: str) -> None:
        monkeypatch.undo()
        FieldStore(local.root).write("other", field())
        passed.append(point)

    passed: list[str] = []
    monkeypatch.setattr(staging, "commit_point", overtake)
    ref = local.write("heat-0001", field())
    assert passed == ["field.rename.before"] and local.digests() == {ref.digest}
    local.verify(ref)
    assert list((local.root / ".staging").iterdir()) == []


def test_a_full_disk_publishes_nothing_and_says_so(local: FieldStore) -> None:
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


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fields").write_text("not a folder")
    with pytest.raises(FieldError, match=r"The disk refused .*fields"):
        FieldStore(tmp_path / "fields").write("a", field())


def test_sweep_spares_what_is_referenced_and_what_a_live_process_writes(local: FieldStore) -> None:
    kept, orphan = local.write("a", field(0)), local.write("b", field(1))
    folder = local.root / ".staging"
    (folder / f"live-{os.getpid()}-999").mkdir()
    (folder / f"other-{os.getpid()}@another_host-997").mkdir()  # of whose processes nothing is known here
    reused = folder / f"reused-{os.getpid()}-998"  # an earlier process had our pid
    reused.mkdir()
    os.utime(reused, (1e9, 1e9))
    expected = fields.Sweep(staging=(reused.name,), orphans=(orphan.digest,))
    assert local.sweep({kept.digest}, remove=False) == expected
    assert local.digests() == {kept.digest, orphan.digest} and reused.exists()
    assert local.sweep({kept.digest}, remove=True) == expected
    assert local.digests() == {kept.digest}
    left = [f"live-{os.getpid()}-999", f"other-{os.getpid()}@another_host-997"]
    assert sorted(path.name for path in folder.iterdir()) == left
    local.verify(kept)


def test_what_a_live_process_writes_is_spared_though_the_clock_was_set_since(local: FieldStore) -> None:
    with staged(local.root, "a") as writing:
        os.utime(writing, (1e9, 1e9))
        assert local.sweep((), remove=True).staging == ()
        assert writing.exists()


def test_a_stack_is_lazy_and_holds_every_trial_in_order(store: FieldStore) -> None:
    refs = {f"heat-{n:04d}": store.write("t", field(n % 3)) for n in (5, 1, 2, 4)}
    stacked = store.stack(refs)
    assert stacked.chunks["trial"] == (1, 1, 1, 1)
    assert list(stacked.trial.values) == list(refs)
    assert stacked.temperature.attrs == {"units": "K"} and stacked.attrs == field().attrs
    for n in (5, 1, 2, 4):
        one = stacked.sel(trial=f"heat-{n:04d}")
        assert one.temperature.values.tobytes() == field(n % 3).temperature.values.tobytes()
        assert one.reading == n % 3
    corner = stacked.temperature.isel(trial=[2, 0], x=slice(1, 3), y=-1)
    expected = [field(2).temperature.values[1:3, -1], field(5 % 3).temperature.values[1:3, -1]]
    np.testing.assert_array_equal(corner.values, expected)
    np.testing.assert_array_equal(stacked.x, field().x)


def test_a_stack_reads_only_what_is_asked_and_never_a_damaged_chunk(shelf: Shelf) -> None:
    store = shelf.store
    refs = {f"heat-{n:04d}": store.write("t", field(n)) for n in range(2)}
    stacked = store.stack(refs)
    alter(shelf, refs["heat-0001"], CHUNK, flipped)
    assert stacked.temperature[0].values.tobytes() == field(0).temperature.values.tobytes()
    with pytest.raises(FieldDamaged, match="temperature/c/0/0 does not have the checksum"):
        stacked.temperature[1].compute()


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (field(1, n=7), "temperature"),
        (field(1).assign_coords(y=np.linspace(0, 3, 6)), "y"),
        (field(1).drop_vars("reading"), "reading"),
        (field(1).assign(extra=1.0), "extra"),
        (field(1).assign(temperature=field(1).temperature.assign_attrs(units="C")), "temperature"),
        (field(1).astype(np.float32), "reading"),
    ],
    ids=["mesh", "coordinate", "missing", "extra", "unit", "dtype"],
)
def test_fields_that_differ_are_not_stacked(store: FieldStore, other: xr.Dataset, name: str) -> None:
    refs = {"heat-0000": store.write("a", field(0)), "heat-0001": store.write("b", other)}
    with pytest.raises(FieldError, match=f"of heat-0000 and heat-0001 cannot be stacked: they differ in '{name}'"):
        store.stack(refs)


def test_nothing_and_a_dimension_named_trial_cannot_be_stacked(store: FieldStore) -> None:
    with pytest.raises(FieldError, match="no field to stack"):
        store.stack({})
    ref = store.write("a", xr.Dataset({"v": ("trial", np.zeros(2))}))
    with pytest.raises(FieldError, match="uses the name 'trial'"):
        store.stack({"a-0000": ref})


def test_an_export_is_one_zarr_that_xarray_reads(store: FieldStore, tmp_path: Path) -> None:
    refs = {f"heat-{n:04d}": store.write("t", field(n)) for n in range(3)}
    store.export(refs, tmp_path / "all.zarr")
    with xr.open_zarr(tmp_path / "all.zarr", consolidated=False) as opened:
        assert [str(trial) for trial in opened.trial.values] == list(refs)
        assert opened.temperature.sel(trial="heat-0002").values.tobytes() == field(2).temperature.values.tobytes()
    with pytest.raises(FieldError, match=r"all.zarr exists. Remove it or export to another path"):
        store.export(refs, tmp_path / "all.zarr")


def test_a_group_is_saved_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "heat-0001.result"
    kill_at("result.rename.before#1", "group", path, 9)
    assert not path.exists() and len(stray_staging(tmp_path)) == 1
    kill_at("result.rename.after#1", "group", path, 9)
    assert_same_bits(load_group(path), xr.Dataset({"u": ("x", np.arange(9.0))}))


def test_a_saved_group_is_kept_and_its_damage_is_found(tmp_path: Path) -> None:
    path = tmp_path / "result"
    save_group(path, field())
    save_group(path, field())
    with pytest.raises(FieldError, match="exists and holds something else"):
        save_group(path, field(1))
    assert_same_bits(load_group(path), field())
    flip(chunk(path))
    with pytest.raises(FieldDamaged, match=r"result is damaged: .*temperature/c/0/0"):
        load_group(path)


def test_the_module_starts_without_zarr_xarray_and_dask() -> None:
    code = "import sys, fieldcraft.storage.fields; print([m for m in ('zarr', 'xarray', 'dask') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
