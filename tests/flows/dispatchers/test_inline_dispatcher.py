"""The dispatcher that runs formulas within the pass: one run a key, whoever asks, and the same answer to all."""

import json
import multiprocessing
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from ledgers import in_child
from rig import eventually
from small import SMALL

from fieldcraft.flows.dispatchers.inline import Inline, write_down
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.jobs.dispatcher import Failed, Finished, Job, Lost, NotSent, Place, Running
from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.recovery.doctor import examine
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.steps.leases import held
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.fields import FieldDamaged
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import TrialState

ACTING = '''\
"""Does as it is told, and counts."""
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import xarray as xr

from fieldcraft.physics.problem import Simulator


@dataclass(frozen=True)
class {name}(Simulator):
    """See the test."""

    folder: str
    act: str = "answer"
    idempotent: ClassVar[bool] = {idempotent}
    gate_cost: ClassVar[float] = 0.25

    def gate(self, problem, design, rng):
        return "too close to the wall" if self.act == "refuse" else None

    def run(self, problem, design, rng):
        with open(f"{{self.folder}}/log", "a") as log:
            log.write("ran\\n")
        if self.act == "look":
            raise RuntimeError(", ".join(sorted(name for name in os.environ if name.startswith("FIELDCRAFT_"))))
        if self.act == "leave":
            raise SystemExit
        while self.act == "wait" and not os.path.exists(f"{{self.folder}}/go"):
            time.sleep(0.01)
        value = problem.function(design)["value"]
        return xr.Dataset({{"value": ((), value, {{"units": ""}}), "drawn": ((), rng.random(), {{"units": ""}})}})
'''


@pytest.fixture
def inline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inline]:
    (tmp_path / "plugins" / "simulators").mkdir(parents=True)
    for name, idempotent in (("Acting", True), ("Burning", False)):
        text = ACTING.format(name=name, idempotent=idempotent)
        (tmp_path / "plugins" / "simulators" / f"{name.lower()}.py").write_text(text)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    yield Inline(Place("t", tmp_path / "work", 1.0, "", tmp_path))
    left = [folder for folder in Inline._answers if folder.parent == tmp_path / "work"]
    assert not left, "what was forgotten or written down is held no longer"


def job(inline: Inline, act: str = "answer", kind: str = "acting", key: str = "t-0001-1") -> Job:
    request = {
        "problem": {"kind": "branin"},
        "simulator": {"kind": kind, "act": act, "folder": str(inline.place.orders)},
        "design": {"x1": 1.0, "x2": 2.0},
        "seed": 7,
        "iteration": 4,
        "slot": 2,
    }
    return Job("t-0001", key, request)


def runs(inline: Inline) -> int:
    log = inline.place.orders / "log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_a_key_submitted_twice_runs_once_and_two_keys_run_apart(inline):
    first, second = inline.submit(job(inline)), inline.submit(job(inline))
    other = inline.submit(job(inline, key="t-0001-2"))
    assert first == second and runs(inline) == 2
    inline.forget("t-0001-1")
    assert isinstance(inline.poll(other), Finished) and runs(inline) == 2
    inline.forget("t-0001-2")


def ask(inline: Inline, act: str = "answer", *, leaves: bool = True) -> "multiprocessing.Process":
    """A process that submits the job and then makes no more passes, or is gone without a word."""

    def run() -> None:
        inline.submit(job(inline, act))
        if leaves:
            write_down("t")
        os._exit(0)

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    return child


def test_an_answer_that_no_pass_has_taken_is_taken_by_that_of_another_process_to_the_bit(inline):
    child = ask(inline)
    child.join(60)
    handle = json.loads(json.dumps({"key": "t-0001-1", "request": job(inline).request}))  # as the ledger gives it
    known = inline.poll(handle)
    assert isinstance(known, Finished) and known == inline.look(handle) and 0.0 <= known.seconds < 60.0
    fields = inline.fetch(handle)
    assert float(fields["drawn"]) == stream(7, 4, Use.SIMULATE, 2).random()
    assert runs(inline) == 1
    inline.forget("t-0001-1")
    assert not inline.place.folder.joinpath("t-0001-1").exists()


def test_a_job_that_another_process_is_at_is_waited_for_and_never_run_beside_it(inline):
    child = ask(inline, "wait")
    eventually(lambda: runs(inline) == 1)
    handle = inline.submit(job(inline, "wait"))
    assert isinstance(inline.look(handle), Running) and isinstance(inline.poll(handle), Running)
    inline.wait([handle], 0.05)
    (inline.place.orders / "go").touch()
    eventually(lambda: not isinstance(inline.poll(handle), Running))
    child.join(60)
    assert isinstance(inline.poll(handle), Finished) and float(inline.fetch(handle)["value"]) and runs(inline) == 1
    inline.forget("t-0001-1")


