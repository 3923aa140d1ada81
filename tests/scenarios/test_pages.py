"""The pages as a site, and the README: they build offline, every link leads somewhere, and what they show works."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from shown import ROOT, text_of

from fieldcraft.flows.cli import main


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
