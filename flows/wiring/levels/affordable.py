"""Levels that a campaign can still pay for, with a result of the target after them."""

from collections.abc import Sequence

from fieldcraft.flows.wiring.context import Site
from fieldcraft.storage.records import TrialState, TrialSummary

_OPEN = (TrialState.PROPOSED, TrialState.APPROVED)


def affordable(site: Site, trials: Sequence[TrialSummary], q: int) -> tuple[int, ...]:
    """Numbers of the levels of which a run leaves enough of the budget's cost for q runs of the target after it.

    What waits to be sent is counted as spent. A run of the target is taken to cost as much as the dearest so far.
    """
    limit = site.campaign.spec.budget.cost
    now = site.ledger.spending(site.name)
    left = (limit or 0.0) - now.spent - now.reserved - sum(trial.cost for trial in trials if trial.state in _OPEN)
    each = max((trial.cost for trial in trials if trial.level is None), default=0.0)
    return tuple(n for n, level in enumerate(site.campaign.levels) if level.cost * each + q * each <= left * (1 + 1e-9))
