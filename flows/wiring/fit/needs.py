"""Capabilities that a word of an algorithm may need of another, with the error where it lacks them."""

from dataclasses import dataclass

from fieldcraft.models.capability import Capability


@dataclass(frozen=True)
class Need:
    """One capability that a word of the algorithm may need of another.

    Args:
        who: Key of ``_required``: the word that may need it.
        what: The capability.
        whose: Key of ``_provided``: the word that must then have it.
        said: Message of the error where it does not, with placeholders of ``_named``.
    """

    who: str
    what: Capability
    whose: str
    said: str


NEEDS = {  # of each topic the first need that is not met is told
    "emulator": (
        Need(
            "surrogate",
            Capability.EMULATOR,
            "problem",
            "algorithm.surrogate: {surrogate!r} needs an emulator of the outputs, and {emulatorless}. Use auto or "
            "exact_gp.",
        ),
        Need(
            "constraints.surrogate",
            Capability.EMULATOR,
            "problem",
            "algorithm.constraints.surrogate: {constraints_surrogate!r} needs an emulator of the outputs, and "
            "{emulatorless}. Use exact_gp.",
        ),
        Need(
            "start.proposer",
            Capability.EMULATOR,
            "problem",
            "algorithm.start.proposer: {proposer!r} begins with the best design by an emulator of the outputs, and "
            "{emulatorless}. Use sobol.",
        ),
    ),
    "earlier": (
        Need(
            "surrogate",
            Capability.EARLIER,
            "problem",
            "algorithm.surrogate: {surrogate!r} begins with the results of an earlier campaign, and no `warm_start` "
            "names one. Name it, or use auto or exact_gp.",
        ),
        Need(
            "constraints.surrogate",
            Capability.EARLIER,
            "problem",
            "algorithm.constraints.surrogate: {constraints_surrogate!r} begins with the results of an earlier "
            "campaign, and no `warm_start` names one. Name it, or use exact_gp.",
        ),
        Need(
            "warm_start",
            Capability.EARLIER,
            "learners",
            "warm_start: {algorithm} learns nothing from an earlier campaign. Use the algorithm auto or the surrogate "
            "warm_gp, or leave warm_start out.",
        ),
    ),
    "levels": (
        Need(
            "surrogate",
            Capability.LEVELS,
            "problem",
            "algorithm.surrogate: {surrogate!r} learns from coarser runs, and no `levels` of the simulator are given. "
            "Give them, or use auto or exact_gp.",
        ),
        Need(
            "constraints.surrogate",
            Capability.LEVELS,
            "problem",
            "algorithm.constraints.surrogate: {constraints_surrogate!r} learns from coarser runs, and no `levels` of "
            "the simulator are given. Give them, or use exact_gp.",
        ),
        Need(
            "levels",
            Capability.LEVELS,
            "learners",
            "levels: {algorithm} learns nothing from coarser runs. Use the algorithm auto or the surrogate "
            "multilevel_gp, or leave levels out.",
        ),
    ),
    "fields": (
        Need(
            "surrogate",
            Capability.FIELDS,
            "problem",
            "algorithm.surrogate: {surrogate!r} learns from the fields of runs, and {fieldless}. Use auto or exact_gp.",
        ),
        Need(
            "constraints.surrogate",
            Capability.FIELDS,
            "problem",
            "algorithm.constraints.surrogate: {constraints_surrogate!r} learns from the fields of runs, and "
            "{fieldless}. Use exact_gp.",
        ),
        Need(
            "peer",
            Capability.FIELDS,
            "results",
            "algorithm.peer: {peer!r} learns from the fields of runs, and {fieldless}. Use another algorithm, such as "
            "botorch_log_ei.",
        ),
    ),
    "groups": (
        Need(
            "acquisition",
            Capability.GROUPED,
            "surrogate",
            "algorithm.acquisition: {acquisition!r} needs a sum of functions of groups of variables, and the surrogate "
            "{surrogate!r} gives none. Use the surrogate grouped_gp, or the acquisition ucb, which takes any.",
        ),
    ),
    "exactness": (
        Need(
            "acquisition",
            Capability.EXACT,
            "surrogate",
            "algorithm.acquisition: {acquisition!r} needs an exact Gaussian process, and the surrogate {surrogate!r} "
            "gives none. Use the surrogate exact_gp, or the acquisition log_ei, which takes any.",
        ),
    ),
    "objectives": (
        Need(
            "problem",
            Capability.SEVERAL,
            "acquisition",
            "algorithm.acquisition: {acquisition!r} weighs one objective, and the problem has several: {objectives}. "
            "Use the algorithm gp_ehvi, or the acquisition log_nehvi, log_ehvi or hypervolume_thompson, which take any "
            "surrogate.",
        ),
        Need(
            "problem",
            Capability.SEVERAL,
            "peer",
            "algorithm.peer: {peer!r} is told of one objective, and the problem has several: {objectives}. Use the "
            "algorithm gp_ehvi.",
        ),
        Need(
            "acquisition",
            Capability.SEVERAL,
            "problem",
            "algorithm.acquisition: {acquisition!r} weighs several objectives, and the problem has one. Use log_ei.",
        ),
    ),
    "bounds": (
        Need(
            "maximizer",
            Capability.EXACT,
            "surrogate",
            "algorithm.maximizer: {maximizer!r} bounds exact Gaussian processes, and the surrogate {surrogate!r} is "
            "none. Use the surrogate exact_gp, or the maximizer multistart, which takes any.",
        ),
        Need(
            "maximizer",
            Capability.OF_MOMENTS,
            "acquisition",
            "algorithm.maximizer: {maximizer!r} bounds functions of mean and standard deviation, and the acquisition "
            "{acquisition!r} is none. Use ucb, log_ei or pi, or the maximizer multistart, which takes any.",
        ),
        Need(
            "maximizer",
            Capability.OPTIMISTIC,
            "acquisition",
            "algorithm.maximizer: {maximizer!r} takes the confidence bound alone, and the acquisition {acquisition!r} "
            "is another. Use ucb, or the maximizer certified, which takes log_ei and pi too.",
        ),
    ),
    "bounds by group": (
        Need(
            "groups",
            Capability.SEPARABLE,
            "acquisition",
            "algorithm.maximizer: {maximizer!r} searches the groups of the surrogate {surrogate!r} one by one, and the "
            "acquisition {acquisition!r} is no sum over them. Use add_ucb, or the surrogate exact_gp, or the maximizer "
            "multistart, which takes any.",
        ),
    ),
    "constraints": (
        Need(
            "maximizer",
            Capability.OF_MOMENTS,
            "problem",
            "algorithm.maximizer: {maximizer!r} keeps to known constraints only, and the problem has the outputs "
            "{outputs}, each of which must come out <= 0. Use the maximizer multistart.",
        ),
        Need(
            "problem",
            Capability.CONSTRAINED,
            "peer",
            "algorithm.peer: {peer!r} is not told of constraints, and the problem has the outputs {outputs}, each of "
            "which must come out <= 0. Use another algorithm, such as cei, neural_cbo, botorch_qlognei or optuna_gp.",
        ),
        Need(
            "constraints.surrogate",
            Capability.EQUATION,
            "constraints",
            "algorithm.constraints.surrogate: {constraints_surrogate!r} needs an equation, and constraints have none. "
            "Use exact_gp.",
        ),
        Need(
            "constraints.rule",
            Capability.INFORMED,
            "learner",
            "algorithm.constraints.rule: beta is gamma, and the surrogate of the constraints does not know its "
            "information gain. Give beta a number, or let tangent_network or exact_gp learn the constraints.",
        ),
        Need(
            "constraints.rule",
            Capability.SCALED,
            "acquisition",
            "algorithm.constraints.rule: {rule!r} multiplies the score, and that of the acquisition {acquisition!r} "
            "may be negative. Use the rule bound, or the acquisition log_ei.",
        ),
    ),
    "proof": (
        Need(
            "stop",
            Capability.PROVES,
            "maximizer",
            "stop.certified_gap: {gap:g} is to be proven by a bound of the acquisition itself, and {proofless}. Use "
            "the maximizer certified, or stop by no_improvement, which needs no proof.",
        ),
    ),
}
