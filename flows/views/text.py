"""Views of a campaign as text; ``flows.views.data`` has the same as data.

Comments, reasons and notes come from people and simulators: control characters in them are escaped.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fieldcraft.flows.analysis.best import objective_of
from fieldcraft.flows.analysis.feasibility import feasible_text, trial_feasibility, verdict_text, violation_text
from fieldcraft.flows.analysis.front import dominated_by, front_text
from fieldcraft.flows.analysis.levels import level_said
from fieldcraft.flows.analysis.picks import picked_text
from fieldcraft.flows.analysis.predicted import predicted_data
from fieldcraft.flows.notices.deliver import due_at, is_due, text_of
from fieldcraft.flows.text import ago, clock, counted, one_line
from fieldcraft.flows.views.data import (
    budget_unit,
    design_text,
    incomplete_text,
    next_steps,
    outputs_text,
    predicted_text,
    quantity,
    quantity_pm,
    ranked,
    revisions,
    status_data,
)
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import Approval, CampaignRecord, Event, Notice, Origin, Result, Trial, TrialState

_MOST_SHOWN = 8  # designs of a front, in a text
_TIMES = frozenset({"created", "expires"})  # keys of a lineage, in seconds since the epoch


def status_text(ledger: Ledger, campaign: CampaignRecord, *, telling: bool = True) -> str:
    """State of a campaign, its spending, and what a person can do next.

    Args:
        ledger: Ledger of the campaign.
        campaign: The campaign.
        telling: True if notices are delivered; otherwise waiting ones are not mentioned.
    """
    return status_lines(campaign, status_data(ledger, campaign), telling=telling)


def status_lines(campaign: CampaignRecord, data: Mapping[str, Any], *, telling: bool, tracking: bool = True) -> str:
    """Text of ``status_text`` from the data of ``status_data``."""
    lines = [f"{campaign.name}: {_condition(data)}", _trials(data), *_levels(data), *_costs(data)]
    lines += [f"  {line}" for line in standing_lines(campaign, data)]
    if data["fruitless"]:
        lines.append(f"  failed   {data['fruitless']}")
    if data["untrained"]:
        lines.append(f"  model    none of all results: its training failed ({one_line(data['untrained'])})")
    if data["corrected"] or data["retracted"]:
        lines.append(f"  results  {data['corrected']} corrected, {data['retracted']} retracted")
    lines += [f"  part     {item['trial']} {incomplete_text(campaign, item)}" for item in data["incomplete"]]
    lines += [f"  held     {item['trial']}: {one_line(item['reason'])}" for item in data["waiting"]["held"]]
    lines += [f"  retry    {item['trial']} {_until(item['due'])}" for item in data["waiting"]["retries"]]
    lines += _notices(data, telling)
    if data["untracked"] and tracking:
        lines.append(f"  MLflow   {counted(data['untracked'], 'event')} not shown yet: 'fieldcraft export mlflow' does")
    return "\n".join([*lines, *(f"  next     {step}" for step in next_steps(data))])


def standing_lines(
    campaign: CampaignRecord, data: Mapping[str, Any], width: int = 8, most: float | None = None
) -> list[str]:
    """The best designs, of several objectives the front, and the number of feasible ones.

    Args:
        campaign: Their campaign.
        data: Data of ``flows.analysis.best.best_data``, with ``feasibility``, ``front`` and ``picked``.
        width: Width of the labels, in characters.
        most: Largest hypervolume that is possible; None if it is not known.
    """
    front = _front(campaign, data["front"], width, most)
    picked = data["picked"]
    front += [f"{'picked':<{width}} {picked_text(picked)}"] if picked else []
    return [*_best(campaign, data, width), *front, *_feasible(campaign, data["feasibility"], width)]


def _front(campaign: CampaignRecord, found: Mapping[str, Any] | None, width: int, most: float | None) -> list[str]:
    """The front's size and hypervolume, and its designs, evenly spread where there are many."""
    if found is None:
        return []
    members, lines = found["trials"], [f"{'front':<{width}} {front_text(found, most)}"]
    shown = members
    if len(members) > _MOST_SHOWN:
        shown = [members[round(i * (len(members) - 1) / (_MOST_SHOWN - 1))] for i in range(_MOST_SHOWN)]
    for entry in shown:
        outputs = {each["output"]: entry["outputs"][each["output"]] for each in found["objectives"]}
        at = design_text(campaign, entry["design"])
        lines.append(f"{'':{width}} {outputs_text(campaign, outputs)} in {entry['trial']} at {at}")
    if len(members) > len(shown):
        more = f"and {len(members) - len(shown)} more; 'fieldcraft export {campaign.name} --csv FILE' writes them all"
        lines.append(f"{'':{width}} {more}")
    return lines


