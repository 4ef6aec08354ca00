"""What `submit` is asked for: a command or a function of a project, how often, and with what."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA: Final = "gpuprov.job-order/v1"
NUMBER: Final = "{n}"  # is the number of the run, where there is a count


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

    def document(self, project: str | None) -> dict[str, Any]:
        """The order as `gpuwork.jobs` reads it, about a project at a path."""
        return {"schema": SCHEMA, "version": 1, **asdict(self), "command": list(self.command), "project": project}
