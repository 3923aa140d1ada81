"""What a ledger can be asked: the reading half of the contract, which ``storage.ledger.contract`` goes on with."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from fieldcraft.storage.code import Code
from fieldcraft.storage.records import (
    Approval,
    Brief,
    Campaign,
    Event,
    Lease,
    Notice,
    OutboxItem,
    Product,
    Result,
    Retriable,
    Spending,
    Step,
    Trial,
    TrialState,
)


class Queries(Protocol):
    """Queries of a ledger: each sees one consistent state and creates nothing."""

    def campaign(self, name: str) -> Campaign:
        """Return the campaign of that name."""

    def campaigns(self) -> tuple[Campaign, ...]:
        """All campaigns, oldest first."""

    def holder(self, name: str) -> Lease | None:
        """Who makes passes over a campaign now; None when nobody does, or only a process that no longer lives."""

    def trainer(self, campaign: str) -> Lease | None:
        """Who trains a campaign's model outside a pass now; None when nobody does, or only a dead process."""

    def product(self, campaign: str, iteration: int, step: Step) -> Product | None:
        """What the step of that iteration made, or None."""

    def products(self, campaign: str) -> tuple[Product, ...]:
        """All products of a campaign, oldest first."""

    def extracts(self, campaign: str, step: Step, keys: Sequence[str]) -> Mapping[int, Mapping[str, Any]]:
        """These entries of the payloads of all of a step's products, by iteration; None for one that a payload lacks.

        The rest is not read: a model's payload names every trial it saw, so that all of them together grow with the
        square of the campaign. A number by itself may be rounded to fifteen figures.
        """

    def latest(self, campaign: str, step: Step) -> Product | None:
        """What the step made in the latest iteration in which it made something, or None."""

    def iterations(self, campaign: str, step: Step) -> tuple[int, ...]:
        """The iterations in which the step made something, in order; ``product`` has each."""

    def trials(
        self, campaign: str, states: Collection[TrialState] | None = None, iteration: int | None = None
    ) -> tuple[Trial, ...]:
        """Trials of a campaign by number, all or those in ``states`` and of ``iteration``."""

    def briefs(self, campaign: str) -> tuple[Brief, ...]:
        """All trials of a campaign in brief, by number: a fraction of what ``trials`` costs."""

    def settled(self, campaign: str) -> Mapping[str, int]:
        """The event with which each trial came to its settled state, by trial; a later id is a later time."""

    def standing(self, campaign: str) -> Mapping[str, int]:
        """Id of the result that counts of each trial, by trial; one that was retracted is left out."""

    def corrected(self, campaign: str) -> frozenset[str]:
        """The trials of which a result was corrected or retracted."""

    def retriable(self, campaign: str) -> tuple[Retriable, ...]:
        """The trials that failed in passing and have attempts left under a live approval, by number."""

    def trial(self, trial_id: str) -> Trial:
        """Return the trial of that id."""

    def history(self, campaign: str, trial: str | None = None) -> tuple[Event, ...]:
        """Events of a campaign, or of one of its trials, oldest first."""

    def results(self, trial_id: str) -> tuple[Result, ...]:
        """All results of a trial, oldest first, whatever their verdict."""

    def readings(self, campaign: str) -> tuple[Result, ...]:
        """All results of a campaign, oldest first, whatever their verdict."""

    def spending(self, campaign: str) -> Spending:
        """What a campaign has spent and reserved."""

    def approvals(self, trial_id: str) -> tuple[Approval, ...]:
        """All approvals of a trial, oldest first, voided ones too."""

    def granted(self, campaign: str) -> tuple[Approval, ...]:
        """All approvals of a campaign, oldest first, voided ones too."""

    def unused(self, campaign: str) -> Mapping[str, Approval]:
        """The live approvals of the trials that are APPROVED, by trial."""

    def last_approved(self, campaign: str) -> Event | None:
        """The event of the latest approval of a campaign; ``details`` have its terms and the digest of its code."""

    def codes(self, campaign: str) -> Mapping[str, Code]:
        """Every code that was ever approved in a campaign, by its digest (``Approval.code``)."""

    def pending(self, campaign: str | None = None, limit: int = 1000) -> tuple[OutboxItem, ...]:
        """The oldest ``limit`` outbox items not exported yet, oldest first."""

    def unexported(self, campaign: str) -> int:
        """How many of a campaign's outbox items were not exported yet."""

    def tracked(self, campaign: str) -> Mapping[str, str]:
        """Tracking runs by what they show: ``campaign``, ``trial:ID`` and ``surrogate:ITERATION``."""

    def notices(self, campaign: str | None = None, limit: int = 100) -> tuple[Notice, ...]:
        """The oldest ``limit`` notices that were not told yet, oldest first."""

    def noticed(self, campaign: str, event: str) -> tuple[Notice, ...]:
        """All notices of one kind (``Notice.event``) that a campaign ever had, told or not, oldest first."""

    def sealed(self) -> str | None:
        """Where the campaigns were moved to; None while they are here."""

    def created(self) -> float:
        """When the ledger was made, in seconds since the epoch: the same in all its copies."""

    def check(self) -> list[str]:
        """Read everything and return what is wrong, one sentence each; empty when all is well."""
