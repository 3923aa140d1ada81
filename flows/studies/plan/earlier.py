"""Campaigns that an earlier run of a study has finished, taken from its ``study.json``, the only file that is needed.

Who has the results of a study and no longer its folder, or ran it on another machine, adds seeds, problems or
algorithms without running again what is finished. A campaign is taken if its digest is the one of today, so that the
file states the same problem, algorithm, seed and budget; the commit that it ran is told on the page, as of any other.
Where a problem's optimum is not known, the best value of the earlier run counts among those of the study.
``study.json`` has the regret after each trial, but neither designs nor certificates nor violations after each trial:
campaigns on problems with constraints, and those of algorithms whose designs were certified, are not taken.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.tables import read_bytes
from fieldcraft.flows.text import counted, quoted

Found = dict[str, Any]

_OF_STUDY = {"study": str, "cells": list, "problems": list, "environment": dict, "elsewhere": dict}
_OF_PROBLEM = ("objective", "unit", "noise_sd", "range", "oracle")
_OF_CELL = ("physics", "regret", "visited", "best_design", "digest", "sentence")


@dataclass(frozen=True)
class Taken:
    """Campaigns of an earlier run that are results of this one.

    Args:
        results: Results by cell, as ``flows.studies.scoring.truth.measured`` has them; in the place of the trials stand
            ``regret``, ``visited`` and ``best_design``, and ``earlier``: the file, and the value that the regrets are
            distances from.
        spent: What each has cost, as a line of ``spent.jsonl`` that tells the same cost of a proposal.
        left: Number of its other finished campaigns by the reason why they are not taken.
    """

    results: Mapping[str, Found]
    spent: Mapping[str, Mapping[str, float]]
    left: Mapping[str, int]

    @property
    def text(self) -> str:
        """Number of the campaigns that were taken, and of the others by reason."""
        left = ", ".join(f"{number} {why}" for why, number in self.left.items())
        told = f"{counted(len(self.results), 'finished campaign')} taken"
        return f"{told}; not taken: {left}" if left else told


@dataclass(frozen=True)
class Earlier:
    """Results of an earlier run of a study.

    Args:
        file: Its ``study.json``.
        data: What it holds.
    """

    file: Path
    data: Mapping[str, Any]

    def taken(self, digests: Mapping[str, str], ran: Collection[str]) -> Taken:
        """The finished campaigns that stand for cells of the study.

        Args:
            digests: Today's digests by cell.
            ran: Cells that have run in the study's folder.

        Raises:
            InputError: the file lacks something that a study.json has, or has what it cannot have.
        """
        try:
            known = {row["cell"]: row for row in self.data["cells"] if row["state"] == "finished"}
            problems = {each["problem"]: each for each in self.data["problems"]}
            why = {name: _why_not(row, problems[row["problem"]], digests, ran) for name, row in known.items()}
            good = [name for name, reason in why.items() if reason is None]
            for name in good:
                self._require_sound(known[name], problems[known[name]["problem"]])
            results = {name: self._result(known[name], problems[known[name]["problem"]]) for name in good}
        except (KeyError, TypeError, AttributeError) as error:
            raise _foreign(self.file, f"it has no {error}" if isinstance(error, KeyError) else str(error)) from None
        left = Counter(reason for reason in why.values() if reason is not None)
        return Taken(results, {name: _spent(known[name]) for name in good}, left)

    def _require_sound(self, row: Mapping[str, Any], problem: Mapping[str, Any]) -> None:
        for place, value, sound in _judged(row, problem):
            if not sound:
                raise _foreign(self.file, f"{row['cell']!r} has the {place} {quoted(str(value))}")

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
    for key, kind in _OF_STUDY.items():
        if not isinstance(data.get(key), kind):
            raise _foreign(file, f"it has no {key!r}" if key not in data else f"its {key!r} is no {kind.__name__}")
    if data["study"] != study:
        raise InputError(
            f"{file}: holds the study {quoted(data['study'])}, and this one is {study!r}. Give its own results."
        )
    return Earlier(file, data)


def _why_not(
    row: Mapping[str, Any], problem: Mapping[str, Any], digests: Mapping[str, str], ran: Collection[str]
) -> str | None:
    """Reason why a campaign is not taken; None where it is."""
    proofs = [each.get("proof") for each in problem["rows"] if each["algorithm"] == row["algorithm"]]
    reasons = {
        "that the study has not": row["cell"] not in digests,
        "that have run in this folder": row["cell"] in ran,
        "that the study or this version of the code states otherwise": digests.get(row["cell"]) != row["digest"],
        "with constraints": "constraints" in problem,
        "with certificates": any(proof is not None and proof["certified"] is not None for proof in proofs),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _judged(row: Mapping[str, Any], problem: Mapping[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """Each value that is taken of a campaign: its place, itself, and whether it can be one."""
    yield "sense", problem["sense"], problem["sense"] in (None, "minimize", "maximize")
    yield "optimum", problem["optimum"], _is_number(problem["optimum"])
    for key in ("range", "noise_sd"):
        yield key, problem[key], problem[key] is None or _is_number(problem[key])
    yield "cpu", row["cpu"], _is_number(row["cpu"]) and row["cpu"] >= 0
    each = row["cpu_per_proposal"]
    yield "cpu_per_proposal", each, each is None or (_is_number(each) and each >= 0)
    yield "best_design", row["best_design"], row["best_design"] is None or isinstance(row["best_design"], dict)
    for key in ("regret", "visited"):
        path = row[key]
        whole = isinstance(path, list) and 1 <= len(path) <= problem["trials"] and len(path) == len(row["regret"])
        yield key, path, whole and all(value is None or _is_number(value) for value in path)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _spent(row: Mapping[str, Any]) -> dict[str, float]:
    each = row["cpu_per_proposal"]
    return {"cpu": row["cpu"], "proposing": each or 0.0, "proposed": 0 if each is None else 1}


def _foreign(file: Path, why: str) -> InputError:
    return InputError(f"{file} is no study.json of fieldcraft compare: {why}. Give the file that a study left.")
