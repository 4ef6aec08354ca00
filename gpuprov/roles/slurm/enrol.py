"""Whom and what Slurm's accounting is to know of a cluster: its people and QOS, and that for a backup, too."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpuprov.core.errors import GpuprovError
from gpuprov.core.names import name_cluster
from gpuprov.roles.slurm.associations import ensure_associations, relearn_numbers
from gpuprov.roles.slurm.qos import ensure_qos
from gpuprov.roles.slurm.takeover import keep_for_backup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.shapes.cluster_spec import ClusterSpec


def enrol(driver: Driver, controller: str, spec: ClusterSpec, reporter: Reporter) -> None:
    """Have the accounting know people and QOS, and a backup know them without it; what fails is a warning."""
    again = name_cluster("gpuprov cluster up", spec.name)

    @contextmanager
    def warned() -> Iterator[None]:
        try:
            yield
        except GpuprovError as error:
            reporter.warn(f"{error.what}: {error.evidence}; {error.fix}; then again: {again}")

    changes: list[str] = []
    if spec.people:
        with warned():
            changes += ensure_associations(driver, controller, spec.name, spec.people)
        with warned():
            relearn_numbers(driver, controller, spec.people)
    if spec.slurm.qos:
        with warned():
            changes += ensure_qos(driver, controller, spec)
    if spec.slurm.backup:
        with warned():
            keep_for_backup(driver, controller, changed=bool(changes))
