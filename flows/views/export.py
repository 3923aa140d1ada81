"""Exports of the ledger and the field store: CSV, one zarr group, MLflow."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from fieldcraft.flows.analysis.best import best_of, objective_of
from fieldcraft.flows.analysis.feasibility import trial_feasibility
from fieldcraft.flows.analysis.front import on_front
from fieldcraft.flows.analysis.learnt import standing
from fieldcraft.flows.analysis.levels import level_name, levels_of
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.exported import ABOUT, FRONT, LEVEL
from fieldcraft.flows.files.tables import write_rows
from fieldcraft.flows.machinery.profiling import span
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.text import one_line, printable
from fieldcraft.flows.views.data import corrections
from fieldcraft.flows.views.regret import known_regret
from fieldcraft.storage.field_store.staging import require_new
from fieldcraft.storage.fields import FieldDamaged, FieldStore, fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.objective import Objective
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import CampaignRecord, Result, Trial, TrialState
from fieldcraft.storage.trackers.campaigns import Tracker

DRAIN_S = 120.0  # how long a run that has ended waits for tracking to catch up


def tracker(settings: Settings) -> Tracker:
    """The MLflow tracker of these settings."""
    return Tracker(settings.mlflow, fields_at(settings.fields), objective_of, partial(_final, settings))


def _final(settings: Settings, ledger: Ledger, campaign: CampaignRecord) -> dict[str, float]:
    """The best result of a campaign that has ended, and the regret of its best design where the truth is known."""
    best = best_of(ledger, campaign, ledger.summaries(campaign.name))
    regret = known_regret(settings, campaign, best.trial)
    found = {} if regret is None else {"regret": float(regret["value"])}
    if best.measured is not None:
        found["best"] = float((best.measured.outputs or {})[objective_of(campaign).output])
    return found


def export_csv(ledger: Ledger, name: str, file: Path) -> int:
    """Write every trial of a campaign as one row. Returns the number of trials.

    Columns: ``trial``, ``state``, ``priority``, ``cost`` (expected of an attempt) and ``spent`` in budget units,
    ``seconds`` of wall time, ``corrected`` (empty, ``corrected`` or ``retracted``), ``feasible`` (``yes`` or ``no``,
    empty where unknown) and ``violation`` (sum of the constraints' positive parts), of a campaign with levels
    ``level`` (its options that differ, empty for the target), of several objectives ``front``
    (``yes`` where no feasible result dominates this one, or ``no``), ``design.NAME`` as requested,
    ``ran.NAME`` where another value was run, ``output.NAME``, ``sd.NAME`` (of the output, in its unit) and ``note``.
    Numbers read back to the same bits; a text that a spreadsheet would take for a formula has an apostrophe before it
    (``flows.files.tables``).

    Raises:
        InputError: ``file`` cannot be written there.
    """
    require_place(file)
    campaign, trials = ledger.campaign(name), ledger.trials(name)
    outputs = [output["name"] for output in campaign.environment["outputs"]]
    names = list(campaign.environment["units"])
    results = ledger.campaign_results(name)
    several, front = bool(objective_of(campaign).goals), set(on_front(campaign, trials))
    changed, counting = corrections(trials, ledger.corrected(name)), standing(results)
    with _whole(file) as out:
        groups = [("design", names), ("ran", names), ("output", outputs), ("sd", outputs)]
        titles = (printable(f"{group}.{name}") for group, members in groups for name in members)
        about_level = [LEVEL] if levels_of(campaign) else []
        write_rows(out, [[*ABOUT, *about_level, *([FRONT] if several else []), *titles, "note"]])
        for trial in trials:
            about, said = _about(trial, changed.get(trial.id, "")), _said(counting.get(trial.id), outputs)
            feasible = _feasible(objective_of(campaign), trial)
            feasible += [printable(level_name(campaign, trial.level))] if about_level else []
            feasible += ["yes" if trial.id in front else "no"] if several else []
            write_rows(out, [[*about, *feasible, *_values(trial, names, outputs), *said]])
    return len(trials)


@contextmanager
def _whole(file: Path) -> Iterator[TextIO]:
    """A text file to write, in UTF-8, that appears only when it is complete; no draft is left behind."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with draft.open("w", newline="", encoding="utf-8") as out:
            yield out
        os.replace(draft, file)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def _about(trial: Trial, corrected: str) -> list[str | float]:
    return [trial.id, str(trial.state), trial.priority, trial.cost, trial.spent, trial.seconds, corrected]


def _feasible(objective: Objective, trial: Trial) -> list[str | float]:
    found = trial_feasibility(objective, trial)
    if found is None:
        return ["", ""]
    return ["yes" if found["feasible"] else "no", "" if found["violation"] is None else found["violation"]]


def _values(trial: Trial, names: Sequence[str], outputs: Sequence[str]) -> list[str | float]:
    ran, read = trial.ran or {}, trial.outputs or {}
    differing = [ran[name] if name in ran and ran[name] != trial.design[name] else "" for name in names]
    levels = [*(trial.design[name] for name in names), *differing]
    texts = [printable(level) if isinstance(level, str) else level for level in levels]
    return [*texts, *(read.get(name, "") for name in outputs)]


def _said(result: Result | None, outputs: Sequence[str]) -> list[str | float]:
    """Standard deviations and note of the result that counts."""
    details = {} if result is None else result.details
    sd = details.get("sd", {})
    return [*(sd.get(name, "") for name in outputs), one_line(str(details.get("note", "")))]


def require_place(file: Path) -> None:
    """Accept the path of a file to write if its folder exists.

    Raises:
        InputError: the folder does not exist, or the path is a folder.
    """
    if not file.parent.is_dir():
        raise InputError(f"{file}: there is no folder {file.parent}. Make it first, or name another place.")
    if file.is_dir():
        raise InputError(f"{file}: is a folder. Name a file in it.")


def export_fields(ledger: Ledger, fields: FieldStore, name: str, folder: Path) -> tuple[int, dict[str, str]]:
    """Write the fields of all results that count as one zarr group along ``trial``, without those that are damaged.

    Returns the number of fields written, and what is wrong with the others, by trial.

    Raises:
        storage.fields.FieldError: there is none, all are damaged, they differ in shape, or ``folder`` exists.
    """
    require_new(folder)  # before the fields are read, which may take long
    done = ledger.trials(name, states={TrialState.COMPLETED})
    refs = {trial.id: trial.field for trial in done if trial.field and trial.level is None}
    faults = {}
    for ref in set(refs.values()):
        try:
            fields.verify(ref)
        except FieldDamaged as error:
            faults[ref] = str(error)
    sound = {trial: ref for trial, ref in refs.items() if ref not in faults}
    if refs and not sound:
        raise FieldDamaged(
            f"All {len(refs)} fields of {name} are damaged, so none was exported. Run `fieldcraft doctor`: it names "
            "each and what mends it."
        )
    fields.export(sound, folder)
    return len(sound), {trial: faults[ref] for trial, ref in refs.items() if ref in faults}


def export_mlflow(settings: Settings, name: str | None) -> int:
    """Show the items of the outbox in MLflow, each exactly once. Returns the number shown.

    Raises:
        InputError: tracking is off.
    """
    if settings.mlflow == "off":
        raise InputError("FIELDCRAFT_MLFLOW is 'off', so there is no MLflow to export to. Unset it or name a store.")
    return tracker(settings).export(open_ledger(settings.ledger), name)


def begun(words: list[str]) -> "subprocess.Popen[str]":
    """The process ``python WORDS``, which reads from a pipe and whose complaints are read from another."""
    return subprocess.Popen(
        [sys.executable, "-P", *words],
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


class BackgroundExport:
    """Export to MLflow in a process beside a run; the run waits for it only at its end.

    Attributes:
        problem: Reason why MLflow does not show everything, or None.
    """

    def __init__(self, settings: Settings, name: str) -> None:
        self.settings, self.name = settings, name
        self.problem: str | None = None

    def __enter__(self) -> Self:
        if self.settings.mlflow == "off":
            return self
        self.child = begun(["-m", "fieldcraft.flows.exporter", str(self.settings.home), self.name])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.settings.mlflow == "off":
            return
        if kind is not None:  # the user waits for nothing; the exporter ends by itself when it has caught up
            assert self.child.stdin is not None  # piped above
            self.child.stdin.close()
            return
        try:
            with span("export"):
                _, said = self.child.communicate(timeout=DRAIN_S)
        except subprocess.TimeoutExpired:
            self.problem = f"MLflow has not caught up after {DRAIN_S:g} s; it goes on in the background"
            return
        if self.child.returncode:
            self.problem = (said.strip().splitlines() or ["the exporter ended without a word"])[-1]
