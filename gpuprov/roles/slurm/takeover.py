"""A backup takes over at once where the controller's node is stopped: Slurm itself waits until it has heard nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError, TimedOut

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver

_BUDGET_S: Final = 60.0
# A question to a backup that waits is asked again only after SlurmctldTimeout / 2, so each one has an end.
_SCRIPT: Final = """timeout 5 sinfo -h >/dev/null 2>&1 && exit 0
timeout 15 scontrol takeover >/dev/null 2>&1
for _ in $(seq 8); do timeout 4 sinfo -h >/dev/null 2>&1 && exit 0; sleep 0.5; done"""


def take_over(driver: Driver, backup: str) -> None:
    """Have the backup take over, unless it has; whoever asks it next hears whether it did.

    Only for a controller whose node is stopped: of one that nobody reaches, both would start jobs.
    """
    with suppress(EngineError, TimedOut):
        driver.run(backup, ["sh", "-c", _SCRIPT], timeout_s=_BUDGET_S)
