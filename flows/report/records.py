"""Sections of a campaign's page that are records: the queue, decisions, approvals, results and provenance."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from fieldcraft.flows.analysis.levels import level_said
from fieldcraft.flows.analysis.predicted import predicted_moments
from fieldcraft.flows.charts.evidence import scores
from fieldcraft.flows.report.answers import decisions_of, number
from fieldcraft.flows.report.history import event_text
from fieldcraft.flows.report.markup import Content, Markup, chart, element, fold, joined, note, pairs, section, table
from fieldcraft.flows.report.material import Material, Model
from fieldcraft.flows.report.sections import beside_values, foreseen_cell, foreseen_heads, headed, when
from fieldcraft.flows.report.thinning import ROWS, newest
from fieldcraft.flows.settings import MLFLOW_PORT, Settings
from fieldcraft.flows.text import counted
from fieldcraft.flows.views.data import budget_unit, design_text, outputs_text
from fieldcraft.flows.views.text import judged
from fieldcraft.models.numerics.scores import scores_of
from fieldcraft.storage.records import Approval, Event, Result, Trial, TrialState
from fieldcraft.storage.text import without_password

_WAITING = (TrialState.PROPOSED, TrialState.HELD)
_OF_A_TRIAL = "'fieldcraft show TRIAL' has those of a trial"


def queue_section(material: Material) -> Markup:
    """Trials that wait for a person, and all decisions so far."""
    people, automatic = decisions_of(material.history)
    given = f"{counted(automatic, 'approval')} {'was' if automatic == 1 else 'were'} given automatically, by policy"
    return section(
        "Queue and decisions",
        element("h3", "Waiting for a person"),
        _waiting(material),
        element("h3", "Decisions"),
        _decisions(material, people),
        note(f"{given}; the folded table has them.") if automatic else None,
        *_approvals(material),
        *_corrections(material),
    )


def _waiting(material: Material) -> Markup:
    waiting = [trial for trial in material.trials if trial.state in _WAITING]
    if not waiting:
        return note("None.")
    first = sorted(waiting, key=lambda trial: (-trial.priority, trial.number))[:ROWS]
    rows = [
        [
            trial.id,
            trial.state.lower(),
            str(trial.priority),
            _what_runs(material, trial),
            *(foreseen_cell(each) for each in _predicted(material, trial)),
            number(trial.cost, 4),
            when(trial.updated),
        ]
        for trial in first
    ]
    cost = headed("expected cost", budget_unit(material.campaign))
    head = ["trial", "state", "priority", "design", *foreseen_heads(material), cost, "since"]
    text = f"The first {len(first)} of {len(waiting)}; 'fieldcraft queue {material.campaign.name}' lists them all."
    return joined(
        [note(text) if len(first) < len(waiting) else None, table(head, rows, numbers=(2, *range(4, len(head) - 1)))]
    )


def _predicted(material: Material, trial: Trial) -> list[tuple[float, float] | None]:
    """Prediction of each objective for a design as proposed; None for one that was edited since."""
    found = predicted_moments(material.objective, trial.origin)
    return found if trial.revision == 1 else [None] * len(found)


def _what_runs(material: Material, trial: Trial) -> str:
    at = level_said(material.campaign, trial.level)
    return design_text(material.campaign, trial.design) + (f"; {at}" if at else "")


def _decisions(material: Material, events: list[Event]) -> Markup:
    if not events:
        return note("None by a person.")
    shown, more = newest(events, _OF_A_TRIAL)
    rows = [[when(e.created), e.trial, event_text(material.campaign, e), e.by, e.reason] for e in shown]
    return joined([more, table(["when", "trial", "decision", "who", "comment"], rows)])


def _approvals(material: Material) -> list[Markup]:
    """Approvals of people in a table; those that a policy gave in another, which is folded."""
    given = [approval for of_trial in material.approvals.values() for approval in of_trial]
    if not given:
        return []
    people = [approval for approval in given if approval.policy == "manual"]
    automatic = [approval for approval in given if approval.policy != "manual"]
    made = [element("h3", "Approvals by people"), _approval_table(people)] if people else []
    if automatic:
        made.append(fold(f"{counted(len(automatic), 'automatic approval')}", _approval_table(automatic)))
    return made


def _approval_table(given: list[Approval]) -> Markup:
    approvals, more = newest(given, _OF_A_TRIAL)
    head = [
        "trial",
        "revision",
        "policy",
        "who",
        "when",
        "comment",
        "attempts",
        "expires",
        "holds",
        "digest",
    ]
    return joined([more, table(head, [_approval_row(approval) for approval in approvals], numbers=(1, 6))])


def _approval_row(approval: Approval) -> list[Content]:
    return [
        approval.trial,
        str(approval.revision),
        approval.policy,
        approval.by,
        when(approval.created),
        approval.comment,
        str(approval.attempts),
        when(approval.expires),
        "yes" if approval.live else f"no: {approval.voided}",
        element("code", approval.digest[:12]),
    ]


def _corrections(material: Material) -> list[Markup]:
    """Results other than each trial's first accepted one: partial, repeated, late, corrected, retracted."""
    odd = [r for results in material.results.values() for r in results if r.verdict != "accepted" or r.replaces]
    if not odd:
        return []
    shown, more = newest(odd, _OF_A_TRIAL)
    head = ["trial", "when", "judged", "values", "source", "who", "remarks"]
    rows = table(head, [_result_row(material, result) for result in shown])
    return [element("h3", "Results beside the first ones"), *([more] if more else []), rows]


