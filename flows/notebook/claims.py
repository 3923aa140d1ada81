"""Claims of notebooks on trials, so that two that ask at once are never given the same one.

A claim is a file named after the attempt, with the process that made it. A kernel that has ended gives its claims up.
Claims are made under the campaign's pass lease; those of another machine hold until somebody deletes their files.
"""

import os
import socket
from collections.abc import Collection
from pathlib import Path

from fieldcraft.flows.jobs.job_folder import process_of, read_json, write_json
from fieldcraft.storage.processes import boot, is_alive


def free(folder: Path, key: str) -> bool:
    """True if no other live process has claimed an attempt, by its key."""
    claim = read_json(folder / f"{key}.json")
    if not claim:
        return True
    here = (claim["boot"], claim["host"]) == (boot(), socket.gethostname())
    mine = here and claim["pid"] == os.getpid()
    return mine or (here and not is_alive(claim["pid"], claim["started"]))


def claim(folder: Path, keys: Collection[str], at_large: Collection[str]) -> None:
    """Claim attempts for this process.

    Args:
        folder: Folder of the campaign's claims.
        keys: Keys of the attempts.
        at_large: Keys of all attempts that wait for a result; claims on others are deleted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.json"):
        if file.stem not in at_large:
            file.unlink(missing_ok=True)
    process = {**process_of(os.getpid()), "host": socket.gethostname()}
    for key in keys:
        write_json(folder / f"{key}.json", process, flush=False)
