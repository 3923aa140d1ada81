"""Charts of the desk as JSON: of a campaign, of a trial's field, and of a proposal among the trials seen."""

import json
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from fieldcraft.flows.analysis.emulated_fields import beside, expected
from fieldcraft.flows.analysis.noise import by_people
from fieldcraft.flows.analysis.predicted import predictions_met
from fieldcraft.flows.charts import constraints, evidence, fields, front, model, space, spending
from fieldcraft.flows.charts.chart import Chart, labelled
from fieldcraft.flows.charts.page import STATIC, plotly_js
from fieldcraft.flows.charts.series import Some, completed
from fieldcraft.flows.charts.trace import trace
from fieldcraft.flows.desk.board import Board, Standing
from fieldcraft.flows.desk.entering import Visitor
from fieldcraft.flows.desk.parts.cards import nearest
from fieldcraft.flows.desk.parts.predicted_field import predicted_field
from fieldcraft.flows.desk.rendering import page
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.products import trainings
from fieldcraft.flows.report.answers import decisions_of
from fieldcraft.flows.report.comparison import comparison_chart
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.views.compare import compare
from fieldcraft.flows.views.plot import drawable, field_of_places
from fieldcraft.flows.views.regret import most_hypervolume, optimum_of
from fieldcraft.flows.wiring.build import rewire
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.physics.networks import network_at
from fieldcraft.models.numerics.scores import scores_of
from fieldcraft.storage.fields import FieldError, fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import CampaignRecord, Trial, TrialState

router = APIRouter()
_WHOLE = 2000  # trials up to which predictions and proofs are drawn, for which each is read whole
_KEPT = 24  # answers that are kept
_AUDIT = 1000  # decisions that a page shows
Groups = Mapping[str, Sequence[Chart]]


class Figures:
    """Answers that were made for a state of the ledger, kept for all viewers; may be used by several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[int, dict[str, list[Chart]]]] = OrderedDict()
        self._wired: dict[str, Campaign | None] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def of(self, key: str, event: int, made: Callable[[], Groups]) -> Groups:
        """Charts under a key as of an event; made once."""
        with self._locks[key]:  # one making for all who wait for it
            kept = self._kept.pop(key, None)
            if kept is None or kept[0] != event:
                kept = event, {title: list(charts) for title, charts in made().items()}
            self._kept[key] = kept
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return kept[1]

    def wired(self, settings: Settings, campaign: CampaignRecord) -> Campaign | None:
        """Components of a campaign but its algorithm; None where its code is not here."""
        if campaign.digest not in self._wired:
            try:
                self._wired[campaign.digest] = rewire(campaign.spec, settings, algorithm=False)
            except InputError:
                return None
        return self._wired[campaign.digest]


def serve_scripts(app: FastAPI) -> None:
    """Serve plotly.js and the charts' own scripts below ``/static``; call it before that is mounted."""
    app.mount("/static/plotly", StaticFiles(directory=plotly_js().parent))
    app.mount("/static/charts", StaticFiles(directory=STATIC))


def answer(request: Request, groups: Groups, event: int) -> Response:
    """Charts without their tables, which are asked for one by one; nothing where the browser has them."""
    tag = f'"{event}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    charts = [
        {**chart.payload(), "rows": None, "group": group, "place": f"{group}/{place}"}
        for group, found in groups.items()
        for place, chart in enumerate(found)
    ]
    return Response(json.dumps({"charts": charts}), media_type="application/json", headers={"ETag": tag})


def rows_of(groups: Groups, group: str, place: int) -> Response:
    """The table behind one of the charts."""
    charts = groups.get(group, [])
    if not 0 <= place < len(charts):
        raise HTTPException(404, "There is no such picture.")
    chart = charts[place]
    told = {"head": list(chart.head), "rows": [list(row) for row in chart.rows]}
    return Response(json.dumps(told), media_type="application/json")


def _campaign(request: Request, name: str) -> tuple[Groups, int]:
    board: Board = request.app.state.board
    figures: Figures = request.app.state.figures
    standing = board.standing(name)
    wired = figures.wired(board.settings, standing.campaign)
    return figures.of(name, standing.event, lambda: _groups(board, standing, wired)), standing.event


@router.get("/campaign/{name}/figures")
def campaign(request: Request, visit: Visitor, name: str) -> Response:
    """All charts of a campaign."""
    return answer(request, *_campaign(request, name))


@router.get("/campaign/{name}/figures/{group}/{place}")
def campaign_rows(request: Request, visit: Visitor, name: str, group: str, place: int) -> Response:
    """The table behind one of them."""
    return rows_of(_campaign(request, name)[0], group, place)


