from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Interface, IPv4Network
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.disk import Disk, Usage
from gpuprov.core.errors import HostNotReady
from gpuprov.machine.facts import EngineView, HostFacts
from gpuprov.machine.findings import (
    judge_disk,
    judge_engine,
    judge_engines,
    judge_facts,
    judge_forward,
    judge_isolation,
    judge_kernel_release,
    judge_limit,
    judge_loose_pairs,
    judge_lxcfs,
    judge_node_limits,
    judge_shared,
    judge_subnet,
    judge_subuid,
)
from gpuprov.machine.kernel_limits import LIMITS
from gpuprov.machine.links import Link
from gpuprov.machine.lxcfs import LxcfsMount, is_container
from gpuprov.machine.survey import Survey
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.shapes.engine import EngineCluster, EngineFacts
from gpuprov.shapes.node import NodeLimits

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.choices import Engine
    from gpuprov.shapes.doctor import HostFinding

GIB = 1 << 30
LXD = EngineFacts(
    name="lxd",
    version="5.0.2",
    api="1.0",
    storage="default (btrfs)",
    copy_on_write=True,
    cpus=2,
    memory_bytes=24 * GIB,
    free_bytes=14 * GIB,
)
GOOD = HostFacts(
    kernel="6.1.0-30-amd64",
    cgroup="v2",
    uid=0,
    engine=EngineView(facts=LXD),
    lxcfs=(LxcfsMount(path="/var/lib/lxcfs"),),
    limits={"inotify": 1024, "keys": 2000, "neighbours": 65536, "pids": 4194304, "threads": 65536},
    disk_free_bytes=50 * GIB,
)


SILENT = "{} is installed and does not respond: it is not running"
ON_LXD = "new clusters are created on lxd"


def seen(*answering: str, silent: tuple[str, ...] = (), absent: tuple[str, ...] = ()) -> Survey[str]:
    error = HostNotReady("it is not running", evidence="no socket", fix="start it")
    return Survey(
        answers={name: name for name in answering},
        errors=dict.fromkeys(silent, error),
        absent=dict.fromkeys(absent, error),
    )


@pytest.mark.parametrize(
    ("found", "status", "evidence", "fix"),
    [
        (
            seen("lxd", "docker", absent=("incus",)),
            "ok",
            f"lxd and docker respond; incus is not installed; {ON_LXD}",
            "",
        ),
        (
            seen("incus", absent=("lxd", "docker")),
            "ok",
            "incus responds; lxd and docker are not installed; new clusters are created on incus",
            "",
        ),
        (
            seen("lxd", silent=("incus",), absent=("docker",)),
            "warn",
            f"lxd responds; {SILENT.format('incus')}; docker is not installed; {ON_LXD}",
            "start it",
        ),
        (
            seen(silent=("lxd",), absent=("incus", "docker")),
            "ok",  # the finding `engine` says it
            f"{SILENT.format('lxd')}; incus and docker are not installed; {ON_LXD}",
            "",
        ),
    ],
    ids=["two", "incus alone", "one is silent", "the wanted one is silent"],
)
def test_which_engines_are_there_and_which_is_for_what_is_new(
    found: Survey[str], status: str, evidence: str, fix: str
) -> None:
    finding = judge_engines(found, "lxd")
    assert (finding.status, finding.evidence, finding.fix) == (status, evidence, fix)


def address(interface: str, text: str) -> Link:
    found = IPv4Interface(text)
    return Link(interface=interface, network=found.network, address=found)


def route(interface: str, text: str) -> Link:
    return Link(interface=interface, network=IPv4Network(text))


def subnet(*links: Link, own: tuple[str, ...] = ()) -> HostFinding:
    facts = replace(GOOD, links=links, engine=EngineView(facts=LXD, own_networks=own))
    return judge_subnet(facts, "subnet", "gpbr0", "10.0.3.0/24")


def test_a_good_host() -> None:
    findings = judge_facts(GOOD, ClusterSpec())
    assert {finding.status for finding in findings} == {"ok"}
    assert len({finding.id for finding in findings}) == len(findings)


