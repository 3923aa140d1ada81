"""Memory in pages of 2 MB: a fork copies an entry a page, and what has imported torch holds 60,000 pages of 4 KB."""

import contextlib
import ctypes
from pathlib import Path

_SIZE = 2 << 20
_COLLAPSE = 25  # MADV_COLLAPSE of Linux 6.1; another kernel refuses it, and all stays as it is


def gathered() -> None:
    """Move this process's own memory into such pages, as far as the kernel can; half of what a fork costs is saved."""
    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            place, rights, *_, inode = line.split()[:5]
            if rights == "rw-p" and inode == "0":
                low, high = (int(end, 16) for end in place.split("-"))
                for start in range(-(-low // _SIZE) * _SIZE, high - _SIZE + 1, _SIZE):
                    libc.madvise(start, _SIZE, _COLLAPSE)