def _groups(board: Board, standing: Standing, wired: Campaign | None) -> Groups:
    """Charts by the section of the page."""
    record, ledger = standing.campaign, board.ledger
    known = optimum_of(wired) if wired else None
    optimum, target = None if known is None else known.value, (record.spec.get("stop") or {}).get("target")
    whole = ledger.trials(record.name) if len(standing.trials) <= _WHOLE else None
    trials: Sequence[Some] = whole if whole is not None else standing.trials
    if not trials:
        return {}
    pick = ledger.picked(record.name)
    goals = front.fronts(record, trials, pick.trial if pick else None)
    several = [*goals, front.hypervolume(record, trials, most_hypervolume(wired) if wired else None)] if goals else []
    done = completed(trials)
    margins = constraints.margins(record, trials) if done else None
    notes = trainings(ledger, record.name)
    scores = evidence.scores({iteration: scores_of(told.metrics) for iteration, told in notes.items()})
    trained = {iteration: told.seconds for iteration, told in notes.items()}
    timed = spending.times(trials, trained, "experiment" if by_people(record) else "simulation")
    return {
        "progress": several or [trace(record, trials, optimum, target)],
        "designs": [space.where(record, trials, _places(board.settings, record, whole or ()), optimum)] if done else [],
        "model": _predicted(record, whole or ()) + ([scores] if scores else []),
        "constraints": [margins, constraints.violation(record, trials)] if margins else [],
        "proofs": _proofs(record, whole or ()),
        "cost": [spending.cost(record, trials), *([timed] if timed else [])],
    }


def _places(settings: Settings, record: CampaignRecord, trials: Sequence[Trial]) -> Any:
    """The field in which the designs are places; None where there is none, or the store has lost it."""
    try:
        return field_of_places(settings, record, trials)
    except FieldError:  # the doctor tells of it; the designs are shown without
        return None


def _predicted(record: CampaignRecord, trials: Sequence[Trial]) -> list[Chart]:
    source = "measured" if by_people(record) else "simulated"
    return [model.foreseen(record, name, met, source) for name, met in predictions_met(record, trials).items()]


def _proofs(record: CampaignRecord, trials: Sequence[Trial]) -> list[Chart]:
    output = record.environment["outputs"][0]
    label = labelled(output["name"], output["unit"])
    proven = [(trial, trial.origin.certificate) for trial in trials if trial.origin.certificate is not None]
    bounds = {trial.iteration: trial.origin.regret for trial in trials if trial.origin.regret is not None}
    gains = evidence.gains(proven, label)
    return [
        *([evidence.gaps(proven)] if proven else []),
        *([gains] if gains else []),
        *([evidence.bounds(bounds, label)] if bounds else []),
    ]


@router.get("/campaign/{name}/field/{trial_id}")
def field(request: Request, visit: Visitor, name: str, trial_id: str) -> Response:
    """Charts of a trial's field, and of its prediction where the problem states the equation."""
    trial = _trial(request, name, trial_id)
    return answer(request, _field_of(request, trial), trial.version)


@router.get("/campaign/{name}/field/{trial_id}/{group}/{place}")
def field_rows(request: Request, visit: Visitor, name: str, trial_id: str, group: str, place: int) -> Response:
    """The table behind one of them."""
    return rows_of(_field_of(request, _trial(request, name, trial_id)), group, place)


def _trial(request: Request, name: str, trial_id: str) -> Trial:
    board: Board = request.app.state.board
    trial = board.ledger.trial(trial_id)
    if trial.campaign != name:
        raise HTTPException(404, f"{trial.id} is a trial of {trial.campaign}, not of {name}.")
    return trial


def _field_of(request: Request, trial: Trial) -> Groups:
    board: Board = request.app.state.board
    figures: Figures = request.app.state.figures

    def made() -> Groups:
        ledger = board.ledger
        record = ledger.campaign(trial.campaign)
        return {"field": _field_charts(board.settings, ledger, figures.wired(board.settings, record), trial)}

    return figures.of(f"{trial.campaign} {trial.id}", trial.version, made)


def _field_charts(settings: Settings, ledger: Ledger, wired: Campaign | None, trial: Trial) -> list[Chart]:
    if trial.field is None:
        return []
    dataset = fields_at(settings.fields).read(trial.field)
    if wired is not None and (stated := wired.problem.parametric) is not None and len(stated.cells) <= 2:
        found = beside(wired.problem, trial.actual, dataset, network_at(wired, ledger))
        if found is not None:
            return fields.twice(found)
    array, foreseen = drawable(dataset), predicted_field(settings, ledger, trial)
    if array is not None and foreseen is not None:
        measured = "Measured" if by_people(ledger.campaign(trial.campaign)) else "Simulated"
        return _on_one_scale({measured: array, "Predicted by the model that proposed it": foreseen})
    return [] if array is None else _on_one_scale({"Field": array})


