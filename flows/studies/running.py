"""``fieldcraft compare``: run the cells that a study lacks, show them in MLflow, and write the results."""

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.identity import acting
from fieldcraft.flows.jobs.job_folder import write_json
from fieldcraft.flows.machinery.collecting import as_usual
from fieldcraft.flows.machinery.prefect_server import Server
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.spec.source_files import Sources
from fieldcraft.flows.studies.page.mlflow_runs import Showing
from fieldcraft.flows.studies.page.page import study_page
from fieldcraft.flows.studies.plan.earlier import Earlier, Taken
from fieldcraft.flows.studies.plan.folder import StudyFolder, add_spent
from fieldcraft.flows.studies.plan.spec import Cell, StudySpec, cells_of
from fieldcraft.flows.studies.scoring.hypervolumes import require_references
from fieldcraft.flows.studies.scoring.results import results
from fieldcraft.flows.studies.worker_pool import Heard, WorkerPool
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.campaign import Campaign

INTERRUPTED = "the run was interrupted: the same command goes on"


@dataclass(frozen=True)
class Ran:
    """Outcome of a run of a study.

    Args:
        data: Results of the study so far.
        page: File of its page.
        json: File of the results as JSON.
        problem: Reason why MLflow does not show it, or None.
    """

    data: dict[str, Any]
    page: Path
    json: Path
    problem: str | None


