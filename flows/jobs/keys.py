"""Keys of attempts, under which jobs run and results are matched."""

from fieldcraft.storage.records import Trial


def attempt_key(trial: Trial) -> str:
    """The key of a trial's present attempt, under which a result is matched; never used again."""
    return f"{trial.id}-{trial.attempt}"


def attempt_keys(trial: Trial) -> list[str]:
    """The keys of all attempts of a trial so far."""
    return [f"{trial.id}-{attempt}" for attempt in range(1, trial.attempt + 1)]