def _best(campaign: CampaignRecord, data: Mapping[str, Any], width: int) -> list[str]:
    """The best result and, where there is one, the best by the model."""
    model, measured, lines = data["best_by_model"], data["best"], list[str]()
    width = 17 if model else width
    if model:
        what = "best by the model" if model["feasible"] else "none is feasible "
        lines += [f"{what} {_expected(campaign, model)}", f"{'':17} at {design_text(campaign, model['design'])}"]
    if measured:
        outputs = outputs_text(campaign, measured["outputs"])
        lines.append(f"{'best result' if model else 'best':<{width}} {outputs} in {measured['trial']}")
        lines.append(f"{'':{width}} at {design_text(campaign, measured['design'])}")
    return lines


def _expected(campaign: CampaignRecord, model: Mapping[str, Any]) -> str:
    """``strength 50.2 +- 0.8 MPa, porosity -0.2 +- 0.1 % in oven-0003 (model of iteration 4, of 5 results)``."""
    objective, *_ = campaign.environment["outputs"]
    said = {objective["name"]: model, **model["constraints"]}
    units = {output["name"]: output["unit"] for output in campaign.environment["outputs"]}
    parts = [f"{name} {quantity_pm(each['mean'], each['sd'], units.get(name, ''))}" for name, each in said.items()]
    about = f"model of iteration {model['iteration']}, of {counted(model['readings'], 'result')}"
    if model["probability"] is not None and model["probability"] < 1:
        about += f"; feasible with probability {model['probability']:.3g}"
    surely = "" if model["feasible"] else "by the model; most probably "
    return f"{surely}{', '.join(parts)} in {model['trial']} ({about})"


def _feasible(campaign: CampaignRecord, found: Mapping[str, Any] | None, width: int) -> list[str]:
    """Number of feasible designs and, while there are none, the design with the least violation."""
    if found is None:
        return []
    lines = [f"{'feasible':<{width}} {feasible_text(found)}"]
    if closest := found["least_violation"]:
        violation = violation_text(campaign, closest["each"])
        lines.append(f"{'closest':<{width}} violation {violation} in {closest['trial']}; no result is feasible yet")
        lines.append(f"{'':{width}} at {design_text(campaign, closest['design'])}")
    return lines


def _condition(data: Mapping[str, Any]) -> str:
    if data["finished"]:
        return f"finished ({one_line(data['finished'])})"
    if data["running"]:
        return f"running (pid {data['running']['pid']} on {data['running']['host']})"
    waiting = data["waiting"]
    waits = data["training"] or waiting["approval"] or waiting["held"] or waiting["laboratory"]
    return "waits" if waits else "stopped"


def _levels(data: Mapping[str, Any]) -> list[str]:
    """Runs of each level of the simulator, which are no results."""
    return [f"  {'':8} {each['level']}: {_counts(each['states'])}" for each in data.get("levels", ())]


def _counts(states: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state.lower()}" for state, count in states.items()) or "none yet"


def _trials(data: Mapping[str, Any]) -> str:
    sent, states = data["spending"]["trials"], _counts(data["states"])
    imported = f"; {data['imported']} imported, which count to no limit" if data["imported"] else ""
    return f"  trials   {sent['spent']} of {sent['limit']} sent: {states}{imported}"


def _costs(data: Mapping[str, Any]) -> list[str]:
    """Cost and wall time, where they have a limit, or a unit and a value."""
    lines = []
    for label, what in (("cost", "cost"), ("time", "seconds")):
        sums = data["spending"][what]
        known = {key: None if sums[key] is None else float(sums[key]) for key in ("spent", "reserved", "limit")}
        if what == "seconds":
            known = {key: None if value is None else round(value, 1) for key, value in known.items()}
        spent, reserved, limit = (None if each is None else quantity(each, sums["unit"]) for each in known.values())
        if limit is None and not (sums["unit"] and sums["spent"]):
            continue
        more = f", {reserved} reserved" if sums["reserved"] else ""
        lines.append(f"  {label:<8} {spent}{f' of {limit}' if limit else ''} spent{more}")
    return lines


