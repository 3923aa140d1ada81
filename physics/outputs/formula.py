"""Formulas as text, read by a parser of its own: numbers, names, + - * / ^ and a few functions, and nothing else.

Names are outputs and variables; one that is no identifier stands in backquotes, `tensile strength`. A formula is read
into a tree of named operations, which is evaluated on floats, numpy arrays and torch tensors alike.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Final

import numpy as np

from fieldcraft.physics.operators import Values

_MOST, _DEEPEST = 500, 20  # characters, and brackets within each other
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d]\w*(?:\[\d+\])?)|`(?P<quoted>[^`]+)`"
    r"|(?P<sign>\*\*|[-+*/^(),]))"
)

_PLAIN_NAME = re.compile(r"[^\W\d]\w*(?:\[\d+\])?")


def written(name: str) -> str:
    """A name as a formula has it: in backquotes, if it is more than letters, digits and underscores."""
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name}`"


def larger(one: Values, other: Values) -> Values:
    """The larger of two numbers, arrays or tensors, element by element."""
    return _of_both(one, other, "maximum", "min", np.maximum)


def _smaller(one: Values, other: Values) -> Values:
    return _of_both(one, other, "minimum", "max", np.minimum)


def _of_both(one: Values, other: Values, method: str, bound: str, plain: Callable[[Values, Values], Values]) -> Values:
    """The larger or smaller of two; a torch tensor does it by its own method, against a number by ``clamp``."""
    if not hasattr(one, "clamp"):
        one, other = other, one
    if not hasattr(one, "clamp"):
        return plain(one, other)
    return getattr(one, method)(other) if hasattr(other, "clamp") else one.clamp(**{bound: float(other)})


def _method(name: str, plain: Callable[[Values], Values]) -> Callable[[Values], Values]:
    return lambda x: getattr(x, name)() if hasattr(x, name) else plain(x)


_ONE: Final[Mapping[str, Callable[[Values], Values]]] = {
    "abs": abs,
    "sqrt": _method("sqrt", np.sqrt),
    "exp": _method("exp", np.exp),
    "log": _method("log", np.log),
    "log10": _method("log10", np.log10),
}
_SEVERAL: Final[Mapping[str, Callable[[Values, Values], Values]]] = {"max": larger, "min": _smaller}
FUNCTIONS: Final = (*_ONE, *_SEVERAL)
"""Names of the functions of a formula."""
_SIGNS: Final[Mapping[str, Callable[[Values, Values], Values]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "^": lambda a, b: a**b,
}


@dataclass(frozen=True)
class _Node:
    """An operation on its arguments; ``number`` and ``name`` have a value instead."""

    what: str
    parts: tuple["_Node", ...] = ()
    value: Any = None

    def __call__(self, values: Mapping[str, Values]) -> Values:
        if self.what == "number":
            return self.value
        if self.what == "name":
            return values[self.value]
        found = [part(values) for part in self.parts]
        if self.what == "negative":
            return -found[0]
        if self.what in _ONE:
            return _ONE[self.what](found[0])
        return reduce(_SEVERAL.get(self.what) or _SIGNS[self.what], found)

    def walk(self) -> Iterator["_Node"]:
        yield self
        for part in self.parts:
            yield from part.walk()

    @property
    def factors(self) -> frozenset[str]:
        """Names of which this is a product, up to constant powers."""
        if self.what == "name":
            return frozenset({self.value})
        if self.what == "*" or (self.what == "^" and self.parts[1].what == "number"):
            return frozenset().union(*(part.factors for part in self.parts))
        return frozenset()

    @property
    def divided(self) -> frozenset[str]:
        """Names by which this operation divides, or of which it takes a root or a logarithm."""
        if self.what == "/":
            return self.parts[1].factors
        if self.what in ("sqrt", "log", "log10"):
            return self.parts[0].factors
        if self.what == "^" and self.parts[1].what == "number":
            power = self.parts[1].value
            return self.parts[0].factors if power < 0 or not float(power).is_integer() else frozenset()
        return frozenset()


@dataclass(frozen=True)
class Formula:
    """A formula of outputs and numeric variables.

    Args:
        text: The formula: ``yield / impurity``.

    Raises:
        ValueError: the text is no formula; says where it ends to be one.
    """

    text: str

    def __post_init__(self) -> None:
        assert self._tree  # which refuses what is no formula

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names that it reads, each once, in its order."""
        return tuple(dict.fromkeys(node.value for node in self._tree.walk() if node.what == "name"))

    @cached_property
    def kept_from_zero(self) -> frozenset[str]:
        """Names that it divides by, or takes a root or a logarithm of, by themselves or as factors of a product."""
        return frozenset().union(*(node.divided for node in self._tree.walk()))

    def __call__(self, values: Mapping[str, Values]) -> Values:
        """Value of the formula, for values by name; not finite where it divides by zero or has no real value."""
        with np.errstate(all="ignore"):
            return self._tree({name: _as_values(values[name]) for name in self.names})

    def __str__(self) -> str:
        return self.text

    @cached_property
    def _tree(self) -> _Node:
        tree = _Reader(self.text).whole()
        if all(node.what != "name" for node in tree.walk()):
            raise ValueError(f"The formula {self.text!r} reads no output: name at least one.")
        return tree


