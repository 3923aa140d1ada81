"""The contract of ``storage.fields.FieldStore``, on every kind of store."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from shelves import Bucket, Directory
from stores import CHUNK, Shelf, alter, assert_same_bits, child, field, flipped, kill_at, new_bucket, rewrite

from fieldcraft.storage.field_store import encoding, object_store, staging
from fieldcraft.storage.fields import FieldDamaged, FieldError, FieldStore, Sweep, fields_at
from fieldcraft.storage.records import FieldRef


def test_a_field_comes_back_with_its_coordinates_units_and_attributes(store: FieldStore) -> None:
    ref = store.write("heat-0001", field())
    assert_same_bits(store.read(ref), field())
    assert ref.size == sum(variable.nbytes for variable in field().variables.values())
    store.verify(ref)


def test_names_are_those_of_all_variables_and_coordinates(store: FieldStore) -> None:
    ref = store.write("heat-0001", field().assign({"gradient.d1": ((), 2.0)}))
    assert sorted(store.names(ref)) == sorted([*map(str, field().variables), "gradient.d1"])
    with pytest.raises(FieldDamaged, match="is missing"):
        store.names(FieldRef(digest="0" * 64, size=0))


def test_xarray_alone_reads_a_stored_field(shelf: Shelf) -> None:
    ref = shelf.store.write("heat-0001", field())
    with xr.open_zarr(shelf.group(ref), consolidated=False) as opened:
        xr.testing.assert_identical(opened.load(), field())


LABELS = {"campaign": "heat", "trial": "heat-0001", "design": '{"x":1.0}', "solver": "another"}


@pytest.mark.filterwarnings("error")
def test_a_plain_open_is_silent_and_says_whose_field_it_is_and_how_to_read_it(shelf: Shelf) -> None:
    dataset = field().assign_attrs(solver="its own")
    ref = shelf.store.write("heat-0001", dataset, LABELS)
    with xr.open_zarr(shelf.group(ref)) as opened:
        xr.testing.assert_equal(opened.load(), dataset)
        names = {name: variable.attrs["long_name"] for name, variable in opened.variables.items()}
        assert names == {name: str(name).replace("_", " ") for name in dataset.variables}
        assert (opened.temperature.attrs["units"], opened.x.attrs["units"]) == ("K", "m")
        told = {"Conventions": "CF-1.11", **LABELS, "solver": "its own"}
        assert {name: opened.attrs[name] for name in told} == told
        again = opened
    assert_same_bits(shelf.store.read(ref), dataset)  # labels are no part of it
    shelf.store.verify(ref)
    assert shelf.store.write("plain", dataset) == shelf.store.write("again", again) == ref


def test_labels_come_along_when_a_field_is_taken_by_another_store(shelf: Shelf, tmp_path: Path) -> None:
    ref, other = shelf.store.write("heat-0001", field(), LABELS), fields_at(tmp_path / "other")
    assert other.take(ref, shelf.store)
    other.verify(ref)
    group = other.path(ref)
    assert group is not None and xr.open_zarr(group / "field.zarr").attrs["trial"] == "heat-0001"


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
    store = fields_at(tmp_path_factory.getbasetemp() / "any")
    dataset = xr.Dataset({"v": (tuple(f"d{axis}" for axis in range(values.ndim)), values)})
    ref = store.write("any", dataset)
    assert_same_bits(store.read(ref), dataset)
    store.verify(ref)


def test_an_array_larger_than_a_chunk_is_cut_and_comes_back(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    store = shelf.store
    monkeypatch.setattr(encoding, "CHUNK_BYTES", 1000)
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
    assert passed == [*shelf.before, shelf.after]  # the second write did nothing


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
    source = new_bucket(s3).store if isinstance(shelf, Directory) else fields_at(tmp_path)
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


COMMITS = [
    *(("directory", point) for point in Directory.before),
    *(("s3", point) for point in Bucket.before),
]


@pytest.mark.parametrize(("shelf", "point"), COMMITS, indirect=["shelf"])
def test_a_kill_before_the_commit_publishes_nothing_and_leaves_what_a_sweep_deletes(shelf: Shelf, point: str) -> None:
    kill_at(f"{point}#1", "field", shelf.root, 9)
    assert shelf.store.digests() == set()
    found = shelf.store.sweep((), remove=False)
    assert [name.split("-")[0] for name in found.staging] == ["heat_0001"] and found.orphans == ()
    assert shelf.store.sweep((), remove=True) == found
    assert shelf.everything() == [] and shelf.store.sweep((), remove=False) == Sweep(staging=(), orphans=())
    kept = shelf.store.write("heat-0001", xr.Dataset({"u": ("x", np.arange(9.0))}))
    shelf.store.verify(kept)


def test_a_kill_after_the_commit_has_published_a_sound_field_that_a_sweep_keeps(shelf: Shelf) -> None:
    kill_at(f"{shelf.after}#1", "field", shelf.root, 9)
    (digest,) = shelf.store.digests()
    shelf.store.tidy()
    shelf.store.verify(FieldRef(digest=digest, size=72))
    assert shelf.store.sweep({digest}, remove=True) == Sweep(staging=(), orphans=())
    assert shelf.store.digests() == {digest}


def test_a_writer_that_is_overtaken_takes_the_other_ones_field(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def overtake(point: str) -> None:
        if point == shelf.overtaken:
            monkeypatch.undo()
            shelf.store.write("other", field())
            passed.append(point)

    passed: list[str] = []
    for module in (staging, object_store):
        monkeypatch.setattr(module, "commit_point", overtake)
    ref = shelf.store.write("heat-0001", field())
    assert passed == [shelf.overtaken] and shelf.store.digests() == {ref.digest}
    shelf.store.verify(ref)
    kept, listed = shelf.everything(), json.loads(shelf.read(ref, "manifest.json"))["files"]
    assert len(kept) == 1 + len(listed) and not any("heat" in name or ".staging" in name for name in kept)


def test_a_sweep_takes_what_nobody_refers_to_and_spares_what_a_live_process_writes(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sweep(point: str) -> None:
        if point == shelf.overtaken:
            monkeypatch.undo()
            swept.append(store.sweep({kept.digest}, remove=True))

    store, swept = shelf.store, list[Sweep]()
    kept, orphan = store.write("a", field(0)), store.write("b", field(1))
    assert store.sweep({kept.digest}, remove=False) == Sweep(staging=(), orphans=(orphan.digest,))
    assert store.digests() == {kept.digest, orphan.digest}
    for module in (staging, object_store):
        monkeypatch.setattr(module, "commit_point", sweep)
    written = store.write("c", field(2))
    assert swept == [Sweep(staging=(), orphans=(orphan.digest,))]
    assert store.digests() == {kept.digest, written.digest}
    store.verify(kept)
    store.verify(written)


def test_a_place_is_told_to_people_and_a_path_is_of_a_disk_alone(shelf: Shelf) -> None:
    ref = shelf.store.write("a", field())
    place, path = shelf.store.place(ref), shelf.store.path(ref)
    assert place == f"{shelf.root}/{ref.digest[:2]}/{ref.digest}" and shelf.group(ref).startswith(place)
    assert path == (Path(place) if isinstance(shelf, Directory) else None)
    strayed = shelf.store.staging("x-1")
    assert strayed == (shelf.root / ".staging" / "x-1" if isinstance(shelf, Directory) else None)


def test_several_processes_writing_one_field_store_it_once(shelf: Shelf) -> None:
    store = shelf.store
    outputs = [process.communicate() for process in [child("field", shelf.root, 5) for _ in range(2)]]
    digests = {out.strip() for out, _ in outputs}
    assert digests == store.digests() and len(digests) == 1, outputs
    store.verify(FieldRef(digest=digests.pop(), size=40))


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


@pytest.mark.filterwarnings("error")
def test_an_export_is_one_zarr_that_xarray_reads(store: FieldStore, tmp_path: Path) -> None:
    refs = {f"heat-{n:04d}": store.write("t", field(n)) for n in range(3)}
    store.export(refs, tmp_path / "all.zarr")
    with xr.open_zarr(tmp_path / "all.zarr") as opened:
        assert opened.attrs["Conventions"] == "CF-1.11"
        assert [str(trial) for trial in opened.trial.values] == list(refs)
        assert opened.temperature.sel(trial="heat-0002").values.tobytes() == field(2).temperature.values.tobytes()
    with pytest.raises(FieldError, match=r"all.zarr exists. Remove it or export to another path"):
        store.export(refs, tmp_path / "all.zarr")
