"""Names, texts and numbers as MLflow takes them: allowed characters, limited lengths, dotted keys, milliseconds."""

import re
from collections.abc import Mapping
from typing import Any

from storage.records import Trial, TrialState, canonical, digest_of

NAME_LENGTH, PARAMETER_LENGTH, TAG_LENGTH = 250, 6000, 8000  # limits of MLflow 3
COLOURS = ("#1f5fa8", "#b4371f", "#3a8f5c", "#8a5ba8", "#c58a1c", "#2b9aa8", "#7a5c46", "#5b6570")


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """One level of dotted keys: ``{"a": {"b": 1}}`` becomes ``{"a.b": 1}``. Lists are left as they are."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        flat |= flatten(value, name) if isinstance(value, Mapping) and value else {name: value}
    return flat


def safe_name(name: str) -> str:
    """``name`` where MLflow takes it, else with other characters as ``_`` and a digest that keeps it distinct."""
    cleaned = re.sub(r"[^\w.\- :]", "_", name, flags=re.ASCII)
    if cleaned == name and not name.startswith("..") and name not in ("", ".") and len(name) <= NAME_LENGTH:
        return name
    return f"{cleaned[: NAME_LENGTH - 9].lstrip('.')}-{digest_of(name)[:8]}"


def parameters(values: Mapping[str, Any]) -> dict[str, str]:
    """Parameters of a run: safe names, values as text of at most MLflow's length."""
    return {safe_name(name): _text(value, PARAMETER_LENGTH) for name, value in values.items()}


def tags(values: Mapping[str, Any]) -> dict[str, str]:
    """Tags of a run, without those that are None."""
    return {safe_name(name): _text(value, TAG_LENGTH) for name, value in values.items() if value is not None}


def expense(trial: Trial) -> dict[str, float]:
    """Metrics of what a completed trial took, all its attempts together: wall time in s, and budget units."""
    if trial.state is not TrialState.COMPLETED:
        return {}
    return {"trial.seconds": trial.seconds, "trial.spent": trial.spent}


def colour(experiment: str) -> str:
    """Colour of a campaign's curves: experiments made one after the other differ, which MLflow's own choice may not."""
    number = int(experiment) if experiment.isdecimal() else int(digest_of(experiment)[:8], 16)
    return COLOURS[number % len(COLOURS)]


def milliseconds(seconds: float) -> int:
    """A time or a duration in whole milliseconds."""
    return round(seconds * 1000)


def _text(value: Any, limit: int) -> str:
    text = value if isinstance(value, str) else canonical(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
