"""Sections of a campaign's page that are charts and text: state, trials, surrogate, time and cost."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from fieldcraft.flows.analysis.existing import existing
from fieldcraft.flows.analysis.feasibility import trial_feasibility
from fieldcraft.flows.analysis.front import aims_text, reference_text
from fieldcraft.flows.analysis.learnt import standing
from fieldcraft.flows.analysis.levels import level_counts, level_said
from fieldcraft.flows.analysis.predicted import predicted_moments, predictions_met
from fieldcraft.flows.charts.chart import MOST
from fieldcraft.flows.charts.series import completed
from fieldcraft.flows.report.answers import answers, hits, number
from fieldcraft.flows.report.belief import Belief, Missed, Slice
from fieldcraft.flows.report.markup import Content, Markup, chart, element, facts, joined, note, row, section, table
from fieldcraft.flows.report.material import Material
from fieldcraft.flows.report.panels import (
    best_chart,
    cost_chart,
    field_charts,
    foreseen_chart,
    residual_chart,
    source_of,
    surrogate_charts,
    time_chart,
    trials_chart,
)
from fieldcraft.flows.report.thinning import trials_shown
from fieldcraft.flows.text import clock, counted
from fieldcraft.flows.views.data import (
    budget_unit,
    design_text,
    outputs_text,
    quantity,
    quantity_pm,
    setting,
    spending_data,
)
from fieldcraft.storage.records import Result, Trial, TrialState

_ROUNDING = 1e-10  # of the second derivatives: what a residual may be and still be rounding


def when(at: float | None) -> str:
    """A time in the format of ``flows.text.clock``; empty for None."""
    return "" if at is None else clock(at)


def heading(material: Material) -> Markup:
    """Name, algorithm, state of the campaign, and its key figures."""
    campaign = material.campaign
    if campaign.finished:
        stands = f"Finished ({campaign.finished})."
    elif material.holder:
        stands = f"Running (process {material.holder.pid} on {material.holder.host})."
    else:
        stands = "Not finished; no process is working on it."
    made = f"As of {clock(time.time())}; begun {clock(campaign.created)}."
    return joined(
        [
            element("h1", campaign.name),
            element("p", f"{in_words(material)}. {stands} {made}", class_="lead"),
            answers(material),
            facts(_cards(material)),
            _kept(material),
            *(note(f"Not shown, {part}: {why}") for part, why in material.missing.items()),
        ]
    )


def in_words(material: Material) -> str:
    """Aim and algorithm of the campaign, in words."""
    spec, (name, unit) = material.campaign.spec, material.output
    words = [spec["algorithm"].get(word) for word in ("surrogate", "acquisition", "maximizer", "peer")]
    algorithm = " x ".join(word["kind"] for word in words if word) or spec["algorithm"]["start"]["proposer"]["kind"]
    if material.front:
        aims = aims_text(material.front["objectives"])
        return f"{aims[0].upper()}{aims[1:]} of problem {spec['problem']['kind']} by {algorithm}"
    aim = "Maximise" if spec["sense"] == "maximize" else "Minimise"
    formula = material.campaign.environment["outputs"][0].get("formula")
    what = f"{name} = {formula}" if formula else name
    return f"{aim} {what}{f' in {unit}' if unit else ''} of problem {spec['problem']['kind']} by {algorithm}"


def _cards(material: Material) -> list[tuple[str, str, str]]:
    (_, unit), spending, best = material.output, material.spending, material.best.measured
    counts = Counter(trial.state.lower() for trial in material.trials if trial.level is None)
    states = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    value = quantity((best.outputs or {})[material.output[0]], unit) if best else "none yet"
    cards = [("best result", value, f"in {best.id}" if best else "")]
    if material.front:
        cards = [("front", f"{len(material.front['trials'])} of {material.front['results']}", "results")]
        if (volume := material.front["hypervolume"]) is not None:
            cards.append(("hypervolume", number(volume), f"within {reference_text(material.front['objectives'])}"))
    cards += [*_by_model(material), *_feasible(material)]
    if regret := material.regret:
        how = "without noise" if regret["noise_free"] else "by its result"
        true, optimum = quantity(regret["true"], unit), quantity(regret["optimum"], unit)
        cards.append(("regret", quantity(regret["value"], unit), f"{how} {true}; true optimum {optimum}"))
    sent = spending_data(material.campaign, spending)["trials"]
    cards.append(("trials", f"{sent['spent']} of {sent['limit']} sent", states))
    for each in level_counts(material.campaign, material.trials):
        runs = ", ".join(f"{count} {state.lower()}" for state, count in each["states"].items())
        cards.append((each["level"], str(sum(each["states"].values())), runs or "no run yet"))
    cards.append((f"{material.work} time", duration(spending.seconds), f"{duration(_trained_s(material))} of training"))
    cards.append(("spent", _cost(material, spending.spent), _of_budget(material)))
    return cards


def _by_model(material: Material) -> list[tuple[str, str, str]]:
    """The best design by the model, where results are noisy and a model recommends one."""
    if (model := material.best.model) is None:
        return []
    if not model.feasible:
        return [("best by the model", "none is feasible", f"most probably {model.trial.id}")]
    seen = f"model of iteration {model.iteration}, {counted(model.results, 'result')}"
    return [
        ("best by the model", quantity_pm(model.mean, model.sd, material.output[1]), f"in {model.trial.id}; {seen}")
    ]


def _feasible(material: Material) -> list[tuple[str, str, str]]:
    found = material.feasibility
    if found is None:
        return []
    read, failed, closest = (
        found["feasible"] + found["infeasible"],
        found["failed_infeasible"],
        found["least_violation"],
    )
    remarks = [f"{failed} failed as infeasible"] if failed else []
    remarks += [f"least violation {closest['violation']:.4g}"] if closest else []
    return [("feasible", f"{found['feasible']} of {read}", "; ".join(remarks))]


def duration(seconds: float) -> str:
    """A duration in s, min or h."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _trained_s(material: Material) -> float:
    return float(sum(said.seconds for said in material.trained.values()))


