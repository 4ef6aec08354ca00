"""`hosts` of a spec, and what belongs to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuprov.core.fingerprint import fingerprint
from gpuprov.lifecycle.engine_state import spec_document
from gpuprov.roles.registry import ROLE_NAMES
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import (
    ClusterSpec,
    HostSpec,
    MountSpec,
    NetworkSpec,
    NodesSpec,
    OverlaySpec,
    PlacementSpec,
    UnreachableSpec,
)
from gpuprov.spec.load import read_draft
from gpuprov.spec.serialize import dump_spec, load_spec_json
from gpuprov.spec.spec_error import SpecError, in_spec
from gpuprov.spec.validate import check_spec, find_problems
from tests.schemas import validate

TEXT = """\
version: gpuprov/v1
nodes: {count: 6}
network: {overlay: {vni: 77, mtu: 1400, encryption: wireguard}}
hosts:
  - name: hoff
    address: 192.0.2.11
    user: root
    port: 2222
    identity_file: ~/.ssh/lab
    proxy_jump: ops@gate.example:2200,inner
    internal_ip: 10.9.0.11
    engine: incus
    nodes: 4
  - {name: hinton, nodes: 2}
placement: {strategy: fixed}
unreachable: {after_s: 60}
"""
TWO = ClusterSpec(hosts=(HostSpec(name="hoff"), HostSpec(name="hinton")))


def test_hosts_are_read() -> None:
    spec = read_draft(TEXT, name="lab.yaml", roles=ROLE_NAMES).spec
    hoff = HostSpec(
        name="hoff", address="192.0.2.11", user="root", port=2222, identity_file="~/.ssh/lab",
        proxy_jump="ops@gate.example:2200,inner", internal_ip="10.9.0.11", engine="incus", nodes=4,
    )  # fmt: skip
    assert spec.hosts == (hoff, HostSpec(name="hinton", nodes=2))
    assert spec.placement == PlacementSpec(strategy="fixed")
    assert spec.unreachable == UnreachableSpec(after_s=60)
    assert spec.network.overlay == OverlaySpec(vni=77, mtu=1400, encryption="wireguard")
    assert [host.ssh_target for host in spec.hosts] == ["192.0.2.11", "hinton"]
    assert (spec.host("hinton"), spec.host("none")) == (spec.hosts[1], None)
    assert load_spec_json(dump_spec(spec), cluster="lab") == spec


def test_every_problem_of_hosts_is_told_with_its_line() -> None:
    text = """\
version: gpuprov/v1
hosts:
  - {name: Hoff, address: -oProxyCommand=x}
  - {name: hinton, prot: 22}
  - {address: elsewhere}
