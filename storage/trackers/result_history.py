"""Accepted results of a campaign, by time: read once from the ledger and queried many times by an export."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass

from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import COUNTING, Result, TrialState, TrialSummary


@dataclass(frozen=True)
class ResultHistory:
    """Results of a campaign that count or once counted, and its trials, as the ledger had them at one moment.

    Args:
        counting: These results, of the target alone, oldest first.
        trials: All trials in brief, by number.
        ruled_out: Times at which infeasible designs failed, in seconds since the epoch.
    """

    counting: tuple[Result, ...]
    trials: tuple[TrialSummary, ...]
    ruled_out: tuple[float, ...]

    @classmethod
    def of(cls, ledger: Ledger, campaign: str) -> ResultHistory:
        """Read the results of a campaign."""
        trials = ledger.summaries(campaign)
        lower = {trial.id for trial in trials if trial.level is not None}
        results = (result for result in ledger.campaign_results(campaign) if result.trial not in lower)
        failed = ledger.trials(campaign, {TrialState.FAILED, TrialState.ABANDONED})
        ruled_out = tuple(t.updated for t in failed if t.failure == "infeasible" and t.level is None)
        return cls(tuple(result for result in results if result.verdict in COUNTING), trials, ruled_out)

    def until(self, result_id: int) -> list[Result]:
        """The results up to one of them, by id."""
        return list(self.counting[: bisect_right(self.counting, result_id, key=lambda result: result.id)])

    def count(self, at: float) -> int:
        """Number of results by a time, in seconds since the epoch."""
        return sum(result.created <= at for result in self.counting)

    def failed_by(self, at: float) -> int:
        """Number of designs that had failed as infeasible by a time, in seconds since the epoch."""
        return sum(failed <= at for failed in self.ruled_out)

    def totals(self, among: Collection[str]) -> dict[str, float]:
        """Wall time and budget units that the completed trials among ``among`` have taken."""
        back = [t for t in self.trials if t.state is TrialState.COMPLETED and t.id in among]
        return {"total.seconds": sum(t.seconds for t in back), "total.spent": sum(t.spent for t in back)}
