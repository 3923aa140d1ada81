"""Names of trials for people: an id, or a label with the revision and digest that the person saw."""

import re
from dataclasses import dataclass

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.text import QUOTED, one_line, quoted
from fieldcraft.storage.records import Trial

_SHOWN = 16  # hexadecimal digits in a label: designs that share them can be searched for, so revisions are compared too
_LABEL = re.compile(f"([1-9][0-9]{{0,8}})-([0-9a-f]{{{_SHOWN},64}})|()([0-9a-f]{{64}})")


@dataclass(frozen=True)
class Choice:
    """A trial that a person decides on.

    Args:
        trial: Its id.
        digest: First digits of the digest that they saw; None for the present one.
        revision: The revision that they saw; None where the whole digest is given.
    """

    trial: str
    digest: str | None = None
    revision: int | None = None

    @classmethod
    def of(cls, word: str) -> "Choice":
        """Parse ``heat-0007``, ``heat-0007@2-3fa81c02d1e29b47`` (as ``queue`` shows it) or ``heat-0007@DIGEST``.

        Raises:
            InputError: the text after the ``@`` is neither.
        """
        trial, found, seen = word.strip().partition("@")
        if len(trial) > QUOTED:  # no campaign's name is so long
            raise InputError(f"The ledger holds no trial {quoted(trial)}.")
        if not found:
            return cls(trial)
        if (parts := _LABEL.fullmatch(seen)) is None:
            raise InputError(
                f"{quoted(one_line(word))} names nothing that was seen: after the @ give REVISION-DIGEST as "
                "'fieldcraft queue' shows it, or all 64 hexadecimal digits of the digest."
            )
        return cls(trial, parts[2] or parts[4], int(parts[1]) if parts[1] else None)

    @property
    def word(self) -> str:
        """The choice as an id or a label."""
        revision = "" if self.revision is None else f"{self.revision}-"
        return self.trial if self.digest is None else f"{self.trial}@{revision}{self.digest[:_SHOWN]}"

    def names(self, trial: Trial) -> bool:
        """True if the trial has not changed since it was seen; an edit always makes a new revision."""
        return self.revision in (None, trial.revision) and trial.digest.startswith(self.digest or "")


def as_seen(trial: Trial) -> Choice:
    """The choice of exactly this revision of the trial."""
    return Choice(trial.id, trial.digest, trial.revision)


def label(trial: Trial) -> str:
    """The label by which a person decides on exactly this version of the trial: ``heat-0007@2-3fa81c02d1e29b47``."""
    return as_seen(trial).word
