"""Identity and rights: the operating system's user, or a token, looked up in the operator's file of people.

    users:
      ana: {role: operator}
      ben: {role: approver, cost_limit: 50}
    tokens:
      - {name: carla, role: approver, cost_limit: 20, sha256: 9f86...}

A name comes from the operating system or from this file, never from the request. Tokens are compared by their SHA-256;
they are not stored, logged or quoted in an error. ``docs/security.md`` says what this protects and what it does not.
"""

import hashlib
import hmac
import os
import pwd
import re
import secrets
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from fieldcraft.flows.errors import FieldcraftError, InputError
from fieldcraft.flows.files.yaml_data import load_again
from fieldcraft.flows.settings import Settings

Role = Literal["viewer", "approver", "operator"]
Right = Literal["read", "decide", "operate"]

RIGHTS: Mapping[Role, frozenset[Right]] = {
    "viewer": frozenset({"read"}),
    "approver": frozenset({"read", "decide"}),
    "operator": frozenset({"read", "decide", "operate"}),
}
ACTOR = "fieldcraft"  # who acts when no person does; no person can bear that name
AUTOMATIC = "policy:"  # how the author of an automatic decision begins; no person can bear such a name
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Refused(FieldcraftError):
    """The current user may not do this, or is not known; nothing was changed."""


class Faulty(Refused):
    """The file of people is there and cannot be trusted: it is not as it must be, or others may write it."""


@dataclass(frozen=True)
class Person:
    """The current user.

    Args:
        name: Name as the ledger records it.
        role: Role, which decides their rights.
        cost_limit: Most that one decision of an approver may spend, in the campaign's budget units; None for no limit.
    """

    name: str
    role: Role
    cost_limit: float | None = None

    def require(self, right: Right) -> Self:
        """Return this person if they have the right.

        Raises:
            Refused: they have not.
        """
        if right in RIGHTS[self.role]:
            return self
        able = " or ".join(_a(role) for role, rights in RIGHTS.items() if right in rights)
        raise Refused(f"{self.name} is {_a(self.role)} and may not {right}: ask {able}. Nothing was changed.")

    def require_cost(self, costs: Mapping[str, float]) -> None:
        """Accept a decision on trials with these expected costs, by id, in budget units.

        Raises:
            Refused: one of them, or their sum, is above this person's limit.
        """
        limit, total = self.cost_limit, sum(costs.values())
        if limit is None:
            return
        for trial, cost in costs.items():
            if cost > limit:
                raise Refused(
                    f"{trial} costs {cost:g} and {self.name} may approve up to {limit:g}: ask someone with a higher "
                    "limit. Nothing was changed."
                )
        if total > limit:
            raise Refused(
                f"These {len(costs)} trials cost {total:g} together and {self.name} may approve up to {limit:g} in one "
                "decision: approve fewer, or ask someone with a higher limit. Nothing was changed."
            )


def _person_name(name: str) -> str:
    if name.casefold() == ACTOR:
        raise ValueError(f"{ACTOR!r} is what passes write as; choose another (the account is {account(ACTOR)!r})")
    if name.startswith(AUTOMATIC) or name != name.strip() or not name.isprintable():
        raise ValueError(f"it begins with {AUTOMATIC!r}, or with a space, or holds a control character; choose another")
    return name


_Name = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_person_name)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class _Standing(_Part):
    """A role and, for an approver, its limit."""

    role: Role
    cost_limit: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _approvers_have_a_limit(self) -> Self:
        if (self.role == "approver") != (self.cost_limit is not None):
            raise ValueError("an approver needs a cost_limit (in budget units), and nobody else has one")
        return self


class _Token(_Standing):
    """A token's entry in the file of people: its digest and its owner."""

    name: _Name
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class People(_Part):
    """The operator's file of people, as it was read."""

    users: Mapping[_Name, _Standing] = {}
    tokens: Sequence[_Token] = ()

    @model_validator(mode="after")
    def _one_standing_a_name(self) -> Self:
        known = {name: (one.role, one.cost_limit) for name, one in self.users.items()}
        for token in self.tokens:
            standing = token.role, token.cost_limit
            if known.setdefault(token.name, standing) != standing:
                raise ValueError(f"{token.name!r} is listed twice with different roles or limits; give one of each")
        digests = [token.sha256 for token in self.tokens]
        if len(set(digests)) < len(digests):
            raise ValueError("a sha256 is listed twice; give each person a token of their own")
        return self

    def user(self, name: str) -> Person:
        """The operating system's user of that name; a viewer where the file does not list them."""
        one = self.users.get(name)
        return Person(name, one.role, one.cost_limit) if one else Person(name, "viewer")

    def bearer(self, digest: str) -> Person | None:
        """The owner of a token, or None. Every digest is compared, so that the time taken reveals nothing."""
        found = [one for one in self.tokens if hmac.compare_digest(one.sha256, digest)]
        return Person(found[0].name, found[0].role, found[0].cost_limit) if found else None


