"""Nodes whose host does not answer: DOWN in Slurm with a reason of ours, and back in service when it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.roles.slurm.daemons import resume, run_slurm
from gpuprov.roles.slurm.jobs import ask_words
from gpuprov.roles.slurm.words import away_reason

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gpuprov.drivers.base import Driver

# Prints the nodes whose slurmd does not answer the controller's node, at Slurm's default port: Slurm itself asks only
# every third of SlurmdTimeout.
_CALL: Final = """for node; do
  { timeout 3 bash -c ': < /dev/tcp/$0/6818' "$node" 2> /dev/null || echo "$node"; } &
done
wait
"""


def mark_away(driver: Driver, controller: str, names: Collection[str], *, host: str, since: str) -> tuple[str, ...]:
    """Mark those nodes of a host DOWN that the controller does not reach either; returns a line for each that was not.

    A node on which jobs run is left to Slurm, and so is one that somebody else has a reason for.

    Raises:
        GpuprovError: Slurm does not answer, or refused.
    """
    words, reason = ask_words(driver, controller), away_reason(host, since)
    workless = [name for name in sorted(names) if name in words and words[name].workless]
    unmarked = [name for name in workless if words[name].reason != reason]
    silent = run_slurm(driver, controller, ["sh", "-c", _CALL, "sh", *unmarked]).split() if unmarked else []
    lost = [name for name in unmarked if name in silent]
    if lost:
        update = ["scontrol", "update", f"nodename={','.join(lost)}", "state=down", f"reason={reason}"]
        run_slurm(driver, controller, update)
    return tuple(f"mark {name} down: host {host} is unreachable since {since}" for name in lost)


def mark_back(driver: Driver, controller: str, names: Sequence[str]) -> tuple[str, ...]:
    """Have those nodes take jobs again that `mark_away`, or Slurm's own silence, has marked; returns a line for each.

    Raises:
        GpuprovError: Slurm does not answer, or refused.
    """
    words = ask_words(driver, controller)
    back = [name for name in names if name in words and (words[name].away or words[name].unheard)]
    if back:
        resume(driver, controller, back)
    return tuple(f"resume {name}: its host is back" for name in back)
