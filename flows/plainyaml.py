"""YAML as plain data: what a person writes for us to read, and nothing that could do anything."""

from pathlib import Path
from typing import Any

import yaml

from flows.errors import InputError

MAX_BYTES = 1_000_000
_MOST_BITS = 1024  # of a whole number: beyond, it is no float any more, and cannot even be printed


class _PlainLoader(yaml.SafeLoader):
    """YAML as data: no tags, no anchors, no key given twice, no text or number that cannot be written."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        place = f"line {event.start_mark.line + 1}"
        if getattr(event, "tag", None) is not None:
            raise InputError(f"{place} carries the tag {event.tag!r}: the file is plain data. Remove the tag.")
        if getattr(event, "anchor", None) is not None:
            raise InputError(f"{place} uses the anchor {event.anchor!r}. Write the value out.")
        if any("\ud800" <= letter <= "\udfff" for letter in getattr(event, "value", None) or ""):
            raise InputError(f"{place} holds half of a letter ({event.value!r:.40}). Write the letter itself.")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        known = set[str]()
        for key in (self.construct_object(key) for key, _ in node.value):
            if not isinstance(key, str):
                raise InputError(f"line {node.start_mark.line + 1}: key {key!r} is not text. Quote it.")
            if key in known:
                raise InputError(f"line {node.start_mark.line + 1}: key {key!r} is given twice. Remove one.")
            known.add(key)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: Any) -> int:
        value: int = super().construct_yaml_int(node)
        if value.bit_length() > _MOST_BITS:
            raise InputError(
                f"line {node.start_mark.line + 1} holds a number with too many digits. Give a smaller one."
            )
        return value


_PlainLoader.add_constructor("tag:yaml.org,2002:int", _PlainLoader.construct_yaml_int)


def load_yaml(path: Path, what: str = "campaign file", example: str = "campaigns/heat.yaml") -> dict[str, Any]:
    """A YAML file that holds one mapping of plain data.

    Args:
        path: Where it lies.
        what: What it should be, for errors.
        example: Such a file, for errors.

    Raises:
        InputError: it cannot be read, is too large, is no YAML, carries a tag, an anchor or a key twice, or is no
            mapping.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        text = raw.decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}). Check the path and your rights to it.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text. Give a YAML file.") from None
    if len(raw) > MAX_BYTES:
        raise InputError(f"{path}: is over {MAX_BYTES} bytes, too large for a {what}. Check the path.")
    try:
        data = yaml.load(text, Loader=_PlainLoader)  # noqa: S506 (a SafeLoader, made stricter)
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the others: a date or a number that cannot be
        raise InputError(f"{path}: is not YAML: {' '.join(str(error).split())}. Mend that place.") from None
    except RecursionError:
        raise InputError(f"{path}: is not YAML: it is nested too deeply. Give a {what}.") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if not isinstance(data, dict):
        raise InputError(f"{path}: holds a {type(data).__name__}, not a mapping. Begin from {example}.")
    return data
