"""A rod whose equation is stated with the wrong coefficients, and the simulator of the rod as it is."""

ROD = '''
"""A rod that loses heat: where to heat it, and how much, so that it is warm but nowhere hot."""

from dataclasses import dataclass

import numpy as np

from fieldcraft import Axis, Condition, Continuous, Domain, Field, LinearEquation, Output, ParametricEquation, Problem
from fieldcraft import SearchSpace, UncertainCoefficient


@dataclass(frozen=True)
class Rod(Problem):
    @property
    def space(self):
        return SearchSpace((Continuous("place", 0.1, 0.9, "m"), Continuous("power", 1.0, 9.0, "W")))

    @property
    def outputs(self):
        return (Output("fault", "K"),)

    @property
    def parametric(self):
        return ParametricEquation(
            domain=Domain((Axis("s", 0.0, 1.0, "m"),)),
            fields=(Field("rise", "K"),),
            equation=self.equation_of,
            conditions=(Condition("rise", "s", "low"), Condition("rise", "s", "high", value=0.0, slope=1.0)),
            cells=(40,),
            coefficients=(
                UncertainCoefficient("loss", 0.5, 50.0, "W/K", value=10.0),
                UncertainCoefficient("conductance", 0.1, 10.0, "W m/K", value=1.0),
            ),
        )

    def equation_of(self, design):
        def heat(points):
            return design["power"] * np.exp(-(((points[:, 0] - design["place"]) / 0.1) ** 2))

        return LinearEquation(design["loss"], (0.0,), ((-design["conductance"],),), heat)

    def functional(self, fields, axes, designs):
        rise = fields["rise"]
        return 0.1 * rise.max(axis=1, keepdims=True) + abs(rise.mean(axis=1, keepdims=True) - 0.3)
'''
REALITY = '''
"""The rod as it is: it loses less heat than was thought, and conducts it better."""

from dataclasses import dataclass, replace

from fieldcraft import Simulator
from fieldcraft.physics.simulators.stated_equation import StatedEquation


@dataclass(frozen=True)
class Reality(Simulator):
    loss: float = 2.0
    conductance: float = 1.5

    idempotent = True

    def run(self, problem, design, rng):
        known = {"loss": self.loss, "conductance": self.conductance}

        class Real(type(problem)):
            @property
            def parametric(self):
                stated = super().parametric
                values = [known.get(each.name, each.value) for each in stated.coefficients]
                return stated.calibrated(values)

        return StatedEquation(100).run(Real(), design, rng)
'''


def written(tmp_path, monkeypatch, rod):
    """A plug-in directory with a problem and its simulator."""
    folder = tmp_path / "plugins"
    for name, program in {"problems/rod.py": rod, "simulators/reality.py": REALITY}.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(program)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(folder))
    return folder