def _as_values(value: Values) -> Values:
    """A number as an array, of which a division by zero is no error but infinite."""
    return np.float64(value) if isinstance(value, (int, float)) else value


class _Reader:
    """A formula's text, read from left to right."""

    def __init__(self, text: str) -> None:
        if len(text) > _MOST:
            raise ValueError(f"The formula has {len(text)} characters: at most {_MOST} are read.")
        self.text, self.at, self.depth = text, 0, 0

    def whole(self) -> _Node:
        found = self._sum()
        if self.text[self.at :].strip():
            raise self._fault("an operator")
        return found

    def _sum(self) -> _Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ValueError(f"The formula has over {_DEEPEST} brackets and powers within each other: simplify it.")
        found = self._product()
        while sign := self._sign("+", "-"):
            found = _folded(sign, found, self._product())
        self.depth -= 1
        return found

    def _product(self) -> _Node:
        found = self._signed()
        while sign := self._sign("*", "/"):
            found = _folded(sign, found, self._signed())
        return found

    def _signed(self) -> _Node:
        negative = False
        while sign := self._sign("-", "+"):
            negative ^= sign == "-"
        found = self._power()
        return _folded("negative", found) if negative else found

    def _power(self) -> _Node:
        found = self._atom()
        if self._sign("**", "^"):
            self.depth += 1
            if self.depth > _DEEPEST:
                raise ValueError(f"The formula has over {_DEEPEST} brackets and powers within each other: simplify it.")
            found = _folded("^", found, self._signed())
            self.depth -= 1
        return found

    def _atom(self) -> _Node:
        token = _TOKEN.match(self.text, self.at)
        if token is None or (token["sign"] or "(") != "(":
            raise self._fault("a number, a name or '('")
        self.at = token.end()
        if token["number"]:
            return _number(float(token["number"]))
        if token["sign"]:
            found = self._sum()
            self._must(")")
            return found
        name = token["name"] or token["quoted"]
        if token["name"] and self._sign("("):
            return self._call(name)
        return _Node("name", value=name)

    def _call(self, name: str) -> _Node:
        if name not in FUNCTIONS:
            raise ValueError(f"The formula {self.text!r} has the function {name!r}. Known: {', '.join(FUNCTIONS)}.")
        parts = [self._sum()]
        while self._sign(","):
            parts.append(self._sum())
        self._must(")")
        if name in _ONE and len(parts) > 1:
            raise ValueError(f"The formula {self.text!r} gives {name} {len(parts)} numbers: it takes one.")
        return _folded(name, *parts)

    def _sign(self, *signs: str) -> str | None:
        token = _TOKEN.match(self.text, self.at)
        if token is None or token["sign"] not in signs:
            return None
        self.at = token.end()
        return token["sign"]

    def _must(self, sign: str) -> None:
        if not self._sign(sign):
            raise self._fault(repr(sign))

    def _fault(self, wanted: str) -> ValueError:
        rest = self.text[self.at :].strip()
        place = f"at {rest[:20]!r}" if rest else "at its end"
        return ValueError(
            f"The formula {self.text!r} lacks {wanted} {place}. Write it with numbers, names, + - * / ^, brackets and "
            f"{', '.join(FUNCTIONS)}; a name with blanks stands in `backquotes`."
        )


def _number(value: float) -> _Node:
    if not math.isfinite(value):
        raise ValueError(f"A number of the formula is {value}: give finite ones.")
    return _Node("number", value=value)


def _folded(what: str, *parts: _Node) -> _Node:
    """An operation; its value, if all of its arguments are numbers."""
    node = _Node(what, parts)
    if what == "/" and parts[1].what == "number" and parts[1].value == 0:
        raise ValueError("A formula divides by 0: give another number.")
    if any(part.what != "number" for part in parts):
        return node
    with np.errstate(all="ignore"):
        plain = tuple(_Node("number", value=np.float64(part.value)) for part in parts)
        return _number(float(_Node(what, plain)({})))