def _notices(data: Mapping[str, Any], telling: bool) -> list[str]:
    name, failing, waiting = data["campaign"], data["notices"]["failing"], data["notices"]["waiting"]
    if failing:
        return [f"  notices  {failing} could not be told; 'fieldcraft notices {name} --deliver' tries and says why"]
    return [f"  notices  {waiting} not told; 'fieldcraft notices {name}' shows them"] if waiting and telling else []


def show_text(ledger: Ledger, trial: Trial, log: Path | None = None) -> str:
    """A trial with its approvals, revisions, results and history, and where its simulator's output is kept."""
    campaign, history = ledger.campaign(trial.campaign), ledger.history(trial.campaign, trial.id)
    lines = [_title(trial), *(f"  {label:<8} {fact}" for label, fact in trial_facts(ledger, campaign, trial))]
    lines += [f"  log      {one_line(str(log))}"] if log else []
    sections = {
        "approvals": [_approval(approval) for approval in ledger.approvals(trial.id)],
        "revisions": [_revision(campaign, revision) for revision in revisions(history)],
        "results": [_result(campaign, result) for result in ledger.results(trial.id)],
        "history": [_event(event) for event in history],
    }
    for name, rows in sections.items():
        lines += [f"  {name}", *(f"    {row}" for row in rows)] if rows else []
    return "\n".join(lines)


def _title(trial: Trial) -> str:
    place = f"iteration {trial.iteration}, slot {trial.slot}, attempt {trial.attempt}"
    title = f"{trial.id}: {trial.state.lower()}, {place}"
    if trial.failure:
        title += f", failure {trial.failure}"
    if trial.revision > 1:
        title += f", revision {trial.revision}"
    return f"{title}, priority {trial.priority}" if trial.priority else title


def trial_facts(ledger: Ledger, campaign: CampaignRecord, trial: Trial) -> list[tuple[str, str]]:
    """Labelled facts on a trial: its design, outputs, verdict, prediction, model, cost and field."""
    above = dominated_by(ledger, campaign, trial)
    retracted = trial.state is TrialState.COMPLETED and trial.outputs is None
    outputs, objective = trial.outputs or {}, objective_of(campaign)
    below = objective.constraints if trial.level is None else ()  # those of a coarse run are not judged
    first = {name: value for name, value in outputs.items() if name not in below}
    facts = [("design", design_text(campaign, trial.design))]
    if said := level_said(campaign, trial.level):
        facts.append(("level", f"{said.removeprefix('level ')}, a coarser run that is no result"))
    facts.append(("outputs", "retracted" if retracted else outputs_text(campaign, first)))
    if (found := trial_feasibility(objective, trial)) is not None:
        limits = [outputs_text(campaign, {name: outputs[name]}) for name in found["constraints"]]
        facts += [("g <= 0", ", ".join(limits))] if limits else []
        facts.append(("feasible", verdict_text(campaign, found)))
    if above is not None:
        others = f"{', '.join(above[:3])}{f' and {len(above) - 3} more' if len(above) > 3 else ''}"
        facts.append(
            (
                "front",
                f"dominated by {others}"
                if above
                else "on it: no other result is as good in every objective and better in one",
            )
        )
    if differing := design_text(campaign, trial.actual, unlike=trial.design):
        facts.insert(1, ("ran", f"{differing}, other than asked"))
    if (predicted := predicted_data(campaign, trial.origin)) is not None:
        facts.append(("foreseen", _foreseen(predicted, trial)))
    facts += _model(trial.origin, campaign.environment["outputs"][0]["unit"])
    cost, spent = (quantity(value, budget_unit(campaign)) for value in (trial.cost, trial.spent))
    facts.append(("cost", f"{cost} expected of an attempt, {spent} spent in {trial.seconds:.1f} s"))
    if trial.field:
        facts.append(("field", f"{trial.field.digest[:16]}... ({trial.field.size} bytes)"))
    return facts


def _foreseen(predicted: Mapping[str, Any], trial: Trial) -> str:
    """The prediction for the design as proposed, even if it was edited since."""
    several = "," if "others" in predicted else ""
    of = "" if trial.level is None else " of the target"
    edited = f" before the edit ('fieldcraft predict {trial.id}' asks for its design as it is now)"
    said = predicted_text(predicted, named=False)
    return f"{said}{of}{several} by {trial.origin.algorithm}{edited if trial.revision > 1 else ''}"


