"""The host's GPUs as this user asks for them: GPUPROV_SIMULATED_GPUS says how many, where they are simulated."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError

if TYPE_CHECKING:
    from gpuprov.gpu.models import HostGpus
    from gpuprov.spec.models import GpuMode

SIMULATED_COUNT = 4
COUNT_VARIABLE = "GPUPROV_SIMULATED_GPUS"


def observe_gpus(mode: GpuMode) -> HostGpus:
    """Find the GPUs of this host.

    Raises:
        HostNotReady: Mode `real` finds none, or the driver does not work.
        UsageError: GPUPROV_SIMULATED_GPUS is no number of GPUs.
    """
    from gpuprov.gpu.inventory import observe

    return observe(mode=mode, simulated_count=_simulated_count())


def _simulated_count() -> int:
    text = os.environ.get(COUNT_VARIABLE, "")
    if not text:
        return SIMULATED_COUNT
    if not text.isdecimal():
        raise UsageError(
            f"{COUNT_VARIABLE}={text!r} is not a number of GPUs",
            evidence="allowed: a whole number",
            fix=f"unset {COUNT_VARIABLE}",
        )
    return int(text)
