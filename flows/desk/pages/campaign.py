"""Pages of one campaign: its standing with the table of trials, and one trial."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from fieldcraft.flows.analysis.front import on_front
from fieldcraft.flows.analysis.incomplete import incomplete_data
from fieldcraft.flows.analysis.noise import by_people
from fieldcraft.flows.analysis.predicted import predicted_data
from fieldcraft.flows.desk.board import Board
from fieldcraft.flows.desk.entering import Visitor
from fieldcraft.flows.desk.pages.overview import glance
from fieldcraft.flows.desk.parts.trials_table import Wanted, table_of
from fieldcraft.flows.desk.rendering import page
from fieldcraft.flows.notices.deliver import channels
from fieldcraft.flows.results.as_run import known_to_be_run
from fieldcraft.flows.views.data import trace_data
from fieldcraft.flows.views.text import status_lines, trace_text, trial_facts
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import Event, TrialState

router = APIRouter()
_MEASURED = frozenset({TrialState.RUNNING, TrialState.HELD, TrialState.COMPLETED})  # whose results people enter
_ABOVE = frozenset({"design", "ran", "outputs", "foreseen"})  # facts that the page of a trial has elsewhere
_EVENTS = 30  # of the history that a page shows


def _wanted(sort: str = "trial", down: bool = True, state: str = "", text: str = "", page: int = 1) -> Wanted:
    return Wanted(sort[:200], down, state[:20], text[:200], page)


@router.get("/campaign/{name}")
def campaign(request: Request, visit: Visitor, name: str, wanted: Annotated[Wanted, Depends(_wanted)]) -> Response:
    """One campaign, live."""
    board: Board = request.app.state.board
    standing = board.standing(name)
    ledger = board.ledger
    known = {item["trial"]: item["outputs"] for item in standing.status["incomplete"]}
    lines = status_lines(standing.campaign, standing.status, telling=bool(channels(board.settings)))
    values: dict[str, Any] = {
        "campaign": standing.campaign,
        "status": standing.status,
        "front": [entry["trial"] for entry in standing.status["front"]["trials"]] if standing.status["front"] else [],
        "glance": standing.once("glance", lambda: glance(standing)),
        "lines": lines.splitlines(),
        "fielded": [t.id for t in standing.trials if t.field is not None and t.state is TrialState.COMPLETED][-200:],
        "table": standing.once(wanted, lambda: table_of(standing.campaign, standing.trials, wanted, known)),
        "history": _latest(ledger, name, standing.event),
    }
    return page(request, "campaign.html", visit, values)


def _latest(ledger: Ledger, name: str, last: int) -> list[Event]:
    """The last events of a campaign, the newest first; between them may lie any number of those of others."""
    reach = 200
    while len(found := ledger.history(name, after=max(0, last - reach))) < _EVENTS and reach < last:
        reach *= 8
    return list(found[-_EVENTS:][::-1])


@router.get("/campaign/{name}/trial/{trial_id}")
def trial(request: Request, visit: Visitor, name: str, trial_id: str) -> Response:
    """One trial: its design, prediction, approvals, results, history and lineage."""
    board: Board = request.app.state.board
    ledger = board.ledger
    record, one = ledger.campaign(name), ledger.trial(trial_id)
    if one.campaign != name:
        raise HTTPException(404, f"{one.id} is a trial of {one.campaign}, not of {name}.")
    fields = fields_at(board.settings.fields)
    model = ledger.product(name, one.origin.model.iteration, "train") if one.origin.model else None
    lineage = trace_data(
        ledger,
        one,
        fields.place(one.field) if one.field else None,
        fields.place(model.reference) if model and model.reference else None,
    )
    results = ledger.results(one.id)
    picked, predicted = ledger.picked(name), predicted_data(record, one.origin)
    values = {
        "campaign": record,
        "trial": one,
        "predicted": {each["output"]: each for each in (predicted, *predicted.get("others", ()))} if predicted else {},
        "facts": [fact for fact in trial_facts(ledger, record, one) if fact[0] not in _ABOVE],
        "approvals": ledger.approvals(one.id),
        "results": results,
        "ran": {**one.design, **(one.ran or known_to_be_run(results, one.attempt) or {})},
        "history": ledger.history(name, one.id),
        "lineage": trace_text(lineage),
        "incomplete": next(iter(incomplete_data(ledger, record, [one])), None),
        "laboratory": by_people(record) and one.state in _MEASURED,
        "on_front": one.id in on_front(record, board.standing(name).trials),
        "picked": picked is not None and picked.trial == one.id,
    }
    return page(request, "trial.html", visit, values)
