"""Fields that a problem states without an equation of them: who learns from those that the runs left."""

from typing import TYPE_CHECKING

from fieldcraft.physics.images import Image
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.space import SearchSpace

if TYPE_CHECKING:
    from fieldcraft.flows.wiring.campaign import Campaign

_MODES, _FORESEEN = "where a few modes hold them", "where they foresee results that they have not seen"
_TAUGHT = {"field_ensemble": _FORESEEN, "auto": f"{_MODES}, or {_FORESEEN}"}


def no_fields(problem: Problem, space: SearchSpace, *, network: bool = False) -> str | None:
    """Reason why no surrogate learns from the fields of a problem's runs; None if one may.

    Args:
        problem: The problem.
        space: Its space.
        network: True if a network predicts the fields of its equation.
    """
    if problem.fields is None:
        return "the problem states none (`fields` or `parametric`, with `functional`)"
    if type(problem).functional is Problem.functional:
        return "the problem has no `functional` that reads its outputs from them"
    if problem.parametric is not None and problem.emulator != "equation" and not network:
        return "the problem has an emulator of its own beside its equation"
    if images := [variable.name for variable in space.variables if isinstance(variable, Image)]:
        return f"they teach where each variable has one value, which images have not: {', '.join(images)}"
    if reasons := space.folds.reasons:
        return f"they teach where each encoded point is a design of its own, and {'; '.join(reasons)}"
    return None


def told(campaign: "Campaign") -> str | None:
    """Use of the fields by surrogates that need no equation of them, or the reason why there is none.

    None if the problem states no fields, or an equation of them and nobody learns without it.
    """
    from fieldcraft.models.capability import Capability, required
    from fieldcraft.models.surrogate import TakesEmulator, TakesFields

    problem, words, part = campaign.problem, campaign.algorithm, campaign.spec.algorithm
    if problem.fields is None:
        return None
    learners = {"surrogate": (part.surrogate, words.surrogate)}
    if len(problem.outputs) > 1:
        learners["constraints' surrogate"] = (part.constraints.surrogate, words.constraints.surrogate)
    users, readers = list[str](), list[str]()
    for who, (named, surrogate) in learners.items():
        if named is not None and isinstance(surrogate, TakesFields) and surrogate.uses_fields:
            if Capability.LEVELS in required(surrogate):
                readers.append(f"the {who} {named.kind} may read the outputs of levels from them on the target's mesh")
                continue
            alone = not isinstance(surrogate, TakesEmulator)  # else it learns from them through the equation, if any
            if alone or problem.parametric is None:
                users.append(f"the {who} {named.kind} {'learns' if alone else 'may learn'} from them")
    if problem.parametric is not None and not users and not readers:
        return None
    names = ", ".join(each.name for each in problem.fields.fields)
    equation = "no equation of them" if problem.parametric is None else "an equation of them"
    said = f"problem {campaign.spec.problem.kind!r} states fields ({names}) and {equation}"
    if (reason := no_fields(problem, campaign.space)) is not None:
        return f"{said}, and they are not used: {reason}."
    if part.peer is not None and isinstance(words.peer, TakesFields) and words.peer.uses_fields:
        return f"{said}: the rival {part.peer.kind} learns from them."
    if (users or readers) and campaign.noise_sd:
        return f"{said}, and they are not used: noise is added to the results, and fields have none of it."
    if not users and not readers:
        return f"{said}, and they are not used: {part.in_words} learns from results alone. field_pod and auto use them."
    asked = {named.kind for named, _ in learners.values() if named is not None}
    where = _TAUGHT.get(" ".join(asked), _MODES)
    learnt = [f"{'; '.join(users)}, {where}"] if users else []
    return f"{said}: {'; '.join([*learnt, *readers])}."