unreachable: {after_s: soon}
"""
    with pytest.raises(SpecError) as caught:
        read_draft(text, name="lab.yaml", roles=ROLE_NAMES)
    assert [in_spec(problem).partition(" (")[0] for problem in caught.value.problems] == [
        "hosts[0].name: line 3: is 'Hoff'",
        "hosts[0].address: line 3: is '-oProxyCommand=x'",
        "hosts[1].prot: line 4: is not known; did you mean port?",
        "hosts[2].name: line 5: is missing",
        "unreachable.after_s: line 6: is 'soon'",
    ]
    text = text.replace("prot: 22", "nodes: 2").replace("{address", "{name: c, address").replace("soon", "1")
    with pytest.raises(SpecError) as caught:
        read_draft(text, name="lab.yaml", roles=ROLE_NAMES)
    assert [(problem.where, problem.line) for problem in caught.value.problems] == [
        ("hosts[0].name", 3),
        ("hosts[0].address", 3),
        ("unreachable.after_s", 6),
    ], "what else is wrong with hosts is told of hosts that have names"


def with_host(**values: Any) -> ClusterSpec:
    return changed(TWO, hosts=(HostSpec(name="hoff"), HostSpec(**{"name": "hinton", **values})))


def fixed(*counts: int | None, total: int = 4) -> ClusterSpec:
    hosts = tuple(HostSpec(name=f"h{number}", nodes=count) for number, count in enumerate(counts))
    return ClusterSpec(hosts=hosts, nodes=NodesSpec(count=total), placement=PlacementSpec(strategy="fixed"))


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        ("hosts[1].name", with_host(name="")),
        ("hosts[1].name", with_host(name="Hinton")),
        ("hosts[1].name", with_host(name="hinton-")),
        ("hosts[1].name", with_host(name="a" * 33)),
        ("hosts[1].name", with_host(name="hoff", address="other")),
        ("hosts[1].address", with_host(address="-oProxyCommand=true")),
        ("hosts[1].address", with_host(address="root@hinton")),
        ("hosts[1].address", with_host(address="")),
        ("hosts[1].address", with_host(address="a b")),
        ("hosts[1].address", with_host(address="hoff")),
        ("hosts[1].user", with_host(user="-l")),
        ("hosts[1].port", with_host(port=0)),
        ("hosts[1].port", with_host(port=65536)),
        ("hosts[1].identity_file", with_host(identity_file="-i")),
        ("hosts[1].identity_file", with_host(identity_file="a\nb")),
        ("hosts[1].proxy_jump", with_host(proxy_jump="-oProxyCommand=true")),
        ("hosts[1].proxy_jump", with_host(proxy_jump="gate,-x")),
        ("hosts[1].proxy_jump", with_host(proxy_jump="")),
        ("hosts[1].internal_ip", with_host(internal_ip="hinton")),
        ("hosts[1].internal_ip", with_host(internal_ip="10.0.3.9")),
        ("hosts[1].internal_ip", with_host(internal_ip="10.0.5.9")),
        ("hosts[1].nodes", with_host(nodes=2)),
        ("hosts[1].nodes", fixed(4, None)),
        ("hosts[1].nodes", fixed(5, -1)),
        ("nodes.count", fixed(2, 1)),
        ("network.overlay.vni", changed(TWO, network=NetworkSpec(overlay=OverlaySpec(vni=2**24)))),
        ("network.overlay.port", changed(TWO, network=NetworkSpec(overlay=OverlaySpec(port=0)))),
        ("network.overlay.mtu", changed(TWO, network=NetworkSpec(overlay=OverlaySpec(mtu=576)))),
        (
            "network.overlay.encryption",
            changed(TWO, network=NetworkSpec(overlay=OverlaySpec(type="none", encryption="wireguard"))),
        ),
        ("network.overlay", ClusterSpec(network=NetworkSpec(overlay=OverlaySpec(vni=5)))),
        ("placement", ClusterSpec(placement=PlacementSpec(strategy="pack"))),
        ("unreachable", ClusterSpec(unreachable=UnreachableSpec(after_s=60))),
        ("unreachable.after_s", changed(TWO, unreachable=UnreachableSpec(after_s=4))),
    ],
)
def test_what_cannot_be_of_hosts_is_refused_under_its_path(path: str, spec: ClusterSpec) -> None:
    found = find_problems(spec, roles=ROLE_NAMES)
    assert [problem.where for problem in found] == [path]
    assert all(problem.allowed for problem in found)


@pytest.mark.parametrize(
    "spec",
    [
        TWO,
        fixed(3, 1),
        fixed(4, 0),
        with_host(address="fe80::1%eth0"),
        with_host(address="2001:db8::7", user="Ops.Team", identity_file="/home/me/my key"),
        with_host(internal_ip="10.9.0.12", engine="docker"),
        changed(TWO, nodes=NodesSpec(mounts=(MountSpec(source="/only/there", target="/data"),))),
    ],
)
def test_what_can_be_of_hosts_passes(spec: ClusterSpec) -> None:
    check_spec(spec, roles=ROLE_NAMES)


RECORDED = (Path(__file__).parent / "data" / "spec_without_hosts.json").read_text().strip()


def test_a_cluster_without_hosts_is_recorded_as_before() -> None:
    """The data was written by gpuprov before it knew hosts."""
    spec = ClusterSpec()
    assert dump_spec(spec) == RECORDED
    assert load_spec_json(RECORDED, cluster="lab") == spec
    assert "overlay" not in json.dumps(spec_document("lab", spec, host="here"))
    assert {"hosts", "placement", "unreachable"} <= set(json.loads(dump_spec(TWO)))
    for one in (spec, TWO, read_draft(TEXT, name="lab.yaml", roles=ROLE_NAMES).spec):
        assert validate(json.loads(json.dumps(spec_document("lab", one, host="here")))) == "gpuprov.cluster-spec/v1"


def test_a_host_changes_what_is_recorded() -> None:
    assert fingerprint(json.loads(dump_spec(TWO))) != fingerprint(json.loads(dump_spec(ClusterSpec())))
