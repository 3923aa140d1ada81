"""Optuna: all trials are passed to it, and it is asked for the next ones; shared by both samplers."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.rival import all_minimised
from fieldcraft.models.rivals._coordinates import Coordinate, Value, coordinates, encoded, inside, told
from fieldcraft.physics.space import SearchSpace


def ask(sampler: optuna.samplers.BaseSampler, data: Observations, pending: Array, space: SearchSpace, q: int) -> Array:
    """The sampler's next q designs, encoded, shape (q, d), after a study of all trials; pending ones are running.

    Optuna's constraints have the same sign as ours: feasible where <= 0.
    """
    with _quiet():
        study, distributions, results = _begun(sampler, data, space)
        for point, value, readings in results:
            study.add_trial(
                optuna.create_trial(params=point, distributions=distributions, values=value, constraints=readings)
            )
        for point in told(space, pending[inside(space, pending)]):
            running = optuna.create_trial(state=TrialState.RUNNING, params=point, distributions=distributions)
            study.add_trial(running)
        return encoded(space, [study.ask(distributions).params for _ in range(q)])


def bred(sampler: optuna.samplers.NSGAIISampler, data: Observations, space: SearchSpace, q: int) -> Array:
    """The next q designs, encoded, shape (q, d), of a sampler that counts generations: all trials pass through it."""
    with _quiet():
        study, distributions, results = _begun(sampler, data, space)
        for point, value, readings in results:
            study.enqueue_trial(point)
            trial = study.ask(distributions)
            sampler.get_trial_generation(study, study.get_trials(deepcopy=False)[-1])  # counts it
            for name, reading in readings.items():
                trial.set_constraint(name, reading)
            study.tell(trial, value)
        return encoded(space, [study.ask(distributions).params for _ in range(q)])


def _begun(
    sampler: optuna.samplers.BaseSampler, data: Observations, space: SearchSpace
) -> tuple[optuna.Study, dict[str, BaseDistribution], list[tuple[dict[str, Value], list[float], dict[str, float]]]]:
    """An empty study, the distributions of its parameters, and the parameters, values and constraints of each trial."""
    values, known = all_minimised(data), inside(space, data.X)
    study = optuna.create_study(directions=["minimize"] * values.shape[1], sampler=sampler)
    readings = [{f"c{k:04d}": float(c) for k, c in enumerate(row, start=1)} for row in data.constraints[known]]
    results = list(zip(told(space, data.X[known]), values[known].tolist(), readings, strict=True))
    return study, {one.name: _distribution(one) for one in coordinates(space)}, results


def _distribution(one: Coordinate) -> BaseDistribution:
    if one.kind == "choice":
        return CategoricalDistribution(one.levels)
    if one.kind == "whole":
        return IntDistribution(int(one.low), int(one.high), log=one.log)
    return FloatDistribution(one.low, one.high)


@contextmanager
def _quiet() -> Iterator[None]:
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)
