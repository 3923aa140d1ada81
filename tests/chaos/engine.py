"""One schedule: a campaign under the real pass and the real ledger, with everything around it drawn from a seed."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cluster import CLUSTERS, WALL_TIME_S, Clock, Cluster, Killed
from model import PERSON, Model, Rules

from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.files.tables import Measurement
from fieldcraft.flows.identity import Person
from fieldcraft.flows.people import decisions, interventions
from fieldcraft.flows.results import correct, record
from fieldcraft.flows.rules.trial_labels import Choice, label
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.steps.one_pass import Passed, Ref, make_pass
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.context import Site
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.ledger import LeaseLost, Ledger, LedgerError
from fieldcraft.storage.ledgers import sql
from fieldcraft.storage.ledgers.operations import leases
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Trial, TrialState

PLUGINS = Path(__file__).parent / "plugins"
STEPS, LONGEST = 20, 100  # of bad weather; of passes in calm weather until the campaign must have ended
ANA = Person(PERSON, "operator")
S = TrialState


class Processes:
    """Stands for the operating system's: which process holds a lease, and whether it lives.

    Those of a schedule are one process in truth, and differ by their time of start.
    """

    def __init__(self) -> None:
        self.started, self.living = 0.0, set[float]()

    def start(self) -> float:
        """A new process takes the place of the one before, which may go on for a while."""
        self.started += 1.0
        self.living.add(self.started)
        return self.started

    def start_time(self, pid: int) -> float:
        return self.started

    def is_alive(self, pid: int, started: float) -> bool:
        return started in self.living


class Points:
    """The ledger's commit points: at one of them the engine is killed, once."""

    def __init__(self) -> None:
        self.left: int | None = None

    def __call__(self, name: str) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            self.left = None
            raise Killed(name)


@contextmanager
def world() -> Iterator[tuple[Clock, Processes, Points]]:
    """The engine's clock, processes and commit points in the hands of a schedule."""
    clock, processes, points = Clock(), Processes(), Points()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", clock)  # every module asks it by this name
        patch.setattr(leases, "start_time", processes.start_time)
        patch.setattr(leases, "is_alive", processes.is_alive)
        patch.setattr(sql, "commit_point", points)
        patch.setenv("FIELDCRAFT_PLUGINS", str(PLUGINS))
        patch.setenv("FIELDCRAFT_MLFLOW", "off")
        yield clock, processes, points


