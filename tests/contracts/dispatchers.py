"""What every dispatcher is put to (``test_dispatchers.py``): a bench for each kind, which declares its nature.

A design says by its variable ``act`` what is done with it:

    answer       value 1 + x                 wait        until ``let_go``, then answer
    raise        fail, nobody knows why      stall       start a child and wait for it for ever
    busy         fail in passing             die         be killed
    impossible   say that the design is

To put a kind to it, write a context manager that yields its ``Bench`` and add it to ``SUPPLIERS``.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from remote_workers import dask_site, prefect_hand

from fieldcraft.flows.jobs.dispatcher import Dispatcher, Failed, Finished, Handle, Job, Lost, Outcome, Running
from fieldcraft.flows.rules.approved_code import covered
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import Dispatch, parse
from fieldcraft.flows.steps.dispatch import dispatch
from fieldcraft.flows.steps.harvest import harvest
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.campaign import dispatcher_of
from fieldcraft.flows.wiring.context import Site
from fieldcraft.storage.code import Code
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Limits, Origin, Proposal, Trial

PROBLEM = '''\
"""A number, and what is done with it."""
from dataclasses import dataclass

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Categorical, Continuous, SearchSpace

ACTS = ("answer", "wait", "stall", "raise", "busy", "impossible", "die")


@dataclass(frozen=True)
class Acted(Problem):
    """See the bench."""

    @property
    def space(self):
        return SearchSpace((Continuous("x", 0.0, 1.0, "m"), Categorical("act", ACTS)))

    @property
    def outputs(self):
        return (Output("value", "K"),)
'''
SIMULATOR = '''\
"""Does as the design says, and writes a line for every run and every child."""
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import xarray as xr

from fieldcraft.physics.problem import Infeasible, Simulator, Transient


@dataclass(frozen=True)
class {name}(Simulator):
    """See the bench."""

    folder: str
    idempotent: ClassVar[bool] = {idempotent}

    def run(self, problem, design, rng):
        self.note("run", os.getpid())
        act = design["act"]
        if act == "impossible":
            raise Infeasible("the mesh does not close")
        if act == "busy":
            raise Transient("no licence is free")
        if act == "raise":
            raise RuntimeError("the mesh is twisted")
        if act == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if act == "stall":
            child = subprocess.Popen(["sleep", "600"])
            self.note("child", child.pid)
            child.wait()
        while act == "wait" and not Path(self.folder, "go").exists():
            time.sleep(0.01)
        return xr.Dataset({{"value": ((), 1.0 + design["x"], {{"units": "K"}})}})

    def note(self, what, pid):
        descriptor = os.open(f"{{self.folder}}/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{{what}} {{pid}}\\n".encode())
        os.close(descriptor)
'''
PROGRAM = """\
#!/bin/sh
# acting FOLDER ACT INPUT OUTPUT
echo "run $$" >> "$1/log"
case $2 in
    impossible) echo "the mesh does not close"; exit 3 ;;
    busy) echo "no licence is free"; exit 75 ;;
    raise) echo "the mesh is twisted"; exit 1 ;;
    die) kill -9 $$ ;;
    stall) sleep 600 & echo "child $!" >> "$1/log"; wait ;;
    wait) until [ -e "$1/go" ]; do sleep 0.01; done ;;
esac
echo "{\\"value\\": 1$(sed 's/.*"x": 0\\(\\.[0-9]*\\).*/\\1/' "$3")}" > "$4.part" && mv "$4.part" "$4"
"""
DESK = """\
from dataclasses import dataclass
from typing import ClassVar

from fieldcraft import Failed, Lost, Place, Running
from fieldcraft.flows.jobs.job_folder import read_json, write_json
from fieldcraft.storage.fields import FieldDamaged


