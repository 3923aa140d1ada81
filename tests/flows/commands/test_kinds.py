"""``fieldcraft kinds``: what a campaign file can name, one's own kinds too."""

import json

import pytest

from fieldcraft.flows.cli import main

MINE = '''\
"""A surrogate of a user's own."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Mine:
    """A parabola through the results.

    Args:
        weight: Weight of the prior, at least 0.
    """

    weight: float = 2.0
'''


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    folder = tmp_path / "mine" / "surrogates"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(MINE)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "mine"))


def test_all_kinds_are_listed_by_group(plugins, capsys):
    assert main(["kinds"]) == 0
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 100
    assert "exact_gp, field_ensemble, field_pod, grouped_gp, mine, multilevel_gp, neural_greedy" in " ".join(
        told.split()
    )
    assert told.startswith("keys          campaign, levels, noise, algorithm, start,")
    assert main(["kinds", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rules"] == ["bound", "probability", "probing"]


def test_one_kind_tells_its_options(plugins, capsys):
    assert main(["kinds", "mine"]) == 0
    told = capsys.readouterr().out
    assert told == (
        "mine (surrogates)\n  A parabola through the results.\n"
        "  weight: 2.0   (float)\n      Weight of the prior, at least 0.\n"
    )
    assert main(["kinds", "sobol", "--json"]) == 0  # a proposer and a named algorithm
    assert json.loads(capsys.readouterr().out)[0]["group"] == "proposers"


def test_a_part_of_a_campaign_file_tells_its_keys(plugins, capsys):
    assert main(["kinds", "failure_rate"]) == 0
    assert capsys.readouterr().out == (
        "failure_rate (keys)\n  Stop rule that ends a campaign whose experiments fail.\n"
        "  above: must be given   (number)\n"
        "      Share of failures, from 0 to 1, above which the campaign ends.\n"
        "  over: 10   (whole number)\n"
        "      Number of last settled trials that are counted; with fewer trials the rule does not apply.\n"
    )
    assert main(["kinds", "aproval"]) == 2
    assert "Did you mean 'approval'?" in capsys.readouterr().err


def test_the_page_holds_ones_own_kinds(plugins, capsys):
    assert main(["kinds", "--markdown"]) == 0
    told = capsys.readouterr().out
    assert "### mine\n\nA parabola through the results.\n" in told
    assert "| `weight` | `float` | `2.0` | Weight of the prior, at least 0. |" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["exact-gp"], "No kind 'exact-gp'. Did you mean 'exact_gp'? 'fieldcraft kinds' lists them."),
        (["mine", "--markdown"], "'mine' and --markdown are both given: the page holds every kind. Give one."),
    ],
)
def test_a_wrong_name_is_one_line(plugins, capsys, words, told):
    assert main(["kinds", *words]) == 2
    assert capsys.readouterr().err == f"fieldcraft: {told}\n"
