"""What jobs get where their order says nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.units import parse_duration_s, parse_size_bytes
from gpuprov.shapes.base import changed

if TYPE_CHECKING:
    from gpuprov.shapes.cluster_spec import JobsSpec
    from gpuprov.shapes.job_order import JobOrder


def fill_order(order: JobOrder, defaults: JobsSpec) -> JobOrder:
    """The order with the cluster's defaults."""
    time_limit_s, memory_bytes = order.time_limit_s, order.memory_bytes
    if time_limit_s is None and defaults.time is not None:
        time_limit_s = parse_duration_s(defaults.time)
    if memory_bytes is None and defaults.memory is not None:
        memory_bytes = parse_size_bytes(defaults.memory)
    return changed(order, time_limit_s=time_limit_s, memory_bytes=memory_bytes)
