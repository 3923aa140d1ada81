"""What is left of a campaign's budget, in words. The ledger enforces it; here a pass learns what can still be sent."""

from typing import Any

from flows.spec import Budget
from storage.records import Limits, Spending, Trial

NEARLY = 0.9  # share of a limit from which on it is called nearly spent
_SLACK = 1e-9  # relative, as the ledger's own


def obstacle(trial: Trial, limits: Limits, spending: Spending, budget: Budget) -> str | None:
    """Which limit does not let a trial be sent, by the rule of ``Ledger.move``; None where all do."""
    return _exceeded(0 if trial.attempt else 1, trial.cost, limits, spending, budget)


def exhausted(limits: Limits, spending: Spending, budget: Budget) -> str | None:
    """Which limit leaves nothing for another trial, whatever it cost; None where none does."""
    return _exceeded(1, None, limits, spending, budget)


def _exceeded(trials: int, cost: float | None, limits: Limits, spending: Spending, budget: Budget) -> str | None:
    used, seconds = spending.spent + spending.reserved, spending.seconds + spending.seconds_reserved
    if trials and limits.trials is not None and spending.trials + trials > limits.trials:
        return f"{spending.trials} of {limits.trials} trials"
    if limits.cost is not None:
        unit = budget.unit or "budget units"
        if cost is None and used >= limits.cost * (1 - _SLACK):
            return f"{used:g} of {limits.cost:g} {unit} are spent"
        if cost and used + cost > limits.cost * (1 + _SLACK):
            return f"{used:g} of {limits.cost:g} {unit} are spent and the next trial could cost {cost:g}"
    if limits.seconds is not None and seconds + limits.attempt_seconds > limits.seconds * (1 + _SLACK):
        return (
            f"{seconds / 3600:.4g} of {limits.seconds / 3600:.4g} h of wall time are spent and the next trial could "
            f"take {limits.attempt_seconds / 3600:.4g}"
        )
    return None


def nearly_spent(limits: Limits, spending: Spending, budget: Budget) -> dict[str, Any] | None:
    """The limits of which nine tenths are spent or reserved, as a notice tells them; None where there is none."""
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