def _result_row(material: Material, result: Result) -> list[Content]:
    more = (f"{key} {value}" for key, value in result.details.items() if key not in ("sd", "note") and value)
    remarks = "; ".join([*beside_values(material, result), *more])
    values = outputs_text(material.campaign, result.outputs)
    return [result.trial, when(result.created), judged(result), values, result.source, result.by, remarks]


def provenance_section(settings: Settings, material: Material) -> Markup:
    """Data needed to repeat the campaign, or to trace a number back."""
    spec = yaml.safe_dump(dict(material.campaign.spec), sort_keys=False, allow_unicode=True)
    return section(
        "Provenance",
        pairs(_origins(settings, material)),
        element("h3", "Models"),
        _models(material),
        *_choices(material),
        fold("Specification, every default written out", element("pre", element("code", spec))),
    )


def _origins(settings: Settings, material: Material) -> list[tuple[str, Content]]:
    campaign, environment = material.campaign, material.campaign.environment
    versions = environment.get("versions", {})
    rows: list[tuple[str, Content]] = [
        ("specification", element("code", campaign.digest)),
        ("seed", str(campaign.spec.get("seed", ""))),
        ("code", element("code", environment.get("commit") or "not in a checkout")),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items() if version)),
        ("machine", _machine(environment)),
        ("ledger", element("code", Path(settings.ledger_shown).name)),
        ("fields", element("code", str(settings.fields).rpartition("/")[2])),
        ("MLflow run", _in_mlflow(settings, material.runs.get("campaign"))),
    ]
    for file, digest in environment.get("plugins", {}).items():
        rows.append((f"own kind {file}", element("code", digest)))
    return rows


def _in_mlflow(settings: Settings, run: str | None) -> Content:
    """A link to a run: at the server of the settings, or at one that somebody starts on this machine."""
    if run is None:
        return element("code", "not shown there")
    served = settings.mlflow.startswith("http")
    server = without_password(settings.mlflow).rstrip("/") if served else f"http://127.0.0.1:{MLFLOW_PORT}"
    link = element("a", element("code", run), href=f"{server}/#/runs/{run}", rel="noreferrer")
    return link if served else joined([link, " while `fieldcraft mlflow` runs on this machine"])


def _machine(environment: Mapping[str, Any]) -> str:
    gpu = environment.get("gpu")
    threads, python = environment.get("threads"), environment.get("python")
    return (
        f"{environment.get('machine')}, {counted(threads or 0, 'thread')}, {f'{gpu}, ' if gpu else ''}Python {python}"
    )


def _models(material: Material) -> Markup:
    if not material.models:
        return note("None trained.")
    head = ["iteration", "model", "data", "trials", "collocation", "checkpoint", "time (s)", "MLflow run"]
    count, shown = len(material.trained), len(material.models)
    text = f"The newest {shown} of {count}; 'fieldcraft trace TRIAL' has the model that proposed a trial."
    rows = [_model_row(material, model) for model in material.models]
    return joined([note(text) if shown < count else None, table(head, rows, numbers=(0, 3, 6))])


def _model_row(material: Material, trained: Model) -> list[Content]:
    model, data, collocation, checkpoint = (element("code", (digest or "")[:12]) for digest in trained.digests)
    run = element("code", material.runs.get(f"surrogate:{trained.iteration}", ""))
    seconds = number(trained.seconds, 3)
    return [str(trained.iteration), model, data, str(trained.trials), collocation, checkpoint, seconds, run]


def _choices(material: Material) -> list[Markup]:
    """Scores of the surrogates from which each model was selected, where there were several, and other remarks."""
    rows = [
        (iteration, scores_of(told.metrics), [f"{name}: {text}" for name, text in told.remarks.items()])
        for iteration, told in material.trained.items()
    ]
    names = sorted({name for _, scores, _ in rows for name in scores})
    remarked = [row for row in rows if row[1] or row[2]]
    if not remarked:
        return []
    told, more = newest(remarked, "'fieldcraft trace TRIAL' has those of the model that proposed a trial")
    head = ["iteration", *names, "remarks"]
    cells = [
        [str(iteration), *(number(scores.get(name), 4) for name in names), "; ".join(remarks)]
        for iteration, scores, remarks in told
    ]
    rows_of = table(head, cells, numbers=tuple(range(1 + len(names))))
    picture = scores({iteration: found for iteration, found, _ in rows})
    evidence = (
        [chart(picture, "The surrogate that was chosen lies at 0; the others are behind by so much.")]
        if picture
        else []
    )
    shown = [*evidence, element("h3", "Remarks on the models"), *([more] if more else []), rows_of]
    caption = "Scores of what a model was chosen among: log predictive density, summed over the trials, in nats."
    return [*shown, note(caption)] if names else shown
