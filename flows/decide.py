"""The flow ``decide``: approve and reject from a form on Prefect's own page; a token says who decides.

Prefect stores a run's parameters as they were typed, and logs them where its own validation refuses them. So the run's
first act is to blank the token where it is stored, and the parameters are validated here, without being quoted. The
token of a run that ends before its first act is blanked by a hook.
"""

import sys
from typing import Any, Literal
from uuid import UUID

import httpx
from prefect import flow, runtime
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import PrefectException
from prefect.flows import Flow
from prefect.states import Completed, Failed
from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.identity import bearer
from fieldcraft.flows.people import decisions
from fieldcraft.flows.rules.trial_labels import Choice
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.text import one_line
from fieldcraft.storage.ledger import LedgerError
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Trial

BLANK = "(blanked)"


class _Form(BaseModel):
    """Input of the page's form; its validation errors quote none of it."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    trials: list[str]
    decision: Literal["approve", "reject"]
    token: SecretStr
    comment: str


def _blank(flow_run: UUID) -> str | None:
    """Overwrite the token in the stored parameters of a flow run. Returns the problem if that failed, else None."""
    try:
        with get_client(sync_client=True) as client:
            stored = client.read_flow_run(flow_run).parameters
            client.update_flow_run(flow_run, parameters={**stored, "token": BLANK})
    except (httpx.HTTPError, PrefectException, RuntimeError) as error:  # RuntimeError: its first look at the server
        problem = str(error).partition("\n")[0] or type(error).__name__
        return f"The token could not be blanked, for Prefect does not answer ({problem}): replace it"
    return None


def blank_afterwards(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Blank the token of a run that ended before its first act."""
    if (problem := _blank(flow_run.id)) is not None:
        print(f"{problem}.", file=sys.stderr)


@flow(
    name="decide",
    validate_parameters=False,  # Prefect's validation writes what it refuses into the worker's log
    persist_result=False,
    retries=0,
    on_failure=[blank_afterwards],
    on_crashed=[blank_afterwards],
    on_cancellation=[blank_afterwards],
)
def decide(
    trials: list[str],
    decision: Literal["approve", "reject"],
    token: SecretStr,
    comment: str = "",
) -> State[None]:
    """Approve or reject trials in the name of the token's owner, never in that of the account the worker runs under.

    Args:
        trials: Ids such as heat-0007, all of one campaign; heat-0007@2-3fa81c02d1e29b47, as 'fieldcraft queue' shows
            it, is refused should the trial have been edited meanwhile.
        decision: Holds for all the trials named, or for none.
        token: Says who decides. It is blanked in Prefect's database as soon as the run begins.
        comment: Kept with the decision; a rejection needs one.

    Returns:
        Completed with what was decided, or Failed with the one reason why nothing was.
    """
    if (problem := _blank(UUID(runtime.flow_run.id))) is not None:
        return Failed(message=f"{problem}. Nothing was changed.")
    given = {"trials": trials, "decision": decision, "token": token, "comment": comment}
    try:
        form = _Form.model_validate(given)
        name, done = _decided(form)
    except ValidationError as error:
        faults = error.errors(include_input=False, include_context=False, include_url=False)
        told = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults)
        return Failed(message=f"{told}. Nothing was changed.")
    except (FieldcraftError, LedgerError, OSError) as error:
        return Failed(message=one_line(str(error)))
    return Completed(message=f"{', '.join(trial.id for trial in done)}: {form.decision} by {one_line(name)}")


def _decided(form: _Form) -> tuple[str, tuple[Trial, ...]]:
    """Name of the person who decided, and the trials."""
    settings = settings_from()
    person, ledger = bearer(settings, form.token.get_secret_value(), "decide"), open_ledger(settings.ledger)
    choices = [Choice.of(word) for word in form.trials]
    if form.decision == "approve":
        return person.name, decisions.approve(ledger, settings, person, choices, form.comment)
    return person.name, decisions.reject(ledger, person, choices, form.comment)
