"""What a pass asks of the ledger does not grow with the campaign: the same statements at 50 and at 500 trials."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from small import SMALL
from sqlalchemy import Engine, event

from fieldcraft.flows.recovery.doctor import examine
from fieldcraft.flows.report.material import gather
from fieldcraft.flows.report.thinning import trials_shown
from fieldcraft.flows.report.writing import write_report
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import read_campaign
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.views.data import status_data
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Known

RULES = """\
algorithm: {kind: random, start: {n: 4}}
dispatcher: {kind: inline}
stop: {target: -1000.0, no_improvement: 1000, failure_rate: {above: 0.5, over: 10}}
budget: {trials: 1000}
"""


@contextmanager
def statements() -> Iterator[Counter[str]]:
    """Counts what SQLAlchemy sends to any database meanwhile, by statement."""
    sent: Counter[str] = Counter()

    def note(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        sent[statement] += 1

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def campaign_of(folder: Path, trials: int) -> tuple[Ledger, Ref, Callable[[], None]]:
    """A campaign with so many completed trials, its ledger, what a pass is given, and what ends the lease."""
    folder.mkdir()
    head = SMALL.partition("algorithm:")[0]
    (folder / "small.yaml").write_text(head + RULES)
    settings = settings_from(home=folder / "home")
    campaign = wire(read_campaign(folder / "small.yaml"), settings)
    ledger = open_ledger(settings.ledger, create=True)
    created(ledger, campaign, folder / "small.yaml")
    known = [Known(design={"x1": n / 100 % 5, "x2": 1.0}, outputs={"value": 400.0 + n}) for n in range(trials)]
    ledger.adopt("small", known, "0" * 64, "import of a table", "test")
    lease = ledger.acquire("small")
    ref = Ref(str(settings.home), "small", lease.model_dump())
    return ledger, ref, lambda: ledger.release(lease)


def looked_at(ref: Ref, ledger: Ledger) -> dict[str, Counter[str]]:
    """Statements of what people look at."""
    with statements() as status:
        status_data(ledger, ledger.campaign("small"))
    with statements() as report:
        gather(settings_from(home=Path(ref.home)), ledger, ledger.campaign("small"))
    return {"status": status, "report": report}


def passed(ref: Ref) -> tuple[Counter[str], list[str]]:
    """Statements and steps of a pass."""
    steps: list[str] = []

    def call(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        steps.append(step.__name__)
        return step(*args, **kwargs)

    with statements() as sent:
        make_pass(ref, call)
    return sent, steps


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    """By number of trials: statements of each pass, of what people look at, and the steps of each pass."""
    found: dict[int, dict[str, Any]] = {}
    for trials in (50, 500):
        ledger, ref, end = campaign_of(tmp_path_factory.mktemp("scale") / "it", trials)
        passes = [passed(ref) for _ in range(3)]
        end()
        assert len(ledger.trials("small")) > trials
        found[trials] = {f"pass {n}": sent for n, (sent, _) in enumerate(passes, 1)}
        found[trials] |= {"steps": [steps for _, steps in passes], **looked_at(ref, ledger)}
    return found


@pytest.mark.parametrize("what", ["pass 1", "pass 2", "pass 3", "status", "report"])
def test_no_statement_is_sent_more_often_when_there_are_more_trials(counted: Any, what: str) -> None:
    assert counted[50][what] == counted[500][what]
    assert sum(counted[500][what].values()) > 5


def test_a_pass_has_the_same_few_steps_however_many_trials_there_are(counted: Any) -> None:
    assert counted[50]["steps"] == counted[500]["steps"]
    assert max(map(len, counted[500]["steps"])) <= 8


def test_the_page_of_a_long_campaign_is_short_and_says_where_the_rest_is(tmp_path: Path) -> None:
    trials = 1200
    ledger, ref, end = campaign_of(tmp_path / "it", trials)
    end()
    file = tmp_path / "page.html"
    write_report(settings_from({"FIELDCRAFT_MLFLOW": "off"}, Path(ref.home)), ledger, ledger.campaign("small"), file)
    page = file.read_text()
    for chart in map(json.loads, re.findall(r'<script type="application/json">(.*?)</script>', page)):
        assert sum(len(trace["x"]) for trace in chart["data"] if trace["type"] == "scatter") < 4 * trials
    rows = page.count("<tr")
    assert 400 < rows < 450  # trials, and the decisions to import them
    assert "One mark for each of the best 1000 of 1200 completed trials" in page
    assert "newest 150 and the best 50 of 1200 trials; &#x27;fieldcraft export small --csv FILE&#x27;" in page
    for trial, shown in (("0001", True), ("0050", True), ("0051", False), ("1050", False), ("1051", True)):
        assert (f"<td>small-{trial}</td>" in page.partition("<h2>Trials</h2>")[2]) is shown


def test_where_no_reading_is_feasible_the_page_of_a_long_campaign_has_those_that_come_closest(tmp_path: Path) -> None:
    settings, file, trials = settings_from(home=tmp_path / "home"), tmp_path / "small.yaml", 210
    file.write_text((SMALL.partition("noise:")[0] + RULES).replace("branin", "constrained_branin"))
    campaign, ledger = wire(read_campaign(file), settings), open_ledger(settings.ledger, create=True)
    created(ledger, campaign, file)
    names = [output.name for output in campaign.problem.outputs]
    known = [Known(design={"x1": 1.0, "x2": 1.0}, outputs=dict.fromkeys(names, 1.0 + n)) for n in range(trials)]
    ledger.adopt("small", known, "0" * 64, "import of a table", "test")
    shown, _ = trials_shown(gather(settings, ledger, ledger.campaign("small")))
    assert [trial.number for trial in shown] == [*range(1, 51), *range(61, 211)]


def test_the_doctor_asks_once_for_five_hundred_trials_and_not_once_a_trial(tmp_path: Path) -> None:
    counts = []
    for trials in (50, 450):
        _, ref, end = campaign_of(tmp_path / str(trials), trials)
        end()
        with statements() as sent:
            assert examine(settings_from(home=Path(ref.home))) == []
        counts.append(sum(sent.values()))
    assert counts[0] == counts[1]
