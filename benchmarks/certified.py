"""The certified maximizer beside those that prove nothing and beside PK-MIQP: ``python benchmarks/certified.py``.

Every instance is a confidence bound on a draw from the prior it knows (``searches.Drawn``). The maximizer ends at a
certified gap of 0.01 standard deviations of the results, the project's 1% (a confidence bound crosses zero, so that a
share of it would mean nothing), or at 200,000 boxes, and then says which gap is left. All values are of the one
function, to be maximised; a miss is a value that lies more than 1e-3 below the best that any method found. What SCIP
proves, and closes, is of its approximation.

Everything is on one thread. The aims are judged by its processor seconds, so that other work on the machine counts
little; wall seconds stand beside them. SCIP's limit of 60 seconds is of wall time: on a busy machine it gets less, as
its processor seconds then show, and ``--scip-seconds`` gives it more.

``--only 1 2 scip`` runs some lines: 1 to 6 are coordinates, scip is PK-MIQP. ``--json FILE`` keeps the figures as they
come; lines that are not run keep those that FILE has. ``--quick`` takes few and small instances. ``scip`` needs the
extra of that name.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from searches import RIVALS, Drawn, Outcome, proven, searched

from fieldcraft.models.maximizer import Maximizer
from fieldcraft.models.maximizers.certified import Certified
from fieldcraft.models.maximizers.pk_miqp import PKMIQP

OURS, SCIP, SCIP_Q = "certified", "pk_miqp, SCIP", "pk_miqp form: q, SCIP"
MISS = 1e-3
_ROUNDING = 1e-6
SCIP_LIMIT_S = 60.0


@dataclass(frozen=True)
class Plan:
    """Which instances are searched.

    Args:
        sizes: Results of the instances by their coordinates.
        instances: Instances of each.
        scip: The same for PK-MIQP.
        scip_instances: The first of these instances that PK-MIQP is given.
        scip_s: Its limit in wall seconds.
    """

    sizes: Mapping[int, tuple[int, ...]]
    instances: int
    scip: Mapping[int, tuple[int, ...]]
    scip_instances: int
    scip_s: float = SCIP_LIMIT_S

    @property
    def lines(self) -> tuple[str, ...]:
        """The names that ``--only`` takes."""
        return (*map(str, self.sizes), "scip")


FULL = Plan(dict.fromkeys(range(1, 7), (10, 20, 40, 100)), 20, dict.fromkeys((1, 2, 3), (10, 20, 40)), 5)
QUICK = Plan({1: (10, 40), 2: (10, 40), 3: (40,)}, 3, {1: (10,)}, 1, 10.0)


@dataclass(frozen=True)
class Row:
    """One method on the instances with d coordinates and n results.

    Args:
        line: What it belongs to, see ``--only``.
        d: Coordinates.
        n: Number of results.
        method: Its name.
        outcomes: What it made of each instance.
        best: The best value of each instance by any method.
    """

    line: str
    d: int
    n: int
    method: str
    outcomes: tuple[Outcome, ...]
    best: tuple[float, ...]

    @property
    def cpu_s(self) -> float:
        """Median processor seconds."""
        return self._median("cpu_s")

    @property
    def wall_s(self) -> float:
        """Median wall seconds."""
        return self._median("wall_s")

    @property
    def short(self) -> list[float]:
        """By how much each value lies below the best."""
        return [best - outcome.value for best, outcome in zip(self.best, self.outcomes, strict=True)]

    @property
    def misses(self) -> int:
        """Instances whose value lies below the best by more than 1e-3."""
        return sum(short > MISS for short in self.short)

    @property
    def gaps(self) -> list[float]:
        """What is left between bound and value, where something is proven."""
        return [outcome.bound - outcome.value for outcome in self.outcomes if outcome.bound is not None]

    @property
    def beaten(self) -> int:
        """Instances in which another method's value lies above the bound, which nothing may exceed."""
        return sum(short > gap + _ROUNDING for short, gap in zip(self.short, self.gaps, strict=False))

    @property
    def closed(self) -> int:
        """Instances whose gap was closed."""
        return sum(outcome.status == "optimal" for outcome in self.outcomes)

    def _median(self, name: str) -> float:
        return float(np.median([getattr(outcome, name) for outcome in self.outcomes]))

    def shown(self) -> str:
        """A line of the table."""
        total = len(self.outcomes)
        most = max(outcome.cpu_s for outcome in self.outcomes)
        row = f"{self.d}  {self.n:4d}  {self.method:24} {self.cpu_s:9.4f} {most:9.4f} {self.wall_s:9.4f}"
        row += f"  {self.misses:2d} of {total:2d}  {max(self.short):9.2g}"
        if self.gaps:
            row += f"  {self._median('nodes'):9,.0f}  {self.closed:2d} of {total:2d}  {max(self.gaps):8.3g}"
        return row


