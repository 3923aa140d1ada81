"""Commands to draw and write pages: report, compare-runs, plot."""

import argparse
from pathlib import Path

from fieldcraft.flows.commands.shared import Add, campaign_of, open_ledger, show
from fieldcraft.flows.settings import Settings

TITLE = "To show others"


def add(command: Add) -> None:
    """Register the commands."""
    report = command(
        "report",
        _report,
        "write a campaign as one page that stands alone",
        example="fieldcraft report heat --html heat.html",
    )
    report.add_argument("name")
    report.add_argument("--html", type=Path, required=True, metavar="FILE", help="page to write")
    compare = command("compare-runs", _compare, "tell two campaigns apart: specification, best so far, regret, cost")
    compare.add_argument("first")
    compare.add_argument("second")
    compare.add_argument("--html", type=Path, metavar="FILE", help="page to write as well")
    plot = command(
        "plot", _plot, "draw the field, the trials and the best point", example="fieldcraft plot heat heat.png"
    )
    plot.add_argument("name")
    plot.add_argument("file", type=Path, help="picture to write (.png, .svg, .pdf)")


def _report(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.report.writing import write_report

    ledger = open_ledger(settings.ledger)
    written = write_report(settings, ledger, campaign_of(ledger, options.name), options.html)
    data = {"file": str(written.file), "bytes": written.size, "mlflow": written.run, "problem": written.problem}
    attached = f"attached to run {written.run}" if written.run else f"not attached: {written.problem}"
    show(options.json, data, lambda: f"{written.file}: {written.size / 1e3:.0f} kB\nMLflow: {attached}")
    return 0


def _compare(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.views.compare import compare, comparison_text

    ledger = open_ledger(settings.ledger)
    if options.html is not None:
        from fieldcraft.flows.report.writing import require_page

        require_page(options.html)
    first, second = (campaign_of(ledger, name).name for name in (options.first, options.second))
    data = compare(settings, ledger, (first, second))
    if options.html is not None:
        from fieldcraft.flows.report.comparison import comparison_page
        from fieldcraft.flows.report.writing import write_page

        write_page(options.html, comparison_page(data))
        data["file"] = str(options.html)
    show(options.json, data, lambda: comparison_text(data))
    return 0


def _plot(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.views.plot import draw

    ledger = open_ledger(settings.ledger)
    draw(settings, ledger, campaign_of(ledger, options.name), options.file)
    show(options.json, {"file": str(options.file)}, lambda: f"{options.file}")
    return 0
