"""What each step notes of an iteration, as one record a step: the payloads of the ledger's products, typed.

A payload is JSON, of which the digest is kept, so that what was once written stays as it is. The fields of a record are
in the order in which they are written. A field with a default is one that an earlier version did not write.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import Product

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


@dataclass(frozen=True)
class Collocated:
    """The step ``collocate``: points at which an equation is imposed, which the product refers to.

    Args:
        scheme: How they were drawn.
        points: How many there are.
    """

    scheme: str
    points: int

    @classmethod
    def of(cls, product: Product) -> "Collocated":
        """The record of a product of this step."""
        return _of(cls, product.payload)

    def payload(self) -> dict[str, Any]:
        """The payload as it is noted."""
        return _data(self)


@dataclass(frozen=True)
class Acquired:
    """The step ``acquire``: what choosing designs took.

    Args:
        designs: How many were chosen.
        seconds: Wall time.
        cpu_seconds: CPU time of the process.
    """

    designs: int
    seconds: float
    cpu_seconds: float

    @classmethod
    def of(cls, product: Product) -> "Acquired":
        """The record of a product of this step."""
        return _of(cls, product.payload)

    def payload(self) -> dict[str, Any]:
        """The payload as it is noted."""
        return _data(self)


@dataclass(frozen=True)
class Training:
    """Where and by whom a model was trained; ``threads`` and ``device`` are part of what decides its bits.

    Args:
        by: Who trained it.
        host: Name of the machine.
        device: Its device, in words.
        threads: How many threads computed.
        fallback: Why it was not trained elsewhere as it should have been; None where nothing went wrong.
    """

    by: str
    host: str
    device: str
    threads: int
    fallback: str | None


@dataclass(frozen=True)
class Recommendation:
    """The trial that a model holds for best.

    Args:
        trial: Its id.
        mean: Believed value of the objective without noise, in its unit.
        sd: Standard deviation of that belief, in the same unit.
        feasible: Whether it meets the constraints, by readings or by the model.
        probability: Of that by the model, 1 where it was read; None where that was not noted.
        constraints: Mean and standard deviation of each constraint, by its name, in its unit.
    """

    trial: str
    mean: float
    sd: float
    feasible: bool = True
    probability: float | None = None
    constraints: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The step ``train``: a model, whose checkpoint the product refers to.

    Args:
        surrogate: Kind and options of what learnt.
        data_digest: Digest of the data that it learnt from.
        trials: Ids of the trials that it saw.
        results: Ids of the results that it saw; None where corrections were not known, and each trial had one result.
        failed: Infeasible designs that it saw, by trial; None where constraints were not known.
        collocation: Digest of the collocation points; None for none.
        metrics: What the fit achieved.
        curve: The metrics during the fit, each with its ``step``.
        environment: What it was trained on (``flows.wiring.environment``).
        trained: Where and by whom; None where that was not noted.
        remarks: What a person should know of it, in words by name.
        recommended: The trial that it holds for best; None in a version that recommended none.
        seconds: Wall time of the training.
        cpu_seconds: CPU time of it; None where that was not noted.
    """

    surrogate: Mapping[str, Any] | None
    data_digest: str | None = None
    trials: Sequence[str]
    results: Sequence[int] | None = None
    failed: Mapping[str, Mapping[str, Any]] | None = None
    collocation: str | None = None
    metrics: Mapping[str, float]
    curve: Sequence[Mapping[str, float]] = ()
    environment: Mapping[str, Any]
    trained: Training | None = None
    remarks: Mapping[str, str] = field(default_factory=dict)
    recommended: Recommendation | None = None
    seconds: float
    cpu_seconds: float | None = None

    @classmethod
    def of(cls, product: Product) -> "Trained":
        """The record of a product of this step, whichever version noted it.

        Raises:
            KeyError: it lacks what every version notes.
        """
        told = product.payload
        trained, recommended = told.get("trained"), told.get("recommended")
        made = {
            "trained": None if trained is None else _of(Training, trained),
            "recommended": None if recommended is None else _of(Recommendation, recommended),
        }
        return _of(cls, {**told, **made})

    def payload(self) -> dict[str, Any]:
        """The payload as it is noted."""
        parts = {"trained": self.trained, "recommended": self.recommended}
        return _data(self) | {name: None if part is None else _data(part) for name, part in parts.items()}


@dataclass(frozen=True)
class TrainingNotes:
    """Entries of the step ``train`` that a page shows of every iteration, read without the trials that a model saw.

    Args:
        seconds: Wall time of the training; 0 where that was not noted.
        metrics: Figures that the fit achieved.
        remarks: What a person should know of it, in words by name.
    """

    seconds: float
    metrics: Mapping[str, float]
    remarks: Mapping[str, str]


def trainings(ledger: Ledger, campaign: str) -> Mapping[int, TrainingNotes]:
    """Notes of every training of a campaign, by iteration, whichever version wrote them."""
    keys = [each.name for each in fields(TrainingNotes)]
    return {
        iteration: TrainingNotes(told["seconds"] or 0.0, told["metrics"] or {}, told["remarks"] or {})
        for iteration, told in ledger.extracts(campaign, "train", keys).items()
    }


def _of(record: type[T], told: Mapping[str, Any]) -> T:
    """A record of what was told; keys that it does not know are left out.

    Raises:
        KeyError: a field without a default is not told.
    """
    known = {each.name: each for each in fields(record)}
    asked = [name for name, each in known.items() if name in told or _is_always_told(each)]
    return record(**{name: told[name] for name in asked})


def _is_always_told(each: Field[Any]) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def _data(record: "DataclassInstance") -> dict[str, Any]:
    """The fields of a record by their names, as they are."""
    return {each.name: getattr(record, each.name) for each in fields(record)}
