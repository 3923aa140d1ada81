"""Trials and predictions as pandas tables; units stand in ``attrs``."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fieldcraft.flows.analysis.best import objective_of
from fieldcraft.flows.analysis.levels import level_name, levels_of
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.text import quoted, suggestion
from fieldcraft.storage.records import CampaignRecord, Trial, TrialSummary

if TYPE_CHECKING:
    import pandas as pd

_OWN = ("state", "iteration", "predicted", "sd", "digest", "cost", "seconds", "best")


def asked_table(record: CampaignRecord, trials: Sequence[Trial]) -> "pd.DataFrame":
    """Trials that wait, a row each by id: the design, what its model predicts (mean and sd), state and digest.

    Of several objectives ``predicted`` and ``sd`` are of the first, ``predicted NAME`` and ``sd NAME`` of the others.
    ``feasible`` is then the predicted probability that all constraints are met. Of a design that was edited its model
    predicted nothing.
    """
    import pandas as pd

    objective = objective_of(record)
    further = [f"{what} {name}" for name in objective.outputs[1:] for what in ("predicted", "sd")]
    further += [_untaken(record, "feasible")] if objective.goals and objective.constraints else []
    rows = [
        {
            **_design(record, trial.design),
            "predicted": trial.origin.mean if trial.revision == 1 else None,
            "sd": trial.origin.sd if trial.revision == 1 else None,
            **(_further(record, trial) if trial.revision == 1 else {}),
            **_level(record, trial),
            "state": str(trial.state),
            "iteration": trial.iteration,
            "digest": trial.digest,
        }
        for trial in trials
    ]
    names = [*_columns(record), "predicted", "sd", *further, *_levels(record), "state", "iteration", "digest"]
    return _with_units(record, pd.DataFrame(rows, index=_index(trials), columns=names))


def _further(record: CampaignRecord, trial: Trial) -> dict[str, float | None]:
    found: dict[str, float | None] = {_untaken(record, "feasible"): trial.origin.feasible}
    for name, each in trial.origin.further.items():
        found |= {f"predicted {name}": each.mean, f"sd {name}": each.sd}
    return found


def trials_table(record: CampaignRecord, trials: Sequence[TrialSummary], best: Collection[str]) -> "pd.DataFrame":
    """All trials of a campaign, a row each by id: the design as it was run, the outputs, and what became of it.

    Args:
        record: The campaign.
        trials: Its trials, by number.
        best: Ids of the best designs' trials, for which the column ``best`` is True.
    """
    import pandas as pd

    outputs = [output["name"] for output in record.environment["outputs"]]
    rows = [
        {
            **_design(record, trial.actual),
            **{_title(name): (trial.outputs or {}).get(name) for name in outputs},
            **_level(record, trial),
            "state": str(trial.state),
            "iteration": trial.iteration,
            "cost": trial.spent,
            "seconds": trial.seconds,
            "best": trial.id in best,
        }
        for trial in trials
    ]
    names = [
        *_columns(record),
        *map(_title, outputs),
        *_levels(record),
        "state",
        "iteration",
        "cost",
        "seconds",
        "best",
    ]
    return _with_units(record, pd.DataFrame(rows, index=_index(trials), columns=names))


def _levels(record: CampaignRecord) -> list[str]:
    """The column of the simulator's levels, where it has any."""
    return [_untaken(record, "level")] if levels_of(record) else []


def _untaken(record: CampaignRecord, title: str) -> str:
    """Title of a column of ours that leaves variables and outputs of that name theirs."""
    taken = [*record.environment["units"], *(output["name"] for output in record.environment["outputs"])]
    return f"{title}_" if title in taken else title


def _level(record: CampaignRecord, trial: Trial | TrialSummary) -> dict[str, str]:
    return {name: level_name(record, trial.level) for name in _levels(record)}


def predictions_table(record: CampaignRecord, index: Any, mean: Sequence[float], sd: Sequence[float]) -> "pd.DataFrame":
    """Predicted mean and standard deviation (n,) of the objective, in its unit, by the designs' index."""
    import pandas as pd

    table = pd.DataFrame({"mean": mean, "sd": sd}, index=index)
    unit = record.environment["outputs"][0]["unit"]
    table.attrs["units"] = {"mean": unit, "sd": unit}
    return table


def designs_of(record: CampaignRecord, designs: Any) -> tuple[list[dict[str, Any]], Any]:
    """Designs as plain mappings, and their index, from a table, a mapping or a sequence of mappings.

    A table may have further columns, as that of all trials has.

    Raises:
        InputError: it is none of these, or a mapping names a variable that the campaign does not have.
    """
    import pandas as pd

    names = list(record.environment["units"])
    if not isinstance(designs, pd.DataFrame):
        rows = [designs] if isinstance(designs, Mapping) else designs
        if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in rows):
            raise InputError(
                f"{type(designs).__name__} is no design: give a table with a column for each variable, a mapping of "
                "variables to values, or a list of such mappings."
            )
        if unknown := [name for row in rows for name in row if name not in (*names, *_columns(record))]:
            hint = suggestion(str(unknown[0]), names)
            raise InputError(f"{quoted(str(unknown[0]))} is no variable.{hint} Known: {', '.join(names)}.")
        designs = rows
    table = pd.DataFrame(designs)
    known = {name: title for name, title in zip(names, _columns(record), strict=True) if title in table}
    renamed = table[list(known.values())].set_axis(list(known), axis="columns")
    rows = renamed.to_dict(orient="records")
    return [{str(name): _plain(value) for name, value in row.items()} for row in rows], table.index


def _design(record: CampaignRecord, design: Mapping[str, Any]) -> dict[str, Any]:
    return dict(zip(_columns(record), (design[name] for name in record.environment["units"]), strict=True))


def _columns(record: CampaignRecord) -> list[str]:
    return [_title(name) for name in record.environment["units"]]


def _title(name: str) -> str:
    """Title of a variable's or output's column; one that is called as a column of ours gets an underscore."""
    return f"{name}_" if name in _OWN else name


def _index(trials: Sequence[Trial | TrialSummary]) -> Any:
    import pandas as pd

    return pd.Index([trial.id for trial in trials], name="trial")


def _with_units(record: CampaignRecord, table: "pd.DataFrame") -> "pd.DataFrame":
    units = {**record.environment["units"]}
    units |= {output["name"]: output["unit"] for output in record.environment["outputs"]}
    table.attrs["units"] = {_title(name): unit for name, unit in units.items() if _title(name) in table}
    return table


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
