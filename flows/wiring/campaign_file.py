"""Campaign files: a file becomes a campaign, or one error reports all of its faults with their lines."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fieldcraft.flows.errors import Faults, InputError
from fieldcraft.flows.files.yaml_data import Page, read_page
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.campaign_file import ConstraintsSpec, Dispatch, parse
from fieldcraft.flows.spec.registry import build
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.campaign import Campaign, dispatcher_of
from fieldcraft.flows.wiring.named_algorithms import GROUPS, named_algorithm_of


def read(file: Path, settings: Settings) -> Campaign:
    """Read the campaign of a file.

    Raises:
        InputError: the file cannot be read, is not plain YAML data, or describes no campaign that could be run.
    """
    return campaign_on(read_page(file), settings)


def campaign_on(page: Page, settings: Settings) -> Campaign:
    """Build the campaign that a page describes: parse, build, check and write it out, each once.

    Raises:
        InputError: it describes no campaign that could be run; reports all of its faults.
    """
    with page.told():
        try:
            return wire(parse(page.data), settings)
        except InputError as error:
            raise InputError(*(_faults(page.data, settings) or error.faults)) from None


def _faults(data: Mapping[str, Any], settings: Settings) -> list[str]:
    """Faults of the keys and of each component alone; a fault of one component hides none of another."""
    faults = Faults()
    with faults.noted():
        parse(data)
    for built in _components(data, settings):
        with faults.elsewhere():
            built()
    return faults.found


def _components(data: Mapping[str, Any], settings: Settings) -> Iterator[Callable[[], object]]:
    """Functions that build each component that has a kind in the file, whatever else is wrong with the file."""
    algorithm = _mapping(data.get("algorithm"))
    of_kind = [("problems", "problem", data.get("problem")), ("simulators", "simulator", data.get("simulator"))]
    for group, where, component in (*of_kind, *_words(algorithm)):
        if isinstance(component, Mapping) and isinstance(component.get("kind"), str):
            made = partial(build, group, component, settings.plugins, where)
            yield partial(_known, made) if "kind" in algorithm and where.startswith("algorithm") else made
    if isinstance(algorithm.get("kind"), str):
        yield partial(named_algorithm_of, algorithm, settings.plugins)
    dispatcher = _mapping(data.get("dispatcher"))
    if isinstance(dispatcher.get("kind", "local"), str):
        own = {name: value for name, value in dispatcher.items() if name == "kind" or name not in Dispatch.model_fields}
        yield partial(dispatcher_of, "campaign", Dispatch.model_validate(own), settings)


def _words(algorithm: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    """Group, place and component of each word of an algorithm."""
    for word, group in GROUPS.items():
        yield group, f"algorithm.{word}", algorithm.get(word)
    constraints = _mapping(algorithm.get("constraints"))
    for word in ConstraintsSpec.model_fields:
        yield f"{word}s", f"algorithm.constraints.{word}", constraints.get(word)
    yield "proposers", "algorithm.start.proposer", _mapping(algorithm.get("start")).get("proposer")


def _known(build: Callable[[], object]) -> None:
    """Build a word that a named algorithm may complete; report only the faults that no named algorithm could mend."""
    try:
        build()
    except InputError as error:
        wrong = [fault for fault in error.faults if ": unknown key " in fault or ": No kind " in fault]
        if wrong:
            raise InputError(*wrong) from None


def _mapping(given: object) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}
