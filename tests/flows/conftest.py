"""What all tests of flows share: an environment of their own, and one small finished campaign to copy."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
import warm_start
from small import SMALL, finish

from fieldcraft.flows.jobs import forks

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def _folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("folders")


@pytest.fixture(autouse=True)
def _alone(_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the user's reaches a test, and children find this checkout from an empty working directory."""
    for name in [name for name in os.environ if name.startswith(("FIELDCRAFT_", "PREFECT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tempfile.mkdtemp(dir=_folders))


@pytest.fixture(autouse=True)
def _warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of simulations is a process that need not import; a file about how they begin overrides this."""
    monkeypatch.setattr(forks, "begun", warm_start.server)


@pytest.fixture
def prefect(prefect_server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of all tests for the passes of a test's commands, each of which would start one for itself."""
    for name, value in prefect_server.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def _finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.yaml").write_text(SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        finish(folder / "small.yaml", folder / "home")
    return folder


@pytest.fixture
def finished(_finished: Path, tmp_path: Path) -> Path:
    """A folder with ``small.yaml`` and ``home``: Branin, exact_gp x log_ei, three trials, all completed."""
    return Path(shutil.copytree(_finished, tmp_path / "finished"))
