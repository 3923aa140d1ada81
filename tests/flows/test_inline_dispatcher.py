"""The dispatcher that runs formulas within the pass: one run a key, and the same answer from any process."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from small import SMALL

from flows.dispatcher import Failed, Finished, Job, NotSent, Place
from flows.dispatchers.inline import Inline
from flows.errors import InputError
from flows.settings import settings_from
from flows.spec import parse
from flows.streams import Use, stream
from flows.wiring import wire
from storage.fields import FieldDamaged

ACTING = '''\
"""Does as it is told, and counts."""
import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import xarray as xr

from physics.problem import Simulator


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
    left = [key for folder, key in Inline._answers if folder == str(tmp_path / "work")]
    assert not left, "what was fetched or forgotten is held no longer"


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


def test_a_job_that_another_process_ran_is_computed_again_to_the_bit(inline):
    handle = inline.submit(job(inline))
    known = inline.fetch(handle)
    assert not [key for folder, key in Inline._answers if folder == str(inline.place.folder)]
    assert float(known["drawn"]) == stream(7, 4, Use.SIMULATE, 2).random()
    later = json.loads(json.dumps(handle))  # as the ledger gives it to a process that holds nothing
    assert isinstance(inline.poll(later), Finished)
    assert inline.fetch(later).identical(known)
    assert runs(inline) == 2


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
