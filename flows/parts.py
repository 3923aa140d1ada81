"""What the parts of a campaign or study file have in common: no key that is unknown, and numbers that are numbers."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from storage.limits import LARGEST


def no_truth(value: Any) -> Any:
    """What is given for a number, unless it is true or false, which YAML makes of ``yes`` and ``on``, too.

    Raises:
        ValueError: it is.
    """
    if isinstance(value, bool):
        raise ValueError("true and false (YAML's yes, no, on, off) say nothing here: give a number, or quote the word")
    return value


def _within_reach(time: float) -> float:
    if time > LARGEST:
        raise ValueError(f"such a time is out of reach: give at most {LARGEST:g}, or leave it out")
    return time


Finite = Annotated[float, BeforeValidator(no_truth), Field(allow_inf_nan=False)]
Time = Annotated[float, AfterValidator(_within_reach)]


class Part(BaseModel):
    """A part of a file: frozen, unknown keys and numbers that are none refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _is_a_number(cls, value: Any, about: ValidationInfo) -> Any:
        return value if cls.model_fields[about.field_name or ""].annotation is bool else no_truth(value)
