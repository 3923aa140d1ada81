"""Commands that draw: plot."""

import argparse
from pathlib import Path

from flows.commands.shared import Add, campaign_of, show
from flows.settings import Settings
from storage.ledger import open_ledger


def add(command: Add) -> None:
    """Register the commands."""
    plot = command("plot", _plot, "draw the field, the trials and the best point")
    plot.add_argument("name")
    plot.add_argument("file", type=Path, help="picture to write (.png, .svg, .pdf)")


def _plot(options: argparse.Namespace, settings: Settings) -> int:
    from flows.picture import draw

    ledger = open_ledger(settings.ledger)
    draw(settings, ledger, campaign_of(ledger, options.name), options.file)
    show(options.json, {"file": str(options.file)}, lambda: f"{options.file}")
    return 0
