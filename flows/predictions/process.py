"""A process apart that restores models and asks them, for a server that must not wait for that.

    python -P -m fieldcraft.flows.predictions.process

It takes one line of JSON for each question, and answers each with one. It ends when its input does, and when nobody has
asked for ``_IDLE_S``: torch and a model take some 450 MB.
"""

import asyncio
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldcraft.flows.errors import FieldcraftError, InputError
from fieldcraft.storage.processes import THREADS

if TYPE_CHECKING:
    from fieldcraft.flows.predictions.of_trial import Models

ANSWER_S = 30.0
"""Time for an answer, with the 3 to 5 s that a process takes to start."""
WAITING = 40
"""Most questions that wait for their turn."""
_IDLE_S = 300.0


class Unavailable(FieldcraftError):
    """Nothing is predicted; the message is the reason."""


class Busy(Unavailable):
    """Too many ask at once; the same question may be answered soon."""


class ModelProcess:
    """The process, started for the first question and again where it has ended.

    Args:
        home: Folder of the stores.
    """

    def __init__(self, home: Path) -> None:
        self._home, self._waiting = home, 0
        self._turn = ThreadPoolExecutor(1, thread_name_prefix="models")
        self._child: subprocess.Popen[bytes] | None = None
        self._closed = False

    async def ask(self, campaign: str, trial: str, values: Mapping[str, str]) -> dict[str, Any]:
        """Prediction for a trial's design with these values, as ``Foreseen.data``.

        Args:
            campaign: Campaign of the trial.
            trial: Its id.
            values: Variables with new values, as text.

        Raises:
            Busy: ``WAITING`` questions wait already.
            Unavailable: no model can be asked, or no answer came in ``ANSWER_S``.
        """
        if self._waiting >= WAITING:
            raise Busy("too many people ask just now: it is asked again in some seconds.")
        self._waiting += 1
        question = json.dumps({"home": str(self._home), "campaign": campaign, "trial": trial, "values": dict(values)})
        try:
            return await asyncio.get_running_loop().run_in_executor(self._turn, self._answer, question)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End the process; questions that wait for an answer get none."""
        self._closed = True
        if (child := self._child) is not None:
            child.kill()
        self._turn.shutdown(wait=True, cancel_futures=True)
        self._end()

    def _answer(self, question: str) -> dict[str, Any]:
        warm = self._child is not None
        line = self._line(question)
        if warm and (not line or "restart" in json.loads(line)):  # it had ended, or holds code of before
            self._end()
            line = self._line(question)
        if not line:
            self._end()
            raise Unavailable("the process that asks the model has ended without an answer.")
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            raise Unavailable(str(told["error"]))
        found: dict[str, Any] = told["foreseen"]
        return found

    def _line(self, question: str) -> bytes:
        """The answer as a line; empty where the process has ended.

        Raises:
            Unavailable: it took too long, and was ended.
        """
        if self._closed:
            raise Unavailable("the desk ends.")
        if self._child is None:
            environment = {name: value for name, value in os.environ.items() if name != "FIELDCRAFT_TOKEN"}
            self._child = begun(environment | dict.fromkeys(THREADS, "1"))  # one design is asked: more would wait
        child, answer, left = self._child, b"", question.encode() + b"\n"
        assert child.stdin is not None and child.stdout is not None
        os.set_blocking(child.stdin.fileno(), False)  # a process that is stuck takes no more than a pipe holds
        due = time.monotonic() + ANSWER_S
        while not answer.endswith(b"\n"):
            asked = [child.stdin] if left else []
            told, taken, _ = select.select([child.stdout], asked, [], max(0.0, due - time.monotonic()))
            if not (told or taken):
                self._end()
                raise Unavailable(f"the model did not answer within {ANSWER_S:.0f} s.")
            if taken:
                try:
                    left = left[os.write(child.stdin.fileno(), left) :]
                except BrokenPipeError:
                    left = b""
            if told:
                if not (more := os.read(child.stdout.fileno(), 1 << 16)):
                    return b""
                answer += more
        return answer

    def _end(self) -> None:
        if self._child is None:
            return
        child, self._child = self._child, None
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # what was not taken of a question
                    pipe.close()


def begun(environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """The process, which is asked and answers through pipes."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(environment),
        start_new_session=True,  # Ctrl-C is for the desk, which ends it
    )


def _told(asked: Mapping[str, Any], models: "Models") -> dict[str, Any]:
    """The answer to a question; ``restart`` is in it where another process may know better."""
    from fieldcraft.flows.predictions.of_trial import foreseen
    from fieldcraft.flows.wiring.context import site_of
    from fieldcraft.storage.ledger import LedgerError

    try:
        site = site_of(asked["home"], asked["campaign"], None)
        trial = site.ledger.trial(asked["trial"])
        if trial.campaign != site.name:
            raise InputError(f"{trial.id} is a trial of {trial.campaign}, not of {site.name}.")
        return {"foreseen": foreseen(site, trial, asked["values"], models).data()}
    except (InputError, LedgerError) as error:
        return {"error": str(error)}
    except Exception as error:  # the outermost edge of this process: whatever a model stumbles over is its answer
        said = str(error) if isinstance(error, FieldcraftError) else f"{type(error).__name__}: {error}"
        return {"error": said[:2000], "restart": True}


def _serve() -> None:
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever code of a campaign prints is no answer
    from fieldcraft.flows.predictions.of_trial import Models

    models = Models()
    with os.fdopen(answers, "w") as told:
        while select.select([0], [], [], _IDLE_S)[0] and (line := sys.stdin.buffer.readline()):
            print(json.dumps(_told(json.loads(line), models)), file=told, flush=True)


if __name__ == "__main__":
    os.nice(5)  # pages come first
    _serve()
