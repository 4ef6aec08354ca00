"""The role of a node that was ordered by itself, with data alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.state import ClusterState
from gpuprov.core.errors import UsageError
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_FINGERPRINT, LABEL_ROLE, NodeState
from gpuprov.lifecycle.node_plan import decide_role, explain_plain, refuse_unreachable
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec
from tests.fakes.orders import node_order

if TYPE_CHECKING:
    from gpuprov.shapes.node_order import NodeOrder

USUAL = ClusterSpec()
PLAIN = ClusterSpec(nodes=NodesSpec(role="plain"))
NEW = ClusterState(name="lab", recorded=None, settled=None, nodes=(), others=(), networks=())
UP = replace(NEW, recorded=PLAIN)
LABELS = {LABEL_CLUSTER: "lab", LABEL_FINGERPRINT: "1", LABEL_ROLE: "slurm"}
BEGUN = replace(NEW, nodes=(NodeState(name="c000", status="running", labels=LABELS),))


def ordered(name: str, **more: Any) -> NodeOrder:
    return node_order(name, **more)


@pytest.mark.parametrize(
    ("order", "spec", "state", "role"),
    [
        (ordered("c000", role="plain"), USUAL, NEW, "plain"),
        (ordered("c000", role="slurm"), PLAIN, UP, "slurm"),
        (ordered("c000"), PLAIN, UP, "plain"),
        (ordered("c000"), USUAL, NEW, "slurm"),
        (ordered("c005"), USUAL, NEW, "plain"),
        (ordered("web"), USUAL, NEW, "plain"),
        (ordered("c005"), USUAL, BEGUN, "slurm"),
        (ordered("c000", image="mine"), USUAL, NEW, "plain"),
        (ordered("c000", network="private"), USUAL, NEW, "plain"),
        (ordered("c000", network="nat"), USUAL, NEW, "slurm"),
    ],
)
def test_the_role(order: NodeOrder, spec: ClusterSpec, state: ClusterState, role: str) -> None:
    assert decide_role(order, spec, state) == role


@pytest.mark.parametrize(
    ("order", "role", "state", "words"),
    [
        (ordered("c000", image="mine"), "plain", NEW, "c000 is a plain node, without Slurm"),
        (
            ordered("web"),
            "plain",
            NEW,
            "web is a plain node, without Slurm; for nodes with Slurm: gpuprov cluster up -n 4",
        ),
        (ordered("web", role="plain"), "plain", NEW, ""),
        (ordered("c000"), "slurm", NEW, ""),
        (ordered("web"), "plain", UP, ""),
    ],
)
def test_who_gets_a_plain_node_without_asking_for_it_is_told(
    order: NodeOrder, role: str, state: ClusterState, words: str
) -> None:
    assert explain_plain(order, role, state) == words


def test_a_node_of_slurm_needs_the_first_network() -> None:
    private = ordered("c001", network="private")
    refuse_unreachable(private, PLAIN)
    refuse_unreachable(ordered("c001", network="nat"), USUAL)
    with pytest.raises(UsageError, match="cannot be a node of Slurm on the private network only") as refused:
        refuse_unreachable(private, USUAL)
    assert "gpbr0" in refused.value.evidence
