"""Queries of a ledger: the reading half of the contract; ``storage.ledger.contract`` has the writes."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from fieldcraft.storage.code import Code
from fieldcraft.storage.records import (
    Approval,
    CampaignRecord,
    Event,
    Lease,
    Notice,
    OutboxItem,
    Product,
    Result,
    ResultSummary,
    Retriable,
    Spending,
    Step,
    Trial,
    TrialState,
    TrialSummary,
)


class Queries(Protocol):
    """Queries of a ledger: each sees one consistent state and creates nothing."""

    def campaign(self, name: str) -> CampaignRecord:
        """Return the campaign of that name."""

    def campaigns(self) -> tuple[CampaignRecord, ...]:
        """All campaigns, oldest first."""

    def holder(self, name: str) -> Lease | None:
        """Lease of the process that makes passes over a campaign; None if there is none or its process has ended."""

    def trainer(self, campaign: str) -> Lease | None:
        """Lease of the process that trains a campaign's model outside a pass; None if there is none or it has ended."""

    def given(self, campaign: str) -> frozenset[str]:
        """Trials that were given to another process which may still live."""

    def product(self, campaign: str, iteration: int, step: Step) -> Product | None:
        """Product of a step in that iteration, or None."""

    def products(self, campaign: str) -> tuple[Product, ...]:
        """All products of a campaign, oldest first."""

    def extracts(self, campaign: str, step: Step, keys: Sequence[str]) -> Mapping[int, Mapping[str, Any]]:
        """Entries ``keys`` of the payloads of all products of a step, by iteration; None for one that a payload lacks.

        The rest of a payload is not read: a model's payload names every trial it saw, so that all payloads together
        grow with the square of the number of trials. An entry that is a number may be rounded to fifteen digits.
        """

    def latest(self, campaign: str, step: Step) -> Product | None:
        """Product of a step in the latest iteration that has one, or None."""

    def iterations(self, campaign: str, step: Step) -> tuple[int, ...]:
        """Iterations in which the step made a product, in order; ``product`` returns each."""

    def trials(
        self, campaign: str, states: Collection[TrialState] | None = None, iteration: int | None = None
    ) -> tuple[Trial, ...]:
        """Trials of a campaign by number, all or those in ``states`` and of ``iteration``."""

    def summaries(self, campaign: str) -> tuple[TrialSummary, ...]:
        """All trials in brief, by number; much cheaper than ``trials``."""

    def settled(self, campaign: str) -> Mapping[str, int]:
        """Ids of the events that brought trials into their settled state, by trial; a later id is a later time."""

    def corrected(self, campaign: str) -> frozenset[str]:
        """Trials of which a result was corrected or retracted."""

    def retriable(self, campaign: str) -> tuple[Retriable, ...]:
        """Trials that failed temporarily and have attempts left under a live approval, by number."""

    def trial(self, trial_id: str) -> Trial:
        """Return the trial of that id."""

    def history(self, campaign: str, trial: str | None = None, after: int = 0) -> tuple[Event, ...]:
        """Events of a campaign, or of one of its trials, oldest first; those with an id above ``after``."""

    def last_event(self, campaign: str) -> int:
        """Id of the latest event of a campaign."""

    def results(self, trial_id: str) -> tuple[Result, ...]:
        """All results of a trial, oldest first, whatever their verdict."""

    def campaign_results(self, campaign: str) -> tuple[Result, ...]:
        """All results of a campaign, oldest first, whatever their verdict."""

    def parts(self, campaign: str) -> tuple[Result, ...]:
        """Results of a campaign that gave only some outputs, oldest first, whatever became of their trials."""

    def result_summaries(self, campaign: str) -> tuple[ResultSummary, ...]:
        """All results of a campaign in brief, oldest first; much cheaper than ``campaign_results``."""

    def spending(self, campaign: str) -> Spending:
        """Amounts that a campaign has spent and reserved."""

    def approvals(self, trial_id: str) -> tuple[Approval, ...]:
        """All approvals of a trial, oldest first, voided ones too."""

    def granted(self, campaign: str) -> tuple[Approval, ...]:
        """All approvals of a campaign, oldest first, voided ones too."""

    def unused(self, campaign: str) -> Mapping[str, Approval]:
        """The live approvals of the trials that are APPROVED, by trial."""

    def last_approved(self, campaign: str) -> Event | None:
        """The event of the latest approval of a campaign; ``details`` have its terms and the digest of its code."""

    def picked(self, campaign: str) -> Event | None:
        """The event of the latest pick of a campaign; ``details`` have its rule and the outputs that were picked."""

    def codes(self, campaign: str) -> Mapping[str, Code]:
        """Each code that was ever approved in a campaign, by its digest (``Approval.code``)."""

    def pending(self, campaign: str | None = None, limit: int = 1000) -> tuple[OutboxItem, ...]:
        """The oldest ``limit`` outbox items not exported yet, oldest first."""

    def unexported(self, campaign: str) -> int:
        """Number of outbox items of a campaign that are not exported yet."""

    def tracked(self, campaign: str) -> Mapping[str, str]:
        """Tracking runs by key: ``campaign``, ``trial:ID`` and ``surrogate:ITERATION``."""

    def notices(self, campaign: str | None = None, limit: int = 100) -> tuple[Notice, ...]:
        """The oldest ``limit`` notices that were not sent yet, oldest first."""

    def noticed(self, campaign: str, event: str) -> tuple[Notice, ...]:
        """All notices of one kind (``Notice.event``) of a campaign, sent or not, oldest first."""

    def sealed(self) -> str | None:
        """Place that the campaigns were moved to; None if they are here."""

    def created(self) -> float:
        """Time at which the ledger was made, in seconds since the epoch; the same in all its copies."""

    def check(self) -> list[str]:
        """Read the whole ledger and return the problems found, one sentence each; empty if there are none."""
