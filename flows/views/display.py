"""Progress of a run: iteration, step, trial, value, best and time, one line each, or one JSON object each."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from fieldcraft.flows.analysis.best import best_trial, objective_of
from fieldcraft.flows.analysis.feasibility import trial_feasibility, verdict_text
from fieldcraft.flows.analysis.front import front_data
from fieldcraft.flows.analysis.levels import level_said
from fieldcraft.flows.analysis.predicted import predicted_data
from fieldcraft.flows.colours import coloured
from fieldcraft.flows.text import counted, one_line
from fieldcraft.flows.views.data import design_text, outputs_text
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import Trial


class Display:
    """Prints the events of a pass.

    Args:
        ledger: Opens the ledger; called once the campaign exists.
        as_json: True for one JSON object a line instead of text.
        began: Start of the command, in seconds on the monotonic clock; now, when left out.
    """

    def __init__(self, ledger: Callable[[], Ledger], as_json: bool, began: float | None = None) -> None:
        self.open, self.as_json = ledger, as_json
        self.began = time.monotonic() if began is None else began
        self.waits = set[str]()

    def __call__(self, event: str, details: dict[str, Any]) -> None:
        """Show one event."""
        if event == "waits" and not self._once(f"{details['trial'].id} {details['reason']}"):
            return
        if self.as_json:
            print(json.dumps({"event": event, "seconds": self._now(), **_plain(details)}), flush=True)
            return
        for line in self._describe(event, details):
            print(f"{self._now():7.1f} s  {coloured(one_line(line), sys.stdout)}", flush=True)

    def _now(self) -> float:
        return round(time.monotonic() - self.began, 1)

    def _describe(self, event: str, details: dict[str, Any]) -> list[str]:
        match event:
            case "proposed":
                return [_row(t, "acquire", self._design(t) + self._foreseen(t)) for t in details["trials"]]
            case "started":
                return [_row(details["trial"], "dispatch", "sent")]
            case "completed":
                return [self._completed(details["trial"], details["seconds"])]
            case "failed" | "held" | "cancelled" | "late" | "retry" | "unsent" | "approval void":
                step = "dispatch" if event in ("retry", "unsent", "approval void") else "harvest"
                return [_row(details["trial"], step, f"{event}: {one_line(details['reason'])}")]
            case "waits":
                return [_row(details["trial"], "dispatch", f"waits: {one_line(details['reason'])}")]
            case "refused":
                return [f"laboratory: {one_line(details['file'])} is refused: {one_line(details['reason'])}"]
            case "taken":
                return [f"laboratory: {one_line(details['file'])}: {one_line(line)}" for line in details["lines"]]
            case "untold":
                return [f"a notice could not be told: {one_line(details['reason'])}"]
            case "trained":
                metrics = ", ".join(f"{name} {value:.3g}" for name, value in self._metrics(details))
                what = f"{counted(details['trials'], 'trial')} in {details['seconds']:.1f} s: {metrics}"
                return [f"iteration {details['iteration']:3d}  train      {what}"]
            case "warm start":
                left = f", {details['outside']} outside the space left out" if details["outside"] else ""
                return [f"               begins with {details['results']} results of {details['campaign']}{left}"]
            case "trained the emulator":
                what = f"the emulator's network in {details['seconds']:.1f} s: loss {details['metrics']['loss']:.3g}"
                return [f"iteration {details['iteration']:3d}  train      {what}"]
            case "training elsewhere":
                line = f"iteration {details['iteration']:3d}  train      {details['what']}: {details['state']}"
                return self._once(line)
            case "training here":
                return [f"iteration {details['iteration']:3d}  train      here: {one_line(details['reason'])}"]
            case "last training failed":
                why = f"failed: {one_line(details['reason'])}; the campaign ends without this model"
                return [f"iteration {details['iteration']:3d}  train      {why}"]
            case "training resumed":
                return [f"               train      goes on from step {details['step']}"]
            case "exported" if details["problem"]:
                return [f"MLflow: {details['problem']}"]
            case "other words":
                return [f"goes on with the algorithm that it began with; this version has another: {details['keys']}"]
            case "unshown":
                return [f"Prefect was not told how these passes ended: {details['problem']}"]
        return []

    def _metrics(self, details: Mapping[str, Any]) -> list[tuple[str, float]]:
        """Four metrics of a model; of several objectives the first of each one's, and of each constraint's."""
        objective, metrics = objective_of(self.open().campaign(details["campaign"])), details["metrics"]
        if not objective.goals or not (name := next(iter(metrics), "")):
            return list(metrics.items())[:4]
        outputs, constraints = enumerate(objective.outputs, 1), enumerate(objective.constraints, 1)
        of = [("" if k == 1 else f"objective{k}.", output) for k, output in outputs]
        of += [(f"constraint{k}.", output) for k, output in constraints]
        return [(f"{name} of {output}", metrics[prefix + name]) for prefix, output in of if prefix + name in metrics]

    def _once(self, line: str) -> list[str]:
        """The line, unless it was printed before: waiting passes repeat it."""
        repeated = line in self.waits
        self.waits.add(line)
        return [] if repeated else [line]

    def _design(self, trial: Trial) -> str:
        campaign = self.open().campaign(trial.campaign)
        at = level_said(campaign, trial.level)
        return design_text(campaign, trial.design) + (f"  ({at})" if at else "")

    def _completed(self, trial: Trial, seconds: float) -> str:
        ledger = self.open()
        campaign, trials = ledger.campaign(trial.campaign), ledger.summaries(trial.campaign)
        best, front = best_trial(campaign, trials), front_data(campaign, trials)
        record = "  <- best" if best is not None and best.id == trial.id else ""
        best_text = f"best {outputs_text(campaign, best.outputs if best else None)}"
        if front is not None:
            best_text = f"front {len(front['trials'])}"
            if front["hypervolume"] is not None:
                inferred = any(each["inferred"] for each in front["objectives"])
                best_text += f", hypervolume {front['hypervolume']:.5g}{' (reference inferred)' if inferred else ''}"
            record = "  <- on the front" if any(entry["trial"] == trial.id for entry in front["trials"]) else ""
        found = trial_feasibility(objective_of(campaign), trial)
        feasible = f"; feasible: {verdict_text(campaign, found)}" if found else ""
        read = f"{outputs_text(campaign, trial.outputs)} in {seconds:.1f} s"
        read += f" at {at}" if (at := level_said(campaign, trial.level)) else ""
        return _row(trial, "harvest", f"{read}{feasible}; {best_text}{record}")

    def _foreseen(self, trial: Trial) -> str:
        found = predicted_data(self.open().campaign(trial.campaign), trial.origin)
        if found is None:
            return ""
        if "others" not in found:
            return f"  (foreseen {found['mean']:.5g})"
        said = ", ".join(f"{each['output']} {each['mean']:.5g}" for each in (found, *found["others"]))
        return f"  (foreseen {said})"


def _row(trial: Trial, step: str, what: str) -> str:
    return f"iteration {trial.iteration:3d}  {step:<9}  {trial.id}  {what}"


def _plain(details: dict[str, Any]) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        if isinstance(value, Trial):
            return {"id": value.id, "iteration": value.iteration, "design": value.design, "outputs": value.outputs}
        return [plain(item) for item in value] if isinstance(value, list | tuple) else value

    return {key: plain(value) for key, value in details.items()}
