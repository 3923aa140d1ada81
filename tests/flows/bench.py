"""A laboratory campaign without a model: an oven with three kinds of variables, two outputs, units and a field."""

import contextlib
import io
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fieldcraft.flows.cli import main
from fieldcraft.flows.results.record import site_for
from fieldcraft.flows.rules.approved_code import covered
from fieldcraft.flows.settings import Settings, settings_from
from fieldcraft.flows.spec.campaign_file import read_campaign
from fieldcraft.flows.steps.one_pass import Passed, Ref, make_pass
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.context import Site
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.code import Code
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.ledgers.sqlite import close_idle
from fieldcraft.storage.open_ledger import open_ledger

OVEN = '''\
"""An oven: the strength of a sintered part."""
from dataclasses import dataclass

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Categorical, Continuous, Integer, SearchSpace


@dataclass(frozen=True)
class Oven(Problem):
    """Nobody knows how the strength depends on the design."""

    @property
    def space(self):
        """Temperature, time and gas."""
        return SearchSpace(
            (Continuous("T", 900.0, 1500.0, "K"), Integer("t", 5, 60, "min"), Categorical("gas", ("N2", "Ar")))
        )

    @property
    def outputs(self):
        """Strength, and the porosity above the limit, which must not be positive."""
        return (Output("strength", "MPa"), Output("porosity", "%"))
'''
OVEN_CAMPAIGN = """\
name: oven
seed: 5
sense: maximize
problem: {kind: oven}
algorithm:
  start: {n: 3}
batch: 2
approval: batch
dispatcher: {kind: lab, instructions: "Weigh the part first."}
budget: {trials: 5, unit: EUR}
"""


@dataclass(frozen=True)
class Bench:
    """A campaign in a folder, driven by commands and passes."""

    settings: Settings
    file: Path

    @property
    def name(self) -> str:
        """The campaign's name."""
        return read_campaign(self.file).name

    @property
    def ledger(self) -> Ledger:
        """The ledger, created with its campaign where it is not there."""
        return open_ledger(self.settings.ledger, create=True)

    @property
    def site(self) -> Site:
        """The campaign as a person sees it."""
        return site_for(self.settings, self.name)

    @property
    def code(self) -> Code:
        """What an approval that is given now covers."""
        return covered(self.site.campaign.spec, self.settings).code

    @property
    def orders(self) -> Path:
        """Where orders and results are exchanged."""
        return self.settings.home / "lab" / self.name

    @property
    def results(self) -> Path:
        """The watched folder."""
        return self.orders / "results"

    def make_pass(self) -> Passed:
        """One pass; the campaign is created by the first."""
        created(self.ledger, wire(read_campaign(self.file), self.settings), self.file)
        lease = self.ledger.acquire(self.name)
        try:
            return make_pass(Ref(str(self.settings.home), self.name, lease.model_dump()))
        finally:
            self.ledger.release(lease)

    def order(self) -> None:
        """Have the first iteration proposed, approved and ordered."""
        self.make_pass()
        assert self.run("approve", "--batch", f"{self.name}:0")[0] == 0
        assert self.make_pass().sent > 0

    def run(self, *words: object) -> tuple[int, str, str]:
        """A command: exit status, output, errors."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main([*map(str, words), "--home", str(self.settings.home)])
        return status, out.getvalue(), err.getvalue()

    def json(self, *words: object) -> Any:
        """What a command that succeeds prints as JSON."""
        status, out, err = self.run(*words, "--json")
        assert status == 0, err
        return json.loads(out)

    def drop(self, name: str, text: str, age_s: float = 5.0) -> Path:
        """Put a file into the watched folder, last written to so long ago as the fields that lie there."""

        path = self.results / name
        path.write_text(text, encoding="utf-8")
        then = time.time() - age_s
        fields = (part for part in self.results.rglob("*") if part.suffix not in (".csv", ".json"))
        for written in (path, *fields, *self.results.rglob("zarr.json")):
            os.utime(written, (then, then), follow_symlinks=False)
        return path


def bench(folder: Path, text: str, patch: pytest.MonkeyPatch) -> Bench:
    """A campaign of this text, with the oven among the kinds."""
    problems = folder / "plugins" / "problems"
    if not problems.exists():
        problems.mkdir(parents=True)
        (problems / "oven.py").write_text(OVEN)
    patch.setenv("FIELDCRAFT_PLUGINS", str(folder / "plugins"))
    (folder / "campaign.yaml").write_text(text)
    return Bench(settings_from(home=folder / "home"), folder / "campaign.yaml")


def ordered(folder: Path) -> Path:
    """The folder with the oven's campaign, of which three orders are with the laboratory; to be copied."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDCRAFT_MLFLOW", "off")
        bench(folder, OVEN_CAMPAIGN, patch).order()
    close_idle()
    return folder
