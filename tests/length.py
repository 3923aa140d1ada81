"""Whether the whole suite of faults is wanted, as ``make chaos`` has it, and what either form must count none of."""

import os

LONG = os.environ.get("FIELDCRAFT_CHAOS") == "long"
LOSSES = ("results lost", "experiments repeated", "resumed campaigns that differ")
