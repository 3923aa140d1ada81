"""Campaigns that an earlier run of a study has finished, taken from its ``study.json``, the only file that is needed.

Who has the results of a study and no longer its folder, or ran it on another machine, adds seeds, problems or
algorithms without running again what is finished. A campaign is taken if its digest is the one of today, so that the
file states the same problem, algorithm, seed and budget; the commit that it ran is told on the page, as of any other.
``study.json`` has the regret after each trial, but neither designs nor certificates nor violations after each trial:
campaigns on problems with constraints, and those of algorithms whose designs were certified, are not taken.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.tables import read_bytes
from fieldcraft.flows.studies.plan.spec import Cell
from fieldcraft.flows.text import counted

Found = dict[str, Any]

_OF_STUDY = ("study", "cells", "problems", "environment", "elsewhere")
_OF_PROBLEM = ("objective", "unit", "noise_sd", "range", "oracle")
_OF_CELL = ("cpu", "cpu_per_proposal", "physics", "regret", "visited", "best_design", "digest", "sentence")


@dataclass(frozen=True)
class Earlier:
    """Results of an earlier run of a study.

    Args:
        file: Its ``study.json``.
        data: What it holds.
    """

    file: Path
    data: Mapping[str, Any]

    def results(self, cells: Sequence[Cell], digests: Mapping[str, str]) -> dict[str, Found]:
        """Results of its finished campaigns, by cell, as ``flows.studies.scoring.truth.measured`` has them.

        In the place of the trials stand ``regret``, ``visited`` and ``best_design``, and ``earlier``: the file and the
        value that the regrets are distances from.

        Args:
            cells: The cells of the study.
            digests: Today's digests by cell.

        Raises:
            InputError: the file lacks something that a study.json has.
        """
        try:
            known = {row["cell"]: row for row in self.data["cells"] if row["state"] == "finished"}
            problems = {each["problem"]: each for each in self.data["problems"]}
            found = {}
            for cell in cells:
                row = known.get(cell.name)
                if row and row["digest"] == digests[cell.name] and _whole(problems[cell.problem.name], row):
                    found[cell.name] = self._result(row, problems[cell.problem.name])
        except (KeyError, TypeError) as error:
            raise _foreign(self.file, f"it has no {error}" if isinstance(error, KeyError) else str(error)) from None
        return found

    def _result(self, row: Mapping[str, Any], problem: Mapping[str, Any]) -> Found:
        return {
            "cell": row["cell"],
            "maximize": problem["sense"] != "minimize",
            "optimum": problem["optimum"] if problem["optimum_known"] else None,
            **{key: problem[key] for key in _OF_PROBLEM},
            **{key: row[key] for key in _OF_CELL},
            "environment": self._environment(row["cell"]),
            "trials": [],
            "earlier": {"file": str(self.file), "best": problem["optimum"]},
        }

    def _environment(self, cell: str) -> Found:
        usual, otherwise = self.data["environment"], self.data["elsewhere"].get(cell)
        if otherwise is None:
            return dict(usual)
        commit = re.fullmatch(r"commit: \S+ -> (\S+)", otherwise)
        return {**usual, **({"commit": commit[1]} if commit else {"otherwise": otherwise})}

    def spent(self, cell: Cell) -> dict[str, float]:
        """Cost of a campaign, as a line of ``spent.jsonl`` that tells the same cost of a proposal."""
        row = next(row for row in self.data["cells"] if row["cell"] == cell.name)
        each = row["cpu_per_proposal"]
        return {"cpu": row["cpu"], "proposing": each or 0.0, "proposed": 0 if each is None else 1}

    def text(self, taken: int) -> str:
        """Number of its finished campaigns that were taken, in words, and why not more."""
        rest = sum(row["state"] == "finished" for row in self.data["cells"]) - taken
        told = f"{self.file}: {counted(taken, 'finished campaign')} taken"
        return told if not rest else f"{told}; {rest} not: {_WHY_NOT}"


_WHY_NOT = (
    "the study lacks them or states them otherwise, this folder has them begun, or they have constraints or "
    "certificates, of which the file holds too little"
)


def earlier_run(file: Path, study: str) -> Earlier:
    """The results of an earlier run of a study.

    Args:
        file: Its ``study.json``.
        study: Name of the study.

    Raises:
        InputError: the file cannot be read, is no study.json, or is another study's.
    """
    try:
        data = json.loads(read_bytes(file))
    except ValueError as error:
        raise _foreign(file, str(error)) from None
    if not isinstance(data, dict):
        raise _foreign(file, f"it holds a {type(data).__name__}")
    if missing := [key for key in _OF_STUDY if key not in data]:
        raise _foreign(file, f"it has no {missing[0]!r}")
    if data["study"] != study:
        raise InputError(f"{file}: holds the study {data['study']!r}, and this one is {study!r}. Give its own results.")
    return Earlier(file, data)


def _whole(problem: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """True if a study.json holds all that is shown of a campaign."""
    if "constraints" in problem:
        return False
    proofs = [each.get("proof") for each in problem["rows"] if each["algorithm"] == row["algorithm"]]
    return all(proof is None or proof["certified"] is None for proof in proofs)


def _foreign(file: Path, why: str) -> InputError:
    return InputError(f"{file} is no study.json of fieldcraft compare: {why}. Give the file that a study left.")
