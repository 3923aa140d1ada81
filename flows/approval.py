"""Step 7, approve: the campaign's policy decides, and writes the same record as a person would."""

from flows.sites import Site
from storage.records import Trial, TrialState


def approve(site: Site) -> tuple[Trial, ...]:
    """Approve every proposal of the campaign, each bound to the digest of exactly what will run."""
    attempts = site.campaign.spec.dispatcher.attempts
    return tuple(
        site.ledger.approve(trial.id, trial.expect, trial.digest, "policy:auto", "", "auto", attempts)
        for trial in site.ledger.trials(site.name, states={TrialState.PROPOSED})
    )
