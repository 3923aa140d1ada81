"""Verdicts on claims that benchmarks judge, with their tables, as Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev
from typing import Any

from fieldcraft.flows.studies.page.targets import shares
from fieldcraft.flows.studies.plan.claims import Claim, Compared, Grown, Reached, Solvers, Tampered
from fieldcraft.flows.studies.scoring.verdicts import misses_of, verdict_of
from fieldcraft.flows.text import counted

Rows = Sequence[Mapping[str, Any]]

_SAMPLES, _OF_THE_SET = "samples", "images of the set"


@dataclass(frozen=True)
class Measured:
    """Results of benchmarks that judge claims.

    Args:
        solved: Rows of ``certified.json``.
        growth: Rows of ``growth.json``.
        cells: Targets reached, of ``coco.json``.
        told: Rows of ``tampering.json``.
    """

    solved: Rows
    growth: Rows
    cells: Mapping[str, int]
    told: Rows


def benchmarked(claim: Claim, measured: Measured) -> Iterator[str]:
    """Blocks of the verdict on a claim that a benchmark judges; none for another claim."""
    if claim.solvers is not None:
        yield from solvers(claim.solvers, measured.solved)
    if claim.grown is not None:
        yield from grown(claim.grown, measured.growth)
    if claim.reached is not None:
        yield from reached(claim.reached, measured.cells)
    if claim.tampered is not None:
        yield from tampered(claim.tampered, measured.told)


def solvers(about: Solvers, rows: Rows) -> Iterator[str]:
    """Verdict on the optima that solvers missed, and their table."""
    found = {name: misses_of(name, about, rows) for name in (about.method, *about.baselines)}
    own, given = found[about.method]
    share = own / given
    better = sum(misses / count > share for name, (misses, count) in found.items() if name != about.method)
    yield f"- `{about.method}` **misses the optimum less often than {better} of {len(about.baselines)} solvers**"
    yield table(["solver", "missed", "of acquisitions"], [[name, *map(str, counts)] for name, counts in found.items()])
    yield "From `benchmarks/certified.py`."


def grown(about: Grown, rows: Rows) -> Iterator[str]:
    """Verdicts on time or memory, and their table by the number of trials."""
    names = (*about.methods, *about.baselines)
    found = {(row["method"], row["trials"]): row[about.measure] for row in rows}
    sizes = sorted({n for name, n in found if name in names})
    last, said = sizes[-1], {"seconds": "CPU time", "megabytes": "memory"}[about.measure]
    verdicts = []
    for method in about.methods:
        less = sum(found[method, last] < found[name, last] for name in about.baselines)
        verdicts.append(f"- `{method}` **needs less {said} than {less} of {len(about.baselines)} at {last:,} trials**")
    yield "\n".join(verdicts)
    unit = {"seconds": "s", "megabytes": "MB"}[about.measure]
    lines = [[f"{n:,}", *(f"{found[name, n]:.3g} {unit}" for name in names)] for n in sizes]
    yield table(["trials", *names], lines)
    yield "From `benchmarks/growth.py`."


def reached(about: Reached, cells: Mapping[str, int]) -> Iterator[str]:
    """Verdicts on the targets reached, and their table by the number of variables."""
    names = (*about.methods, *about.baselines)
    found = {d: {name: shares(cells, name, d) for name in names} for d in about.dimensions}
    share = {(d, name): told[-1] or 0.0 for d, known in found.items() for name, (told, _) in known.items()}
    verdicts = []
    for method in about.methods:
        first = [d for d in found if all(share[d, method] > share[d, name] for name in about.baselines)]
        where = f"in {', '.join(map(str, first))} variables" if first else "in no number of variables"
        verdicts.append(f"- `{method}` **reaches more targets than every baseline {where}**")
    yield "\n".join(verdicts)
    lines = [[str(d), *(f"{share[d, name]:.3f}, {known[name][1]}" for name in names)] for d, known in found.items()]
    yield table(["variables", *names], lines)
    yield "Shares of the targets, and campaigns. From `benchmarks/coco.py`."


def tampered(about: Tampered, rows: Rows) -> Iterator[str]:
    """Verdicts by the share of changed classifiers that so many images do not tell, and the table of those they do."""
    known = [row for row in rows if row["study"] == about.study or row["method"] == _OF_THE_SET]
    names = tuple(dict.fromkeys(row["method"] for row in known))
    compared = Compared(study=about.study, methods=about.methods, baselines=about.baselines, problems=(_SAMPLES,))
    study = {"problems": [{"problem": _SAMPLES, "rows": [_missed(known, name, about.images) for name in names]}]}
    yield "\n".join(f"- `{method}` **{verdict_of(method, compared, study).text}**" for method in about.methods)
    shown = [name for name in (*about.methods, *about.baselines, _OF_THE_SET) if name in names]
    counts = sorted({1, 2, 5, about.images, 10})
    lines = [
        [name, *(_share(known, name, count) for count in counts), str(sum(row["method"] == name for row in known))]
        for name in shown
    ]
    yield table(["told by", *(counted(count, "image") for count in counts), "campaigns"], lines)
    yield "Shares of the changed classifiers, mean and standard error over campaigns. From `benchmarks/tampering.py`."


def _missed(rows: Rows, name: str, images: int) -> dict[str, Any]:
    own = [row for row in rows if row["method"] == name]
    missed = [1.0 - row["rates"][images - 1] for row in own]
    return {"algorithm": name, "seeds": [row["seed"] for row in own], "regrets": missed}


def _share(rows: Rows, name: str, images: int) -> str:
    found = [100 * row["rates"][images - 1] for row in rows if row["method"] == name]
    error = f" ± {stdev(found) / sqrt(len(found)):.1f}" if len(found) > 1 else ""
    return f"{mean(found):.1f}{error}%"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table of cells, in Markdown."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
