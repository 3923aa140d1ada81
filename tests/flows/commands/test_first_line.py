"""The command line itself: it says something at once, its version and where to look, and ends quietly when unread."""

import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest
from small import SMALL, command

from fieldcraft.flows.cli import main, unread
from fieldcraft.flows.commands.shared import wait_for_people
from fieldcraft.flows.errors import InputError, Unfinished

HEAVY = ("pydantic", "sqlalchemy", "numpy", "xarray", "torch", "prefect", "yaml", "psutil")
FIRST = """\
import sys

class Out:
    text = ""
    def write(self, text):
        Out.text = Out.text or text
    def flush(self):  # only what is flushed is seen
        print(repr((Out.text, [name for name in %r if name in sys.modules])), file=sys.__stdout__, flush=True)
        sys.__stdout__.close()
        raise SystemExit(0)

sys.stdout = Out()
from fieldcraft.flows.cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("word", ["run", "compare"])
def test_what_takes_long_says_its_first_line_before_anything_heavy_is_imported(tmp_path, word):
    (tmp_path / "c.yaml").write_text(SMALL)
    done = subprocess.run(
        [sys.executable, "-c", FIRST % (HEAVY,), word, str(tmp_path / "c.yaml")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == f"{(f'    0.0 s  reading {tmp_path}/c.yaml', [])!r}\n", done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]


def test_the_version_and_the_help_need_nothing_heavy():
    say = "main(['--version']); main(['run', '--help'])"
    code = f"import sys; from fieldcraft.flows.cli import main; {say}; print([n for n in {HEAVY} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    first, *_, last = done.stdout.splitlines()
    assert (first, last) == (f"fieldcraft {version('fieldcraft')}", "[]")


@pytest.mark.parametrize(("change", "said"), [(None, "cannot be read"), (("seed: 3", "sede: 3"), "unknown key 'sede'")])
def test_nobody_waits_for_a_server_to_be_told_of_a_wrong_file(tmp_path, change, said):
    if change is not None:
        (tmp_path / "c.yaml").write_text(SMALL.replace(*change))
    servers = ("prefect", "pandas")
    code = (
        "import sys; from fieldcraft.flows.cli import main; "
        f"print(main(sys.argv[1:]), [name for name in {servers} if name in sys.modules])"
    )
    words = ["run", str(tmp_path / "c.yaml"), "--home", str(tmp_path / "home")]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120)
    assert said in done.stderr
    assert done.stdout.splitlines()[-1] == "2 []"


def test_what_is_opened_does_not_take_the_place_of_a_closed_standard_input():
    code = "import os; from fieldcraft.flows.cli import main; main(); print(os.open(os.devnull, 0), os.read(0, 1))"
    done = subprocess.run(
        ["bash", "-c", '"$@" <&-', "bash", sys.executable, "-c", code, "status", "--help"],
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-1].endswith(" b''") and not done.stdout.splitlines()[-1].startswith("0")


def test_the_first_line_is_json_where_json_is_asked_for(tmp_path, capsys):
    assert main(["run", str(tmp_path / "nowhere.yaml"), "--json"]) == 2
    first, error = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"event": "began", "seconds": 0.0, "what": f"reading {tmp_path}/nowhere.yaml"}
    assert error["error"].startswith(f"{tmp_path}/nowhere.yaml: cannot be read")


def test_several_errors_are_one_json_object_with_each_of_them(tmp_path, capsys):
    (tmp_path / "c.yaml").write_text(SMALL.replace("seed: 3", "seed: -1").replace("minimize", "max"))
    assert main(["check", str(tmp_path / "c.yaml"), "--json"]) == 2
    (line,) = capsys.readouterr().out.splitlines()
    said = json.loads(line)
    assert [error.partition(": line ")[2][:7] for error in said["errors"]] == ["2: seed", "3: sens"]
    assert said["error"] == "\n".join(said["errors"])


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["--version"], ["status"], ["status", "--json"], ["check", "small.yaml"]])
def test_what_nobody_reads_ends_quietly(finished, words, unbuffered):
    known = [str(finished / word) if word.endswith(".yaml") else word for word in words]
    home = () if words == ["--version"] else ("--home", str(finished / "home"))
    script = 'shift; "$@"; echo "status $?" >&2'
    done = subprocess.run(
        ["bash", "-c", f"({script}) | true", "bash", "-", sys.executable, "-m", "fieldcraft.flows.cli", *known, *home],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr in ("status 141\n", "status 0\n"), "0 where the other end was there for the last word"


def test_output_is_unread_only_where_the_other_end_of_its_pipe_is_gone(monkeypatch):
    read, write = os.pipe()
    with os.fdopen(write, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert not unread()
        os.close(read)
        assert unread()


def test_waiting_for_people_is_told_on_lines_of_its_own_and_is_no_error(capsys):
    waiting = Unfinished("heat", ["2 proposals to decide on: 'fieldcraft queue heat' shows what waits", "one more"])
    wait_for_people(waiting, as_json=False)
    out, err = capsys.readouterr()
    assert (out, err) == (
        "\nCampaign 'heat' waits.\n  2 proposals to decide on: 'fieldcraft queue heat' shows what waits\n  one more\n"
        "The same command then goes on; nothing is lost.\n",
        "",
    )
    wait_for_people(waiting, as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert said["event"] == "waits" and said["waits"] == list(waiting.waits) and said["text"] == str(waiting)


def test_an_error_of_several_faults_is_a_line_each_and_text_of_all():
    error = InputError("one", "two")
    assert (error.faults, str(error)) == (("one", "two"), "one\ntwo")


def test_help_of_a_command_is_pointed_to_by_its_own_errors(capsys):
    for words in (["record", "--cost"], ["plot", "--jsn", "a", "b"], ["run"], ["token", "ana", "--role", "x"]):
        assert main(words) == 2
        assert f"'fieldcraft {words[0]} --help' lists what there is." in capsys.readouterr().err


def test_the_command_installed_says_its_version():
    done = command("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"fieldcraft {version('fieldcraft')}\n", "")
