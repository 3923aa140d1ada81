"""Source files that a trial runs, as an approval covers them: their names and the checksums of their contents."""

from collections.abc import Iterable, Mapping

from fieldcraft.storage.records import Digest, Record, digest_of


class Code(Record):
    """Source files by their names as people know them, each with the SHA-256 of its content."""

    files: Mapping[str, Digest]

    @property
    def digest(self) -> str:
        """SHA-256 of the names and the contents."""
        return digest_of(dict(self.files))

    def differing(self, other: "Code") -> tuple[str, ...]:
        """Names of the files that are not the same in both, or are in one alone."""
        return tuple(_differing(self.files, other.files))


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> Iterable[str]:
    return (name for name in sorted({*one, *other}) if one.get(name) != other.get(name))
