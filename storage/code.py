"""Source files that a trial runs, as an approval covers them: their names and the checksums of their contents."""

from collections.abc import Mapping
from functools import cached_property

from fieldcraft.storage.records import Digest, Record, digest_of


class Code(Record):
    """Source files by their names as people know them, each with the SHA-256 of its content."""

    files: Mapping[str, Digest]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the names and the contents."""
        return digest_of(dict(self.files))

    def differing(self, other: "Code") -> tuple[str, ...]:
        """Names of the files that are not the same in both, or are in one alone."""
        names = sorted({*self.files, *other.files})
        return tuple(name for name in names if self.files.get(name) != other.files.get(name))