def _cost(material: Material, value: float) -> str:
    return quantity(float(value), material.campaign.spec["budget"].get("unit") or "units")


def _of_budget(material: Material) -> str:
    limit = material.campaign.spec["budget"].get("cost")
    of = f"of {_cost(material, limit)}" if limit is not None else "no limit of cost"
    return f"{of}; {_cost(material, material.spending.reserved)} reserved"


def _kept(material: Material) -> Markup | None:
    """Note on the known constraints of the space, which all proposed designs satisfy."""
    kept = material.wired.space.constraints if material.wired else ()
    return note(f"Every design keeps {'; '.join(map(str, kept))}.") if kept else None


def best_section(material: Material) -> Markup | None:
    """The best so far."""
    if not completed(material.trials):
        retracted = sum(t.state is TrialState.COMPLETED and t.outputs is None for t in material.trials)
        why = f"No result counts: {retracted} retracted." if retracted else "No trial has a result yet."
        return section("Best so far", note(why))
    caption = "Every result by trial number, and the best of those that meet the constraints up to then."
    return section("Best so far", chart(best_chart(material), caption))


def trials_section(material: Material) -> Markup | None:
    """A chart of the trials' designs, and of their fields where they have any."""
    done = completed(material.trials)
    if not done:
        return None
    kind, many = trials_chart(material), len(done) > MOST
    drawn = f"each of the best {MOST} of {len(done)} completed trials" if many else "a completed trial"
    caption = f"One line for {drawn}, through its design and its result; the best lie on top."
    if material.field is not None:
        caption = "The completed trials over the best trial's field."
    elif "annotations" not in kind.layout:
        caption = f"One mark for {drawn}."
    elif material.front:
        caption = (
            f"One line for {drawn}, through its design and its results; the front's are orange and thicker, on top."
        )
    if "annotations" in kind.layout and material.objective.constraints:
        caption += " Dotted lines break a constraint."
    return section("Where the trials lie", chart(kind, caption), _fields(material))


def _fields(material: Material) -> Markup | None:
    found = field_charts(material)
    told = {
        "Fields of the trials": "One field at a time, all on one scale; move the slider, or use the arrow keys on it."
    }
    return row(*(chart(each, told.get(each.title, "The best trial's field.")) for each in found)) if found else None


