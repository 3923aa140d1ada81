"""CPU seconds of a run by process: how much of it is bookkeeping, and from which length of a campaign on it is little.

``python benchmarks/shares.py`` runs ``campaigns/heat.yaml`` and ``campaigns/chips.yaml`` (approved by itself) with 10
trials and with as many as they have, three times each (5 minutes), on Linux. It prints the median of each process's CPU
seconds, the share of what is no search ("aside": the Prefect server, the MLflow exporter, the heartbeats of
simulations), a line through the two lengths (seconds of a campaign, seconds of a trial), and the number of trials from
which that share is under 15%. Simulations take other times in each run, and that number with them: trust the shares.

    run           passes, and all that is not below
    server        the local Prefect server
    exporter      the export to MLflow
    heartbeat     the processes that watch simulations and write their heartbeats
    simulations   the simulations, and the process that they are forked from

``--json FILE`` keeps all figures, ``--only heat`` runs one campaign, ``--repeats 1`` each but once.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
CAMPAIGNS = ("heat", "chips")
SHORT = 10  # trials of the shorter length
ASIDE = ("server", "exporter", "heartbeat")
ROLES = ("run", *ASIDE, "simulations")
LITTLE = 0.15
MODULES = {
    "fieldcraft.flows.machinery.prefect_server": "server",
    "fieldcraft.flows.exporter": "exporter",
    "fieldcraft.flows.jobs.fork_server": "forks",
}
BELOW = {"forks": "heartbeat", "heartbeat": "simulation", "simulation": "simulation"}
"""Roles of the children of processes that fork, whose command line they keep."""
_TICK = os.sysconf("SC_CLK_TCK")
_LOOK_S = 0.02  # what a process uses after the last look at it counts as the run's


@dataclass
class Seen:
    """CPU seconds of a run's descendants as they were last seen."""

    roles: dict[int, str] = field(default_factory=dict)
    own: dict[int, float] = field(default_factory=dict)
    reaped: dict[int, float] = field(default_factory=dict)

    def look(self, run: int) -> None:
        """Look at all descendants of a process."""
        parents = _parents()
        known = {run, *self.roles}
        while found := {pid for pid, parent in parents.items() if parent in known} - known:
            known |= found
            for pid in found:
                self.roles[pid] = "run"
        for pid in known & parents.keys() - {run}:
            if self.roles[pid] == "run":  # perhaps only until it has begun
                with suppress(OSError):
                    self.roles[pid] = self._role(pid, parents[pid])
        for pid in self.roles.keys() & parents.keys():
            with suppress(OSError):
                self.own[pid], self.reaped[pid] = _seconds(pid)

    def _role(self, child: int, parent: int) -> str:
        if (above := self.roles.get(parent)) in BELOW:
            return BELOW[above]
        words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
        return next((role for module, role in MODULES.items() if module in words), "run")

    def by_role(self, total: float) -> dict[str, float]:
        """Seconds by role of a run that took so many in all."""
        found = {name: sum(self.own[pid] for pid, role in self.roles.items() if role == name) for name in ASIDE}
        forks = [pid for pid, role in self.roles.items() if role == "forks"]
        found["simulations"] = sum(self.own[pid] + self.reaped[pid] for pid in forks) - found["heartbeat"]
        return {"run": total - sum(found.values()), **found}


def _parents() -> dict[int, int]:
    """The parent of every process."""
    found = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            found[int(file.parent.name)] = int(_fields(file)[1])
    return found


def _fields(file: Path) -> list[str]:
    """What ``/proc/PID/stat`` holds after the name, from the state on."""
    return file.read_text().rpartition(")")[2].split()


