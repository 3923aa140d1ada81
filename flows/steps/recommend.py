"""Recommendation of the best observed design by a model, because the best of noisy results is often only lucky."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fieldcraft.flows.products import Recommendation
from fieldcraft.storage.records import Trial, TrialSummary

if TYPE_CHECKING:
    from fieldcraft.models.observations import Observations
    from fieldcraft.models.surrogate import Posterior


def recommended(
    posterior: "Posterior",
    data: "Observations",
    seen: Sequence[Trial | TrialSummary],
    constraints: Sequence[str],
    *,
    exact: bool,
) -> Recommendation:
    """The trial with the best posterior mean among the feasible ones, as the train step's product keeps it.

    Feasible trials are those whose results meet the constraints where these are exact, else those that are predicted
    to. Where there are none, the trial that is most probably feasible by the model. Means and standard deviations are
    of noise-free values, in the units of the outputs; ``probability`` is that of all constraints together, 1 where the
    result shows it.

    Args:
        posterior: The trained model.
        data: Its training data, one row for each of ``seen``.
        seen: The trials.
        constraints: Names of the outputs after the first.
        exact: True if results of the constraints have no noise.
    """
    import torch

    from fieldcraft.models.feasibility.constrained import ConstrainedPosterior

    X = torch.tensor(data.X)
    with torch.no_grad():
        mean, variance = posterior.mean_var(X)
        at, feasible, log_feasible = int(mean.argmin()), True, 0.0
        if isinstance(posterior, ConstrainedPosterior):
            known = dataclasses.replace(posterior, hidden=None)  # these designs did give a result
            read = torch.tensor((data.constraints <= 0).all(axis=1))
            met, log_each = read if exact else known.believed_feasible(X), known.log_feasible(X)
            feasible = bool(met.any())
            worth = torch.where(met, -mean, -torch.inf) if feasible else log_each
            at = int(worth.argmax())
            log_feasible = 0.0 if exact and feasible else float(log_each[at])
    return Recommendation(
        trial=seen[at].id,
        mean=float(posterior.scaling.to_physical(float(mean[at]))),
        sd=posterior.scaling.sd * float(variance[at].sqrt()),
        feasible=feasible,
        probability=float(torch.tensor(log_feasible).exp()),
        constraints=_beliefs(posterior, X[[at]], constraints),
    )


def _beliefs(posterior: "Posterior", x: Any, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Mean and standard deviation of each constraint at x (1, d), in its unit."""
    from fieldcraft.models.feasibility.constrained import ConstrainedPosterior

    each = posterior.in_units(x) if isinstance(posterior, ConstrainedPosterior) else []
    return {name: {"mean": mean, "sd": sd} for name, (mean, sd) in zip(names, each, strict=False)}
