"""Conversion of names, texts and numbers for MLflow: allowed characters, limited lengths, dotted keys, milliseconds."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fieldcraft.storage.objective import Objective
from fieldcraft.storage.pareto import front_of
from fieldcraft.storage.records import Origin, Trial, TrialState, canonical, digest_of
from fieldcraft.storage.text import printable

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
    cleaned = "".join(each if printable(each) == each else "_" for each in re.sub(r"[^\w.\- :]", "_", name))
    if cleaned == name and not name.startswith("..") and name not in ("", ".") and len(name) <= NAME_LENGTH:
        return name
    return f"{cleaned[: NAME_LENGTH - 9].lstrip('.')}-{digest_of(name)[:8]}"


def about_trial(trial: Trial, corrections: int, levels: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Tags of a trial.

    Args:
        trial: The trial.
        corrections: How often its result was corrected.
        levels: Options of the simulator's levels, of which a coarser run states its own.
    """
    level = None if trial.level is None else dict(enumerate(levels)).get(trial.level, trial.level)
    return {
        "fieldcraft.state": trial.state.value,
        "fieldcraft.failure": trial.failure,
        "fieldcraft.iteration": trial.iteration,
        "fieldcraft.attempt": trial.attempt,
        "fieldcraft.revision": trial.revision,
        "fieldcraft.digest": trial.digest,
        "fieldcraft.design": trial.design if trial.revision > 1 else None,
        "fieldcraft.ran": trial.ran,
        "fieldcraft.corrected": corrections or None,
        "fieldcraft.retracted": trial.outputs is None if corrections else None,
        "fieldcraft.field": trial.field and trial.field.digest,
        "fieldcraft.origin": trial.origin.kind,
        "fieldcraft.level": level,
        "fieldcraft.algorithm": trial.origin.algorithm,
        "fieldcraft.model": trial.origin.model and trial.origin.model.digest,
        "fieldcraft.certificate": trial.origin.certificate and trial.origin.certificate.status,
        "fieldcraft.bound_of": trial.origin.certificate and trial.origin.certificate.bound_of,
    }


def foreseen(origin: Origin) -> dict[str, float]:
    """Metrics of the prediction and the proven bound for a design when it was proposed.

    Of several objectives ``mean`` and ``sd`` are those of the first, ``mean.NAME`` and ``sd.NAME`` those of the others.
    """
    proven = origin.certificate
    found = {"mean": origin.mean, "sd": origin.sd, "acquisition": origin.acquisition, "feasible": origin.feasible}
    for name, each in origin.further.items():
        found |= {f"mean.{name}": each.mean, f"sd.{name}": each.sd}
    if proven:
        found |= {"bound": proven.bound, "gap": proven.gap, "nodes": float(proven.nodes)}
        found["improvement"] = proven.improvement
    if (bound := origin.regret) is not None:
        found |= {"regret": bound.regret, "lower_bound": bound.lower}
    return {f"origin.{name}": value for name, value in found.items() if value is not None}


def held_out_errors(origin: Origin, objective: Objective, outputs: Mapping[str, float]) -> dict[str, float]:
    """Metrics of how far a prediction was from the result: of the objective, or of each of several.

    Of several objectives ``held_out_error`` is that of the first, ``held_out_error.NAME`` those of the others.
    """
    if not outputs:
        return {}
    means = {} if origin.mean is None else {"held_out_error": (origin.mean, objective.output)}
    means |= {f"held_out_error.{name}": (each.mean, name) for name, each in origin.further.items()}
    return {metric: abs(mean - outputs[name]) for metric, (mean, name) in means.items()}


def measured(objective: Objective, outputs: Mapping[str, float]) -> dict[str, float]:
    """Metrics of a result: its objective and, separately, each constraint, their violation and feasibility (0, 1).

    A problem without constraints has its outputs alone, as has a result that was retracted.
    """
    named = {f"constraint.{name}" if name in objective.constraints else name: v for name, v in outputs.items()}
    if not (objective.constraints and outputs):
        return named
    return {**named, "violation": objective.violation(outputs), "feasible": float(objective.feasible(outputs))}


