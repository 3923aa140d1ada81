"""The open work orders as the table that a pass writes into the folder of orders, for a laboratory to fill in."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

from fieldcraft.flows.analysis.existing import existing
from fieldcraft.flows.files.tables import write_rows
from fieldcraft.flows.text import printable
from fieldcraft.storage.records import CampaignRecord

_MARK = "\ufeff"  # by which spreadsheets know UTF-8: a unit may be beyond ASCII


def order_table(campaign: CampaignRecord, orders: Sequence[Mapping[str, Any]]) -> str:
    """CSV with a line for each order: key, trial, variables, empty cells for the outputs, notes; by trial.

    A text that a spreadsheet would take for a formula has an apostrophe before it (``flows.files.tables``).

    Args:
        campaign: Their campaign.
        orders: Entries of ``flows.views.pending.queue_data``, one or more.
    """
    units = campaign.environment["units"]
    outputs = [each for each in campaign.environment["outputs"] if not each.get("formula")]
    variables = list(orders[0]["design"])
    measured = [_titled(each["name"], each["unit"]) for each in outputs]
    header = ["key", "trial", *(_titled(name, units.get(name, "")) for name in variables), *measured, "notes"]
    rows = [
        [
            order["order"],
            order["trial"],
            *(printable(str(existing(campaign, order["design"]).get(name, ""))) for name in variables),
        ]
        for order in sorted(orders, key=lambda order: str(order["trial"]))
    ]
    text = io.StringIO(_MARK)
    text.seek(0, io.SEEK_END)
    write_rows(text, [header, *([*row, *[""] * (len(outputs) + 1)] for row in rows)])
    return text.getvalue()


def _titled(name: str, unit: str) -> str:
    return printable(f"{name} [{unit}]" if unit else name)
