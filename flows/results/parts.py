"""Results in parts: what earlier parts say of a trial, and a part that says otherwise."""

from collections.abc import Mapping, Sequence

from fieldcraft.flows.analysis.incomplete import KnownOutput, known_outputs
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.text import clock, one_line, stated
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.storage.ledger.standing import standing_parts
from fieldcraft.storage.records import TRANSITIONS, Result, Trial, TrialState


def completes(trial: Trial, attempt: int) -> bool:
    """True if a result of that attempt can complete the trial, and so a part of one adds to the other parts."""
    return attempt == trial.attempt and TrialState.COMPLETED in TRANSITIONS[trial.state]


def measured_so_far(trial: Trial, attempt: int, results: Sequence[Result]) -> dict[str, KnownOutput]:
    """Outputs that parts of the attempt gave (see ``known_outputs``); empty where no result can complete the trial."""
    return known_outputs(results, attempt) if completes(trial, attempt) else {}


def contradicted(
    trial: Trial, attempt: int, results: Sequence[Result], given: Mapping[str, float]
) -> dict[str, tuple[KnownOutput, float]]:
    """Given outputs of which a part of the attempt has another value: what is known and what is given, by name."""
    known = measured_so_far(trial, attempt, results)
    return {name: (known[name], value) for name, value in given.items() if name in known and known[name].value != value}


def withdrawn(
    trial: Trial, attempt: int, results: Sequence[Result], given: Mapping[str, float], place: str
) -> set[str]:
    """Outputs that a line of a file gave before with the same values, in a part that was withdrawn since.

    A file that is read again does not bring them back; somebody who gives them by hand does.
    """
    if not place or not completes(trial, attempt):
        return set()
    standing, known, line = standing_parts(results, attempt), known_outputs(results, attempt), _line(place)
    gone = [
        part.outputs
        for part in results
        if part.verdict == "partial" and part.attempt == attempt and part not in standing
        if _line(part.details.get("place", "")) == line
    ]
    return {name for outputs in gone for name, value in given.items() if outputs.get(name) == value} - {*known}


def _line(place: str) -> str:
    """Name and line of a file; what is sent to the desk lies in another folder each time."""
    return place.rpartition("/")[2]


def known_text(campaign: Campaign, trial: Trial, attempt: int, results: Sequence[Result]) -> str:
    """`` Measured already: price 0.4 EUR (recorded by ann, ...). Still missing: strength.``; empty without a part."""
    known = measured_so_far(trial, attempt, results)
    missing = [output.name for output in campaign.problem.measured if output.name not in known]
    measured = ", ".join(_said(campaign, name, output) for name, output in known.items())
    return f" Measured already: {measured}. Still missing: {', '.join(missing)}." if known else ""


def outputs_text(campaign: Campaign, outputs: Mapping[str, float]) -> str:
    """``value 3.2 K, g1 -0.1``: outputs in the problem's order, with units."""
    known = [output for output in campaign.problem.outputs if output.name in outputs]
    return ", ".join(f"{o.name} {outputs[o.name]:.6g}{' ' * bool(o.unit)}{o.unit}" for o in known)


def _said(campaign: Campaign, name: str, known: KnownOutput) -> str:
    value = _quantity(campaign, name, known.value)
    return f"{name} {value} (recorded by {one_line(known.by)}, {clock(known.created)})"


def _quantity(campaign: Campaign, name: str, value: float) -> str:
    """A value in full, with its unit."""
    unit = next(output.unit for output in campaign.problem.measured if output.name == name)
    return f"{value!r}{' ' * bool(unit)}{unit}"


def require_agreement(
    campaign: Campaign, trial: Trial, attempt: int, results: Sequence[Result], given: Mapping[str, float], where: str
) -> None:
    """Accept outputs beside those that parts of the attempt gave before, whoever recorded them.

    Args:
        campaign: The campaign.
        trial: The trial.
        attempt: Number of the attempt.
        results: The trial's results, oldest first.
        given: The outputs that are to be recorded, in their units.
        where: Beginning of the error.

    Raises:
        InputError: an output has another value in a part; names the value, who gave it and when.
    """
    others = contradicted(trial, attempt, results, given)
    if not others:
        return
    said = [
        f"the known {_said(campaign, name, known)} is not the {_quantity(campaign, name, value)} given now"
        for name, (known, value) in others.items()
    ]
    values = " ".join(stated(name, f"{value!r}") for name, (_, value) in others.items())
    raise InputError(
        f"{where}{trial.id}: {'; '.join(said)}. Nothing was recorded. If the known value is right, leave "
        f"{' and '.join(others)} out. If it is wrong, correct it: 'fieldcraft correct {trial.id} {values} --reason "
        "...', or at the desk."
    )