HEADER = (
    f"{'d':2} {'n':>4}  {'method':24} {'CPU s':>9} {'most':>9} {'wall s':>9}  {'misses':>8}  {'at worst':>9}"
    f"  {'nodes':>9}  {'closed':>8}  {'gap left':>8}"
)


def rows(plan: Plan, lines: Iterable[str]) -> Iterator[Row]:
    """The rows of some lines of a plan, each size as soon as all methods have searched its instances."""
    wanted = set(lines)
    for d, sizes in plan.sizes.items():
        for n in sizes if str(d) in wanted else ():
            yield from _compared(str(d), d, n, plan.instances, rivals())
    if "scip" in wanted:
        for n, d in sorted((n, d) for d, sizes in plan.scip.items() for n in sizes):
            yield from _compared("scip", d, n, plan.scip_instances, programs(n, plan.scip_s))


Trial = Callable[[Drawn, int], Outcome]


def rivals() -> dict[str, Trial]:
    """The certified maximizer and the searches that prove nothing, by name."""
    others = {name: lambda drawn, seed, search=search: searched(search, drawn, seed) for name, search in RIVALS.items()}
    return {OURS: _by(Certified()), **others}


def programs(n: int, limit_s: float) -> dict[str, Trial]:
    """The certified maximizer and PK-MIQP with its defaults; its other form too where there are few results."""
    found = {OURS: _by(Certified()), SCIP: _by(PKMIQP(time_s=limit_s))}
    return found | ({SCIP_Q: _by(PKMIQP(time_s=limit_s, form="q"))} if n <= 10 else {})


def _by(maximizer: Maximizer) -> Trial:
    return lambda drawn, seed: proven(maximizer, drawn, seed)


def _compared(line: str, d: int, n: int, instances: int, methods: Mapping[str, Trial]) -> list[Row]:
    """A row for each method: they take turns, instance by instance."""
    found: dict[str, list[Outcome]] = {name: [] for name in methods}
    for seed in range(instances):
        for name, trial in methods.items():
            found[name].append(trial(Drawn.of(d, n, seed), seed))
    best = tuple(max(o.value for o in outcomes) for outcomes in zip(*found.values(), strict=True))
    return [Row(line, d, n, name, tuple(outcomes), best) for name, outcomes in found.items()]


@dataclass(frozen=True)
class Aim:
    """One aim beside its figure.

    Args:
        what: What is asked.
        aim: The number to reach.
        figure: The number that was measured.
        met: Whether that is good enough.
    """

    what: str
    aim: float
    figure: float
    met: bool

    def shown(self) -> str:
        """A line of the table."""
        return f"{self.what:66} aim {self.aim:6.4g}  {self.figure:9.4g}  {'met' if self.met else 'NOT MET'}"


