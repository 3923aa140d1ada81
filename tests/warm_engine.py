"""``python -m prefect.engine`` in an interpreter that need not import: forked by ``warm_start.py``, whose socket is in
the environment. This process waits for it, and ends as it ended."""

import json
import os
import signal
import socket
import sys

link = socket.socket(socket.AF_UNIX)
link.connect(f"\0{os.environ['WARM_START']}")
request = {"words": ["-m", "prefect.engine", *sys.argv[1:]], "environment": dict(os.environ), "folder": os.getcwd()}
socket.send_fds(link, [json.dumps(request).encode() + b"\n"], [0, 1, 2])
answers = link.makefile("r")
child = int(answers.readline())
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, frame: os.kill(child, number))
code = int(answers.readline())
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
raise SystemExit(code)
