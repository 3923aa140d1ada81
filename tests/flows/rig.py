"""A campaign whose simulations do as they are told, on real processes, passed by hand: what failures need to be seen.

``Rig.tell`` lists what the simulations do, in the order in which they are started:

    answer V G   give the value V and the constraint G   transient    fail in passing
    wait         until ``let_go``, then answer           raise WORDS  fail in a way of which nothing is known
    nan          give no number                          infeasible   say that the design is
    die          be killed                               refuse       be refused by the gate
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warm_start
import yaml

from fieldcraft.flows.jobs.keys import attempt_key
from fieldcraft.flows.rules.approved_code import covered
from fieldcraft.flows.run import pause
from fieldcraft.flows.settings import Settings, settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.steps.decide import Decision
from fieldcraft.flows.steps.one_pass import Passed, Ref, make_pass
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.code import Code
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Trial, TrialState

PROBLEM = '''\
"""A number between 0 and 1 and what it costs to try it."""
from dataclasses import dataclass

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, SearchSpace


@dataclass(frozen=True)
class Rig(Problem):
    """See the test."""

    each: float = 1.0

    @property
    def space(self):
        return SearchSpace((Continuous("x", 0.0, 1.0, "m"),))

    @property
    def outputs(self):
        return (Output("value", "K"), Output("excess", "K"))

    def cost(self, design):
        return self.each
'''
SIMULATOR = '''\
"""Does as it is told."""
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import xarray as xr

from fieldcraft.physics.problem import Infeasible, Simulator, Transient


@dataclass(frozen=True)
class Rig(Simulator):
    """See the test."""

    folder: str
    gate_cost: ClassVar[float] = 0.25

    def gate(self, problem, design, rng):
        if self.told() != "refuse":
            return None
        self.note()
        return "it is too hot"

    def told(self):
        log, acts = Path(self.folder, "log"), Path(self.folder, "acts").read_text().splitlines()
        started = len(log.read_text().splitlines()) if log.exists() else 0
        return acts[started] if started < len(acts) else "answer"

    def note(self):
        descriptor = os.open(f"{self.folder}/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{os.getpid()}\\n".encode())
        os.close(descriptor)

    def run(self, problem, design, rng):
        act, _, numbers = self.told().partition(" ")
        self.note()
        if act == "transient":
            raise Transient("no licence is free")
        if act == "infeasible":
            raise Infeasible("the mesh does not close")
        if act == "raise":
            raise RuntimeError(numbers.encode().decode("unicode_escape") or "who knows")
        if act == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        while act == "wait" and not Path(self.folder, "go").exists():
            time.sleep(0.01)
        value, _, excess = numbers.partition(" ")
        answer = {"value": float("nan") if act == "nan" else float(value or 1.0), "excess": float(excess or -1.0)}
        return xr.Dataset({name: ((), number, {"units": "K"}) for name, number in answer.items()})
'''
STEP = """\
import sys
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.storage.open_ledger import open_ledger
make_pass(Ref(sys.argv[1], "b", open_ledger(f"{sys.argv[1]}/ledger.sqlite").acquire("b").model_dump()))
"""
DISPATCHER = '''\
"""Simulations of this machine, over a line that can be cut, and with somebody who may come between."""
from dataclasses import dataclass
from pathlib import Path

from fieldcraft.flows.jobs.dispatcher import CannotTell
from fieldcraft.flows.dispatchers.local import Local
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import TrialState


@dataclass(frozen=True)
class Remote(Local):
    """See the test."""

    def submit(self, job):
        state = open_ledger(self.folder.parents[1] / "ledger.sqlite").trial(job.trial).state
        self.folder.mkdir(parents=True, exist_ok=True)
        if (edit := self.folder.parent / "edit").exists():
            edit.rename(Path(__file__).parents[1] / "simulators" / "rig.py")
        with (self.folder.parent / "submitted").open("a") as log:
            log.write(f"{job.key} {state}\\n")
        return super().submit(job)

    def look(self, handle):
        self.reach()
        return super().look(handle)

    def find(self, key):
        self.reach()
        return super().find(key)

    def poll(self, handle):
        self.reach()
        outcome, meanwhile = super().poll(handle), self.folder.parent / "meanwhile"
        if meanwhile.exists():
            meanwhile.unlink()
            ledger = open_ledger(self.folder.parents[1] / "ledger.sqlite")
            trial = ledger.trial(handle["key"].rpartition("-")[0])
            ledger.move(trial.id, TrialState.FAILED, trial.expect, "ana", "enough", failure="cancelled")
        return outcome

    def reach(self):
        if (self.folder.parent / "cut").exists():
            raise CannotTell("the line is cut")
'''


@dataclass(frozen=True)
class Rig:
    """A campaign ``b`` on its rig.

    Args:
        folder: Where its simulations are told what to do.
        campaign: The campaign, wired.
        ledger: As people see it.
    """

    folder: Path
    campaign: Campaign
    ledger: Ledger

    @property
    def settings(self) -> Settings:
        return self.campaign.settings

    @property
    def code(self) -> Code:
        """What an approval that is given now covers."""
        return covered(self.campaign.spec, self.settings).code

    def tell(self, *acts: str) -> None:
        """What the simulations do, from the first on."""
        (self.folder / "acts").write_text("\n".join(acts))

    def let_go(self) -> None:
        """Let the simulations that wait answer."""
        (self.folder / "go").touch()

    def started(self) -> list[int]:
        """Process ids of the simulations so far."""
        log = self.folder / "log"
        return [int(line) for line in log.read_text().splitlines()] if log.exists() else []

    def trial(self, number: int = 1) -> Trial:
        return self.ledger.trial(f"b-{number:04d}")

    def trials(self) -> list[tuple[str, str | None]]:
        """States and kinds of failure, by number."""
        return [(str(trial.state), trial.failure) for trial in self.ledger.trials("b")]

    def step(self) -> Passed:
        """One pass."""
        lease = self.ledger.acquire("b")
        try:
            return make_pass(Ref(str(self.settings.home), "b", lease.model_dump()))
        finally:
            self.ledger.release(lease)

    def step_in_child(self, **environment: str) -> int:
        """One pass in a process of its own; its exit status, negative where a signal ended it."""
        return warm_start.run(["-c", STEP, str(self.settings.home)], {**os.environ, **environment}, 120).returncode

    def steps(self, until: Callable[[Decision], Any], seconds: float = 90.0) -> Decision:
        """Passes, with the pauses of ``fieldcraft run``, until a decision that is looked for."""
        deadline = time.monotonic() + seconds
        while True:
            passed = self.step()
            if until(passed.decision) and not passed.approved:
                return passed.decision
            assert time.monotonic() < deadline, passed
            if passed.decision.wait and not passed.approved:
                pause(self.campaign, self.ledger, passed)

    def finish(self) -> str:
        """Passes to the end, with a sound ledger; its reason."""
        reason = self.steps(lambda decision: decision.finished).finished
        assert reason is not None
        assert self.ledger.check() == []
        return reason

    def send(self, number: int = 1) -> Trial:
        """Passes until the trial of that number runs, and its simulation has begun."""
        self.steps(lambda _: self.present(number) and self.trial(number).state is TrialState.RUNNING)
        eventually(lambda: len(self.started()) >= number)
        return self.trial(number)

    def present(self, number: int) -> bool:
        return len(self.ledger.trials("b")) >= number

    def answered(self, trial: Trial) -> bool:
        """Whether the simulation of the trial's present attempt has left its result."""
        return (self.settings.work / "b" / attempt_key(trial) / "result").is_dir()


