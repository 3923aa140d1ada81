"""Levels of a campaign's simulator in words, and the trials of each; from records alone."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fieldcraft.flows.text import one_line
from fieldcraft.storage.records import CampaignRecord, Trial, TrialSummary


def levels_of(campaign: CampaignRecord) -> Sequence[Mapping[str, Any]]:
    """Levels of a campaign's simulator, by number: the options that differ, and ``cost``."""
    found: Sequence[Mapping[str, Any]] = campaign.spec.get("levels") or ()
    return found


def level_name(campaign: CampaignRecord, level: int | None) -> str:
    """``24 cells``: the options of a level that differ; empty for the target."""
    return "" if level is None else _name(levels_of(campaign), level)


def level_said(campaign: CampaignRecord, level: int | None) -> str:
    """``level 24 cells (0.07 of a run)``; empty for the target."""
    known = levels_of(campaign)
    if level is None or level >= len(known):
        return f"level {level_name(campaign, level)}" if level is not None else ""
    return f"level {level_name(campaign, level)} ({known[level]['cost']:g} of a run)"


def level_data(campaign: CampaignRecord, level: int | None) -> dict[str, str]:
    """``level`` with the words of ``level_said``, for the data of a trial; no entry where there are no levels."""
    return {"level": level_said(campaign, level)} if levels_of(campaign) else {}


def level_counts(campaign: CampaignRecord, trials: Sequence[Trial | TrialSummary]) -> list[dict[str, Any]]:
    """Trials of each level by state, the cheapest level first: ``level`` in words, and ``states``."""
    counts = [Counter(str(t.state) for t in trials if t.level == number) for number in range(len(levels_of(campaign)))]
    return [
        {"level": level_said(campaign, number), "states": dict(sorted(states.items()))}
        for number, states in enumerate(counts)
    ]


def remark_named(levels: Sequence[Mapping[str, Any]], remark: str) -> str:
    """A model's remark with the options of each level for its number: ``level 0`` becomes ``level 24 cells``."""
    return re.sub(r"\blevel (\d+)\b", lambda found: f"level {_name(levels, int(found[1]))}", remark)


def _name(levels: Sequence[Mapping[str, Any]], level: int) -> str:
    if level >= len(levels):  # changed outside the ledger, as the doctor says
        return f"{level}, which the campaign does not have"
    return ", ".join(_option(name, value) for name, value in levels[level].items() if name != "cost")


def _option(name: str, value: Any) -> str:
    counted = isinstance(value, int) and not isinstance(value, bool)
    return one_line(f"{value} {name}" if counted else f"{name} {value}")
