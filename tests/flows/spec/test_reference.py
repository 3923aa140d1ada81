"""The reference of kinds: every option with its default and what it does, as the classes say it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from fieldcraft.flows.spec.reference import Kind, Option, kind_of, kinds, page
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


def test_the_page_in_docs_is_what_the_classes_say():
    assert (ROOT / "docs" / "kinds.md").read_text() == page(list(kinds())), (
        "write it afresh: fieldcraft kinds --markdown > docs/kinds.md"
    )
