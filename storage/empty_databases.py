"""Empty databases of other packages, made once on a machine and copied from then on: their migrations take seconds.

The copies lie in ``$XDG_CACHE_HOME/fieldcraft`` (by default ``~/.cache/fieldcraft``). They may be deleted at any time.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path


def provide(package: str, target: Path, make: Callable[[Path], None]) -> None:
    """Have an empty database at ``target``, unless there is one.

    Args:
        package: Distribution whose installed version can use it.
        target: Its file.
        make: Makes a database that no process has open at a path; called where this machine keeps none.
    """
    if target.exists():
        return
    kept = kept_of(package)
    if kept.exists():
        copied(kept, target)
        return
    make(target)
    with suppress(OSError):  # where no cache can be written, the next new one is made again
        copied(target, kept)


def kept_of(package: str) -> Path:
    """The file that copies are taken from."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "fieldcraft" / f"{package}-{version(package)}.db"


def copied(source: Path, target: Path) -> None:
    """Copy a database that no process writes, atomically."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        shutil.copyfile(source, draft)
        with suppress(FileExistsError):  # another process was faster, and may be using its own
            os.link(draft, target)
    finally:
        draft.unlink(missing_ok=True)
