"""Runs of a campaign in an MLflow store: found by their tags or made, and written to."""

from __future__ import annotations

import logging
import os
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldcraft.storage.empty_databases import copied, provide
from fieldcraft.storage.failpoints import commit_point
from fieldcraft.storage.records import CampaignRecord, digest_of
from fieldcraft.storage.text import without_password
from fieldcraft.storage.trackers.errors import TrackingError
from fieldcraft.storage.trackers.locations import relocate
from fieldcraft.storage.trackers.mlflow_names import artifacts, milliseconds, parameters, safe_name, tags

if TYPE_CHECKING:
    from mlflow.entities import Experiment, Metric, Run
    from mlflow.tracking import MlflowClient

DEFAULTS = {  # a user's own values hold; a dead server must not stop a campaign for minutes
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # it would stand amid the output of --json
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
PARENT, NESTED = "mlflow.parentRunId", "fieldcraft.nested"
"""Tags: the parent of a run, and that a campaign's runs all have one."""
AT_ONCE = 1000  # most runs that are looked up in one request

Point = tuple[str, float, int]
"""A metric's name, value and step."""


@dataclass
class CampaignRuns:
    """Experiment of one campaign in MLflow (under its title, or else its name) and its runs, found or made."""

    client: MlflowClient
    campaign: CampaignRecord
    uri: str
    title: str | None = None
    runs: dict[str, str | None] = field(default_factory=dict)
    _new: set[str] = field(default_factory=set)  # runs made here, as long as they have no parameters
    _known: tuple[int, int] = (1, 0)  # all runs that began between these milliseconds are in ``runs``
    _kept: dict[str, list[Metric]] = field(default_factory=dict)  # what ``keep`` was given, by run

    @cached_property
    def identity(self) -> str:
        """Identifier that distinguishes the campaign from others of its name."""
        campaign = self.campaign
        return digest_of([campaign.name, campaign.digest, campaign.created])[:16]

    @cached_property
    def experiment(self) -> str:
        """Id of the experiment, found or made."""
        name = self.title or self.campaign.name
        found: Experiment | None = self.client.get_experiment_by_name(name)
        if found is None:
            return str(self.client.create_experiment(name, artifact_location=artifacts(self.uri, name)))
        if found.lifecycle_stage != "active":
            raise TrackingError(
                f"The MLflow experiment '{name}' ({without_password(self.uri)}) was deleted, and this campaign is "
                f"shown there. Bring it back with `mlflow experiments restore --experiment-id {found.experiment_id}`, "
                "then run `fieldcraft export mlflow`."
            )
        return str(found.experiment_id)

    def find(self, kind: str, name: str, created: float | None = None) -> str | None:
        """Id of the run that shows ``name``; None when there is none, or a person deleted it."""
        key = f"{kind}:{name}"
        if key not in self.runs:
            run = None if self._is_new(created) else self._search(key)
            if run is None:
                return None
            self._remember(key, run)
        return self.runs[key]

    def _is_new(self, created: float | None) -> bool:
        """True if what was created at this time would have been found by ``look``, if it had a run."""
        return created is not None and self._known[0] <= milliseconds(created) <= self._known[1]

    def look(self, begun: Sequence[float]) -> None:
        """Look up the runs of trials and surrogates that were created at these times, all in one request.

        A run begins when what it shows was created, so that one which is not found between the first and the last of
        these times does not exist.
        """
        from mlflow.entities import ViewType

        first, last = milliseconds(min(begun)), milliseconds(max(begun))
        wanted = f"attributes.start_time >= {first} AND attributes.start_time <= {last} AND {self._of_campaign}"
        found = self.client.search_runs([self.experiment], wanted, run_view_type=ViewType.ALL, max_results=AT_ONCE)
        for run in found:
            self._remember(run.data.tags["fieldcraft.key"], run)
        if len(found) < AT_ONCE:
            self._known = first, last

    def run(self, kind: str, name: str, created: float, about: Mapping[str, Any] | None = None) -> str | None:
        """Id of the run that shows ``name``, with the tags ``about``; made when there is none, as a child of the
        campaign's. None when a person deleted it."""
        key = f"{kind}:{name}"
        found = self.find(kind, name, created if kind != "campaign" else None)
        if found is not None or key in self.runs:
            return self.log(found, about=about) if about else found
        own = {
            "fieldcraft.campaign": self.campaign.name,
            "fieldcraft.kind": kind,
            "fieldcraft.key": key,
            "fieldcraft.identity": self.identity,
            "mlflow.source.name": "fieldcraft",
        }
        if kind == "campaign":
            own[NESTED] = "true"
        elif (parent := self.run("campaign", self.campaign.name, self.campaign.created)) is not None:
            own[PARENT] = parent
        title = f"surrogate {name}" if kind == "surrogate" else name
        told = {**tags(about or {}), **own}
        made = self.client.create_run(self.experiment, start_time=milliseconds(created), tags=told, run_name=title)
        commit_point("tracking.run.after")
        found = self.runs[key] = str(made.info.run_id)
        self._new.add(found)
        return found

    def is_new(self, run: str) -> bool:
        """True if a run was made here and has no parameters yet."""
        return run in self._new

    @property
    def is_there(self) -> bool:
        """True if ``nest`` has found the campaign's run, or one that a person deleted and can bring back."""
        return f"campaign:{self.campaign.name}" in self.runs

    def nest(self) -> None:
        """Make the runs that an earlier version left beside the campaign's run its children."""
        key = f"campaign:{self.campaign.name}"
        run = self._search(key)
        if run is None:
            return
        self._remember(key, run)
        if run.info.lifecycle_stage != "active" or NESTED in run.data.tags:
            return
        token: str | None = ""
        while token is not None:
            found = self.client.search_runs([self.experiment], self._of_campaign, max_results=AT_ONCE, page_token=token)
            for each in found:
                if each.info.run_id != run.info.run_id and PARENT not in each.data.tags:
                    self.client.set_tag(each.info.run_id, PARENT, run.info.run_id)
            token = found.token or None
        self.client.set_tag(run.info.run_id, NESTED, "true")

    def _remember(self, key: str, run: Run) -> None:
        self.runs[key] = run.info.run_id if run.info.lifecycle_stage == "active" else None

    @property
    def _of_campaign(self) -> str:
        return f"tags.`fieldcraft.identity` = '{self.identity}'"

    def _search(self, key: str) -> Run | None:
        from mlflow.entities import ViewType

        wanted = f"tags.`fieldcraft.key` = '{key}' AND {self._of_campaign}"
        found = self.client.search_runs([self.experiment], wanted, run_view_type=ViewType.ALL, max_results=1)
        return found[0] if found else None

    def keep(self, run: str | None, metrics: Sequence[Point], at: float) -> None:
        """Keep metrics (name, value, step) of the time ``at`` for the next ``log`` of the run, or for ``flush``."""
        if run is not None and metrics:
            self._kept.setdefault(run, []).extend(_metrics(metrics, at))

    def flush(self) -> None:
        """Write all metrics that were kept, one batch a run."""
        for run in list(self._kept):
            self.log(run)

    def log(
        self,
        run: str | None,
        metrics: Sequence[Point] = (),
        params: Mapping[str, Any] | None = None,
        about: Mapping[str, Any] | None = None,
        *,
        at: float = 0.0,
    ) -> str | None:
        """Write metrics (name, value, step) of the time ``at``, parameters, tags (``about``) and kept metrics."""
        if run is None:
            return None
        from mlflow.entities import Param, RunTag

        points = [*self._kept.pop(run, ()), *_metrics(metrics, at)]
        texts = [Param(name, text) for name, text in parameters(params or {}).items()]
        labels = [RunTag(name, text) for name, text in tags(about or {}).items()]
        if texts:
            self._new.discard(run)
        self.client.log_batch(run, points, texts, labels)  # the client cuts it to what a server takes at once
        return run

    def agrees(self, run: str | None, params: Mapping[str, Any]) -> bool:
        """True if a run has no different values of ``params``; MLflow does not allow them to be changed."""
        logged = {} if run is None or run in self._new else self.client.get_run(run).data.params
        return all(logged.get(name, text) == text for name, text in parameters(params).items())

    def end(self, run: str | None, status: str, at: float) -> None:
        """Close a run as ``FINISHED``, ``FAILED`` or ``KILLED`` at the time ``at``."""
        if run is not None:
            self.client.set_terminated(run, status, end_time=milliseconds(at))


def _metrics(points: Sequence[Point], at: float) -> list[Metric]:
    from mlflow.entities import Metric

    time = milliseconds(at)
    return [Metric(safe_name(name), value, time, step) for name, value, step in points]


def require_mlflow() -> None:
    """Import MLflow with its settings; raises ``TrackingError`` if it cannot be imported."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    try:
        import mlflow.tracking  # noqa: F401
    except ImportError as error:
        raise TrackingError(
            f"MLflow cannot be imported ({error}). The campaign is not affected. Install the pinned set, then run "
            "`fieldcraft export mlflow`."
        ) from error
    for name in ("mlflow", "alembic"):  # both announce every table they create
        logging.getLogger(name).setLevel(logging.WARNING)


def client_of(uri: str) -> MlflowClient:
    """The client of a store; the folder of a file store is made."""
    from mlflow.tracking import MlflowClient

    scheme, _, path = uri.partition(":///")
    if scheme == "sqlite":
        if not Path(path).is_absolute():
            raise TrackingError(
                f"The tracking store {uri} would depend on the working directory. Use sqlite:////absolute/path.db."
            )
        provide("mlflow", Path(path), migrated)
        relocate(uri)
    return MlflowClient(tracking_uri=uri)


def migrated(database: Path) -> None:
    """Make an MLflow store without any experiment, from which a new one makes its own default."""
    from mlflow.tracking import MlflowClient

    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, database.name)
        MlflowClient(f"sqlite:///{draft}").search_experiments()
        with closing(sqlite3.connect(draft)) as connection, connection:
            connection.execute("DELETE FROM experiments")
        copied(draft, database)
