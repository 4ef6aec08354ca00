"""The GPUs of a host, for a run that leases or uses them: simulated ones are announced, never silent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov.gpu.lost import describe_lost

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.machine.base import Host
    from gpuprov.shapes.choices import GpuMode


def get_gpus(host: Host, mode: GpuMode, *, reporter: Reporter) -> HostGpus:
    """A host's GPUs.

    Raises:
        HostNotReady: Mode `real` finds none, or the driver does not work.
        UsageError: GPUPROV_SIMULATED_GPUS is not a number of GPUs.
    """
    gpus = host.gpus(mode)
    if gpus.simulated:
        reporter.warn(f"GPUs are SIMULATED: {gpus.reason}")
    warn_of_lost(gpus, reporter=reporter)
    return gpus


def warn_of_lost(gpus: HostGpus, *, reporter: Reporter) -> None:
    """Say which GPUs of a host cannot be used, if any."""
    if gpus.lost:
        told = describe_lost(gpus.lost, usable=len(gpus.gpus))
        reporter.warn(f"{told}; such GPUs are not leased; look: sudo dmesg | grep -e NVRM -e Xid")


def with_offers(driver: Driver, gpus: HostGpus) -> HostGpus:
    """The same, with the ways in that the engine has beside raw; it is not asked where they are simulated."""
    return gpus if gpus.simulated else replace(gpus, offers=driver.facts().gpu_access)
