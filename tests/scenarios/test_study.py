"""A study that is killed goes on where it stood, reruns nothing, and finds what one that was never killed finds."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
import warm_start

from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.studies.plan.folder import StudyFolder
from fieldcraft.flows.studies.plan.spec import Cell, cells_of, read_study
from fieldcraft.flows.studies.running import Study
from fieldcraft.flows.studies.worker import Meter, Order, run_cell

ROOT = Path(__file__).resolve().parents[2]
STUDY = """\
name: small
reference: gp
seeds: 2
problems:
  - {problem: {kind: branin}, sense: minimize, noise: {of_sd: 0.01}, start: {n: 3}, budget: {trials: 6}}
algorithms:
  - {kind: sobol}
  - {label: gp, surrogate: {kind: exact_gp}, acquisition: {kind: log_ei}, maximizer: {kind: multistart}}
"""


def compare(file: Path, out: Path) -> warm_start.Command:
    words = ["compare", str(file), "--out", str(out), "--parallel", "1", "--json", "--home", str(out.parent / "home")]
    return warm_start.Command(
        ["-m", "fieldcraft.flows.cli", *words],
        {**os.environ, "PYTHONPATH": str(ROOT), "FIELDCRAFT_MLFLOW": "off"},
    )


def untouched(folder: StudyFolder, cell: Cell) -> list[tuple[int, int, int]]:
    """What tells that none of a cell's files was written again."""
    files = [file.stat() for file in sorted(folder.home(cell).rglob("*")) if file.suffix in (".json", ".jsonl")]
    return [(file.st_ino, file.st_mtime_ns, file.st_size) for file in files]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, prefect_api: dict[str, str]) -> dict[str, Any]:
    """A study killed within its second cell and run again, with what was seen on the way."""
    place = tmp_path_factory.mktemp("study")
    (place / "small.yaml").write_text(STUDY)
    folder, spec = StudyFolder(place / "out"), read_study(place / "small.yaml")[0]
    first, second = cells_of(spec)[:2]
    process = compare(place / "small.yaml", folder.path)
    for line in process.stdout:
        said = json.loads(line)
        if said["event"] == "pass" and said["cell"] == second.name and said["trials"] == 4:
            break
    children = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before, begun, seen = untouched(folder, first), folder.spent(second), []
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("FIELDCRAFT_", "PREFECT_"))]:
            patch.delenv(name)
        for name, value in {**prefect_api, "PYTHONPATH": str(ROOT)}.items():
            patch.setenv(name, value)
        study = Study(spec, folder, settings_from({"FIELDCRAFT_MLFLOW": "off"}, place / "home"), 1)
        ran = study.run(lambda cell, said: seen.append({"cell": cell.name, **said}))
    gone = [not child.is_running() for child in children]
    return {"study": study, "before": before, "begun": begun, "gone": gone, "seen": seen, "data": ran.data}


def test_a_study_killed_in_the_middle_goes_on_and_reruns_nothing(killed):
    folder, cells = killed["study"].folder, cells_of(killed["study"].spec)
    first, second = cells[:2]
    assert untouched(folder, first) == killed["before"]
    assert first.name not in {said.get("cell") for said in killed["seen"]}
    assert killed["begun"] == folder.spent(second)[: len(killed["begun"])], "what was spent is kept"
    assert [said["cell"] for said in killed["seen"] if said.get("ended")] == [cell.name for cell in cells[1:]]
    assert all(killed["gone"]), "workers and server end with whoever started them"


def test_what_it_finds_is_to_the_bit_what_a_study_finds_that_was_never_killed(killed, tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    whole = StudyFolder(tmp_path)
    for cell in cells_of(killed["study"].spec):
        whole.begin(cell)
        run_cell(Order(cell.name, cell.campaign, str(whole.home(cell))), Meter(), lambda said: None)
        found, expected = killed["study"].folder.result(cell), whole.result(cell)
        assert len(found["trials"]) == 6
        for each in (found, expected):
            each["environment"].pop("threads")  # this process may have more than a worker's one
            for acquisition in each["acquired"]:
                assert acquisition.pop("seconds") > 0 and acquisition.pop("cpu_seconds") > 0
        assert found == expected


def test_all_algorithms_begin_a_seed_alike_and_seeds_differ(killed):
    starts = {
        cell.name: [trial["design"] for trial in killed["study"].folder.result(cell)["trials"][:3]]
        for cell in cells_of(killed["study"].spec)
    }
    assert starts["branin-sobol-1"] == starts["branin-gp-1"] != starts["branin-gp-2"] == starts["branin-sobol-2"]


def test_a_finished_study_starts_nothing_and_finds_the_same(killed):
    def heard(cell: Cell, said: dict[str, Any]) -> None:
        raise AssertionError(f"{cell.name} ran again: {said}")

    ran = killed["study"].run(heard)
    assert ran.data == killed["data"] == json.loads(ran.json.read_text())
    assert {row["algorithm"] for row in ran.data["problems"][0]["rows"]} == {"gp", "sobol"}
    assert {cell["state"] for cell in ran.data["cells"]} == {"finished"}
