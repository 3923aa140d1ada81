"""Files of a study: one folder, in it one home for each cell, so that cells never wait for each other.

OUT/study                         name of the study
OUT/study.json  OUT/study.html    results of the study so far
OUT/cells/NAME/campaign.json      the cell's campaign file as data: a cell never changes
OUT/cells/NAME/spent.jsonl        cost of each pass in CPU seconds; grows with every run
OUT/cells/NAME/result.json        the cell has ended: its designs, results and true values
OUT/cells/NAME/failed.json        the cell has failed, with the reason
OUT/cells/NAME/shown.json         its run in MLflow, with the store and the experiment
OUT/cells/NAME/ledger.sqlite ...  the campaign itself, which any command reads with ``--home OUT/cells/NAME``
OUT/lock                          held by the process that works on the study, and by its workers
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldcraft.flows.errors import FieldcraftError, InputError
from fieldcraft.flows.jobs.job_folder import write_json
from fieldcraft.flows.spec.campaign_file import differing
from fieldcraft.flows.studies.plan.spec import Cell

_OF_CAMPAIGN = ("name", "problem", "algorithm")
_OF_RESULT = (
    *("cell", "digest", "sentence", "objective", "unit", "maximize", "noise_sd", "optimum", "range"),
    *("physics", "oracle", "trials"),
)
_OF_SPENT = ("cpu", "proposing", "proposed")
_PATIENCE_S = 10.0  # for the workers of a run that was killed to notice that


@dataclass(frozen=True)
class StudyFolder:
    """The files of a study.

    Args:
        path: Its folder.
    """

    path: Path

    def home(self, cell: Cell) -> Path:
        """The cell's own home, with its ledger and fields."""
        return self.path / "cells" / cell.name

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Lock the study for this process; the workers inherit the descriptor, which holds the lock while one lives.

        Raises:
            FieldcraftError: another process works on it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("a") as file:
            deadline = time.monotonic() + _PATIENCE_S
            while not _locked(file.fileno()):
                if time.monotonic() > deadline:
                    raise FieldcraftError(
                        f"{self.path}: another process works on this study. Wait for it, or end it; nothing is lost."
                    )
                time.sleep(0.05)
            yield file.fileno()

    def claim(self, study: str) -> None:
        """Mark the folder as this study's own.

        Raises:
            InputError: it is another study's, or holds files and no cells.
        """
        mark = self.path / "study"
        known = _read(mark, "study")
        if known and known["study"] != study:
            raise InputError(
                f"{self.path}: holds the study {known['study']!r}, and this one is {study!r}. Give another --out."
            )
        if known:
            return
        strange = sorted({entry.name for entry in self.path.iterdir()} - {"lock"})
        if strange and "cells" not in strange:
            raise InputError(f"{self.path}: holds no study, but {strange[0]!r}. Give an empty folder as --out.")
        write_json(mark, {"study": study})

    def require_whole(self, cell: Cell) -> None:
        """Accept a cell whose files can be read.

        Raises:
            InputError: a file is damaged, or is no file of a study; names it.
        """
        self.result(cell), self.failure(cell), self.spent(cell), self.shown(cell)

    def require_same(self, cell: Cell) -> bool:
        """Accept a cell that was begun as this very campaign, or not yet. True if it was begun.

        Raises:
            InputError: it was begun as another campaign; names the keys that differ.
        """
        file = self.home(cell) / "campaign.json"
        known = _read(file, *_OF_CAMPAIGN)
        if known and not cell.began_as(known):
            keys = "; ".join(differing(known, json.loads(json.dumps(cell.campaign))))
            raise InputError(
                f"{file}: cell {cell.name!r} was begun with another campaign ({keys}). Restore these keys, or give "
                "the study another name, or the problem or algorithm another label."
            )
        return bool(known)

    def begin(self, cell: Cell) -> None:
        """Record the campaign of a cell.

        Raises:
            InputError: it was begun as another campaign; names the keys that differ.
        """
        if not self.require_same(cell):
            self.home(cell).mkdir(parents=True, exist_ok=True)
            write_json(self.home(cell) / "campaign.json", cell.campaign)

    def ran(self, cell: Cell) -> bool:
        """True if a cell has a ledger, or has ended or failed."""
        return any((self.home(cell) / name).exists() for name in ("ledger.sqlite", "result.json", "failed.json"))

    def result(self, cell: Cell) -> dict[str, Any]:
        """Result of a cell; empty while it has not ended."""
        return _read(self.home(cell) / "result.json", *_OF_RESULT)

    def failure(self, cell: Cell) -> str | None:
        """Reason why a cell failed; None if it has not."""
        return _read(self.home(cell) / "failed.json", "error").get("error")

    def fail(self, cell: Cell, error: str) -> None:
        """Record why a cell failed."""
        write_json(self.home(cell) / "failed.json", {"error": error})

    def shown(self, cell: Cell) -> dict[str, Any]:
        """MLflow's ``uri``, ``experiment`` and ``run`` of a cell; empty while it is not shown."""
        return _read(self.home(cell) / "shown.json", "run")

    def show(self, cell: Cell, where: Mapping[str, str], run: str | None) -> None:
        """Record that MLflow shows a cell as a run; ``run`` is None where a person deleted that run."""
        write_json(self.home(cell) / "shown.json", {**where, "run": run})

    def forgive(self, cell: Cell) -> None:
        """Delete the record of a failure, so that the cell goes on from its ledger."""
        (self.home(cell) / "failed.json").unlink(missing_ok=True)

    def spent(self, cell: Cell) -> list[dict[str, float]]:
        """Cost of each pass of a cell, over all runs: ``cpu`` in s, ``proposing`` (its part), ``proposed`` designs."""
        return read_spent(self.home(cell))


def read_spent(home: Path) -> list[dict[str, float]]:
    """The lines of a cell's ``spent.jsonl``; a line that was cut off by a kill is skipped.

    Raises:
        InputError: it is no such file.
    """
    file = home / "spent.jsonl"
    try:
        lines = file.read_text().splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise _foreign(file, str(error)) from None
    return [_parsed(file, line, _OF_SPENT) for line in lines if line.startswith("{") and line.endswith("}")]


def add_spent(home: Path, line: Mapping[str, float]) -> None:
    """Append the cost of a pass as a line of its own, even after a line that was cut off by a kill."""
    descriptor = os.open(home / "spent.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, f"\n{json.dumps(dict(line))}\n".encode())
    finally:
        os.close(descriptor)


def _read(file: Path, *keys: str) -> dict[str, Any]:
    """A file of the study that has these keys; empty when there is none.

    Raises:
        InputError: it is no such file.
    """
    try:
        return _parsed(file, file.read_text(), keys)
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise _foreign(file, str(error)) from None


def _parsed(file: Path, text: str, keys: Sequence[str]) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise _foreign(file, str(error)) from None
    if not isinstance(data, dict):
        raise _foreign(file, f"it holds a {type(data).__name__}")
    if missing := [key for key in keys if key not in data]:
        raise _foreign(file, f"it has no {missing[0]!r}")
    return data


def _foreign(file: Path, why: str) -> InputError:
    return InputError(
        f"{file} is no file of a study: {why}. Restore it, or give another --out; to begin a cell anew, delete "
        "the cell's folder."
    )


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
