"""Origin of a design as a record, and what all records of the ledger are made of."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer


def _plain(value: object) -> object:
    """Turn a zero-dimensional array scalar into the Python number it holds, so that it survives JSON unchanged."""
    return value.item() if hasattr(value, "item") else value


Number = Annotated[float, BeforeValidator(_plain), Field(allow_inf_nan=False)]
Level = Annotated[
    Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True, allow_inf_nan=False)] | str,
    BeforeValidator(_plain),
]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]


class Record(BaseModel):
    """Base of all records: frozen, and a key that is not a field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")


class FieldRef(Record):
    """Reference to one immutable field (or checkpoint, or collocation set) by its content."""

    digest: Digest
    size: int = Field(ge=0)  # bytes on disk


class ProductRef(Record):
    """Reference to the product of a step: the iteration that made it, and its digest."""

    iteration: int = Field(ge=0)
    digest: Digest


class CertificateRecord(Record):
    """Proven bound on a design's acquisition value; the time the proof took is in the step's product."""

    bound: Number  # the acquisition exceeds this nowhere in the space, in its own units
    gap: Number = Field(ge=0)  # bound less the design's acquisition value
    status: Literal["optimal", "node_limit", "time_limit", "numerical"]
    bound_of: Literal["exact", "approximate"]  # the acquisition itself, or an approximation to it
    nodes: int = Field(ge=0)  # boxes or subproblems that were bounded
    improvement: Number | None = Field(default=None, ge=0)  # no design can be expected to be better than the best
    # believed value by more than this, in the objective's unit; None where the bound does not say


class RegretRecord(Record):
    """Proven bound of the regret: by the problem's equations and the fields of all results that the model saw."""

    lower: Number  # no design of the space has a smaller objective, in its unit
    regret: Number = Field(ge=0)  # best of those results less that
    best: Number  # best of those results
    status: Literal["optimal", "node_limit", "time_limit", "numerical"]
    nodes: int = Field(ge=0)  # boxes that were bounded


class PredictionRecord(Record):
    """Prediction of one of several objectives, in its unit."""

    mean: Number
    sd: Number = Field(ge=0)


class Origin(Record):
    """Origin of a design: all data that ``trace`` needs to follow it back."""

    kind: Literal["initial", "model", "imported"]
    algorithm: str  # in words: proposer, rival, or surrogate x acquisition x maximizer
    seed: int | None = None
    iteration: int = Field(ge=0)
    slot: int = Field(ge=0)
    model: ProductRef | None = None  # the trained surrogate that scored the design
    data_digest: Digest | None = None  # observations that surrogate saw
    collocation: Digest | None = None  # collocation set that surrogate saw
    environment: Digest | None = None  # code, versions and thread count of the process
    acquisition: Number | None = None  # acquisition value, in the acquisition's own units
    mean: Number | None = None  # predicted objective, in the objective's unit; of several, the first
    sd: Number | None = Field(default=None, ge=0)  # its standard deviation, in the objective's unit
    certificate: CertificateRecord | None = None  # where the maximizer proves something
    regret: RegretRecord | None = None  # where the surrogate bounds the objective from below
    reproducible: bool = True  # False when a time limit struck on the way
    remarks: Mapping[str, str] = {}  # what the model had to say of how it was made: a choice, a fallback
    scores: Mapping[str, Number] = {}  # of the surrogates it chose between: log predictive density, summed over trials
    level: int | None = Field(default=None, ge=0)  # of the simulator, from 0 by rising cost; None is the target
    further: Mapping[str, PredictionRecord] = {}  # of several objectives, those after the first, by output
    feasible: Number | None = Field(default=None, ge=0, le=1)  # of several objectives: predicted probability

    @model_serializer(mode="wrap")
    def _without_what_is_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Data as earlier versions wrote them without bounds of the regret, levels or several objectives."""
        found: dict[str, Any] = handler(self)
        for name in ("regret", "level", "further", "feasible"):
            if found.get(name) in (None, {}):
                found.pop(name, None)
        return found
