"""docs/results.md: what the papers claim, what was measured, and what was not run.

    python -m fieldcraft.flows.studies.page.results_page > docs/results.md

Made in the repository's root of ``studies/claims/papers.yaml``, ``studies/results/*.json`` and
``benchmarks/results/*.json``.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any

from fieldcraft.flows.spec.registry import available
from fieldcraft.flows.studies.page.benchmarked import Measured, benchmarked, table
from fieldcraft.flows.studies.page.targets import EACH, GROUPS, ahead, algorithms_of, shares
from fieldcraft.flows.studies.plan.claims import Claim, Claims, Compared, Paper, read_claims
from fieldcraft.flows.studies.plan.spec import cells_of, read_study
from fieldcraft.flows.studies.scoring.standing import behind, standings
from fieldcraft.flows.studies.scoring.verdicts import accelerations, hours_left, rows_of, verdict_of
from fieldcraft.flows.text import counted

Rows = Sequence[Mapping[str, Any]]

_HEAD = """# What the papers claim, and what was measured

This page is made by `python -m fieldcraft.flows.studies.page.results_page`, from `studies/claims/papers.yaml`, the
results of the studies (`studies/results/`) and those of `benchmarks/`. Each study is run, and goes on, with `fieldcraft
compare STUDY`; with `--earlier studies/results/STUDY.json` it goes on from what is stored here, but for
campaigns with constraints or certificates, of which a study.json holds too little; and with `--quick` each of its
campaigns is tried with a few trials.

A regret is the distance from the optimum to the true value, without noise, of the design with the best result, which
is the one that a user would be recommended; in brackets that of the truly best design that was visited. It is a mean
with its standard error over seeds, in the objective's unit. Under unknown constraints it is the papers' log10 of the
least sum of positive regret and violation over all designs visited, each divided by its spread; in brackets is the
regret of the best design that meets the constraints by its results, which may be negative where these are noisy.

A claim holds where the method's mean is below that of every baseline, or equal, on every problem that was measured,
over the seeds that both have finished; in part where it is below some; by the means alone where no
comparison is significant. A comparison is significant where Welch's
one-sided test has p <= 0.05 after Benjamini and Hochberg's correction over the claim's comparisons. `..._paper` is a
method with the options that its authors published, the other one this project's own."""

_QUICKER = """How many times fewer trials an algorithm needed to reach random search's last mean regret, its start
included: median over the problems of a study, least and greatest; a problem where it never got there counts as less
than one. Problems whose equation was computed from the objective are left out. Published medians are near 6."""

_AGAINST = """How `auto` stands against other packages and against random search: on how many problems its mean regret
is smaller, equal or larger, over all studies that ran both and the seeds that both have finished. The sign test asks
whether it is smaller more often than not; its p value is corrected for the number of rivals after Benjamini and
Hochberg. Problems whose equation was computed from the objective are left out. One that two studies ran alike counts
once for each rival, in the study with more seeds of both; with another budget, start or noise it is
another problem. Each study's page names the commit that it ran: later changes of `auto` are not in its figures."""

_BEHIND = """Where `auto` is behind the best of them by more than two standard errors of the difference, over the seeds
that both have finished, or at all where one seed tells no error:"""

_NOWHERE = """`auto` is nowhere behind the best of them by more than two standard errors of the difference, over the
seeds that both have finished."""

_NONE = "none feasible in some"

_LEFT = """What the rest would cost is what the campaigns that ended cost a trial: of the same algorithm on the same
problem, or else of the same problem, or algorithm, or any."""


