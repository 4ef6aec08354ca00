"""Bring one node to a state, idempotently: what `create-node`, `start`, `stop` and `rm` do, where it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpuprov.cluster.lease_labels import leased_uuids
from gpuprov.core.errors import NotOurs, UsageError
from gpuprov.core.names import check_node_name
from gpuprov.drivers.base import LABEL_ADDRESS, LABEL_CLUSTER, LABEL_IMAGE, LABEL_ROLE, LABEL_SHARING
from gpuprov.drivers.foreign import not_ours
from gpuprov.gpu.visible_devices import parse_selection
from gpuprov.planes.leaving import SPARE_JOBS
from gpuprov.planes.module_result import BeforeAfter
from gpuprov.planes.rows import node_row
from gpuprov.workflows import remove_nodes, start_stop
from gpuprov.workflows.create_node import create_node, preview_node

if TYPE_CHECKING:
    from gpuprov.cluster.node_order import NodeOrder
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.gpu.models import HostGpus
    from gpuprov.host.base import Host
    from gpuprov.planes.leaving import JobsPolicy

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
        driver: The engine.
        order: The requested node; fields that are None are not compared with an existing node.
        goal: `present` (it runs), `stopped` or `absent`.
        host: The machine; its GPUs are asked for only where the answer counts.
        reporter: Is told of phases.
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
        return create_node(driver, order, host, reporter=reporter, policy=policy).changed
    wrong = list(_label_differences(order, node))
    if order.gpus is not None:
        wrong += _gpu_differences(order.gpus, node, host.gpus(order.gpu_mode))
    if wrong:
        raise UsageError(
            f"the node {order.name} exists, but differs from the request",
            evidence="; ".join(wrong),
            fix=f"gpuprov rm {order.name}  # then create it again, or request what exists: gpuprov show {order.name}",
        )
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
    wanted: dict[str, tuple[str | None, str]] = {
        "address": (order.address and order.address.partition("/")[0], node.labels.get(LABEL_ADDRESS, "")),
        "cluster": (order.cluster, node.labels.get(LABEL_CLUSTER, "")),
        "role": (order.role, node.labels.get(LABEL_ROLE, "")),
        "sharing": (order.sharing, node.labels.get(LABEL_SHARING, "")),
        "image": (order.image, node.labels.get(LABEL_IMAGE, "")),
    }
    wrong = {key: pair for key, pair in wanted.items() if pair[0] not in (None, pair[1])}
    found = [f"{key} is {has or 'none'}, not {asked}" for key, (asked, has) in wrong.items()]
    if order.privileged and not node.privileged:
        found.append("the node is not privileged")
    targets = {mount.target for mount in node.mounts}
    found += [f"nothing is mounted at {mount.target}" for mount in order.mounts if mount.target not in targets]
    return found


def _gpu_differences(text: str, node: NodeState, gpus: HostGpus) -> list[str]:
    asked, held = parse_selection(text, gpus), tuple(map(gpus.current, leased_uuids(node)))
    same = set(held) == {gpu.uuid for gpu in asked.gpus} if asked.gpus else len(held) == asked.count
    return (
        []
        if same
        else [
            f"the node holds {len(held)} GPU{'s' if len(held) != 1 else ''} ({', '.join(held) or 'none'}), not {text}"
        ]
    )
