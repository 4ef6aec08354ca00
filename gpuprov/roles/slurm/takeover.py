"""A backup takes over at once where the controller's node is stopped: Slurm itself waits until it has heard nothing.

slurmdbd goes with that node. A slurmctld starts without it by what another one has written to the folder of its state:
of people, limits and QOS every 300 s, when it ends, and when a partition is deleted. It does when it reads its
configuration again, too, but so does every slurmd then, which accepts nothing for seconds: a job can fail to start.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError, TimedOut
from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.roles.slurm.facts import slurm_facts, slurm_path
from gpuprov.spec.shared_folder import ACCOUNT

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver

_BUDGET_S: Final = 60.0
# A question to a backup that waits is asked again only after SlurmctldTimeout / 2, so each one has an end.
_SCRIPT: Final = """timeout 5 sinfo -h >/dev/null 2>&1 && exit 0
timeout 15 scontrol takeover >/dev/null 2>&1
for _ in $(seq 8); do timeout 4 sinfo -h >/dev/null 2>&1 && exit 0; sleep 0.5; done"""

_KEEP_S: Final = 60.0
_PASSING: Final = slurm_facts()["passing"]
# Every accounting of ours has the account of jobs: where that is missing, what is there is from before it
_KEEP: Final = f"""[ -e {slurm_path("slurmdbd")} ] || exit 0
kept=$(sed -n 's/^StateSaveLocation=//p' {slurm_path("folder")}/slurm.conf)/assoc_mgr_state
of() {{ stat -c '%i %y' "$kept" 2>/dev/null; }}
[ -z "$1" ] && grep -qaw {ACCOUNT} "$kept" 2>/dev/null && exit
before=$(of)
scontrol create partitionname={_PASSING} hidden=yes state=down  # one that a killed run has left will do
scontrol delete partitionname={_PASSING} || exit
for _ in $(seq 100); do [ "$(of)" = "$before" ] || exit 0; sleep 0.1; done
echo "slurmctld has not written $kept" >&2
exit 1"""


def take_over(driver: Driver, backup: str) -> None:
    """Have the backup take over, unless it has; whoever asks it next hears whether it did.

    Only for a controller whose node is stopped: of one that nobody reaches, both would start jobs.
    """
    with suppress(EngineError, TimedOut):
        driver.run(backup, ["sh", "-c", _SCRIPT], timeout_s=_BUDGET_S)


def keep_for_backup(driver: Driver, controller: str, *, changed: bool) -> None:
    """Have slurmctld write what its backup needs to take over without slurmdbd, if it has not or that has changed.

    Args:
        changed: Whether people or QOS have just been changed.

    Raises:
        EngineError: It did not.
        TimedOut: It does not answer.
    """
    kept = driver.run(controller, ["sh", "-c", _KEEP, "sh", "changed" if changed else ""], timeout_s=_KEEP_S)
    if kept.exit_code:
        raise EngineError(
            "the backup of Slurm's controller may not take over for the next five minutes",
            evidence=excerpt(kept.stderr.strip() or f"exit status {kept.exit_code}", LINE),
            fix=f"gpuprov exec {controller} -- scontrol ping",
        )
