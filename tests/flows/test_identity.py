"""Who acts: the account, or a token; what a role and a cost limit allow; and that no token is ever shown."""

import json
import os
import pwd
from dataclasses import replace
from pathlib import Path

import pytest
from small import command

from fieldcraft.flows.identity import (
    RIGHTS,
    Person,
    Refused,
    account,
    acting,
    bearer,
    digest_of_token,
    fresh_token,
    operating_system_user,
)
from fieldcraft.flows.settings import Settings, settings_from

ME = pwd.getpwuid(os.geteuid()).pw_name
TOKEN = "fc_carla-s-own-secret"


def people(folder: Path, text: str) -> Settings:
    """Settings with a file of people."""
    file = folder / "people.yaml"
    file.write_text(text)
    file.chmod(0o644)
    return settings_from({"FIELDCRAFT_PEOPLE": str(file)}, home=folder / "home")


def listed(folder: Path) -> Settings:
    """A file of people with a token of Carla's."""
    return people(
        folder,
        f"users:\n  {ME}: {{role: approver, cost_limit: 50}}\n"
        f"tokens:\n  - {{name: carla, role: operator, sha256: {digest_of_token(TOKEN)}}}\n",
    )


def test_without_a_file_the_account_may_do_everything(tmp_path):
    settings = settings_from({}, home=tmp_path)
    assert acting(settings, "operate") == Person(ME, "operator", None)


def test_without_a_file_a_token_is_refused(tmp_path):
    with pytest.raises(Refused, match="no file says whose it is: set FIELDCRAFT_PEOPLE"):
        acting(settings_from({"FIELDCRAFT_TOKEN": TOKEN}, home=tmp_path), "read")


def test_an_account_that_is_not_listed_may_only_read(tmp_path):
    settings = people(tmp_path, "users: {somebody-else: {role: operator}}\n")
    assert acting(settings, "read") == Person(ME, "viewer")
    with pytest.raises(Refused, match=f"{ME} is a viewer and may not decide: ask an approver or an operator"):
        acting(settings, "decide")


def test_an_account_has_the_role_it_is_listed_with(tmp_path):
    settings = listed(tmp_path)
    assert acting(settings, "decide") == Person(ME, "approver", 50.0)
    with pytest.raises(Refused, match=f"{ME} is an approver and may not operate: ask an operator"):
        acting(settings, "operate")


def test_the_account_is_the_systems_word_and_no_variable_changes_it(monkeypatch):
    for name in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "root-of-all")
    assert operating_system_user() == ME


def test_a_token_names_its_owner_whoever_runs_the_process(tmp_path):
    settings = listed(tmp_path)
    assert acting(replace(settings, token=TOKEN), "operate") == Person("carla", "operator")
    assert bearer(settings, TOKEN, "operate") == Person("carla", "operator")


@pytest.mark.parametrize("token", ["", "fc_", TOKEN[:-1], TOKEN + " ", "\ud800", "x" * 100_000])
def test_a_wrong_token_is_refused_and_not_quoted(tmp_path, token):
    with pytest.raises(Refused, match=r"is not known to .*people\.yaml") as refusal:
        bearer(listed(tmp_path), token, "read")
    assert "carla" not in str(refusal.value)
    assert "xxx" not in str(refusal.value)


def test_an_empty_token_in_the_environment_is_no_token(tmp_path):
    assert settings_from({"FIELDCRAFT_TOKEN": ""}, home=tmp_path).token is None


def test_the_settings_do_not_show_a_token(tmp_path):
    assert TOKEN not in repr(settings_from({"FIELDCRAFT_TOKEN": TOKEN}, home=tmp_path))


def test_a_token_that_was_taken_out_no_longer_holds(tmp_path):
    settings = listed(tmp_path)
    assert bearer(settings, TOKEN, "read").name == "carla"
    people(tmp_path, f"users: {{{ME}: {{role: operator}}}}\n")
    with pytest.raises(Refused, match="is not known"):
        bearer(settings, TOKEN, "read")


def test_two_tokens_of_one_person_hold_side_by_side_while_one_replaces_the_other(tmp_path):
    new = fresh_token()
    entries = [f"  - {{name: carla, role: viewer, sha256: {digest_of_token(token)}}}\n" for token in (TOKEN, new)]
    settings = people(tmp_path, "tokens:\n" + "".join(entries))
    assert bearer(settings, TOKEN, "read") == bearer(settings, new, "read") == Person("carla", "viewer")


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_can_write_is_refused_with_the_remedy(tmp_path, mode):
    settings = listed(tmp_path)
    settings.people.chmod(mode)
    for one in (settings, replace(settings, token=TOKEN)):
        with pytest.raises(Refused, match=f"can be written by others.*'chmod go-w {settings.people}'"):
            acting(one, "read")
    settings.people.chmod(0o600)
    assert acting(settings, "read").name == ME


