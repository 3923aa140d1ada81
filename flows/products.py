"""Records of an iteration, one a step: the payloads of the ledger's products, typed.

A payload is JSON whose digest is kept, so a payload that was once written never changes. The fields of a record are in
the order in which they are written. A field with a default is one that an earlier version did not write.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import Product, digest_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


@dataclass(frozen=True)
class Collocated:
    """The step ``collocate``: points at which an equation is imposed, which the product refers to.

    Args:
        scheme: Sampling scheme of the points.
        points: Number of points.
    """

    scheme: str
    points: int

    @classmethod
    def of(cls, product: Product) -> "Collocated":
        """The record of a product of this step."""
        return _of(cls, product.payload)

    def payload(self) -> dict[str, Any]:
        """The payload of this record."""
        return _data(self)


@dataclass(frozen=True)
class Acquired:
    """The step ``acquire``: number of designs, and time taken to choose them.

    Args:
        designs: Number of designs chosen.
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
        """The payload of this record."""
        return _data(self)


@dataclass(frozen=True)
class Training:
    """Machine and process that trained a model. Its bits depend on ``threads`` and ``device``.

    Args:
        by: The process that trained it.
        host: Name of the machine.
        device: Its device, in words.
        threads: Number of threads.
        fallback: Reason why remote training failed and it was trained here; None where nothing went wrong.
    """

    by: str
    host: str
    device: str
    threads: int
    fallback: str | None


@dataclass(frozen=True)
class Emulated:
    """The step ``emulate``: the network of an emulator, whose weights the product refers to.

    Args:
        collocation: Digest of the collocation points.
        loss: Mean loss of the last steps.
        curve: The loss during the training, each with its ``step``.
        trained: Process and machine of the training.
        seconds: Wall time.
        cpu_seconds: CPU time of the process.
    """

    collocation: str
    loss: float
    curve: Sequence[Mapping[str, float]]
    trained: Training
    seconds: float
    cpu_seconds: float

    @classmethod
    def of(cls, product: Product) -> "Emulated":
        """The record of a product of this step."""
        told = product.payload
        return _of(cls, {**told, "trained": _of(Training, told["trained"])})

    def payload(self) -> dict[str, Any]:
        """The payload of this record."""
        return _data(self) | {"trained": _data(self.trained)}


@dataclass(frozen=True)
class Warmed:
    """The step ``warm_start``: results of earlier campaigns, which the product refers to, in the file's order.

    Args:
        until: Id of the latest result that was read of each.
        results: Number of results of each.
    """

    until: Sequence[int]
    results: Sequence[int]

    @classmethod
    def of(cls, product: Product) -> "Warmed":
        """The record of a product of this step."""
        return _of(cls, product.payload)

    def payload(self) -> dict[str, Any]:
        """The payload of this record."""
        return {name: list(values) for name, values in _data(self).items()}


@dataclass(frozen=True)
class Recommendation:
    """The trial that a model recommends as best.

    Args:
        trial: Its id.
        mean: Predicted value of the objective without noise, in its unit.
        sd: Standard deviation of that prediction, in the same unit.
        feasible: True if it meets the constraints, by results or by the model.
        probability: Probability by the model that it is feasible, 1 where its result says so; None where not recorded.
        constraints: Mean and standard deviation of each constraint, by its name, in its unit.
    """

    trial: str
    mean: float
    sd: float
    feasible: bool = True
    probability: float | None = None
    constraints: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """The results that a model was trained on: all that counted when the latest of them had been recorded.

    Args:
        count: Number of results, one for each trial.
        until: Greatest id of a result of the campaign at that time, whether or not it counted.
        digest: Digest of the ids of the results, sorted.
    """

    count: int
    until: int
    digest: str

    @classmethod
    def of(cls, counting: Collection[int], until: int) -> "Seen":
        """The name of results, from their ids."""
        return cls(len(counting), until, digest_of(sorted(counting)))


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The step ``train``: a model, whose checkpoint the product refers to.

    Args:
        surrogate: Kind and options of the surrogate.
        data_digest: Digest of the training data.
        seen: The results in the training data; None in versions that listed them.
        trials: Ids of the trials in the training data, of a version that listed them.
        results: Ids of the results in the training data, of a version that listed them; None in versions without
            corrections, where each trial had one result.
        failed: Infeasible designs in the training data, by trial; None in versions without constraints.
        collocation: Digest of the collocation points; None for none.
        metrics: Metrics of the fit.
        curve: The metrics during the fit, each with its ``step``.
        environment: Machine and packages of the training (``flows.wiring.environment``).
        trained: Process and machine of the training; None where not recorded.
        remarks: Remarks for a person, by name.
        recommended: The trial that it recommends as best; None in versions without recommendations.
        partial: Parts of results in the training data, by trial: number (``result``) and ``design`` of each.
        weighed: True if the training data hold the standard deviations that single results state; False in versions
            that did not learn from them.
        seconds: Wall time of the training.
        cpu_seconds: CPU time of the training; None where not recorded.
    """

    surrogate: Mapping[str, Any] | None
    data_digest: str | None = None
    seen: Seen | None = None
    trials: Sequence[str] = ()
    results: Sequence[int] | None = None
    failed: Mapping[str, Mapping[str, Any]] | None = None
    collocation: str | None = None
    metrics: Mapping[str, float]
    curve: Sequence[Mapping[str, float]] = ()
    environment: Mapping[str, Any]
    trained: Training | None = None
    remarks: Mapping[str, str] = field(default_factory=dict)
    recommended: Recommendation | None = None
    weighed: bool = False
    partial: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seconds: float
    cpu_seconds: float | None = None

    @classmethod
    def of(cls, product: Product) -> "Trained":
        """The record of a product of this step, written by any version.

        Raises:
            KeyError: it lacks a field that every version writes.
        """
        told = product.payload
        trained, recommended, seen = told.get("trained"), told.get("recommended"), told.get("seen")
        if seen is None and "trials" not in told:
            raise KeyError("trials")
        made = {
            "seen": None if seen is None else _of(Seen, seen),
            "trained": None if trained is None else _of(Training, trained),
            "recommended": None if recommended is None else _of(Recommendation, recommended),
        }
        return _of(cls, {**told, **made})

    def payload(self) -> dict[str, Any]:
        """The payload of this record."""
        parts = {"seen": self.seen, "trained": self.trained, "recommended": self.recommended}
        told = _data(self) | {name: None if part is None else _data(part) for name, part in parts.items()}
        listed = {"trials", "results"} if self.seen is not None else {"seen"}
        listed |= set() if self.weighed else {"weighed"}  # as earlier versions wrote it
        listed |= set() if self.partial else {"partial"}
        return {name: value for name, value in told.items() if name not in listed}

    @property
    def count(self) -> int:
        """Number of trials in the training data."""
        return len(self.trials) if self.seen is None else self.seen.count


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
    """A record of a payload; keys that the record does not have are left out.

    Raises:
        KeyError: a field without a default is missing.
    """
    known = {each.name: each for each in fields(record)}
    asked = [name for name, each in known.items() if name in told or _is_always_told(each)]
    return record(**{name: told[name] for name in asked})


def _is_always_told(each: Field[Any]) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def _data(record: "DataclassInstance") -> dict[str, Any]:
    """The fields of a record by their names, unconverted."""
    return {each.name: getattr(record, each.name) for each in fields(record)}
