"""What a person at a terminal sees: help in groups with examples that work, completion, and a run's live line."""

import os
import pty
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import warm_start

from fieldcraft.flows.cli import _options, _parser, main
from fieldcraft.flows.commands.terminal import LiveLine
from fieldcraft.flows.views.display import Display
from fieldcraft.storage.records import TrialState

ROOT = Path(__file__).resolve().parents[2]
CAMPAIGN = """
name: seen
seed: 1
sense: minimize
problem: {kind: branin}
simulator: {kind: function}
algorithm: {start: {n: 4}}
dispatcher: {kind: inline}
budget: {trials: 4}
"""


ENVIRONMENT = {"outputs": [{"name": "value", "unit": "K"}]}


def commands():
    (found,) = [action.choices for action in _parser()._actions if isinstance(action.choices, dict)]
    return found


def on_a_terminal(words, environment, status=0):
    """What a process writes to a terminal of its own, which ends with this status."""
    ours, theirs = pty.openpty()
    process = warm_start.Warm(words, [theirs] * 3, {**os.environ, "TERM": "xterm", **environment}, os.getcwd())
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 65536):
            written += part
    except OSError:  # it has ended, and closed the terminal
        pass
    os.close(ours)
    assert process.wait(60) == status, written
    return written.decode()


def test_help_lists_every_command_once_in_groups(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert re.findall(r"(?m)^    ([a-z-]+)  +", text) == [
        name for group in _parser().groups.values() for name, _ in group
    ]
    assert {name for group in _parser().groups.values() for name, _ in group} == set(commands())


def test_the_examples_of_the_help_are_commands_as_they_are_read():
    examples = [parser.epilog.removeprefix("example: ") for parser in commands().values() if parser.epilog]
    assert len(examples) > 15
    for example in examples:
        words = shlex.split(example.removeprefix("source <(").removesuffix(")"))
        assert words[0] == "fieldcraft" and _options(words[1:]).command, example


def test_a_shell_completes_commands_options_and_files(tmp_path, capsys):
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out)
    (tmp_path / "heat.yaml").touch()
    asked = [(["fieldcraft", "retrac"], "retract"), (["fieldcraft", "record", "--val"], "--value")]
    asked.append((["fieldcraft", "run", "he"], "heat.yaml"))
    for words, wanted in asked:
        said = f"""
source {script}
COMP_WORDS=({shlex.join(words)}) COMP_CWORD={len(words) - 1}
$(complete -p fieldcraft | sed 's/.*-F \\([^ ]*\\).*/\\1/') fieldcraft {words[-1]} {words[-2]}
echo "${{COMPREPLY[@]}}"
"""
        done = subprocess.run(["bash", "-c", said], cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout.strip() == wanted, (done.stdout, done.stderr)


@dataclass
class Known:
    """A ledger of a campaign of twenty trials, of which so many are settled, and of some that were rejected."""

    settled: int = 0
    rejected: int = 0

    def campaign(self, name):
        return SimpleNamespace(spec={"budget": {"trials": 20}, "sense": "minimize"}, environment=ENVIRONMENT)

    def summaries(self, name):
        outputs = [{"value": 5.0 - number} for number in range(self.settled)]
        same = {"imported": False, "level": None}
        refused = {"state": TrialState.REJECTED, "counts": False, "outputs": None, "id": "seen-0020"}
        return [
            *(
                SimpleNamespace(**same, state=TrialState.COMPLETED, counts=True, outputs=each, id=f"seen-{number:04d}")
                for number, each in enumerate(outputs, start=1)
            ),
            *(SimpleNamespace(**same, **refused) for _ in range(self.rejected)),
        ]


def test_the_live_line_counts_names_the_best_and_estimates_the_time_that_is_left(monkeypatch):
    known, now = Known(), [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    line = LiveLine(lambda event, details: None, lambda: known)
    assert line.text().plain == "begins"
    first, second = (SimpleNamespace(id=f"seen-000{number}", campaign="seen") for number in (1, 2))
    for trial in (first, second):
        line("started", {"trial": trial})
    assert line.text().plain == "trial 0 of 20  2 experiments out"
    known.settled, known.rejected, now[0] = 4, 3, 40.0
    line("completed", {"trial": first})
    assert line.text().plain == "trial 4 of 20  best value 2 K  1 experiment out  about 3 min left"  # 10 s a trial
    line("failed", {"trial": second})
    line("trained", {"iteration": 1})
    assert line.text().plain.endswith("proposes  about 3 min left")


@pytest.mark.parametrize("colours", [{}, {"NO_COLOR": "1"}], ids=("colours", "none"))
def test_a_run_on_a_terminal_has_a_live_line_and_colours_unless_there_shall_be_none(colours, tmp_path, prefect_api):
    (tmp_path / "seen.yaml").write_text(CAMPAIGN)
    words = ["-m", "fieldcraft.flows.cli", "run", str(tmp_path / "seen.yaml"), "--home", str(tmp_path)]
    environment = {**prefect_api, "FIELDCRAFT_MLFLOW": "off", "COLUMNS": "160", **colours}
    seen = on_a_terminal(words, environment)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
    assert "trial 4 of 4" in plain and "best value" in plain
    assert bool(re.search(r"\x1b\[[0-9;]*3[0-9]m", seen)) is not bool(colours)
    assert "Campaign 'seen' ended by budget: 4 of 4 trials" in plain
    assert ("\x1b[1mCampaign 'seen'\x1b[0m \x1b[32mended\x1b[0m by budget" in seen) is not bool(colours)
    home, file = str(tmp_path), str(tmp_path / "seen.yaml")
    painted = {
        ("status", "seen"): ["\x1b[1mseen:\x1b[0m", "\x1b[32mfinished\x1b[0m", "4 \x1b[32mcompleted\x1b[0m"],
        ("show", "seen-0001"): ["\x1b[1m  history\x1b[0m", "\x1b[33mPROPOSED\x1b[0m"],
        ("trace", "seen-0001"): ["\x1b[1macquisition\x1b[0m"],
        ("check", file): ["\x1b[1mbudget:\x1b[0m", " \x1b[32mvalid\x1b[0m: "],
        ("status", "sean"): ["\x1b[1;31mfieldcraft:\x1b[0m No campaign 'sean'"],
        ("status", "seen", "--json"): ["{"],
    }
    for command, wanted in painted.items():
        words = ["-m", "fieldcraft.flows.cli", *command, "--home", home]
        piped = warm_start.run(words, {**os.environ, **environment, "TERM": "xterm"}, 60)
        seen = on_a_terminal(words, environment, piped.returncode).replace("\r\n", "\n")
        assert "\x1b" not in piped.stdout + piped.stderr
        lines = [
            line for line in re.sub(r"\x1b\[[0-9;]*m", "", seen).splitlines(True) if not line.startswith("reading")
        ]
        assert no_times("".join(lines)) == no_times(piped.stdout + piped.stderr), command
        assert all((part in seen) is not bool(colours) for part in wanted) or "--json" in command, command
        assert ("\x1b[" in seen) is not (bool(colours) or "--json" in command)


def no_times(text):
    return re.sub(r"[0-9.]+ s\b", "", text)


@pytest.mark.parametrize(
    ("event", "painted"),
    [("failed", "\x1b[31mfailed\x1b[0m: no licence"), ("held", "\x1b[33mheld\x1b[0m: no licence")],
)
def test_what_became_of_a_trial_has_its_colour_on_a_terminal_alone(event, painted, monkeypatch, capsys):
    trial = SimpleNamespace(id="seen-0001", iteration=0)
    line = Display(Known, False)
    line(event, {"trial": trial, "reason": "no licence"})
    plain = capsys.readouterr().out
    assert plain.endswith(f"iteration   0  harvest    seen-0001  {event}: no licence\n")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    line(event, {"trial": trial, "reason": "no licence"})
    assert capsys.readouterr().out.endswith(f"seen-0001  {painted}\n")


def test_a_run_into_a_file_has_plain_lines_alone(tmp_path, prefect_api):
    (tmp_path / "seen.yaml").write_text(CAMPAIGN)
    words = ["-m", "fieldcraft.flows.cli", "run", str(tmp_path / "seen.yaml"), "--home", str(tmp_path)]
    done = warm_start.run(words, {**os.environ, **prefect_api, "FIELDCRAFT_MLFLOW": "off", "TERM": "xterm"}, 120)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout and "trial 4 of 4" not in done.stdout
