"""A simulated host for tests of the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.gpu.observe import observe
from tests.fakes.places import NOWHERE

if TYPE_CHECKING:
    from gpuprov.gpu.models import HostGpus


def simulated_host(count: int) -> HostGpus:
    """With so many GPUs."""
    return observe(root=NOWHERE, mode="simulated", simulated_count=count)