def test_what_is_not_good_says_what_to_type() -> None:
    bad = HostFacts(
        kernel="4.19.0",
        cgroup="none",
        uid=1000,
        engine=EngineView(
            error=HostNotReady("lxd is not running", evidence="no socket", fix="sudo gpuprov host prepare"),
            own_networks=("gpbr0", "gpbr1"),
            node_limits={"c000": NodeLimits(memory_bytes=GIB)},
        ),
        links=(address("lxcbr0", "10.0.3.1/24"), address("eth1", "10.0.5.9/24")),
        loose_pairs=(("veth11111111", "veth22222222"),),
        lxcfs=(),
        forward_rules=("-P FORWARD DROP",),
        limits={"inotify": 128, "keys": 200, "neighbours": 1024, "pids": 1000, "threads": 1000},
        subuid=("ada:100000:65536",),
        missing_packages=("openssh-client",),
        gpu_error=HostNotReady("NVML does not work", evidence="code 18", fix="reboot"),
    )
    findings = judge_facts(bad, ClusterSpec())
    assert {finding.id for finding in findings if finding.status in {"warn", "fail"}} == {
        "kernel",
        "cgroup",
        "engine",
        "lxcfs",
        "disk-room",
        "programs",
        "subuid",
        "inotify",
        "keys",
        "neighbours",
        "pids",
        "threads",
        "node-limits",
        "subnet",
        "private-subnet",
        "forward",
        "loose-links",
        "nvidia-driver",
    }
    assert all(finding.fix and finding.evidence for finding in findings if finding.status in {"warn", "fail"})


DEAD = "Transport endpoint is not connected"
PREPARE = "sudo gpuprov host prepare --engine {} "


@pytest.mark.parametrize(
    ("engine", "found", "status", "fix"),
    [
        ("lxd", (LxcfsMount(path="/var/lib/lxcfs"),), "ok", ""),
        ("lxd", (LxcfsMount(path="/var/lib/lxcfs", error=DEAD),), "fail", PREPARE.format("lxd")),
        ("incus", (LxcfsMount(path="/var/lib/lxcfs", error=DEAD),), "fail", PREPARE.format("incus")),
        (
            "incus",
            (LxcfsMount(path="/var/lib/incus-lxcfs", error=DEAD),),
            "fail",
            "sudo systemctl restart incus-lxcfs ",
        ),
        ("incus", (), "warn", PREPARE.format("incus")),
        ("lxd", None, "info", ""),
        ("docker", (), "ok", ""),
    ],
)
def test_a_dead_lxcfs_is_named(engine: Engine, found: tuple[LxcfsMount, ...] | None, status: str, fix: str) -> None:
    finding = judge_lxcfs(replace(GOOD, lxcfs=found), engine)
    assert (finding.status, finding.fix.partition("#")[0].rstrip()) == (status, fix.rstrip())
    assert (DEAD in finding.evidence) == (status == "fail")


def test_each_pair_of_a_killed_engine_has_its_command() -> None:
    finding = judge_loose_pairs([("veth11111111", "veth22222222"), ("veth33333333", "veth44444444")])
    assert "veth11111111 and veth22222222, veth33333333 and veth44444444" in finding.evidence
    assert finding.fix == "sudo ip link delete veth11111111 && sudo ip link delete veth33333333"


def test_links_that_cannot_be_listed_are_not_said_to_be_good() -> None:
    finding = judge_loose_pairs(None)
    assert (finding.status, finding.fix) == ("info", "sudo apt install iproute2")


@pytest.mark.parametrize(
    ("release", "status"),
    [("6.1.0-30-amd64", "ok"), ("5.4.0", "ok"), ("5.3.18", "fail"), ("4.19.0", "fail"), ("strange", "ok")],
)
def test_kernel(release: str, status: str) -> None:
    assert judge_kernel_release(release).status == status


@pytest.mark.parametrize(
    ("isolated", "uid", "engine", "status", "fix"),
    [
        ({"gpbr0": True, "gpbr1": True}, 0, "lxd", "ok", ""),
        ({"gpbr0": True, "gpbr1": False}, 0, "docker", "warn", "sudo gpuprov host prepare --engine docker "),
        ({"gpbr0": True, "gpbr1": False}, 0, "incus", "warn", "sudo gpuprov host prepare --engine incus "),
        ({}, 1000, "lxd", "info", "sudo gpuprov doctor"),
        ({}, 0, "lxd", "warn", "sudo apt-get install nftables"),
    ],
)
def test_clusters_that_can_reach_each_other(
    isolated: dict[str, bool], uid: int, engine: Engine, status: str, fix: str
) -> None:
    seen = EngineView(own_networks=("gpbr0", "gpbr1"), isolated=isolated)
    finding = judge_isolation(replace(GOOD, engine=seen, uid=uid), engine)
    assert (finding.status, finding.fix[: len(fix)]) == (status, fix)
    assert judge_isolation(replace(GOOD, engine=EngineView(), uid=uid), engine).status == "ok"


def test_nodes_that_reach_the_host_and_packets_that_were_refused() -> None:
    own = {"gpbr0": True, "gpbr1": True}
    seen = EngineView(own_networks=tuple(own), isolated=own, guarded={**own, "gpbr1": False}, refused={"gpbr0": 3})
    finding = judge_isolation(replace(GOOD, engine=seen), "lxd")
    assert finding.status == "warn"
    assert finding.evidence == "every service of the host can be reached by nodes on gpbr1"
    finding = judge_isolation(replace(GOOD, engine=replace(seen, guarded=own)), "lxd")
    assert (finding.status, finding.fix) == ("ok", "")
    assert finding.evidence.endswith("; packets to the host that were refused: 3 from nodes on gpbr0")