def _model(origin: Origin, unit: str) -> list[tuple[str, str]]:
    """Facts on the model behind a design: scores of the candidates, the certificate, and remarks."""
    scores = [f"{one_line(name)} {value:.1f}" for name, value in ranked(origin.scores).items()]
    facts = [("scores", ", ".join(scores))] if scores else []
    if (proven := origin.certificate) is not None:
        text = f"{proven.status}: no acquisition of the space exceeds this one's by more than {proven.gap:.3g}"
        if proven.improvement is not None:
            gain = quantity(float(f"{proven.improvement:.3g}"), unit)
            text += f"; no design can be expected to improve on the best by more than {gain}"
        exact = "" if proven.bound_of == "exact" else ", as it was approximated"
        facts.append(("proven", f"{text}{exact} ({counted(proven.nodes, 'node')})"))
    if (bound := origin.regret) is not None:
        left, lower = (quantity(float(f"{value:.6g}"), unit) for value in (bound.regret, bound.lower))
        text = f"no design has less than {lower} by the equations, {left} below the best result"
        facts.append(("regret", f"{text} ({bound.status}, boxes: {bound.nodes})"))
    said = [f"{one_line(name)}: {one_line(text)}" for name, text in origin.remarks.items()]
    return facts + ([("model", "; ".join(said))] if said else [])


def _approval(approval: Approval) -> str:
    text = f"{clock(approval.created)}  {one_line(approval.by)}, policy {one_line(approval.policy)}"
    text += f", revision {approval.revision}, {counted(approval.attempts, 'attempt')}"
    if approval.expires is not None:
        text += f", until {clock(approval.expires)}"
    if approval.code is not None:
        text += f", code {approval.code[:16]}"
    if approval.comment:
        text += f": {one_line(approval.comment)}"
    return text if approval.voided is None else f"{text} [void: {one_line(approval.voided)}]"


def _revision(campaign: CampaignRecord, revision: Mapping[str, Any]) -> str:
    was, now = revision["was"], revision["design"]
    moved = f"{design_text(campaign, was, unlike=now)} -> {design_text(campaign, now, unlike=was)}"
    return f"{clock(revision['created'])}  {one_line(revision['by'])}: {moved}: {one_line(revision['reason'])}"


def _result(campaign: CampaignRecord, result: Result) -> str:
    text = f"{result.id}  {clock(result.created)}  {judged(result)}, attempt {result.attempt}"
    if result.outputs:
        text += f": {outputs_text(campaign, result.outputs, result.details.get('sd'))}"
    text += f", by {one_line(result.by)} ({one_line(result.source)})"
    note = result.details.get("note")
    return f"{text}: {one_line(str(note))}" if note else text


def judged(result: Result) -> str:
    """The verdict on a result in words: ``accepted``, ``parts withdrawn``, ``correction of 3``."""
    if result.replaces is not None:
        return f"{'retraction' if result.verdict == 'retraction' else 'correction'} of {result.replaces}"
    return "parts withdrawn" if result.withdraws else str(result.verdict)


def _event(event: Event) -> str:
    moved = f"{event.before or ''} -> {event.after}" if event.after and event.after != event.before else event.action
    return f"{clock(event.created)}  {moved.strip():<24} {one_line(event.by)}: {one_line(event.reason)}"


def trace_text(data: Mapping[str, Any]) -> str:
    """A trial's lineage as indented text."""
    return "\n".join(_lines(data, 0))


def _lines(data: Mapping[str, Any], depth: int) -> list[str]:
    lines = []
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            lines += [f"{'  ' * depth}{key}", *_lines(value, depth + 1)]
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for number, item in enumerate(value):
                lines += [f"{'  ' * depth}{key} {number + 1}", *_lines(item, depth + 1)]
        else:
            text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            if key in _TIMES and value is not None:
                text = clock(value)
            empty = text is None or isinstance(text, Mapping)
            lines.append(f"{'  ' * depth}{key:<14} {'-' if empty else one_line(str(text))}")
    return lines


def notices_text(notices: Sequence[Notice]) -> str:
    """The notices that were not delivered yet."""
    return "\n".join(_notice(notice) for notice in notices) or "Nothing waits to be told."


def _notice(notice: Notice) -> str:
    tried = f" [could not be told; tries: {notice.tries}; next try {_next_try(notice)}]" if notice.tries else ""
    return f"{notice.id}  {clock(notice.created)}  {text_of(notice)}{tried}"


def _next_try(notice: Notice) -> str:
    now = time.time()
    return "with the next pass" if is_due(notice, now) else f"in {ago(due_at(notice), now)}"


def _until(at: float) -> str:
    left = at - time.time()
    return "with the next pass" if left <= 0 else f"in {left:.0f} s"
