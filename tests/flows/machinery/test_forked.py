"""A process that is forked: what it has of the other one, how it ends, and what is said of it."""

import subprocess
import sys
import threading

import pytest

from fieldcraft.flows.machinery.forked import can_fork

FORKED = """\
import os, subprocess, sys, tempfile
from fieldcraft.flows.machinery.forked import Forked

print("once", end=" ")
kept, other = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile()
first = Forked("first", lambda: len(sys.stdin.read()), [kept.fileno()])

def is_open(file):
    try:
        return bool(os.fstat(file.fileno()))
    except OSError:
        return False

def work():
    print("lost")
    name = open("/proc/self/comm").read().strip()
    print(sys.stdin.readline().strip(), name, os.getsid(0) == os.getpid(), is_open(kept), is_open(other),
          file=sys.stderr)
    return 3

second = Forked("second", work, [kept.fileno()])
try:
    second.wait(0.0)
except subprocess.TimeoutExpired:
    print("runs", end=" ")
first.stdin.write(b"four")
print(first.communicate(20), first.returncode, end=" ")  # though the second runs, which was forked later
second.stdin.write(b"a line\\n")
print(second.communicate(20), second.returncode)
failed = Forked("failed", lambda: 1 // 0)
_, said = failed.communicate(20)
print(said.splitlines()[-1], failed.returncode)
killed = Forked("killed", lambda: len(sys.stdin.read()))
killed.kill()
print(killed.wait(20))
"""
ENDS = """\
import os, signal, sys, time
from fieldcraft.flows.machinery.forked import Forked

child = Forked("child", lambda: len(sys.stdin.read()))
print(child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
ALONE = """\
import os, signal, sys, tempfile
from fieldcraft.flows.machinery.forked import Forked

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
tempfile.tempdir = "/nowhere"
said = []
signal.signal(signal.SIGINT, lambda *_: said.append(os.getpid()))
fork = os.fork

def interrupted():
    os.kill(os.getpid(), signal.SIGINT)
    return fork()

os.fork = interrupted
def work():
    print(said, signal.pthread_sigmask(signal.SIG_BLOCK, ()), file=sys.stderr)
    return 0

child = Forked("child", work)
print(child.communicate(20), child.returncode, said == [os.getpid()])
"""


def test_a_fork_has_a_session_a_name_and_the_files_that_it_is_given_and_what_it_complains_of_is_kept():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.stdout.splitlines()) == (
        "",
        [
            "once runs (None, '') 4 (None, 'a line second True True False\\n') 3",
            "ZeroDivisionError: integer division or modulo by zero 1",
            "-9",
        ],
    )


def test_a_fork_sees_the_end_of_the_other_one_though_that_was_killed(until_gone):
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=60)
    until_gone(int(done.stdout))


def test_a_fork_needs_no_folder_nor_news_of_its_end_and_has_no_signal_that_was_for_the_other_one():
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.stdout) == ("", "(None, '[] set()\\n') 0 True\n")


def test_off_linux_nothing_is_forked(monkeypatch):
    assert can_fork()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not can_fork()


def test_beside_a_thread_nothing_is_forked():
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    try:
        assert not can_fork()
    finally:
        over.set()
        other.join()


@pytest.fixture
def until_gone():
    import psutil

    def wait(pid: int) -> None:
        if psutil.pid_exists(pid):
            psutil.Process(pid).wait(timeout=20)

    return wait
