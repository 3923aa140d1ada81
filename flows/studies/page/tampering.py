"""Verdicts on changed classifiers that the images of campaigns tell: rows of ``benchmarks/tampering.py``."""

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from statistics import mean, stdev
from typing import Any

from fieldcraft.flows.studies.page.text import table
from fieldcraft.flows.studies.plan.claims import Compared, Tampered
from fieldcraft.flows.studies.scoring.verdicts import verdict_of

Rows = Sequence[Mapping[str, Any]]

_OF_THE_SET = "images of the set"


def tampered(about: Tampered, rows: Rows) -> Iterator[str]:
    """Verdicts by the share of changed classifiers that so many images do not tell, and the table of those they do."""
    known = [row for row in rows if row["study"] == about.study or row["method"] == _OF_THE_SET]
    names = tuple(dict.fromkeys(row["method"] for row in known))
    compared = Compared(study=about.study, methods=about.methods, baselines=about.baselines, problems=(_PROBLEM,))
    study = {"problems": [{"problem": _PROBLEM, "rows": [_missed(known, name, about.images) for name in names]}]}
    yield "\n".join(f"- `{method}` **{verdict_of(method, compared, study).text}**" for method in about.methods)
    shown = [name for name in (*about.methods, *about.baselines, _OF_THE_SET) if name in names]
    counts = sorted({1, 2, 5, about.images, 10})
    lines = [
        [name, *(_share(known, name, count) for count in counts), str(sum(row["method"] == name for row in known))]
        for name in shown
    ]
    yield table(["told by", *(f"{count} images" if count > 1 else "1 image" for count in counts), "campaigns"], lines)
    yield "From `benchmarks/tampering.py`."


_PROBLEM = "samples"


def _missed(rows: Rows, name: str, images: int) -> dict[str, Any]:
    own = [row for row in rows if row["method"] == name]
    missed = [1.0 - row["rates"][images - 1] for row in own]
    return {"algorithm": name, "seeds": [row["seed"] for row in own], "regrets": missed}


def _share(rows: Rows, name: str, images: int) -> str:
    found = [100 * row["rates"][images - 1] for row in rows if row["method"] == name]
    error = f" ± {stdev(found) / sqrt(len(found)):.1f}" if len(found) > 1 else ""
    return f"{mean(found):.1f}{error}%"
