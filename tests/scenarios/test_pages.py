"""The pages as a site, and the README: they build offline, every link leads somewhere, and what they show works."""

import ast
import importlib
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml
from shown import ROOT, text_of

from fieldcraft.flows import settings
from fieldcraft.flows.cli import _parser, main
from fieldcraft.flows.spec.campaign_file import parse

PAGES = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{file.name}" for file in (ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.M | re.S)
CALLED = re.compile(r"(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\S*/bin/)?fieldcraft (\w.*)")
OF_TESTS = ("FIELDCRAFT_CHAOS", "FIELDCRAFT_SCREENSHOTS")
SMALLEST = {
    **{"name": "page", "seed": 1, "sense": "minimize", "problem": {"kind": "branin"}},
    **{"algorithm": {"kind": "auto"}, "budget": {"trials": 40}},
}


def blocks(page: str, *kinds: str) -> list[str]:
    """The fenced blocks of a page of some kinds."""
    return [textwrap.dedent(text) for kind, text in BLOCK.findall(text_of(page)) if kind in kinds]


def commands(page: str) -> list[list[str]]:
    """The words after ``fieldcraft`` of each command in a page's blocks and between its sentences."""
    lines = [line for text in blocks(page, "", "bash") for line in text.replace("\\\n", " ").splitlines()]
    called = [found[1] for line in lines if (found := CALLED.match(line))]
    said = [" ".join(text.split()) for text in re.findall(r"`fieldcraft ([^`]+)`", BLOCK.sub("", text_of(page)))]
    plain = [re.split(r" (?:\||>|&&) ?", line)[0].translate({91: "", 93: ""}) for line in (*called, *said)]
    return [shlex.split(line, comments=True) for line in plain]


def parts(text: str) -> list[str]:
    """A block of YAML as one mapping each time a key comes again."""
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        key = line.partition(":")[0]
        if line[:1].isalpha() and any(other.startswith(f"{key}:") for other in found[-1]):
            found.append([])
        found[-1].append(line)
    return ["\n".join(lines) for lines in found]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a page beside the menu, a link or an anchor that leads nowhere stops the build."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_built_and_asks_nothing_of_the_network(site):
    pages = {file.name for file in (ROOT / "docs").glob("*.md")}
    assert {f"{name.removesuffix('.md')}.html" for name in pages} <= {file.name for file in site.glob("*.html")}
    for file in site.glob("*.html"):
        loaded = re.findall(
            r'<(?:script|img|iframe)[^>]*src="(.*?)"|<link[^>]*rel="stylesheet"[^>]*href="(.*?)"', file.read_text()
        )
        assert [place for pair in loaded for place in pair if place.startswith(("http", "//"))] == [], file.name


def test_the_glossary_of_the_site_is_the_contributors(site):
    words = re.findall(r"(?m)^\| ([a-z ]+) \| ", text_of("CONTRIBUTING.md").split(":words]")[1])
    page = (site / "glossary.html").read_text()
    assert len(words) > 15 and all(f"<td>{word}</td>" in page for word in words[1:])


def test_the_readme_is_short_and_its_links_lead_to_files():
    readme = text_of("README.md")
    assert len(readme.split()) <= 900
    links = re.findall(r"\]\(([^)#]+)", readme)
    assert len(links) > 20 and [link for link in links if not (ROOT / link).exists()] == []


def test_the_readmes_loop_is_that_of_the_page_of_python():
    (loop,) = re.findall(r"```python\n(.*?)```", text_of("README.md"), re.S)
    assert loop in text_of("docs/python.md")


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_campaign_without_code_is_valid(page, tmp_path, capsys):
    (campaign,) = re.findall(r"```yaml\n(.*?)```", text_of(page), re.S)
    file = tmp_path / "glue.yaml"
    file.write_text(campaign)
    assert main(["check", str(file)]) == 0
    assert "valid: auto stands for" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_is_one_that_there_is(page):
    known = {name for group in _parser().groups.values() for name, _ in group}
    for words in commands(page):
        assert words[0] in known, words
        if words[1:]:
            assert _parser().parse_known_args(words)[1] == [], words


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_is_code_of_its_kind_and_imports_what_there_is(page):
    for text in blocks(page, "python"):
        whole = text if "return " not in text or "def " in text else f"def f():\n{textwrap.indent(text, '    ')}"
        for node in ast.walk(ast.parse(whole)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("fieldcraft"):
                module = importlib.import_module(str(node.module))
                assert [name.name for name in node.names if not hasattr(module, name.name)] == []
    for text in blocks(page, "yaml"):
        for part in parts(text):
            data = yaml.safe_load(part)
            if data.keys() <= {"users", "tokens"}:  # a file of people: tests/flows/test_identity.py
                continue
            whole = {**SMALLEST, **data, "problem": SMALLEST["problem"]}  # some are of a plug-in
            if "surrogate" in whole["algorithm"]:
                whole["algorithm"] = {"start": {"n": 5, "proposer": {"kind": "sobol"}}, **whole["algorithm"]}
            parse(whole, page)


@pytest.mark.parametrize("page", PAGES)
def test_every_file_target_and_setting_that_a_page_names_is_there(page):
    text = text_of(page)
    for name in re.findall(r"(?:python|pytest|-m pytest) ((?:benchmarks|tests)/[\w/]+(?:\.py)?)", text):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"\b(?:campaigns|studies)/[\w-]+\.yaml", text):
        assert (ROOT / name).exists(), name
    targets = re.findall(r"(?m)^(\w+):", text_of("Makefile"))
    assert set(re.findall(r"`make (\w+)`", text)) <= set(targets)
    known = f"{settings.__doc__}{OF_TESTS if page == 'CONTRIBUTING.md' else ''}"
    assert [name for name in set(re.findall(r"FIELDCRAFT_[A-Z_]+", text)) if name not in known] == []


def test_the_page_of_commands_names_every_setting():
    rows = [line for line in text_of("docs/commands.md").splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"FIELDCRAFT_[A-Z_]+", row.split(" | ")[0])]
    assert sorted(named) == sorted(re.findall(r"(?m)^(FIELDCRAFT_[A-Z_]+)", str(settings.__doc__)))
