"""The problem to optimise: its designs, and the numbers of a result that count. The file's name is the kind."""

from dataclasses import dataclass

from fieldcraft import Continuous, Output, Problem, SearchSpace


@dataclass(frozen=True)
class Rod(Problem):
    """A rod of 1 m between walls at 20 and 60 degrees: where, and how strongly, should it be heated?"""

    @property
    def space(self):
        return SearchSpace((Continuous("place", 0.1, 0.9, "m"), Continuous("power", 0.0, 400.0, "W/m")))

    @property
    def outputs(self):
        return (Output("unevenness", "K"),)  # the first is the objective, each further one a constraint, met at <= 0

    def evaluate(self, design, fields):
        inner = fields["temperature"].sel(x=slice(0.2, 0.8))
        return {"unevenness": float(inner.max() - inner.min())}
