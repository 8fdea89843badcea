"""What Landlock gives on this kernel, and what stays unmet with it.

Level 4 is Linux 6.7 (stock Ubuntu 24.04), 6 is 6.12. What an older level lacks, the filter and the supervisor take
over where they can: they decide about signals, sockets, modes and times of files on every kernel, and below level 3
about cutting a file by its path. Level 1 cannot move a file from folder to folder, which honest commands need.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

#: The lowest level that is good enough, and the kernel it came with.
LEAST, LEAST_KERNEL = 2, "5.19"
SIGNALS = 6  # from this level on the kernel keeps signals inside the box
TRUNCATE = 3

UNMET = (
    "hard memory ceiling",
    "processor share",
    "disk limit",
    "hidden host files",
    "private processes",
    "fixed paths",
)
#: What the kernel itself keeps, by the name that the wheel `sandlock` has for it, from which level on. Below that the
#: filter and the supervisor stand in, and what a program meets is not the same.
PROTECTIONS = {
    "FS_TRUNCATE": TRUNCATE,
    "NET_TCP": 4,
    "FS_IOCTL_DEV": 5,
    "SIGNAL_SCOPE": SIGNALS,
    "ABSTRACT_UNIX_SOCKET_SCOPE": SIGNALS,
}
_CREATE_RULESET = 444


@lru_cache(maxsize=1)
def level() -> int:
    """The Landlock level of the running kernel; 0 where there is none or a container forbids it."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(0, int(found))


def kept(found: int) -> tuple[str, ...]:
    """The protections that the kernel gives at a level."""
    return tuple(name for name, least in PROTECTIONS.items() if found >= least)


def tier(found: int) -> int:
    """2, as it is weaker than namespaces; 3 where signals rest on the supervisor instead of the kernel."""
    return 2 if found >= SIGNALS else 3
