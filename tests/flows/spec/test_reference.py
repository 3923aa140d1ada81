"""The reference of kinds: every option with its default and what it does, as the classes say it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, get_args

import pytest

from fieldcraft.flows.spec.base import Part
from fieldcraft.flows.spec.campaign_file import CampaignSpec
from fieldcraft.flows.spec.reference import KEYS, PARTS, Kind, Option, kind_of, kinds, page, part_of
from fieldcraft.flows.spec.registry import PACKAGES, available

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class _Base:
    """What the others share.

    Args:
        rate: Steps a second.
        depth: Layers; a second line
            goes on.
    """

    rate: float = 0.5
    depth: int = 1


@dataclass(frozen=True)
class _Derived(_Base):
    """A thing with ``code`` in its text.

    A second paragraph.

    Args:
        mode: fast: it hurries. slow: it does not.
        depth: Layers of its own.

    Raises:
        ValueError: mode: is none of them.
    """

    mode: Literal["slow", "fast"] | None = None
    names: tuple[str, ...] = field(default_factory=lambda: ("a",))
    given: int = field(kw_only=True)


def test_an_option_has_its_own_meaning_or_that_of_the_nearest_base():
    assert kind_of("things", "derived", _Derived) == Kind(
        "things",
        "derived",
        ("A thing with ``code`` in its text.", "A second paragraph."),
        (
            Option("rate", "float", "0.5", "Steps a second."),
            Option("depth", "int", "1", "Layers of its own."),
            Option("mode", "'fast' | 'slow' | None", "None", "fast: it hurries. slow: it does not."),
            Option("names", "tuple[str, ...]", "('a',)", ""),
            Option("given", "int", None, ""),
        ),
    )
    assert kind_of("things", "base", _Base).options[1].meaning == "Layers; a second line goes on."


def test_bars_and_stars_do_not_break_the_table():
    told = page([Kind("rules", "derived", ("a * b_c",), (Option("mode", "'a' | 'b'", "'a'", "``x * y`` and a*b"),))])
    assert "## rules (`algorithm.constraints.rule: {kind: ...}`)" in told
    assert "a \\* b\\_c" in told
    assert "| `mode` | `'a' \\| 'b'` | `'a'` | `x * y` and a\\*b |" in told


@pytest.mark.parametrize("group", PACKAGES)
def test_every_option_of_every_kind_says_what_it_does(group):
    found = list(kinds([group]))
    assert [kind.name for kind in found] == sorted(available(group))
    assert all(kind.meaning for kind in found)
    assert not [f"{kind.name}.{option.name}" for kind in found for option in kind.options if len(option.meaning) < 5]
    assert not [f"{kind.name}.{o.name}" for kind in found for o in kind.options if o.meaning.startswith("See ")]


def test_every_key_of_a_campaign_file_says_what_it_does_and_every_part_is_among_them():
    found = [part_of(name) for name in PARTS]
    assert not [f"{part.name}.{each.name}" for part in found for each in part.options if len(each.meaning) < 5]
    assert all(part.group == KEYS and part.meaning and "flows" not in "".join(part.meaning) for part in found)

    def parts(model: type[Part]) -> set[type[Part]]:
        inner = {each for info in model.model_fields.values() for each in classes(info.annotation)}
        return inner | {deeper for each in inner for deeper in parts(each)}

    def classes(annotation: object) -> set[type[Part]]:
        if isinstance(annotation, type) and issubclass(annotation, Part):
            return {annotation}
        return {each for part in get_args(annotation) for each in classes(part)}

    assert {CampaignSpec, *parts(CampaignSpec)} == set(PARTS.values())


def test_a_key_has_its_default_and_takes_what_a_file_has():
    told = {each.name: (each.type, each.default) for each in part_of("campaign").options}
    assert told["name"] == ("text", None) and told["batch"] == ("whole number", "1")
    assert told["space"] == ("{NAME: [number, number]}", "nothing")
    assert told["simulator"] == ("{kind: ...} | nothing", "nothing")
    assert told["warm_start"] == ("list of mapping", "nothing") and told["stop"] == ("mapping", "its defaults")
    assert part_of("start").options[0].default == "{kind: sobol}"
    assert part_of("collocation").options[2].default == "true"


def test_a_type_has_no_bounds_and_a_default_with_options_is_a_mapping():
    @dataclass(frozen=True)
    class Program:
        """A program.

        Args:
            codes: What exit codes mean.
            made: What it is made of.
        """

        codes: Mapping[Annotated[int, "from 1"], str]
        made: _Base = _Base()

    codes, made = kind_of("dispatchers", "program", Program).options
    assert codes.type == "Mapping[int, str]" and made.default == "{rate: 0.5, depth: 1}"


def test_the_page_in_docs_is_what_the_classes_say():
    assert (ROOT / "docs" / "kinds.md").read_text() == page(list(kinds())), (
        "write it afresh: fieldcraft kinds --markdown > docs/kinds.md"
    )
