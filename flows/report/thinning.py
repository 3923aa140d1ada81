"""Selection of rows for the tables of a page: at most 200 of a campaign's thousands."""

from collections.abc import Sequence
from typing import TypeVar

from fieldcraft.flows.charts.series import completed
from fieldcraft.flows.report.markup import Markup, note
from fieldcraft.flows.report.material import Material
from fieldcraft.storage.records import Trial

T = TypeVar("T")
ROWS = 200  # of a table; more are thinned to so many
_BEST = 50  # of them in the table of trials, where it is thinned


def newest(records: Sequence[T], rest: str) -> tuple[Sequence[T], Markup | None]:
    """The last records, oldest first; where these are not all, a note with their number and where the ``rest`` is."""
    if len(records) <= ROWS:
        return records, None
    return records[-ROWS:], note(f"The newest {ROWS} of {len(records)}; {rest}.")


def trials_shown(material: Material) -> tuple[list[Trial], Markup | None]:
    """The newest trials and the best ones, by number, and a note on how many there are and where they all are.

    Feasible trials rank first, by objective; of several, those on the front first, by the first objective. Infeasible
    ones come after them, by violation.
    """
    trials = list(material.trials)
    if len(trials) <= ROWS:
        return trials, None
    output, sign = material.output[0], -1.0 if material.objective.maximize else 1.0

    front = {entry["trial"] for entry in material.front["trials"]} if material.front else set()

    def rank(trial: Trial) -> tuple[float, bool, float]:
        outputs = trial.outputs or {}
        return material.objective.violation(outputs), trial.id not in front, sign * outputs[output]

    best = sorted(completed(trials), key=rank)[:_BEST]
    if material.best.trial is not None:
        best.append(next(t for t in trials if t.id == material.best.trial.id))
    shown = {trial.number: trial for trial in (*best, *trials[-(ROWS - _BEST) :])}
    text = (
        f"The newest {ROWS - _BEST} and the best {_BEST} of {len(trials)} trials; "
        f"'fieldcraft export {material.campaign.name} --csv FILE' writes them all."
    )
    return [shown[number] for number in sorted(shown)], note(text)
