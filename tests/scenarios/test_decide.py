"""The flow ``decide`` on a real Prefect server, called as its form and a worker do: who decides, where tokens stay."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import warm_start

from fieldcraft.flows.identity import digest_of_token, operating_system_user
from fieldcraft.flows.machinery.prefect_server import Server
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Origin, Proposal, TrialState, digest_of

ROOT = Path(__file__).resolve().parents[2]
TOKEN, WRONG = "fc_carlas-secret-0123456789", "fc_a-stolen-guess-987654321"
SPEC = {
    "name": "small",
    "seed": 1,
    "sense": "minimize",
    "problem": {"kind": "branin"},
    "simulator": {"kind": "function"},
    "algorithm": {"start": {"n": 6}},
    "approval": "human",
    "budget": {"trials": 6},
}
DEPLOY = """
from prefect.types.entrypoint import EntrypointType
from fieldcraft.flows.decide import decide
for name, enforced in (("decide", True), ("unchecked", False)):
    made = decide.to_deployment(name, entrypoint_type=EntrypointType.MODULE_PATH, enforce_parameter_schema=enforced)
    print(made.apply())
"""


@dataclass
class Deployed:
    """A Prefect server with the flow deployed, and a ledger whose trials wait.

    Args:
        api: Client of the server.
        environment: Of a worker.
        database: The server's.
        deployments: Ids of the deployments by name; ``unchecked`` takes parameters without looking at them.
        ledger: Where trials wait.
    """

    api: httpx.Client
    environment: dict[str, str]
    database: Path
    deployments: dict[str, str]
    ledger: Ledger

    def fire(self, deployment: str = "decide", **parameters: Any) -> httpx.Response:
        """What the form of Prefect's page sends."""
        address = f"/deployments/{self.deployments[deployment]}/create_flow_run"
        return self.api.post(address, json={"parameters": parameters, "state": {"type": "SCHEDULED"}})

    def run(self, deployment: str = "decide", **parameters: Any) -> dict[str, Any]:
        """Fire a run, execute it as a worker does, and return it as Prefect then stores it."""
        fired = self.fire(deployment, **parameters)
        assert fired.status_code == 201, fired.text
        run = fired.json()["id"]
        assert self.api.get(f"/flow_runs/{run}").json()["parameters"]["token"] == parameters["token"]
        done = warm_start.run(["-m", "prefect.engine"], {**self.environment, "PREFECT__FLOW_RUN_ID": run}, 120)
        for secret in (TOKEN, WRONG):
            assert secret not in done.stdout + done.stderr
        stored: dict[str, Any] = self.api.get(f"/flow_runs/{run}").json()
        return stored

    def everything(self) -> str:
        """All that Prefect's database holds, in one text."""
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as connection:
            names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return "\n".join(repr(row) for name in names for row in connection.execute(f'SELECT * FROM "{name}"'))


def waiting_ledger(home: Path) -> Ledger:
    spec = parse(SPEC, "test").model_dump(mode="json")
    ledger = open_ledger(home / "ledger.sqlite", create=True)
    environment = {"outputs": [{"name": "value", "unit": ""}], "units": {"x1": "", "x2": ""}}
    ledger.create_campaign("small", spec, digest_of(spec), environment, "test")
    origins = [Origin(kind="initial", algorithm="sobol", iteration=0, slot=slot) for slot in range(6)]
    proposals = [Proposal(design={"x1": float(o.slot), "x2": 1.0}, origin=o, cost=1.0 + o.slot) for o in origins]
    ledger.propose("small", 0, proposals, "test")
    return ledger


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    folder = tmp_path_factory.mktemp("decide")
    people = folder / "people.yaml"
    people.write_text(
        f"users: {{{operating_system_user()}: {{role: operator}}}}\n"
        f"tokens: [{{name: carla, role: approver, cost_limit: 4, sha256: {digest_of_token(TOKEN)}}}]\n"
    )
    people.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("FIELDCRAFT_", "PREFECT_"))]:
            patch.delenv(name)
        kept = dict(os.environ)
        try:
            server = Server(folder / "prefect")
            environment = {
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "FIELDCRAFT_HOME": str(folder / "home"),
                "FIELDCRAFT_PEOPLE": str(people),
                "PREFECT_LOGGING_LEVEL": "DEBUG",
                "PREFECT_LOGGING_TO_API_ENABLED": "true",
            }
            imported = ("prefect.flow_engine", "fieldcraft.flows.decide")
            with closing(server), warm_start.serving(environment, *imported) as warm:
                environment[warm_start.NAMED] = warm
                server.begin()
                server.ready()
                made = warm_start.run(["-c", DEPLOY], environment, 120, str(ROOT))
                assert made.returncode == 0, made.stderr
                user, password = environment["PREFECT_API_AUTH_STRING"].split(":", 1)
                url, limits = environment["PREFECT_API_URL"], httpx.Limits(max_keepalive_connections=0)
                with httpx.Client(base_url=url, auth=(user, password), timeout=30, limits=limits) as api:
                    yield Deployed(
                        api,
                        environment,
                        folder / "prefect" / "server" / "prefect.db",
                        dict(zip(("decide", "unchecked"), made.stdout.split(), strict=True)),
                        waiting_ledger(folder / "home"),
                    )
        finally:
            os.environ.clear()
            os.environ.update(kept)


