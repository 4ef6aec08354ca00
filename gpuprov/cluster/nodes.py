"""Make, repair and start nodes side by side, with the files they need before their first boot."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpuprov.cluster import services
from gpuprov.cluster.files import seed_files
from gpuprov.cluster.order_label import renew_text
from gpuprov.cluster.secrets import ensure_ssh_key, undo_new_keys
from gpuprov.core.side_by_side import each
from gpuprov.drivers.base import LABEL_FINGERPRINT, LABEL_IMAGE, LABEL_ORDER, LABEL_PEOPLE, LABEL_RECIPE, File
from gpuprov.shapes.engine import ImageState
from gpuprov.spec.addressing import gateway
from gpuprov.spec.sssd import LABEL_SSSD

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.core.reporter import Reporter
    from gpuprov.core.rollback import Rollback
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.records import Replacement


@dataclass(frozen=True, kw_only=True)
class NodeRun:
    """What the steps of one run share.

    Attributes:
        replaced: The nodes that new ones replace, which get their orders and exposed ports. Such a node is not undone:
            the old one is gone, and what the new one begins with may be in no other place.
    """

    driver: Driver
    reporter: Reporter
    rollback: Rollback
    replaced: Mapping[str, Replacement] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Copied:
    """What a node is a copy of.

    Attributes:
        source: Name of the stopped node.
        forget: Shell lines by which the copy gives up its source's part in a role.
    """

    source: str
    forget: str


def ensure_seed(run: NodeRun, spec: ClusterSpec) -> tuple[File, ...]:
    """What new nodes need before they boot; ssh keys are made if need be, and new ones are undone on failure."""
    undo_new_keys(spec.name, run.rollback)
    nameserver = run.driver.nameserver or str(gateway(spec.network).ip)
    return seed_files(nameserver=nameserver, public_key=ensure_ssh_key(spec.name))


def create_nodes(
    run: NodeRun,
    designs: Sequence[NodeDesign],
    image: ImageState,
    files: Mapping[str, tuple[File, ...]],
    *,
    labels: Mapping[str, str],
    copied: Copied | None = None,
) -> None:
    """Create and start nodes in parallel; from the image, or as copies of a stopped node.

    A copy counts as finished only once it has an identity of its own.
    Returns or raises only after every sibling has stopped, so that a rollback meets no moving target.

    Args:
        run: What the steps of this run share.
        image: What they are made from.
        files: What each holds before its first boot, by name.
        labels: More labels for each, such as those that a node keeps of its image.
        copied: What they are copies of, instead of the image.
    """
    driver, reporter = run.driver, run.reporter

    def create(design: NodeDesign) -> None:
        old = run.replaced.get(design.name)
        if old is None:
            run.rollback.add(f"node {design.name}", lambda: driver.delete_node(design.name))
        if design.access_reason:
            reporter.node(design.name, f"GPU access {design.access}: {design.access_reason}")
        reporter.node(design.name, "creating")
        order = {LABEL_ORDER: renew_text(old.labels[LABEL_ORDER])} if old and LABEL_ORDER in old.labels else {}
        request = design.request(image.id, files[design.name], {**design.circumstances(), **labels, **order})
        if copied is None:
            driver.create_node(request)
        else:
            fingerprint = {LABEL_FINGERPRINT: request.labels[LABEL_FINGERPRINT]}
            unfinished = {key: value for key, value in request.labels.items() if key not in fingerprint}
            driver.clone_node(copied.source, replace(request, labels=unfinished))
        for exposure in old.exposed if old else ():
            driver.expose(design.name, exposure)
        reporter.node(design.name, "starting")
        driver.start_node(design.name)
        if copied is not None:
            services.give_identity(driver, design.name, forget=copied.forget)
            driver.set_labels(design.name, fingerprint)
        reporter.node(design.name, "started")

    each(create, designs)


def image_labels(image: ImageState, kept: Iterable[str]) -> dict[str, str]:
    """What a node remembers of its image: name, recipe, people, and those labels of it that the node's role reads."""
    kept = (LABEL_RECIPE, LABEL_PEOPLE, LABEL_SSSD, *kept)
    return {LABEL_IMAGE: image.name, **{key: image.labels[key] for key in kept if key in image.labels}}


def image_of(node: NodeState) -> ImageState:
    """What a node remembers of its image, as an image: a copy of its disk is made from that."""
    return ImageState(id="", name=node.labels.get(LABEL_IMAGE, ""), labels=node.labels)


def repair_nodes(
    driver: Driver,
    designs: Sequence[NodeDesign],
    *,
    settings: Collection[str],
    restart: Collection[str],
    reporter: Reporter,
) -> dict[str, str]:
    """Bring existing nodes to what is asked; a running node goes on running, unless it is one to restart.

    Returns what was forced, by node.

    Args:
        designs: The designs of nodes that differ; their devices, mounts and labels are set.
        settings: Names of those whose settings differ as well.
        restart: Names of those that start again for their repair.
        reporter: Hears each node's state.
    """
    wanted = {design.name: design for design in designs}

    def repair(name: str) -> str:
        design, forced = wanted[name], ""
        reporter.node(design.name, "repairing")
        if design.name in restart:  # first: killed after the repair, nothing would tell that a restart is due
            forced = driver.stop_node(design.name)
        if design.name in settings:
            driver.set_settings(design.name, design.request())
        driver.set_devices(design.name, design.devices, design.mounts)
        told = replace(design, host_gpus=0).circumstances()  # the host may have lost a GPU since it was made
        driver.set_labels(design.name, {**told, **design.labels()})
        if design.name in restart:
            driver.start_node(design.name)
        reporter.node(design.name, "repaired")
        return forced

    return _forced(repair, list(wanted))


def renew_orders(driver: Driver, nodes: Iterable[NodeState]) -> None:
    """Write the orders of nodes as this version does, where another has written them; nothing else notices."""
    for node in nodes:
        text = node.labels.get(LABEL_ORDER, "")
        renewed = renew_text(text)
        if renewed != text:
            driver.set_labels(node.name, {LABEL_ORDER: renewed})


def boot_nodes(driver: Driver, names: Sequence[str], *, reporter: Reporter) -> None:
    """Start stopped nodes in parallel."""

    def start(name: str) -> None:
        driver.start_node(name)
        reporter.node(name, "started")

    each(start, names)


def delete_nodes(driver: Driver, names: Iterable[str], *, reporter: Reporter) -> dict[str, str]:
    """Remove nodes in parallel; returns what was forced, by node."""

    def delete(name: str) -> str:
        reporter.node(name, "removing")
        forced = driver.delete_node(name)
        reporter.node(name, "removed")
        return forced

    return _forced(delete, list(names))


def halt_nodes(driver: Driver, names: Iterable[str]) -> dict[str, str]:
    """Stop nodes in parallel; returns what was forced, by node."""
    return _forced(driver.stop_node, list(names))


def _forced(act: Callable[[str], str], names: Sequence[str]) -> dict[str, str]:
    words: dict[str, str] = {}

    def note(name: str) -> None:
        words[name] = act(name)

    each(note, names)
    return {name: words[name] for name in names if words.get(name)}
