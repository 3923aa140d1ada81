"""Measurements from before the campaign: adopted all or none, counted as data, and never against the budget."""

import os
from pathlib import Path

import pytest
from bench import OVEN_CAMPAIGN, Bench, bench
from small import SMALL

from fieldcraft.flows.products import Seen, Trained
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.wiring.observations import seen_by
from fieldcraft.storage.records import TrialState

DATA = """\
sample,T [K],t [min],gas,strength [MPa],strength sd [MPa],porosity [%]
A7,1000,10,N2,30.5,0.5,-1
A8,1100.25,20,Ar,42,,0.5
"""
OLD = "x1,x2,value\n0.5,1,20.5\n2,3,12.25\n"
LEARNING = SMALL.replace("noise: {sd: 0.5}\n", "").replace("start: {n: 2}", "start: {n: 3}")


@pytest.fixture
def oven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return bench(tmp_path, OVEN_CAMPAIGN, monkeypatch)


def imported(campaign: Bench, text: str, *words: object) -> tuple[int, str, str]:
    data = campaign.file.with_name("data.csv")
    data.write_text(text)
    return campaign.run("import", campaign.file, data, *words)


def test_a_table_warm_starts_a_campaign_that_is_not_there_yet(oven):
    status, out, error = imported(oven, DATA)
    assert (status, out) == (0, "oven: imported 2 trials, oven-0001 to oven-0002.\n"), error
    first, second = oven.ledger.trials("oven")
    assert (first.state, first.origin.kind) == (TrialState.COMPLETED, "imported")
    assert first.actual == {"T": 1000.0, "t": 10, "gas": "N2"}
    assert second.outputs == {"strength": 42.0, "porosity": 0.5}
    (result,) = oven.ledger.results(first.id)
    assert result.details == {"place": "data.csv: line 2", "sd": {"strength": 0.5}, "columns": {"sample": "A7"}}
    assert oven.ledger.spending("oven").trials == 0
    assert oven.ledger.check() == []


def test_one_line_is_one_trial(oven):
    status, out, error = imported(oven, "\n".join(DATA.splitlines()[:2]))
    assert (status, out) == (0, "oven: imported 1 trial, oven-0001.\n"), error


def test_the_same_file_twice_changes_nothing_and_says_so(oven):
    imported(oven, DATA)
    status, out, _ = imported(oven, DATA)
    assert (status, "this very file was imported before; nothing was changed" in out) == (0, True)
    assert len(oven.ledger.trials("oven")) == 2
    assert imported(oven, DATA.replace("30.5", "31.5"))[0] == 0
    assert len(oven.ledger.trials("oven")) == 4


def test_a_line_that_is_there_already_is_imported_and_told(oven):
    assert "earlier trial" not in imported(oven, DATA)[1]
    status, out, _ = imported(oven, DATA + "A9,1200,30,N2,50,,-1\nA9,1200,30,N2,50,,-1\n")
    assert status == 0 and len(oven.ledger.trials("oven")) == 6
    assert "trial: oven-0003 as oven-0001, oven-0004 as oven-0002, oven-0006 as oven-0005. If it is" in out
    assert "'fieldcraft retract oven-0003 --reason ...' takes it back." in out


def test_a_table_that_can_be_read_but_once_is_known_by_what_was_read(oven):
    for text in (DATA, DATA.replace("30.5", "31.5")):
        reading, writing = os.pipe()
        os.write(writing, text.encode())
        os.close(writing)
        status, out, error = oven.run("import", oven.file, f"/dev/fd/{reading}")
        os.close(reading)
        assert (status, "imported 2 trials" in out) == (0, True), error
    assert len(oven.ledger.trials("oven")) == 4


def test_the_same_file_read_another_way_is_another_import(oven):
    text = DATA.replace("sample,T [K]", "Tmin,Tmax").replace("A7", "990").replace("A8", "1090")
    for column in ("Tmin", "Tmax", "Tmax"):
        assert imported(oven, text, "--map", f"{column}=T")[0] == 0
    assert [trial.actual["T"] for trial in oven.ledger.trials("oven")] == [990.0, 1090.0, 1000.0, 1100.25]


def test_nothing_is_imported_beside_a_pass(oven):
    imported(oven, DATA)
    lease = oven.ledger.acquire("oven")
    status, _, error = imported(oven, DATA.replace("30.5", "31.5"))
    assert (status, "The campaign 'oven' is being worked on by pid" in error) == (2, True), error
    assert len(oven.ledger.trials("oven")) == 2
    oven.ledger.release(lease)
    assert imported(oven, DATA.replace("30.5", "31.5"))[0] == 0
    assert oven.ledger.holder("oven") is None


