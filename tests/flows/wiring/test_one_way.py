"""A campaign file goes one way, parse, build, check, write out, and each of its components is built once."""

from collections import Counter

import pytest
import yaml

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.wiring.build import rewire
from fieldcraft.flows.wiring.campaign_file import read

COUNTED = """
    def __post_init__(self):
        with open({log!r}, "a") as log:
            log.write({kind!r} + "\\n")
"""
PROBLEM = '''
from dataclasses import dataclass

from fieldcraft import Continuous, Output, Problem, SearchSpace


@dataclass(frozen=True)
class CountedRod(Problem):
    """A rod.

    Args:
        size: Length in m.
    """

    size: float = 1.0
{counted}
    @property
    def space(self):
        return SearchSpace((Continuous("x", 0.0, self.size, "m"),))

    @property
    def outputs(self):
        return (Output("y", "K"),)

    def function(self, design):
        return {{"y": (design["x"] - 0.3) ** 2}}
'''
DERIVED = """
from dataclasses import dataclass

from {module} import {base} as _Base


@dataclass(frozen=True)
class {name}(_Base):
    \"\"\"See the test.\"\"\"
{counted}
"""
NAMED = """
from dataclasses import dataclass


@dataclass(frozen=True)
class CountedWords:
    \"\"\"See the test.\"\"\"
{counted}
    def words(self, dimension, batch):
        return {{
            "start": {{"n": 3}},
            "surrogate": {{"kind": "counted_gp"}},
            "acquisition": {{"kind": "log_ei"}},
            "maximizer": {{"kind": "multistart"}},
        }}
"""
WORDS = {
    "start": {"n": 3},
    "surrogate": {"kind": "counted_gp"},
    "acquisition": {"kind": "log_ei"},
    "maximizer": {"kind": "multistart"},
}
FILE = {
    "name": "counted",
    "seed": 1,
    "sense": "minimize",
    "problem": {"kind": "counted_rod"},
    "simulator": {"kind": "counted_function"},
    "dispatcher": {"kind": "counted_local"},
    "budget": {"trials": 8},
}
DERIVED_KINDS = {
    ("simulators", "counted_function"): ("fieldcraft.physics.simulators.function", "Function"),
    ("surrogates", "counted_gp"): ("fieldcraft.models.surrogates.exact_gp", "ExactGP"),
    ("dispatchers", "counted_local"): ("fieldcraft.flows.dispatchers.local", "Local"),
}


@pytest.fixture
def place(tmp_path):
    """Plug-ins that write down each time that one of them is made."""
    log = str(tmp_path / "made.txt")
    texts = {
        ("problems", "counted_rod"): PROBLEM,
        ("algorithms", "counted_words"): NAMED,
        **{
            key: DERIVED.format(module=module, base=base, name=key[1].title().replace("_", ""), counted="{counted}")
            for key, (module, base) in DERIVED_KINDS.items()
        },
    }
    for (group, kind), text in texts.items():
        file = tmp_path / "mine" / group / f"{kind}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.format(counted=COUNTED.format(log=log, kind=kind)))
    return tmp_path


def settings_of(place):
    return settings_from({"FIELDCRAFT_PLUGINS": str(place / "mine")}, home=place / "home")


def made(place):
    """How often each kind was made since the last look."""
    log = place / "made.txt"
    counts = Counter(log.read_text().split()) if log.exists() else Counter()
    log.unlink(missing_ok=True)
    return counts


def write(place, **keys):
    file = place / "counted.yaml"
    file.write_text(yaml.safe_dump({**FILE, **keys}))
    return file


@pytest.mark.parametrize(
    ("algorithm", "names"), [(WORDS, 0), ({"kind": "counted_words"}, 1)], ids=["in words", "by name"]
)
def test_each_component_of_a_file_is_built_once(place, algorithm, names):
    campaign = read(write(place, algorithm=algorithm), settings_of(place))
    assert campaign.algorithm.n_initial == 3
    once = dict.fromkeys(("counted_rod", "counted_function", "counted_gp", "counted_local"), 1)
    assert made(place) == {**once, **({"counted_words": 1} if names else {})}


def test_a_stored_specification_is_built_once(place):
    data = read(write(place, algorithm=WORDS), settings_of(place)).data
    made(place)
    campaign = rewire(data, settings_of(place))
    assert campaign.data == data
    assert campaign.algorithm is not None
    assert made(place) == dict.fromkeys(("counted_rod", "counted_function", "counted_gp", "counted_local"), 1)


def test_a_wrong_file_is_still_told_whole(place):
    wrong = {**WORDS, "surrogate": {"kind": "counted_gp", "kernl": 1}}
    file = write(place, algorithm=wrong, problem={"kind": "counted_rod", "sise": 2}, seed="one")
    with pytest.raises(InputError, match="seed") as told:
        read(file, settings_of(place))
    assert sorted(fault.split(": ")[2] for fault in told.value.faults) == [
        "algorithm.surrogate.kernl",
        "problem.sise",
        "seed",
    ]
