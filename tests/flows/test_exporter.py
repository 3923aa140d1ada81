"""The exporter that is forked from a run before the run knows its campaign."""

import subprocess
import sys

WAITING = """\
import sys
from pathlib import Path
from fieldcraft.flows.exporter import waiting
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.views.export import BackgroundExport

settings = settings_from({}, Path(sys.argv[1]))
with waiting(settings_from({}, Path(sys.argv[1], "without a ledger"))) as child:
    pass
print(child.wait(20), end=" ")
with waiting(settings) as child:
    told = BackgroundExport(settings, "nobody", child)._told()
    print(told is child, child.communicate(60)[1].strip().splitlines()[-1:], child.returncode, end=" ")
with waiting(settings) as child:
    child.kill()
    child.wait(20)
    print(BackgroundExport(settings, "heat", child)._told(), end=" ")
with waiting(settings_from({"FIELDCRAFT_MLFLOW": "off"}, Path(sys.argv[1]))) as child:
    print(child)
"""
LOOKS = """\
import gc, os, sys
from fieldcraft.flows import exporter

exporter._EVERY_S = 0.0
given, pipe = os.pipe()
sys.stdin = os.fdopen(given)
looks = exporter._looks()
print(next(looks), next(looks), end=" ")
before = gc.get_freeze_count()
print(before > 0, next(looks), gc.get_freeze_count() == before, end=" ")
os.close(pipe)
print(*looks)
"""


def test_an_exporter_looks_until_the_pipe_closes_and_sets_garbage_aside_once():
    done = subprocess.run([sys.executable, "-c", LOOKS], capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.stdout) == ("", "False False True False True True\n")


def test_one_that_waits_ends_without_a_name_exports_what_it_is_told_and_is_missed_where_it_was_killed(tmp_path):
    from fieldcraft.storage.open_ledger import open_ledger

    open_ledger(tmp_path / "ledger.sqlite", create=True)
    done = subprocess.run([sys.executable, "-c", WAITING, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert (done.stderr, done.stdout) == ("", "0 True [] 0 None None\n")
