"""Deciding on the command line: bound to what was seen, one winner, whole batches, limits, and text that stays text."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import warm_start
from small import command
from waiting import PLUGINS, Waiting, campaign

from fieldcraft.flows.cli import main
from fieldcraft.flows.commands.shared import complain, show
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.identity import Person, Refused, digest_of_token, operating_system_user
from fieldcraft.flows.people.decisions import Overtaken, approve, batch, edit, prioritise, reject
from fieldcraft.flows.rules.trial_labels import Choice, label
from fieldcraft.flows.text import LONGEST, ago, one_line, printable, remark, since
from fieldcraft.storage.ledger import ForbiddenMove, InvalidRecord, UnknownCampaign, UnknownTrial
from fieldcraft.storage.records import TrialState

ANA, BEN = Person("ana", "operator"), Person("ben", "approver", 100.0)
FIRST = "priced-0001"
ESCAPE = "\x1b]0;owned\x07\x1b[2J"


@pytest.fixture
def begin(tmp_path, monkeypatch) -> Callable[..., Waiting]:
    """Makes a campaign whose first three trials wait as the approval given says."""
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(PLUGINS))

    def begun(approval: object = "human", **changes: object) -> Waiting:
        waiting = campaign(tmp_path / "home", approval, **changes)
        waiting.make_pass()
        return waiting

    return begun


@pytest.fixture
def say(capsys, begin) -> Callable[..., tuple[int, str]]:
    """Runs a command on the stores of a campaign and returns its exit code and what it said."""

    def said(waiting: Waiting, *words: object) -> tuple[int, str]:
        code = main([*map(str, words), "--home", str(waiting.settings.home)])
        output = capsys.readouterr()
        assert not (output.out and output.err)
        return code, (output.out or output.err).rstrip("\n")

    return said


def choices(waiting: Waiting, *numbers: int) -> list[Choice]:
    trials = waiting.trials()
    return [Choice(trials[number - 1].id, trials[number - 1].digest) for number in numbers]


def rows(waiting: Waiting) -> object:
    """All that a refused decision must leave as it was."""
    name = waiting.name
    return waiting.trials(), waiting.ledger.history(name), [waiting.ledger.approvals(t.id) for t in waiting.trials()]


# -- one winner


def test_who_comes_second_is_told_who_was_first_and_changes_nothing(begin, say):
    waiting = begin()
    reject(waiting.ledger, BEN, choices(waiting, 1), "too hot")
    before = rows(waiting)
    code, said = say(waiting, "approve", FIRST, "priced-0002")
    assert code == 2
    assert re.fullmatch(rf"fieldcraft: {FIRST} was rejected by ben \d+ s ago \(too hot\)\. Nothing was changed\.", said)
    assert rows(waiting) == before


@pytest.mark.parametrize(
    ("first", "verb"),
    [
        (lambda w: approve(w.ledger, w.settings, BEN, [Choice(FIRST)], "fine"), r"approved by ben \d+ s ago \(fine\)"),
        (
            lambda w: (approve(w.ledger, w.settings, BEN, [Choice(FIRST)]), w.make_pass()),
            r"sent by fieldcraft \d+ s ago",
        ),
    ],
)
def test_a_second_approval_is_told_of_the_first(begin, first, verb):
    waiting = begin()
    first(waiting)
    with pytest.raises(Overtaken, match=rf"^{FIRST} was {verb}"):
        approve(waiting.ledger, waiting.settings, ANA, [Choice(FIRST)])


def test_what_was_edited_after_it_was_seen_is_not_approved(begin):
    waiting = begin()
    seen = choices(waiting, 1)
    edit(waiting.ledger, waiting.settings, BEN, Choice(FIRST), {"t": "44"}, "cooler")
    # A digest's first digits can be made to agree by search, so the revision is compared too.
    alike = Choice(FIRST, waiting.ledger.trial(FIRST).digest[:16], revision=1)
    for choice in (seen[0], Choice(FIRST, seen[0].digest[:16], revision=2), alike):
        with pytest.raises(Overtaken, match=r"not what you saw.*it was edited by ben \d+ s ago \(cooler\)\. Look at"):
            approve(waiting.ledger, waiting.settings, ANA, [choice])
    approve(waiting.ledger, waiting.settings, ANA, [Choice.of(label(waiting.ledger.trial(FIRST)))])
    assert waiting.ledger.trial(FIRST).state is TrialState.APPROVED


def test_one_trial_that_was_decided_upon_holds_up_the_whole_decision(begin):
    waiting = begin()
    approve(waiting.ledger, waiting.settings, BEN, choices(waiting, 3))
    before = rows(waiting)
    for decide in (
        lambda: approve(waiting.ledger, waiting.settings, ANA, choices(waiting, 1, 2, 3)),
        lambda: approve(waiting.ledger, waiting.settings, ANA, [*choices(waiting, 1), Choice("priced-0002", "0" * 64)]),
    ):
        with pytest.raises(Overtaken, match=r"Nothing was changed\.$"):
            decide()
        assert rows(waiting) == before


@pytest.mark.parametrize("second", [["approve"], ["reject", "--reason", "no"]])
def test_two_people_at_once_leave_one_winner_and_one_clear_message(begin, tmp_path, second):
    waiting = begin(algorithm={"start": {"n": 12}}, budget={"trials": 12})
    token = {name: f"fc_{name}" for name in ("ana", "ben")}
    people = tmp_path / "people.yaml"
    people.write_text(
        "tokens:\n"
        + "".join(f"- {{name: {n}, role: operator, sha256: {digest_of_token(t)}}}\n" for n, t in token.items())
    )
    people.chmod(0o600)
    program = (
        "import os, sys\nfrom fieldcraft.flows.cli import main\nfrom fieldcraft.flows.wiring.build import rewire\n"
        "print('ready', flush=True)\nopen(os.environ['GO']).close()\n"
        "for number in range(1, 13):\n"
        "    trial = f'priced-{number:04d}'\n"
        "    main([*sys.argv[1:2], trial, *sys.argv[2:]])\n"
        "    sys.stderr.flush(), sys.stdout.flush()\n"
    )

    os.mkfifo(tmp_path / "go")

    def start(name: str, *words: str) -> warm_start.Command:
        who = {"FIELDCRAFT_PEOPLE": str(people), "FIELDCRAFT_TOKEN": token[name], "GO": str(tmp_path / "go")}
        words = ("-c", program, *words, "--home", str(waiting.settings.home))
        return warm_start.Command(list(words), {**os.environ, **who})

    both = [start("ana", "approve"), start("ben", *second)]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    with (tmp_path / "go").open("w"):  # both go on once somebody may write
        said = [process.communicate(timeout=100) for process in both]
    won = sum(len(output.splitlines()) for output, _ in said)
    lost = said[0][1].splitlines() + said[1][1].splitlines()
    decided = [event for event in waiting.ledger.history(waiting.name) if event.by in token and event.trial]
    # A reject may also follow an approval (a trial not sent yet may be rejected); nothing else is decided twice.
    twice = sum(trial.state is TrialState.REJECTED for trial in waiting.trials() if waiting.ledger.approvals(trial.id))
    assert won == len(decided) == 12 + twice
    assert len(lost) == 24 - len(decided)
    who = r"(approved by (ana|ben) \d+ s ago|rejected by ben \d+ s ago \(no\))"
    pattern = rf"fieldcraft: priced-\d+ was {who}\. Nothing was changed\."
    assert all(re.fullmatch(pattern, line) for line in lost), lost
    assert waiting.ledger.check() == []


# -- what is approved


def test_the_approval_is_for_as_often_as_the_file_says_unless_an_operator_says_more(begin):
    waiting = begin(dispatcher={"attempts": 2})
    approve(waiting.ledger, waiting.settings, BEN, choices(waiting, 1))
    approve(waiting.ledger, waiting.settings, BEN, choices(waiting, 2), attempts=1)
    with pytest.raises(Refused, match="ben is an approver and may give the 2 attempts of the campaign file, not 5"):
        approve(waiting.ledger, waiting.settings, BEN, choices(waiting, 3), attempts=5)
    approve(waiting.ledger, waiting.settings, ANA, choices(waiting, 3), attempts=5)
    assert [waiting.ledger.approvals(t.id)[0].attempts for t in waiting.trials()] == [2, 1, 5]
    edit(waiting.ledger, waiting.settings, ANA, Choice(FIRST), {"t": "22"})
    for attempts, message in ((0, "An approval for 0 attempts would approve nothing"), (10**20, "is out of reach")):
        with pytest.raises(InputError, match=message):
            approve(waiting.ledger, waiting.settings, ANA, choices(waiting, 1), attempts=attempts)


def test_a_cost_limit_stops_an_approver_and_nobody_else(begin):
    waiting = begin()
    costs = {trial.id: trial.cost for trial in waiting.trials()}
    dearest = max(costs.values())
    poor = Person("ben", "approver", dearest - 0.5)
    before = rows(waiting)
    with pytest.raises(Refused, match=f"costs {dearest:g} and ben may approve up to {dearest - 0.5:g}"):
        approve(waiting.ledger, waiting.settings, poor, choices(waiting, 1, 2, 3))
    with pytest.raises(Refused, match=f"cost {sum(costs.values()):g} together"):
        approve(
            waiting.ledger,
            waiting.settings,
            Person("ben", "approver", sum(costs.values()) - 0.5),
            choices(waiting, 1, 2, 3),
        )
    assert rows(waiting) == before
    assert len(approve(waiting.ledger, waiting.settings, ANA, choices(waiting, 1, 2, 3))) == 3


def test_an_edit_does_not_lead_round_a_cost_limit_where_the_policy_approves_what_comes_of_it(begin, say):
    waiting = begin({"after_first": 2}, dispatcher={"parallel": 1}, algorithm={"start": {"n": 4}})
    last = waiting.trials(TrialState.APPROVED)[-1].id
    before = rows(waiting)
    with pytest.raises(Refused, match=f"{last} costs 8 and ben may approve up to 5"):
        edit(waiting.ledger, waiting.settings, Person("ben", "approver", 5.0), Choice(last), {"n": "4", "t": "20"})
    assert rows(waiting) == before
    assert "which the policy after_first approves in the next pass" in say(waiting, "edit", last, "t=20.5")[1]
    assert "revision 2, which needs an approval" in say(waiting, "edit", FIRST, "t=20.5")[1]


def test_a_rejection_needs_a_reason_and_ends_the_trial(begin, say):
    waiting = begin()
    with pytest.raises(InputError, match="A rejection without a reason teaches nobody"):
        reject(waiting.ledger, ANA, choices(waiting, 1), " \n")
    assert say(waiting, "reject", FIRST)[0] == 2
    approve(waiting.ledger, waiting.settings, ANA, choices(waiting, 1))
    reject(waiting.ledger, BEN, choices(waiting, 1), "after all")
    assert waiting.states()[0] == "REJECTED"
    assert [approval.live for approval in waiting.ledger.approvals(FIRST)] == [False]


def test_nothing_is_approved_in_a_campaign_that_has_ended(begin):
    waiting = begin()
    waiting.ledger.finish(waiting.name, "target: reached", "test")
    with pytest.raises(InputError, match=r"has ended \(target: reached\) and sends nothing more"):
        approve(waiting.ledger, waiting.settings, ANA, choices(waiting, 1))


@pytest.mark.parametrize(
    ("chosen", "error", "message"),
    [
        ([], InputError, "The trials chosen are none"),
        ([Choice(FIRST), Choice(FIRST)], InputError, "name at least one, and each once"),
        ([Choice("priced-0099")], UnknownTrial, "priced-0099"),
        ([Choice("'; DROP TABLE trials; --")], UnknownTrial, "DROP TABLE"),
        ([Choice("../../etc/passwd")], UnknownTrial, "passwd"),
        ([Choice("priced-\ud800")], InvalidRecord, "cannot be in a ledger"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(begin, chosen, error, message):
    waiting = begin()
    before = rows(waiting)
    with pytest.raises(error, match=message):
        approve(waiting.ledger, waiting.settings, ANA, chosen)
    assert rows(waiting) == before


SEEN = ["", "abc", "g" * 64, "0" * 65, "0" * 16, "1-abc", f"0-{'0' * 16}", f"1-{'0' * 65}", f"{'9' * 5000}-{'0' * 16}"]


@pytest.mark.parametrize("seen", SEEN)
def test_what_is_no_label_is_refused(seen):
    with pytest.raises(InputError, match="names nothing that was seen"):
        Choice.of(f"{FIRST}@{seen}")


def test_a_label_names_revision_and_digest(begin):
    trial = begin().ledger.trial(FIRST)
    assert label(trial) == f"{FIRST}@1-{trial.digest[:16]}"
    assert Choice.of(label(trial)) == Choice(FIRST, trial.digest[:16], 1)
    assert Choice.of(f"{FIRST}@{trial.digest}") == Choice(FIRST, trial.digest)


def test_a_label_stands_for_its_trial_wherever_one_is_named(begin, say):
    waiting = begin()
    seen = label(waiting.ledger.trial(FIRST))
    assert say(waiting, "prioritise", seen, "2") == (0, f"{FIRST}: priority 2")
    edit(waiting.ledger, waiting.settings, BEN, Choice(FIRST), {"t": "30"})
    status, told = say(waiting, "prioritise", seen, "3")
    assert status == 2 and f"{FIRST} is not what you saw" in told and "was edited by ben" in told
    assert waiting.ledger.trial(FIRST).priority == 2
    for word in ("show", "trace"):
        assert FIRST in say(waiting, word, seen)[1]
    assert f"{FIRST} is PROPOSED and cannot be cancelled" in say(waiting, "cancel", seen, "--reason", "no")[1]
    assert f"{FIRST} is PROPOSED and cannot be abandoned" in say(waiting, "abandon", seen, "--reason", "no")[1]


# -- batches


def test_a_batch_is_decided_as_a_whole(begin, say):
    waiting = begin("batch")
    before = rows(waiting)
    for words in (["approve", FIRST], ["reject", FIRST, "--reason", "no"]):
        code, said = say(waiting, *words)
        assert code == 2
        assert "priced-0002, priced-0003 of iteration 0 would be left over: decide on all of it together" in said
        assert "At the desk choose all of its cards, in a terminal give --batch priced:0" in said
    assert rows(waiting) == before
    assert say(waiting, "approve", "--batch", "priced:0", "--comment", "all")[0] == 0
    assert waiting.states() == ["APPROVED"] * 3
    code, said = say(waiting, "approve", "--batch", "priced:0")
    assert code == 2
    assert f"{FIRST} was approved by {operating_system_user()} " in said
    assert say(waiting, "reject", "--batch", "priced:0", "--reason", "back")[0] == 0
    assert waiting.states() == ["REJECTED"] * 3


@pytest.mark.parametrize(
    ("word", "error", "message"),
    [
        ("priced", InputError, "names no batch: give NAME:ITERATION"),
        ("priced:x", InputError, "names no batch"),
        ("priced:-1", InputError, "names no batch"),
        ("priced:99999999999999999999", InputError, "names no batch"),
        (f"priced:{'9' * 5000}", InputError, "names no batch"),
        ("pri\udc80ced:0", InvalidRecord, r"'pri\\udc80ced' cannot be in a ledger"),
        ("priced:7", InputError, "has no iteration 7: its last one is 0"),
        ("prised:0", UnknownCampaign, "prised"),
    ],
)
def test_a_batch_that_is_not_there_is_refused(begin, word, error, message):
    with pytest.raises(error, match=message):
        batch(begin().ledger, word, {TrialState.PROPOSED})


# -- edits


def test_an_edit_keeps_what_it_does_not_name_and_shows_old_and_new(begin, say):
    waiting = begin()
    old = waiting.ledger.trial(FIRST)
    code, said = say(waiting, "edit", FIRST, "n=2", "t=30.5", "--reason", "rounder")
    new = waiting.ledger.trial(FIRST)
    assert code == 0
    assert new.design == {"t": 30.5, "n": 2, "alloy": old.design["alloy"]}
    assert (new.cost, new.revision, new.origin) == (4.0, 2, old.origin)
    assert isinstance(new.design["n"], int)
    assert f"now  t 30.5 degC, n 2, alloy {old.design['alloy']} (cost 4)" in said
    assert f"(cost {old.cost:g})" in said.splitlines()[1]
    event = waiting.ledger.history(waiting.name, FIRST)[-1]
    assert (event.action, event.by, event.reason) == ("edit", operating_system_user(), "rounder")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"t": "91"}, r"t is 91.0, outside \[20.0, 90.0\] degC"),
        ({"t": "nan"}, "t is nan: give a finite number"),
        ({"t": "1e999"}, "t is inf: give a finite number"),
        ({"t": "warm"}, "t is 'warm', not a number"),
        ({"n": "2.5"}, "n is 2.5: give a whole number"),
        ({"n": "two"}, "n is 'two', not a number"),
        ({"n": "6"}, "n is 6.0, outside"),
        ({"alloy": "brss"}, "alloy has no level 'brss'. Did you mean 'brass'"),
        ({"T": "30"}, "No variable is named 'T'"),
        ({"t": "90", "n": "4"}, r"violates t \+ 10 n <= 120"),
        ({"t": ESCAPE}, "not a number"),
    ],
)
def test_an_edit_outside_the_space_is_refused(begin, values, message):
    waiting = begin()
    before = rows(waiting)
    with pytest.raises(InputError, match=message):
        edit(waiting.ledger, waiting.settings, ANA, Choice(FIRST), values)
    assert rows(waiting) == before


def test_bounds_that_the_campaign_narrowed_hold_for_an_edit(begin):
    waiting = begin(space={"t": [20, 40]})
    with pytest.raises(InputError, match=r"t is 50.0, outside \[20.0, 40.0\]"):
        edit(waiting.ledger, waiting.settings, ANA, Choice(FIRST), {"t": "50"})


def test_an_edit_that_changes_nothing_or_comes_too_late_is_refused(begin):
    waiting = begin()
    same = str(waiting.ledger.trial(FIRST).design["alloy"])
    with pytest.raises(ForbiddenMove, match="this one already"):
        edit(waiting.ledger, waiting.settings, ANA, Choice(FIRST), {"alloy": same})
    approve(waiting.ledger, waiting.settings, ANA, [Choice(FIRST)])
    waiting.make_pass()
    with pytest.raises(Overtaken, match=f"{FIRST} was sent by fieldcraft"):
        edit(waiting.ledger, waiting.settings, ANA, Choice(FIRST), {"t": "30"})


@pytest.mark.parametrize("words", [["t"], ["=3"], ["t=30", "t=31"]])
def test_values_that_are_no_pairs_are_refused(begin, say, words):
    waiting = begin()
    assert say(waiting, "edit", FIRST, *words)[0] == 2
    assert waiting.ledger.trial(FIRST).revision == 1


# -- rights


@pytest.mark.parametrize(
    "words",
    [
        ["approve", FIRST],
        ["reject", FIRST, "--reason", "no"],
        ["edit", FIRST, "t=30"],
        ["prioritise", FIRST, "3"],
    ],
)
def test_a_viewer_decides_nothing(begin, say, monkeypatch, tmp_path, words):
    waiting = begin()
    people = tmp_path / "people.yaml"
    people.write_text("users: {}\n")
    people.chmod(0o600)
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(people))
    before = rows(waiting)
    code, said = say(waiting, *words)
    assert (code, "is a viewer and may not decide" in said) == (2, True)
    assert rows(waiting) == before
    assert say(waiting, "queue")[0] == 0


def test_the_bearer_of_a_token_is_written_down_and_the_token_nowhere(begin, say, monkeypatch, tmp_path):
    waiting, token = begin(), "fc_carlas-secret-token"
    people = tmp_path / "people.yaml"
    people.write_text(f"tokens: [{{name: carla, role: approver, cost_limit: 50, sha256: {digest_of_token(token)}}}]\n")
    people.chmod(0o600)
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(people))
    monkeypatch.setenv("FIELDCRAFT_TOKEN", token)
    assert say(waiting, "approve", FIRST, "--json")[0] == 0
    assert waiting.ledger.approvals(FIRST)[0].by == "carla"
    monkeypatch.setenv("FIELDCRAFT_TOKEN", token + "x")
    code, said = say(waiting, "reject", FIRST, "--reason", "no")
    assert (code, token in said) == (2, False)
    kept = b"".join(path.read_bytes() for path in Path(waiting.settings.home).rglob("*") if path.is_file())
    assert token.encode() not in kept


def test_a_cost_limit_holds_for_all_that_one_command_sends_again(begin, say, monkeypatch, tmp_path):
    waiting, people = begin(), tmp_path / "people.yaml"
    done = approve(waiting.ledger, waiting.settings, ANA, choices(waiting, 1, 2))
    for trial in done:
        staged = waiting.ledger.move(trial.id, TrialState.STAGED, trial.expect, "a pass", "", code=waiting.code)
        waiting.ledger.move(trial.id, TrialState.FAILED, staged.expect, "a pass", "it broke", failure="unknown")
    names, costs, token = [trial.id for trial in done], [trial.cost for trial in done], "fc_carlas"
    entry = {"name": "carla", "role": "approver", "cost_limit": sum(costs) - 0.01, "sha256": digest_of_token(token)}
    people.write_text(json.dumps({"tokens": [entry]}))
    people.chmod(0o600)
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(people))
    monkeypatch.setenv("FIELDCRAFT_TOKEN", token)
    before = rows(waiting)
    code, said = say(waiting, "retry", *names)
    assert (code, f"These 2 trials cost {sum(costs):g} together" in said) == (2, True)
    code, said = say(waiting, "retry", names[0], "priced-9999")
    assert (code, "priced-9999" in said) == (2, True)
    assert rows(waiting) == before
    assert say(waiting, "retry", names[0])[0] == 0


# -- priorities


def test_a_priority_is_set_and_recorded(begin, say):
    waiting = begin()
    assert say(waiting, "prioritise", FIRST, "-3", "--reason", "later") == (0, f"{FIRST}: priority -3")
    assert waiting.ledger.trial(FIRST).priority == -3
    assert waiting.ledger.history(waiting.name, FIRST)[-1].reason == "later"
    for wrong in (1_000_001, -(10**30)):
        with pytest.raises(InputError, match="is out of reach"):
            prioritise(waiting.ledger, ANA, FIRST, wrong)


# -- the queue


def test_the_queue_shows_what_waits_and_why(begin, say):
    waiting = begin({"policy": "human", "expires_h": 5})
    edit(waiting.ledger, waiting.settings, BEN, Choice(FIRST), {"t": "30"}, "rounder")
    approve(waiting.ledger, waiting.settings, ANA, choices(waiting, 2), "fine")
    prioritise(waiting.ledger, ANA, "priced-0003", 2)
    code, said = say(waiting, "queue", "priced")
    assert code == 0
    first, third = label(waiting.ledger.trial(FIRST)), label(waiting.ledger.trial("priced-0003"))
    assert said.index(third) < said.index(first)  # by priority
    assert "priority 2" in said
    assert "edited by ben, revision 2: rounder" in said
    assert re.search(r"cost \d+ EUR", said)
    assert "t 30 degC" in said
    assert "approved by ana: fine; expires in 5 h" in said or "expires in 300 min" in said
    (data,) = json.loads(say(waiting, "queue", "--json")[1])
    assert [entry["trial"] for entry in data["waiting"]] == ["priced-0003", FIRST]
    assert data["waiting"][1]["digest"] == waiting.ledger.trial(FIRST).digest
    assert data["waiting"][0]["units"] == {"t": "degC", "n": "", "alloy": ""}
    assert data["approved"][0]["approval"]["by"] == "ana"
    assert (data["policy"], data["expires_h"], data["unit"]) == ("human", 5.0, "EUR")


def test_what_the_queue_showed_can_be_approved_by_its_digest(begin, say):
    waiting = begin()
    (data,) = json.loads(say(waiting, "queue", "--json")[1])
    one, two = data["waiting"][:2]
    words = ["approve", one["trial"], two["trial"], "--digest", one["digest"], "--digest", two["digest"]]
    edit(waiting.ledger, waiting.settings, BEN, Choice(two["trial"]), {"t": "30"})
    assert say(waiting, *words)[0] == 2
    assert waiting.states() == ["PROPOSED"] * 3
    assert say(waiting, "approve", one["trial"], "--digest", one["digest"])[0] == 0
    assert say(waiting, "approve", two["trial"], "--digest", one["digest"])[0] == 2
    assert say(waiting, "approve", two["trial"], "priced-0003", "--digest", one["digest"])[0] == 2
    assert say(waiting, "approve")[0] == 2
    assert say(waiting, "approve", FIRST, "--batch", "priced:0")[0] == 2


def test_the_queue_lists_held_trials_with_what_can_be_done_and_retries_with_their_time(begin, say):
    waiting = begin(dispatcher={"backoff_s": 600, "attempts": 3})
    for number, to, failure in ((1, TrialState.HELD, None), (2, TrialState.FAILED, "transient")):
        approve(waiting.ledger, waiting.settings, ANA, choices(waiting, number))
        trial = waiting.trials()[number - 1]
        staged = waiting.ledger.move(trial.id, TrialState.STAGED, trial.expect, "test", "claimed", code=waiting.code)
        waiting.ledger.move(trial.id, to, staged.expect, "test", f"why {ESCAPE}", failure=failure)
    code, said = say(waiting, "queue")
    assert code == 0
    assert "held: a person must say" in said
    for word in ("record", "retry", "abandon"):
        assert f"'fieldcraft {word} {FIRST}'" in said
    assert re.search(r"retry 1 of 2 in (10 min|\d{3} s)", said)
    assert "\x1b" not in said
    assert "\\x1b]0;owned" in said


def test_an_empty_queue_says_so(begin, say):
    waiting = begin()
    reject(waiting.ledger, ANA, choices(waiting, 1, 2, 3), "no")
    assert say(waiting, "queue") == (0, "priced: nothing waits")


# -- text


@pytest.mark.parametrize(
    "text", ["", "a\nb\tc", "ünï © 漢字 🙂", "'; DROP TABLE trials; --", "x" * LONGEST, "{0} %s $HOME"]
)
def test_any_ordinary_text_is_kept_as_it_is(begin, text):
    waiting = begin()
    approve(waiting.ledger, waiting.settings, ANA, choices(waiting, 1), text)
    assert waiting.ledger.approvals(FIRST)[0].comment == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x" * (LONGEST + 1), "The comment has 2001 characters: keep it to 2000"),
        (ESCAPE, r"holds the control character '\\x1b' at place 1"),
        ("a\x00b", r"control character '\\x00' at place 2"),
        ("a\rb", r"control character '\\r'"),
        ("a\x9bb", r"control character '\\x9b'"),
        ("a\ud800b", "control character"),
    ],
)
def test_text_that_could_harm_is_refused(begin, text, message):
    waiting = begin()
    before = rows(waiting)
    with pytest.raises(InputError, match=message):
        approve(waiting.ledger, waiting.settings, ANA, choices(waiting, 1), text)
    assert rows(waiting) == before


def test_text_that_others_wrote_into_the_ledger_moves_no_cursor(begin, say):
    waiting = begin()
    trial = waiting.ledger.trial(FIRST)
    waiting.ledger.approve(FIRST, trial.expect, trial.digest, f"eve{ESCAPE}", f"x{ESCAPE}\u202egnp", "manual", 1)
    for words in (["queue"], ["show", FIRST], ["approve", FIRST], ["trace", FIRST]):
        said = say(waiting, *words)[1]
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", said)
    assert "\\x1b]0;owned\\x07" in say(waiting, "approve", FIRST)[1]


def test_whatever_a_command_prints_is_escaped_at_the_last_place_of_all(capsys):
    show(False, None, lambda: f"a{ESCAPE}\nb")
    complain([f"c{ESCAPE}\nd"], as_json=False)
    said = capsys.readouterr()
    assert said.out == "a\\x1b]0;owned\\x07\\x1b[2J\nb\n"
    assert said.err == "fieldcraft: c\\x1b]0;owned\\x07\\x1b[2J d\n"


def test_shown_text_keeps_its_letters_and_lines_and_loses_its_powers():
    assert printable("ü 漢\n🙂") == "ü 漢\n🙂"
    assert printable("a\x1bb\u2028c\u202ed\x9b") == "a\\x1bb\\u2028c\\u202ed\\x9b"
    assert one_line("a\nb\u2028c") == "a b c"
    assert remark("a\tb", "reason") == "a\tb"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (119, "119 s"), (121, "2 min"), (7199, "120 min"), (7300, "2 h"), (1e6, "12 d")],
)
def test_times_are_told_in_words(seconds, words):
    assert ago(0.0, seconds) == ago(seconds, 0.0) == words
    assert since(0.0, seconds) == f"{words} ago"


def test_what_the_clock_was_set_back_behind_is_told_with_its_date():
    assert since(4e9, 1.8e9) == "on 2096-10-02 07:06:40 UTC"


def test_no_decision_imports_torch(begin):
    waiting = begin()
    program = (
        "import sys\nfrom fieldcraft.flows.cli import main\n"
        "home = ['--home', sys.argv[1]]\n"
        f"for words in (['queue'], ['edit', '{FIRST}', 't=30'], ['approve', '{FIRST}'],\n"
        f"              ['prioritise', '{FIRST}', '2'], ['reject', '{FIRST}', '--reason', 'no'],\n"
        "              ['token', 'x', '--role', 'viewer']):\n"
        "    assert main([*words, *home]) == 0, words\n"
        "print(sorted({'torch', 'prefect', 'mlflow', 'zarr'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(waiting.settings.home)], capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stdout.splitlines()[-1], done.stderr) == (0, "[]", "")


def test_the_command_line_of_a_user_decides(begin):
    waiting = begin()
    done = waiting.command("approve", FIRST, "--comment", "fine")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{FIRST}: approved\n", "")
    assert command("approve", FIRST, "--home", waiting.settings.home / "nowhere").returncode == 2