def acting(settings: Settings, right: Right) -> Person:
    """The current user, with the right to act: the owner of the settings' token, else the operating system's user.

    Raises:
        Refused: they have not that right, the token is not known, or the file of people cannot be trusted.
    """
    return bearer(settings, settings.token, right) if settings.token is not None else _user(settings).require(right)


def bearer(settings: Settings, token: str, right: Right) -> Person:
    """The owner of a token, with the right to act; the operating system's user does not matter.

    Raises:
        Refused: they have not that right, the token is not known, or the file of people cannot be trusted.
    """
    return bearer_of_digest(settings, digest_of_token(token), right)


def bearer_of_digest(settings: Settings, digest: str, right: Right, known: People | None = None) -> Person:
    """The owner of the token with this SHA-256, for who has checked the token and keeps no more than its digest.

    Args:
        settings: Settings, with the file of people.
        digest: SHA-256 of the token.
        right: Right that the owner must have.
        known: The people, where the file was read already.

    Raises:
        Refused: as ``bearer``.
    """
    if settings.people is None:
        raise Refused(
            "A token was given, but no file says whose it is: set FIELDCRAFT_PEOPLE (docs/security.md), or unset "
            "FIELDCRAFT_TOKEN to act as the operating system's user. Nothing was changed."
        )
    person = (known or read_people(settings.people)).bearer(digest)
    if person is None:
        raise Refused(
            f"The token given is not known to {settings.people}: check it for a missing character, or ask an operator "
            "for a fresh one ('fieldcraft token'). Nothing was changed."
        )
    return person.require(right)


def operating_system_user() -> str:
    """Name of the account of this process, from the system and not from USER or LOGNAME, which anyone can set."""
    number = os.geteuid()
    try:
        return account(pwd.getpwuid(number).pw_name)
    except KeyError:  # a container may run under a number that has no name
        return f"uid:{number}"


def account(name: str) -> str:
    """Name of an account in the ledger and the file of people; changed where it is the name that passes write under."""
    return f"account:{name}" if name.casefold() == ACTOR else name


def fresh_token() -> str:
    """A token of 256 random bits."""
    return f"fc_{secrets.token_urlsafe(32)}"


def digest_of_token(token: str) -> str:
    """SHA-256 of a token, in hexadecimal, as the file of people stores it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def token_entry(name: str, role: str, cost_limit: float | None, token: str) -> dict[str, str | float]:
    """Entry of the file of people for a token.

    Raises:
        Refused: the entry would not be valid: a strange name, no limit for an approver, or a limit for another role.
    """
    entry = {"name": name, "role": role, "cost_limit": cost_limit, "sha256": digest_of_token(token)}
    try:
        made = _Token.model_validate(entry)
    except ValidationError as error:
        said = _explained(error)
        remedy = " '--cost-limit COST' states it." if "cost_limit" in said else ""
        raise Refused(f"No token was made: {said}{remedy}") from None
    return made.model_dump(exclude_none=True)


def _user(settings: Settings) -> Person:
    name = operating_system_user()
    return Person(name, "operator") if settings.people is None else read_people(settings.people).user(name)


def read_people(path: Path) -> People:
    """The people of a file.

    Raises:
        Faulty: the file is not as it must be, or others may write it.
        Refused: it is not there, or cannot be read.
    """
    if not os.access(path, os.R_OK):
        raise Refused(f"{path}: cannot be read. Check FIELDCRAFT_PEOPLE and your rights to it. Nothing was changed.")
    try:
        data = load_again(path, "file of people")
    except InputError as error:
        raise _unreadable(path, str(error)) from None
    if path.stat().st_mode & _WRITABLE_BY_OTHERS:
        raise Faulty(
            f"{path} can be written by others, who could give themselves any role: 'chmod go-w {path}' and look "
            "through it. Nothing was changed."
        )
    try:
        return People.model_validate(data)
    except ValidationError as error:
        raise Faulty(f"{path}: {_explained(error)} Nothing was changed.") from None


def _unreadable(path: Path, problem: str) -> Faulty:
    """The error for a file of people that is not valid YAML, without the parser's message.

    That message quotes the file, and so perhaps a token that was pasted into it.
    """
    line = re.search(r"\bline (\d{1,6})\b", problem.removeprefix(str(path)))
    place = f"from line {line[1]} on it" if line else "it"
    return Faulty(
        f"{path}: {place} is not as a file of people must be: YAML with users and tokens, no tag, no anchor and no key "
        "twice (docs/security.md). Nothing was changed."
    )


def _explained(error: ValidationError) -> str:
    """Faults and their places, without the values: one of them may be a token that was pasted into the wrong place."""
    faults = error.errors(include_input=False, include_context=False)
    return " ".join(f"{_place(fault)}: {fault['msg'].removeprefix('Value error, ')}." for fault in faults)


def _place(fault: Mapping[str, Any]) -> str:
    """The place of a fault. Unknown keys are left out, since anything may have been typed there."""
    known = fault["loc"][:-1] if fault["type"] == "extra_forbidden" else fault["loc"]
    return ".".join(map(str, known)) or "people"


def _a(role: str) -> str:
    return f"an {role}" if role[0] in "aeiou" else f"a {role}"
