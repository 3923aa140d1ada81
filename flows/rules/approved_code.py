"""Code that an approval covers, beside the design and the specification."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.campaign_file import CampaignSpec
from fieldcraft.flows.spec.registry import load
from fieldcraft.flows.spec.source_files import Sources, brief
from fieldcraft.flows.text import clock
from fieldcraft.flows.wiring.campaign import dispatcher_of
from fieldcraft.storage.code import Code
from fieldcraft.storage.records import Approval

_NAMED = 3  # files that one reason names


@dataclass(frozen=True)
class Covered:
    """The code of a campaign at one moment.

    Args:
        code: All code that an approval covers: problem, simulator and dispatcher.
        run: Summary of the code that the process of a simulation imports or starts.
    """

    code: Code
    run: Mapping[str, str]


def covered(spec: CampaignSpec, settings: Settings) -> Covered:
    """The code that an approval given now would cover, and for which a trial sent now must be approved.

    Raises:
        InputError: a kind is not known here, a file cannot be read, or the operator does not allow the program.
    """
    kinds = {"problems": spec.problem.kind, "dispatchers": spec.dispatcher.kind}
    simulated = {} if spec.simulator is None else {"problems": spec.problem.kind, "simulators": spec.simulator.kind}
    sources, programs = Sources(settings.plugins), _programs(spec, settings)
    return Covered(sources.of({**kinds, **simulated}, programs), brief(sources.of(simulated, programs)))


def _programs(spec: CampaignSpec, settings: Settings) -> Mapping[str, Path]:
    """Programs that the dispatcher starts, by the names to show."""
    if not hasattr(load("dispatchers", spec.dispatcher.kind, settings.plugins), "programs"):
        return {}
    dispatcher: Any = dispatcher_of(spec.name, spec.dispatcher, settings)
    return dict(dispatcher.programs)


def uncovered(approval: Approval, code: Code, codes: Mapping[str, Code]) -> str:
    """Reason why an approval of other code does not cover this code, in words.

    Args:
        approval: The approval.
        code: The code that would run.
        codes: Every code that was approved in the campaign, by its digest.
    """
    given = f"{approval.by} approved it on {clock(approval.created)}"
    before = codes.get(approval.code or "")
    if before is None:
        return f"{given} without saying which code was to run it"
    return f"{listed(before.differing(code))} changed since {given}"


def listed(files: Sequence[str]) -> str:
    """Names of files; of more than three, the first three and the number of the others."""
    more = len(files) - _NAMED
    return ", ".join(files) if more <= 0 else f"{', '.join(files[:_NAMED])} and {more} more"
