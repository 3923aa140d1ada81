"""Context of a step: the campaign's components and its stores, opened from names alone."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from fieldcraft.flows.identity import ACTOR as ACTOR
from fieldcraft.flows.settings import Settings, settings_from
from fieldcraft.flows.spec.campaign_file import CampaignSpec, stored
from fieldcraft.flows.spec.source_files import Sources, require_held
from fieldcraft.flows.wiring.build import assemble
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.environment import require_recorded
from fieldcraft.storage.fields import FieldStore, fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Lease, canonical


@dataclass(frozen=True)
class Site:
    """A campaign with its stores.

    Args:
        campaign: Specification and components.
        ledger: Ledger, which refuses every write once the pass has lost its lease.
        fields: Fields, checkpoints and collocation sets.
    """

    campaign: Campaign
    ledger: Ledger
    fields: FieldStore

    @property
    def name(self) -> str:
        """Name of the campaign."""
        return self.campaign.name

    @property
    def work(self) -> Path:
        """Scratch folder of the campaign."""
        return self.campaign.settings.work / self.name


_opened: ContextVar[tuple[Ledger, dict[tuple[str, str, str], Site]] | None] = ContextVar("opened", default=None)


@contextmanager
def opened_once(ledger: Ledger) -> Iterator[None]:
    """Have ``site_of`` open a campaign once within the block: once a pass, for all its steps that run here.

    Args:
        ledger: The open ledger of all sites within the block.
    """
    token = _opened.set((ledger, {}))
    try:
        yield
    finally:
        _opened.reset(token)


def site_of(home: str, name: str, lease: Mapping[str, Any] | None) -> Site:
    """Open a campaign's stores from names alone, so that a step may run on any machine.

    Args:
        home: Folder of the stores.
        name: Name of the campaign.
        lease: Pass lease under which to write, as JSON data; None to read only.

    Raises:
        InputError: the problem's outputs or variables are not those of the campaign.
    """
    key, (opened, known) = (home, name, canonical(lease)), _opened.get() or (None, {})
    if key in known:
        return known[key]
    settings = settings_from(home=Path(home))
    ledger = open_ledger(settings.ledger) if opened is None else opened
    record = ledger.campaign(name)
    campaign = _campaign(canonical(record.spec), settings)
    require_recorded(record, campaign.problem)
    fenced = ledger if lease is None else ledger.fenced(Lease.model_validate(lease))
    known[key] = site = Site(campaign, fenced, fields_at(settings.fields))
    return site


EMULATING = "emulate"
"""Name of the scratch folder of the training of a campaign's network."""
TRAINING = "train-"
"""How the name of the scratch folder of an iteration's training begins."""


def unfinished(iteration: int) -> str:
    """Name of the scratch folder of an iteration's training."""
    return f"{TRAINING}{iteration:04d}"


def _campaign(text: str, settings: Settings) -> Campaign:
    """Build the campaign with the code that its files hold now.

    Raises:
        FieldcraftError: this process holds code of ours that has changed since.
    """
    spec = _specification(text)
    parts = {"problems": spec.problem, "simulators": spec.simulator, "dispatchers": spec.dispatcher}
    kinds = {group: part.kind for group, part in parts.items() if part is not None}
    code = Sources(settings.plugins).of(kinds, {})
    require_held(code)
    return _rewired(text, settings, code.digest)


@lru_cache(maxsize=8)
def _specification(text: str) -> CampaignSpec:
    data = json.loads(text)
    return stored(data, f"campaign {data.get('name')}")


@lru_cache(maxsize=8)
def _rewired(text: str, settings: Settings, code: str) -> Campaign:
    return assemble(_specification(text), settings, algorithm=False)
