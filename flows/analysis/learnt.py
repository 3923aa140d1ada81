"""Results that count, now and for a trained model.

Reads records alone.
"""

from collections.abc import Iterable
from typing import TypeVar

from fieldcraft.flows.products import Trained
from fieldcraft.storage.records import Result, ResultSummary

R = TypeVar("R", Result, ResultSummary)


def standing(results: Iterable[R]) -> dict[str, R]:
    """The result that counts for each trial, by trial id: the last accepted one, or the retraction after it."""
    return {result.trial: result for result in results if result.verdict in ("accepted", "retraction")}


def counting(results: Iterable[R]) -> dict[str, R]:
    """The results that count now, by trial id; trials whose result was retracted are left out."""
    return {trial: result for trial, result in standing(results).items() if result.verdict != "retraction"}


def learnt_by(model: Trained, results: Iterable[R]) -> dict[str, R]:
    """The results of a campaign that a model was trained on, by trial; not for versions without corrections."""
    if model.seen is None:
        listed = set(model.results or ())
        return {result.trial: result for result in results if result.id in listed}
    return counting(result for result in results if result.id <= model.seen.until)
