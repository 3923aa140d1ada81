"""Docstrings say the thing: each begins with a noun, a verb, a name or a formula, never with a question word."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ASKING = {
    *("What", "Whether", "How", "Where", "Who", "Whom", "Whose", "Why", "Which", "When", "That", "If"),
    *("Of", "With", "From", "For", "At", "By", "As", "Let", "Until"),
}


def opening(text: str) -> Iterator[tuple[int, str]]:
    """Line and first word of each docstring of a module that begins with none of the above."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            words = (ast.get_docstring(node) or "").split()
            if words and words[0].rstrip(",:;") in ASKING:
                yield getattr(node, "lineno", 1), words[0]


@pytest.mark.parametrize("folder", ["fieldcraft/__init__.py", "flows", "models", "physics", "storage", "starter"])
def test_a_docstring_begins_with_a_noun_or_a_verb(folder):
    place = ROOT / folder
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    assert files
    found = [f"{file}:{line}: {word}" for file in files for line, word in opening(file.read_text())]
    assert not found, "say what it is or does: " + "; ".join(found)


@pytest.mark.parametrize("word", sorted(ASKING))
def test_the_rule_can_fail(word):
    text = f'"""Module."""\n\n\nclass A:\n    """{word} a thing is."""\n\n    def b(self):\n        """Return it."""\n'
    assert list(opening(text)) == [(4, word)]
