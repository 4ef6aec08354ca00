"""What a spec file takes away from a cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuprov.cluster.shrinking import Shrinking, foresee_shrinking
from gpuprov.cluster.state import ClusterState
from gpuprov.core.errors import UsageError
from gpuprov.drivers.base import LABEL_FINGERPRINT, LABEL_ORDER, NodeState
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec
from gpuprov.shapes.node import Mount
from gpuprov.spec.draft import CHOOSABLE, Draft


def node(name: str, *, ordered: bool = False, complete: bool = True) -> NodeState:
    labels = {LABEL_ORDER: "{}"} if ordered else {}
    return NodeState(name=name, status="running", labels={**labels, LABEL_FINGERPRINT: "f"} if complete else labels)


LAB = ClusterSpec(nodes=NodesSpec(count=4, prefix="gpu"), share=True)
NODES = (*(node(f"gpu00{number}") for number in range(4)), node("web", ordered=True), node("gpu007", ordered=True))
STATE = ClusterState(
    name="lab", recorded=LAB, settled=LAB, nodes=(*NODES, node("gpu009", complete=False)), others=(), networks=()
)


def of_file(count: int, *said: str, share: bool | str = False) -> Draft:
    """A file that says so many nodes, and what else is `said`."""
    return Draft(spec=ClusterSpec(nodes=NodesSpec(count=count), share=share), left=CHOOSABLE - {*said})


def test_nodes_beyond_the_count_are_lost_but_none_of_create_node_nor_half_made_ones() -> None:
    lost = foresee_shrinking(of_file(2), STATE)
    assert lost == Shrinking(nodes=("gpu002", "gpu003"))
    assert lost.lines == ("2 nodes with all data on their disks: gpu[002-003]",)
    assert foresee_shrinking(of_file(3), STATE).lines == ("1 node with all data on its disk: gpu003",)
    assert foresee_shrinking(of_file(8), STATE).lines == ()


def test_a_folder_is_lost_where_the_file_says_so_and_not_where_it_says_nothing() -> None:
    assert foresee_shrinking(of_file(4), STATE) == Shrinking()
    for share in (False, "/data/lab"):
        lost = foresee_shrinking(of_file(4, "share", share=share), STATE)
        assert lost == Shrinking(folder="/srv/gpuprov/lab")
        assert lost.lines == ("/shared of the nodes: /srv/gpuprov/lab, which stays on the host",)
    assert foresee_shrinking(of_file(4, "share", share=True), STATE) == Shrinking()
    assert foresee_shrinking(of_file(4, "share"), replace(STATE, nodes=())) == Shrinking()


def test_a_spec_that_cannot_be_read_is_no_folder_that_is_lost() -> None:
    damaged = replace(
        STATE, recorded=None, nodes=(changed(NODES[0], mounts=(Mount(source="/srv/x", target="/shared"),)),)
    )
    assert damaged.shared_folder == "/srv/x"
    assert foresee_shrinking(of_file(4), damaged) == Shrinking()


def test_options_of_a_later_version_are_lost() -> None:
    later = changed(NODES[4], labels={**NODES[4].labels, LABEL_ORDER: '{"cluster":"lab","name":"web","racks":2}'})
    lost = foresee_shrinking(of_file(4), replace(STATE, nodes=(*NODES[:4], later)))
    assert lost.lines == ("web: unknown options (racks)",)


def test_a_new_cluster_loses_nothing() -> None:
    assert (
        foresee_shrinking(
            of_file(1, "share"), ClusterState(name="lab", recorded=None, settled=None, nodes=(), others=(), networks=())
        )
        == Shrinking()
    )


def test_what_nobody_was_told_of_stays() -> None:
    Shrinking(nodes=("c002", "c003")).refuse_others(["c003"], [])
    with pytest.raises(UsageError) as refused:
        Shrinking(nodes=("c003",)).refuse_others(["c002", "c003", "c004"], [])
    assert refused.value.what == "c[002,004] would be removed as well"
    Shrinking(unread={"web": "unknown options (racks)"}).refuse_others([], ["web"])
    with pytest.raises(UsageError, match="web would lose options as well"):
        Shrinking().refuse_others([], ["web"])
