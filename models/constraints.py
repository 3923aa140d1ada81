"""Treatment of unknown constraints: a surrogate for each, and the rule by which they enter a score.

Several objectives are fitted here too, each by a surrogate of its own. A constraint whose results span decades is
learnt on a logarithmic scale where the evidence is for it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.acquisition import Acquisition, Score
from fieldcraft.models.capability import Capability, provided, required, scale_of
from fieldcraft.models.constraint_rule import Rule
from fieldcraft.models.constraint_scale import bent, chosen
from fieldcraft.models.feasibility.bilog import Bilog
from fieldcraft.models.feasibility.classifier import FeasibilityGP, FeasibilityPosterior
from fieldcraft.models.feasibility.constrained import ConstrainedPosterior
from fieldcraft.models.numerics.digests import refuse_other_data, stamped
from fieldcraft.models.numerics.states import named, part
from fieldcraft.models.observations import Observations
from fieldcraft.models.pareto.posterior import SeveralObjectives
from fieldcraft.models.rules.bound import Bound
from fieldcraft.models.rules.probability import Probability
from fieldcraft.models.surrogate import Posterior, Report, Surrogate
from fieldcraft.models.surrogates.exact_gp import ExactGP

_OBJECTIVE, _HIDDEN, _RUNNING = "objective", "hidden", "running."
_BILOGS = "bilogs"
_CLASSIFIER = FeasibilityGP()


@dataclass(frozen=True)
class Constraints:
    """Treatment of constraints that only experiments reveal.

    Args:
        surrogate: Surrogate of each constraint. None: the objective's own, or exact_gp if that needs an equation, since
            constraints have no equation.
        rule: Rule by which constraints enter the acquisition. None: by their probability if the score is positive or a
            logarithm, else by their optimistic bounds.
    """

    surrogate: Surrogate | None = None
    rule: Rule | None = None

    def learner(self, objective: Surrogate) -> Surrogate:
        """Surrogate of each constraint, if ``objective`` is that of the objective."""
        return self.surrogate or (ExactGP() if Capability.EQUATION in required(objective) else objective)

    def fit(
        self,
        objective: Surrogate,
        data: Observations,
        rng: np.random.Generator,
        start: Mapping[str, Tensor] | None,
        report: Report,
    ) -> ConstrainedPosterior:
        """Fit the objectives, then each constraint, then which designs fail (see Surrogate.fit).

        Raises:
            ValueError: one of them cannot be fitted, or ``start`` is of other data.
        """
        bilogs = _chosen(data) if start is None else _stored(data, start)
        parts = self._parts(objective, data, bilogs)
        seeds = rng.integers(2**63 - 1, size=len(parts) + 1).tolist()
        fits = _Fits(data, bilogs) if start is None else _Fits.of(data, start, parts)
        for (name, (surrogate, own)), seed in zip(parts.items(), seeds, strict=False):
            if name not in fits.done:
                found = surrogate.fit(own, np.random.default_rng(seed), fits.begun(name), fits.relayed(name, report))
                fits = replace(fits, done={**fits.done, name: found}, running=None)
                report(len(fits.done), {}, fits.state)
        if len(data.failed):
            hidden = _CLASSIFIER.fit(*_outcomes(data), np.random.default_rng(seeds[-1]))
            fits = replace(fits, hidden=hidden)
        return fits.posterior()

    def restore(self, objective: Surrogate, data: Observations, state: Mapping[str, Tensor]) -> ConstrainedPosterior:
        """The posterior whose state this was (see Surrogate.restore)."""
        fits = _Fits.of(data, state, self._parts(objective, data, _stored(data, state)))
        if len(data.failed):
            fits = replace(fits, hidden=_CLASSIFIER.restore(*_outcomes(data), part(state, f"{_HIDDEN}.")))
        return fits.posterior()

    def score(
        self,
        acquisition: Acquisition,
        posterior: ConstrainedPosterior,
        data: Observations,
        pending: Tensor,
        q: int,
        rng: np.random.Generator,
    ) -> Score:
        """The acquisition's score under the constraints (see Acquisition.score)."""
        score = acquisition.score(posterior, data, pending, q, rng)
        if Capability.CONSTRAINED in provided(acquisition) or not posterior.columns:
            return score
        scale = scale_of(acquisition)
        rule = self.rule or (Bound() if scale == "free" else Probability())
        return rule.constrained(score, scale, posterior, data, pending)

    def _parts(
        self, objective: Surrogate, data: Observations, bilogs: tuple[Bilog | None, ...]
    ) -> dict[str, tuple[Surrogate, Observations]]:
        each = self.learner(objective)
        own = {f"constraint{k + 1}": (each, bent(data.constraint(k), bilog)) for k, bilog in enumerate(bilogs)}
        return {_OBJECTIVE: (objective, data.objective), **_further(objective, data), **own}


