"""A clock that is set while processes run, which is libfaketime's doing; what counts on from the boot goes on."""

from dataclasses import dataclass
from pathlib import Path

import libfaketime

LIBRARY = Path(libfaketime.__file__).parent / "vendor/libfaketime/src/libfaketime.so.1"


@dataclass(frozen=True)
class Clock:
    """The clock of all processes that have its environment.

    Args:
        file: Where libfaketime reads how far it is off.
    """

    file: Path

    def set(self, offset: str) -> "Clock":
        """Set it that far off the true time, in libfaketime's words: ``-1h``."""
        draft = self.file.with_name(f".{self.file.name}")
        draft.write_text(offset)
        draft.replace(self.file)
        return self

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_CACHE_DURATION": "1",  # seconds until all of them have seen it
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # with it all that waits for Python's lock asks again and again
        }
