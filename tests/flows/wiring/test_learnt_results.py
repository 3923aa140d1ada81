"""A model names the results that it saw by a count, the last of them and a digest; they are found again later."""

import numpy as np
import pytest

from fieldcraft.flows.analysis.learnt import learnt_by, standing
from fieldcraft.flows.products import Seen, Trained
from fieldcraft.flows.wiring.observations import as_read, saw_all
from fieldcraft.storage.records import Product, Result, ResultSummary, TrialSummary


def result(number: int, trial: str, verdict: str) -> Result:
    return Result(
        id=number,
        trial=trial,
        attempt=1,
        outputs={} if verdict == "retraction" else {"y": float(number)},
        field=None,
        ran=None,
        digest="0" * 64,
        verdict=verdict,
        replaces=None,
        by="ana",
        source="person",
        details={},
        created=0.0,
    )


def model(seen: Seen) -> Trained:
    return Trained(surrogate=None, seen=seen, metrics={}, environment={}, seconds=1.0)


@pytest.mark.parametrize("seed", range(20))
def test_what_a_model_saw_is_found_again_after_corrections_retractions_and_late_results(seed):
    rng = np.random.default_rng(seed)
    verdicts = ("accepted", "accepted", "retraction", "superseded")
    numbers = np.cumsum(rng.integers(1, 4, size=60))  # those of other campaigns lie between them
    history = [result(int(n), f"b-{rng.integers(8)}", str(rng.choice(verdicts))) for n in numbers]
    for length in range(len(history) + 1):
        then = {trial: r for trial, r in standing(history[:length]).items() if r.verdict != "retraction"}
        until = max((r.id for r in history[:length]), default=0)
        made = model(Seen.of([r.id for r in then.values()], until))
        assert learnt_by(made, history) == then
        product = Product(campaign="b", iteration=1, step="train", payload=made.payload(), reference=None, created=0.0)
        now = [r.id for r in standing(history).values() if r.verdict != "retraction"]
        assert saw_all(product, (), history) == (sorted(now) == sorted(r.id for r in then.values()))


def test_a_model_learns_the_outputs_the_design_and_the_field_of_the_result_that_it_saw():
    now = TrialSummary._make([None] * len(TrialSummary._fields))._replace(id="b-1", outputs={"y": 2.0}, field="b" * 64)
    gone = now._replace(id="b-2")
    seen = ResultSummary(1, "b-1", {"y": 1.0}, {"x": 0.5}, "accepted", "a" * 64)
    (found,) = as_read([now, gone], {"b-1": seen, "b-2": seen._replace(id=2, trial="b-2", verdict="retraction")})
    assert found == now._replace(outputs={"y": 1.0}, ran={"x": 0.5}, field="a" * 64)