D = "0" * 64
WRONG = {
    "unknown key": ("user: {}\n", "people: Extra inputs are not permitted"),
    "token for a key": (f"users: {{ana: {{role: viewer, {TOKEN}: 1}}}}\n", "users.ana: Extra inputs are not permitted"),
    "token where YAML breaks off": (
        f"tokens:\n  - {{name: a\n    {TOKEN}: [\n",
        "from line 2 on it is not",
    ),
    "anchor": (f"users: &{TOKEN.replace('-', '')}\n  ana: {{role: viewer}}\n", "from line 1 on it is not"),
    "token for a key twice": (f"users:\n  {TOKEN}: {{}}\n  {TOKEN}: {{}}\n", "from line 3 on it is not"),
    "empty file": ("", "people.yaml: it is not as a file of people must be: YAML with users and tokens"),
    "name of the passes": ("users: {FieldCraft: {role: viewer}}\n", "'fieldcraft' is what passes write as"),
    "unknown role": ("users: {ana: {role: admin}}\n", "users.ana.role: Input should be 'viewer', 'approver' or"),
    "approver without a limit": ("users: {ana: {role: approver}}\n", "an approver needs a cost_limit"),
    "limit of an operator": ("users: {ana: {role: operator, cost_limit: 5}}\n", "nobody else has one"),
    "negative limit": ("users: {ana: {role: approver, cost_limit: -1}}\n", "greater than or equal to 0"),
    "infinite limit": ("users: {ana: {role: approver, cost_limit: .inf}}\n", "should be a finite number"),
    "name of a policy": ("users: {'policy:auto': {role: viewer}}\n", "it begins with 'policy:'"),
    "escape in a name": ('users: {"a\\e[31m": {role: viewer}}\n', "holds a control character"),
    "the same digest twice": (
        f"tokens: [{{name: a, role: viewer, sha256: '{D}'}}, {{name: b, role: viewer, sha256: '{D}'}}]\n",
        "a sha256 is listed twice",
    ),
    "two roles": (
        f"users: {{a: {{role: operator}}}}\ntokens: [{{name: a, role: viewer, sha256: '{D}'}}]\n",
        "'a' is listed twice with different roles",
    ),
    "token in the clear": (f"tokens: [{{name: a, role: viewer, sha256: {TOKEN}}}]\n", "String should match pattern"),
    "token for a name": (f"tokens: [{{name: a, role: {TOKEN}, sha256: '{D}'}}]\n", "role: Input should be"),
}


@pytest.mark.parametrize("wrong", list(WRONG))
def test_a_file_that_cannot_be_is_refused_with_its_place_and_without_its_values(tmp_path, wrong):
    text, message = WRONG[wrong]
    with pytest.raises(Refused, match=r"people\.yaml: ") as refusal:
        acting(people(tmp_path, text), "read")
    assert message in str(refusal.value)
    assert TOKEN not in str(refusal.value)
    assert TOKEN.replace("-", "") not in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


def test_a_file_of_people_that_is_not_there_is_no_absence_of_one(tmp_path):
    settings = listed(tmp_path)
    settings.people.unlink()
    with pytest.raises(Refused, match=r"people\.yaml: cannot be read\. Check FIELDCRAFT_PEOPLE"):
        acting(settings, "read")


def test_an_account_named_as_the_passes_is_told_from_them():
    assert account("fieldcraft") == "account:fieldcraft"
    assert account("ana") == "ana"


@pytest.mark.parametrize("words", [["status"], ["show", "small-0001"], ["doctor"], ["notices"], ["check", "x.yaml"]])
def test_an_unknown_token_is_refused_by_every_command(tmp_path, words):
    settings = listed(tmp_path)
    done = command(*words, FIELDCRAFT_PEOPLE=str(settings.people), FIELDCRAFT_TOKEN=f"{TOKEN}x")
    assert (done.returncode, done.stdout) == (2, "")
    assert "The token given is not known" in done.stderr


def test_the_roles_rise():
    assert RIGHTS["viewer"] < RIGHTS["approver"] < RIGHTS["operator"]


def test_a_cost_limit_holds_for_each_trial_and_for_the_sum():
    ben = Person("ben", "approver", 5.0)
    ben.require_cost({"a": 2.0, "b": 3.0})
    with pytest.raises(Refused, match=r"a costs 5\.5 and ben may approve up to 5"):
        ben.require_cost({"a": 5.5})
    with pytest.raises(Refused, match="2 trials cost 6 together and ben may approve up to 5"):
        ben.require_cost({"a": 3.0, "b": 3.0})
    Person("ana", "operator").require_cost({"a": 1e300})


def test_a_token_is_made_once_and_works_when_its_line_is_in_the_file(tmp_path):
    settings = people(tmp_path, "users: {}\n")
    made = command("token", "Zoë Müller", "--role", "approver", "--cost-limit", 20, "--json")
    assert (made.returncode, made.stderr) == (0, "")
    data = json.loads(made.stdout)
    people(tmp_path, f"tokens:\n{data['line']}\n")
    assert bearer(settings, data["token"], "decide") == Person("Zoë Müller", "approver", 20.0)
    assert data["token"] not in settings.people.read_text()


def test_a_token_shown_as_text_is_followed_by_its_line():
    token, advice, line = command("token", "carla", "--role", "viewer").stdout.splitlines()
    assert digest_of_token(token) in line
    assert "shown once" in advice


def test_tokens_are_long_and_differ():
    made = {fresh_token() for _ in range(100)}
    assert len(made) == 100
    assert min(map(len, made)) >= 43


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["carla", "--role", "approver"], "an approver needs a cost_limit"),
        (["carla", "--role", "viewer", "--cost-limit", "3"], "nobody else has one"),
        (["policy:auto", "--role", "viewer"], "begins with 'policy:'"),
        (["carla", "--role", "king"], "'king' is none of them. Known: viewer, approver, operator"),
    ],
)
def test_no_token_is_made_for_a_person_that_cannot_be(words, message):
    done = command("token", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
