"""Empty databases of other packages: made once, copied from then on."""

import re
import sqlite3
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from fieldcraft.storage.empty_databases import kept_of, provide
from fieldcraft.storage.trackers.runs import client_of, migrated, require_mlflow


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def made(database: Path) -> None:
    assert not database.exists()
    database.write_text("made")


def never(database: Path) -> None:
    raise AssertionError(f"{database} is made a second time")


def test_the_first_is_made_and_kept_and_the_next_are_copies_of_it(tmp_path):
    provide("mlflow", tmp_path / "first.db", made)
    assert kept_of("mlflow").read_text() == "made"
    kept_of("mlflow").write_text("kept")
    provide("mlflow", tmp_path / "deep" / "second.db", never)
    assert (tmp_path / "deep" / "second.db").read_text() == "kept"
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["second.db"], "no draft is left"


def test_one_that_is_there_is_left_alone(tmp_path):
    (tmp_path / "own.db").write_text("own")
    kept_of("mlflow").parent.mkdir(parents=True)
    kept_of("mlflow").write_text("kept")
    provide("mlflow", tmp_path / "own.db", never)
    assert (tmp_path / "own.db").read_text() == "own"


def test_where_no_cache_can_be_written_it_is_made_all_the_same(tmp_path, cache):
    cache.write_text("a file in the folder's place")
    provide("mlflow", tmp_path / "first.db", made)
    assert (tmp_path / "first.db").read_text() == "made"


def test_a_copied_store_of_mlflow_is_the_one_that_mlflow_itself_makes(tmp_path, monkeypatch):
    require_mlflow()
    monkeypatch.chdir(tmp_path)
    for name in ("made", "copied"):
        provide("mlflow", tmp_path / f"{name}.db", migrated if name == "made" else never)
        client_of(f"sqlite:///{tmp_path / name}.db").search_experiments()
    MlflowClient(f"sqlite:///{tmp_path / 'own'}.db").search_experiments()
    dumps = {name: _dumped(tmp_path / f"{name}.db") for name in ("made", "copied", "own")}
    assert dumps["made"] == dumps["copied"] == dumps["own"]
    assert any("'Default'" in line for line in dumps["own"])


def _dumped(database: Path) -> list[str]:
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE experiments SET creation_time = 0, last_update_time = 0")
        # Constraints of a table come in any order: two stores that MLflow makes itself differ in that.
        return sorted(part.strip() for line in connection.iterdump() for part in re.split(", ?\n", line))
