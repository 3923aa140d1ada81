"""Labels of a stored field: attributes that say whose it is and how to read it, beside those of its content.

They are no part of the content: two trials of one field share it, with the labels of the one that stored it first. The
attribute ``fieldcraft_labels`` names them, so that what is read back is what was stored. Names are those of the CF
conventions (https://cfconventions.org), by which other programs read a field.
"""

from collections.abc import Mapping
from typing import Any

NAMES = "fieldcraft_labels"
CONVENTIONS = {"Conventions": "CF-1.11"}

Attributes = Mapping[str, Any]


def labelled(attrs: Attributes, labels: Attributes) -> dict[str, Any]:
    """Attributes with the labels that they lack."""
    own = {name: value for name, value in labels.items() if name not in attrs}
    return {**attrs, **own, NAMES: " ".join(own)} if own else dict(attrs)


def unlabelled(attrs: Attributes) -> dict[str, Any]:
    """Attributes without labels."""
    names = {NAMES, *str(attrs.get(NAMES, "")).split()} if NAMES in attrs else set()
    return {name: value for name, value in attrs.items() if name not in names}


def labels_of(attrs: Attributes) -> dict[str, Any]:
    """The labels among attributes."""
    return {name: attrs[name] for name in str(attrs.get(NAMES, "")).split() if name in attrs}


def of_variable(name: str) -> dict[str, Any]:
    """Labels of a variable: its name in words."""
    return {"long_name": name.replace("_", " ")}