def _on_one_scale(arrays: Mapping[str, Any]) -> list[Chart]:
    """Charts of several fields by their titles, which can be compared by their colours or heights."""
    spans = [end for array in arrays.values() for end in fields.reach(array.values)]
    limits = (min(spans), max(spans)) if len(arrays) > 1 else None
    charts = [fields.field(title, array, limits) for title, array in arrays.items()]
    return [chart for chart in charts if chart is not None]


@router.get("/queue/{name}/figures/{trial_id}")
def proposal(request: Request, visit: Visitor, name: str, trial_id: str) -> Response:
    """A proposal among the trials seen, the field expected of it, and the fields of the nearest trials."""
    trial = _trial(request, name, trial_id)
    groups, event = _proposal(request, trial)
    return answer(request, groups, event)


@router.get("/queue/{name}/figures/{trial_id}/{group}/{place}")
def proposal_rows(request: Request, visit: Visitor, name: str, trial_id: str, group: str, place: int) -> Response:
    """The table behind one of them."""
    return rows_of(_proposal(request, _trial(request, name, trial_id))[0], group, place)


def _proposal(request: Request, trial: Trial) -> tuple[Groups, int]:
    board: Board = request.app.state.board
    figures: Figures = request.app.state.figures
    standing = board.standing(trial.campaign)

    def made() -> Groups:
        wired, done = figures.wired(board.settings, standing.campaign), completed(standing.trials)
        place = space.where(standing.campaign, standing.trials, proposal=trial.design) if done else None
        return {"place": [place] if place else [], "fields": _near(board, standing, wired, trial)}

    return figures.of(f"{trial.campaign} ? {trial.id}", standing.event, made), standing.event


def _near(board: Board, standing: Standing, wired: Campaign | None, proposal: Trial) -> list[Chart]:
    """The field expected of a proposal, by equation and by model, then those of the nearest trials, on one scale."""
    design = proposal.design
    seen = [t for t in completed(standing.trials) if t.field is not None]
    near = [each[0] for each in nearest(standing, board.space(standing.campaign), design, seen)]
    arrays: dict[str, Any] = {}
    if wired is not None and (found := expected(wired.problem, design, network_at(wired, board.ledger))) is not None:
        arrays["Expected of this design"] = found
    if (foreseen := predicted_field(board.settings, board.ledger, proposal)) is not None:
        arrays["Predicted of this design by the model"] = foreseen
    for trial in board.ledger.trials(standing.campaign.name, {TrialState.COMPLETED}) if near else ():
        if trial.id in near and trial.field is not None:
            try:
                array = drawable(fields_at(board.settings.fields).read(trial.field))
            except FieldError:  # it is lost, as the doctor says; the others are shown all the same
                continue
            if array is not None:
                arrays[f"Seen in {trial.id}"] = array
    return _on_one_scale(arrays)


@router.get("/compare/figures")
def compared(request: Request, visit: Visitor, a: str, b: str) -> Response:
    """Curves of two campaigns."""
    groups, event = _compared(request, a, b)
    return answer(request, groups, event)


@router.get("/compare/figures/{group}/{place}")
def compared_rows(request: Request, visit: Visitor, a: str, b: str, group: str, place: int) -> Response:
    """The table behind them."""
    return rows_of(_compared(request, a, b)[0], group, place)


def _compared(request: Request, a: str, b: str) -> tuple[Groups, int]:
    board: Board = request.app.state.board
    figures: Figures = request.app.state.figures
    ledger = board.ledger
    event = ledger.last_event(a) + ledger.last_event(b)

    def made() -> Groups:
        data = compare(board.settings, ledger, (a, b))
        return {"progress": [comparison_chart(data, (a, b))] if data["comparable"] else []}

    return figures.of(f"{a} / {b}", event, made), event


@router.get("/campaign/{name}/audit")
def audit(request: Request, visit: Visitor, name: str) -> Response:
    """Decisions on a campaign: who decided what, when and why; those of policies counted."""
    board: Board = request.app.state.board
    ledger = board.ledger
    people, automatic = decisions_of(ledger.history(name))
    shown = people[-_AUDIT:][::-1]
    values = {"campaign": ledger.campaign(name), "decisions": shown, "count": len(people), "automatic": automatic}
    return page(request, "audit.html", visit, values)
