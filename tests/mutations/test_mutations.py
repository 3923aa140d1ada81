"""The list of guards still applies to the sources, without trying it: ``make guards`` does."""

import contextlib
import io
from dataclasses import replace

import pytest
from guards import GUARDS, ROOT
from mutate import main


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_a_guard_can_be_removed_as_listed_and_its_test_exists(guard):
    assert guard.problems(ROOT) == []
    assert guard.without != guard.text
    compile((ROOT / guard.file).read_text().replace(guard.text, guard.without), guard.file, "exec")


def test_pytest_finds_every_case_that_the_list_names(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert collected([guard.test for guard in GUARDS]) == ""


def test_a_case_that_is_not_there_is_found_missing(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert "not found: " in collected([GUARDS[0].test.replace("[sqlite]", "[nosqlite]")])


def collected(cases: list[str]) -> str:
    """What pytest complains of as it looks for cases, in this process: it has imported their files."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = pytest.main(["-q", "--collect-only", "-p", "no:cacheprovider", *cases])
    return said.getvalue() if status else ""


def test_no_two_guards_have_one_name_or_one_source():
    assert len({guard.name for guard in GUARDS}) == len({(guard.file, guard.text) for guard in GUARDS}) == len(GUARDS)


def test_a_guard_that_moved_or_whose_test_is_gone_is_named():
    moved = replace(GUARDS[0], text="if trial.expects:", test=GUARDS[0].test.replace("::test_of", "::test_off"))
    assert moved.problems(ROOT) == [
        "compare-and-swap: its source occurs 0 times in storage/ledgers/operations/compare_and_swap.py, not once",
        f"compare-and-swap: there is no test {moved.test}",
    ]
    assert "occurs 2 times" in replace(GUARDS[0], text="from fieldcraft.storage.ledgers").problems(ROOT)[0]


def test_a_name_that_no_guard_has_is_refused(capsys):
    assert main(["no such guard"]) == 1
    assert capsys.readouterr().out == "No guard is called 'no such guard'.\n"
