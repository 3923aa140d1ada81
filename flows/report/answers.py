"""The head of a campaign's page: what was found, how sure that is, and what was decided by whom."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from fieldcraft.flows.analysis.front import aims_text, front_text
from fieldcraft.flows.analysis.picks import picked_text
from fieldcraft.flows.charts.series import completed
from fieldcraft.flows.report.markup import Content, Markup, element
from fieldcraft.flows.report.material import Material
from fieldcraft.flows.text import counted
from fieldcraft.flows.views.data import design_text, outputs_text, quantity, quantity_pm
from fieldcraft.flows.views.regret import most_hypervolume
from fieldcraft.flows.wiring.context import ACTOR
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
    if predicted := predicted_trials(material):
        said.append((_coverage(material, predicted), hits(material, predicted)))
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


def _coverage(material: Material, predicted: Sequence[Trial]) -> str:
    if not any(trial.origin.sd for trial in predicted):
        return f"median error {quantity(float(np.median(_errors(material, predicted))), material.output[1])}"
    return f"{_inside(material, predicted)} of {len(predicted)} as predicted"


def predicted_trials(material: Material) -> list[Trial]:
    """Completed trials whose very design a model predicted: neither edited nor run differently."""
    done = completed(material.trials)
    return [t for t in done if t.origin.mean is not None and t.revision == 1 and t.ran is None]


def _errors(material: Material, foreseen: Sequence[Trial]) -> list[float]:
    return [abs((t.outputs or {})[material.output[0]] - (t.origin.mean or 0.0)) for t in foreseen]


def _inside(material: Material, foreseen: Sequence[Trial]) -> int:
    """Number of results within two standard deviations of their prediction, the noise of a result included."""
    noise = material.wired.noise_sd if material.wired else 0.0
    sds = [float(np.hypot(trial.origin.sd or 0.0, noise)) for trial in foreseen]
    return sum(error <= 2 * sd for error, sd in zip(_errors(material, foreseen), sds, strict=True))


def hits(material: Material, foreseen: Sequence[Trial]) -> str:
    """Predictions against results, in words."""
    median = quantity(float(np.median(_errors(material, foreseen))), material.output[1])
    median = f"Median error {median} over {counted(len(foreseen), 'trial')}."
    if not any(trial.origin.sd for trial in foreseen):
        return f"{median} Each trial was foreseen by the model that proposed it, which states no standard deviation."
    return (
        f"{median} Each trial was foreseen by the model that proposed it; bars are two standard deviations, and "
        f"long ones are cut. With the noise of a result, {_inside(material, foreseen)} of {len(foreseen)} results lie "
        "within two."
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