@dataclass(frozen=True, eq=False)
class _Fits:
    """Parts that are fitted so far, and the interrupted fit of the next part."""

    data: Observations
    bilogs: tuple[Bilog | None, ...]
    done: Mapping[str, Posterior] = field(default_factory=dict)
    hidden: FeasibilityPosterior | None = None
    running: tuple[str, Mapping[str, Tensor]] | None = None

    @classmethod
    def of(
        cls, data: Observations, state: Mapping[str, Tensor], parts: Mapping[str, tuple[Surrogate, Observations]]
    ) -> "_Fits":
        bilogs = _stored(data, state)
        stored = {name: part(state, f"{name}.") for name in parts}
        done = {name: surrogate.restore(own, stored[name]) for name, (surrogate, own) in parts.items() if stored[name]}
        running = next(((name, begun) for name in parts if (begun := part(state, f"{_RUNNING}{name}."))), None)
        return cls(data, bilogs, done, running=running)

    def begun(self, name: str) -> Mapping[str, Tensor] | None:
        return self.running[1] if self.running is not None and self.running[0] == name else None

    def relayed(self, name: str, report: Report) -> Report:
        """A report for one part's fit: metrics get its name, except the objective's; checkpoints hold all parts."""

        def relay(step: int, metrics: Mapping[str, float], checkpoint: Callable[[], dict[str, Tensor]]) -> None:
            told = {metric if name == _OBJECTIVE else f"{name}.{metric}": value for metric, value in metrics.items()}
            report(step, told, lambda: replace(self, running=(name, checkpoint())).state())

        return relay

    def state(self) -> dict[str, Tensor]:
        state = stamped(self.data)
        if any(self.bilogs):
            scales = [0.0 if bilog is None else bilog.scale for bilog in self.bilogs]
            state[_BILOGS] = torch.tensor(scales, dtype=torch.float64)
        for name, posterior in self.done.items():
            state |= named(f"{name}.", posterior.state())
        if self.hidden is not None:
            state |= named(f"{_HIDDEN}.", self.hidden.state())
        if self.running is not None:
            state |= named(f"{_RUNNING}{self.running[0]}.", self.running[1])
        return state

    def posterior(self) -> ConstrainedPosterior:
        m, parts = max(len(self.data.aims), 1), tuple(self.done.values())
        objective = SeveralObjectives(parts[:m], self.data.aims) if self.data.aims else parts[0]
        return ConstrainedPosterior(objective, parts[m:], self.hidden, self.state(), self.bilogs)


def _chosen(data: Observations) -> tuple[Bilog | None, ...]:
    """The transform of each constraint, by evidence."""
    return tuple(chosen(data.constraint(k)) for k in range(data.constraints.shape[1]))


def _stored(data: Observations, state: Mapping[str, Tensor]) -> tuple[Bilog | None, ...]:
    """The transform of each constraint under which a state was fitted; a state that names none had none.

    Raises:
        ValueError: the state is of other data.
    """
    refuse_other_data(data, state)
    scales = state[_BILOGS].tolist() if _BILOGS in state else [0.0] * data.constraints.shape[1]
    return tuple(Bilog(scale) if scale else None for scale in scales)


def _further(objective: Surrogate, data: Observations) -> dict[str, tuple[Surrogate, Observations]]:
    """The objectives after the first, each with its surrogate: that of the first, unless it needs an equation."""
    each = ExactGP() if Capability.EQUATION in required(objective) else objective
    return {f"{_OBJECTIVE}{k + 1}": (each, data.objective_of(k)) for k in range(1, len(data.aims))}


def _outcomes(data: Observations) -> tuple[np.ndarray, np.ndarray]:
    """Designs that gave a result or failed, shape (n + k, d), and True for those with a result, shape (n + k,)."""
    succeeded = np.arange(len(data) + len(data.failed)) < len(data)
    return np.vstack([data.X, data.failed]), succeeded