def trials_table(material: Material) -> Markup | None:
    """All trials, one a row; of thousands, the newest and the best."""
    if not material.trials:
        return None
    outputs = [output["name"] for output in material.campaign.environment["outputs"]]
    verdicts = ["violation", "feasible"] if material.feasibility else []
    units = {output["name"]: output["unit"] for output in material.campaign.environment["outputs"]}
    names = list(material.units)
    head = ["trial", "state", "from", *(headed(name, material.units[name]) for name in names)]
    head += [
        *(headed(name, units[name]) for name in outputs),
        *verdicts,
        *foreseen_heads(material),
        "time (s)",
        headed("spent", budget_unit(material.campaign)),
        "remark",
    ]
    first, last = 3, len(head) - 1
    shown, more = trials_shown(material)
    rows = [_trial_row(material, trial, names, outputs) for trial in shown]
    front = {entry["trial"] for entry in material.front["trials"]} if material.front else set()
    best = [place for place, trial in enumerate(shown) if trial is material.best.trial or trial.id in front]
    return section("Trials", more, table(head, rows, numbers=range(first, last), marked=best))


def foreseen_heads(material: Material) -> list[str]:
    """Heads of the columns of predictions, one for each objective."""
    goals = material.objective.goals
    units = {output["name"]: output["unit"] for output in material.campaign.environment["outputs"]}
    if not goals:
        return [headed("foreseen", material.output[1])]
    return [headed(f"foreseen {goal.output}", units[goal.output]) for goal in goals]


def headed(name: str, unit: str) -> str:
    """Head of a column with its unit, ``spent (EUR)``; without a unit, the name."""
    return f"{name} ({unit})" if unit else name


def _trial_row(material: Material, trial: Trial, names: Sequence[str], outputs: Sequence[str]) -> list[Content]:
    own = trial.revision == 1 and trial.ran is None  # else the prediction was for another design
    foreseen = [foreseen_cell(each if own else None) for each in predicted_moments(material.objective, trial.origin)]
    design = design_cells(material, trial.design, names)
    values = [number((trial.outputs or {}).get(name)) for name in outputs]
    verdict = _verdict(material, trial) if material.feasibility else []
    cells = [trial.id, trial.state.lower(), f"{trial.origin.kind} {trial.iteration}", *design, *values, *verdict]
    return [*cells, *foreseen, f"{trial.seconds:.1f}", number(trial.spent, 4), _remark(material, trial)]


def foreseen_cell(moments: tuple[float, float] | None) -> str:
    """A prediction with its standard deviation, ``39.1 ± 1``; empty for None."""
    return "" if moments is None else quantity_pm(*moments, "").replace(" +- ", " ± ")


def _verdict(material: Material, trial: Trial) -> list[str]:
    """Violation and feasibility of a trial; empty where unknown."""
    if trial.counts and not material.objective.constraints:
        return ["", "yes"]
    found = trial_feasibility(material.objective, trial)
    return ["", ""] if found is None else [number(found["violation"]), "yes" if found["feasible"] else "no"]


def design_cells(material: Material, design: Mapping[str, float | int | str], names: Sequence[str]) -> list[str]:
    """Values of the variables without units, in the order of the names; empty for one that does not exist."""
    told = existing(material.campaign, design)
    return [setting(material.campaign, name, told[name], unit=False) if name in told else "" for name in names]


def _remark(material: Material, trial: Trial) -> str:
    remarks = [said] if (said := level_said(material.campaign, trial.level)) else []
    if trial.revision > 1:
        remarks.append("edited")
    if trial.ran is not None:
        remarks.append(f"really run: {design_text(material.campaign, trial.ran)}")
    if trial.failure:
        remarks.append(f"{trial.failure}: {material.failures.get(trial.id, 'no reason given')}")
    if trial.attempt > 1:
        remarks.append(f"{trial.attempt} attempts")
    return "; ".join([*remarks, *_said(material, trial)])


def _said(material: Material, trial: Trial) -> list[str]:
    """Remarks of the trial's current result, and whether it is a correction or retraction."""
    result = standing(material.results[trial.id]).get(trial.id)
    if result is None:
        return []
    stands_in = [] if result.replaces is None else ["retracted" if result.verdict == "retraction" else "corrected"]
    return [*stands_in, *beside_values(material, result)]


def beside_values(material: Material, result: Result) -> list[str]:
    """Standard deviations with their units, and the note, as far as they were given."""
    sd, words = result.details.get("sd"), result.details.get("note")
    return [*([f"sd {outputs_text(material.campaign, sd)}"] if sd else []), *([str(words)] if words else [])]


