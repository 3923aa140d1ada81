"""The algorithm of a campaign file: its words, its start and its collocation points."""

from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from fieldcraft.flows.spec.base import Part, Trials


class Component(BaseModel):
    """A kind and its options, which ``flows.wiring.build`` validates with the class of the kind."""

    model_config = ConfigDict(extra="allow", frozen=True)
    kind: str


class Start(Part):
    """Start of a campaign: the designs before any model.

    Attributes:
        proposer: Proposer that draws them.
        n: Number of designs.
    """

    proposer: Component = Component(kind="sobol")
    n: Trials


class Collocation(Part):
    """Collocation points, at which the equation is imposed.

    Attributes:
        scheme: Placement of the points in the problem's domain.
        n: Number of points.
        resample: True for fresh points in every iteration; False for one set for the campaign.
    """

    scheme: Literal["sobol", "latin_hypercube", "uniform"] = "sobol"
    n: int = Field(default=256, ge=1, le=1_000_000)
    resample: bool = True


class ConstraintsSpec(Part):
    """Treatment of unknown constraints, which are the outputs after the first.

    Attributes:
        surrogate: Surrogate that learns each of them; the objective's own surrogate when left out.
        rule: Rule by which they enter the acquisition. When left out: by their probability where the score is positive
            or a logarithm, and of several objectives with probing designs, else by their optimistic bounds.
    """

    surrogate: Component | None = None
    rule: Component | None = None


class AlgorithmSpec(Part):
    """Surrogate x acquisition x maximizer, or a rival, after a start; without them, the start's proposer goes on.

    Attributes:
        named: The named algorithm from which these words were expanded, with its options and the words that the file
            gave instead of its own. It has no effect; in a file it must agree with the words.
        start: Start designs, before any model; a named algorithm brings its own.
        surrogate: Surrogate that learns from the trials.
        acquisition: Acquisition that scores a candidate.
        maximizer: Maximizer that finds the best candidate.
        peer: A rival, which is a whole optimiser of another package, instead of the three.
        constraints: Treatment of unknown constraints.
        collocation: Points at which an equation is imposed.
        repeats: True if a tried design is proposed again where another result of it is worth more than one of a new
            design; for noisy results and an exact Gaussian process. A proposal that is one says so.
    """

    named: Component | None = None
    start: Start
    surrogate: Component | None = None
    acquisition: Component | None = None
    maximizer: Component | None = None
    peer: Component | None = None
    constraints: ConstraintsSpec = ConstraintsSpec()
    collocation: Collocation = Collocation()
    repeats: bool = False

    @model_serializer(mode="wrap")
    def _without_absent_repeats(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Data as earlier versions wrote them where nothing is repeated, so that digests stay."""
        found: dict[str, Any] = handler(self)
        if not self.repeats:
            found.pop("repeats", None)
        return found

    @model_validator(mode="after")
    def _all_three_or_none(self) -> Self:
        words = {"surrogate": self.surrogate, "acquisition": self.acquisition, "maximizer": self.maximizer}
        given = [name for name, word in words.items() if word is not None]
        if self.peer is not None and given:
            raise ValueError(
                f"a rival (peer) is a whole optimiser, and {' and '.join(given)} given beside it: leave one out"
            )
        if 0 < len(given) < len(words):
            missing = [name for name in words if name not in given]
            raise ValueError(f"no {' and no '.join(missing)}: give surrogate, acquisition and maximizer, or none")
        return self

    @property
    def in_words(self) -> str:
        """Description of the algorithm: ``physics_informed x thompson x multistart``, or the rival's kind."""
        words = [word.kind for word in (self.surrogate, self.acquisition, self.maximizer, self.peer) if word]
        return " x ".join(words) or self.start.proposer.kind