def _seconds(pid: int) -> tuple[float, float]:
    """CPU seconds of a process and of the children that it has waited for."""
    user, system, children, of_system = (int(each) / _TICK for each in _fields(Path(f"/proc/{pid}/stat"))[11:15])
    running = sum(int(file.read_text().split()[0]) for file in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
    return max(user + system, running), children + of_system  # the latter of living threads alone, but finer


def seconds(campaign: str, trials: int) -> dict[str, float]:
    """CPU seconds of one run by role."""
    with tempfile.TemporaryDirectory(prefix="shares-", ignore_cleanup_errors=True) as folder:
        told = yaml.safe_load((ROOT / "campaigns" / f"{campaign}.yaml").read_text())
        told.pop("approval", None)
        told["budget"] = {"trials": trials}
        file = Path(folder, f"{campaign}.yaml")
        file.write_text(yaml.safe_dump(told))
        ours = ("FIELDCRAFT_", "PREFECT_", "MLFLOW_")
        run = subprocess.Popen(
            [sys.executable, "-m", "fieldcraft.flows.cli", "run", str(file), "--home", f"{folder}/runs"],
            env={name: value for name, value in os.environ.items() if not name.startswith(ours)},
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )
        seen = Seen()
        while True:
            pid, status, used = os.wait4(run.pid, os.WNOHANG)
            if pid:
                break
            seen.look(run.pid)
            time.sleep(_LOOK_S)
        if status:
            raise SystemExit(f"{campaign} with {trials} trials ended with status {os.waitstatus_to_exitcode(status)}")
        return seen.by_role(used.ru_utime + used.ru_stime)


def medians(found: list[dict[str, float]]) -> dict[str, float]:
    """Median of each role."""
    return {role: statistics.median(each[role] for each in found) for role in ROLES}


def aside(used: dict[str, float]) -> float:
    """Seconds of what is no search."""
    return sum(used[role] for role in ASIDE)


def little_from(fixed: dict[str, float], each: dict[str, float]) -> float:
    """Number of trials from which the share of what is no search is under ``LITTLE``; infinite where it never is."""
    gained = LITTLE * sum(each.values()) - aside(each)
    return (aside(fixed) - LITTLE * sum(fixed.values())) / gained if gained > 0 else float("inf")


def table(campaign: str, figures: dict[int, list[dict[str, float]]]) -> str:
    """The figures of one campaign, by number of trials."""
    typical = {trials: medians(found) for trials, found in figures.items()}
    (few, short), (many, long) = sorted(typical.items())
    each = {role: (long[role] - short[role]) / (many - few) for role in ROLES}
    fixed = {role: short[role] - few * each[role] for role in ROLES}
    lines = [f"{campaign:20}" + "".join(f"{role:>13}" for role in (*ROLES, "all", "aside"))]
    for name, used in (*((f"{n} trials", used) for n, used in typical.items()), ("campaign", fixed), ("trial", each)):
        every = sum(used.values())
        numbers = "".join(f"{used[role]:13.3f}" for role in ROLES)
        lines.append(f"{name:20}{numbers}{every:13.3f}{aside(used) / every:13.1%}")
    shares = [aside(used) / sum(used.values()) for used in figures[many]]
    lines.append(f"aside of {many} trials: {min(shares):.1%} to {max(shares):.1%}")
    lines.append(f"under {LITTLE:.0%} from {little_from(fixed, each):.0f} trials on")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CAMPAIGNS, nargs="+", default=CAMPAIGNS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    subprocess.run([sys.executable, "-m", "fieldcraft.flows.machinery.prepare"], cwd=ROOT, check=True)
    kept = {}
    for campaign in options.only:
        own = yaml.safe_load((ROOT / "campaigns" / f"{campaign}.yaml").read_text())["budget"]["trials"]
        figures: dict[int, list[dict[str, float]]] = {SHORT: [], own: []}
        for _ in range(options.repeats):
            for trials, found in figures.items():
                found.append(seconds(campaign, trials))
                print(f"{campaign}, {trials} trials: {sum(found[-1].values()):.1f} s", file=sys.stderr, flush=True)
        kept[campaign] = figures
        print(table(campaign, figures), end="\n\n", flush=True)
        if options.json:
            options.json.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
