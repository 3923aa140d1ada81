"""Designs as they were run: each result gives the variables that differ, on top of those of earlier results."""

from collections.abc import Sequence

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.tables import Measurement, differs
from fieldcraft.flows.spec.registry import suggestion
from fieldcraft.flows.text import quoted
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.physics.space import Design
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import Result, Trial, TrialState, canonical


def design_sent(ledger: Ledger, trial: Trial, attempt: int) -> Design:
    """The design that an attempt was sent with; the trial may have been edited since."""
    if trial.revision == 1 or attempt == 0:
        return trial.design
    history = ledger.history(trial.campaign, trial.id)
    claims = [event.id for event in history if event.action == "move" and event.after is TrialState.STAGED]
    since = (e.details["was"] for e in history if e.action == "edit" and e.id > claims[attempt - 1])
    return next(since, trial.design)


def said_to_be_run(
    campaign: Campaign, trial: Trial, sent: Design, measurement: Measurement, where: str
) -> dict[str, float | int | str]:
    """Variables of the design as run that a submitted measurement gives; ``where`` begins an error.

    A restated variable counts only where it differs from the design that was ``sent``, or did not exist in it.

    Raises:
        InputError: one of them is no variable.
    """
    variables = {variable.name: variable for variable in campaign.problem.space.variables}
    for name in measurement.ran:
        if name not in variables:
            raise InputError(
                f"{where}{trial.id}: {quoted(name)} is no variable.{suggestion(name, variables)} Known: "
                f"{', '.join(variables)}."
            )
    told = campaign.problem.space.folds.existing(sent)
    return {
        name: value
        for name, value in measurement.ran.items()
        if not measurement.restated or name not in told or differs(variables[name], sent[name], value)
    }


def known_to_be_run(results: Sequence[Result], attempt: int) -> Design | None:
    """The whole design as run, as the results of an attempt tell it; None where none told of another than was asked."""
    told = [r.ran for r in results if r.attempt == attempt and r.verdict in ("partial", "accepted")]
    return told[-1] if told else None


def run_design(
    campaign: Campaign, trial: Trial, sent: Design, results: Sequence[Result], attempt: int, said: Design
) -> dict[str, float | int | str] | None:
    """The whole design as run, from an attempt's results and then from ``said``; None if it is the trial's own design.

    A value within a spreadsheet's rounding of the known or the sent one is replaced by that one. The sent design is
    that of the attempt: the attempt never ran an edit made since then.

    Raises:
        InputError: a variable exists in the design as run, did not in the one that was sent, and has no value.
    """
    design = {**sent, **(known_to_be_run(results, attempt) or {})}
    folds = campaign.problem.space.folds
    known = {*folds.existing(design), *said}
    for variable in campaign.problem.space.variables:
        name = variable.name
        if name in said and differs(variable, design[name], said[name]):
            design[name] = said[name] if differs(variable, sent[name], said[name]) else sent[name]
    for name in folds.existing(design):
        if name not in known:
            raise InputError(
                f"{trial.id}: {name} exists in the design as run and did not in the one that was sent: give its value "
                "too. Nothing was recorded."
            )
    return None if design == trial.design else design


def field_labels(design: Design, campaign: str | None = None, trial: str | None = None) -> dict[str, str]:
    """Labels of a stored field: its design as JSON, and the campaign and trial where there is one."""
    told = {"campaign": campaign, "trial": trial, "design": canonical(dict(design))}
    return {name: value for name, value in told.items() if value is not None}
