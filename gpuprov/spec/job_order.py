"""What `submit` is asked for: a command or a function of a project, how often, and with what."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.units import HOUR_S, MIB, parse_duration_s, parse_size_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.spec.models import JobsSpec

SCHEMA: Final = "gpuprov.job-order/v1"
NUMBER: Final = "{n}"  # is the number of the run, where there is a count
LONGEST_S: Final = 365 * 24 * HOUR_S  # as `gpuwork.jobs` has it, and what follows
LEAST_BYTES: Final = MIB
MOST_BYTES: Final = 1024**5


@dataclass(frozen=True, kw_only=True)
class SubmitOrder:
    """What is to be run, not checked yet (host/order_check.py); `gpuwork.jobs` describes and judges it.

    Attributes:
        command: Its words; empty for a function.
        function: `MODULE:FUNCTION` of the project.
        arguments: Of the function, by name.
        name: As the user calls it.
        count: How many runs; None for one without a number.
        at_most: How many of them at once.
        time_limit_s: After which a try is ended.
        memory_bytes: For a run.
        gpus: For a run.
        retries: How many more tries a run that fails gets.
    """

    command: tuple[str, ...] = ()
    function: str | None = None
    arguments: Mapping[str, object] = field(default_factory=dict)
    name: str | None = None
    count: int | None = None
    at_most: int | None = None
    time_limit_s: int | None = None
    memory_bytes: int | None = None
    gpus: int = 1
    retries: int = 0

    @property
    def numbered(self) -> bool:
        """Whether the number of the run is asked for anywhere."""
        return any(NUMBER in text for text in (*self.command, *self.arguments.values()) if isinstance(text, str))

    def filled(self, defaults: JobsSpec) -> SubmitOrder:
        """The order with the cluster's defaults where it says nothing."""
        time_limit_s, memory_bytes = self.time_limit_s, self.memory_bytes
        if time_limit_s is None and defaults.time is not None:
            time_limit_s = parse_duration_s(defaults.time)
        if memory_bytes is None and defaults.memory is not None:
            memory_bytes = parse_size_bytes(defaults.memory)
        return replace(self, time_limit_s=time_limit_s, memory_bytes=memory_bytes)

    def document(self, project: str | None) -> dict[str, Any]:
        """The order as `gpuwork.jobs` reads it, about a project at a path."""
        return {"schema": SCHEMA, "version": 1, **asdict(self), "command": list(self.command), "project": project}
