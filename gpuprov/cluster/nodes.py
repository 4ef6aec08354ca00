"""Make, repair and start nodes side by side, with the files they need before their first boot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuprov.cluster import services
from gpuprov.cluster.build_image import LABEL_MUNGE_OWNER
from gpuprov.core.side_by_side import each
from gpuprov.drivers.base import LABEL_ACCESS_REASON, LABEL_FINGERPRINT, LABEL_IMAGE, File

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.core.reporter import Reporter
    from gpuprov.core.rollback import Rollback
    from gpuprov.drivers.base import Driver, ImageState


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
    labels: Mapping[str, str] | None = None,
    source: str | None = None,
) -> None:
    """Create and start nodes in parallel; from the image, or as copies of the stopped node `source`.

    A copy counts as finished only once it has an identity of its own. `labels` are more labels for each.
    Returns or raises only after every sibling has stopped, so that a rollback meets no moving target.
    """
    driver, reporter = run.driver, run.reporter

    def create(design: NodeDesign) -> None:
        run.rollback.add(f"node {design.name}", lambda: driver.delete_node(design.name))
        if design.access_reason:
            reporter.node(design.name, f"GPU access {design.access}: {design.access_reason}")
        reporter.node(design.name, "creating")
        request = design.request(image.id, files(design), {**_image_labels(image), **_reason(design), **(labels or {})})
        if source is None:
            driver.create_node(request)
        else:
            fingerprint = {LABEL_FINGERPRINT: request.labels[LABEL_FINGERPRINT]}
            unfinished = {key: value for key, value in request.labels.items() if key not in fingerprint}
            driver.clone_node(source, replace(request, labels=unfinished))
        reporter.node(design.name, "starting")
        driver.start_node(design.name)
        if source is not None:
            services.give_identity(driver, design.name)
            driver.set_labels(design.name, fingerprint)
        reporter.node(design.name, "started")

    each(create, designs)


def _image_labels(image: ImageState) -> dict[str, str]:
    """What a node remembers of its image."""
    kept = {key: value for key, value in image.labels.items() if key == LABEL_MUNGE_OWNER}
    return {LABEL_IMAGE: image.name, **kept}


def _reason(design: NodeDesign) -> dict[str, str]:
    return {LABEL_ACCESS_REASON: design.access_reason} if design.access_reason else {}


def repair_nodes(
    driver: Driver,
    designs: Sequence[NodeDesign],
    *,
    settings: Collection[str],
    restart: Collection[str],
    reporter: Reporter,
) -> None:
    """Bring existing nodes to what is asked; a running node goes on running, unless it is one to restart.

    Args:
        driver: Reaches the nodes.
        designs: The designs of nodes that differ; their devices, mounts and labels are set.
        settings: Names of those whose settings differ as well.
        restart: Names of those that start again for their repair.
        reporter: Hears each node's state.
    """

    def repair(design: NodeDesign) -> None:
        reporter.node(design.name, "repairing")
        if design.name in restart:  # first: killed after the repair, nothing would tell that a restart is due
            driver.stop_node(design.name)
        if design.name in settings:
            driver.set_settings(design.name, design.request())
        driver.set_devices(design.name, design.devices, design.mounts)
        driver.set_labels(design.name, {**_reason(design), **design.labels()})
        if design.name in restart:
            driver.start_node(design.name)
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
