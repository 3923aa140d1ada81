"""The reference model: what a campaign may do, in as few words as possible, written from the design, not from the code.

It reads the ledger's history line by line, and holds each against what people have really decided and what the cluster
has really run. A line that ought not to be there is a ``Broken``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cluster import Cluster, level

from fieldcraft.flows.jobs.dispatcher import Job
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import Event, Limits, Trial

MOVES = {  # the picture of design.md
    ("PROPOSED", "REJECTED"),
    ("APPROVED", "STAGED"),
    ("APPROVED", "REJECTED"),
    ("APPROVED", "PROPOSED"),
    ("STAGED", "RUNNING"),
    ("STAGED", "FAILED"),
    ("STAGED", "ABANDONED"),
    ("STAGED", "HELD"),
    ("RUNNING", "FAILED"),
    ("RUNNING", "ABANDONED"),
    ("RUNNING", "HELD"),
    ("FAILED", "APPROVED"),
    ("FAILED", "ABANDONED"),
    ("HELD", "RUNNING"),
    ("HELD", "APPROVED"),
    ("HELD", "ABANDONED"),
}
COMPLETES = {"RUNNING", "FAILED", "HELD"}
APPROVABLE = {"PROPOSED", "FAILED", "HELD"}
OUT = {"STAGED", "RUNNING", "HELD"}
ENGINE, PERSON = "fieldcraft", "ana"
SLACK = 1e-6


class Broken(AssertionError):
    """The engine has done what it must not."""


@dataclass(frozen=True)
class Rules:
    """What a campaign's file allows.

    Attributes:
        policy: Who approves.
        below: Cost below which the policy ``auto_below_cost`` does.
        first: Trials that the policy ``after_first`` leaves to people.
        idempotent: Whether a trial may be repeated without a person's word.
        limits: What may be spent.
    """

    policy: str
    below: float
    first: int
    idempotent: bool
    limits: Limits


@dataclass
class Leave:
    """A live approval: for which design, how often, until when."""

    design: dict[str, Any]
    attempts: int
    expires: float | None
    event: int


@dataclass
class Known:
    """What the model knows of a trial.

    Attributes:
        number: The trial's.
        design: What is proposed now.
        state: Where it stands.
        leave: Its approval.
        sent: Event of each attempt's claim.
        changed: Event of the last change of state.
        asked: Event of the last approval by a person.
        spent: In budget units, of attempts that have ended.
        seconds: Likewise.
        results: Ids and digests, in order.
        came: The design of the trial when a result came, by the result's id.
        outputs: Those that count.
    """

    number: int
    design: dict[str, Any]
    state: str = "PROPOSED"
    leave: Leave | None = None
    sent: list[int] = field(default_factory=list)
    changed: int = 0
    asked: int = 0
    spent: float = 0.0
    seconds: float = 0.0
    results: tuple[tuple[int, str], ...] = ()
    came: dict[int, dict[str, Any]] = field(default_factory=dict)
    outputs: dict[str, float] | None = None

    @property
    def cost(self) -> float:
        return float(self.design["pieces"])


@dataclass
class Model:
    """A campaign, as it ought to be.

    Attributes:
        rules: What its file allows.
        granted: Designs that people have just approved, by trial: what they saw, not what the ledger says.
        recorded: Values that people gave, by trial.
        began: Last event before the pass that is under way.
        fenced: Whether that pass has lost its lease, so that nothing it does may be written.
        last: Last event that was taken in.
    """

    rules: Rules
    trials: dict[str, Known] = field(default_factory=dict)
    granted: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    recorded: dict[str, set[float]] = field(default_factory=dict)
    began: int = 0
    fenced: bool = False
    last: int = 0

    def observe(self, ledger: Ledger, name: str, cluster: Cluster) -> None:
        """Take in what the ledger has added to its history, and hold all that it says then against the model."""
        events = ledger.history(name)
        new = [event for event in events if event.id > self.last and event.trial]
        if not new:
            return
        trials = {trial.id: trial for trial in ledger.trials(name)}
        for event in new:
            self._take(event, trials[event.trial], new)
            if event.after != event.before:
                self.trials[event.trial].changed = event.id
        self.last = events[-1].id
        self._agree(ledger, name, trials)
        self._results(ledger, name, trials, cluster)
        self._budget(ledger, name, cluster)

    def _require(self, holds: bool, what: str, event: Event | None = None) -> None:
        if not holds:
            raise Broken(f"{what}{f' ({event.trial}, event {event.id}: {event.reason})' if event else ''}")

    def _take(self, event: Event, trial: Trial, new: Sequence[Event]) -> None:
        self._require(not self.fenced or event.by == PERSON, "written by a pass that has lost its lease", event)
        match event.action:
            case "propose":
                edits = (e.details["was"] for e in new if e.action == "edit" and e.trial == event.trial)
                self._require(event.trial not in self.trials, "proposed twice", event)
                self.trials[event.trial] = Known(trial.number, dict(next(edits, trial.design)))
            case "approve":
                self._approve(event, self.trials[event.trial])
            case "edit":
                known = self.trials[event.trial]
                self._require(known.state in ("PROPOSED", "APPROVED"), f"edited while {known.state}", event)
                known.design, known.state, known.leave = dict(event.details["design"]), "PROPOSED", None
            case "move":
                self._move(event, self.trials[event.trial])
            case "record":
                self._record(event, self.trials[event.trial])
            case "correct":
                self._require(self.trials[event.trial].state == "COMPLETED", "corrected without a result", event)
            case "prioritise":
                pass
            case other:
                self._require(False, f"an unknown action {other}", event)

    def _approve(self, event: Event, known: Known) -> None:
        self._require(known.state in APPROVABLE, f"approved while {known.state}", event)
        if event.by == PERSON:
            seen = self.granted.get(event.trial, [])
            self._require(known.design in seen, "an approval of a design that the person did not see", event)
            seen.clear()
            known.asked = event.id
        else:
            self._require(self._automatic(known), "approved by a policy that does not", event)
        self._end(event, known)
        expires = event.details["expires"]
        known.state = "APPROVED"
        known.leave = Leave(dict(known.design), event.details["attempts"], expires, event.id)

    def _automatic(self, known: Known) -> bool:
        match self.rules.policy:
            case "auto":
                return True
            case "auto_below_cost":
                return known.cost < self.rules.below
            case "after_first":
                return known.number > self.rules.first
        return False

    def _move(self, event: Event, known: Known) -> None:
        way = (known.state, str(event.after))
        self._require(way in MOVES, f"moved from {way[0]} to {way[1]}", event)
        if way[1] in ("STAGED", "APPROVED"):
            self._under_leave(event, known)
        if way[1] == "STAGED":
            self._within_limits(event, known)
            known.sent.append(event.id)
        if way[1] in ("PROPOSED", "REJECTED", "ABANDONED"):
            known.leave = None
        if way[1] == "ABANDONED" or event.details.get("failure") == "cancelled":
            self._require(event.by == PERSON or way[0] == "RUNNING", "given up by nobody", event)
        self._end(event, known)
        known.state = way[1]

    def _under_leave(self, event: Event, known: Known) -> None:
        leave = known.leave
        self._require(leave is not None, f"{event.after} without an approval", event)
        self._require(leave.design == known.design, f"{event.after} under an approval of another design", event)
        late = leave.expires is not None and leave.expires <= event.created
        self._require(not late, f"{event.after} under an approval that has expired", event)
        used = sum(sent > leave.event for sent in known.sent)
        self._require(used < leave.attempts, f"{event.after} with {used} of {leave.attempts} attempts used", event)

    def _within_limits(self, event: Event, known: Known) -> None:
        limits, trials = self.rules.limits, self.trials.values()
        sent = sum(bool(one.sent) for one in trials) + (not known.sent)
        self._require(limits.trials is None or sent <= limits.trials, f"{sent} trials are sent", event)
        cost = known.cost + sum(one.spent + one.cost * (one.state in OUT) for one in trials)
        self._require(limits.cost is None or cost <= limits.cost + SLACK, f"{cost} is spent or reserved", event)
        wall = limits.attempt_seconds
        time = wall + sum(one.seconds + wall * (one.state in OUT) for one in trials)
        self._require(limits.seconds is None or time <= limits.seconds + SLACK, f"{time} s spent or reserved", event)

    def _end(self, event: Event, known: Known) -> None:
        """What the attempt came to that the event ends, if it ends one."""
        if str(event.after) not in OUT:
            known.spent += event.details.get("spent", 0.0)
            known.seconds += event.details.get("seconds", 0.0)

    def _record(self, event: Event, known: Known) -> None:
        known.came[event.details["result"]] = dict(known.design)
        if event.details["verdict"] != "accepted":
            return
        self._require(known.state in COMPLETES, f"completed while {known.state}", event)
        self._require(event.details["attempt"] == len(known.sent), "completed by another attempt's result", event)
        self._end(event, known)
        known.state = "COMPLETED"

    def _agree(self, ledger: Ledger, name: str, trials: dict[str, Trial]) -> None:
        """The states that the ledger says are those that its history leads to, and follow from what people did."""
        said = {trial.id: (str(trial.state), dict(trial.design), trial.attempt) for trial in trials.values()}
        meant = {name: (known.state, known.design, len(known.sent)) for name, known in self.trials.items()}
        self._require(said == meant, f"the ledger says {said}, its history {meant}")

    def _results(self, ledger: Ledger, name: str, trials: dict[str, Trial], cluster: Cluster) -> None:
        rows: dict[str, list[Any]] = {}
        for result in ledger.campaign_results(name):
            rows.setdefault(result.trial, []).append(result)
        for trial, known in self.trials.items():
            found = tuple((row.id, row.digest) for row in rows.get(trial, ()))
            self._require(found[: len(known.results)] == known.results, f"a stored result of {trial} is gone")
            for row in rows.get(trial, ())[len(known.results) :]:
                self._true(row, trials[trial], known, cluster)
            known.results = found
            counting = [row for row in rows.get(trial, ()) if row.verdict in ("accepted", "retraction")]
            self._require(bool(counting) == (known.state == "COMPLETED"), f"{trial} is {known.state} of {counting}")
            outputs = dict(counting[-1].outputs) or None if counting else None
            self._require(trials[trial].outputs == outputs, f"{trial} has outputs that nobody gave")

    def _true(self, row: Any, trial: Trial, known: Known, cluster: Cluster) -> None:
        """A result is what the cluster made, or a person said, of that very attempt."""
        if row.source != "faulty":
            self._require(
                row.outputs.get("height") in {None, *self.recorded.get(trial.id, ())}, f"nobody recorded {row}"
            )
            return
        key = f"{trial.id}-{row.attempt}"
        run = cluster.runs.get(key)
        self._require(run is not None and run.has_result(cluster.clock.now), f"a result of {key}, which has none")
        ran = dict(row.ran or known.came[row.id])
        self._require(ran == run.design, f"{key} is said to have run {ran}, and ran {run.design}")
        self._require(row.outputs == {"height": level(key) + run.design["x"]}, f"{key} is said to give {row.outputs}")

    def _budget(self, ledger: Ledger, name: str, cluster: Cluster) -> None:
        limits, now, trials = self.rules.limits, ledger.spending(name), self.trials.values()
        reserved = sum(known.cost for known in trials if known.state in OUT)
        meant = (sum(known.spent for known in trials), reserved, sum(known.seconds for known in trials))
        said = (now.spent, now.reserved, now.seconds)
        agree = all(abs(one - other) < SLACK for one, other in zip(meant, said, strict=True))
        self._require(agree, f"the ledger says {said} of cost, reserve and seconds, and its history {meant}")
        # Who forgets what was begun says that it never was, and nothing is charged for that.
        real = 0.0 if cluster.forgetful else sum(run.cost for run in cluster.runs.values())
        for what, used, limit in (
            ("cost", now.spent + now.reserved, limits.cost),
            ("real cost", real, limits.cost),
            ("wall time", now.seconds + now.seconds_reserved, limits.seconds),
            ("trials", now.trials, limits.trials),
        ):
            self._require(limit is None or used <= limit + SLACK, f"{what} of {used:g} is above {limit}")

    def asked(self, job: Job, now: float, ledger: Ledger, cluster: Cluster) -> None:
        """Hold a submission, as it leaves the engine, against what is approved."""
        name, campaign = job.trial, job.trial.rpartition("-")[0]
        self.observe(ledger, campaign, cluster)
        known, attempt = self.trials[name], int(job.key.rpartition("-")[2])
        self._require(attempt == len(known.sent), f"{job.key} is sent, and attempt {len(known.sent)} was claimed")
        self._require(dict(job.request["design"]) == known.design, f"{job.key} is sent with a design nobody approved")
        # Who gives a trial up while a pass sends it cannot keep it from being sent; the pass stops it then.
        stands = known.state == "STAGED" and known.leave is not None
        self._require(stands or known.changed > self.began, f"{job.key} is sent, and {name} is {known.state}")
        late = known.leave and known.leave.expires is not None and known.leave.expires <= now
        self._require(not late, f"{job.key} is sent under an approval that has expired")
        run = cluster.runs.get(job.key)
        self._require(run is None or self.rules.idempotent, f"{job.key} is sent again")
        if not self.rules.idempotent:
            self._once(name, known, attempt, cluster)

    def _once(self, name: str, known: Known, attempt: int, cluster: Cluster) -> None:
        """Another attempt follows one that began only where that was said to have failed, or a person asks for it."""
        for earlier in range(1, attempt):
            run = cluster.runs.get(f"{name}-{earlier}")
            failed = run is None or "Failed" in run.told
            asked = known.asked > known.sent[earlier - 1]
            self._require(failed or asked, f"{name}-{earlier} was begun, and {name} is sent again unasked")

    def forgotten(self, key: str, ledger: Ledger, cluster: Cluster) -> None:
        """Nothing is deleted before the ledger has it; of what may be repeated, the trial's one result will do."""
        trial, attempt = key.rpartition("-")[::2]
        if cluster.runs[key].has_result(cluster.clock.now) and not cluster.forgetful:
            rows = [row for row in ledger.results(trial) if row.source == "faulty"]
            self._require(int(attempt) in {row.attempt for row in rows}, f"{key} is deleted before it is recorded")

    def settled(self, ledger: Ledger, name: str, cluster: Cluster) -> None:
        """At the end, in calm weather: no result that lies there is missing."""
        kept = {(row.trial, row.attempt) for row in ledger.campaign_results(name) if row.source == "faulty"}
        for key, run in cluster.runs.items():
            trial, attempt = key.rpartition("-")[::2]
            if run.has_result(cluster.clock.now) and not run.deleted and not cluster.forgetful:
                self._require((trial, int(attempt)) in kept, f"the result of {key} is lost")