def rig(folder: Path, *, human: bool = False, **keys: Any) -> Rig:
    """A campaign on its rig; ``keys`` are keys of the campaign file and win over those here."""
    for kind, name, text in (
        ("problems", "rig", PROBLEM),
        ("simulators", "rig", SIMULATOR),
        ("dispatchers", "remote", DISPATCHER),
    ):
        (folder / "plugins" / kind).mkdir(parents=True, exist_ok=True)
        (folder / "plugins" / kind / f"{name}.py").write_text(text)
    (folder / "acts").touch()
    given: dict[str, Any] = {
        "name": "b",
        "seed": 3,
        "sense": "maximize",
        "problem": {"kind": "rig"},
        "simulator": {"kind": "rig", "folder": str(folder)},
        "algorithm": {"start": {"n": 1}},
        "approval": "human" if human else "auto",
        "budget": {"trials": 2},
        **keys,
    }
    given["dispatcher"] = {"parallel": 1, "wall_time_s": 60.0, "backoff_s": 0.0, **keys.get("dispatcher", {})}
    data = {key: value for key, value in given.items() if value is not None}
    (folder / "b.yaml").write_text(yaml.safe_dump(data))
    settings = settings_from(
        {"FIELDCRAFT_PLUGINS": str(folder / "plugins"), "FIELDCRAFT_MLFLOW": "off"}, folder / "home"
    )
    campaign = wire(parse(data, "b.yaml"), settings)
    ledger = open_ledger(settings.ledger, create=True)
    assert created(ledger, campaign, folder / "b.yaml") is None
    return Rig(folder, campaign, ledger)


def eventually(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """Look again and again until a condition holds; it must before the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not come about in {seconds} s"
        time.sleep(0.01)
