"""The benchmark of the certified maximizer: its instances, its rivals' own function, its rows and its aims."""

import importlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def searches():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("searches")


@pytest.fixture(scope="module")
def benchmark(searches):
    return importlib.import_module("certified")


@pytest.fixture(scope="module")
def measured(benchmark):
    """Every method on two instances of ten results in one coordinate, and SCIP on one of four."""
    plan = benchmark.Plan({1: (10,)}, 2, {1: (4,)}, 1, 20.0)
    return list(benchmark.rows(plan, plan.lines))


def test_an_instance_has_the_hyper_parameters_that_it_says_and_its_readings_are_standardised_and_met(searches):
    drawn = searches.Drawn.of(3, 20, 5)
    p = drawn.posterior
    torch.testing.assert_close(p.length_scales, torch.full((3,), 0.4 * 3**0.5, dtype=torch.float64))
    assert (p.noise_variance, p.constant, p.fit.kernel) == (pytest.approx(1e-6), 0.0, "matern32")
    assert (float(p.fit.targets.mean()), float(p.fit.targets.std())) == (pytest.approx(0), pytest.approx(1))
    cells = np.sort(np.floor((p.fit.X.numpy() + 1) * 10), axis=0)
    assert np.array_equal(cells, np.tile(np.arange(20.0)[:, None], 3))
    np.testing.assert_allclose(p.mean_var(p.fit.X)[0], p.fit.targets, atol=1e-2)
    again, other = searches.Drawn.of(3, 20, 5).posterior.fit, searches.Drawn.of(3, 20, 6).posterior.fit
    assert torch.equal(again.targets, p.fit.targets) and not torch.equal(other.targets, p.fit.targets)


def test_the_rivals_search_the_same_function_and_its_gradient_is_a_finite_difference(searches):
    drawn = searches.Drawn.of(4, 30, 0)
    X, step = np.random.default_rng(1).uniform(-1, 1, (50, 4)), 1e-6
    with torch.no_grad():
        score = drawn.score.value(torch.tensor(X), 0, torch.empty(0, 4)).numpy()
    np.testing.assert_allclose(drawn.bound.values(X), score, atol=1e-7)
    for x in X[:5]:
        value, gradient = drawn.bound.loss(x)
        assert value == pytest.approx(-drawn.bound.values(x[None])[0], abs=1e-12)
        numeric = [(drawn.bound.loss(x + h)[0] - drawn.bound.loss(x - h)[0]) / (2 * step) for h in step * np.eye(4)]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)


def test_the_fixed_starts_begin_in_the_lowest_corner(searches):
    starts = searches.corner_and_sobol(2, 5)
    assert starts.tolist()[:2] == [[-1.0, -1.0], [0.0, 0.0]] and len(np.unique(starts, axis=0)) == 5


def test_no_rival_exceeds_the_bound_and_every_method_has_its_row(searches, benchmark, measured):
    names = [benchmark.OURS, *searches.RIVALS, benchmark.OURS, benchmark.SCIP, benchmark.SCIP_Q]
    assert [row.method for row in measured] == names
    grid = np.linspace(-1, 1, 2001)[:, None]
    for row in measured:
        assert len(row.outcomes) == (2 if row.line == "1" else 1) and row.cpu_s > 0 and min(row.short) >= 0
        best = [searches.Drawn.of(row.d, row.n, seed).bound.values(grid).max() for seed in range(len(row.best))]
        np.testing.assert_allclose(row.best, best, atol=1e-2)
    ours = measured[0]
    assert (ours.closed, ours.misses, ours.beaten) == (2, 0, 0) and max(ours.gaps) <= 0.01


def test_a_value_above_the_bound_and_a_miss_are_counted(benchmark, measured):
    ours = measured[0]
    raised = replace(ours, best=tuple(best + 0.011 for best in ours.best))
    assert (raised.beaten, raised.misses) == (2, 2)
    assert replace(ours, best=tuple(best + 0.0009 for best in ours.best)).misses == 0


def test_aims_are_judged_by_the_rows_there_are(benchmark, measured):
    ours = measured[0]
    slow = replace(ours, n=40, outcomes=tuple(replace(o, cpu_s=0.06) for o in ours.outcomes))
    quick = replace(slow, d=2, line="2", outcomes=tuple(replace(o, cpu_s=0.04) for o in ours.outcomes))
    beaten = replace(ours, best=tuple(best + 1 for best in ours.best))
    assert [aim.met for aim in benchmark.aims([slow, quick])] == [False, True, True]
    assert [aim.met for aim in benchmark.aims([quick, beaten])] == [True, False]
    open_ = replace(quick, outcomes=tuple(replace(o, status="node_limit") for o in quick.outcomes))
    assert not benchmark.aims([open_])[0].met
    scip = [replace(row, n=10) for row in measured if row.line == "scip"]
    ratios = [aim.figure for aim in benchmark.aims(scip) if aim.aim == 300]
    assert ratios == [pytest.approx(row.cpu_s / scip[0].cpu_s) for row in scip[1:]]


def test_rows_that_are_written_come_back_and_those_of_lines_not_run_are_kept(benchmark, measured):
    written = json.loads(json.dumps(benchmark.kept(measured, [], ("1", "scip"))))
    for row, before in zip(map(benchmark.restored, written), measured, strict=True):
        assert replace(row, outcomes=before.outcomes, best=before.best) == before
        assert [o.status for o in row.outcomes] == [o.status for o in before.outcomes]
        assert row.gaps == pytest.approx(before.gaps, abs=1e-6) and row.short == pytest.approx(before.short, abs=1e-6)
        assert (row.cpu_s, row.misses) == (pytest.approx(before.cpu_s, abs=1e-6), before.misses)
    again = benchmark.kept(measured[:1], written, ("1",))
    assert [row["line"] for row in again] == ["scip"] * 3 + ["1"]
