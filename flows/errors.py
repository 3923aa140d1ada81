"""Errors a person reads: the value, the problem and the remedy, in one line, and exit code 2.

FieldcraftError
+-- InputError     a campaign file, an option or a plug-in is wrong; nothing was changed
+-- Unfinished     the campaign waits for a person or a laboratory; exit code 3
"""

from storage.text import printable


class FieldcraftError(Exception):
    """Base of the errors that end a command with exit code 2; whatever they quote is shown as text."""

    def __str__(self) -> str:
        return printable(super().__str__())


class InputError(FieldcraftError):
    """What the user gave cannot be used; nothing was created or changed."""


class Unfinished(FieldcraftError):
    """The campaign waits for a person or a laboratory, which is no error; everything so far is kept."""
