"""Delivery of the ledger's notices to people, by the operator's webhook and local command.

Each notice is delivered at least once, always with the same key. It counts as delivered when every channel of the
settings took it. Until then later passes try again, after a pause that grows with its age. Delivery never stops a pass
and takes it at most ``PATIENCE_S``.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.machinery.webhooks import NotDelivered, post
from fieldcraft.flows.notices.links import page_of
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.text import one_line
from fieldcraft.storage.ledger import Ledger, LedgerError
from fieldcraft.storage.processes import kill_group
from fieldcraft.storage.records import CampaignRecord, Notice, TrialState, digest_of
from fieldcraft.storage.text import shown

PATIENCE_S = 15.0  # that a pass may spend on telling, in all
WEBHOOK_S = 10.0
COMMAND_S = 30.0
_LEAST_S = 1.0  # with less time left than this nothing is begun
_FIRST_PAUSE_S, _GROWTH = 10.0, 1.5
_ASKS = "approval waiting"  # the event of a notice that asks for decisions
_MOST_AT_ONCE = 1000
_MOST_TRIES = 100  # beyond which the pause grows no more
_KEPT = (  # of the environment, for the local command: what finds programs and a desktop, and no secret
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),
)

Channel = Callable[[Mapping[str, Any], float], None]


@dataclass(frozen=True)
class Told:
    """Result of a delivery.

    Args:
        told: Ids of the notices that every channel took.
        problems: Reasons why others were not taken, by id.
    """

    told: tuple[int, ...]
    problems: Mapping[int, str]


def deliver(settings: Settings, ledger: Ledger, campaign: str | None = None) -> int:
    """Deliver the notices that are due, within ``PATIENCE_S``. Returns the number delivered.

    Never raises: a failed delivery counts as a try in the ledger, which ``status`` and ``doctor`` show.

    Args:
        settings: Settings with the webhook and the command; without either nothing is sent and no try is counted.
        ledger: Ledger of the notices.
        campaign: Only this campaign's notices; None for all.
    """
    if not channels(settings):
        return 0
    try:
        due = [notice for notice in ledger.notices(campaign, _MOST_AT_ONCE) if is_due(notice, time.time())]
        return len(tell_all(settings, ledger, due, PATIENCE_S).told)
    except (LedgerError, OSError) as error:  # the pass's own next write says the same
        tell("untold", reason=str(error))
        return 0


def tell_all(settings: Settings, ledger: Ledger, notices: Sequence[Notice], patience_s: float) -> Told:
    """Deliver these notices, due or not; a channel that does not answer at all is not tried again.

    Notices that ask for nothing any more are marked as delivered without being sent.

    Args:
        settings: Settings with the webhook and the command.
        ledger: Ledger in which the outcome is recorded.
        notices: Notices, in order.
        patience_s: Time in seconds after which the rest is left, without counting a try.

    Raises:
        storage.ledger.LedgerError: the outcome cannot be recorded; the notices will be delivered again.
    """
    deadline = time.monotonic() + patience_s
    campaigns = {name: ledger.campaign(name) for name in {notice.campaign for notice in notices}}
    ways, dead = channels(settings), dict[Channel, str]()
    told, problems = list[int](), dict[int, str]()
    standing = current(ledger, notices)
    for gone in {notice.id for notice in notices} - {notice.id for notice in standing}:
        ledger.told(gone, True)
    for notice in standing:
        if deadline - time.monotonic() < _LEAST_S and len(dead) < len(ways):
            break
        problem = _tell_one(ways, dead, message_of(campaigns[notice.campaign], notice, settings.desk_url), deadline)
        ledger.told(notice.id, not problem)
        if problem:
            problems[notice.id] = problem
            tell("untold", notice=notice.id, reason=problem)
        else:
            told.append(notice.id)
    return Told(tuple(told), problems)


def current(ledger: Ledger, notices: Sequence[Notice]) -> list[Notice]:
    """The notices that are not past, in the same order."""
    asking = {notice.campaign for notice in notices if notice.event == _ASKS}
    decided = {
        name: {trial.id for trial in ledger.summaries(name) if trial.state is not TrialState.PROPOSED}
        for name in asking
    }
    return [notice for notice in notices if not is_past(notice, decided.get(notice.campaign, ()))]


def is_past(notice: Notice, decided: Collection[str]) -> bool:
    """True if a notice asks for nothing any more: it waits for approvals, and all its trials were decided on.

    Args:
        notice: Any notice.
        decided: The trials of its campaign that do not wait for a decision.
    """
    named = set(notice.payload.get("trials", ()))
    return notice.event == _ASKS and bool(named) and named.issubset(decided)


def _tell_one(ways: Sequence[Channel], dead: dict[Channel, str], message: Mapping[str, Any], deadline: float) -> str:
    """Send one message on every channel that still answers, and mark those that do not. Returns the problems, or ""."""
    problems = []
    for way in ways:
        try:
            if way in dead:
                raise NotDelivered(dead[way])
            way(message, max(_LEAST_S, deadline - time.monotonic()))
        except NotDelivered as error:
            problems.append(str(error))
            if error.status is None:
                dead[way] = str(error)
    return " ".join(problems)


def channels(settings: Settings) -> list[Channel]:
    """The channels of the operator's settings."""

    def webhook(message: Mapping[str, Any], seconds: float) -> None:
        assert settings.notify_url is not None  # else it is no channel
        post(settings.notify_url, message, message["key"], settings.webhook_token, min(WEBHOOK_S, seconds))

    def command(message: Mapping[str, Any], seconds: float) -> None:
        run_command(settings.notify_command, message, min(COMMAND_S, seconds))

    return [*([webhook] if settings.notify_url else []), *([command] if settings.notify_command else [])]