def page(root: Path) -> str:
    """The page as Markdown.

    Args:
        root: The repository's root.

    Raises:
        InputError: ``studies/claims/papers.yaml`` does not hold claims.
    """
    claims = read_claims(root / "studies" / "claims" / "papers.yaml")
    studies = {
        file.stem: json.loads(file.read_text(encoding="utf-8"))
        for file in sorted((root / "studies" / "results").glob("*.json"))
    }
    solved, growth, cells, told = (
        json.loads((root / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("certified", "growth", "coco", "tampering")
    )
    blocks = [_HEAD]
    for paper in claims.papers:
        blocks += _paper(paper, studies, Measured(solved["rows"], growth["rows"], cells, told["rows"]))
    blocks += ["## Errata", *_errata(claims)]
    blocks += ["## Against other packages", _AGAINST, *_against(claims, studies)]
    blocks += ["## Trials saved against random search", _QUICKER, *_quicker(studies)]
    blocks += ["## COCO", *_targets(cells)]
    blocks += ["## Not run", _LEFT, *_left(root, studies)]
    return "\n\n".join(blocks) + "\n"


def _paper(paper: Paper, studies: Mapping[str, Any], measured: Measured) -> Iterator[str]:
    yield f"## {paper.title}"
    yield f"{paper.source}."
    for number, claim in enumerate(paper.claims, 1):
        yield f"### {paper.title}, claim {number}"
        yield f"{claim.stated} ({claim.where})"
        yield from _judged(claim, studies, measured)


def _judged(claim: Claim, studies: Mapping[str, Any], measured: Measured) -> Iterator[str]:
    if claim.lacks is not None:
        yield f"**Not measured yet**: {claim.lacks}"
        return
    if claim.compared is not None:
        yield from _compared(claim.compared, studies.get(claim.compared.study))
    yield from benchmarked(claim, measured)
    if claim.differs is not None:
        yield f"Measured otherwise: {claim.differs}"
    if claim.because is not None:
        yield f"Why: {claim.because}"


def _compared(about: Compared, study: Mapping[str, Any] | None) -> Iterator[str]:
    verdicts = [f"- `{method}` **{verdict_of(method, about, study).text}**" for method in about.methods]
    yield "\n".join(verdicts)
    lines = []
    for problem in about.problems:
        rows = rows_of(study, problem)
        if not rows or study is None:
            continue
        (each,) = (each for each in study["problems"] if each["problem"] == problem)
        known = [rows[name] for name in about.baselines if name in rows]
        best = min(known, key=lambda row: (row["mean"] is None, row["mean"]), default=None)
        lines.append(
            [
                problem,
                str(each["trials"]),
                *(_figure(rows.get(method)) for method in about.methods),
                "" if best is None else f"{best['algorithm']}: {_figure(best)}",
                ", ".join(name for name in about.baselines if name not in rows),
            ]
        )
    if lines:
        yield table(["problem", "trials", *about.methods, "best baseline", "not run"], lines)
        yield f"From `studies/{about.study}.yaml`."


def _figure(row: Mapping[str, Any] | None) -> str:
    """A mean with its error, the visited one and the number of seeds."""
    if row is None:
        return "-"
    mean = _NONE if row["mean"] is None else f"{row['mean']:.3g}"
    error = "" if row["error"] is None else f" ± {row['error']:.2g}"
    visited = "" if row.get("visited") is None else f" ({row['visited']:.3g})"
    return f"{mean}{error}{visited}, {counted(row['n'], 'seed')}"


def _errata(claims: Claims) -> Iterator[str]:
    lines = [
        [each.where, each.printed, each.holds, f"`{each.check}`" if each.check else "by reading"]
        for each in claims.errata
    ]
    yield table(["where", "printed", "what holds", "check"], lines)


def _quicker(studies: Mapping[str, Any]) -> Iterator[str]:
    lines = []
    for name, study in studies.items():
        for algorithm, found in sorted(accelerations(study).items()):
            factors = [0.0 if each is None else each for each in found.values()]
            lines.append([name, algorithm, str(len(factors)), *map(_factor, _spread(factors))])
    yield table(["study", "algorithm", "problems", "median", "least", "greatest"], lines)


def _against(claims: Claims, studies: Mapping[str, Any]) -> Iterator[str]:
    rivals = (*available("rivals"), "hebo", "random")
    lines = [
        [each.rival, str(each.better), str(each.equal), str(each.worse), "-" if each.q is None else f"{each.q:.2g}"]
        for each in standings("auto", rivals, studies)
    ]
    yield table(["rival", "`auto` is better", "equal", "worse", "sign test"], lines)
    reasons = {(each.study, each.problem): each.why for each in claims.behind}
    lines = [
        [
            each.study,
            each.problem,
            f"{_mean(each.own)}{', the largest' if each.last else ''}",
            f"{each.best}: {each.other:.3g}",
            f"{each.error:.2g}" if each.error is not None else "one seed" if isfinite(each.own) else "-",
            reasons.get((each.study, each.problem), "not examined"),
        ]
        for each in behind("auto", rivals, studies)
    ]
    yield _BEHIND if lines else _NOWHERE
    if lines:
        yield table(["study", "problem", "`auto`", "best", "error of the difference", "why"], lines)


def _mean(regret: float) -> str:
    return f"{regret:.3g}" if isfinite(regret) else _NONE


def _spread(factors: Sequence[float]) -> tuple[float, float, float]:
    return median(factors), min(factors), max(factors)


def _factor(value: float) -> str:
    return f"{value:.1f}" if value >= 1 else "< 1"


def _targets(cells: Mapping[str, int]) -> Iterator[str]:
    yield (
        f"Share of the 51 targets of each of COCO's 24 functions (bbob, instance 1) that the best of {EACH} d "
        "evaluations reached, mean over seeds (`benchmarks/coco.py`). `auto` is ahead of each by the last column: the "
        "mean difference of the shares of all, paired by function and seed, with its standard error."
    )
    lines = []
    for dimension, algorithms in algorithms_of(cells).items():
        for algorithm in algorithms:
            found, total = shares(cells, algorithm, dimension)
            lines.append(
                [
                    str(dimension),
                    algorithm,
                    *("-" if each is None else f"{each:.3f}" for each in found),
                    str(total),
                    _ahead(ahead(cells, "auto", algorithm, dimension)) if algorithm != "auto" else "",
                ]
            )
    yield table(["variables", "algorithm", *GROUPS, "all", "campaigns", "`auto` ahead by"], lines)


def _ahead(found: tuple[float, float] | None) -> str:
    return "-" if found is None else f"{found[0]:.3f} ± {found[1]:.3f}"


def _left(root: Path, studies: Mapping[str, Any]) -> Iterator[str]:
    lines, places = [], []
    for file in sorted((root / "studies").glob("*.yaml")):
        spec, _ = read_study(file)
        study = studies.get(spec.name)
        if study is None:
            lines.append([spec.name, str(len(cells_of(spec))), "0", "0", "0", "not known"])
            continue
        states = [cell["state"] for cell in study["cells"]]
        left = hours_left(study)
        lines.append(
            [
                spec.name,
                str(len(states)),
                str(states.count("finished")),
                str(states.count("failed")),
                f"{study['cpu_seconds'] / 3600:.2f}",
                _hours([hours for _, hours in left.values()]),
            ]
        )
        places += [[spec.name, problem, str(count), _hours([hours])] for problem, (count, hours) in left.items()]
    yield table(["study", "campaigns", "finished", "failed", "core-hours spent", "core-hours for the rest"], lines)
    yield "By problem:"
    yield table(["study", "problem", "campaigns not run", "core-hours"], places)


def _hours(hours: Sequence[float | None]) -> str:
    known = [each for each in hours if each is not None]
    return "not known" if len(known) < len(hours) else f"{sum(known):.2f}"


def main() -> None:
    """Print the page of the working directory."""
    print(page(Path.cwd()), end="")


if __name__ == "__main__":
    main()
