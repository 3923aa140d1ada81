"""What a step took."""

import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Clock:
    """Runs from when it is made.

    Args:
        wall: Wall time when it was made, in seconds.
        cpu: CPU time of the process when it was made, in seconds.
    """

    wall: float = field(default_factory=time.perf_counter)
    cpu: float = field(default_factory=time.process_time)

    @property
    def passed(self) -> dict[str, float]:
        """``seconds`` of wall time and ``cpu_seconds`` of this process since then."""
        return {
            "seconds": round(time.perf_counter() - self.wall, 3),
            "cpu_seconds": round(time.process_time() - self.cpu, 3),
        }
