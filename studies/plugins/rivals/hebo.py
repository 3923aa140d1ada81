"""HEBO (Cowen-Rivers et al., 2022), in an environment of its own, driven as a process.

HEBO 0.3.6 asks for numpy below 1.25, which nothing else here can live with:

    python3.11 -m venv hebo && hebo/bin/pip install numpy==1.24.4 scipy==1.10.1 pandas==2.0.3 scikit-learn==1.3.2 \
        GPy==1.13.2 pymoo==0.6.0 catboost==1.2.8 disjoint-set torch==2.13.0 gpytorch==1.14
    hebo/bin/pip install --no-deps HEBO==0.3.6
    export HEBO_PYTHON=$PWD/hebo/bin/python FIELDCRAFT_PLUGINS=$PWD/studies/plugins
    fieldcraft compare studies/hebo.yaml
"""

import json
import os
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fieldcraft.models.capability import Capability
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.rival import minimised, require_box, seed_of
from fieldcraft.models.rivals._coordinates import Coordinate, coordinates, encoded, inside, told
from fieldcraft.physics.space import SearchSpace

_REMEDY = f"HEBO needs an environment of its own: the head of {__file__} has the commands."
# What HEBO's interpreter runs: a line of all results in, a line with designs out. Its own prints go to its errors.
_ASKED = """
import json, os, random, sys, warnings
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
warnings.simplefilter("ignore")
import numpy as np, pandas as pd, torch
from hebo.design_space.design_space import DesignSpace
from hebo.optimizers.hebo import HEBO
torch.set_num_threads(1)
for line in sys.stdin:
    asked = json.loads(line)
    random.seed(asked["seed"]), np.random.seed(asked["seed"]), torch.manual_seed(asked["seed"])
    optimizer = HEBO(DesignSpace().parse(asked["space"]), rand_sample=2, scramble_seed=asked["seed"])
    optimizer.observe(pd.DataFrame(asked["X"]), np.array(asked["y"]).reshape(-1, 1))
    answers.write(optimizer.suggest(asked["q"]).to_json(orient="records", double_precision=15) + "\\n")
    answers.flush()
"""


@dataclass(frozen=True)
class HEBO:
    """HEBO with its defaults: a Gaussian process of warped inputs and transformed results, and MACE.

    The campaign's initial designs replace its own. It is not told of pending designs: where it asks for one, the
    nearest free design takes its place. HEBO_PYTHON, of the environment, is the interpreter that has it.

    Raises:
        ValueError: HEBO_PYTHON names no file.
    """

    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.BOX})

    def __post_init__(self) -> None:
        if not Path(_interpreter()).is_file():
            raise ValueError(f"HEBO_PYTHON names {_interpreter() or 'nothing'}, which is no file. {_REMEDY}")

    def suggest(
        self, data: Observations, pending: Array, space: SearchSpace, q: int, rng: np.random.Generator
    ) -> Array:
        """The next batch, encoded, shape (q, d) (see Rival.suggest).

        Raises:
            ValueError: HEBO's process ended; its last words are told.
        """
        require_box(space, "HEBO")
        known = inside(space, data.X)
        question = {
            "space": [_parameter(one) for one in coordinates(space)],
            "X": told(space, data.X[known]),
            "y": minimised(data)[known].tolist(),
            "q": q,
            "seed": seed_of(rng),
        }
        process = _process(_interpreter())
        try:
            return encoded(space, process.answer(question))
        except BaseException:  # also when interrupted: its answer would be taken for that to the next question
            _process.cache_clear()
            process.close()
            raise


def _interpreter() -> str:
    return os.environ.get("HEBO_PYTHON", "")


class _Process:
    """HEBO's process, which imports for seconds and then serves all campaigns; it ends with this one's input."""

    def __init__(self, python: str) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [python, "-c", _ASKED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )

    def answer(self, question: dict[str, Any]) -> list[dict[str, Any]]:
        """Designs for a question.

        Raises:
            ValueError: the process has ended.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
        if line := self.process.stdout.readline():
            found: list[dict[str, Any]] = json.loads(line)
            return found
        raise ValueError(f"HEBO's process ended with status {self.process.wait()}: {self._last_words()}. {_REMEDY}")

    def _last_words(self) -> str:
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "nothing was said")

    def close(self) -> None:
        """End the process."""
        with self.errors, suppress(BrokenPipeError), self.process:
            self.process.kill()


@cache
def _process(python: str) -> _Process:
    return _Process(python)


def _parameter(one: Coordinate) -> dict[str, Any]:
    if one.kind == "choice":
        return {"name": one.name, "type": "cat", "categories": list(one.levels)}
    if one.kind == "whole":
        return {"name": one.name, "type": "pow_int" if one.log else "int", "lb": int(one.low), "ub": int(one.high)}
    return {"name": one.name, "type": "num", "lb": one.low, "ub": one.high}
