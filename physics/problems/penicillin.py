"""Penicillin from a fed-batch reactor: how much, with how little carbon dioxide, and how soon (Liang and Lai, 2021)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, Design, SearchSpace

Array = NDArray[np.float64]

_HOURS = 2500  # the longest run
_FULL = 180.0  # volume in L at which the reactor is full
_STALLED = 1e-11  # growth of penicillin in g/(L h) at which the run ends
_GAS = 1.9872  # in cal/(mol K)


@dataclass(frozen=True)
class Penicillin(Problem):
    """Maximise the penicillin that a reactor holds at the end; minimise its carbon dioxide and the time it takes.

    Balances of volume, biomass, glucose, penicillin and carbon dioxide after Birol, Uendey and Cinar (2002), in the
    form of Liang and Lai (2021): steps of one hour, until the reactor is full, the glucose is used up, or no more
    penicillin is made.
    """

    @property
    def space(self) -> SearchSpace:
        """Filling, temperature, feed and acidity of the reactor."""
        return SearchSpace(
            (
                Continuous("volume", 60.0, 120.0, "L"),
                Continuous("biomass", 0.05, 18.0, "g/L"),
                Continuous("temperature", 293.0, 303.0, "K"),
                Continuous("glucose", 0.05, 18.0, "g/L"),
                Continuous("feed", 0.01, 0.5, "L/h"),
                Continuous("feed_glucose", 500.0, 700.0, "g/L"),
                Continuous("ph", 5.0, 6.5),
            )
        )

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Penicillin and carbon dioxide in g/L, and the hours, with BoTorch's references."""
        return (
            Output("penicillin", "g/L", "maximize", -25.935),
            Output("carbon_dioxide", "g/L", "minimize", 57.612),
            Output("time", "h", "minimize", 935.5),
        )

    @property
    def most_hypervolume(self) -> float:
        """The hypervolume of a front that NSGA-II found, stated with BoTorch's test function."""
        return 2183455.909507436

    def values(self, points: Array) -> Array:
        """All outputs at the points (n, 7), shape (n, 3)."""
        state = np.zeros((5, len(points)))  # volume, biomass, glucose, penicillin, carbon dioxide
        volume, biomass, temperature, glucose, feed, rich, ph = np.asarray(points, dtype=np.float64).T
        state[:3] = volume, biomass, glucose
        hours, running = np.full(len(points), float(_HOURS)), np.arange(len(points))
        kinetics = _growth_rate(temperature, 10.0**-ph)
        loss = 2.5e-4 * np.expm1(5 * (temperature - 373.0) / (273.0 - 373.0))
        for hour in range(1, _HOURS + 1):
            if not len(running):
                break
            rates = _rates(state[:, running], kinetics[running], loss[running], feed[running], rich[running])
            state[:, running] += rates
            v, _, s = state[:3, running]
            ended = (v > _FULL) | (s < 0) | (rates[3] < _STALLED)
            hours[running[ended]] = hour
            running = running[~ended]
        return np.column_stack([state[3], state[4], hours])

    def function(self, design: Design) -> Mapping[str, float]:
        """The outputs of a design, for the simulator ``function``."""
        found = self.values(np.array([[float(design[name]) for name in self.space.names]]))[0]
        return {output.name: float(value) for output, value in zip(self.outputs, found, strict=True)}


def _growth_rate(temperature: Array, protons: Array) -> Array:
    """Specific growth rate of the biomass in 1/h where glucose abounds, at temperatures in K and mol/L of protons."""
    acid = 0.092 / (1 + 1e-10 / protons + protons / 7e-5)
    return np.asarray(
        acid * (7e3 * np.exp(-5100.0 / (_GAS * temperature)) - 1e33 * np.exp(-5e4 / (_GAS * temperature)))
    )


def _rates(state: Array, growth: Array, loss: Array, feed: Array, rich: Array) -> Array:
    """Change in one hour of the five balances (5, n); ``loss`` is the share of the volume that evaporates."""
    v, x, s, p, _ = state
    swelling = feed - loss * v
    mu = growth * s / (0.15 * x + s)
    making = 0.005 * s / (0.0002 + s + s**2 / 0.10)
    dx = mu * x - x / v * swelling
    ds = -(mu / 0.45) * x - (making / 0.90) * x - 0.014 * x + feed * rich / v - s / v * swelling
    dp = making * x - 0.04 * p - p / v * swelling
    return np.stack([swelling, dx, ds, dp, 0.143 * dx + 4e-7 * x + 1e-4])
