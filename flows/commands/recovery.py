"""Commands for copies of a home and for repairs: backup, restore, move, repair."""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldcraft.flows.commands.shared import Add, show
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.text import one_line, remark

if TYPE_CHECKING:
    from fieldcraft.flows.recovery.backup import BackedUp
    from fieldcraft.flows.recovery.repair import Action, Plan
    from fieldcraft.flows.recovery.restore import Restored

TITLE = "After a fault, and copies"


def add(command: Add) -> None:
    """Register the commands."""
    backup = command(
        "backup", _backup, "copy a home, also while campaigns go on; the same folder again adds what is new"
    )
    backup.add_argument("folder", type=Path, metavar="DEST", help="where to, outside the home")
    restore = command("restore", _restore, "make a home (--home) of a backup or a move")
    restore.add_argument("folder", type=Path, metavar="BACKUP")
    move = command("move", _move, "back a home up and seal it: its campaigns go on where that is restored")
    move.add_argument("folder", type=Path, metavar="DEST", nargs="?", help="where to, outside the home")
    move.add_argument("--undo", action="store_true", help="open a home again that was moved, when the copy is lost")
    move.add_argument("--reason", default="", help="why; needed to undo")
    repair = command("repair", _repair, "show what mends what 'doctor' finds; does it with --yes or --do")
    repair.add_argument("--yes", action="store_true", help="do all of it but what overrules another machine")
    repair.add_argument("--do", nargs="+", metavar="N", default=[], help="do these, as numbered: 3, or 3@a1b2c3")
    repair.add_argument("--reason", default="", help="why; kept with each action")
    repair.add_argument("--from", type=Path, metavar="BACKUP", dest="backup", help="take damaged fields from a backup")


def _backup(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.recovery.backup import back_up

    done = back_up(settings, options.folder, acting(settings, "operate"))
    return _tell_copy(options, done, f"backup of {settings.home} in {done.folder}")


def _move(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.recovery.backup import move, undo_move

    person, reason = acting(settings, "operate"), remark(options.reason, "reason")
    if options.undo == (options.folder is not None):
        raise InputError("move needs either DEST or --undo. Nothing was changed.")
    if options.undo:
        to = undo_move(settings, person, reason)
        text = f"{settings.home} is open again; it had been moved to {to}: never restore that copy now."
        show(options.json, {"home": str(settings.home), "undone": to}, lambda: text)
        return 0
    done = move(settings, options.folder, person, reason)
    then = f"{settings.home} is sealed. Go on with 'fieldcraft restore {done.folder} --home NEW', on any machine."
    return _tell_copy(options, done, f"moved to {done.folder}", then)


def _tell_copy(options: argparse.Namespace, done: "BackedUp", what: str, then: str = "") -> int:
    manifest = done.manifest
    data: dict[str, Any] = {
        "folder": str(done.folder),
        "made": manifest.made,
        "sealed": manifest.sealed,
        "fields": len(manifest.fields),
        "copied": done.copied,
        "missing": manifest.missing,
        "seconds": round(done.seconds, 3),
    }

    def text() -> str:
        from fieldcraft.flows.text import counted

        fields = f"{counted(len(manifest.fields), 'field')} ({done.copied} new)"
        lost = [one_line(f"NOT in it: {problem}") for problem in manifest.missing.values()]
        first = f"{what}: the ledger as of {_when(manifest.made)}, {fields}, {done.seconds:.1f} s"
        return "\n".join([first, *lost, *([then] if then else [])])

    show(options.json, data, text)
    return 1 if manifest.missing else 0


def _restore(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.recovery.restore import restore

    done = restore(settings, options.folder, acting(settings, "operate"))
    data = {
        "home": str(settings.home),
        "made": done.manifest.made,
        "sealed": done.manifest.sealed,
        "campaigns": list(done.campaigns),
        "lost": list(done.lost),
        "missing": done.manifest.missing,
        "aside": str(done.aside) if done.aside else None,
        "seconds": round(done.seconds, 3),
    }
    show(options.json, data, lambda: _restored_text(settings, done))
    return 1 if done.manifest.missing else 0


def _restored_text(settings: Settings, done: "Restored") -> str:
    manifest = done.manifest
    lines = [
        f"{settings.home}: restored to {_when(manifest.made)}: {', '.join(done.campaigns)}; every checksum agrees.",
        *(one_line(f"NOT in the backup: {problem}") for problem in manifest.missing.values()),
    ]
    if done.lost:
        lines.append(
            f"{', '.join(done.lost)}: ran when the backup was made. The next pass holds them for a person, or makes "
            "them again where the simulator is idempotent."
        )
    if done.aside is not None:
        lines.append(f"Scratch folders of later jobs were put into {done.aside}.")
    if not manifest.sealed:
        lines.append(
            f"{manifest.home} on {manifest.host} was not sealed: if it still lives, let only one of the two go on, or "
            "experiments are done twice ('fieldcraft move' prevents that)."
        )
    return "\n".join(lines)


def _repair(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.recovery.repair import carry_out, chosen, plan

    person, reason = acting(settings, "operate"), remark(options.reason, "reason")
    if options.yes and options.do:
        raise InputError("repair takes either --yes or --do. Nothing was changed.")
    found = plan(settings, options.backup)
    wanted = [one for one in found.actions if not one.forced] if options.yes else chosen(found.actions, options.do)
    done = list(carry_out(settings, wanted, person, reason)) if wanted else []
    data = {
        "actions": [_action_data(number, one, done) for number, one in enumerate(found.actions, 1)],
        "beyond": [{"problem": one.problem, "advice": one.advice, "lost": one.lost} for one in found.beyond],
    }
    show(options.json, data, lambda: _repair_text(found, done))
    left = len(found.actions) > len(done) or any(one.lost for one in found.beyond)
    return 1 if left else 0


def _action_data(number: int, action: "Action", done: list["Action"]) -> dict[str, Any]:
    told = {name: getattr(action, name) for name in ("kind", "problem", "does", "risk", "forced")}
    return {"number": number, "mark": action.mark, **told, "done": action in done}


def _repair_text(found: "Plan", done: list["Action"]) -> str:
    lines = []
    for number, action in enumerate(found.actions, 1):
        will = "done" if action in done else "will"
        asked = "  only by its number" if action.forced else ""
        lines += [
            f"{number}@{action.mark}  {action.problem}",
            f"    {will}: {action.does}",
            f"    risk: {action.risk}{asked}",
        ]
    for beyond in found.beyond:
        lines += [f"-  {beyond.problem}", f"    {beyond.advice}"]
    if found.actions and not done:
        lines.append("Nothing was done yet: --yes --reason WHY does it all, --do N@MARK --reason WHY one of it.")
    return "\n".join(map(one_line, lines)) or "There is nothing to mend."


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