def test_columns_of_other_names_are_mapped(oven):
    text = DATA.replace("T [K]", "Temp [K]").replace("strength [MPa]", "sigma [MPa]")
    assert "no column 'T'" in imported(oven, text)[2]
    status, _, error = imported(oven, text, "--map", "Temp=T", "--map", "sigma [MPa]=strength")
    assert status == 0, error


def test_a_column_cannot_stand_for_what_is_not_there(oven):
    status, _, error = imported(oven, DATA, "--map", "sample=gass")
    assert status == 2
    assert "--map sample=gass: 'gass' is no variable or output of oven. Did you mean 'gas'? Known: T, t, gas," in error
    assert not oven.settings.ledger.exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1100.25", "1600", r"line 3: T is 1600.0, outside [900.0, 1500.0] K"),
        ("20,Ar", "20.5,Ar", "line 3: t is '20.5'. Give a whole number"),
        ("20,Ar", "20,He", "line 3: gas: gas has no level 'He'"),
        (",42,", ",nan,", "line 3: strength is 'nan'"),
        (",42,", ",,", "line 3: strength is empty"),
        (",42,", ",inf,", "line 3: strength is 'inf'"),
        ("T [K]", "T [C]", "the header gives T in 'C', and it is in 'K' here"),
        ("strength sd [MPa]", "strength sd [GPa]", "gives strength sd in 'GPa'"),
        ("porosity [%]", "porosty [%]", "no column 'porosity'. Did you mean 'porosty'"),
        ("42,,0.5", "42,,0.5,9", "line 3 has 8 cells and the header 7"),
        ("0.5,-1", "-0.5,-1", "line 2: strength sd is -0.5"),
        (DATA.split("\n", 1)[1], "", "holds no line below the header"),
    ],
)
def test_one_mistake_imports_nothing_and_names_its_place(oven, old, new, message):
    assert old in DATA
    status, _, error = imported(oven, DATA.replace(old, new))
    assert (status, message in error) == (2, True), error
    assert not oven.settings.ledger.exists()


def learning(folder: Path, patch: pytest.MonkeyPatch, text: str = LEARNING) -> Bench:
    return bench(folder, text, patch)


def test_imported_trials_count_as_data_but_neither_in_the_sequence_nor_in_the_budget(tmp_path, monkeypatch):
    with_data = learning(tmp_path / "with", monkeypatch)
    assert imported(with_data, OLD)[0] == 0
    assert with_data.make_pass().proposed == 1  # three designs come before the model, and two are known
    without = learning(tmp_path / "without", monkeypatch)
    assert without.make_pass().proposed == 3
    (own,) = [trial for trial in with_data.ledger.trials("small") if trial.origin.kind == "initial"]
    assert own.design == without.ledger.trials("small")[0].design
    assert with_data.ledger.spending("small").trials == 1, "its own, which was sent"


def test_a_campaign_with_enough_data_begins_with_its_model(tmp_path, monkeypatch):
    made = learning(tmp_path, monkeypatch, LEARNING.replace("n: 3", "n: 2"))
    imported(made, OLD)
    assert made.make_pass().proposed == 1
    trial = made.ledger.trials("small")[-1]
    product = made.ledger.product("small", trial.iteration, "train")
    assert trial.origin.kind == "model"
    results = made.ledger.result_summaries("small")
    assert Trained.of(product).seen == Seen.of([result.id for result in results], results[-1].id)
    assert [trial.id for trial in seen_by(product, made.ledger.summaries("small"), results)] == [
        "small-0001",
        "small-0002",
    ]


def test_a_campaign_that_has_ended_takes_no_data(finished):
    made = Bench(settings_from(home=finished / "home"), finished / "small.yaml")
    status, _, error = imported(made, OLD)
    assert (status, "Campaign 'small' has ended (budget" in error) == (2, True), error
    assert len(made.ledger.trials("small")) == 3


def test_only_who_may_operate_imports(oven, tmp_path, monkeypatch):
    (tmp_path / "people.yaml").write_text("users: {}\n")
    (tmp_path / "people.yaml").chmod(0o600)
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(tmp_path / "people.yaml"))
    status, _, error = imported(oven, DATA)
    assert (status, "may not operate" in error) == (2, True), error
    assert not oven.settings.ledger.exists()
