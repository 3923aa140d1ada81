from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shelves import Directory, s3_server
from stores import Shelf, new_bucket

from fieldcraft.storage.fields import DirectoryStore, FieldStore


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    with s3_server() as client:
        yield client


@pytest.fixture(params=["directory", "s3"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    """Every test that takes it, or ``store``, runs over both stores."""
    return Directory(tmp_path) if request.param == "directory" else new_bucket(request.getfixturevalue("s3"))


@pytest.fixture
def store(shelf: Shelf) -> FieldStore:
    return shelf.store


@pytest.fixture
def local(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "fields")
