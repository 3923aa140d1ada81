"""Expansion of a named algorithm (``algorithm: {kind: sto_bnts}``) into its words; words given in the file win."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.spec.campaign_file import AlgorithmSpec, CampaignSpec, NamedSpec, stored
from fieldcraft.flows.spec.contracts import asked
from fieldcraft.flows.spec.registry import available, build, made_of, options_of
from fieldcraft.models.named_algorithm import NamedAlgorithm, rival

WORDS = tuple(name for name in AlgorithmSpec.model_fields if name != "named")
GROUPS = {"surrogate": "surrogates", "acquisition": "acquisitions", "maximizer": "maximizers", "peer": "rivals"}
"""The group of the kinds of each word of ``MODEL``."""
MODEL = tuple(GROUPS)
"""The words that say how designs are chosen after the start."""
TRUE = (*MODEL, "constraints")
"""Words that a named algorithm stands for, beside start and collocation points."""


def expanded(spec: NamedSpec, dimension: int, plugins: Sequence[Path] = ()) -> CampaignSpec:
    """Expand the named algorithm of a specification into its words, and keep its name as ``named``.

    ``named`` holds the name with its options, and the surrogate, acquisition, maximizer, rival or constraints that the
    file gives. It holds no start and no collocation points.

    A word that the file gives is merged option by option into the word of the named algorithm. A word of another kind
    replaces it whole. Where the file does not give the number of start designs, it is at most half of the budget.

    Args:
        spec: The specification as it was read.
        dimension: Encoded coordinates of its search space.
        plugins: The operator's plug-in directories.

    Raises:
        InputError: no such named algorithm, an unknown key, or words that make no algorithm.
    """
    kind, given = spec.algorithm.kind, spec.algorithm.model_dump(exclude={"kind"})
    words = {name: value for name, value in given.items() if name in WORDS}
    named = named_algorithm_of(spec.algorithm.model_dump(), plugins)
    said = _said(kind, named, dimension, spec)
    data = spec.model_dump(mode="json", exclude={"algorithm"})
    own = {name: value for name, value in words.items() if name in TRUE}
    data["algorithm"] = {"named": {**options_of(kind, named), **own}, **_merged(said, words)}
    return stored(data, f"campaign {spec.name}: algorithm {kind!r}")


def _said(kind: str, named: NamedAlgorithm, dimension: int, spec: NamedSpec) -> dict[str, Any]:
    """Words of the named algorithm; its start is at most half of the budget, and ``acquisition.start`` equals it."""
    with asked(type(named), "give its words"):
        said = copy.deepcopy(named.words(dimension, spec.batch))  # it may give the same data each time
    start = said.get("start") if isinstance(said, dict) else None
    if not isinstance(start, dict) or type(start.get("n")) is not int:
        raise InputError(f"algorithm: {kind!r} has the start {start!r}: its words must have 'start: {{n: NUMBER}}'.")
    start["n"] = max(1, min(start["n"], spec.budget.trials // 2))
    if isinstance(acquisition := said.get("acquisition"), dict) and "start" in acquisition:
        given = spec.algorithm.model_dump().get("start")
        acquisition["start"] = given.get("n", start["n"]) if isinstance(given, Mapping) else start["n"]
    return said


def named_algorithm_of(algorithm: Mapping[str, Any], plugins: Sequence[Path] = ()) -> NamedAlgorithm:
    """Build the named algorithm of an ``algorithm`` section with a kind; a rival has its own name too.

    Words that are given beside the kind are left out.

    Raises:
        InputError: no such named algorithm, an unknown key, or an option that it refuses.
    """
    options = {name: value for name, value in algorithm.items() if name not in WORDS}
    rivals = available("rivals", plugins).keys() - available("algorithms", plugins).keys()
    made: NamedAlgorithm
    if (kind := options.get("kind")) in rivals:
        made = made_of(rival(kind), options, "algorithm", {}, WORDS)
    else:
        made = build("algorithms", options, plugins, "algorithm", beside=WORDS, also=rivals)
    return made


def _merged(said: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge given words into those of the named algorithm; a given rival replaces the three words, and they a rival."""
    rivals = {"peer"} if given.keys() & {"surrogate", "acquisition", "maximizer"} else set()
    rivals |= {"surrogate", "acquisition", "maximizer"} if "peer" in given else set()
    merged = {name: value for name, value in said.items() if name not in rivals}
    for name, value in given.items():
        merged[name] = _one_merged(merged.get(name), value)
    return merged


def _one_merged(said: Any, given: Any) -> Any:
    if not (isinstance(said, Mapping) and isinstance(given, Mapping)):
        return given
    if "kind" in given and given["kind"] != said.get("kind"):
        return given
    return {**said, **{name: _one_merged(said.get(name), value) for name, value in given.items()}}
