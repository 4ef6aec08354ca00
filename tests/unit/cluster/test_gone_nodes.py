"""Only clusters that may have had a node are looked at for one that is not there."""

from __future__ import annotations

from gpuprov.cluster.replacements import dump_replacements
from gpuprov.cluster.state import EngineState
from gpuprov.cluster.whole import dump_whole
from gpuprov.drivers.base import LABEL_BEGUN, LABEL_CLUSTER, LABEL_MEMBERS, LABEL_REPLACED, LABEL_SPEC
from gpuprov.drivers.networks import NetworkState
from gpuprov.lifecycle.remove_nodes import clusters_of_gone
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec
from gpuprov.shapes.records import Replacement
from gpuprov.shapes.whole import Member, WholeCluster
from gpuprov.spec.serialize import dump_spec

WEB = Member(name="web", address="", private_address="10.0.5.9", role="plain", host="hinton")
NETWORKS = [
    NetworkState(name=f"gpbr{number}", managed=True, labels={LABEL_CLUSTER: cluster, **labels})
    for number, (cluster, labels) in enumerate(
        {
            "lab": {LABEL_SPEC: dump_spec(ClusterSpec(name="lab"))},
            "dogs": {LABEL_BEGUN: dump_spec(ClusterSpec(name="dogs", nodes=NodesSpec(prefix="dog-")))},
            "wide": {LABEL_MEMBERS: dump_whole(WholeCluster(members=(WEB,)))},
            "renewed": {LABEL_REPLACED: dump_replacements({"old": Replacement(name="old", id="1", labels={})})},
            "odd": {LABEL_SPEC: "no spec", LABEL_MEMBERS: "[", LABEL_REPLACED: "{"},
        }.items()
    )
]


def test_names_tell_the_clusters_that_may_have_had_them() -> None:
    engine = EngineState(nodes=(), networks=tuple(NETWORKS))
    names = ("c007", "dog-001", "web", "old", "nobody", "c7")
    found = {name: clusters for name in names if (clusters := clusters_of_gone(engine, [name]))}
    assert found == {"c007": {"lab"}, "dog-001": {"dogs"}, "web": {"wide"}, "old": {"renewed"}}
    assert clusters_of_gone(engine, []) == set()
