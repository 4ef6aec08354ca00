"""Bring a node or an image to a state, idempotently: for Ansible, by the stories that do so for a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpuprov.cluster.build_image import find_built
from gpuprov.cluster.built_images import match_images
from gpuprov.cluster.held_gpus import leased_uuids
from gpuprov.core.errors import NotOurs, UsageError
from gpuprov.core.names import check_node_name
from gpuprov.drivers.base import LABEL_ADDRESS, LABEL_CLUSTER, LABEL_IMAGE, LABEL_ROLE, LABEL_SHARING
from gpuprov.drivers.foreign import not_ours
from gpuprov.gpu.order import describe_unfit
from gpuprov.gpu.visible_devices import parse_selection
from gpuprov.lifecycle import remove_nodes, standalone_image, start_stop
from gpuprov.lifecycle.before_after import BeforeAfter
from gpuprov.lifecycle.create_node import create_node, preview_node
from gpuprov.lifecycle.leaving import SPARE_JOBS
from gpuprov.lifecycle.rows import node_row
from gpuprov.roles.registry import check_spec, role_recipe
from gpuprov.shapes.base import changed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.gpu.models import HostGpus
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.machine.base import Host
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.gpu_order import GpuOrder
    from gpuprov.shapes.node_order import NodeOrder

NodeGoal = Literal["present", "stopped", "absent"]


def ensure_node(  # noqa: PLR0913 - what a module is given, and whom it tells
    driver: Driver,
    order: NodeOrder,
    goal: NodeGoal,
    host: Host,
    *,
    reporter: Reporter,
    check: bool = False,
    policy: JobsPolicy = SPARE_JOBS,
) -> BeforeAfter:
    """Bring a node to its goal.

    Args:
        order: The requested node; fields that are None are not compared with an existing node.
        goal: `present` (it runs), `stopped` or `absent`.
        host: The machine; its GPUs are asked for only where the answer counts.
        check: Say what would change, and change nothing.
        policy: What becomes of jobs on the node.

    Raises:
        NotOurs: The name is taken by something foreign.
        UsageError: The node is there and is not as ordered, or cannot be made as ordered.
    """
    check_node_name(order.name)
    node = _find(driver, order.name)
    before = (node_row(node, "", engine=driver.name),) if node else ()
    if goal == "absent":
        changed = _remove(driver, node, host, reporter, check=check, policy=policy)
    else:
        changed = _provide(driver, node, order, host, reporter, check=check, policy=policy)
        changed += _run_or_stop(driver, node, order, goal, host, reporter, check=check, policy=policy)
    if check or not changed:
        return BeforeAfter(changed=changed, before=before, after=before)
    found = driver.find_node(order.name)
    return BeforeAfter(
        changed=changed, before=before, after=(node_row(found, "", engine=driver.name),) if found else ()
    )


def _find(driver: Driver, name: str) -> NodeState | None:
    node = driver.find_node(name)
    if node is not None and not node.ours:
        if node.copy_of is not None:
            raise not_ours(node, driver.command, lack="")
        raise NotOurs(
            f"{name} was not created by gpuprov and is not changed",
            evidence=f"{driver.name} has an instance {name}, {node.status}, without a gpuprov label",
            fix="choose another name; the names in use: gpuprov list --all",
        )
    return node


def _remove(
    driver: Driver, node: NodeState | None, host: Host, reporter: Reporter, *, check: bool, policy: JobsPolicy
) -> tuple[str, ...]:
    if node is None:
        return ()
    if check:
        return (f"removed {node.name}",)
    return remove_nodes.remove_nodes(driver, [node.name], host, reporter=reporter, policy=policy).changed


def _provide(  # noqa: PLR0913 - a step of the story above, with all that it knows
    driver: Driver,
    node: NodeState | None,
    order: NodeOrder,
    host: Host,
    reporter: Reporter,
    *,
    check: bool,
    policy: JobsPolicy,
) -> tuple[str, ...]:
    """Make the node if it is not there, or only half made; a whole one must be as ordered."""
    if node is None or not node.complete:
        if check:
            return (preview_node(driver, order, host, reporter=reporter, policy=policy),)
        order = changed(order, new_cluster=True)  # a play is written on purpose
        return create_node(driver, order, host, reporter=reporter, policy=policy).changed
    wrong = _label_differences(order, node)
    if asks_for_gpus(order):
        wrong += gpu_differences(order.gpus, leased_uuids(node), host.gpus(order.gpu_mode))
    refuse_differences(order.name, wrong)
    return ()


def _run_or_stop(  # noqa: PLR0913 - a step of the story above, with all that it knows
    driver: Driver,
    node: NodeState | None,
    order: NodeOrder,
    goal: NodeGoal,
    host: Host,
    reporter: Reporter,
    *,
    check: bool,
    policy: JobsPolicy,
) -> tuple[str, ...]:
    name = order.name
    made = node is None or not node.complete  # a new node runs
    if goal == "stopped" and (made or (node and node.status != "stopped")):
        if check:
            return (f"stopped {name}",)
        return start_stop.stop_nodes(driver, [name], host, reporter=reporter, policy=policy).changed
    if goal == "present" and not made and node and node.status != "running":
        return (
            (f"started {name}",) if check else start_stop.start_nodes(driver, [name], host, reporter=reporter).changed
        )
    return ()


def _label_differences(order: NodeOrder, node: NodeState) -> list[str]:
    labels = {
        "address": LABEL_ADDRESS,
        "cluster": LABEL_CLUSTER,
        "role": LABEL_ROLE,
        "sharing": LABEL_SHARING,
        "image": LABEL_IMAGE,
    }
    found = word_differences(order, {key: node.labels.get(label, "") for key, label in labels.items()})
    if order.privileged and not node.privileged:
        found.append("the node is not privileged")
    targets = {mount.target for mount in node.mounts}
    found += [f"nothing is mounted at {mount.target}" for mount in order.mounts if mount.target not in targets]
    return found


def word_differences(order: NodeOrder, has: Mapping[str, str]) -> list[str]:
    """In what a node differs from an order, of the fields that it `has`; those of which the order says nothing do not.

    Args:
        order: The requested node.
        has: The address, cluster, role, sharing and image of the existing one, or some of these.
    """
    address = order.address and order.address.partition("/")[0]
    wanted = {
        "address": address,
        "cluster": order.cluster,
        "role": order.role,
        "sharing": order.gpus.sharing,
        "image": order.image,
    }
    return [
        f"{key} is {word or 'none'}, not {wanted[key]}" for key, word in has.items() if wanted[key] not in (None, word)
    ]


def refuse_differences(name: str, wrong: Sequence[str]) -> None:
    """Refuse a node that is there and is not as ordered.

    Raises:
        UsageError: In these points it is not.
    """
    if wrong:
        raise UsageError(
            f"the node {name} exists, but differs from the request",
            evidence="; ".join(wrong),
            fix=f"gpuprov rm {name}  # then create it again, or request what exists: gpuprov show {name}",
        )


def asks_for_gpus(order: NodeOrder) -> bool:
    """Whether it says anything of the GPUs themselves, to be compared with those that a node holds."""
    return order.gpus.per_node is not None or bool(order.gpus.criteria)


def gpu_differences(order: GpuOrder, uuids: Sequence[str], gpus: HostGpus) -> list[str]:
    """In what the GPUs of a node, as its lease names them, differ from those that are ordered of a host's."""
    held = tuple(map(gpus.current, uuids))
    unfit = describe_unfit(order, [unit for unit in gpus.units if unit.uuid in held])
    if order.per_node is None:
        return unfit
    asked = parse_selection(str(order.per_node), gpus)
    if set(held) == {gpu.uuid for gpu in asked.gpus} if asked.gpus else len(held) == asked.count:
        return unfit
    many = f"{len(held)} GPU{'s' if len(held) != 1 else ''}"
    return [f"the node holds {many} ({', '.join(held) or 'none'}), not {order.per_node}", *unfit]


def ensure_image_built(
    driver: Driver, spec: ClusterSpec, host: Host, gpus: HostGpus, *, reporter: Reporter, check: bool = False
) -> tuple[str | None, tuple[str, ...]]:
    """The name of the image for the spec's role, None where it would have to be built first, and the changes.

    Raises:
        GpuprovError: Something refused or failed; nothing is left of the attempt.
    """
    if check:
        check_spec(spec)
        found = find_built(driver, role_recipe(driver, spec, spec.nodes.role, gpus))
        return (found.name, ()) if found else (None, (f"built an image for {spec.nodes.role} nodes",))
    ensured = standalone_image.build_image(driver, spec, host, gpus, reporter=reporter)
    return ensured.image.name, (f"built image {ensured.image.name}",) if ensured.built else ()


def ensure_image_absent(
    driver: Driver, name: str, host: Host, *, reporter: Reporter, check: bool = False
) -> tuple[str, ...]:
    """Remove an image, if it is there; returns the changes.

    Raises:
        EngineError: More than one image begins so.
    """
    found = match_images(driver, name)
    if not found:
        return ()
    if check and len(found) == 1:
        return (f"removed image {found[0].name}",)
    return standalone_image.remove_image(driver, name, host, reporter=reporter).changed
