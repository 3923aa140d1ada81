"""Step 1, harvest: poll what runs, fetch what has finished, evaluate it, and write it down, fields first."""

import math
import shutil
from typing import TYPE_CHECKING

from flows.dispatcher import Dispatcher, Failed, Finished, Handle, Lost
from flows.dispatching import attempt_keys
from flows.errors import FieldcraftError
from flows.progress import tell
from flows.sites import ACTOR, Site, unfinished
from flows.streams import Use, stream
from storage.fields import FieldDamaged, stray_staging
from storage.records import Trial, TrialState

if TYPE_CHECKING:
    import xarray as xr


def harvest(site: Site) -> int:
    """Settle every running trial that has ended; returns how many were."""
    dispatcher, settled = site.campaign.dispatcher, 0
    for trial in site.ledger.trials(site.name, states={TrialState.RUNNING}):
        assert trial.handle is not None  # RUNNING is entered with a handle
        outcome = dispatcher.poll(trial.handle)
        if isinstance(outcome, Finished):
            _take(site, dispatcher, trial, trial.handle, outcome.seconds)
        elif isinstance(outcome, Failed):
            _fail(site, trial, outcome)
        elif isinstance(outcome, Lost):
            _lose(site, trial, outcome)
        else:
            continue
        settled += 1
    _tidy(site, dispatcher)
    return settled


def _take(site: Site, dispatcher: Dispatcher, trial: Trial, handle: Handle, seconds: float) -> None:
    try:
        fields = dispatcher.fetch(handle)
    except FieldDamaged as error:
        _lose(site, trial, Lost(str(error)))
        return
    outputs = _evaluated(site, trial, fields)
    bad = [name for name, value in outputs.items() if not math.isfinite(value)]
    if bad:
        _fail(site, trial, Failed("unknown", f"evaluate: output {bad[0]!r} is {outputs[bad[0]]}"))
        return
    outputs[site.campaign.objective.output] += _noise(site, trial)
    reference = site.fields.write(trial.id, fields)
    details = {"seconds": round(seconds, 3), "noise_sd": site.campaign.noise_sd}
    done, _ = site.ledger.record(
        trial.id, trial.expect, outputs, reference, ACTOR, site.campaign.spec.dispatcher.kind, details
    )
    tell("completed", trial=done, seconds=seconds)


def _evaluated(site: Site, trial: Trial, fields: "xr.Dataset") -> dict[str, float]:
    """The outputs of a finished simulation.

    Raises:
        FieldcraftError: the problem's ``evaluate`` failed. The trial stays as it is and its result where it is, so
            that nothing has to be simulated again once the problem is mended.
    """
    try:
        found = site.campaign.problem.evaluate(trial.design, fields)
        return {output.name: float(found[output.name]) for output in site.campaign.problem.outputs}
    except Exception as error:  # the outermost edge of a user's problem: whatever it raises is one clear error
        raise FieldcraftError(
            f"{trial.id}: evaluate of problem {site.campaign.spec.problem.kind!r} failed: {type(error).__name__}: "
            f"{error}. Its simulation has finished and is kept: mend the problem and run again."
        ) from error


def _noise(site: Site, trial: Trial) -> float:
    if site.campaign.noise_sd == 0:
        return 0.0
    rng = stream(site.campaign.spec.seed, trial.iteration, Use.NOISE, trial.slot)
    return float(rng.normal(0.0, site.campaign.noise_sd))


def _fail(site: Site, trial: Trial, outcome: Failed) -> None:
    site.ledger.move(trial.id, TrialState.FAILED, trial.expect, ACTOR, outcome.reason, failure=outcome.kind)
    tell("failed", trial=trial, reason=outcome.reason)


def _lose(site: Site, trial: Trial, outcome: Lost) -> None:
    if site.campaign.simulator.idempotent:
        _fail(site, trial, Failed("transient", f"{outcome.reason}; the simulator is idempotent, so it may run again"))
        return
    reason = f"{outcome.reason}; whether the experiment was done, a person must say"
    site.ledger.move(trial.id, TrialState.HELD, trial.expect, ACTOR, reason)
    tell("held", trial=trial, reason=reason)


def _tidy(site: Site, dispatcher: Dispatcher) -> None:
    """Delete the scratch files of trials and models that the ledger holds, and what dead processes left staged."""
    for path in stray_staging(site.fields.root):
        shutil.rmtree(path, ignore_errors=True)
    if not site.work.is_dir():
        return
    present = {path.name for path in site.work.iterdir()}
    for trial in site.ledger.trials(site.name, states={TrialState.COMPLETED}):
        for key in attempt_keys(trial):
            if key in present:
                dispatcher.forget(key)
    for product in site.ledger.products(site.name):
        if product.step == "train" and unfinished(product.iteration) in present:
            shutil.rmtree(site.work / unfinished(product.iteration), ignore_errors=True)
