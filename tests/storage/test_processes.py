"""Process groups that are killed: one that runs, and one that ended a moment ago."""

import subprocess
import sys

from fieldcraft.storage.processes import kill_group

SLEEPS = "import subprocess, sys; kept = subprocess.Popen(['sleep', '60']); print('up', flush=True); sys.stdin.read()"


def test_a_group_is_killed_whole():
    words = [sys.executable, "-c", SLEEPS]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as leader:
        assert leader.stdout.readline() == b"up\n"
        kill_group(leader.pid)
        assert leader.stdout.read() == b""  # its end comes once no process of the group holds it
        assert leader.wait() == -9


def test_a_group_that_has_ended_since_is_none():
    with subprocess.Popen([sys.executable, "-c", ""], start_new_session=True) as leader:
        leader.wait()
    kill_group(leader.pid)
