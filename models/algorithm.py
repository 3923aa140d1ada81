"""Algorithms: a surrogate, an acquisition and a maximizer, with a start that needs no data.

A rival, a whole optimiser of another package, may replace the three.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from fieldcraft.models.acquisition import Acquisition, RemarkedScore, Score
from fieldcraft.models.capability import Capability, provided, required
from fieldcraft.models.constraints import Constraints
from fieldcraft.models.coordinates.model_coordinates import ModelCoordinates, among
from fieldcraft.models.coordinates.posterior import of_designs, of_model
from fieldcraft.models.coordinates.score import of_designs as score_of_designs
from fieldcraft.models.feasibility.constrained import ConstrainedPosterior
from fieldcraft.models.gaussian.exact_results import through_results
from fieldcraft.models.levels.choice import believing, levelled
from fieldcraft.models.maximizer import Candidates, Maximizer
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.numerics.neighbours import neighbours
from fieldcraft.models.observations import Array, Emulator, Observations
from fieldcraft.models.proposer import Proposer, TakesEmulators
from fieldcraft.models.rival import Rival
from fieldcraft.models.scoring.repeats import repeating
from fieldcraft.models.scoring.second_opinion import advised
from fieldcraft.models.surrogate import Posterior, Report, Surrogate, no_report
from fieldcraft.physics.space import SearchSpace

# Random designs among which the one nearest to a repeated design is sought.
_SAMPLES = 1024
_ROUND_OFF = 1e-9


@dataclass(frozen=True)
class Algorithm:
    """Method by which a campaign chooses its next designs. It holds no state.

    Args:
        initial: Proposer of the first designs, or of all designs if there is neither surrogate nor rival.
        n_initial: Number of designs that are proposed without a model, >= 1.
        surrogate: Model that learns from the trials.
        acquisition: Worth of a candidate, given the model.
        maximizer: Search for the best candidate.
        peer: A rival, a whole optimiser of another package, instead of the three.
        constraints: Treatment of unknown constraints, if there are any.
        repeats: True if a tried design is proposed again where another result of it is worth more than one of a new
            design (see ``models.scoring.repeats``). Where results are exact, none is.

    Raises:
        ValueError: n_initial < 1, only some of the three parts are given, or a rival beside them.
    """

    initial: Proposer
    n_initial: int
    surrogate: Surrogate | None = None
    acquisition: Acquisition | None = None
    maximizer: Maximizer | None = None
    peer: Rival | None = None
    constraints: Constraints = field(default_factory=Constraints)
    repeats: bool = False

    def __post_init__(self) -> None:
        if self.n_initial < 1:
            raise ValueError(f"n_initial is {self.n_initial}: at least one design must come before any model.")
        words = {"surrogate": self.surrogate, "acquisition": self.acquisition, "maximizer": self.maximizer}
        missing = [name for name, word in words.items() if word is None]
        if self.peer is not None and len(missing) < len(words):
            given = " and ".join(name for name in words if name not in missing)
            raise ValueError(f"The algorithm has a rival and {given} beside it: a rival is all of it; leave one out.")
        if 0 < len(missing) < len(words):
            raise ValueError(
                f"The algorithm has no {' and no '.join(missing)}: give surrogate, acquisition and maximizer together, "
                "or none of them to go on with the initial proposer."
            )

    def begin(
        self,
        space: SearchSpace,
        start: int,
        q: int,
        rng: np.random.Generator,
        taken: Array | None = None,
        emulators: tuple[Emulator, ...] = (),
        maximize: bool = False,
        first: Array | None = None,
    ) -> Array:
        """The next q designs of the initial sequence, encoded, shape (q, d).

        Args:
            space: Where to search.
            start: Number of designs of the sequence that were given before.
            q: Number of designs to give.
            rng: The only source of randomness.
            taken: Encoded designs, shape (k, d), that must not be given. Each of them, and each design that the
                sequence repeats, is replaced by the nearest free one. None for no such rule.
            emulators: Cheap predictions of the objective and of each constraint, for a sequence that begins with them.
            maximize: True if the objective is maximised.
            first: Encoded designs, shape (k, d), with which the sequence begins: the best of earlier campaigns.

        Raises:
            ValueError: the space has too few designs left, the sequence needs emulators and there are none, or it gave
                no designs of the encoded space.
        """
        initial = self.initial
        if emulators and isinstance(initial, TakesEmulators):
            initial = initial.given(emulators, maximize=maximize)
        before = np.empty((0, space.dimension)) if first is None else first
        X = before[start : start + q]
        if len(X) < q:
            more = initial.propose(space, max(start - len(before), 0), q - len(X), rng)
            _refuse_strange(more, (q - len(X), space.dimension), type(initial).__name__)
            X = np.vstack([X, more])
        return X if taken is None else _distinct(X, taken, space, rng)

    def fit(
        self,
        data: Observations,
        rng: np.random.Generator,
        start: Mapping[str, Tensor] | None = None,
        report: Report = no_report,
    ) -> Posterior:
        """The surrogate fitted to data, and one more to each further objective and unknown constraint."""
        surrogate, coordinates = self._words()[0], ModelCoordinates.of(data.space)
        seen = data if coordinates is None else coordinates.taught(data)
        if seen.parted:
            found: Posterior = self.constraints.fit(surrogate, seen, rng, start, report)
        else:
            found = surrogate.fit(seen, rng, start, report)
        return found if coordinates is None else of_designs(found, coordinates)

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> Posterior:
        """The posterior restored from ``state`` (see Surrogate.restore)."""
        surrogate, coordinates = self._words()[0], ModelCoordinates.of(data.space)
        seen = data if coordinates is None else coordinates.taught(data)
        found = self.constraints.restore(surrogate, seen, state) if seen.parted else surrogate.restore(seen, state)
        return found if coordinates is None else of_designs(found, coordinates)

    def propose(
        self,
        posterior: Posterior,
        data: Observations,
        pending: ArrayLike,
        space: SearchSpace,
        q: int,
        rng: np.random.Generator,
        pending_lower: Sequence[Array] = (),
        proposed: int = 0,
    ) -> Candidates:
        """The next batch of q designs, and where the simulator has levels, the level of each.

        A maximizer that takes only functions of mean and standard deviation cannot avoid designs that fail. Once a
        design has failed, multistart replaces it, and a remark states this.

        Args:
            posterior: Posterior fitted to data.
            data: The observations behind it.
            pending: Encoded designs without a result yet, not to be proposed again, shape (k, d); k may be 0. If
                results are exact, designs that were read are not proposed again either.
            space: Where to search; a subset of where the data come from is fine.
            q: Size of the batch.
            rng: The only source of randomness.
            pending_lower: Encoded designs without a result at each coarser level, shapes (k, d), by level. They are not
                to be proposed at that level again; they may be at another.
            proposed: Number of designs that were proposed before this batch, whatever became of them. A rule that
                treats designs in turn, such as ``probing``, goes by it.
        """
        waiting = torch.as_tensor(np.array(pending, dtype=np.float64).reshape(-1, data.X.shape[1]))
        taken = waiting.numpy()
        if data.exact:
            taken = np.vstack([taken, data.X])
        coordinates = ModelCoordinates.of(data.space)
        posterior = believing(posterior, pending_lower)
        beliefs, seen = posterior, data
        told: Callable[[Array], Array] = np.asarray if coordinates is None else coordinates.array
        if coordinates is not None:
            beliefs, seen = of_model(posterior), coordinates.seen(data)
        out, lower = torch.tensor(told(waiting.numpy())), [told(X) for X in pending_lower]
        found, score = self._searched(beliefs, seen, out, space, q, rng, taken, proposed, coordinates)

        def instead(other: Posterior, beside: Array, slot: int) -> Candidates:
            theirs = believing(other, lower)
            if isinstance(beliefs, ConstrainedPosterior):
                theirs = replace(beliefs, objective=theirs)
            sent, gone = torch.cat([out, torch.tensor(told(beside))]), np.vstack([taken, beside])
            return self._searched(theirs, seen, sent, space, 1, rng, gone, proposed + slot, coordinates)[0]

        found = advised(found, beliefs, seen, told, instead)
        if self.repeats and not data.exact:
            found = repeating(found, score, posterior, data, waiting, space)
        if data.aims or not data.lower:
            return found
        return levelled(found, posterior, data, waiting, pending_lower, space, score, self.n_initial, rng)

    def _searched(
        self,
        beliefs: Posterior,
        seen: Observations,
        out: Tensor,
        space: SearchSpace,
        q: int,
        rng: np.random.Generator,
        taken: Array,
        proposed: int,
        coordinates: ModelCoordinates | None,
    ) -> tuple[Candidates, Score]:
        """The batch that beliefs score best, and that score; beliefs, results and designs sent as models see them."""
        _, acquisition, maximizer = self._words()
        if seen.exact and self._takes_any():
            beliefs = through_results(beliefs, seen)
        constrained = isinstance(beliefs, ConstrainedPosterior)
        if isinstance(beliefs, ConstrainedPosterior):
            score = self.constraints.score(acquisition, beliefs, seen, out, q, rng, proposed)
        else:
            score = acquisition.score(beliefs, seen, out, q, rng)
        notes = tuple(score.remarks(slot) for slot in range(q)) if isinstance(score, RemarkedScore) else ()
        if coordinates is not None:
            score = score_of_designs(score, coordinates)
        if constrained and Capability.OF_MOMENTS in required(maximizer):
            found = Multistart().maximize(score, space, q, rng, taken)
            said = f"multistart: {len(seen.failed)} designs have failed, and where others will is part of the score"
            found = replace(found, remarks={**found.remarks, "maximizer": said})
        else:
            found = maximizer.maximize(score, space, q, rng, taken)
        return replace(found, notes=notes), score

    def suggest(
        self, data: Observations, pending: ArrayLike, space: SearchSpace, q: int, rng: np.random.Generator
    ) -> Array:
        """The rival's next batch of q designs, encoded and feasible, shape (q, d) (see Rival.suggest).

        Other packages search real numbers, which are converted to designs afterwards, and are not told of designs that
        failed. A design that is pending, has failed, was given already or, if results are exact, was read already is
        replaced by the nearest free one.

        Raises:
            ValueError: there is no rival, it cannot search this space, it did not give q designs, or the
                space is discrete and has too few designs left.
        """
        if self.peer is None:
            raise ValueError("This algorithm has no rival: use `fit` and `propose`, or `initial`.")
        waiting = np.array(pending, dtype=np.float64).reshape(-1, data.X.shape[1])
        X = self.peer.suggest(data, waiting, space, q, rng)
        taken = np.vstack([waiting, data.failed, *([data.X] if data.exact else [])])
        if X.shape != (q, space.dimension):
            raise ValueError(f"The rival gave designs of the shape {X.shape}, not {(q, space.dimension)}.")
        return _distinct(space.repair(X), taken, space, rng)

    def _takes_any(self) -> bool:
        """True if acquisition and maximizer take any posterior, and not only a certain Gaussian process."""
        needs = required(self.acquisition) | required(self.maximizer)
        certain = {Capability.EXACT, Capability.GROUPED, Capability.OF_MOMENTS}
        return not needs & certain and Capability.BY_GROUP not in provided(self.maximizer)

    def _words(self) -> tuple[Surrogate, Acquisition, Maximizer]:
        if self.surrogate is None or self.acquisition is None or self.maximizer is None:
            raise ValueError(
                "This algorithm has no surrogate: it only proposes from its initial sequence; use `initial`."
            )
        return self.surrogate, self.acquisition, self.maximizer


def _refuse_strange(X: object, shape: tuple[int, int], proposer: str) -> None:
    """Accept encoded designs of this shape, all in [-1, 1]."""
    if not isinstance(X, np.ndarray) or X.shape != shape or X.dtype.kind not in "fiu":
        found = (
            f"of the shape {X.shape} and the type {X.dtype}" if isinstance(X, np.ndarray) else f"a {type(X).__name__}"
        )
        raise ValueError(
            f"The proposer {proposer} gave designs {found}: 'propose' returns an array of numbers {shape}."
        )
    outside = np.argwhere(~(np.abs(X) <= 1 + _ROUND_OFF))
    if len(outside):
        row, column = outside[0].tolist()
        raise ValueError(
            f"The proposer {proposer} gave {X[row, column]} for coordinate {column} of design {row}: encoded "
            "coordinates lie in [-1, 1]."
        )


def _distinct(X: Array, taken: Array, space: SearchSpace, rng: np.random.Generator) -> Array:
    """X (q, d) with each row that is in ``taken`` (k, d), or equal to a row before it, replaced by a free design."""
    gone = taken
    for x in X:
        gone = np.vstack([gone, _nearest_free(x, gone, space, rng) if among(x[None], gone, space)[0] else x])
    return gone[len(taken) :]


def _nearest_free(x: Array, gone: Array, space: SearchSpace, rng: np.random.Generator) -> Array:
    """The free design nearest to x (d,), among its neighbours in one discrete variable and random designs."""
    near = np.vstack([neighbours(space, x), space.sample(_SAMPLES, rng)])
    free = near[~among(near, gone, space)]
    if len(free) == 0:
        raise ValueError(
            f"No design is left for the batch: the space is discrete and {len(gone)} of its designs are taken; lower "
            "the batch size or widen the space."
        )
    return np.asarray(free[np.argmin(np.linalg.norm(free - x, axis=1))])
