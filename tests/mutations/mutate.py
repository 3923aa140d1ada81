"""Take each guard out of a copy of the sources and see its test fail: ``make guards``, or ``mutate.py [PART OF NAME]``.

Each test must pass on the untouched copy, and fail on the altered one for the reason that the list gives: not because
something cannot be imported any more. Ends with 1 where a guard's removal goes unnoticed, or the list does not apply.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from guards import GUARDS, ROOT, Guard

COPIED = ("fieldcraft", "physics", "models", "storage", "flows", "tests")
LIMIT_S = 180.0
USAGE = 4  # pytest's exit status where it does not find what it is to run


@dataclass(frozen=True)
class Outcome:
    """How a run of tests ended.

    Args:
        passed: Whether all passed.
        said: The first failure's message, or why there is none.
        seconds: Wall time.
    """

    passed: bool
    said: str
    seconds: float


def main(words: Sequence[str]) -> int:
    """Try the guards whose names hold the words given, or all; returns the exit status."""
    guards = [guard for guard in GUARDS if all(word in guard.name for word in words)]
    stale = [problem for guard in guards for problem in guard.problems(ROOT)]
    if stale or not guards:
        print("\n".join(stale) or f"No guard is called {' '.join(words)!r}.")
        return 1
    with tempfile.TemporaryDirectory(prefix="guards-") as folder:
        copy = copied(Path(folder) / "copy")
        whole = tested(copy, sorted({guard.test for guard in guards}))
        if not whole.passed:
            print(f"The tests do not pass as things are, so they show nothing: {whole.said}")
            return 1
        print(f"{len(guards)} guards; their tests pass as things are, in {whole.seconds:.0f} s\n", flush=True)
        noticed = [tried(copy, guard) for guard in guards]
    print(f"\n{sum(noticed)} of {len(guards)} removals were noticed")
    return 0 if all(noticed) else 1


def copied(copy: Path) -> Path:
    """The sources and tests in a new folder."""
    for name in COPIED:
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


def tried(copy: Path, guard: Guard) -> bool:
    """Remove one guard, run its test, put the guard back; whether the test failed as it should."""
    file = copy / guard.file
    whole = file.read_text()
    file.write_text(whole.replace(guard.text, guard.without))
    try:
        outcome = tested(copy, [guard.test])
    finally:
        file.write_text(whole)
    noticed = not outcome.passed and re.search(guard.fails, outcome.said, re.DOTALL) is not None
    verdict = "killed in" if noticed else "NOT NOTICED after" if outcome.passed else "FAILED OTHERWISE after"
    print(f"{guard.name}  ({guard.file})")
    print(f"    removed  {_one_line(guard.text)}\n    now      {_one_line(guard.without) or '(nothing)'}")
    print(
        f"    test     {guard.test}\n    {verdict} {outcome.seconds:.1f} s: {_one_line(outcome.said)[:160]}", flush=True
    )
    return noticed


def tested(copy: Path, tests: Sequence[str]) -> Outcome:
    """Run tests on the sources of a copy; what hangs is killed with all it started."""
    report, began = copy / "report.xml", time.monotonic()
    report.unlink(missing_ok=True)
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-W", "ignore"]
    # Nothing compiled is kept: a source of the same length, altered in the same second, would be taken for the old one.
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    child = subprocess.Popen(
        [*words, f"--junitxml={report}", f"--basetemp={copy / 'temporary'}", *tests],
        cwd=copy,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        status = child.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return Outcome(False, f"it hung for {LIMIT_S:g} s", time.monotonic() - began)
    if status == USAGE:
        return Outcome(
            False, "a test of the list is not there any more: collect them by hand", time.monotonic() - began
        )
    return Outcome(status == 0, _said(report), time.monotonic() - began)


def _said(report: Path) -> str:
    """What the first failure says; an error outside a test's own body is none that a guard's removal may cause."""
    if not report.is_file():
        return "pytest itself failed"
    cases = ElementTree.parse(report).iter("testcase")
    for case in cases:
        for part in case:
            if part.tag == "error":
                return f"outside the test: {part.get('message', '')}"
            if part.tag == "failure":
                return part.get("message", "")
    return "no test failed"


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