def surrogate_section(material: Material) -> Markup | None:
    """The prediction beside the simulator, and predicted values against results."""
    belief, title = material.belief, f"Surrogate beside {source_of(material)}"
    if belief is None:
        why = "The campaign uses no surrogate, or none is trained yet."
        return section(title, note(material.missing.get("surrogate", why)))
    parts: list[Content] = [
        note(f"The model of iteration {belief.product.iteration}, trained on {counted(belief.trials, 'trial')}.")
    ]
    if material.front:
        drawn = f"Of the surrogates that of {material.output[0]} is drawn over the variables"
        parts.append(note(f"{drawn}; predictions are held against results for each objective."))
    if belief.plane is not None:
        parts.append(row(*(chart(each) for each in surrogate_charts(material, belief.plane))))
        parts.append(note(_slice_caption(material, belief.plane)))
    for name, met in predictions_met(material.campaign, material.trials).items():
        parts.append(chart(foreseen_chart(material, name, met), hits(material, name, met)))
    return section(title, *parts)


def _slice_caption(material: Material, plane: Slice) -> str:
    caption = f"Prediction over {' and '.join(plane.names)}"
    if plane.held or plane.tied:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in sorted(plane.shares.items(), key=lambda s: -s[1]))
        caption += f", the most relevant variables (share of the total effect: {shares})"
    if plane.tied:
        caption += f". By the space's equalities {', '.join(plane.tied)} make up the rest; blank where they cannot"
    if plane.held:
        held = design_text(material.campaign, plane.held)
        design = f"the design of the front with the best {material.output[0]}" if material.front else "the best design"
        caption += f". The others are as in {design}: {held}; the results are at values of their own"
    if not np.any(plane.sd > 0):
        caption += ". This model states no uncertainty: it is a single draw"
    return caption + "."


def residual_section(material: Material) -> Markup | None:
    """Residual of the equation for the prediction, where it learns from one."""
    belief = material.belief
    if belief is None or belief.missed is None:
        return None
    return section("Residual of the equation", _residual(material, belief, belief.missed))


def _residual(material: Material, belief: Belief, missed: Missed) -> Markup:
    rows = [
        [where, *(number(float(of(values)), 3) for of in (np.nanmean, np.nanmedian, np.nanmax))]
        for where, values in (("over the domain", missed.values), ("at the collocation points", missed.at_points))
        if where != "over the domain" or missed.axes is not None
    ]
    caption = (
        f"How far the predicted mean is from solving N[f] = g over {', '.join(missed.names)}. To tell what is small: "
        f"its second derivatives there have a root mean square of {number(missed.curvature, 3)}."
    )
    if np.nanmax(missed.values) <= _ROUNDING * missed.curvature:
        shown = note(f"The prediction solves the equation to rounding. {caption}")
    else:
        shown = chart(residual_chart(material, missed), caption)
    return joined([shown, table(["", "mean", "median", "largest"], rows, numbers=(1, 2, 3))])


def time_section(material: Material) -> Markup | None:
    """Seconds by trial, and the spent and reserved parts of the budget."""
    if not material.trials:
        return None
    spending, budget = material.spending, material.campaign.spec["budget"]
    cost, hours = budget.get("cost"), budget.get("wall_time_h")
    cost_limit = "no limit" if cost is None else _cost(material, cost)
    time_limit = "no limit" if hours is None else duration(3600 * hours)
    rows: list[list[Content]] = [
        ["trials", str(spending.trials), "", str(budget["trials"])],
        ["cost", _cost(material, spending.spent), _cost(material, spending.reserved), cost_limit],
        [f"{material.work} time", *map(duration, (spending.seconds, spending.seconds_reserved)), time_limit],
    ]
    caption = (
        f"Time of every trial's {material.work}, all its attempts together, and of the training that came before it."
    )
    timed = time_chart(material)
    shown = chart(timed, caption) if timed else note("No time was told.")
    spent = cost_chart(material)
    more = chart(spent, "Cost of all attempts up to each trial.") if spent else None
    return section(
        "Time and cost", row(shown, more), table(["", "spent", "reserved", "budget"], rows, numbers=(1, 2, 3))
    )
