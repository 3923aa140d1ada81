"""The first page: all campaigns at a glance; and the stream that tells pages of commits."""

import json
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from fieldcraft.flows.desk.board import Board, Poller, Standing
from fieldcraft.flows.desk.entering import Visitor, found
from fieldcraft.flows.desk.rendering import page, pm
from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.text import counted
from fieldcraft.flows.views.data import outputs_text, quantity, settled

router = APIRouter()


@router.get("/")
def overview(request: Request, visit: Visitor) -> Response:
    """All campaigns at a glance."""
    board: Board = request.app.state.board
    cards = [one.once("glance", partial(glance, one)) for one in board.standings()]
    return page(request, "overview.html", visit, {"campaigns": cards})


def glance(standing: Standing) -> dict[str, Any]:
    """A campaign in brief: its state, the best so far, what is spent, and what waits for whom."""
    campaign, status = standing.campaign, standing.status
    kind, state = _state(status)
    return {
        "name": campaign.name,
        "kind": kind,
        "state": state,
        "settled": settled(standing.trials),
        "budget": int(status["budget"]),
        "best": _best(standing),
        "spent": spent_text(status["spending"]),
        "waits": _waits(status["waiting"]),
        "created": campaign.created,
    }


def _state(status: Mapping[str, Any]) -> tuple[str, str]:
    waiting = status["waiting"]
    if status["finished"]:
        return "ended", "ended"
    if status["running"] or status["training"]:
        return "running", "running" if status["running"] else "training its model"
    if waiting["approval"] or waiting["held"]:
        return "waits", "waits for a decision"
    if waiting["laboratory"]:
        return "waits", "with the laboratory"
    return "idle", "nobody runs it"


def _best(standing: Standing) -> tuple[str, str] | None:
    """The best so far, and its trial; the closest while no result is feasible, and None while there is no result."""
    status, campaign = standing.status, standing.campaign
    objective = campaign.environment["outputs"][0]
    model, measured = status["best_by_model"], status["best"]
    if status["picked"]:
        return f"{status['picked']['trial']} picked", status["picked"]["trial"]
    if status["front"] and status["front"]["trials"]:
        return counted(len(status["front"]["trials"]), "design") + " on the front", ""
    if model and model["feasible"]:
        return f"{objective['name']} {pm(model['mean'], model['sd'], objective['unit'])}", model["trial"]
    if measured:
        return outputs_text(campaign, {objective["name"]: measured["outputs"][objective["name"]]}), measured["trial"]
    closest = (status["feasibility"] or {}).get("least_violation")
    return ("none is feasible yet, the closest is", closest["trial"]) if closest else None


def spent_text(spending: Mapping[str, Any]) -> str:
    """Cost spent, and its limit; the experiments sent where the budget has no cost."""
    cost, trials = spending["cost"], spending["trials"]
    if cost["limit"] is None and not cost["unit"]:
        return f"{trials['spent']} of {trials['limit']} experiments sent"
    of = "" if cost["limit"] is None else f" of {quantity(float(cost['limit']), '')}"
    unit = f" {cost['unit']}" if cost["unit"] else ""
    reserved = f", {quantity(float(cost['reserved']), '')} reserved" if cost["reserved"] else ""
    return f"{quantity(float(cost['spent']), '')}{of}{unit}{reserved}"


def _waits(waiting: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Things that wait, each with its page's first word."""
    found = {
        "to decide": (waiting["approval"], "queue"),
        "held": (waiting["held"], "queue"),
        "with the laboratory": (waiting["laboratory"], "laboratory"),
        "to be sent again": (waiting["retries"], "queue"),
    }
    return [(f"{len(trials)} {what}", where) for what, (trials, where) in found.items() if trials]


@router.get("/live")
async def live(request: Request) -> Response:
    """Stream of the names of campaigns that have changed, until the session ends; a person need not do anything."""
    poller: Poller = request.app.state.poller
    person = found(request, renew=False).person.name
    if poller.full(person):
        raise HTTPException(503, "Too many pages are open: this one does not follow by itself.")

    async def told() -> AsyncIterator[str]:
        yield "retry: 2000\n\n"
        async for names in poller.changes(person):
            try:
                found(request, renew=False)
            except FieldcraftError:
                yield "event: ended\ndata: {}\n\n"
                return
            yield f"data: {json.dumps(sorted(names))}\n\n" if names else "event: here\ndata: {}\n\n"

    return StreamingResponse(told(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
