"""The command to compare algorithms: compare."""

import argparse
import json
from pathlib import Path

from fieldcraft.flows.commands.shared import Add, begin, show, whole
from fieldcraft.flows.settings import Settings
from fieldcraft.storage.text import without_password

TITLE = "To compare algorithms"


def add(command: Add) -> None:
    """Register the command."""
    compare = command(
        "compare",
        _compare,
        "run a study (problems x algorithms x seeds), or go on with it",
        example="fieldcraft compare studies/quick.yaml",
    )
    compare.add_argument("file", type=Path, help="study file, such as studies/quick.yaml")
    compare.add_argument("--out", type=Path, metavar="DIR", help="folder of the study (default: HOME/studies/NAME)")
    compare.add_argument(
        "--parallel", type=whole(1, 1000), metavar="N", help="campaigns at once, a thread each (default: cores)"
    )
    compare.add_argument(
        "--quick", action="store_true", help="try every campaign with one seed and a few trials, as a study of its own"
    )
    compare.add_argument(
        "--earlier",
        type=Path,
        metavar="JSON",
        help="study.json of an earlier run, whose folder is not here: what it has finished is not run again",
    )
    compare.add_argument("--again", action="store_true", help="let campaigns that failed before go on")


def _compare(options: argparse.Namespace, settings: Settings) -> int:
    began = begin(options.json, f"reading {options.file}")
    from fieldcraft.flows.studies.page.text import StudyDisplay, results_text
    from fieldcraft.flows.studies.plan.cost import Cost
    from fieldcraft.flows.studies.plan.earlier import earlier_run
    from fieldcraft.flows.studies.plan.folder import StudyFolder
    from fieldcraft.flows.studies.plan.quick import quick
    from fieldcraft.flows.studies.plan.spec import Cell, cells_of, read_study
    from fieldcraft.flows.studies.running import Study
    from fieldcraft.storage.processes import cores

    spec, page = read_study(options.file)
    if options.quick:
        spec = quick(spec)
    folder = StudyFolder((options.out or settings.home / "studies" / spec.name).resolve())
    study = Study(spec, folder, settings, options.parallel or cores())
    with page.told():
        digests = study.digests()
    if options.earlier:
        taken = study.take(earlier_run(options.earlier, spec.name), digests)
        data = {"event": "earlier", "taken": len(taken.results), "left": dict(taken.left)}
        show(options.json, data, lambda: f"{options.earlier}: {taken.text}")
    cells = cells_of(spec)
    cost = Cost(folder, cells, again=options.again)
    display = StudyDisplay(len(cells), len(cost.over), began)
    show(options.json, {"event": "begin", "cpu_seconds_left": cost.left}, lambda: f"{spec.name}: {cost.text()}")

    def said(cell: Cell, message: dict[str, object]) -> None:
        if message.get("ended"):
            cost.count(cell)
            why = message["error"] or folder.result(cell).get("fruitless")
            message = {**message, "error": why, "cpu_seconds_left": cost.left, "left": cost.text()}
        if options.json:
            print(json.dumps({"event": "ended" if message.get("ended") else "pass", **message}), flush=True)
        else:
            display(cell, message)

    ran = study.run(said, again=options.again, digests=digests)
    data = {"event": "summary", "page": str(ran.page), "json": str(ran.json), "mlflow": ran.problem, "study": ran.data}

    def text() -> str:
        shown = ran.problem or f"experiment {spec.experiment or spec.name} in {without_password(settings.mlflow)}"
        return f"{results_text(ran.data)}\n{ran.page}\n{ran.json}\nMLflow: {shown}"

    show(options.json, data, text)
    return 1 if all(cell["state"] == "failed" for cell in ran.data["cells"]) else 0
