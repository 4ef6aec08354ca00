"""The part of a Driver that is about jobs, of an engine that has no such thing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.drivers.capabilities import require_capability

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from gpuprov.drivers.base import Driver, JobState, NodeRequest, Stream
    from gpuprov.drivers.job_times import JobTimes


class HasNoJobs:
    """It starts the init of an image and nothing else."""

    def run_job(
        self: Driver,
        request: NodeRequest,  # noqa: ARG002
        argv: Sequence[str],  # noqa: ARG002
        *,
        started: Callable[[], object],  # noqa: ARG002
        write: Callable[[Stream, bytes], object],  # noqa: ARG002
    ) -> int:
        """Refused."""
        require_capability(self, "jobs")
        raise AssertionError  # pragma: no cover - it has not got it

    def begin_job(self: Driver, request: NodeRequest, argv: Sequence[str]) -> None:  # noqa: ARG002
        """Refused."""
        require_capability(self, "jobs")

    def hold_job(self: Driver, request: NodeRequest, argv: Sequence[str]) -> list[str]:  # noqa: ARG002
        """Refused."""
        require_capability(self, "jobs")
        raise AssertionError  # pragma: no cover - it has not got it

    def list_jobs(self) -> list[JobState]:
        """None."""
        return []

    def read_job_times(self, names: Collection[str] | None = None) -> list[JobTimes]:  # noqa: ARG002
        """None."""
        return []

    def read_job_log(
        self: Driver,
        name: str,  # noqa: ARG002
        *,
        follow: bool,  # noqa: ARG002
        tail: int | None,  # noqa: ARG002
        write: Callable[[Stream, bytes], object],  # noqa: ARG002
    ) -> None:
        """Refused."""
        require_capability(self, "jobs")
