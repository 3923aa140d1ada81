"""Where the time goes: every second under one name, whatever lies in what, and nothing measured unless asked."""

import time

import pytest
from rig import rig

from fieldcraft.flows.machinery.profiling import ELSE, Profile, measured, profile_text, profiled, span
from fieldcraft.flows.steps.one_pass import Ref, make_pass


@pytest.fixture(autouse=True)
def _plugins(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    (tmp_path / "plugins").mkdir()


def test_each_second_counts_for_the_innermost_span_also_where_one_ends_in_an_error():
    now = [100.0]
    profile = Profile(clock=lambda: now[0])

    def passes(seconds: float) -> None:
        now[0] += seconds

    passes(1.0)
    with profile.span("prefect"):
        passes(2.0)
        with profile.span("train"):
            passes(4.0)
        passes(8.0)
        with pytest.raises(ValueError, match="ill"), profile.span("acquire"):
            passes(16.0)
            raise ValueError("ill")
    with profile.span("prefect"):
        passes(32.0)
    passes(64.0)
    profile.trials = 2
    data = profile.data()
    assert data["seconds"] == 127.0
    assert {name: (part["count"], part["seconds"]) for name, part in data["parts"].items()} == {
        "train": (1, 4.0),
        "acquire": (1, 16.0),
        "prefect": (2, 42.0),
        ELSE: (1, 65.0),
    }
    assert data["parts"]["train"]["per_trial"] == 2.0 and data["parts"]["train"]["share"] == 4.0 / 127.0
    assert profile_text(data).splitlines()[2] == "train               1     4.000   2.0000   3.1%"


def test_the_spans_of_real_passes_are_the_wall_time_and_no_step_is_missed(tmp_path):
    at = rig(tmp_path, budget={"trials": 2}, dispatcher={"parallel": 1})
    lease = at.ledger.acquire("b")
    ref = Ref(str(at.settings.home), "b", lease.model_dump())
    began = time.perf_counter()
    with profiled() as profile:
        passes = 1
        while not make_pass(ref).decision.finished:
            passes += 1
        wall, data = time.perf_counter() - began, profile.data()
    parts = data["parts"]
    assert sum(part["seconds"] for part in parts.values()) == pytest.approx(data["seconds"], rel=1e-9)
    assert data["seconds"] == pytest.approx(wall, rel=0.05, abs=0.02)
    assert (parts["harvest"]["count"], parts["decide"]["count"], parts["notices"]["count"]) == (passes, passes, passes)
    assert (parts["acquire"]["count"], data["trials"]) == (2, 2)
    assert parts[ELSE]["seconds"] < 0.5 * wall, "the steps and not what is between them take the time"


def test_a_step_that_nobody_measures_is_called_as_it_is():
    with span("train"):
        assert measured(max)(2, 3) == 3
    with profiled() as profile:
        assert measured(max)(2, 3) == 3
    assert profile.spent["max"].count == 1