def aims(found: list[Row]) -> list[Aim]:
    """The aims for which there are rows."""
    ours = {(row.line, row.d, row.n): row for row in found if row.method == OURS}
    judged = []
    for d, n, most in ((1, 40, 0.05), (2, 40, 0.05), (3, 100, 0.5), (5, 100, 5.0)):
        if row := ours.get((str(d), d, n)):
            what = f"d = {d}, n = {n}: median processor seconds to the gap"
            judged.append(Aim(what, most, row.cpu_s, row.cpu_s <= most and 2 * row.closed > len(row.outcomes)))
    for row in found:
        if row.n == 10 and row.method in (SCIP, SCIP_Q):
            ratio = row.cpu_s / ours["scip", row.d, 10].cpu_s
            judged.append(Aim(f"d = {row.d}, n = 10: times faster than {row.method}", 300, ratio, ratio >= 300))
    beaten = sum(row.beaten for row in ours.values())
    judged.append(Aim("instances in which a rival's value exceeds the bound", 0, beaten, beaten == 0))
    return judged


def machine() -> dict[str, object]:
    """What the figures depend on."""
    names = [line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "scipy", "botorch")},
    }


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def kept(found: list[Row], before: list[dict], lines: Iterable[str]) -> list[dict]:
    """Rows as they are written: those found, and of those written before the ones of other lines."""
    return [row for row in before if row["line"] not in set(lines)] + [written(row) for row in found]


def written(row: Row) -> dict:
    """A row with its outcomes by name, to seven places."""
    names = [name for name, value in asdict(row.outcomes[0]).items() if value is not None]
    columns = {name: [_rounded(getattr(outcome, name)) for outcome in row.outcomes] for name in names}
    return {
        **{name: getattr(row, name) for name in ("line", "d", "n", "method", "misses")},
        "best": [_rounded(best) for best in row.best],
        "outcomes": columns,
    }


def restored(row: Mapping) -> Row:
    """A row that was written."""
    columns = row["outcomes"]
    outcomes = tuple(Outcome(**dict(zip(columns, each, strict=True))) for each in zip(*columns.values(), strict=True))
    return Row(row["line"], row["d"], row["n"], row["method"], outcomes, tuple(row["best"]))


def _rounded(value: object) -> object:
    return round(value, 7) if isinstance(value, float) else value


def main() -> None:
    """Run the lines that were asked for, print them as they come, then the aims."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--only", nargs="+", help="lines to run")
    parser.add_argument("--scip-seconds", type=float, help="SCIP's limit in wall seconds; 60 by default")
    parser.add_argument("--quick", action="store_true", help="few and small instances, within a minute")
    options = parser.parse_args()
    plan = QUICK if options.quick else FULL
    plan = replace(plan, scip_s=options.scip_seconds or plan.scip_s)
    lines = tuple(options.only or plan.lines)
    if unknown := sorted(set(lines) - set(plan.lines)):
        parser.error(f"no line {', '.join(unknown)}: there are {', '.join(plan.lines)}")
    torch.set_num_threads(1)
    before = json.loads(options.json.read_text())["rows"] if options.json and options.json.exists() else []
    _warmed()
    found: list[Row] = []
    print(HEADER)
    for row in rows(plan, lines):
        found.append(row)
        print(row.shown(), flush=True)
        if options.json:
            _write(options.json, kept(found, before, lines))
    for aim in aims([restored(row) for row in kept(found, before, lines)]):
        print(aim.shown())


def _warmed() -> None:
    """Every search once, so that none pays for what the first call of a library loads."""
    for trial in (*rivals().values(), *programs(3, 1.0).values()):
        trial(Drawn.of(1, 3, 0), 0)


def _write(path: Path, figures: list[dict]) -> None:
    judged = [asdict(aim) for aim in aims([restored(row) for row in figures])]
    parts = {"machine": machine(), "aims": judged, "rows": figures}
    path.write_text(json.dumps(parts).replace(', {"line"', ',\n{"line"') + "\n")


if __name__ == "__main__":
    sys.exit(main())
