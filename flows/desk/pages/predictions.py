"""Predictions of edited designs, and of those that somebody is about to make of a proposal.

A page asks for it once it is shown. A process apart asks the model (``flows.predictions.process``), so that neither the
page nor anybody else's waits for that.
"""

from fastapi import APIRouter, Request
from starlette.responses import Response

from fieldcraft.flows.desk.entering import Visitor
from fieldcraft.flows.desk.rendering import page
from fieldcraft.flows.predictions.of_trial import Foreseen
from fieldcraft.flows.predictions.process import Busy, ModelProcess, Unavailable

router = APIRouter()
_MOST = 200  # variables


@router.get("/queue/{name}/predicted/{trial_id}")
async def predicted(request: Request, visit: Visitor, name: str, trial_id: str) -> Response:
    """The prediction for a trial's design, with the values ``x.NAME`` of the address; only who decides gives some."""
    models: ModelProcess = request.app.state.models
    given = [(key[2:], value.strip()) for key, value in request.query_params.multi_items() if key.startswith("x.")]
    if given:
        visit.person.require("decide")
    shown: dict[str, object] = {"found": None, "reason": "", "tried": bool(given)}
    status = 200
    try:
        shown["found"] = Foreseen.of(await models.ask(name[:200], trial_id[:300], dict(given[:_MOST])))
    except Unavailable as reason:
        shown["reason"] = str(reason).replace(" Nothing was changed.", "")
        status = 503 if isinstance(reason, Busy) else 200  # the page asks again
    return page(request, "predicted.html", visit, shown, status)
