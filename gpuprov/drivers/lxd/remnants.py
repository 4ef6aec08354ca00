"""What a killed LXD leaves of a node that it was removing, and cannot remove itself."""

from __future__ import annotations

import re
from pathlib import Path

_REMNANT = re.compile(r'Failed setting subvolume writable "(/[^"]+)"')


def remove_remnant(name: str, reason: str) -> bool:
    """Whether an empty folder was all that was left of a node, and is removed.

    LXD, killed after it removed a node's subvolume, makes a folder in its place when it starts again, takes that for
    the subvolume, and fails to remove it for ever.
    """
    found = _REMNANT.search(reason)
    if found is None or Path(found[1]).name != name:
        return False
    try:
        Path(found[1]).rmdir()
    except OSError:  # not empty, or not where this process can see it
        return False
    return True
