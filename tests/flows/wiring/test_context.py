"""What a pass builds of a campaign: as much as it needs, by the code that is there now."""

import os
import subprocess
import sys

import pytest
import yaml
from small import SMALL

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.results.record import site_for
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import rewire, wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.open_ledger import open_ledger

PASS = """\
import sys
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.storage.open_ledger import open_ledger
passed = make_pass(Ref(sys.argv[1], "small", open_ledger(f"{sys.argv[1]}/ledger.sqlite").acquire("small").model_dump()))
print(passed.decision.wait, passed.proposed, "torch" in sys.modules)
"""
SURROGATE = """
from dataclasses import dataclass
from typing import ClassVar

from fieldcraft.models.capability import Capability
from fieldcraft.models.surrogates.exact_gp import ExactGP


@dataclass(frozen=True)
class Plain(ExactGP):
    '''See the test.'''

    provides: ClassVar[frozenset[Capability]] = frozenset({PROVIDES})
"""


def test_a_pass_that_waits_for_people_imports_no_torch(tmp_path):
    home = tmp_path / "home"
    campaign = wire(parse(yaml.safe_load(SMALL + "approval: human\n"), "small.yaml"), settings_from({}, home))
    assert created(open_ledger(home / "ledger.sqlite", create=True), campaign, tmp_path / "small.yaml") is None

    def passed() -> list[str]:
        run = subprocess.run([sys.executable, "-c", PASS, str(home)], capture_output=True, text=True, check=True)
        return run.stdout.split()

    assert passed() == ["None", "2", "True"], "it proposes"
    assert passed() == ["person", "0", "False"]


PROBLEM = """
from dataclasses import dataclass

from fieldcraft import Continuous, Output, Problem, SearchSpace


@dataclass(frozen=True)
class Rod(Problem):
    '''See the test.'''

    @property
    def space(self):
        return SearchSpace((Continuous("x", 0.0, 1.0, "m"),))

    @property
    def outputs(self):
        return (Output("y", "K"),)

    def function(self, design):
        return {"y": design["x"], "z": 0.0}
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"y"', '"z"', r"outputs y \[K\]. The code of its problem now has z \[K\]: results of both would be mixed"),
        ('"K"', '"mK"', r"outputs y \[K\]. The code of its problem now has y \[mK\]"),
        ('"K"),', '"K"), Output("z")', r"outputs y \[K\]. The code of its problem now has y \[K\], z:"),
        ('"m"', '"mm"', r"variables x \[m\]. The code of its problem now has x \[mm\]"),
        ('("x"', '("w"', r"variables x \[m\]. The code of its problem now has w \[m\]"),
    ],
)
def test_a_problem_whose_outputs_or_variables_changed_is_refused_before_anything_is_done(tmp_path, old, new, said):
    plugins = tmp_path / "plugins"
    (plugins / "problems").mkdir(parents=True)
    (code := plugins / "problems" / "rod.py").write_text(PROBLEM)
    settings = settings_from({"FIELDCRAFT_PLUGINS": str(plugins)}, tmp_path / "home")
    spec = parse(yaml.safe_load(SMALL.replace("branin", "rod").replace("noise: {sd: 0.5}\n", "")), "small.yaml")
    ledger = open_ledger(settings.ledger, create=True)
    assert created(ledger, wire(spec, settings), tmp_path / "small.yaml") is None
    code.write_text(PROBLEM.replace(old, new))
    with pytest.raises(InputError, match=rf"Campaign 'small' was begun with the {said}"):
        created(ledger, wire(spec, settings), tmp_path / "small.yaml")
    with pytest.raises(InputError, match=rf"Campaign 'small' was begun with the {said}"):
        site_for(settings, "small")
    run = subprocess.run(
        [sys.executable, "-c", PASS, str(settings.home)],
        capture_output=True,
        text=True,
        env={**os.environ, "FIELDCRAFT_PLUGINS": str(plugins)},
    )
    assert run.returncode != 0 and "InputError: Campaign 'small' was begun with the" in run.stderr
    assert ledger.trials("small") == ()


def test_words_that_no_longer_fit_are_told_when_they_are_asked_for(tmp_path):
    home, plugins = tmp_path / "home", tmp_path / "plugins"
    (plugins / "surrogates").mkdir(parents=True)
    file = plugins / "surrogates" / "plain.py"
    file.write_text(SURROGATE.replace("PROVIDES", "Capability.EXACT"))
    settings = settings_from({"FIELDCRAFT_PLUGINS": str(plugins)}, home)
    spec = SMALL.replace("exact_gp", "plain").replace("log_ei", "mes")
    known = wire(parse(yaml.safe_load(spec), "small.yaml"), settings).data
    assert rewire(known, settings, algorithm=False).algorithm.surrogate is not None
    file.write_text(SURROGATE.replace("PROVIDES", ""))
    campaign = rewire(known, settings, algorithm=False)
    with pytest.raises(InputError, match="'mes' needs an exact Gaussian process, and the surrogate 'plain' gives none"):
        _ = campaign.algorithm
