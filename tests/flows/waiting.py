"""A campaign whose trials wait for people: made, passed over and read by calling the code as it is."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from small import command

from fieldcraft.flows.rules.approved_code import covered
from fieldcraft.flows.settings import Settings, settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.steps.one_pass import Passed, Ref, make_pass
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.code import Code
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Trial, TrialState

PLUGINS = Path(__file__).parent / "plugins"
SPEC: dict[str, Any] = {
    "name": "priced",
    "seed": 5,
    "sense": "maximize",
    "problem": {"kind": "priced"},
    "simulator": {"kind": "function"},
    "algorithm": {"start": {"n": 3}},
    "batch": 2,
    "budget": {"trials": 7, "unit": "EUR"},
}


@dataclass
class Waiting:
    """A campaign with its stores.

    Args:
        settings: Where they are.
        ledger: Unfenced, as people write to it.
        name: The campaign.
    """

    settings: Settings
    ledger: Ledger
    name: str = "priced"

    @property
    def code(self) -> Code:
        """What an approval that is given now covers."""
        return covered(parse(self.ledger.campaign(self.name).spec, "test"), self.settings).code

    def make_pass(self) -> Passed:
        """One pass, as the plain function it is, under a lease of its own."""
        lease = self.ledger.acquire(self.name)
        try:
            return make_pass(Ref(str(self.settings.home), self.name, lease.model_dump()))
        finally:
            self.ledger.release(lease)

    def settle(self) -> None:
        """Passes until no simulation runs."""
        while running := self.trials(TrialState.RUNNING):
            dispatcher = wire(parse(self.ledger.campaign(self.name).spec, "test"), self.settings).dispatcher
            dispatcher.wait([trial.handle for trial in running if trial.handle], 60.0)
            self.make_pass()

    def trials(self, *states: TrialState) -> list[Trial]:
        """Its trials by number, all or those in the states."""
        return list(self.ledger.trials(self.name, states=set(states) if states else None))

    def states(self) -> list[str]:
        """The states of its trials by number."""
        return [trial.state.value for trial in self.trials()]

    def command(self, *words: object, **environment: str) -> Any:
        """``fieldcraft WORDS`` on these stores, in a process of its own."""
        return command(*words, "--home", self.settings.home, FIELDCRAFT_PLUGINS=str(PLUGINS), **environment)


def campaign(home: Path, approval: Any, people: Path | None = None, **changes: Any) -> Waiting:
    """A campaign with this approval and nothing proposed yet; FIELDCRAFT_PLUGINS must be ``PLUGINS`` for its passes."""
    environment = {"FIELDCRAFT_PLUGINS": str(PLUGINS), "FIELDCRAFT_MLFLOW": "off"}
    settings = settings_from(environment | ({"FIELDCRAFT_PEOPLE": str(people)} if people else {}), home=home)
    wired = wire(parse(yaml.safe_load(yaml.safe_dump({**SPEC, "approval": approval, **changes})), "test"), settings)
    ledger = open_ledger(settings.ledger, create=True)
    assert created(ledger, wired, home / "campaign.yaml") is None
    return Waiting(settings, ledger, wired.name)