@dataclass(frozen=True)
class Study:
    """A study that can be run.

    Args:
        spec: The study.
        folder: Its files.
        settings: Settings, by which kinds are found and MLflow is reached.
        parallel: Number of cells that run at once, each on one thread.
    """

    spec: StudySpec
    folder: StudyFolder
    settings: Settings
    parallel: int

    def lacking(self) -> list[Cell]:
        """The cells that have neither ended nor failed, in order."""
        folder = self.folder
        return [c for c in cells_of(self.spec) if not folder.result(c) and folder.failure(c) is None]

    def take(self, earlier: Earlier, digests: Mapping[str, str]) -> Taken:
        """Take the finished campaigns of an earlier run as results of the cells that never ran.

        Raises:
            InputError: the file of the earlier run holds too little, or cells were begun otherwise.
            FieldcraftError: another process works on the study.
        """
        acting(self.settings, "operate")
        with self.folder.locked():
            self.folder.claim(self.spec.name)
            self._require_unchanged(digests)
            taken = earlier.taken(digests, {cell.name for cell in cells_of(self.spec) if self.folder.ran(cell)})
            for cell in cells_of(self.spec):
                if result := taken.results.get(cell.name):
                    self.folder.begin(cell)
                    (self.folder.home(cell) / "spent.jsonl").unlink(missing_ok=True)  # of a take that was cut off
                    add_spent(self.folder.home(cell), taken.spent[cell.name])
                    write_json(self.folder.home(cell) / "result.json", result)
        return taken

    def run(self, heard: Heard, *, again: bool = False, digests: Mapping[str, str] | None = None) -> Ran:
        """Run the missing cells and write the results, also when interrupted.

        Args:
            heard: Called with every message of a cell's worker.
            again: Let cells that failed before go on.
            digests: Result of ``digests``, if it was called before.

        Raises:
            InputError: an unknown kind or impossible option, or cells that were begun otherwise; nothing was changed.
            FieldcraftError: another process works on the study.
        """
        acting(self.settings, "operate")
        digests = self.digests() if digests is None else digests
        with self.folder.locked() as lock:
            self.folder.claim(self.spec.name)
            self._require_unchanged(digests)
            for cell in cells_of(self.spec):
                self.folder.begin(cell)
                if again:
                    self.folder.forgive(cell)
            showing = Showing(self.spec, self.folder, self.settings)
            try:
                limited = self._work(lock, heard, showing)
            except KeyboardInterrupt:
                self._written(INTERRUPTED)
                raise
            problem = showing.catch_up()
            return self._written(self._limit_reached() if limited else None, problem)

    def digests(self) -> dict[str, str]:
        """Digests of all campaigns by cell; raises before any cell is begun if one of them is impossible.

        The seeds of an algorithm on a problem differ in name and seed alone, and are built once.

        Raises:
            InputError: unknown kinds or impossible options; names their places in the study.
        """
        built: dict[tuple[str, str], Campaign] = {}
        faults: dict[tuple[str, str], str] = {}  # by place and text, of the first cell that has each
        for cell in cells_of(self.spec):
            if cell.seed == 1:
                try:
                    built[cell.problem.name, cell.algorithm.name] = self._built(cell)
                except InputError as error:
                    for fault in error.faults:
                        place, rest = self._in_study(cell, fault)
                        faults.setdefault(
                            (place, rest), f"{place}: {cell.algorithm.name} on {cell.problem.name}: {rest}"
                        )
        if faults:
            raise InputError(*faults.values())
        found = {}
        for cell in cells_of(self.spec):
            pair = (cell.problem.name, cell.algorithm.name)
            spec = built[pair].spec.model_copy(update={"name": cell.name, "seed": cell.seed})
            found[cell.name] = replace(built[pair], spec=spec).digest
        return found

    def _built(self, cell: Cell) -> Campaign:
        campaign = wire(parse(cell.campaign), self.settings)
        _require_answer(cell, campaign)
        require_references(campaign)
        return campaign

    def _in_study(self, cell: Cell, fault: str) -> tuple[str, str]:
        """Split a fault of a cell's campaign into its place in the study file and the rest."""
        place, colon, rest = fault.partition(": ")
        if not colon or " " in place:  # it begins with no place
            return f"problems.{self.spec.problems.index(cell.problem)}", fault
        if place.startswith("algorithm") and not place.startswith("algorithm.start"):
            at = self.spec.algorithms.index(cell.algorithm)
            return f"algorithms.{at}{place.removeprefix('algorithm')}", rest
        return f"problems.{self.spec.problems.index(cell.problem)}.{place.removeprefix('algorithm.')}", rest

    def _require_unchanged(self, digests: Mapping[str, str]) -> None:
        for cell in cells_of(self.spec):
            self.folder.require_whole(cell)
            self.folder.require_same(cell)
            ended = self.folder.result(cell)
            if ended and ended["digest"] != digests[cell.name]:
                raise InputError(
                    f"{self.folder.home(cell)}: cell {cell.name!r} ended as a campaign with the digest "
                    f"{ended['digest'][:12]}; the file and this version of the code say {digests[cell.name][:12]}. "
                    "Delete its folder to run it anew, or give the study another name."
                )
        self._require_same_plugins()

    def _require_same_plugins(self) -> None:
        """Accept ended cells whose plug-in files, with the helpers that these import, are still what they were."""
        if not self.settings.plugins:
            return
        sources, now = Sources(self.settings.plugins), dict[tuple[str, str], dict[str, str]]()
        for cell in cells_of(self.spec):
            known = set(self.folder.result(cell).get("environment", {}).get("plugins", {}).values())
            pair = cell.problem.name, cell.algorithm.name
            if known and pair not in now:
                now[pair] = sources.of_plugins(_kinds(self._built(cell).data))
            if changed := [name for name, digest in now.get(pair, {}).items() if known and digest not in known]:
                raise InputError(
                    f"{self.folder.home(cell)}: cell {cell.name!r} ended with another {changed[0]} than there is now. "
                    "Restore that file, delete the cell's folder to run it anew, or give the study another name."
                )

    def _work(self, lock: int, heard: Heard, showing: Showing) -> bool:
        cells, limit = self.lacking(), self.spec.limit
        if not cells:
            return False
        spent = sum(line["cpu"] for cell in cells_of(self.spec) for line in self.folder.spent(cell))
        budget = None if limit is None else 3600.0 * limit.core_hours - spent
        if budget is not None and budget <= 0:
            return True

        def listen(cell: Cell, said: dict[str, Any]) -> None:
            if said.get("ended") and said["error"]:
                self.folder.fail(cell, said["error"])
            heard(cell, said)
            if said.get("ended"):
                showing.show(cell)

        with closing(Server(self.folder.path / "prefect")) as server:
            server.begin()
            server.ready()
            as_usual()
            return WorkerPool(self.folder, lock, self.parallel, budget).work(cells, listen)

    def _limit_reached(self) -> str:
        assert self.spec.limit is not None  # it was reached
        return f"limit.core_hours of {self.spec.limit.core_hours:g} was reached: raise it, and the same command goes on"

    def _written(self, reason: str | None, problem: str | None = None) -> Ran:
        data = results(self.spec, self.folder, reason)
        page, file = self.folder.path / "study.html", self.folder.path / "study.json"
        write_json(file, data)
        draft = page.with_name(f".{page.name}.{os.getpid()}")
        draft.write_text(study_page(data), encoding="utf-8")
        os.replace(draft, page)
        return Ran(data, page, file, problem)


def _kinds(part: Any) -> set[str]:
    """All kinds that a campaign's data name."""
    if isinstance(part, list):
        return set[str]().union(*map(_kinds, part))
    if not isinstance(part, dict):
        return set()
    own = {part["kind"]} if isinstance(part.get("kind"), str) else set()
    return own.union(*map(_kinds, part.values()))


def _require_answer(cell: Cell, campaign: Campaign) -> None:
    """Accept a cell of the simulator ``exact`` only if the problem has exact results for its designs."""
    if cell.problem.simulator.kind != "exact" or campaign.simulator is None:
        return
    rng = np.random.default_rng(0)
    (design,) = campaign.space.decode(campaign.space.sample(1, rng))
    try:
        campaign.simulator.run(campaign.problem, design, rng)
    except ValueError as error:
        raise InputError(f"simulator: {error}") from None
