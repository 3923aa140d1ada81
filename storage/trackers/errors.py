"""Errors of tracking: an error of MLflow becomes one that states that the campaign is not affected."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from fieldcraft.storage.text import without_password


class TrackingError(Exception):
    """MLflow is absent, broken or out of reach. The outbox keeps what was not exported."""


@contextmanager
def tracking_errors(uri: str) -> Iterator[None]:
    """Turn errors of MLflow into one that states that the campaign is not affected, and how to go on."""
    try:
        yield
    except _failures() as error:
        first = str(error).strip().partition("\n")[0][:300]
        message = (
            f"MLflow at {uri} failed: {first}. The campaign is not affected and nothing is lost: run "
            "`fieldcraft export mlflow` when MLflow works again."
        )
        raise TrackingError(without_password(message)) from error


def _failures() -> tuple[type[Exception], ...]:
    """Exception types of MLflow and its dependencies; modules that were not imported are left out."""
    names = {
        "mlflow.exceptions": "MlflowException",
        "sqlalchemy.exc": "SQLAlchemyError",
        "alembic.util.exc": "CommandError",
    }
    return (
        OSError,
        ImportError,
        *(getattr(sys.modules[module], name) for module, name in names.items() if module in sys.modules),
    )
