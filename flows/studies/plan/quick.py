"""A study cut to what shows that each of its campaigns runs."""

from fieldcraft.flows.studies.plan.spec import StudyProblem, StudySpec

_START, _ROUNDS = 4, 2


def quick(study: StudySpec) -> StudySpec:
    """The study with one seed, at most 4 designs to begin with and two iterations after them, without a limit.

    It is called NAME-quick, so that it has a folder of its own.
    """
    return study.model_copy(
        update={
            "name": f"{study.name[:54]}-quick",
            "experiment": None,
            "seeds": 1,
            "limit": None,
            "problems": tuple(map(_cut, study.problems)),
        }
    )


def _cut(problem: StudyProblem) -> StudyProblem:
    n = min(problem.start.n, _START)
    trials = min(n + _ROUNDS * problem.batch, problem.budget.trials)
    return problem.model_copy(
        update={
            "seeds": None,
            "start": problem.start.model_copy(update={"n": n}),
            "budget": problem.budget.model_copy(update={"trials": trials}),
        }
    )
