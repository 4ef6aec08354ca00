"""What LXD and Incus refuse now and then, and do a moment later."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Incus lost its way because some link of the host went while it looked at all of them.
LINK_WENT = "bridge children interfaces"
# LXD lost its place in the source of a copy.
TORN_COPY = "readdirent"
# The node's network is just getting its address; the folder of its name server's hosts comes next.
NETWORK_CHANGES = "/dnsmasq.hosts/"
# liblxc 5.0 reads a console's buffer from the instance's monitor by one recv(); where the monitor has not sent all of
# it yet, it gives up with an errno that it set before: EMSGSIZE (src/lxc/commands.c, lxc_cmd_rsp_recv).
HALF_SENT = "message too long"
# LXD 5.0 now and then fails to read the link of a file that it has open, as it gives a privileged instance its files
# (shift_linux.go, shiftowner: "Failed readlink" in its log). It leaves files alone that are right already.
LOST_FILE = "Failed to change ownership of"
PAUSE_S = 0.2


def act_again(
    act: Callable[[], object], passing: Mapping[str, int], *, undo: Callable[[], object] | None = None
) -> object:
    """Act, and again where it fails for a reason that passes.

    Args:
        act: What is to be done.
        passing: Words of such a reason, and how often in all to act where they stand in the evidence.
        undo: Takes away what a failed attempt may have left.

    Raises:
        EngineError: It failed for another reason, or too often.
    """
    acted = 0
    while True:
        try:
            return act()
        except EngineError as error:
            acted += 1
            if acted >= max((times for words, times in passing.items() if words in error.evidence), default=1):
                raise
        if undo is not None:
            undo()
        time.sleep(PAUSE_S)