@dataclass(frozen=True)
class Desk:
    place: Place
    by_people: ClassVar[bool] = True

    @property
    def inbox(self):
        return self.place.orders / "tray"

    def require_folder(self):
        pass

    def _card(self, key):
        return self.place.orders / "cards" / f"{key}.json"

    def _set(self, key, state):
        if self._card(key).exists():
            write_json(self._card(key), {**read_json(self._card(key)), "state": state})

    def submit(self, job):
        self._card(job.key).parent.mkdir(parents=True, exist_ok=True)
        told = {name: job.request[name] for name in ("design", "digest")}
        write_json(self._card(job.key), {"key": job.key, "trial": job.trial, "state": "open", **told})
        return {"key": job.key}

    def find(self, key):
        return {"key": key} if self._card(key).exists() else None

    def look(self, handle):
        key = handle["key"]
        state = read_json(self._card(key)).get("state")
        if state == "cancelled":
            return Failed("cancelled", f"order {key} was cancelled")
        return Running() if state == "open" else Lost(f"order {key} is {state}")

    poll = look

    def fetch(self, handle):
        raise FieldDamaged(f"{handle['key']} has no field to fetch: record its result")

    def cancel(self, handle):
        self._set(handle["key"], "cancelled")

    def forget(self, key):
        self._set(key, "done")

    def wait(self, handles, seconds):
        pass

    def at_large(self):
        cards = [read_json(file) for file in sorted(self.place.orders.glob("cards/[!.]*.json"))]
        return {card["key"]: card for card in cards if card["state"] == "open"}

    def write_tables(self):
        if self.place.orders.is_dir():
            (self.place.orders / "open.txt").write_text(" ".join(self.at_large()))
"""
RECORDED = (
    "trial,state,design.x,design.act,output.value\nold-0001,COMPLETED,0.25,answer,1.25\nold-0002,FAILED,0.5,raise,\n"
)


@dataclass(frozen=True)
class Nature:
    """What can be expected of a kind; each is asserted of it, nothing is skipped.

    Args:
        processes: Jobs run in processes of their own, which outlive whoever submitted them, and can be killed.
        finds: A submitted key is found again; where it is not, submitting it again does no harm.
        runs: How often a key may run at most: when it is submitted twice, and when a pass died after submitting it.
        acts: What the acts come to that end by themselves: a type, or a kind of failure and what its reason holds.
        takes: Whether a pass takes results by itself; where not, people record them.
        runs_code: Code of the operator's runs, which is compared with what was approved before it begins.
    """

    acts: Mapping[str, type[Outcome] | tuple[str, str]]
    processes: bool = True
    finds: bool = True
    runs: tuple[int, int] = (1, 1)
    takes: bool = True
    runs_code: bool = True


_ANSWERS = {
    "answer": Finished,
    "raise": ("unknown", "the mesh is twisted"),
    "busy": ("transient", "no licence is free"),
    "impossible": ("infeasible", "the mesh does not close"),
}
_UNRECORDED = ("unknown", "holds no result of this design; the nearest is old-0001, x=0.25, act=answer")


@dataclass(frozen=True)
class Bench:
    """A kind with what it needs, all under one folder.

    Args:
        kind: Of the dispatcher.
        folder: Where its simulations write a line for every run.
        nature: What can be expected of it.
        options: Of the dispatcher, in a campaign file.
        simulator: Of a campaign file; None where it needs none.
    """

    kind: str
    folder: Path
    nature: Nature
    options: Mapping[str, Any] = field(default_factory=dict)
    simulator: str | None = None

    def spec(self, **keys: Any) -> dict[str, Any]:
        """A campaign file as data; ``wall_time_s`` is of the dispatcher, all other keys are the file's."""
        limit = {"wall_time_s": keys.pop("wall_time_s", 60.0)}
        made = {"simulator": {"kind": self.simulator, "folder": str(self.folder)}} if self.simulator else {}
        return {
            "name": "b",
            "seed": 3,
            "sense": "maximize",
            "problem": {"kind": "acted"},
            "algorithm": {"start": {"n": 1}},
            "budget": {"trials": 9},
            "dispatcher": {"kind": self.kind, **limit, **self.options},
            **made,
            **keys,
        }

    def dispatcher(self, wall_time_s: float = 60.0) -> Dispatcher:
        """A fresh one, as another process would make it."""
        chosen = Dispatch.model_validate(self.spec(wall_time_s=wall_time_s)["dispatcher"])
        return dispatcher_of("b", chosen, settings_from(home=self.folder / "home"))

    def job(self, act: str, attempt: int = 1) -> Job:
        """A job as a pass submits it."""
        request = {
            "problem": {"kind": "acted"},
            "simulator": self.spec().get("simulator"),
            "design": {"x": 0.25, "act": act},
            "units": {"x": "m", "act": ""},
            "outputs": {"value": "K"},
            "digest": "0" * 64,
            "seed": 3,
            "iteration": 0,
            "slot": 0,
        }
        return Job("b-0001", f"b-0001-{attempt}", request)

    def site(self) -> Site:
        """The campaign's stores, as another pass would open them; created when they are not there."""
        campaign = wire(parse(self.spec(), "b.yaml"), settings_from(home=self.folder / "home"), algorithm=False)
        ledger = open_ledger(campaign.settings.ledger, create=True)
        environment = {
            "outputs": [{"name": "value", "unit": "K"}],
            "units": {"x": "m", "act": ""},
            "by_people": campaign.dispatcher.by_people,
        }
        ledger.create_campaign("b", campaign.data, campaign.digest, environment, "test", Limits())
        return Site(campaign, ledger, fields_at(campaign.settings.fields))

    def approved(self, act: str) -> Trial:
        """A trial of the campaign, approved for one attempt."""
        ledger, origin = self.site().ledger, Origin(kind="initial", algorithm="sobol", seed=3, iteration=0, slot=0)
        (trial,) = ledger.propose("b", 0, [Proposal(design={"x": 0.25, "act": act}, origin=origin)], "test")
        return ledger.approve(trial.id, trial.expect, trial.digest, "test", "looks right", "manual", 1, code=self.code)

    @property
    def code(self) -> Code:
        """What an approval that is given now covers."""
        site = self.site()
        return covered(site.campaign.spec, site.campaign.settings).code

    def trial(self) -> Trial:
        """The trial as it stands."""
        return self.site().ledger.trial("b-0001")

    def passes(self, until: Callable[[Trial], bool], seconds: float = 60.0) -> Trial:
        """Harvest and dispatch, again and again, until the trial is as it is looked for."""
        deadline = time.monotonic() + seconds
        while True:
            site = self.site()
            harvest(site)
            dispatch(site)
            if until(trial := self.trial()):
                return trial
            assert time.monotonic() < deadline, trial
            site.campaign.dispatcher.wait([trial.handle] if trial.handle else [], 0.2)

    def let_go(self) -> None:
        """Let those that wait answer."""
        (self.folder / "go").touch()

    def log(self, what: str) -> list[int]:
        """Process ids of the runs, or of the children, so far."""
        file = self.folder / "log"
        lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        return [int(pid) for kind, pid in lines if kind == what]

    def runs(self) -> int:
        """How often anything was really done."""
        return len(self.log("run"))


