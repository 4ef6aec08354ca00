"""Make, repair and start nodes side by side, with the files they need before their first boot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.drivers.base import File
from gpuprov.workflows import services
from gpuprov.workflows.side_by_side import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.core.rollback import Rollback
    from gpuprov.drivers.base import Driver, ImageState
    from gpuprov.workflows.node_design import NodeDesign


def seed_files(*, nameserver: str, public_key: str) -> tuple[File, ...]:
    """What any node needs before it boots: a resolver and the key of the user who may log in."""
    return (
        File(path="/etc/resolv.conf", content=f"nameserver {nameserver}\n".encode()),
        File(path="/root/.ssh/authorized_keys", content=f"{public_key}\n".encode(), mode=0o600),
    )


@dataclass(frozen=True, kw_only=True)
class Run:
    """What the steps of one run share."""

    driver: Driver
    reporter: Reporter
    rollback: Rollback


def create_nodes(
    run: Run,
    designs: Sequence[NodeDesign],
    image: ImageState,
    files: Callable[[NodeDesign], tuple[File, ...]],
    *,
    source: str | None = None,
) -> None:
    """Create and start nodes in parallel; from the image, or as copies of the stopped node `source`.

    Returns or raises only after every sibling has stopped, so that a rollback meets no moving target.
    """
    driver, reporter = run.driver, run.reporter

    def create(design: NodeDesign) -> None:
        run.rollback.add(f"node {design.name}", lambda: driver.delete_node(design.name))
        reporter.node(design.name, "creating")
        request = design.request(image, files(design))
        if source is None:
            driver.create_node(request)
        else:
            driver.clone_node(source, request)
        reporter.node(design.name, "starting")
        driver.start_node(design.name)
        if source is not None:
            services.give_identity(driver, design.name)
        reporter.node(design.name, "started")

    each(create, designs)


def repair_nodes(driver: Driver, designs: Sequence[NodeDesign], *, reporter: Reporter) -> None:
    """Bring devices, mounts and labels of existing nodes to what is asked; a running node goes on running."""

    def repair(design: NodeDesign) -> None:
        reporter.node(design.name, "repairing")
        driver.set_devices(design.name, design.devices, design.mounts)
        driver.set_labels(design.name, design.labels())
        reporter.node(design.name, "repaired")

    each(repair, designs)


def start_nodes(driver: Driver, names: Sequence[str], *, reporter: Reporter) -> None:
    """Start stopped nodes in parallel."""

    def start(name: str) -> None:
        driver.start_node(name)
        reporter.node(name, "started")

    each(start, names)


def delete_nodes(driver: Driver, names: Iterable[str], *, reporter: Reporter) -> None:
    """Remove nodes in parallel."""

    def delete(name: str) -> None:
        reporter.node(name, "removing")
        driver.delete_node(name)
        reporter.node(name, "removed")

    each(delete, list(names))
