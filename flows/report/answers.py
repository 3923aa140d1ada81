"""The head of a campaign's page: what was found, how sure that is, and what was decided by whom."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from fieldcraft.flows.analysis.front import aims_text, front_text
from fieldcraft.flows.analysis.picks import picked_text
from fieldcraft.flows.analysis.predicted import Met, predictions_met
from fieldcraft.flows.charts.series import completed
from fieldcraft.flows.report.markup import Content, Markup, element
from fieldcraft.flows.report.material import Material
from fieldcraft.flows.text import counted
from fieldcraft.flows.views.data import design_text, outputs_text, quantity, quantity_pm
from fieldcraft.flows.views.regret import most_hypervolume
from fieldcraft.flows.wiring.context import ACTOR
from fieldcraft.storage.ledger.standing import known_sds
from fieldcraft.storage.records import Event, Trial, TrialState

_DECISIONS = frozenset({"approve", "edit", "prioritise", "pick", "correct", "import"})
_RULINGS = frozenset({TrialState.REJECTED, TrialState.ABANDONED, TrialState.PROPOSED})  # a move there is a decision


def number(value: float | None, figures: int = 6) -> str:
    """A number with so many significant figures; empty for None."""
    return "" if value is None else f"{value:.{figures}g}"


def answers(material: Material) -> Markup:
    """Three answers, side by side."""
    parts = (("What was found", _found), ("How sure", _sure), ("What was decided", _decided))
    return element("div", *(_answer(title, *of(material)) for title, of in parts), class_="answers")


def _answer(title: str, big: str, lines: Sequence[Content]) -> Markup:
    texts = [line if isinstance(line, Markup) else element("p", line) for line in lines]
    return element("section", element("h2", title), element("p", big, class_="big"), *texts)


def _found(material: Material) -> tuple[str, list[Content]]:
    best, found = material.best, material.front
    if found is not None and found["trials"]:
        most = most_hypervolume(material.wired) if material.wired else None
        big = f"a front of {counted(len(found['trials']), 'design')}"
        picked = [f"Picked: {picked_text(material.picked)}."] if material.picked else []
        return big, [f"{aims_text(found['objectives'])}.", f"{front_text(found, most)}.", *picked]
    if best.trial is None:
        closest = (material.feasibility or {}).get("least_violation")
        return "nothing yet", [
            f"No result meets every constraint; {closest['trial']} comes closest."
            if closest
            else "No trial has a result yet."
        ]
    output, unit = material.output
    value = quantity((best.trial.outputs or {})[output], unit)
    why = "Best design, by the model: " if best.by_model else "Best design: "
    lines: list[Content] = [
        element("p", element("strong", why), f"{design_text(material.campaign, best.trial.actual)}."),
        f"It gave {outputs_text(material.campaign, best.trial.outputs)} in {best.trial.id}.",
    ]
    if regret := material.regret:
        true = quantity(regret["optimum"], unit)
        lines.append(f"That is {quantity(regret['value'], unit)} from the true optimum {true}.")
    return f"{output} {value}", lines


def _sure(material: Material) -> tuple[str, list[Content]]:
    """Evidence for the best design, the strongest first."""
    said: list[tuple[str, str]] = []
    unit, model = material.output[1], material.best.model
    bounds = {trial.iteration: trial.origin.regret for trial in material.trials if trial.origin.regret is not None}
    if bounds:
        last = bounds[max(bounds)]
        least = quantity(float(f"{last.regret:.3g}"), unit)
        said.append((f"proven to within {least}", f"No design can have less than {quantity(last.lower, unit)}."))
    if model is not None and model.feasible and model.sd > 0:
        pm = quantity_pm(model.mean, model.sd, unit)
        said.append((pm, f"by the model of iteration {model.iteration}, of {counted(model.results, 'result')}."))
    if met := predictions_met(material.campaign, material.trials):
        said.append((_coverage(material, met), _all_hits(material, met)))
    proofs = [t.origin.certificate for t in material.trials if t.origin.certificate is not None]
    if proofs:
        closed = sum(proof.status == "optimal" for proof in proofs)
        gain = proofs[-1].improvement
        more = "" if gain is None else f" By the last, at most {quantity(float(f'{gain:.3g}'), unit)} can be gained."
        said.append(
            (f"{closed} of {len(proofs)} proposals certified", f"The search closed its gap in each of these.{more}")
        )
    if not said:
        done = completed(material.trials)
        return "by results alone", [
            f"{counted(len(done), 'result')}; no model has predicted one of them."
        ] if done else []
    big, first = said[0]
    return big, [first, *(more if more.startswith("Median") else f"{words}: {more}" for words, more in said[1:3])]


def _coverage(material: Material, met: Mapping[str, Sequence[Met]]) -> str:
    """Share of the predictions that held, or their median error, of each objective."""
    said = {
        name: f"{_held(material, name, of)} as predicted"
        if any(each.sd for each in of)
        else f"median error {quantity(_median_error(of), _unit(material, name))}"
        for name, of in met.items()
    }
    return ", ".join(said.values() if len(said) == 1 else (f"{name} {words}" for name, words in said.items()))


def _held(material: Material, name: str, met: Sequence[Met]) -> str:
    """``4 of 5``: results within two standard deviations of their prediction, the noise of a result included."""
    sds = [math.hypot(each.sd, _noise(material, name, each.trial)) for each in met]
    inside = sum(abs(each.value - each.mean) <= 2 * sd for each, sd in zip(met, sds, strict=True))
    return f"{inside} of {len(met)}"


def _noise(material: Material, name: str, trial: Trial) -> float:
    """Standard deviation of a result: what is added to a simulated one, and what is stated of an output."""
    if material.wired is None:
        return 0.0
    added = material.wired.added_sds.get(name, 0.0)
    usual = next((output.sd for output in material.wired.problem.outputs if output.name == name), None)
    own = known_sds(material.results.get(trial.id, ()), trial.attempt).get(name, usual)
    return math.hypot(added, own or 0.0)


def _median_error(met: Sequence[Met]) -> float:
    return float(np.median([abs(each.value - each.mean) for each in met]))


def _unit(material: Material, name: str) -> str:
    return next(str(output["unit"]) for output in material.campaign.environment["outputs"] if output["name"] == name)


def hits(material: Material, name: str, met: Sequence[Met]) -> str:
    """Predictions of an objective against results, in words."""
    median = quantity(_median_error(met), _unit(material, name))
    median = f"Median error {median} over {counted(len(met), 'trial')}."
    if not any(each.sd for each in met):
        return f"{median} Each trial was foreseen by the model that proposed it, which states no standard deviation."
    return (
        f"{median} Each trial was foreseen by the model that proposed it; bars are two standard deviations, and "
        f"long ones are cut. With the noise of a result, {_held(material, name, met)} results lie within two."
    )


def _all_hits(material: Material, met: Mapping[str, Sequence[Met]]) -> str:
    """The same for all objectives in short, or of one as ``hits``."""
    if len(met) == 1:
        return "".join(hits(material, name, of) for name, of in met.items())
    errors = ", ".join(f"{name} {quantity(_median_error(of), _unit(material, name))}" for name, of in met.items())
    return (
        f"Median errors: {errors}. Counted are the results within two standard deviations of what the model that "
        "proposed the trial had foreseen, the noise of a result included."
    )


def decisions_of(history: Sequence[Event]) -> tuple[list[Event], int]:
    """Decisions of people, oldest first, and the number of approvals given by policy."""
    decided = [event for event in history if _is_decision(event)]
    people = [event for event in decided if event.action != "approve" or event.details["policy"] == "manual"]
    return people, len(decided) - len(people)


def _is_decision(event: Event) -> bool:
    if event.trial is None:
        return False
    if event.action == "move":  # a retry moves to APPROVED; a pass rejects what the budget does not allow
        return event.by != ACTOR and (event.after is TrialState.APPROVED or event.after in _RULINGS)
    return event.action in _DECISIONS


def _decided(material: Material) -> tuple[str, list[Content]]:
    people, automatic = decisions_of(material.history)
    lines: list[Content] = []
    by = Counter(event.by for event in people)
    if by:
        who = "; ".join(f"{name} {count}" for name, count in by.most_common(5))
        more = f" and {counted(len(by) - 5, 'other')}" if len(by) > 5 else ""
        lines.append(f"{counted(len(people), 'decision')} by people: {who}{more}.")
    if automatic:
        lines.append(f"{counted(automatic, 'approval')} by policy, without a person.")
    waiting = sum(trial.state in (TrialState.PROPOSED, TrialState.HELD) for trial in material.trials)
    if waiting:
        lines.append(f"{counted(waiting, 'trial')} {'waits' if waiting == 1 else 'wait'} for a person.")
    if why := material.campaign.finished:
        return "the campaign ended", [f"{why[0].upper()}{why[1:]}.", *lines]
    sent = material.spending.trials
    return f"{counted(sent, 'trial')} sent", [*lines, "It goes on."]
