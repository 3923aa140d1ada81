"""Contest between surrogates: its state, and the posterior of its winner; both can be stored as tensors."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.composite.sampled import Sampler, sampler_of
from fieldcraft.models.numerics.digests import refuse_other_data, stamped
from fieldcraft.models.numerics.scores import SCORE
from fieldcraft.models.numerics.states import named, part
from fieldcraft.models.observations import Observations, Scaling
from fieldcraft.models.surrogate import (
    BoundedBelow,
    Function,
    Minorants,
    Posterior,
    Report,
    Slopes,
    Surrogate,
    coarse,
    means,
    no_report,
    slopes_of,
)

OUT = "out."
"""Begins the names of the remarks that hold the reasons of the candidates that are out."""

MARGIN = 3.0
"""By how many nats a doubted candidate has to predict better: as odds, 20 to 1."""

_LEADER, _POSTERIOR, _RUNNING, _RUNS = "leader", "posterior.", "running.", "runs"


@dataclass(frozen=True, eq=False)
class Chosen:
    """The posterior of the candidate that was chosen, with the scores of the others.

    Args:
        name: Name of the candidate.
        posterior: Its posterior.
        scores: Scores of all candidates that were judged, in nats.
        refused: Reasons why the others were not judged.
        kept: Its state.
        others: The surrogates of the other candidates that were judged, the best first.
        data: Observations that all of them are fitted to.
        instead_of: Name of the candidate that predicts better, where this one has its turn; empty where none does.
    """

    name: str
    posterior: Posterior
    scores: Mapping[str, float]
    refused: Mapping[str, str]
    kept: Mapping[str, Tensor]
    others: Mapping[str, Surrogate]
    data: Observations
    instead_of: str = ""

    @property
    def of_objective(self) -> Posterior:
        """The chosen posterior."""
        return self.posterior

    @property
    def scaling(self) -> Scaling:
        """Map between its values and physical ones."""
        return self.posterior.scaling

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics of the chosen posterior, and ``score.NAME`` of all candidates."""
        return {**self.posterior.metrics, **{SCORE + name: value for name, value in self.scores.items()}}

    @property
    def remarks(self) -> Mapping[str, str]:
        """Remarks of the chosen posterior, ``chosen``, ``turn``, and ``out.NAME`` with each one's reason to be out."""
        out = {OUT + name: reason for name, reason in self.refused.items()}
        turn = {"turn": f"{self.name} learns from the fields and has its turn: {self.instead_of} predicts better"}
        return {**self.posterior.remarks, "chosen": self.name, **(turn if self.instead_of else {}), **out}

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the noise-free target at X (n, d)."""
        return self.posterior.mean_var(X)

    def mean(self, X: Tensor) -> Tensor:
        """Mean (n,) at X (n, d) alone."""
        return means(self.posterior, X)

    @property
    def moment_slopes(self) -> Slopes | None:
        """See ``Differentiable``."""
        return slopes_of(self.posterior)

    @property
    def target_sampler(self) -> Sampler | None:
        """See ``Sampled``."""
        return sampler_of(self.posterior)

    @property
    def minorants(self) -> Minorants | None:
        """See ``BoundedBelow``."""
        return self.posterior.minorants if isinstance(self.posterior, BoundedBelow) else None

    @property
    def coarse(self) -> Posterior:
        """See ``Screening``."""
        return coarse(self.posterior)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions, as the chosen posterior draws them."""
        return self.posterior.draw(q, rng)

    def fantasize(self, X: Tensor) -> "Chosen":
        """The choice, conditioned on X (k, d) having been read at the mean."""
        return replace(self, posterior=self.posterior.fantasize(X))

    def next_best(self) -> Iterator["Chosen"]:
        """The choice with the posterior of each other candidate in its place, the best first.

        Each is fitted when it is asked for, as a function of the data alone; one whose fit is refused is left out.
        """
        for name, surrogate in self.others.items():
            try:
                posterior = surrogate.fit(self.data, np.random.default_rng(0), None, no_report)
            except ValueError:
                continue
            yield replace(self, name=name, posterior=posterior, instead_of="")

    def state(self) -> dict[str, Tensor]:
        """The choice, the scores, and the chosen posterior's own state."""
        return dict(self.kept)


