"""Levels that a campaign file states wrongly: one clear error each, with its line."""

import pytest
from mesh import plugins

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.wiring.campaign_file import read

FILE = """\
name: b
seed: 3
sense: minimize
problem: {kind: branin}
simulator: {kind: mesh}
levels:
  - {cells: 24, cost: 0.2}
  - {cells: 12, cost: 0.05}
algorithm:
  start: {n: 2}
  surrogate: {kind: multilevel_gp}
  acquisition: {kind: log_ei}
  maximizer: {kind: multistart}
budget: {trials: 4, cost: 5}
"""
HEAD = "simulator: {kind: mesh}\n"


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(plugins(tmp_path)))
    return settings_from(home=tmp_path / "home")


def told(settings, tmp_path, old, new):
    file = tmp_path / "b.yaml"
    assert old in FILE
    file.write_text(FILE.replace(old, new))
    with pytest.raises(InputError) as error:
        read(file, settings)
    return str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("cells: 12, cost", "cels: 12, cost", "line 8: levels.1.cels: unknown key 'cels'. Did you mean 'cells'?"),
        ("cost: 0.05", "cost: 1.0", "line 8: levels.1.cost: Input should be less than 1 (given: 1.0)"),
        ("cost: 0.05", "cost: 0", "line 8: levels.1.cost: Input should be greater than 0 (given: 0)"),
        ("cost: 0.05", "cost: .nan", "line 8: levels[1].cost: nan is no number to work with."),
        (", cost: 0.05", "", "line 8: levels.1.cost: missing. Give it."),
        ("cells: 12, ", "cells: 24, ", "line 8: levels.1: its options are those of levels.0."),
        ("cells: 12, ", "cells: 96, ", "line 8: levels.1: its options are those of the simulator as it stands."),
        ("cells: 12, ", "", "line 8: levels.1: no option of the simulator 'mesh' is given."),
        ("cells: 12, ", "kind: heat, ", "line 8: levels.1: a level is the campaign's simulator with other options"),
        ("{cells: 12, cost: 0.05}", "12", "line 8: levels.1: give the options that differ and the cost"),
        (HEAD, "simulator: {kind: exact}\n", "line 7: levels.0.cells: unknown key 'cells'."),
        (HEAD, "dispatcher: {kind: lab}\n", "levels: with the dispatcher 'lab' people do the experiments"),
        (HEAD, "dispatcher: {kind: replay, campaign: a}\n", "levels: with the dispatcher 'replay' no simulator of the"),
        ("kind: multilevel_gp", "kind: exact_gp", "levels: exact_gp x log_ei x multistart learns nothing from coarser"),
        (", cost: 5", "", "budget.cost: missing. Runs of `levels` do not count towards budget.trials"),
        ("n: 2", "n: 40", "budget.trials is 4 and algorithm.start.n is 40, of which 10 run the simulator as it stands"),
        ("kind: branin", "kind: branin_currin", "levels: the problem has 2 objectives"),
        (FILE[FILE.index("levels") : FILE.index("algorithm")], "", "'multilevel_gp' learns from coarser runs, and no"),
    ],
)
def test_wrong_levels_are_told_with_their_place(settings, tmp_path, old, new, fault):
    assert fault in told(settings, tmp_path, old, new)


@pytest.mark.parametrize("rival", ["botorch_log_ei", "turbo"])
def test_a_rival_cannot_use_levels(settings, tmp_path, rival):
    words = FILE[FILE.index("  surrogate") : FILE.index("budget")]
    fault = told(settings, tmp_path, words, f"  peer: {{kind: {rival}}}\n")
    assert f"levels: {rival} learns nothing from coarser runs." in fault
