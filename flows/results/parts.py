"""Results in parts: what earlier parts say of a trial, and a part that says otherwise."""

from collections.abc import Mapping, Sequence

from fieldcraft.flows.analysis.incomplete import KnownOutput, known_outputs
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.text import clock, one_line
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.storage.records import TRANSITIONS, Result, Trial, TrialState


def completes(trial: Trial, attempt: int) -> bool:
    """True if a result of that attempt can complete the trial, and so a part of one adds to the other parts."""
    return attempt == trial.attempt and TrialState.COMPLETED in TRANSITIONS[trial.state]


def contradicted(
    trial: Trial, attempt: int, results: Sequence[Result], given: Mapping[str, float]
) -> dict[str, tuple[KnownOutput, float]]:
    """Given outputs of which a part of the attempt has another value: what is known and what is given, by name."""
    known = known_outputs(results, attempt) if completes(trial, attempt) else {}
    return {name: (known[name], value) for name, value in given.items() if name in known and known[name].value != value}


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
    units = {output.name: f" {output.unit}" if output.unit else "" for output in campaign.problem.measured}
    said = [
        f"{name} is known to be {known.value!r}{units[name]} (recorded by {one_line(known.by)}, "
        f"{clock(known.created)}), and this gives {value!r}{units[name]}"
        for name, (known, value) in others.items()
    ]
    values = " ".join(f"--value {name}={value!r}" for name, (_, value) in others.items())
    raise InputError(
        f"{where}{trial.id}: {'; '.join(said)}. Nothing was recorded. If the known value is right, leave "
        f"{' and '.join(others)} out. If it is wrong, correct it: 'fieldcraft correct {trial.id} {values} --reason "
        "...', or at the desk."
    )
