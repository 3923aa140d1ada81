"""Fields in an object store: what is of a server alone."""

import os
import socket
import time
from typing import Any

import pytest
from shelves import SECRET
from stores import child, field, new_bucket

from fieldcraft.storage.field_store.staging import StoreAway
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.records import FieldRef


def test_what_another_machine_writes_is_stray_only_after_a_day(s3: Any) -> None:
    shelf = new_bucket(s3)
    for writer, age_s in (("young", 3600.0), ("old", 1e5)):
        begun = f"{time.time_ns() - int(age_s * 1e9):x}"
        shelf.client.put_object(
            Bucket=shelf.name, Key=f"fields/.staging/{writer}-{'0' * 12}-5.00-{os.getpid()}-{begun}-0", Body=b"a" * 64
        )
    assert [name.split("-")[0] for name in shelf.store.sweep((), remove=True).staging] == ["old"]
    assert len(shelf.everything()) == 1


@pytest.mark.parametrize("action", ["write", "read", "sweep"])
def test_a_bucket_that_is_not_there_is_one_clear_error(s3: Any, action: str) -> None:
    store = fields_at("s3://nobodys-bucket/fields")
    ref = FieldRef(digest="0" * 64, size=1)
    act = {"write": lambda: store.write("a", field()), "read": lambda: store.read(ref), "sweep": store.digests}
    with pytest.raises(StoreAway, match="There is no bucket 'nobodys-bucket'"):
        act[action]()


def test_a_server_that_is_away_or_refuses_is_one_clear_error_without_credentials(
    s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = new_bucket(s3)
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
