#!/usr/bin/env python3
"""The counting simulator as a program of its own: INPUT OUTPUT, both JSON."""

import json
import os
import sys

with open(sys.argv[1]) as file:
    design = json.load(file)
x, y = design["x"], design["y"]
with open(os.environ["SIMULATED"], "a") as count:
    count.write(json.dumps([x, y]) + "\n")
with open(sys.argv[2], "w") as file:
    json.dump({"height": x**2 - y**2 + 3 * x * y + x}, file)