@dataclass(frozen=True)
class LabBench(Bench):
    """People: each run is an order they were given, and an answer is a file they drop into ``inbox``."""

    inbox: str = "results"

    def runs(self) -> int:
        """Orders in any state."""
        return len(list((self.folder / "home" / "lab" / "b").glob("*/*.json")))

    def let_go(self) -> None:
        """Drop a result for the order; it was written long enough ago to be read."""
        file = self.folder / "home" / "lab" / "b" / self.inbox / "r.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"trial": "b-0001", "key": "b-0001-1", "values": {"value": 1.25}}))
        os.utime(file, (time.time() - 60.0,) * 2)


def ended(dispatcher: Dispatcher, handle: Handle, seconds: float = 60.0) -> Outcome:
    """What became of a job, once it has ended."""
    deadline = time.monotonic() + seconds
    while isinstance(outcome := dispatcher.poll(handle), Running):
        assert time.monotonic() < deadline, f"{handle} still runs"
        dispatcher.wait([handle], 1.0)
    return outcome


def is_as(outcome: Outcome, expected: type[Outcome] | tuple[str, str]) -> bool:
    """Whether an outcome is of that type, or a failure of that kind for that reason."""
    if isinstance(expected, tuple):
        kind, reason = expected
        return isinstance(outcome, Failed) and outcome.kind == kind and reason in outcome.reason
    return isinstance(outcome, expected)


@contextmanager
def local(folder: Path) -> Iterator[Bench]:
    """Child processes of this machine."""
    bench = Bench("local", folder, Nature({**_ANSWERS, "die": Lost}), simulator="acting")
    yield bench
    stop_all(bench)


