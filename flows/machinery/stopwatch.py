"""Wall time and CPU time of a step."""

import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Clock:
    """A stopwatch, started when it is made.

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
