"""The queue: a card for each proposal, and the decisions on them. Each decision is that of the command of its name."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.datastructures import FormData
from starlette.responses import JSONResponse, RedirectResponse, Response

from fieldcraft.flows.desk.board import Board, Standing
from fieldcraft.flows.desk.entering import Form, Visit, Visitor, text
from fieldcraft.flows.desk.parts.cards import cards_of
from fieldcraft.flows.desk.rendering import page
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.people import decisions, interventions
from fieldcraft.flows.people.picks import Wanted, pick
from fieldcraft.flows.rules.trial_labels import Choice
from fieldcraft.flows.text import counted
from fieldcraft.flows.views.pending import queue_data
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import Trial, TrialState

router = APIRouter()
REASONS = ("It cannot be made as asked", "Too close to an earlier trial", "Not worth its cost", "Not safe")
_WAITING = frozenset({TrialState.PROPOSED})  # a card is of a proposal: one that is decided since is stale
_CARDS = 30  # of a campaign on one page


@router.get("/queue")
def everything(request: Request, visit: Visitor) -> Response:
    """Proposals and held trials of all campaigns."""
    board: Board = request.app.state.board
    return _shown(request, visit, board, [one for one in board.standings() if not one.campaign.finished])


@router.get("/queue/{name}")
def of_campaign(request: Request, visit: Visitor, name: str) -> Response:
    """Proposals and held trials of one campaign."""
    board: Board = request.app.state.board
    return _shown(request, visit, board, [board.standing(name)])


def _shown(request: Request, visit: Visit, board: Board, standings: Sequence[Standing]) -> Response:
    queues = [_queue(board, standing) for standing in standings]
    waiting = sum(len(queue["waiting"]) for queue in queues)
    return page(request, "queue.html", visit, {"queues": queues, "count": waiting, "reasons": REASONS})


def _queue(board: Board, standing: Standing) -> dict[str, Any]:
    ledger, campaign = board.ledger, standing.campaign
    data = queue_data(ledger, campaign)
    proposals = ledger.trials(campaign.name, {TrialState.PROPOSED})
    cards = cards_of(standing, board.space(campaign), data["waiting"][:_CARDS], proposals)
    best = standing.status["best"]
    more = len(data["waiting"]) - len(cards)
    return {**data, "cards": cards, "record": campaign, "best": best, "more": max(0, more)}


@router.get("/queue/{name}/stale")
def stale(request: Request, visit: Visitor, name: str, choice: str) -> Response:
    """Fate of a trial that has changed since a person saw it."""
    board: Board = request.app.state.board
    ledger = board.ledger
    trial = ledger.trial(Choice.of(choice).trial)
    return JSONResponse({"text": str(decisions.overtaken(ledger, trial))})


@router.post("/queue/{name}/decide")
def decide(request: Request, visit: Visitor, form: Form, name: str) -> Response:
    """Approve or reject trials, all or none, each bound to the digest that its card showed."""
    board: Board = request.app.state.board
    person, ledger = visit.person.require("decide"), board.ledger
    choices = _choices(form.getlist("choice"), name, ledger)
    verb, reason = (
        text(form, "verb"),
        "; ".join(str(each).strip() for each in form.getlist("reason") if str(each).strip()),
    )
    if verb == "approve":
        done = decisions.approve(ledger, board.settings, person, choices, reason)
        return _done(request, visit, name, "approved", done)
    if verb == "reject":
        return _done(request, visit, name, "rejected", decisions.reject(ledger, person, choices, reason, _WAITING))
    raise InputError(f"{verb[:80]!r} is no decision: approve or reject. Nothing was changed.")


@router.post("/queue/{name}/edit")
def edit(request: Request, visit: Visitor, form: Form, name: str) -> Response:
    """Change variables of a proposal."""
    board: Board = request.app.state.board
    person, ledger = visit.person.require("decide"), board.ledger
    choice = _choice(form, name, ledger)
    given = {key[2:]: str(value).strip() for key, value in form.items() if key.startswith("x.")}
    before = ledger.trial(choice.trial).design
    values = {name: value for name, value in given.items() if value != str(before.get(name))}
    if not values:
        raise InputError(f"{choice.trial}: no value differs from what it is. Nothing was changed.")
    _, after = decisions.edit(ledger, board.settings, person, choice, values, text(form, "reason"), _WAITING)
    return _done(request, visit, name, f"revision {after.revision}, which needs an approval", [after])


@router.post("/queue/{name}/act")
def act(request: Request, visit: Visitor, form: Form, name: str) -> Response:
    """Retry, abandon or cancel a trial, set its priority, or pick it from the front."""
    board: Board = request.app.state.board
    settings, ledger = board.settings, board.ledger
    verb, reason = text(form, "verb"), text(form, "reason").strip()
    person = visit.person.require("decide" if verb in ("retry", "prioritise", "pick") else "operate")
    choice = _choice(form, name, ledger)
    seen = _version(given) if (given := text(form, "version")) else None
    if verb == "retry":
        what, trial = "approved again", interventions.retry(ledger, settings, person, choice.word, reason, seen)
    elif verb in ("abandon", "cancel"):
        stop = interventions.abandon if verb == "abandon" else interventions.cancel
        trial = stop(ledger, settings, person, choice.word, reason, seen)
        what = f"it is {trial.state} now"
    elif verb == "pick":
        wanted = Wanted(choice, version=_version(text(form, "version")))
        what, trial = "picked from the front", pick(ledger, person, name, wanted, reason)
    elif verb == "prioritise":
        trial = decisions.prioritise(ledger, person, choice.word, _priority(text(form, "priority")), reason)
        what = f"priority {trial.priority}"
    else:
        raise InputError(f"{verb[:80]!r} is nothing that can be done here. Nothing was changed.")
    return _done(request, visit, name, what, [trial], at_trial=text(form, "back") == "trial")


def _priority(given: str) -> int:
    if not given.removeprefix("-").isdecimal() or len(given) > 8:
        raise InputError(f"A priority is a whole number, and {given[:80]!r} is none. Nothing was changed.")
    return int(given)


def _version(given: str) -> int:
    if not given.isdecimal() or len(given) > 9:
        raise InputError("The form names no version of the result: load the page again. Nothing was recorded.")
    return int(given)


def _choice(form: FormData, name: str, ledger: Ledger) -> Choice:
    """The one trial of a form."""
    choices = _choices(form.getlist("choice"), name, ledger)
    if len(choices) > 1:
        raise InputError(f"{len(choices)} trials were chosen, and this is for one. Nothing was changed.")
    return choices[0]


def _choices(words: Sequence[Any], name: str, ledger: Ledger) -> list[Choice]:
    """Trials of the campaign as the person saw them; each word must say which version that was.

    Raises:
        InputError: one of them does not, or is of another campaign.
    """
    choices = [Choice.of(str(word)[:300]) for word in words]
    if not choices:
        raise InputError("No trial was chosen. Nothing was changed.")
    for choice in choices:
        if choice.digest is None or choice.revision is None:
            raise InputError(f"{choice.word}: the card names no digest: load the page again. Nothing was changed.")
        if (other := ledger.trial(choice.trial).campaign) != name:
            raise InputError(f"{choice.trial} is a trial of {other}, not of {name[:100]}. Nothing was changed.")
    return choices


def _done(
    request: Request, visit: Visit, name: str, what: str, trials: Sequence[Trial], at_trial: bool = False
) -> Response:
    ids = [trial.id for trial in trials]
    told = f"{', '.join(ids) if len(ids) <= 3 else counted(len(ids), 'trial')}: {what}."
    if request.headers.get("accept") == "application/json":
        return JSONResponse({"text": told, "trials": ids})
    visit.say(told)
    return RedirectResponse(f"/campaign/{name}/trial/{ids[0]}" if at_trial else f"/queue/{name}", 303)
