"""Treatment of unknown constraints: a surrogate for each, and the rule by which they enter a score.

Several objectives, and the parts of a computed one, are fitted here too, each by a surrogate of its own. A constraint
whose results span decades is learnt on a logarithmic scale where the evidence is for it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.acquisition import Acquisition, Score
from fieldcraft.models.capability import Capability, provided, required, scale_of
from fieldcraft.models.composite.posterior import CompositePosterior
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
from fieldcraft.models.rules.probing import Probing
from fieldcraft.models.surrogate import FitsTogether, Posterior, Report, Surrogate
from fieldcraft.models.surrogates.exact_gp import ExactGP

_OBJECTIVE, _HIDDEN, _RUNNING, _TOGETHER = "objective", "hidden", "running.", "together"
_BILOGS, _PART = "bilogs", "part"
_CLASSIFIER = FeasibilityGP()


@dataclass(frozen=True)
class Constraints:
    """Treatment of constraints that only experiments reveal.

    Args:
        surrogate: Surrogate of each constraint. None: the objective's own, or exact_gp if that needs an equation, since
            constraints have no equation.
        rule: Rule by which constraints enter the acquisition. None: by their probability if the score is positive or a
            logarithm, and of several objectives with probing designs, else by their optimistic bounds.
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
        rngs = {name: np.random.default_rng(seed) for name, seed in zip(parts, seeds, strict=False)}
        fits = _Fits(data, bilogs) if start is None else _Fits.of(data, start, parts)
        for batch in _batches(parts, fits):
            surrogate, own = parts[batch[0]]
            begun, told = fits.begun(batch), fits.relayed(batch, report)
            if len(batch) > 1 and isinstance(surrogate, FitsTogether):
                each, streams = [parts[name][1] for name in batch], [rngs[name] for name in batch]
                found = dict(zip(batch, surrogate.fit_together(each, streams, begun, told), strict=True))
                metrics = {name: posterior.metrics for name, posterior in found.items()}
            else:
                found, metrics = {batch[0]: surrogate.fit(own, rngs[batch[0]], begun, told)}, {}
            fits = replace(fits, done={**fits.done, **found}, running=None)
            report(len(fits.done), _by_part(metrics), fits.state)
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
        proposed: int = 0,
    ) -> Score:
        """The acquisition's score under the constraints (see Acquisition.score and Rule.constrained)."""
        score = acquisition.score(posterior, data, pending, q, rng)
        if Capability.CONSTRAINED in provided(acquisition) or not posterior.columns:
            return score
        scale = scale_of(acquisition)
        weighted = Probing() if data.aims else Probability()
        rule = self.rule or (Bound() if scale == "free" else weighted)
        return rule.constrained(score, scale, posterior, data, pending, proposed)

    def _parts(
        self, objective: Surrogate, data: Observations, bilogs: tuple[Bilog | None, ...]
    ) -> dict[str, tuple[Surrogate, Observations]]:
        each = self.learner(objective)
        own = {f"constraint{k + 1}": (each, bent(data.constraint(k), bilog)) for k, bilog in enumerate(bilogs)}
        if data.composite is not None:
            parts = range(len(data.composite.names))
            return {f"{_PART}{k + 1}": (objective, data.part(k)) for k in parts} | own
        return {_OBJECTIVE: (objective, data.objective), **_further(objective, data), **own}


@dataclass(frozen=True, eq=False)
class _Fits:
    """Parts that are fitted so far, and the interrupted fit of the next part or of several together."""

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
        names = {key.removeprefix(_RUNNING).partition(".")[0] for key in state if key.startswith(_RUNNING)}
        running = next(((name, part(state, f"{_RUNNING}{name}.")) for name in names), None)
        return cls(data, bilogs, done, running=running)

    def begun(self, batch: Sequence[str]) -> Mapping[str, Tensor] | None:
        return self.running[1] if self.running is not None and self.running[0] == _label(batch) else None

    def relayed(self, batch: Sequence[str], report: Report) -> Report:
        """A report for the fit of one part or of several: metrics get its name; checkpoints hold all parts.

        Metrics of the objective, and those of several parts together, get none.
        """
        name = batch[0] if len(batch) == 1 else _OBJECTIVE

        def relay(step: int, metrics: Mapping[str, float], checkpoint: Callable[[], dict[str, Tensor]]) -> None:
            report(
                step,
                _by_part({name: metrics}),
                lambda: replace(self, running=(_label(batch), checkpoint())).state(),
            )

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
        if self.data.composite is not None:
            m = len(self.data.composite.names)
            whole = CompositePosterior(parts[:m], self.data)
            return ConstrainedPosterior(whole, parts[m:], self.hidden, self.state(), self.bilogs)
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


def _batches(parts: Mapping[str, tuple[Surrogate, Observations]], fits: _Fits) -> list[list[str]]:
    """Names of the parts that are still to be fitted, in order; those that one surrogate fits together are together.

    A part whose own fit was interrupted, as by a version that fitted all one by one, is alone.
    """
    batches: list[list[str]] = []
    for name, (surrogate, own) in parts.items():
        if name in fits.done:
            continue
        last = batches[-1] if batches and fits.begun(batches[-1]) is None else []
        fitting = surrogate.at_once(own) if isinstance(surrogate, FitsTogether) else 1
        if last and len(last) < fitting and _alike(parts[last[0]], (surrogate, own)):
            last.append(name)
        else:
            batches.append([name])
    return batches


def _alike(one: tuple[Surrogate, Observations], other: tuple[Surrogate, Observations]) -> bool:
    """True if two parts may be fitted together: by one surrogate, at the same designs."""
    return one[0] == other[0] and np.array_equal(one[1].X, other[1].X)


def _label(batch: Sequence[str]) -> str:
    """Name of the fit of a batch in a checkpoint."""
    return batch[0] if len(batch) == 1 else f"{_TOGETHER}-{len(batch)}-{batch[0]}"


def _by_part(metrics: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Metrics of several parts in one; all but the objective's get the name of their part."""
    return {
        metric if name == _OBJECTIVE else f"{name}.{metric}": value
        for name, own in metrics.items()
        for metric, value in own.items()
    }


def _further(objective: Surrogate, data: Observations) -> dict[str, tuple[Surrogate, Observations]]:
    """The objectives after the first, each with its surrogate: that of the first, unless it needs an equation."""
    each = ExactGP() if Capability.EQUATION in required(objective) else objective
    return {f"{_OBJECTIVE}{k + 1}": (each, data.objective_of(k)) for k in range(1, len(data.aims))}


def _outcomes(data: Observations) -> tuple[np.ndarray, np.ndarray]:
    """Designs that gave a result or failed, shape (n + k, d), and True for those with a result, shape (n + k,)."""
    succeeded = np.arange(len(data) + len(data.failed)) < len(data)
    return np.vstack([data.X, data.failed]), succeeded
