"""fieldcraft: scientific design campaigns that learn with the physics and lose no experiment.

Plug-ins import their names from here: ``from fieldcraft import Problem, Output, SearchSpace, Continuous, Simulator``.
A name is imported when it is first used, so that ``import fieldcraft`` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fieldcraft.flows.jobs.dispatcher import CannotTell as CannotTell
    from fieldcraft.flows.jobs.dispatcher import Dispatcher as Dispatcher
    from fieldcraft.flows.jobs.dispatcher import Failed as Failed
    from fieldcraft.flows.jobs.dispatcher import Finished as Finished
    from fieldcraft.flows.jobs.dispatcher import Job as Job
    from fieldcraft.flows.jobs.dispatcher import Lost as Lost
    from fieldcraft.flows.jobs.dispatcher import NotSent as NotSent
    from fieldcraft.flows.jobs.dispatcher import Place as Place
    from fieldcraft.flows.jobs.dispatcher import Running as Running
    from fieldcraft.flows.notebook.opening import campaign as campaign
    from fieldcraft.models.acquisition import Acquisition as Acquisition
    from fieldcraft.models.capability import Capability as Capability
    from fieldcraft.models.maximizer import Candidates as Candidates
    from fieldcraft.models.maximizer import Maximizer as Maximizer
    from fieldcraft.models.observations import Observations as Observations
    from fieldcraft.models.proposer import Proposer as Proposer
    from fieldcraft.models.rival import Rival as Rival
    from fieldcraft.models.surrogate import Posterior as Posterior
    from fieldcraft.models.surrogate import Surrogate as Surrogate
    from fieldcraft.physics.constraints import LinearConstraint as LinearConstraint
    from fieldcraft.physics.constraints import LinearEquality as LinearEquality
    from fieldcraft.physics.constraints import QuadraticConstraint as QuadraticConstraint
    from fieldcraft.physics.domain import Axis as Axis
    from fieldcraft.physics.domain import Domain as Domain
    from fieldcraft.physics.operators import Equation as Equation
    from fieldcraft.physics.operators import LinearEquation as LinearEquation
    from fieldcraft.physics.operators import LinearSystem as LinearSystem
    from fieldcraft.physics.operators import System as System
    from fieldcraft.physics.outputs.distance import Distance as Distance
    from fieldcraft.physics.outputs.formula import Formula as Formula
    from fieldcraft.physics.parametric.discrete import DiscreteSystem as DiscreteSystem
    from fieldcraft.physics.parametric.discrete import Majorant as Majorant
    from fieldcraft.physics.parametric.edges import Edge as Edge
    from fieldcraft.physics.parametric.nonlinear import Nonlinear as Nonlinear
    from fieldcraft.physics.parametric.statement import Condition as Condition
    from fieldcraft.physics.parametric.statement import Field as Field
    from fieldcraft.physics.parametric.statement import Fields as Fields
    from fieldcraft.physics.parametric.statement import ParametricEquation as ParametricEquation
    from fieldcraft.physics.parametric.statement import UncertainCoefficient as UncertainCoefficient
    from fieldcraft.physics.parametric.statement import no_flux as no_flux
    from fieldcraft.physics.problem import Infeasible as Infeasible
    from fieldcraft.physics.problem import Optimum as Optimum
    from fieldcraft.physics.problem import Output as Output
    from fieldcraft.physics.problem import Problem as Problem
    from fieldcraft.physics.problem import Simulator as Simulator
    from fieldcraft.physics.problem import Transient as Transient
    from fieldcraft.physics.space import Design as Design
    from fieldcraft.physics.space import SearchSpace as SearchSpace
    from fieldcraft.physics.structure.categories import Categorical as Categorical
    from fieldcraft.physics.structure.conditions import OnlyIf as OnlyIf
    from fieldcraft.physics.structure.symmetries import Exchangeable as Exchangeable
    from fieldcraft.physics.structure.vectors import vector as vector
    from fieldcraft.physics.variables import Continuous as Continuous
    from fieldcraft.physics.variables import Integer as Integer

_NAMES = {
    "flows.jobs.dispatcher": (
        "CannotTell",
        "Dispatcher",
        "Failed",
        "Finished",
        "Job",
        "Lost",
        "NotSent",
        "Place",
        "Running",
    ),
    "flows.notebook.opening": ("campaign",),
    "models.acquisition": ("Acquisition",),
    "models.capability": ("Capability",),
    "models.maximizer": ("Candidates", "Maximizer"),
    "models.observations": ("Observations",),
    "models.rival": ("Rival",),
    "models.proposer": ("Proposer",),
    "models.surrogate": ("Posterior", "Surrogate"),
    "physics.constraints": ("LinearConstraint", "LinearEquality", "QuadraticConstraint"),
    "physics.domain": ("Axis", "Domain"),
    "physics.operators": ("Equation", "LinearEquation", "LinearSystem", "System"),
    "physics.outputs.distance": ("Distance",),
    "physics.outputs.formula": ("Formula",),
    "physics.parametric.discrete": ("DiscreteSystem", "Majorant"),
    "physics.parametric.edges": ("Edge",),
    "physics.parametric.nonlinear": ("Nonlinear",),
    "physics.parametric.statement": (
        "Condition",
        "Field",
        "Fields",
        "ParametricEquation",
        "UncertainCoefficient",
        "no_flux",
    ),
    "physics.problem": ("Infeasible", "Optimum", "Output", "Problem", "Simulator", "Transient"),
    "physics.space": ("Design", "SearchSpace"),
    "physics.structure.categories": ("Categorical",),
    "physics.structure.conditions": ("OnlyIf",),
    "physics.structure.symmetries": ("Exchangeable",),
    "physics.structure.vectors": ("vector",),
    "physics.variables": ("Continuous", "Integer"),
}
HOMES = {name: module for module, names in _NAMES.items() for name in names}  # where a public name is defined
__all__ = sorted(HOMES)


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'fieldcraft' has no attribute {name!r}")
    return getattr(import_module(f"fieldcraft.{HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *HOMES})
