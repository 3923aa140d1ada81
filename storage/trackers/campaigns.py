"""Tracking: items of the ledger's outbox shown in MLflow. The ledger decides; MLflow only displays.

One experiment per campaign. In it the campaign's run is the parent of one for each settled trial (design as parameters,
outputs as metrics) and one for each trained surrogate, which has its training data as inputs and is a logged model
(``models``). Campaigns are compared by the specification, which is their run's parameters, and
by outputs, ``best_so_far``, ``total.seconds`` and ``total.spent`` by number of results; a constraint's output is
``constraint.NAME``, beside ``violation``, ``feasible`` and ``least_violation``. Tags say the same for a search:

    fieldcraft.campaign   name of the campaign
    fieldcraft.kind       campaign | trial | surrogate
    fieldcraft.key        what the run shows: campaign:heat, trial:heat-0007, surrogate:heat-0003 (the iteration)
    fieldcraft.identity   tells the campaign from another one of the same name on a shared server

Exactly once: a run is looked up by its tags before it is made, every metric has the time at which the ledger says it
came about (MLflow keeps one of identical points), and items are marked as exported last, at most 200 together. After a
kill at any point the next export repeats what is missing, and the result is the same. A store that has lost the
campaign's run for good, or is another one, is shown everything again.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldcraft.storage.failpoints import commit_point
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.objective import Objective as Objective
from fieldcraft.storage.records import (
    COUNTING,
    CampaignRecord,
    Event,
    FieldRef,
    OutboxItem,
    Product,
    Result,
    Trial,
    TrialState,
)
from fieldcraft.storage.trackers.errors import TrackingError as TrackingError
from fieldcraft.storage.trackers.errors import tracking_errors
from fieldcraft.storage.trackers.locations import relocate
from fieldcraft.storage.trackers.mlflow_names import (
    about_model,
    about_trial,
    colour,
    counted,
    flatten,
    foreseen,
    held_out_errors,
    measured,
    outcome,
    training,
)
from fieldcraft.storage.trackers.models import log_data, log_model
from fieldcraft.storage.trackers.result_history import ResultHistory
from fieldcraft.storage.trackers.runs import CampaignRuns, client_of, require_mlflow

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from fieldcraft.storage.fields import FieldStore

COMMIT_POINTS = ("tracking.run.after", "tracking.model.after", "tracking.export.before", "tracking.export.after")
STATUS = {TrialState.COMPLETED: "FINISHED", TrialState.FAILED: "FAILED"}  # any other settled state: KILLED
ITEMS_PER_READ = 200


class Tracker:
    """Exporter of outbox items to one MLflow store. MLflow is imported by the first export."""

    def __init__(
        self,
        uri: str,
        fields: FieldStore | None,
        objective: Callable[[CampaignRecord], Objective],
        final: Callable[[Ledger, CampaignRecord], Mapping[str, float]] = lambda ledger, campaign: {},
    ) -> None:
        """Name the store.

        Args:
            uri: ``sqlite:////absolute/path.db`` (artifacts go to ``artifacts`` beside it) or a server's URL.
            fields: Where checkpoints and collocation sets are read; None leaves them out.
            objective: Function from a campaign to its objective.
            final: Function from a ledger and a campaign that has ended to metrics of its run.
        """
        self.uri, self.fields, self.objective, self.final = uri, fields, objective, final

    def export(self, ledger: Ledger, campaign: str | None = None) -> int:
        """Export the outbox of one campaign or of all, oldest first, each item exactly once.

        Returns:
            Number of items exported.

        Raises:
            TrackingError: MLflow is absent, broken or out of reach; what was not exported stays in the outbox.
            LeaseHeld: Another process is exporting from this ledger.
        """
        relocate(self.uri)
        if not ledger.pending(campaign, 1):
            return 0
        require_mlflow()
        lease, count = ledger.acquire_exporter(), 0
        try:
            with tracking_errors(self.uri):
                session = _Session(client_of(self.uri), ledger.fenced(lease), self)
            while items := session.ledger.pending(campaign, ITEMS_PER_READ):
                session.histories.clear()
                with tracking_errors(self.uri):
                    session.look(items)
                runs = dict[int, str | None]()
                try:
                    with tracking_errors(self.uri):
                        for item in items:
                            runs[item.id] = session.show(item)
                finally:  # an item that MLflow refuses keeps none before it from being exported
                    with tracking_errors(self.uri):
                        session.flush()
                    for number, run in runs.items():
                        commit_point("tracking.export.before")
                        session.ledger.exported(number, run)
                        commit_point("tracking.export.after")
                        count += 1
        finally:
            ledger.release(lease)
        return count

    def attach(self, ledger: Ledger, campaign: str, file: Path, name: str) -> str | None:
        """Attach a file to the campaign's run as the artifact ``name``, in place of an older one.

        Returns:
            Id of the run; None where the campaign was not exported yet, or a person deleted its run.

        Raises:
            TrackingError: MLflow is absent, broken or out of reach.
        """
        run = ledger.tracked(campaign).get("campaign")
        if run is None:
            return None
        require_mlflow()
        with tracking_errors(self.uri), tempfile.TemporaryDirectory() as folder:
            client = client_of(self.uri)
            if client.get_run(run).info.lifecycle_stage != "active":
                return None
            client.log_artifact(run, shutil.copyfile(file, f"{folder}/{name}"))
        return run


@dataclass
class _Session:
    """One export: the store, the ledger under the exporter's lease, and a cache of what was looked up."""

    client: MlflowClient
    ledger: Ledger
    tracker: Tracker
    campaigns: dict[str, CampaignRuns] = field(default_factory=dict)
    histories: dict[str, ResultHistory] = field(default_factory=dict)  # of this batch of items, which are older

    def show(self, item: OutboxItem) -> str | None:
        """Show one item in MLflow; returns the id of its run, or None if a person deleted that run."""
        shown = self._runs(item.campaign)
        match item.kind:
            case "campaign":
                return self._campaign(shown)
            case "trial":
                return self._trial(shown, Trial.model_validate(item.payload))
            case "surrogate":
                return self._surrogate(shown, Product.model_validate(item.payload))
            case "pick":
                return self._pick(shown, Event.model_validate(item.payload))
            case "finish":
                return self._finish(shown, CampaignRecord.model_validate(item.payload), item.created)

    def look(self, items: Sequence[OutboxItem]) -> None:
        """Look up the runs of these items together."""
        begun = dict[str, list[float]]()
        for item in items:
            if item.kind in ("trial", "surrogate"):
                begun.setdefault(item.campaign, []).append(item.payload["created"])
        for name, times in begun.items():
            self._runs(name).look(times)

    def _runs(self, name: str) -> CampaignRuns:
        if name not in self.campaigns:
            shown = CampaignRuns(self.client, self.ledger.campaign(name), self.tracker.uri)
            shown.nest()
            if not shown.is_there and "campaign" in self.ledger.tracked(name):  # emptied since, or another store
                self.ledger.forget_exports(name)
            self.campaigns[name] = shown
        return self.campaigns[name]

    def flush(self) -> None:
        """Write what is shown of many items together: the points of the campaigns' own runs and of the surrogates'."""
        for shown in self.campaigns.values():
            shown.flush()

    def _campaign(self, shown: CampaignRuns) -> str | None:
        campaign = shown.campaign
        environment = dict(campaign.environment)
        params = flatten(campaign.spec) | environment.pop("resolved", {})
        about = {
            "fieldcraft.digest": campaign.digest,
            "mlflow.runColor": colour(shown.experiment),
            "mlflow.source.git.commit": environment.get("commit"),
            **flatten(environment, "fieldcraft.environment"),
        }
        run = shown.run("campaign", campaign.name, campaign.created, about)
        return shown.log(run, params={name: value for name, value in params.items() if value is not None})

    def _trial(self, shown: CampaignRuns, trial: Trial) -> str | None:
        origin, values = trial.origin, outcome(self.tracker.objective(shown.campaign), trial)
        (said, scores), results = about_model(origin.remarks, origin.scores), self._counting(trial)
        corrections = sum(result.trial == trial.id and result.replaces is not None for result in results)
        about = about_trial(trial, corrections, shown.campaign.spec.get("levels") or ())
        run = shown.run("trial", trial.id, trial.created, {**about, **said})
        points = [(name, value, trial.number) for name, value in (foreseen(origin) | scores).items()]
        shown.keep(run, points, at=trial.created)
        shown.log(
            run,
            params=trial.design if shown.agrees(run, trial.design) else {},
            metrics=[(name, value, trial.number) for name, value in values.items()],
            at=trial.updated,
        )
        shown.end(run, STATUS.get(trial.state, "KILLED"), trial.updated)
        if trial.level is not None:  # no result of the campaign
            return run
        if trial.state is TrialState.COMPLETED:
            self._progress(shown, trial, results)
        elif trial.failure == "infeasible":
            self._ruled_out(shown, trial)
        return run

    def _ruled_out(self, shown: CampaignRuns, trial: Trial) -> None:
        """Log the number of designs that were infeasible in themselves, by the number of results until then."""
        known, run = self._known(trial), shown.run("campaign", shown.campaign.name, shown.campaign.created)
        points = [("total.failed_infeasible", float(known.failed_by(trial.updated)), known.count(trial.updated))]
        shown.keep(run, points, at=trial.updated)

    def _known(self, trial: Trial) -> ResultHistory:
        known = self.histories.get(trial.campaign) or ResultHistory.of(self.ledger, trial.campaign)
        return self.histories.setdefault(trial.campaign, known)

    def _counting(self, trial: Trial) -> list[Result]:
        """Results of the campaign that counted when the trial was as in ``trial``, including ones corrected since."""
        history = self.ledger.history(trial.campaign, trial.id)
        told = [event.details for event in history if (event.version or 0) <= trial.version]
        until = max((each["result"] for each in told if each.get("verdict") in COUNTING), default=0)
        return self._known(trial).until(until)

    def _progress(self, shown: CampaignRuns, trial: Trial, results: list[Result]) -> None:
        """Log outputs and the best so far on the campaign's run, and the prediction's error on the surrogate's.

        The step is the number of results so far, so that the curve stays in order when trials overtake each other;
        with one trial at a time, no failures and no corrections it is the trial's number. A correction is a step of its
        own, after which the best so far follows from the corrected results, even if it is worse than before.
        """
        now = {result.trial: result.outputs for result in results}
        values, objective, step = now[trial.id], self.tracker.objective(shown.campaign), len(results)
        known = self._known(trial)
        standing = counted(objective, [each for each in now.values() if each], known.failed_by(trial.updated))
        found = {**measured(objective, values), **known.totals(now), **standing}
        metrics = [(name, value, step) for name, value in found.items()]
        shown.keep(shown.run("campaign", shown.campaign.name, shown.campaign.created), metrics, at=trial.updated)
        model, errors = trial.origin.model, held_out_errors(trial.origin, objective, values)
        as_foreseen = trial.revision == 1 and trial.ran is None  # else the prediction was for another design
        if model is not None and errors and as_foreseen:
            held_out = [(name, error, trial.number) for name, error in errors.items()]
            shown.keep(shown.find("surrogate", f"{trial.campaign}-{model.iteration:04d}"), held_out, at=trial.updated)

    def _surrogate(self, shown: CampaignRuns, product: Product) -> str | None:
        payload = dict(product.payload)
        metrics = training(payload.pop("curve", []), payload.pop("metrics", {}))
        said, _ = about_model(payload.pop("remarks", {}), {})
        payload.pop("environment", None)  # shown by the campaign's run
        collocation = self.ledger.product(product.campaign, product.iteration, "collocate")
        points = collocation.reference if collocation else None
        refs = {"checkpoint": product.reference, "collocation": points}
        about = {"fieldcraft.model": product.digest, "fieldcraft.data": payload.get("data_digest"), **said}
        about |= {f"fieldcraft.{name}": ref and ref.digest for name, ref in refs.items()}
        run = shown.run("surrogate", f"{product.campaign}-{product.iteration:04d}", product.created, about)
        if run is None:
            return None
        anew = shown.is_new(run)
        with tempfile.TemporaryDirectory() as folder:
            lost = self._saved(Path(folder), refs)
            self.client.log_artifacts(run, folder)
            params = flatten(payload) | {"iteration": product.iteration}
            shown.log(run, metrics, params, lost, at=product.created)
            log_data(self.client, run, product, points)
            log_model(self.client, shown.experiment, run, product, Path(folder), anew=anew)
        shown.end(run, "FINISHED", product.created)
        return run

    def _saved(self, folder: Path, refs: Mapping[str, FieldRef | None]) -> dict[str, str]:
        """Save stored arrays in a folder; returns a tag for each that the field store has lost."""
        store, lost = self.tracker.fields, dict[str, str]()
        if store is None:
            return lost
        import numpy as np

        from fieldcraft.storage.field_store.staging import FieldError, StoreAway

        for name, ref in refs.items():
            if ref is None:
                continue
            try:
                arrays: dict[str, Any] = store.arrays(ref)
            except StoreAway as error:  # it will be there again
                raise TrackingError(str(error)) from error
            except FieldError as error:  # what the field store has lost must not block everything that comes after
                lost[f"fieldcraft.{name}"] = str(error)
                continue
            np.savez(folder / f"{name}.npz", **arrays)
        return lost

    def _pick(self, shown: CampaignRuns, event: Event) -> str | None:
        """Tag the campaign's run with the trial that a person picked from the front, and the reason."""
        run = shown.run("campaign", shown.campaign.name, shown.campaign.created)
        about = {"pick": event.trial, "pick.by": event.by, "pick.reason": event.reason}
        return shown.log(run, about={f"fieldcraft.{name}": value for name, value in about.items()}, at=event.created)

    def _finish(self, shown: CampaignRuns, campaign: CampaignRecord, created: float) -> str | None:
        run = shown.run("campaign", campaign.name, campaign.created)
        found, count = self.tracker.final(self.ledger, campaign), len(self.ledger.summaries(campaign.name))
        metrics = [(name, value, count) for name, value in found.items()]
        shown.log(run, metrics, about={"fieldcraft.finished": campaign.finished}, at=created)
        shown.end(run, "FINISHED", created)
        return run
