"""What the operator sets, in the environment; a campaign file can change none of it.

FIELDCRAFT_HOME      folder of ledger, fields, tracking and work (default: runs)
FIELDCRAFT_PLUGINS   directories with further kinds, separated as in PATH
FIELDCRAFT_MLFLOW    tracking store: a server's URL or sqlite:////absolute/path.db (default: under the home);
                     "off" shows nothing, and a later export catches up
"""

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flows.errors import InputError


@dataclass(frozen=True)
class Settings:
    """Where a user's campaigns lie and which further kinds may be named.

    Args:
        home: Folder of all stores.
        plugins: Directories searched for kinds beside the built-in ones.
        mlflow: Tracking URI, or ``off``.
    """

    home: Path
    plugins: tuple[Path, ...]
    mlflow: str

    @property
    def ledger(self) -> Path:
        """The ledger's file."""
        return self.home / "ledger.sqlite"

    @property
    def fields(self) -> Path:
        """Root of the field store."""
        return self.home / "fields"

    @property
    def work(self) -> Path:
        """Scratch folders of running simulations and unfinished trainings."""
        return self.home / "work"


def settings_from(environment: Mapping[str, str] = os.environ, home: Path | None = None) -> Settings:
    """Read the settings; ``home`` (a command's ``--home``) wins over the environment.

    Raises:
        InputError: a plug-in directory does not exist.
    """
    place = (home or Path(environment.get("FIELDCRAFT_HOME") or "runs")).expanduser().resolve()
    listed = [Path(part).expanduser() for part in environment.get("FIELDCRAFT_PLUGINS", "").split(os.pathsep) if part]
    for directory in listed:
        if not directory.is_dir():
            raise InputError(
                f"FIELDCRAFT_PLUGINS names {str(directory)!r}, which is no directory. Create it or take it out."
            )
    mlflow = environment.get("FIELDCRAFT_MLFLOW") or f"sqlite:///{place / 'mlflow' / 'mlflow.db'}"
    return Settings(place, tuple(directory.resolve() for directory in listed), mlflow)


def operator() -> str:
    """Who acts: the operating system's user, never a form field."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        return f"uid:{os.getuid()}"