@contextmanager
def command(folder: Path) -> Iterator[Bench]:
    """An external program, which this folder holds."""
    program = folder / "programs" / "acting"
    options = {
        "program": "acting",
        "arguments": [str(folder), "{act}", "{input}", "{output}"],
        "exit_codes": {"3": "infeasible", "75": "transient"},
    }
    assert program.is_file()
    bench = Bench("command", folder, Nature({**_ANSWERS, "die": Lost}), options)
    yield bench
    stop_all(bench)


@contextmanager
def inline(folder: Path) -> Iterator[Bench]:
    """The pass's own process: nothing outlives it, so what it did not write down is done again, which does no harm."""
    nature = Nature(_ANSWERS, processes=False, finds=False, runs=(1, 2))
    yield Bench("inline", folder, nature, simulator="formula")
    from fieldcraft.flows.dispatchers.inline import Inline

    Inline._answers.clear()


@contextmanager
def lab(folder: Path) -> Iterator[Bench]:
    """People: an order waits until its result is recorded."""
    yield LabBench("lab", folder, Nature({}, processes=False, takes=False, runs_code=False))


@contextmanager
def desk(folder: Path) -> Iterator[Bench]:
    """A second place where people work, in one file of a plug-in."""
    yield LabBench("desk", folder, Nature({}, processes=False, takes=False, runs_code=False), inbox="tray")


@contextmanager
def replay(folder: Path) -> Iterator[Bench]:
    """What was recorded: nothing runs, and what was not recorded fails."""
    acts = {"answer": Finished, **dict.fromkeys(("raise", "busy", "impossible"), _UNRECORDED)}
    nature = Nature(acts, processes=False, finds=False, runs=(0, 0), runs_code=False)
    yield Bench("replay", folder, nature, {"file": "old.csv"})


@contextmanager
def dask(folder: Path) -> Iterator[Bench]:
    """A scheduler and a worker, which serve all benches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDCRAFT_DASK", shared(dask_site).address)
        bench = Bench("dask", folder, Nature({**_ANSWERS, "die": Lost}), simulator="acting")
        yield bench
        stop_all(bench)


@contextmanager
def prefect(folder: Path) -> Iterator[Bench]:
    """A server and a worker, which serve all benches."""
    shared(prefect_hand)
    bench = Bench("prefect", folder, Nature({**_ANSWERS, "die": Lost}), simulator="acting")
    yield bench
    stop_all(bench)


SITES = ExitStack()
"""The sites that serve all benches of a module, started by the first; whoever uses benches closes it."""


@cache
def shared(site: Callable[[Path], AbstractContextManager[Any]]) -> Any:
    """A site, the same for all benches."""
    folder = Path(SITES.enter_context(TemporaryDirectory()))
    furnish(folder)
    SITES.callback(shared.cache_clear)
    return SITES.enter_context(site(folder))


def stop_all(bench: Bench) -> None:
    """Stop every job that the bench may have left."""
    dispatcher, work = bench.dispatcher(), bench.folder / "home" / "work" / "b"
    for key in [path.name for path in work.iterdir()] if work.is_dir() else []:
        if (handle := dispatcher.find(key)) is not None:
            dispatcher.cancel(handle)


def furnish(folder: Path) -> dict[str, str]:
    """Write what all benches need into the folder; returns the settings that name it."""
    texts = {
        "plugins/problems/acted.py": PROBLEM,
        "plugins/simulators/acting.py": SIMULATOR.format(name="Acting", idempotent=False),
        "plugins/simulators/formula.py": SIMULATOR.format(name="Formula", idempotent=True),
        "plugins/dispatchers/desk.py": DESK,
        "programs/acting": PROGRAM,
        "records/old.csv": RECORDED,
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "programs" / "acting").chmod(0o755)
    return {
        "FIELDCRAFT_PLUGINS": str(folder / "plugins"),
        "FIELDCRAFT_PROGRAMS": str(folder / "programs" / "acting"),
        "FIELDCRAFT_RECORDS": str(folder / "records"),
        "FIELDCRAFT_MLFLOW": "off",
    }


SUPPLIERS: dict[str, Callable[[Path], AbstractContextManager[Bench]]] = {
    "local": local,
    "command": command,
    "dask": dask,
    "desk": desk,
    "inline": inline,
    "lab": lab,
    "prefect": prefect,
    "replay": replay,
}