def counted(objective: Objective, results: Sequence[Mapping[str, float]], failed: int) -> dict[str, float]:
    """Metrics of all results so far; ``failed`` is the number of further designs that failed as infeasible.

    ``best_so_far`` is over the results that satisfy the constraints. With constraints there are ``least_violation`` and
    the numbers of feasible and infeasible results. If any design failed as infeasible, their number is included.

    Several objectives have no best: there is ``front``, the number of results that no other dominates, and
    ``hypervolume`` where every reference is stated. An inferred reference moves with the results, so that its
    hypervolumes do not compare.
    """
    found: dict[str, float | None] = {"best_so_far": objective.best_of(results)}
    if objective.goals:
        front = front_of(objective, results)
        found |= {"front": len(front.members), "hypervolume": None if front.inferred else front.hypervolume}
    if objective.constraints and results:
        feasible = sum(objective.feasible(outputs) for outputs in results)
        found["least_violation"] = min(objective.violation(outputs) for outputs in results)
        found |= {"total.feasible": feasible, "total.infeasible": len(results) - feasible}
    if failed:
        found["total.failed_infeasible"] = failed
    return {name: float(value) for name, value in found.items() if value is not None}


def about_model(remarks: Mapping[str, str], scores: Mapping[str, float]) -> tuple[dict[str, str], dict[str, float]]:
    """Tags of a model's remarks, and metrics of the scores of the candidates it was chosen among."""
    said = {f"fieldcraft.remark.{_dotted(name)}": text for name, text in remarks.items()}
    return said, {f"origin.score.{_dotted(name)}": value for name, value in scores.items()}


def training(curve: Sequence[Mapping[str, float]], metrics: Mapping[str, float]) -> list[tuple[str, float, int]]:
    """Points (name, value, step) of a training's curve, rows with a ``step``, and after them its final metrics."""
    points = [(name, value, int(row["step"])) for row in curve for name, value in row.items() if name != "step"]
    last = 1 + max((step for _, _, step in points), default=-1)
    points += [(name, value, last) for name, value in metrics.items()]
    return [(_dotted(name), value, step) for name, value, step in points]


def parameters(values: Mapping[str, Any]) -> dict[str, str]:
    """Parameters of a run: safe names, values as text of at most MLflow's length."""
    return {safe_name(name): _text(value, PARAMETER_LENGTH) for name, value in values.items()}


def tags(values: Mapping[str, Any]) -> dict[str, str]:
    """Tags of a run; those that are None are left out."""
    return {safe_name(name): _text(value, TAG_LENGTH) for name, value in values.items() if value is not None}


def outcome(objective: Objective, trial: Trial) -> dict[str, float]:
    """Metrics of a trial's result; for a design without a result because it is infeasible, a metric that states this.

    A completed trial also has the cost of all its attempts together: wall time in s, and budget units.
    """
    if trial.failure == "infeasible":
        return {"feasible": 0.0}
    took = {"trial.seconds": trial.seconds, "trial.spent": trial.spent}
    return measured(objective, trial.outputs or {}) | (took if trial.state is TrialState.COMPLETED else {})


def artifacts(uri: str, experiment: str) -> str | None:
    """Folder of a local store's artifacts; None for a server, which chooses it."""
    scheme, _, path = uri.partition(":///")
    return (Path(path).parent / "artifacts" / safe_name(experiment)).as_uri() if scheme == "sqlite" else None


def colour(experiment: str) -> str:
    """Colour of a campaign's curves; successive experiments differ, which MLflow's own choice does not guarantee."""
    number = int(experiment) if experiment.isdecimal() else int(digest_of(experiment)[:8], 16)
    return COLOURS[number % len(COLOURS)]


def milliseconds(seconds: float) -> int:
    """A time or a duration in whole milliseconds."""
    return round(seconds * 1000)


def _dotted(name: str) -> str:
    """The name with dots for slashes (``physics_informed/basis``, a candidate); MLflow takes slashes for paths."""
    return name.replace("/", ".")


def _text(value: Any, limit: int) -> str:
    text = printable(value if isinstance(value, str) else canonical(value))
    return text if len(text) <= limit else text[: limit - 3] + "..."
