"""Commands for beginners: ready campaigns and studies, the kinds that a file can name, a folder to start from."""

import argparse
import dataclasses
import itertools
import re
import shlex
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fieldcraft.flows.commands.shared import Add, show
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.text import quoted, suggestion

if TYPE_CHECKING:
    from fieldcraft.flows.spec.reference import Kind

_PACKAGE = Path(__file__).parents[2]
_NEXT = """\
cd {folder}
export FIELDCRAFT_PLUGINS=$PWD/mine   # where your kinds are: a campaign file cannot say it
fieldcraft check rod.yaml
fieldcraft run rod.yaml"""

TITLE = "To begin"


def add(command: Add) -> None:
    """Register the commands."""
    init = command(
        "init",
        _init,
        "make a folder with a campaign, a problem, a simulator and a test of them",
        example="fieldcraft init rod",
    )
    init.add_argument("folder", type=Path, metavar="DIR")
    examples = command(
        "examples",
        _examples,
        "list the ready campaigns and studies, or print one",
        example="fieldcraft examples campaigns/heat.yaml",
    )
    examples.add_argument("name", nargs="?", metavar="NAME", help="such as campaigns/heat.yaml")
    kinds = command(
        "kinds",
        _kinds,
        "list the keys of a campaign file and what it can name, or the options of one",
        example="fieldcraft kinds exact_gp",
    )
    kinds.add_argument("kind", nargs="?", metavar="KIND", help="such as exact_gp; or a key, such as budget")
    kinds.add_argument("--markdown", action="store_true", help="write all of them as one page")
    told = "source <(fieldcraft completion bash)"
    completion = command("completion", _completion, "print what makes a shell complete commands", example=told)
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"))


def _completion(options: argparse.Namespace, settings: Settings) -> int:
    import shtab

    commands = next(action for action in options.whole._actions if isinstance(action.choices, dict))
    for parser in commands.choices.values():
        for action in parser._actions:
            if action.type is Path:
                action.complete = shtab.FILE
    script = shtab.complete(options.whole, options.shell)
    show(options.json, {"shell": options.shell, "script": script}, script.rstrip)
    return 0


def _examples(options: argparse.Namespace, settings: Settings) -> int:
    folders = ("campaigns", "studies")
    known = {f"{folder}/{file.name}": file for folder in folders for file in sorted((_PACKAGE / folder).glob("*.yaml"))}
    if options.name is None:
        data = {name: _first_sentence(file) for name, file in known.items()}
        width = max(map(len, data))
        show(options.json, data, lambda: "\n".join(f"{name:{width}}  {text}" for name, text in data.items()))
        return 0
    if options.name not in known:
        raise InputError(
            f"No example {quoted(options.name)}.{suggestion(options.name, known)} 'fieldcraft examples' lists them."
        )
    text = known[options.name].read_text()
    show(options.json, {"name": options.name, "text": text}, text.rstrip)
    return 0


def _kinds(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.spec.reference import KEYS, PARTS, kind_of, kinds, page, part_of
    from fieldcraft.flows.spec.registry import PACKAGES, available, load

    known = {group: available(group, settings.plugins) for group in PACKAGES}
    if options.markdown and options.kind is not None:
        raise InputError(f"{quoted(options.kind)} and --markdown are both given: the page holds every kind. Give one.")
    if options.markdown:
        found = list(kinds(plugins=settings.plugins))
        show(options.json, [dataclasses.asdict(kind) for kind in found], lambda: page(found).rstrip())
        return 0
    if options.kind is None:
        names = {KEYS: list(PARTS)} | {group: sorted(files) for group, files in known.items()}
        show(options.json, names, lambda: "\n".join(_listed(group, own) for group, own in names.items()))
        return 0
    groups = [group for group, files in known.items() if options.kind in files]
    parts = [part_of(options.kind)] if options.kind in PARTS else []
    if not groups and not parts:
        everyone = [*PARTS, *(kind for files in known.values() for kind in files)]
        raise InputError(
            f"No kind {quoted(options.kind)}.{suggestion(options.kind, everyone)} 'fieldcraft kinds' lists them."
        )
    told = parts + [kind_of(group, options.kind, load(group, options.kind, settings.plugins)) for group in groups]
    show(options.json, [dataclasses.asdict(kind) for kind in told], lambda: "\n\n".join(map(_told, told)))
    return 0


def _told(kind: "Kind") -> str:
    """A kind as text: its description, and a block for each option."""
    lines = [f"{kind.name} ({kind.group})", *(_wrapped(text, 2) for text in kind.meaning)]
    for option in kind.options:
        default = "must be given" if option.default is None else option.default
        lines.append(f"  {option.name}: {default}   ({option.type})")
        lines += [_wrapped(option.meaning, 6)] if option.meaning else []
    return "\n".join(lines)


def _listed(group: str, names: Sequence[str]) -> str:
    return textwrap.fill(f"{group:12}  {', '.join(names)}", 100, subsequent_indent=" " * 14)


def _wrapped(text: str, indent: int) -> str:
    return textwrap.indent(textwrap.fill(text.replace("``", ""), 100), " " * indent)


def _first_sentence(file: Path) -> str:
    comment = itertools.takewhile(lambda line: line.startswith("# "), file.read_text().splitlines())
    return re.split(r"(?<=[.?])\s", " ".join(line[2:] for line in comment))[0]


def _init(options: argparse.Namespace, settings: Settings) -> int:
    folder: Path = options.folder
    files = list(_starter())
    if taken := [folder / file for file in files if (folder / file).exists()]:
        raise InputError(f"{taken[0]} is there already. Nothing was written; name another folder.")
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_PACKAGE / "starter" / file, folder / file)
    data = {"folder": str(folder), "files": [str(file) for file in files]}
    show(
        options.json,
        data,
        lambda: "\n".join([*(f"{folder / file}" for file in files), "", _NEXT.format(folder=shlex.quote(str(folder)))]),
    )
    return 0


def _starter() -> Iterator[Path]:
    """Paths of the starter's files, relative to its folder."""
    root = _PACKAGE / "starter"
    for file in sorted(root.rglob("*")):
        if file.is_file() and file.suffix in (".py", ".yaml"):
            yield file.relative_to(root)