@dataclass(frozen=True, eq=False)
class Contest:
    """State of a contest: the candidates judged so far, and the leader.

    Args:
        data: Observations that the candidates are fitted to.
        doubted: Candidates that must beat one that is not doubted by more than ``MARGIN``.
        turn: Candidates whose turn it is: whatever the scores are, one of them that was judged leads.
        scores: Scores of the candidates judged, in nats.
        refused: Reasons why others were not judged.
        leader: The first in ``ranking`` so far, with its posterior.
        running: The candidate whose fit was interrupted, and its checkpoint.
        surrogates: The candidates' surrogates.
    """

    data: Observations
    doubted: frozenset[str] = frozenset()
    turn: frozenset[str] = frozenset()
    scores: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    leader: tuple[str, Posterior] | None = None
    running: tuple[str, Mapping[str, Tensor]] | None = None
    surrogates: Mapping[str, Surrogate] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        data: Observations,
        state: Mapping[str, Tensor],
        surrogates: Mapping[str, Surrogate],
        doubted: frozenset[str] = frozenset(),
        turn: frozenset[str] = frozenset(),
    ) -> "Contest":
        """The contest restored from ``state``.

        Raises:
            ValueError: the state is of other data, or of another surrogate.
        """
        refuse_other_data(data, state)
        contest = cls(
            data,
            doubted,
            turn,
            {name: float(value) for name, value in part(state, SCORE).items()},
            {name: _text(value) for name, value in part(state, OUT).items()},
            surrogates=surrogates,
        )
        if _LEADER in state:
            name = _text(state[_LEADER])
            posterior = surrogates[name].restore(data, part(state, _POSTERIOR))
            contest = replace(contest, leader=(name, posterior))
        if _RUNS in state:
            contest = replace(contest, running=(_text(state[_RUNS]), part(state, _RUNNING)))
        return contest

    def knows(self, name: str) -> bool:
        """True if a candidate was judged or refused."""
        return name in self.scores or name in self.refused

    def begun(self, name: str) -> Mapping[str, Tensor] | None:
        """The checkpoint of a candidate's interrupted fit; None to begin anew."""
        return self.running[1] if self.running is not None and self.running[0] == name else None

    def judged(self, name: str, posterior: Posterior, score: float) -> "Contest":
        """The contest with one more candidate, which becomes the leader if it is before the present one."""
        contest = replace(self, scores={**self.scores, name: score}, running=None)
        leads = self.leader is None or contest._rank(name) > self._rank(self.leader[0])
        return replace(contest, leader=(name, posterior)) if leads else contest

    @property
    def ranking(self) -> list[str]:
        """The candidates judged: those whose turn it is, then the others, each the best first (the first of equals)."""
        return sorted(self.scores, key=self._rank, reverse=True)

    def _rank(self, name: str) -> tuple[bool, float]:
        return name in self.turn, self._worth(name)

    def _worth(self, name: str) -> float:
        return self.scores[name] - (MARGIN if name in self.doubted else 0.0)

    def without(self, name: str, reason: str) -> "Contest":
        """The contest with one more candidate refused."""
        scores = {other: score for other, score in self.scores.items() if other != name}
        return replace(self, scores=scores, refused={**self.refused, name: reason}, running=None)

    def relayed(self, name: str, report: Report) -> Report:
        """A report for one candidate's fit: metrics have its name as prefix, checkpoints hold the contest too."""

        def relay(step: int, metrics: Mapping[str, float], checkpoint: Callable[[], dict[str, Tensor]]) -> None:
            told = {f"{name}.{metric}": value for metric, value in metrics.items()}
            report(step, told, lambda: replace(self, running=(name, checkpoint())).state())

        return relay

    @property
    def metrics(self) -> dict[str, float]:
        """The scores so far."""
        return {SCORE + name: value for name, value in self.scores.items()}

    def state(self) -> dict[str, Tensor]:
        """State as tensors; text as its bytes."""
        state = stamped(self.data)
        state |= {name: torch.tensor(value, dtype=torch.float64) for name, value in self.metrics.items()}
        state |= {OUT + name: _bytes(reason) for name, reason in self.refused.items()}
        if self.leader is not None:
            name, posterior = self.leader
            state |= {_LEADER: _bytes(name), **named(_POSTERIOR, posterior.state())}
        if self.running is not None:
            state |= {_RUNS: _bytes(self.running[0]), **named(_RUNNING, self.running[1])}
        return state

    def chosen(self) -> Chosen:
        """The leader's posterior.

        Raises:
            ValueError: no candidate was judged.
        """
        if self.leader is None:
            reasons = " ".join(f"{name}: {reason}" for name, reason in self.refused.items())
            raise ValueError(f"None of the candidates can be fitted to these {len(self.data)} trials. {reasons}")
        name, posterior = self.leader
        # An earlier version may have judged candidates that no longer exist.
        others = {other: self.surrogates[other] for other in self.ranking if other in self.surrogates and other != name}
        kept = replace(self, running=None).state()
        best = max(self.scores, key=self._worth)
        better = best if self._worth(best) > self._worth(name) else ""
        return Chosen(name, posterior, self.scores, self.refused, kept, others, self.data, better)


def _bytes(text: str) -> Tensor:
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


def _text(values: Tensor) -> str:
    return bytes(values.tolist()).decode()
