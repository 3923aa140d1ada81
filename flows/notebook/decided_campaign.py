"""Decisions on a campaign from a notebook: on its trials, and the pick from its front."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from fieldcraft.flows.analysis.picks import picked_data
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.identity import acting
from fieldcraft.flows.notebook.arguments import mapping, names
from fieldcraft.flows.people import decisions, interventions
from fieldcraft.flows.people.picks import Wanted, pick
from fieldcraft.flows.rules.trial_labels import Choice, as_seen
from fieldcraft.flows.settings import Settings
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import CampaignRecord, Trial

Verb = Literal["approve", "reject", "edit", "retry", "abandon"]


class DecidedCampaign:
    """A campaign of the ledger that people decide on.

    Attributes:
        name: Its name.
    """

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings, self.name = settings, name
        self._seen: dict[str, Trial] = {}  # each trial as it was last shown

    @property
    def _ledger(self) -> Ledger:
        return open_ledger(self._settings.ledger)

    @property
    def _record(self) -> CampaignRecord:
        return self._ledger.campaign(self.name)

    def decide(
        self, trials: str | Iterable[str], verb: Verb, reason: str = "", *, design: Mapping[str, Any] | None = None
    ) -> tuple[str, ...]:
        """Decide on trials as ``fieldcraft approve``, ``reject``, ``edit``, ``retry`` and ``abandon`` do.

        Args:
            trials: An id or several (``asked.index``), each as it was last shown by ``ask`` or ``trials``.
            verb: The decision.
            reason: Its reason; ``reject`` and ``abandon`` need one.
            design: New values of variables, for ``edit``.

        Returns:
            The trials' ids and states, a line each.

        Raises:
            InputError: the trial was not shown here, or cannot be decided on so.
            decisions.Overtaken: it has changed since it was shown.
            identity.Refused: the current user may not decide so.
        """
        person, ledger, settings = acting(self._settings, "decide"), self._ledger, self._settings
        given = names("decide: trials", trials)
        if unseen := [name for name in given if name not in self._seen]:
            raise InputError(f"decide: {', '.join(unseen)} was not shown here: look at ask() or trials first.")
        seen = [self._seen[name] for name in given]
        choices = [as_seen(trial) for trial in seen]
        if (design is None) == (verb == "edit"):
            raise InputError("decide: design is for 'edit', which needs it: give the new values of variables.")
        if verb == "approve":
            done = decisions.approve(ledger, settings, person, choices, reason)
        elif verb == "reject":
            done = decisions.reject(ledger, person, choices, reason)
        elif verb == "edit":
            new = {name: str(value) for name, value in mapping("decide: design", design).items()}
            done = tuple(decisions.edit(ledger, settings, person, choice, new, reason)[1] for choice in choices)
        elif verb == "retry":
            done = tuple(interventions.retry(ledger, settings, person, t.id, reason, t.version) for t in seen)
        elif verb == "abandon":
            done = tuple(interventions.abandon(ledger, settings, person, t.id, reason, t.version) for t in seen)
        else:
            raise InputError(f"decide: {verb!r} is no decision. Known: approve, reject, edit, retry, abandon.")
        self._seen |= {trial.id: trial for trial in done}
        return tuple(f"{trial.id}: {trial.state}" for trial in done)

    def pick(
        self,
        trial: str | None = None,
        *,
        knee: bool = False,
        weights: Mapping[str, float] | None = None,
        why: str,
    ) -> str:
        """Pick a design from the front of several objectives, as ``fieldcraft pick`` does: give exactly one.

        Args:
            trial: A trial of the front.
            knee: True for the design where the front bends most.
            weights: A weight >= 0 of each objective, for the best by their sum.
            why: The reason.

        Returns:
            The trial's id.

        Raises:
            InputError: there is one objective, no reason, or no such design on the front.
        """
        person, ledger = acting(self._settings, "decide"), self._ledger
        chosen = None if trial is None else Choice(trial)
        if trial is not None and (seen := self._seen.get(trial)) is not None:
            chosen = as_seen(seen)
        wanted = Wanted(chosen, knee, weights)
        return pick(ledger, person, self.name, wanted, why).id

    @property
    def picked(self) -> Mapping[str, Any] | None:
        """The pick that counts: ``trial``, ``design``, ``outputs``, ``by``, ``reason`` and how; None without one."""
        return picked_data(self._ledger.picked(self.name), self._record, self._ledger.summaries(self.name))
