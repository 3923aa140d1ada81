"""How a person names a trial: by its id, or by a label that says which revision and digest of it they saw."""

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
        digest: First digits of the digest of what they saw; None for whatever it is at this moment.
        revision: The revision that they saw; None where the digest is whole and says enough.
    """

    trial: str
    digest: str | None = None
    revision: int | None = None

    @classmethod
    def of(cls, word: str) -> "Choice":
        """``heat-0007``, ``heat-0007@2-3fa81c02d1e29b47`` as ``queue`` shows it, or ``heat-0007@`` and a whole digest.

        Raises:
            InputError: what stands after the ``@`` is neither.
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
        """What was named, in the form of a label."""
        revision = "" if self.revision is None else f"{self.revision}-"
        return self.trial if self.digest is None else f"{self.trial}@{revision}{self.digest[:_SHOWN]}"

    def names(self, trial: Trial) -> bool:
        """Whether the trial still is what was seen; an edit always makes a new revision."""
        return self.revision in (None, trial.revision) and trial.digest.startswith(self.digest or "")


def label(trial: Trial) -> str:
    """The trial as a person should name it to decide on exactly this: ``heat-0007@2-3fa81c02d1e29b47``."""
    return Choice(trial.id, trial.digest, trial.revision).word