def run_command(words: Sequence[str], message: Mapping[str, Any], seconds: float) -> None:
    """Run the local command with the message as JSON on its standard input, no shell, in a process group of its own.

    Raises:
        NotDelivered: it cannot be started, ends with another status than 0, or does not end within ``seconds``; its
            whole group is then killed.
    """
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    with tempfile.TemporaryFile() as said:
        try:
            child = subprocess.Popen(
                list(words),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise NotDelivered(f"The command {words[0]!r} cannot be started: {error.strerror or error}.") from None
        try:
            child.communicate(json.dumps(message).encode() + b"\n", timeout=seconds)
        except subprocess.TimeoutExpired:
            problem = f"The command {words[0]!r} had not ended after {seconds:.0f} s and was killed."
            raise NotDelivered(problem) from None
        finally:
            _end(child)
        if child.returncode:
            problem = f"The command {words[0]!r} ended with status {child.returncode}: {_last_line(said)}"
            raise NotDelivered(problem, child.returncode)


def _end(child: "subprocess.Popen[bytes]") -> None:
    if child.poll() is None:
        kill_group(child.pid)
        child.wait()


def _last_line(said: IO[bytes]) -> str:
    said.seek(0, os.SEEK_END)
    said.seek(max(0, said.tell() - 2000))
    lines = said.read().decode(errors="replace").split("\n")
    return next((one_line(line.strip()) for line in reversed(lines) if line.strip()), "it said nothing.")


def due_at(notice: Notice) -> float:
    """Time of the next try, in seconds since the epoch: the first at once, later ones after growing pauses."""
    pause = _FIRST_PAUSE_S * _GROWTH ** min(notice.tries, _MOST_TRIES) if notice.tries else 0.0
    return notice.created + pause


def is_due(notice: Notice, now: float) -> bool:
    """True if a notice is to be sent now: never tried, its pause over, or the clock set back behind its own time."""
    return not notice.tries or due_at(notice) <= now or notice.created > now


def message_of(campaign: CampaignRecord, notice: Notice, desk: str | None = None) -> dict[str, Any]:
    """The message of a notice, as JSON; ``key`` is an idempotency key.

    Where the address of the ``desk`` is known, ``url`` is the page that the notice is about.

    A ledger that was restored from a copy may give the same number to another notice, so the key also contains the time
    of the notice.
    """
    identity = digest_of([campaign.name, campaign.digest, campaign.created, notice.key, notice.created])[:16]
    url = None if desk is None else f"{desk}{page_of(notice)}"
    return {
        "key": f"fieldcraft-{identity}-{notice.id}",
        "id": notice.id,
        "campaign": notice.campaign,
        "event": notice.event,
        "payload": shown(notice.payload),
        "created": notice.created,
        "text": text_of(notice) + ("" if url is None else f", or {url}"),
        **({} if url is None else {"url": url}),
    }


def text_of(notice: Notice) -> str:
    """A notice as one sentence, with what to do, on one line."""
    name, payload = notice.campaign, notice.payload
    match notice.event:
        case "approval waiting":
            count = len(payload.get("trials", ()))
            what = f"1 trial of {name} waits" if count == 1 else f"{count} trials of {name} wait"
            void = "; ".join(payload.get("void", ()))
            text = f"{what} for approval{f', given before and void ({void})' if void else ''}: fieldcraft queue {name}"
        case "submission unknown":
            why = payload.get("reason", "nobody knows what became of it")
            text = f"{payload.get('trial', 'A trial')} of {name} is held for a person ({why}): fieldcraft queue {name}"
        case "budget nearly spent":
            used = ", ".join(_used(limit) for limit in payload.get("limits", ()))
            text = f"The budget of {name} is nearly spent ({used}): fieldcraft status {name}"
        case "last training failed":
            why = payload.get("reason", "no reason was given")
            text = f"{name} ends without a model of all its results, since its training failed ({why}): "
            text += f"fieldcraft status {name}"
        case _:
            text = f"{name} has ended ({payload.get('reason', 'no reason was given')}): fieldcraft status {name}"
    return one_line(text)


def _used(limit: Mapping[str, Any]) -> str:
    unit = f" {limit['unit']}" if limit["unit"] else ""
    return f"{limit['of']}: {limit['used']:g} of {limit['limit']:g}{unit}"
