"""Errors of tracking: whatever MLflow raises becomes one that says that the campaign is not affected."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from fieldcraft.storage.text import without_password


class TrackingError(Exception):
    """MLflow is absent, broken or out of reach. The outbox keeps what was not exported."""


@contextmanager
def tracking_errors(uri: str) -> Iterator[None]:
    """Say of whatever MLflow raises that the campaign is not affected, and how to go on."""
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
    """Errors of MLflow and of what it stands on; what was never imported cannot have raised."""
    names = {
        "mlflow.exceptions": "MlflowException",
        "sqlalchemy.exc": "SQLAlchemyError",
        "alembic.util.exc": "CommandError",
    }
    return (OSError, *(getattr(sys.modules[module], name) for module, name in names.items() if module in sys.modules))
