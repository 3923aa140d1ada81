"""What a pass builds of a campaign: as much as it needs, by the code that is there now."""

import subprocess
import sys

import pytest
import yaml
from small import SMALL

from fieldcraft.flows.errors import InputError
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