def test_an_engine_that_cannot_be_reached_keeps_its_three_parts() -> None:
    error = HostNotReady("this user has no access to lxd", evidence="group lxd", fix="sudo usermod -aG lxd $USER")
    (finding,) = judge_engine(replace(GOOD, engine=EngineView(error=error)))
    assert (finding.status, finding.fix) == ("fail", error.fix)
    assert finding.evidence == "this user has no access to lxd: group lxd"


def test_an_engine_without_copy_on_write_or_room() -> None:
    poor = changed(LXD, storage="default (dir)", copy_on_write=False, free_bytes=GIB // 2)
    found = {finding.id: finding for finding in judge_engine(replace(GOOD, engine=EngineView(facts=poor)))}
    assert {name: finding.status for name, finding in found.items()} == {
        "engine": "ok",
        "permission": "ok",
        "storage": "warn",
        "storage-room": "fail",
    }
    assert "0.5 GiB" in found["storage-room"].evidence


@pytest.mark.parametrize(
    ("away", "status", "fix"), [((), "ok", ""), (("m2",), "warn", "start the members that are unreachable: m2")]
)
def test_an_engine_that_is_a_member_of_a_cluster(away: tuple[str, ...], status: str, fix: str) -> None:
    cluster = EngineCluster(member="m1", members=("m1", "m2"), away=away)
    engine = changed(LXD, cluster=cluster, copy_on_write=False)
    found = {finding.id: finding for finding in judge_engine(replace(GOOD, engine=EngineView(facts=engine)))}
    assert (found["engine-cluster"].status, found["engine-cluster"].fix) == (status, fix)
    assert "this host is m1 in lxd's cluster of m1, m2" in found["engine-cluster"].evidence
    assert "host prepare" not in found["storage"].fix, "it makes no pools there"
    assert "--target MEMBER" in found["storage"].fix


@pytest.mark.parametrize(("free_bytes", "status"), [(50 * GIB, "ok"), (3 * GIB, "warn"), (GIB // 2, "fail")])
def test_room_on_the_disk(free_bytes: int, status: str) -> None:
    assert judge_disk(free_bytes).status == status


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (None, "ok"),
        (("root:100000:65536",), "ok"),
        (("ada:1:65536", "_lxd:100000:10000001"), "ok"),
        (("root:100000:1000",), "fail"),
        (("ada:100000:65536",), "fail"),
        (("root",), "fail"),
        ((), "fail"),
    ],
)
def test_subordinate_ids(lines: tuple[str, ...] | None, status: str) -> None:
    assert judge_subuid(lines).status == status


@pytest.mark.parametrize("check", LIMITS)
@pytest.mark.parametrize(("present", "status"), [(65536, "ok"), (128, "warn"), (None, "info")])
def test_limits_of_the_kernel(check: str, present: int | None, status: str) -> None:
    finding = judge_limit(replace(GOOD, limits={check: present}), check)
    assert (finding.id, finding.status) == (check, status)
    assert bool(finding.fix) == (status == "warn")


@pytest.mark.parametrize(
    ("processes", "status", "words"),
    [
        (4096, "ok", "8192 processes for 2 nodes together, of 32768 of the host"),
        (20000, "warn", "40000 processes for 2 nodes together, of 32768 of the host"),
        (None, "warn", "no limit of processes and memory: c[000-001]"),
    ],
)
def test_limits_of_nodes(processes: int | None, status: str, words: str) -> None:
    limits = NodeLimits(processes=processes, memory_bytes=GIB)
    engine = EngineView(facts=LXD, node_limits={"c000": limits, "c001": limits})
    finding = judge_node_limits(replace(GOOD, engine=engine, limits={"pids": 32768, "threads": 90000}))
    assert (finding.status, finding.evidence) == (status, words)
    assert bool(finding.fix) == (status == "warn")


@pytest.mark.parametrize(("free", "status"), [(16, "ok"), (14, "warn")])
def test_folders_that_nodes_share(free: int, status: str) -> None:
    disk, usage = Disk(total_bytes=100 * GIB, free_bytes=free * GIB), Usage(largest=(("jobs/7", 3 * GIB, 5),))
    used = Usage(largest=(("37 images", 15 * GIB, 0), ("node c000", 2 * GIB, 0)))
    engine = EngineView(facts=LXD, shared_folders={"/srv/gpuprov/lab": "lab"}, disk=disk, usage=used)
    facts = replace(GOOD, engine=engine, shared_disks={"/srv/gpuprov/lab": (disk, usage)})
    finding = judge_shared(facts)
    assert finding.status == status
    assert "/srv/gpuprov/lab of cluster lab is" in finding.evidence
    assert "jobs/7 3.0 GiB in 5 files" in finding.evidence
    room = {found.id: found for found in judge_engine(facts)}["storage-room"]
    assert room.status == status
    assert room.evidence.endswith("; of that, lxd uses: 37 images 15.0 GiB, node c000 2.0 GiB")


def test_a_subnet_that_nobody_uses_is_free() -> None:
    finding = subnet(address("lo", "127.0.0.1/8"), address("eth0", "192.168.1.5/24"), route("eth0", "192.168.1.0/24"))
    assert (finding.status, finding.evidence) == ("ok", "10.0.3.0/24 is free")


@pytest.mark.parametrize(
    "link",
    [
        address("lxcbr0", "10.0.3.1/24"),
        address("eth0", "10.0.3.77/8"),
        route("eth0", "10.0.3.0/24"),
        route("eth0", "10.0.3.128/25"),
    ],
)
def test_a_subnet_in_use_is_told_and_its_holder_named(link: Link) -> None:
    finding = subnet(address("lo", "127.0.0.1/8"), link)
    assert (finding.status, finding.fix) == ("info", "")
    assert finding.evidence.startswith(f"10.0.3.0/24 overlaps {link.address or link.network} on {link.interface}")
    assert finding.evidence.endswith("; a new cluster gets a free subnet")
    finding = subnet(address("lo", "127.0.0.1/8"), link, own=("gpbr0",))
    assert finding.status == "fail"
    assert "gpuprov cluster down" in finding.fix


@pytest.mark.parametrize("link", [route("tun0", "10.0.0.0/8"), address("eth0", "10.9.9.9/8")])
def test_a_wider_network_is_only_a_warning(link: Link) -> None:
    assert subnet(link).status == "info"
    assert subnet(link, own=("gpbr0",)).status == "warn"


def test_the_worst_clash_is_the_one_shown() -> None:
    finding = subnet(route("tun0", "10.0.0.0/8"), address("lxcbr0", "10.0.3.1/24"), own=("gpbr0",))
    assert (finding.status, "lxcbr0" in finding.evidence) == ("fail", True)


def test_our_own_bridge_is_no_clash_but_a_foreign_one_of_that_name_is() -> None:
    ours = (address("gpbr0", "10.0.3.1/24"), route("gpbr0", "10.0.3.0/24"))
    assert subnet(*ours, own=("gpbr0",)).status == "ok"
    assert subnet(*ours).status == "info"


def test_without_the_ip_command_nothing_is_taken_for_free() -> None:
    assert judge_subnet(replace(GOOD, links=None), "subnet", "gpbr0", "10.0.3.0/24").status == "fail"


def test_docker_s_drop_is_seen_and_its_own_chain_is_used_for_the_cure() -> None:
    docker = ("-P FORWARD DROP", "-A FORWARD -j DOCKER-USER", "-N DOCKER-USER")
    finding = judge_forward(docker, "gpbr0")
    assert finding.status == "warn"
    assert finding.fix == (
        "sudo iptables -I DOCKER-USER -i gpbr0 -j ACCEPT && sudo iptables -I DOCKER-USER -o gpbr0 -j ACCEPT"
    )


def test_drop_with_rules_for_our_bridge_is_good() -> None:
    one = ("-P FORWARD DROP", "-A DOCKER-USER -i gpbr0 -j ACCEPT")
    assert judge_forward(one, "gpbr0").status == "warn"
    both = (*one, "-A DOCKER-USER -o gpbr0 -m comment --comment gpuprov -j ACCEPT")
    assert judge_forward(both, "gpbr0").status == "ok"
    assert judge_forward(both, "gpbr01").status == "warn"


def test_rules_that_only_root_can_read_are_said_to_be_unknown() -> None:
    assert judge_forward(None, "gpbr0").status == "info"
    assert judge_forward((), "gpbr0").status == "ok"


def test_in_a_container_nothing_is_proposed_for_an_lxcfs_that_systemd_does_not_start_there(tmp_path: Path) -> None:
    assert not is_container(tmp_path)
    (tmp_path / "run/systemd").mkdir(parents=True)
    (tmp_path / "run/systemd/container").write_text("lxc\n")
    assert is_container(tmp_path)
    finding = judge_lxcfs(replace(GOOD, lxcfs=(), contained=True), "lxd")
    assert (finding.status, finding.fix) == ("info", "")
    assert judge_lxcfs(replace(GOOD, lxcfs=()), "lxd").status == "warn"
