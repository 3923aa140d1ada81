"""Commands for a beginning: the ready campaigns and studies, and a folder of one's own to start from."""

import argparse
import itertools
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from fieldcraft.flows.commands.shared import Add, show
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.text import quoted, suggestion

_PACKAGE = Path(__file__).parents[2]
_NEXT = """\
cd {folder}
export FIELDCRAFT_PLUGINS=$PWD/mine   # where your kinds are: a campaign file cannot say it
fieldcraft check rod.yaml
fieldcraft run rod.yaml"""


def add(command: Add) -> None:
    """Register the commands."""
    init = command("init", _init, "make a folder with a campaign, a problem, a simulator and a test of them")
    init.add_argument("folder", type=Path, metavar="DIR")
    examples = command("examples", _examples, "list the ready campaigns and studies, or print one")
    examples.add_argument("name", nargs="?", metavar="NAME", help="such as campaigns/heat.yaml")


def _examples(options: argparse.Namespace, settings: Settings) -> int:
    known = {f"{folder}/{file.name}": file for folder in ("campaigns", "studies") for file in _files(folder)}
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


def _files(folder: str) -> list[Path]:
    return sorted((_PACKAGE / folder).glob("*.yaml"))


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
        lambda: "\n".join([*(f"{folder / file}" for file in files), "", _NEXT.format(folder=folder)]),
    )
    return 0


def _starter() -> Iterator[Path]:
    """The files of the starter, relative to it."""
    root = _PACKAGE / "starter"
    for file in sorted(root.rglob("*")):
        if file.is_file() and file.suffix in (".py", ".yaml"):
            yield file.relative_to(root)