def test_the_form_asks_for_trials_decision_token_and_comment_and_hides_the_token(deployed):
    schema = deployed.api.get(f"/deployments/{deployed.deployments['decide']}").json()["parameter_openapi_schema"]
    fields = sorted(schema["properties"], key=lambda name: schema["properties"][name]["position"])
    assert fields == ["trials", "decision", "token", "comment"]
    assert schema["required"] == ["trials", "decision", "token"]
    assert schema["properties"]["trials"]["type"] == "array"
    assert schema["properties"]["decision"]["enum"] == ["approve", "reject"]
    assert schema["properties"]["token"]["format"] == "password"
    assert all(schema["properties"][name]["description"] for name in fields)


def test_a_decision_is_the_token_owners_and_the_token_is_blanked(deployed):
    run = deployed.run(trials=["small-0001", "small-0002"], decision="approve", token=TOKEN, comment="from the page")
    assert run["state"]["type"] == "COMPLETED"
    assert run["state"]["message"] == "small-0001, small-0002: approve by carla"
    assert run["parameters"] == {
        "trials": ["small-0001", "small-0002"],
        "decision": "approve",
        "token": "(blanked)",
        "comment": "from the page",
    }
    (approval,) = deployed.ledger.approvals("small-0001")
    assert (approval.by, approval.comment, approval.policy) == ("carla", "from the page", "manual")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"trials": ["small-0003"], "decision": "approve", "token": WRONG}, "The token given is not known to"),
        ({"trials": ["small-0006"], "decision": "approve", "token": TOKEN}, "small-0006 costs 6 and carla may approve"),
        ({"trials": ["small-0003"], "decision": "reject", "token": TOKEN}, "A rejection without a reason"),
    ],
)
def test_what_is_refused_ends_the_run_as_failed_with_one_clear_message(deployed, parameters, message):
    run = deployed.run(**parameters)
    assert run["state"]["type"] == "FAILED"
    assert run["state"]["message"].startswith(message)
    assert len(run["state"]["message"].splitlines()) == 1
    assert run["parameters"]["token"] == "(blanked)"
    assert deployed.ledger.trial("small-0003").state is TrialState.PROPOSED
    assert deployed.ledger.trial("small-0006").state is TrialState.PROPOSED


def test_who_comes_second_reads_who_was_first_on_prefects_page(deployed):
    trial = deployed.ledger.trial("small-0004")
    deployed.ledger.move(trial.id, TrialState.REJECTED, trial.expect, "ben", "too hot")
    run = deployed.run(trials=["small-0004"], decision="approve", token=TOKEN)
    assert run["state"]["type"] == "FAILED"
    assert run["state"]["message"].startswith("small-0004 was rejected by ben ")
    assert run["state"]["message"].endswith(" ago (too hot). Nothing was changed.")


def test_the_form_refuses_what_cannot_be_and_a_run_made_without_it_tells_no_token_either(deployed):
    assert deployed.fire(trials=["small-0003"], decision="perhaps", token=TOKEN).status_code == 409
    run = deployed.run("unchecked", trials=["small-0003"], decision="perhaps", token=TOKEN)
    assert run["state"]["type"] == "FAILED"
    assert run["state"]["message"] == "decision: Input should be 'approve' or 'reject'. Nothing was changed."
    assert run["parameters"] == {"trials": ["small-0003"], "decision": "perhaps", "token": "(blanked)"}


def test_no_token_is_left_in_prefects_database(deployed):
    deployed.run(trials=["small-0005"], decision="reject", token=TOKEN, comment="no")
    kept = deployed.everything()
    assert "(blanked)" in kept
    assert "small-0005" in kept
    for secret in (TOKEN, WRONG):
        assert secret not in kept
