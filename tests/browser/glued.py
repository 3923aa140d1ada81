"""A desk that is really served: a laboratory's campaign with six results and three proposals, in a home of its own."""

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "flows")]
from desk_site import TOKENS, people  # noqa: E402

from fieldcraft.flows.desk.place import Place  # noqa: E402
from fieldcraft.flows.desk.serving import server_of  # noqa: E402
from fieldcraft.flows.identity import Person  # noqa: E402
from fieldcraft.flows.people import decisions  # noqa: E402
from fieldcraft.flows.results.entered import entered  # noqa: E402
from fieldcraft.flows.results.record import check, record  # noqa: E402
from fieldcraft.flows.rules.trial_labels import Choice  # noqa: E402
from fieldcraft.flows.settings import Settings, settings_from  # noqa: E402
from fieldcraft.flows.spec.campaign_file import parse  # noqa: E402
from fieldcraft.flows.steps.one_pass import Ref, make_pass  # noqa: E402
from fieldcraft.flows.wiring.build import wire  # noqa: E402
from fieldcraft.flows.wiring.create import created  # noqa: E402
from fieldcraft.storage.ledger import Ledger  # noqa: E402
from fieldcraft.storage.open_ledger import open_ledger  # noqa: E402

OPERATOR = Person("ana", "operator")
WIDE = {"width": 1280, "height": 860}
GLUE = """\
name: glue
seed: 1
sense: maximize
problem:
  kind: declared
  variables:
    - {name: heat, low: 20, high: 90, unit: degC}
    - {name: time, low: 1, high: 48, unit: h}
    - {name: hardener, choices: [A, B]}
  results: [{name: strength, unit: MPa}]
algorithm:
  start: {n: 6}
  surrogate: {kind: exact_gp}
  acquisition: {kind: log_ei}
  maximizer: {kind: multistart}
batch: 3
approval: human
dispatcher: {kind: lab, instructions: "Cure as stated, then pull at 1 mm/min. Wear gloves."}
budget: {trials: 20, cost: 40, unit: EUR}
"""


@dataclass
class Glue:
    """The campaign and its stores."""

    settings: Settings

    @property
    def ledger(self) -> Ledger:
        return open_ledger(self.settings.ledger)

    def make_pass(self) -> None:
        lease = self.ledger.acquire("glue")
        try:
            make_pass(Ref(str(self.settings.home), "glue", lease.model_dump()))
        finally:
            self.ledger.release(lease)

    def approve(self, *trials: str) -> None:
        decisions.approve(self.ledger, self.settings, OPERATOR, [Choice(trial) for trial in trials])

    def measure(self, trial: str) -> None:
        """The result of a trial, which a formula gives."""
        design = self.ledger.trial(trial).design
        strength = 38 - ((float(design["heat"]) - 62) / 12) ** 2 - ((float(design["time"]) - 30) / 9) ** 2
        strength += 4.0 if design["hardener"] == "B" else 0.0
        site, measured = entered(self.settings, trial, {"strength": f"{max(strength, 2.0):.1f}"}, {}, {}, None, "")
        record(site, check(site, measured), OPERATOR.name, "person")


def glue_at(folder: Path) -> Glue:
    """The campaign whose home and people lie in a folder."""
    environment = {"FIELDCRAFT_MLFLOW": "off", "FIELDCRAFT_PEOPLE": str(folder / "people.yaml")}
    return Glue(settings_from({**environment, "FIELDCRAFT_TOKEN": TOKENS["ana"]}, home=folder / "home"))


def glue(folder: Path) -> Glue:
    """Six results and three proposals of a model."""
    people(folder / "people.yaml")
    made = glue_at(folder)
    spec = parse(yaml.safe_load(GLUE), "glue")
    created(open_ledger(made.settings.ledger, create=True), wire(spec, made.settings), folder / "glue.yaml")
    other = parse(yaml.safe_load(GLUE.replace("name: glue", "name: resin")), "resin")
    created(made.ledger, wire(other, made.settings), folder / "resin.yaml")
    made.make_pass()
    first = [trial.id for trial in made.ledger.trials("glue")]
    made.approve(*first)
    made.make_pass()
    for trial in first:
        made.measure(trial)
    made.make_pass()
    return made


@contextlib.contextmanager
def served(settings: Settings, printed: Callable[[str], None] = lambda token: None, port: int = 0) -> Iterator[str]:
    """The address of the desk of a home, for as long as the block runs; ``printed`` hears of one-time tokens."""
    listening = socket.create_server(("127.0.0.1", port))
    port = listening.getsockname()[1]
    server = server_of(settings, Place("127.0.0.1", port, ("127.0.0.1",)), printed)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
