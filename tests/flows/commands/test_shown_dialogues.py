"""The dialogues of docs/people.md, laboratory.md and recovery.md are held here: their commands are typed, in order.

What is said must be what the page shows, to the digit; ``...``, times, dates, digests and names of people and machines
may be others.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import time
from pathlib import Path

import pytest
import xarray as xr
from shown import text_of

from fieldcraft.flows.cli import main
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.open_ledger import open_ledger

LOOSE = (
    (r"\b[0-9a-f]{6}\.\.\.", "[0-9a-f]{6}.*?"),
    (r"\.\.\.", ".*?"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"),
    (r"\b[0-9a-f]{12}\b", "[0-9a-f]{12}"),
    (r"@[0-9a-f]{6}\b", "@[0-9a-f]{6}"),
    (r"\b\d+\.\d s\b", r"\d+\.\d s"),
    (r"(?<=- result )\d+", r"\d+"),  # in the order in which simulations ended
    (r"(?<=on )vm\b", r"\S+"),
    (r"(?<=by )root\b", r"\S+"),
)
ANY = re.compile("|".join(f"({fixed})" for fixed, _ in LOOSE))


def pattern(told: str) -> str:
    """What a text of a page allows; lines are broken where the page breaks them."""
    text, made, end = " ".join(told.split()), "", 0
    for found in ANY.finditer(text):
        made += re.escape(text[end : found.start()]) + LOOSE[found.lastindex - 1][1]
        end = found.end()
    return made + re.escape(text[end:])


def blocks(name: str) -> list[str]:
    """The fenced blocks of a page, in their order."""
    return re.findall(r"(?m)^```\w*\n(.*?)^```", text_of(name), re.DOTALL)


def dialogue(block: str) -> list[tuple[list[str], str]]:
    """Commands, each with what it says."""
    turns = re.split(r"(?m)^\$ ", block)[1:]
    return [(shlex.split(turn.partition("\n")[0]), turn.partition("\n")[2]) for turn in turns]


def answer(words: list[str], home: Path) -> str:
    """What a command says, or what is in a file."""
    if words[0] == "cat":
        return (home.parent / words[1]).read_text(encoding="utf-8")
    assert words[0] == "fieldcraft"
    where = [] if "--home" in words else ["--home", str(home)]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        main([*words[1:], *where])
    return out.getvalue()


def hold(block: str, home: Path, places: dict[str, str] | None = None) -> None:
    """Type the commands of a block and compare, with other places for those that the page names."""
    for words, told in dialogue(block):
        for page, here in (places or {}).items():
            words = [here if word == page else word for word in words]
            told = told.replace(page, here) if page.startswith("/") else told
        said = " ".join(answer(words, home).split())
        assert re.fullmatch(pattern(told), said), f"{words}\npage: {told}\nsaid: {said}"


@pytest.mark.usefixtures("prefect")
def test_the_dialogues_with_people_and_the_laboratory_are_as_their_pages_show_them(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    monkeypatch.chdir(tmp_path)
    campaign, imported, before, first, rows, taken, again, pair, mistakes = blocks("docs/laboratory.md")
    (tmp_path / "oven.yaml").write_text(campaign)
    (tmp_path / "before.csv").write_text(before)
    home = tmp_path / "runs"
    hold(imported, home)
    hold(first, home)
    orders = home / "lab" / "oven"
    table = (orders / "batch-0001.csv").read_text()
    assert "".join(f"    {line}\n" for line in table.splitlines()) in text_of("docs/laboratory.md")
    drop = orders / "results" / "monday.csv"
    drop.write_text(table.splitlines()[0] + "\n" + rows)
    os.utime(drop, (time.time() - 5, time.time() - 5))
    (tmp_path / "monday.csv").write_text(drop.read_text())
    hold(taken, home)
    hold(again, home)
    answer(["fieldcraft", "iterate", "oven"], home)
    hold(mistakes, home)
    (tmp_path / "pair.yaml").write_text(pair)
    assert "pair.yaml: valid: gp_ehvi stands for: " in answer(["fieldcraft", "check", "pair.yaml"], home)
    glue, said, *_ = blocks("docs/people.md")
    (tmp_path / "glue.yaml").write_text(glue)
    hold(said, home)


def test_the_dialogues_of_the_page_on_recovery_are_as_it_shows_them(finished, tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    repair, copy, move, second = (block for block in blocks("docs/recovery.md") if block.startswith("$"))
    home, broken = (Path(shutil.copytree(finished / "home", tmp_path / name)) for name in ("runs", "broken"))
    store, ledger = fields_at(broken / "fields"), open_ledger(broken / "ledger.sqlite")
    store.write("orphan", xr.Dataset({"a": ((), 1.0)}))
    model = next(product.reference for product in ledger.products("small") if product.step == "train")
    for reference in (model, ledger.trial("small-0002").field):
        files = (path for path in sorted(store.path(reference).rglob("*")) if path.is_file())
        chunk = next(path for path in files if "c" in path.parts[-2:])
        chunk.write_bytes(bytes([chunk.read_bytes()[0] ^ 1, *chunk.read_bytes()[1:]]))
    hold(repair, broken)
    places = {"/backup/runs": "backup", "/srv/new": "new", "/media/disk/runs": "disk", "NEWER": "newer", "NEW": "there"}
    there = {page: str(tmp_path / name) for page, name in places.items()}
    hold(copy, home, there)
    hold(move, home, there)
    answer(["fieldcraft", "restore", there["/media/disk/runs"], "--home", there["NEW"]], home)
    hold(second, home, there)