class Schedule:
    """What happens to one campaign, all of it drawn from ``seed``."""

    def __init__(self, seed: int, home: Path, clock: Clock, processes: Processes, points: Points) -> None:
        self.random, self.clock, self.processes, self.points = Random(seed), clock, processes, points
        self.name, self.calm, self.inside = f"c{seed}", False, 0
        self.trail: list[str] = []
        self.counts: Counter = Counter()
        data = self._file(seed)
        self.settings = settings_from(home=home)
        self.campaign = wire(parse(data, "schedule"), self.settings)
        self.ledger: Ledger = open_ledger(self.settings.ledger, create=True)
        self.ledger.create_campaign(
            self.name, self.campaign.data, self.campaign.digest, {}, PERSON, self.campaign.limits
        )
        policy = self.campaign.spec.approval
        idempotent = self.campaign.idempotent
        self.model = Model(
            Rules(policy.policy, policy.cost or 0.0, policy.first or 0, idempotent, self.campaign.limits)
        )
        forgetful = idempotent and self.random.random() < 0.5
        self.cluster = Cluster(clock, self.random, forgetful, self._meanwhile, self._asked, self._forgotten)
        self.seen: dict[str, tuple[str, dict[str, Any]]] = {}  # label and design, as the person last saw them

    def _file(self, seed: int) -> dict[str, Any]:
        draw = self.random
        policy = draw.choice(["human", "human", "batch", "auto", "auto_below_cost", "after_first"])
        approval: dict[str, Any] = {"policy": policy}
        if policy == "auto_below_cost":
            approval["cost"] = draw.choice([1.5, 2.5])
        if policy == "after_first":
            approval["first"] = draw.randint(1, 3)
        if policy != "auto" and draw.random() < 0.5:
            approval["expires_h"] = draw.choice([0.02, 0.1, 1.0])
        trials = draw.randint(2, 5)
        budget: dict[str, Any] = {"trials": trials}
        if draw.random() < 0.5:
            budget["cost"] = draw.uniform(3.0, 2.5 * trials)
        if draw.random() < 0.4:
            budget["wall_time_h"] = draw.uniform(1.0, 2.0 * trials) * WALL_TIME_S / 3600.0
        stop = {"failure_rate": {"above": 0.6, "over": 4}} if draw.random() < 0.2 else {}
        return {
            "name": self.name,
            "seed": seed,
            "sense": "maximize",
            "problem": {"kind": "ware"},
            "simulator": {"kind": draw.choice(["fragile", "fragile", "repeatable"])},
            "algorithm": {"start": {"n": draw.randint(1, min(3, trials)), "proposer": {"kind": "random"}}},
            "batch": draw.randint(1, 2),
            "approval": approval,
            "budget": budget,
            "stop": stop,
            "dispatcher": {
                "kind": "faulty",
                "parallel": draw.randint(1, 3),
                "attempts": draw.randint(1, 3),
                "wall_time_s": WALL_TIME_S,
                "backoff_s": draw.choice([0.0, 1.0, 60.0]),
                "lease_s": draw.choice([30.0, 300.0]),
            },
        }

    def run(self) -> Counter:
        """The whole schedule; what was done to it."""
        CLUSTERS[self.name] = self.cluster
        try:
            for _ in range(STEPS):
                self._step()
                self._check()
            self._settle()
        finally:
            del CLUSTERS[self.name]
        return self.counts + self.cluster.faults

    def _step(self) -> None:
        chance = self.random.random()
        if chance < 0.55:
            self._pass()
        elif chance < 0.85:
            self._person()
        else:
            self._wait()

    def _check(self) -> None:
        self.model.observe(self.ledger, self.name, self.cluster)

    def _asked(self, job: Any) -> None:
        self.model.asked(job, self.clock.now, self.ledger, self.cluster)

    def _forgotten(self, key: str) -> None:
        self.model.forgotten(key, self.ledger, self.cluster)

    def _wait(self) -> None:
        seconds = self.random.choice([1.0, 20.0, 60.0, 200.0, 2000.0])
        self.clock.now += seconds
        self.trail.append(f"{seconds:g} s pass")

    def _pass(self) -> Passed | None:
        """A process that makes a pass; it may be killed on its way."""
        # A person's act may be what the taking-over process came into: then no pass goes on without its lease.
        self.model.began, self.model.fenced = self.model.last, False
        kill = not self.calm and self.random.random() < 0.25
        passed = self._process(self.random.randint(0, 30) if kill else None)
        self._check()
        self.model.fenced = False
        return passed

    def _process(self, kill: int | None, *, take_over: bool = False) -> Passed | None:
        me = self.processes.start()
        self.points.left = kill
        self.trail.append(f"process {me:g}: pass" + (f", killed at point {kill}" if kill is not None else ""))
        try:
            lease = self.ledger.acquire(self.name, break_lease=take_over)
            passed = make_pass(Ref(str(self.settings.home), self.name, lease.model_dump()))
            self.ledger.release(lease)
        except Killed as killed:
            self.counts["kill"] += 1
            self.trail.append(f"process {me:g}: killed at {killed}")
            return None
        except (FieldcraftError, LedgerError) as error:
            self._excused(error)
            self.trail.append(f"process {me:g}: {type(error).__name__}: {error}")
            return None
        finally:
            self.points.left = None
            self.processes.living.discard(me)
        return passed

    def _excused(self, error: Exception) -> None:
        """A pass may end with an error only for what was done to it."""
        from fieldcraft.flows.jobs.dispatcher import NotSent

        if not isinstance(error, NotSent | LeaseLost):
            raise error
        self.counts["lease lost"] += isinstance(error, LeaseLost)

    def _meanwhile(self, where: str) -> None:
        """What happens while the engine waits for a word from the cluster."""
        if self.calm or self.inside:
            return
        chance = self.random.random()
        self.inside += 1
        try:
            if chance < 0.03:
                self.counts["kill"] += 1
                raise Killed(where)
            if chance < 0.05:
                self._wait()
            elif chance < 0.13:
                self._person()
            elif chance < 0.16 and where != "find":
                self._take_over()
        finally:
            self.inside -= 1

    def _take_over(self) -> None:
        """Another process breaks the lease of the present one, which goes on as if it had not noticed."""
        self.counts["lease broken"] += 1
        me, left = self.processes.started, self.points.left
        self._check()
        self.model.fenced = False
        self._process(None, take_over=True)
        self.points.left = left
        self._check()
        self.model.fenced = True
        self.processes.living.add(me)

    def _person(self) -> None:
        """Somebody looks, decides, edits, records, gives up: on what they see now or saw some time ago."""
        trials = self.ledger.trials(self.name)
        if not trials:
            return
        trial = self.random.choice(trials)
        if trial.id not in self.seen or self.random.random() < 0.8:
            self.seen[trial.id] = (label(trial), dict(trial.design))
        acts = {
            S.PROPOSED: [self._approve, self._approve, self._approve, self._reject, self._edit],
            S.APPROVED: [self._edit, self._reject, self._prioritise, self._approve],
            S.STAGED: [self._abandon, self._cancel, self._record],
            S.RUNNING: [self._abandon, self._cancel, self._record, self._record],
            S.HELD: [self._abandon, self._retry, self._retry, self._record],
            S.FAILED: [self._abandon, self._retry, self._retry, self._record],
            S.COMPLETED: [self._correct, self._record, self._retry],
            S.ABANDONED: [self._record, self._retry],
            S.REJECTED: [self._approve, self._record],
        }
        self._try(self.random.choice(acts[trial.state]), trial)

    def _try(self, act: Callable[[Trial], object], trial: Trial) -> bool:
        """Let a person act; a refusal must change nothing."""
        before = len(self.ledger.history(self.name))
        what = f"{act.__name__.strip('_')} {trial.id}, {trial.state}"
        try:
            act(trial)
        except (interventions.NotStopped, Killed) as error:  # it was decided, and the job is still to be stopped
            self.trail.append(f"{what}: {type(error).__name__}")
        except (FieldcraftError, LedgerError) as error:
            self.model.granted.clear()
            assert len(self.ledger.history(self.name)) == before, f"{what} was refused ({error}) and changed something"
            self.counts["refused decision"] += 1
            self.trail.append(f"{what}: refused: {error}")
            return False
        self.counts["decision"] += 1
        self.trail.append(what)
        self._check()
        return True

    def _chosen(self, trial: Trial) -> tuple[str, dict[str, Any]]:
        return self.seen.get(trial.id) or (label(trial), dict(trial.design))

    def _approve(self, trial: Trial) -> None:
        choices = []
        for one in self._together(trial, {S.PROPOSED}):
            word, design = self._chosen(one)
            self.model.granted[one.id] = [design]
            choices.append(Choice.of(word))
        decisions.approve(self.ledger, self.settings, ANA, choices)

    def _reject(self, trial: Trial) -> None:
        together = self._together(trial, {S.PROPOSED, S.APPROVED})
        decisions.reject(self.ledger, ANA, [Choice.of(self._chosen(one)[0]) for one in together], "no")

    def _together(self, trial: Trial, states: set[TrialState]) -> list[Trial]:
        """The trials on which a person decides with this one."""
        if self.campaign.spec.approval.policy != "batch" or self.random.random() < 0.1:
            return [trial]
        others = self.ledger.trials(self.name, states=states, iteration=trial.iteration)
        return [trial, *(one for one in others if one.id != trial.id)]

    def _edit(self, trial: Trial) -> None:
        values = {"pieces": str(self.random.randint(1, 3)), "x": str(round(self.random.random(), 3))}
        decisions.edit(self.ledger, self.settings, ANA, Choice.of(self._chosen(trial)[0]), values, "better")

    def _prioritise(self, trial: Trial) -> None:
        decisions.prioritise(self.ledger, ANA, trial.id, self.random.randint(-2, 2))

    def _retry(self, trial: Trial) -> None:
        word, design = self._chosen(trial)
        self.model.granted[trial.id] = [design]
        interventions.retry(self.ledger, self.settings, ANA, word)

    def _abandon(self, trial: Trial) -> None:
        interventions.abandon(self.ledger, self.settings, ANA, trial.id, "enough")

    def _cancel(self, trial: Trial) -> None:
        interventions.cancel(self.ledger, self.settings, ANA, trial.id, "enough")

    def _site(self) -> Site:
        return Site(self.campaign, self.ledger, fields_at(self.settings.fields))

    def _measurement(self, trial: Trial) -> Measurement:
        value = round(self.random.uniform(100.0, 200.0), 6)
        self.model.recorded.setdefault(trial.id, set()).add(value)
        return Measurement(trial.id, values={"height": value})

    def _record(self, trial: Trial) -> None:
        site = self._site()
        record.record(site, record.check(site, self._measurement(trial)), PERSON, "person")

    def _correct(self, trial: Trial) -> None:
        site = self._site()
        if self.random.random() < 0.3:
            correct.retract(site, trial.id, PERSON, "a leak")
        else:
            correct.correct(site, record.check_correction(site, self._measurement(trial)), PERSON, "the gauge")

    def _settle(self) -> None:
        """Calm weather: people decide on everything, nothing is lost, and the campaign must come to its end."""
        self.calm, self.cluster.fault = True, 0.0
        for _ in range(LONGEST):
            passed = self._pass()
            self._check()
            if passed is not None and passed.decision.finished:
                break
            self._decide_on_all()
            self.clock.now += 61.0
        else:
            raise AssertionError(f"after {LONGEST} calm passes the campaign has not ended: {passed}")
        for _ in range(2):  # what comes late comes now
            self.clock.now += 1e5
            self._pass()
            self._check()
        self.model.settled(self.ledger, self.name, self.cluster)

    def _decide_on_all(self) -> None:
        for trial in self.ledger.trials(self.name):
            self.seen.clear()
            if trial.state is S.PROPOSED and self.ledger.trial(trial.id).state is S.PROPOSED:
                self._try(self._approve, trial)
            elif trial.state is S.HELD:
                self._try(self.random.choice([self._record, self._abandon, self._retry]), trial)
            elif trial.state is S.FAILED and self.random.random() < 0.3:
                self._try(self._retry, trial)


def simulate(seed: int, home: Path) -> Counter:
    """Run the schedule of one seed.

    Raises:
        AssertionError: the engine has done what it must not; says what, and the way there.
    """
    with world() as (clock, processes, points):
        schedule = Schedule(seed, home, clock, processes, points)
        try:
            return schedule.run()
        except Exception as error:
            way = "\n  ".join(schedule.trail[-40:])
            raise AssertionError(
                f"schedule {seed}: {type(error).__name__}: {error}\n  {way}\n"
                f"The same again: FIELDCRAFT_CHAOS_SEED={seed} make chaos"
            ) from error
