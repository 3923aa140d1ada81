"""``fieldcraft.campaign``: begin a campaign from Python, or go on with it."""

import inspect
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from fieldcraft.flows.commands.shared import campaign_of
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.yaml_data import Page, read_page
from fieldcraft.flows.notebook.arguments import folder, mapping, names, plain
from fieldcraft.flows.notebook.open_campaign import OpenCampaign
from fieldcraft.flows.settings import Settings, settings_from
from fieldcraft.flows.spec.campaign_file import CampaignSpec
from fieldcraft.flows.text import suggestion
from fieldcraft.flows.wiring.campaign_file import campaign_on
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.open_ledger import open_ledger

Measured = str | Mapping[str, str] | Sequence[str]
"""Names of results, with their units where they have some: ``"spread"``, ``{"spread": "K"}``."""


def campaign(
    name: str | Path,
    *,
    space: Mapping[str, Any] | None = None,
    minimize: Measured | None = None,
    maximize: Measured | None = None,
    constraints: Measured = (),
    budget: int | Mapping[str, Any] | None = None,
    home: str | Path | None = None,
    **further: Any,
) -> OpenCampaign:
    """Begin a campaign, or open the one of that name and go on with it.

    Args:
        name: Name of a campaign; with nothing else, one that exists. Or the path of a campaign file.
        space: The variables by name: ``(low, high)`` or ``(low, high, unit)`` for a number, a list of words for a
            choice, a mapping (``{"low": 1, "high": 5, "whole": True}``) for everything that the problem ``declared``
            knows. Beside ``problem``, narrower bounds ``(low, high)`` of its variables.
        minimize: Result to minimise, by name or as ``{name: unit}``; several make a campaign of several objectives.
            Needed neither beside ``sense`` nor for a ``problem`` that seeks a target or a band.
        maximize: Result or results to maximise, beside or instead of those.
        constraints: Further results, each of which must come out <= 0.
        budget: Number of trials, or the budget of a campaign file.
        home: Folder of the stores; by default FIELDCRAFT_HOME, or ``runs``.
        further: Other keys of a campaign file, as there. By default ``seed`` is 0, ``algorithm`` is auto (gp_ehvi for
            several objectives), and ``dispatcher`` is ``lab``: whoever asks for designs tells their results.

    Raises:
        InputError: the specification is wrong, or the campaign has another one; names the keys that differ.
        identity.Refused: the current user may not create campaigns.
    """
    settings = settings_from(home=None if home is None else folder("home", home))
    if unknown := [word for word in further if word not in CampaignSpec.model_fields]:
        known = [*inspect.signature(campaign).parameters, *CampaignSpec.model_fields]
        raise InputError(f"{name}: unknown key {unknown[0]!r}.{suggestion(unknown[0], known)}")
    if isinstance(name, Path) or str(name).endswith((".yaml", ".yml")):
        _nothing_beside(name, space, minimize, maximize, constraints, budget, further)
        return _begun(read_page(Path(name)), settings)
    if not further and space is minimize is maximize is budget is None:
        return OpenCampaign(settings, campaign_of(open_ledger(settings.ledger), str(name)).name)
    goals = {sense: _results(named) for sense, named in (("minimize", minimize), ("maximize", maximize))}
    several = [{**goal, "objective": sense} for sense, named in goals.items() for goal in named]
    if not several and "problem" not in further:
        raise InputError(f"{name}: give minimize or maximize, with the name of a result.")
    stated: dict[str, Any] = {"name": str(name), "seed": 0}
    results = [*(several if len(several) > 1 else goals["minimize"] + goals["maximize"]), *_results(constraints)]
    if len(several) == 1:
        stated["sense"] = several[0]["objective"]
    if "problem" not in further:
        stated["problem"] = {"kind": "declared", "variables": _variables(space or {}), "results": results}
    elif space is not None:
        stated["space"] = {variable: list(bounds) for variable, bounds in mapping("space", space).items()}
    stated["algorithm"] = {"kind": "gp_ehvi" if len(several) > 1 else "auto"}
    if "simulator" not in further:
        stated["dispatcher"] = {"kind": "lab"}
    if budget is not None:
        stated["budget"] = dict(budget) if isinstance(budget, Mapping) else {"trials": budget}
    page = Page(Path(f"campaign {str(name)!r}"), plain({**stated, **further}), {})
    return _begun(page, settings, [result["name"] for result in results])


def _begun(page: Page, settings: Settings, results: Sequence[str] = ()) -> OpenCampaign:
    stated = campaign_on(page, settings)
    known = [output.name for output in stated.problem.outputs]
    if set(results) - set(known[: len(results)]):
        raise InputError(
            f"{page.path}: the results are {', '.join(results)}, and the problem's {', '.join(known)}: name its first "
            "to minimise or maximise it."
        )
    created(open_ledger(settings.ledger, create=True), stated, page.path)
    return OpenCampaign(settings, stated.name)


def _nothing_beside(file: str | Path, *given: Any) -> None:
    if any(given):
        raise InputError(f"{file}: a campaign file says it all: change the file, or give its keys and no file.")


def _variables(space: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, **_variable(name, plain(stated))} for name, stated in mapping("space", space).items()]


def _variable(name: str, stated: Any) -> dict[str, Any]:
    if isinstance(stated, Mapping):
        return dict(stated)
    parts = [] if isinstance(stated, str) or not isinstance(stated, Sequence) else list(stated)
    if parts and all(isinstance(part, str) for part in parts):
        return {"choices": parts}
    bounds, unit = parts[:2], parts[2:]
    numbers = all(isinstance(each, Real) and not isinstance(each, bool) for each in bounds)
    if len(parts) not in (2, 3) or not numbers or not all(isinstance(each, str) for each in unit):
        raise InputError(
            f"space: {name} is {stated!r}: give (low, high), (low, high, unit), or a list of words. Levels that are "
            "numbers are written as words, such as ['1', '2', '3']."
        )
    return dict(zip(("low", "high", "unit"), parts, strict=False))


def _results(named: Measured | None) -> list[dict[str, str]]:
    if isinstance(named, Mapping):
        return [{"name": name, "unit": unit} for name, unit in named.items()]
    given = () if named is None else named
    return [{"name": name} for name in names("minimize, maximize or constraints", given)]
