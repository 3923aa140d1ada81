"""Text templates: ``{x}`` is a place for a value, ``{{`` and ``}}`` are braces. Nothing in a template is evaluated."""

import re
from collections.abc import Mapping

from fieldcraft.flows.spec.registry import suggestion
from fieldcraft.physics.space import Design

_PART = re.compile(r"\{\{|\}\}|\{(?P<name>[^{}]*)\}|[{}]")


def filled(template: str, values: Mapping[str, str]) -> str:
    """The text with every value in its place; values are not parsed as templates.

    Raises:
        ValueError: a brace that stands alone, or a place for which there is no value.
    """

    def put(part: "re.Match[str]") -> str:
        if part[0] in ("{{", "}}"):
            return part[0][0]
        name = part["name"]
        if name is None:
            raise ValueError(f"{template!r} has a single {part[0]!r}: write {part[0] * 2!r} for a brace that is meant")
        if name not in values:
            hint = suggestion(name, values) or f" Known: {', '.join(values)}"
            raise ValueError(f"{template!r} has a place {{{name}}}, for which there is no value.{hint}")
        return values[name]

    return _PART.sub(put, template)


def argument(template: str, values: Mapping[str, str], texts: frozenset[str]) -> str:
    """One argument of a program; a value cannot split it or turn it into an option.

    Args:
        template: The argument.
        values: Values by the names of their places.
        texts: Names of the values that are text; numbers may be negative.

    Raises:
        ValueError: as ``filled``; a null byte, or a text at its beginning that begins with a hyphen.
    """
    text, first = filled(template, values), _PART.match(template)
    if "\0" in text:
        raise ValueError(f"{template!r} holds a null byte, which ends an argument: take it out")
    if first is not None and first["name"] in texts and text.startswith("-"):
        raise ValueError(
            f"{template!r} would become {text!r}, which a program reads as an option: write the option before the "
            f"value, as in '--{first['name']}={template}'"
        )
    return text


def written(design: Design) -> dict[str, str]:
    """The values of a design as text; a number reads back to the same bits.

    Raises:
        ValueError: a text holds a control character, which could begin another line or end an argument.
    """
    for name, value in design.items():
        if isinstance(value, str) and not value.isprintable():
            raise ValueError(f"{name} is {value!r}, which holds a control character: rename that level")
    return {name: value if isinstance(value, str) else repr(value) for name, value in design.items()}
