"""A campaign file becomes a campaign, or every fault of it is told at once, with its line."""

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
    """The campaign of a file.

    Raises:
        InputError: the file cannot be read, is not plain YAML data, or describes no campaign that could be run.
    """
    return campaign_on(read_page(file), settings)


def campaign_on(page: Page, settings: Settings) -> Campaign:
    """The campaign that a page describes: parsed, built, checked and written out, each once.

    Raises:
        InputError: it describes none that could be run; tells all that is wrong.
    """
    with page.told():
        try:
            return wire(parse(page.data), settings)
        except InputError as error:
            raise InputError(*(_faults(page.data, settings) or error.faults)) from None


def _faults(data: Mapping[str, Any], settings: Settings) -> list[str]:
    """Faults of the keys and of each component alone; a component is looked at whatever is wrong with another."""
    faults = Faults()
    with faults.noted():
        parse(data)
    for built in _components(data, settings):
        with faults.elsewhere():
            built()
    return faults.found


def _components(data: Mapping[str, Any], settings: Settings) -> Iterator[Callable[[], object]]:
    """What builds each component that the file has in full, whatever else is wrong with it."""
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
    """Build a word that a named algorithm may complete: only what no name could change is a fault of it."""
    try:
        build()
    except InputError as error:
        wrong = [fault for fault in error.faults if ": unknown key " in fault or ": No kind " in fault]
        if wrong:
            raise InputError(*wrong) from None


def _mapping(given: object) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}
