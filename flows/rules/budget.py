"""Remaining budget of a campaign, in words. The ledger enforces it; a pass asks here what can still be sent."""

from typing import Any

from fieldcraft.flows.spec.campaign_file import Budget
from fieldcraft.storage.limits import refused
from fieldcraft.storage.records import Limits, Spending, Trial

NEARLY = 0.9  # share of a limit from which on it is called nearly spent


def obstacle(trial: Trial, limits: Limits, spending: Spending, budget: Budget) -> str | None:
    """Limit that keeps a trial from being sent, by the rule of ``Ledger.move``; None where none does."""
    return _exceeded(int(trial.level is None and not trial.attempt), trial.cost, limits, spending, budget)


def exhausted(limits: Limits, spending: Spending, budget: Budget) -> str | None:
    """Limit that leaves nothing for another trial at any cost; None where none does."""
    return _exceeded(1, None, limits, spending, budget)


def _exceeded(trials: int, cost: float | None, limits: Limits, spending: Spending, budget: Budget) -> str | None:
    found = refused(limits, spending, trials=trials, cost=cost)
    if found is None or found.limit is None:
        return None
    if found.of == "trials":
        return f"{spending.trials} of {limits.trials} trials"
    if found.of == "cost":
        spent = f"{found.used:g} of {found.limit:g} {budget.unit or 'budget units'} are spent"
        return spent if found.more is None else f"{spent} and the next trial could cost {found.more:g}"
    return (
        f"{found.used / 3600:.4g} of {found.limit / 3600:.4g} h of wall time are spent and the next trial could "
        f"take {limits.attempt_seconds / 3600:.4g}"
    )


def nearly_spent(limits: Limits, spending: Spending, budget: Budget) -> dict[str, Any] | None:
    """Limits of which at least nine tenths are spent or reserved, as data of a notice; None where there are none."""
    parts = (
        ("trials", spending.trials, limits.trials, "trials"),
        ("cost", spending.spent + spending.reserved, limits.cost, budget.unit),
        ("wall time", spending.seconds + spending.seconds_reserved, limits.seconds, "s"),
    )
    found = [
        {"of": name, "used": used, "limit": limit, "unit": unit}
        for name, used, limit, unit in parts
        if limit is not None and used >= NEARLY * limit
    ]
    return {"limits": found} if found else None
