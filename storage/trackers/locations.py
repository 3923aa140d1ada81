"""Places of artifacts in an MLflow store that was copied or moved with its home.

MLflow keeps absolute locations in its database and has no call that changes them, so they are changed there.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fieldcraft.storage.trackers.errors import TrackingError
from fieldcraft.storage.trackers.mlflow_names import artifacts

_LET = (
    "UPDATE experiments SET artifact_location = :new WHERE experiment_id = :number",
    "UPDATE runs SET artifact_uri = :new || substr(artifact_uri, length(:old) + 1) "
    "WHERE experiment_id = :number AND substr(artifact_uri, 1, length(:old) + 1) = :old || '/'",
    "UPDATE logged_models SET artifact_location = :new || substr(artifact_location, length(:old) + 1) "
    "WHERE experiment_id = :number AND substr(artifact_location, 1, length(:old) + 1) = :old || '/'",
)


def displaced(uri: str) -> dict[str, tuple[str, str]]:
    """Experiments of a store on a disk whose artifacts are not where it looks for them, but beside it.

    Returns:
        Place where the store looks, and the place beside it, by the experiment's id.
    """
    scheme, _, path = uri.partition(":///")
    if scheme != "sqlite" or not Path(path).is_file():
        return {}
    try:
        with closing(sqlite3.connect(f"{Path(path).as_uri()}?mode=ro", uri=True)) as connection:
            return {str(number): (old, new) for number, old, new in _displaced(connection, uri)}
    except sqlite3.DatabaseError:  # not an MLflow store: MLflow says so
        return {}


def _displaced(connection: sqlite3.Connection, uri: str) -> Iterator[tuple[int, str, str]]:
    for number, name, place in connection.execute("SELECT experiment_id, name, artifact_location FROM experiments"):
        beside = artifacts(uri, name)
        if beside is None or place in (None, beside) or place.split("/")[-2:] != beside.split("/")[-2:]:
            continue  # the second is another one's: its artifacts were never put beside the store
        if _path(beside).exists() or not _path(place).exists():
            yield number, place, beside


def require_store(uri: str) -> None:
    """Accept a store on a disk that MLflow can serve.

    Raises:
        TrackingError: its file is not MLflow's, or cannot be read.
    """
    file = Path(uri.partition(":///")[2])
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute("SELECT 1 FROM experiments, runs, alembic_version LIMIT 1")
    except sqlite3.Error as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:  # another process writes to it
            return
        raise TrackingError(
            f"{file} is no MLflow store that can be read ({error}). Move it away: 'fieldcraft repair' and then "
            "'fieldcraft export mlflow' make it again from the ledger."
        ) from None


def relocate(uri: str) -> int:
    """Lead a copied or moved store to its artifacts beside it. Returns the number of experiments changed."""
    moved = displaced(uri)
    if moved:
        with closing(sqlite3.connect(uri.partition(":///")[2], timeout=30)) as connection, connection:
            for number, (old, new) in moved.items():
                for statement in _LET:
                    connection.execute(statement, {"number": int(number), "old": old, "new": new})
    return len(moved)


def _path(place: str) -> Path:
    return Path(unquote(urlsplit(place).path))