def test_a_job_of_a_process_that_is_gone_without_a_word_is_run_again_by_a_pass_and_by_no_look(inline):
    child = ask(inline, leaves=False)
    child.join(60)
    handle = {"key": "t-0001-1", "request": job(inline).request}
    assert inline.look(handle) == Lost("nobody has its answer, and nobody is at it") and runs(inline) == 1
    assert isinstance(inline.poll(handle), Finished) and runs(inline) == 2
    inline.forget("t-0001-1")


def test_a_failure_that_no_pass_has_taken_is_written_down_too(inline):
    handle = inline.submit(job(inline, "refuse"))
    said = inline.look(handle)
    write_down("t")
    found = inline.look(handle)
    assert (found.kind, found.reason, found.cost) == (said.kind, said.reason, said.cost) and runs(inline) == 0
    inline.forget("t-0001-1")


def test_an_answer_is_written_down_for_nobody_once_its_job_was_given_up(inline):
    inline.submit(job(inline))
    shutil.rmtree(inline.place.folder)
    write_down("t")
    assert not inline.place.folder.exists()


@pytest.mark.parametrize(
    ("act", "kind", "reason", "cost"),
    [
        ("refuse", "infeasible", "refused by the gate: too close to the wall", 0.25),
        ("leave", "unknown", "SystemExit", None),
    ],
)
def test_a_failure_has_its_kind_and_its_reason(inline, act, kind, reason, cost):
    handle = inline.submit(job(inline, act))
    outcome = inline.poll(handle)
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.reason, outcome.cost) == (kind, reason, cost)
    assert outcome.seconds is not None and np.isfinite(outcome.seconds)
    with pytest.raises(FieldDamaged, match="t-0001-1 failed and has no fields"):
        inline.fetch(handle)
    inline.forget("t-0001-1")


def test_a_simulator_that_must_not_be_repeated_is_refused_before_it_runs(inline):
    with pytest.raises(NotSent, match=r"'burning' is not idempotent.*Use the dispatcher 'local'"):
        inline.submit(job(inline, kind="burning"))
    assert runs(inline) == 0


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"simulator": {"kind": "burning", "folder": "."}}, r"simulator: 'burning' is not idempotent, .*'local', or"),
        (
            {"budget": {"trials": 3, "wall_time_h": 2}},
            r"wall_time_h: 2 is given, .*'inline' simulations run within",
        ),
    ],
)
def test_a_campaign_that_asks_what_cannot_be_kept_within_a_pass_is_refused_before_it_begins(inline, keys, message):
    spec = {**yaml.safe_load(SMALL), "dispatcher": {"kind": "inline"}}
    assert wire(parse(spec, "x"), settings_from(), algorithm=False).idempotent
    with pytest.raises(InputError, match=message):
        wire(parse({**spec, **keys}, "x"), settings_from(), algorithm=False)


def test_a_simulator_is_run_without_the_variables_that_hold_secrets(inline, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_TOKEN", "secret")
    handle = inline.submit(job(inline, "look"))
    assert inline.look(handle).reason == "RuntimeError: FIELDCRAFT_PLUGINS"
    assert os.environ["FIELDCRAFT_TOKEN"] == "secret", "the pass itself keeps it"
    inline.forget("t-0001-1")


def test_passes_each_in_a_process_of_its_own_run_every_trial_once(inline, tmp_path):
    data = {
        **yaml.safe_load(SMALL),
        "algorithm": {"kind": "sobol"},
        "dispatcher": {"kind": "inline"},
        "simulator": {"kind": "acting", "folder": str(tmp_path)},
    }
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(data))
    settings = settings_from(home=tmp_path / "home")
    ledger = open_ledger(settings.ledger, create=True)
    assert created(ledger, wire(parse(data, "x"), settings), tmp_path / "small.yaml") is None
    while ledger.campaign("small").finished is None:
        assert in_child(lambda: one_pass(tmp_path / "home")) == 0
        assert runs(inline) - len(ledger.trials("small", states={TrialState.COMPLETED})) in (0, 1)
    assert runs(inline) == len(ledger.trials("small")) == 3
    assert examine(settings) == []


def one_pass(home: Path) -> None:
    """As ``fieldcraft iterate`` makes one."""
    with held(open_ledger(home / "ledger.sqlite"), "small") as lease:
        make_pass(Ref(str(home), "small", lease.model_dump()))
