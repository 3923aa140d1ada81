"""Homes for the tests of the desk: three priced proposals that wait, and three work orders that are out."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench import OVEN_CAMPAIGN, Bench, bench, ordered
from desk_site import TOKENS, Browser, desk, people
from waiting import PLUGINS, Waiting, campaign

from fieldcraft.flows.settings import settings_from
from fieldcraft.storage.ledgers.sqlite import close_idle
from fieldcraft.storage.open_ledger import open_ledger


@pytest.fixture(scope="session")
def _proposed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("desk")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDCRAFT_PLUGINS", str(PLUGINS))
        patch.setenv("FIELDCRAFT_MLFLOW", "off")
        campaign(folder / "home", "human").make_pass()
    close_idle()
    return folder / "home"


@pytest.fixture
def home(_proposed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Waiting]:
    """Makes copies of one home with three proposals, with a file of people."""
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(PLUGINS))
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(people(tmp_path / "people.yaml")))

    def made(name: str) -> Waiting:
        settings = settings_from(home=Path(shutil.copytree(_proposed, tmp_path / name)))
        return Waiting(settings, open_ledger(settings.ledger))

    return made


@pytest.fixture
def priced(home: Callable[[str], Waiting]) -> Waiting:
    """Three proposals of 2, 4 or more EUR wait for a person."""
    return home("home")


@pytest.fixture(scope="session")
def _ordered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ordered(tmp_path_factory.mktemp("desk-oven"))


@pytest.fixture
def oven(_ordered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Bench]:
    """Makes copies of one home with three work orders that are out, with a file of people."""
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(people(tmp_path / "people.yaml")))
    return lambda name: bench(Path(shutil.copytree(_ordered, tmp_path / name)), OVEN_CAMPAIGN, monkeypatch)


@pytest.fixture(autouse=True)
def _running() -> Iterator[None]:
    """One event loop for all browsers of a test."""
    with asyncio.Runner() as Browser.runner:
        yield


@pytest.fixture
def browsers() -> Callable[..., Browser]:
    """Signs people in at the desk of a home, each in a browser of their own."""
    return lambda settings, name, app=None: Browser(app or desk(settings)).sign_in(TOKENS[name])
