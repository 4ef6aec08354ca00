"""Judge the host's facts: what is good, what is missing, and what to type about it. Pure functions."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from gpuprov.core.advisories import find_holes, load_advisories
from gpuprov.core.catalogue import find_fix
from gpuprov.core.disk import NEARLY_FULL, ROOM_FOR_IMAGE_BYTES
from gpuprov.core.names import fold
from gpuprov.core.requirements import least_kernel, older
from gpuprov.core.units import GIB
from gpuprov.drivers.forward_words import DOCKERS, is_dropped
from gpuprov.machine.gpu_findings import judge_host_gpus
from gpuprov.machine.kernel_limits import LIMITS, compare_processes
from gpuprov.shapes.base import changed
from gpuprov.shapes.doctor import HostFinding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpuprov.core.advisories import Hole, Installed
    from gpuprov.machine.facts import HostFacts
    from gpuprov.machine.links import Link
    from gpuprov.machine.survey import Survey
    from gpuprov.shapes.choices import Engine
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.doctor import FindingStatus
    from gpuprov.shapes.engine import EngineCluster

ROOM_LEAST_BYTES = 1 * GIB
SUBUID_LEAST = 65536


def judge_facts(facts: HostFacts, spec: ClusterSpec) -> tuple[HostFinding, ...]:
    """Every finding, in the order in which things build on each other."""
    return (
        judge_kernel_release(facts.kernel),
        judge_cgroup(facts),
        judge_programs(facts.missing_packages),
        *judge_engine(facts),
        judge_lxcfs(facts, spec.engine),
        judge_disk(facts.disk_free_bytes),
        judge_shared(facts),
        judge_subuid(facts.subuid),
        judge_limit(facts, "inotify"),
        judge_limit(facts, "keys"),
        judge_limit(facts, "neighbours"),
        judge_limit(facts, "pids"),
        judge_limit(facts, "threads"),
        judge_node_limits(facts),
        judge_subnet(facts, "subnet", spec.network.bridge, spec.network.subnet),
        judge_subnet(facts, "private-subnet", spec.network.private_bridge, spec.network.private_subnet),
        judge_forward(facts.forward_rules, spec.network.bridge),
        judge_isolation(facts, spec.engine),
        judge_loose_pairs(facts.loose_pairs),
        *judge_host_gpus(facts),
        judge_versions(facts.versions),
    )


def judge_versions(found: Sequence[Installed]) -> HostFinding:
    """What is installed, held against the table of advisories."""
    table = load_advisories()
    holes = tuple(find_holes(table, found))
    if not holes:
        named = ", ".join(f"{one.product} {one.version}" for one in found) or "nothing that the table has is installed"
        return HostFinding(id="advisories", status="ok", evidence=f"no hole known on {table.date}: {named}")
    lines = []
    for one in dict.fromkeys(hole.installed for hole in holes):
        told = "; ".join(_describe_hole(hole, table.date) for hole in holes if hole.installed == one)
        lines.append(f"{one.product} {one.version}: {told}")
    packages = dict.fromkeys(hole.installed.package for hole in holes if hole.fixed and hole.installed.package)
    place = "upgrade" if packages else "driver" if any(hole.fixed for hole in holes) else ""
    fix = find_fix(place, "advisories", given=" ".join(packages))
    return HostFinding(id="advisories", status="warn", evidence=". ".join(lines), fix=fix)


def _describe_hole(hole: Hole, date: str) -> str:
    unfixed = f"not fixed in Debian {hole.installed.debian} on {date}"
    fixed = f"fixed in {', '.join(hole.fixed)}" if hole.fixed else unfixed
    return f"{', '.join(hole.advisory.ids)} ({hole.advisory.what}), {fixed}"


def judge_kernel_release(release: str) -> HostFinding:
    """Old kernels lack what unprivileged nodes need."""
    old = older(release, least_kernel())
    return HostFinding(
        id="kernel",
        status="fail" if old else "ok",
        evidence=f"Linux {release}",
        fix=find_fix("", "kernel") if old else "",
    )


def judge_cgroup(facts: HostFacts) -> HostFinding:
    """Nodes need some cgroup hierarchy; both versions will do."""
    if facts.cgroup == "none":
        evidence = "no cgroup file system is mounted"
        return HostFinding(id="cgroup", status="fail", evidence=evidence, fix=find_fix("", "cgroup"))
    return HostFinding(id="cgroup", status="ok", evidence=f"cgroup {facts.cgroup}")


def judge_programs(missing: tuple[str, ...]) -> HostFinding:
    """The programs that gpuprov runs on the host."""
    if missing:
        evidence = f"packages that are not installed: {', '.join(missing)}"
        return HostFinding(id="programs", status="fail", evidence=evidence, fix=find_fix("", "programs"))
    return HostFinding(id="programs", status="ok", evidence="every program that gpuprov needs is installed")


def judge_engines(seen: Survey[str], wanted: Engine) -> HostFinding:
    """Which engines are there, and which one is for what is new; more of the wanted one is said by `judge_engine`."""
    said = [f"{_names(seen.answers)} {'respond' if len(seen.answers) > 1 else 'responds'}"] if seen.answers else []
    said += [f"{name} is installed and does not respond: {error.what}" for name, error in seen.errors.items()]
    said += [f"{_names(seen.absent)} {'are' if len(seen.absent) > 1 else 'is'} not installed"] if seen.absent else []
    evidence = f"{'; '.join(said)}; new clusters are created on {seen.default}"
    silent = next((error for name, error in seen.errors.items() if name != wanted), None)
    if silent is None:
        return HostFinding(id="engines", status="ok", evidence=evidence)
    return HostFinding(
        id="engines", status="warn", evidence=evidence, fix=find_fix("given", "engines", given=silent.fix)
    )


def judge_engine(facts: HostFacts) -> Iterator[HostFinding]:
    """The engine answers this user and has storage."""
    seen = facts.engine
    if seen.error is not None:
        evidence = f"{seen.error.what}: {seen.error.evidence}".rstrip(": ")
        fix = find_fix("given", "engine", given=seen.error.fix)
        yield HostFinding(id="engine", status="fail", evidence=evidence, fix=fix)
    if seen.facts is None:
        return
    engine = seen.facts
    yield HostFinding(id="engine", status="ok", evidence=f"{engine.name} {engine.version}, API {engine.api}")
    who = "root" if facts.uid == 0 else f"uid {facts.uid}, by its group"
    yield HostFinding(id="permission", status="ok", evidence=f"{who} has access to the engine's socket")
    if engine.cluster is not None:
        yield _judge_cluster(engine.name, engine.cluster)
    storage_fix = find_fix("cluster" if engine.cluster else "", "storage", engine=engine.name)
    yield HostFinding(
        id="storage",
        status="ok" if engine.copy_on_write else "warn",
        evidence=f"{engine.storage}, {'copy on write' if engine.copy_on_write else 'every node is a full copy'}",
        fix="" if engine.copy_on_write else storage_fix,
    )
    if engine.free_bytes is not None:
        room = _judge_room("storage-room", engine.free_bytes, "the engine's storage")
        if seen.disk is not None and room.status == "ok" and seen.disk.percent >= NEARLY_FULL:
            room = changed(room, status="warn", evidence=seen.disk.words, fix=find_fix("", "storage-room"))
        used = f"; of that, {engine.name} uses: {seen.usage.words}" if seen.usage.words else ""
        yield changed(room, evidence=f"{room.evidence}{used}")


def _judge_cluster(engine: str, cluster: EngineCluster) -> HostFinding:
    """The engine makes and removes networks on all members at once, so that none may be away then."""
    evidence = f"this host is {cluster.member} in {engine}'s cluster of {', '.join(cluster.members)}"
    if not cluster.away:
        return HostFinding(id="engine-cluster", status="ok", evidence=f"{evidence}; nodes are put on this host")
    away = ", ".join(cluster.away)
    fix = find_fix("", "engine-cluster", given=away)
    return HostFinding(id="engine-cluster", status="warn", evidence=f"{evidence}; away: {away}", fix=fix)


def judge_lxcfs(facts: HostFacts, engine: Engine) -> HostFinding:
    """Nodes see their own memory and CPUs by it; where it died, they cannot read /proc/meminfo, and do not start."""
    if engine == "docker":
        return HostFinding(id="lxcfs", status="ok", evidence="nodes of Docker do without it")
    if facts.lxcfs is None:
        return HostFinding(id="lxcfs", status="info", evidence="cannot be determined")
    dead = [mount for mount in facts.lxcfs if mount.error]
    if dead:
        evidence = "; ".join(f"{mount.path}: {mount.error}" for mount in dead)
        own = "incus-packages" if dead[0].path.endswith("/incus-lxcfs") else ""  # of Incus's developers
        return HostFinding(id="lxcfs", status="fail", evidence=evidence, fix=find_fix(own, "lxcfs", engine=engine))
    if not facts.lxcfs and facts.contained:
        evidence = "it is not mounted, and not started in a container: nodes see the memory and CPUs of this one"
        return HostFinding(id="lxcfs", status="info", evidence=evidence)
    if not facts.lxcfs:
        evidence = "it is not mounted: nodes that start see the memory and CPUs of the host"
        return HostFinding(id="lxcfs", status="warn", evidence=evidence, fix=find_fix("", "lxcfs", engine=engine))
    return HostFinding(id="lxcfs", status="ok", evidence=f"{facts.lxcfs[0].path} responds")


def judge_disk(free_bytes: int) -> HostFinding:
    """Room for what images are built from."""
    return _judge_room("disk-room", free_bytes, "/var")


def judge_shared(facts: HostFacts) -> HostFinding:
    """Folders that nodes share hold what jobs write, which nothing removes by itself."""
    said = [
        f"{folder} of cluster {facts.engine.shared_folders.get(folder)} is {disk.words}"
        + (f"; the most of it: {usage.words}" if usage.words else "")
        for folder, (disk, usage) in sorted(facts.shared_disks.items())
    ]
    if not said:
        return HostFinding(id="shared-room", status="ok", evidence="no folder that nodes share can be seen")
    worst = max(disk.percent for disk, _ in facts.shared_disks.values())
    status: FindingStatus = "warn" if worst >= NEARLY_FULL else "ok"
    fix = find_fix("", "shared-room") if status == "warn" else ""
    return HostFinding(id="shared-room", status=status, evidence="; ".join(said), fix=fix)


def judge_subuid(lines: tuple[str, ...] | None) -> HostFinding:
    """Unprivileged nodes need a range of user ids that belongs to root, who runs the engine."""
    if lines is None:
        return HostFinding(id="subuid", status="ok", evidence="no /etc/subuid: the engine uses its own default range")
    for line in lines:
        user, _, rest = line.partition(":")
        count = rest.rpartition(":")[2]
        if user in {"root", "0", "lxd", "_lxd"} and count.isdigit() and int(count) >= SUBUID_LEAST:
            return HostFinding(id="subuid", status="ok", evidence=line)
    return HostFinding(
        id="subuid",
        status="fail",
        evidence=f"/etc/subuid gives root no {SUBUID_LEAST} ids: {', '.join(lines) or 'empty'}",
        fix=find_fix("", "subuid"),
    )


def judge_limit(facts: HostFacts, check: str) -> HostFinding:
    """The kernel's defaults of what all nodes share are used up by some twenty or thirty of them."""
    limit, present = LIMITS[check], facts.limits.get(check)
    if present is None:
        return HostFinding(id=check, status="info", evidence=f"{limit.key} cannot be read")
    enough = present >= limit.least
    return HostFinding(
        id=check,
        status="ok" if enough else "warn",
        evidence=f"{limit.key} = {present}, shared by all nodes",
        fix="" if enough else find_fix("", check),
    )


def judge_node_limits(facts: HostFacts) -> HostFinding:
    """What nodes may take of the host's processes and memory leaves it some; those of an earlier gpuprov take all."""
    limits = facts.engine.node_limits
    free = [name for name, limit in limits.items() if not limit.processes or not limit.memory_bytes]
    if free:
        evidence = f"no limit of processes and memory: {fold(free)}"
        return HostFinding(id="node-limits", status="warn", evidence=evidence, fix=find_fix("", "node-limits"))
    evidence, too_many = compare_processes([limit.processes for limit in limits.values()], facts.limits)
    if too_many:
        return HostFinding(id="node-limits", status="warn", evidence=evidence, fix=find_fix("many", "node-limits"))
    return HostFinding(id="node-limits", status="ok", evidence=evidence if limits else "no nodes on this engine")


def judge_subnet(facts: HostFacts, check: str, bridge: str, subnet: str) -> HostFinding:
    """Nothing else on the host may use the subnet of a cluster; one that is made takes another where somebody does."""
    wanted = IPv4Network(subnet)
    if facts.links is None:
        fix = find_fix("no-ip", check)
        return HostFinding(
            id=check, status="fail", evidence="cannot check: the command `ip` is missing or failed", fix=fix
        )
    ours = bridge in facts.engine.own_networks
    links = [link for link in facts.links if not (ours and link.interface == bridge)]
    clashes = sorted((link for link in links if link.network.overlaps(wanted)), key=lambda link: link.address is None)
    if not clashes:
        state = f"{subnet} is {bridge}'s" if ours else f"{subnet} is free"
        return HostFinding(id=check, status="ok", evidence=state)
    worst = min(clashes, key=lambda link: not takes(link, wanted))
    evidence = f"{subnet} overlaps {worst.address or worst.network} on {worst.interface}"
    if not ours:
        return HostFinding(id=check, status="info", evidence=f"{evidence}; a new cluster gets a free subnet")
    status: FindingStatus = "fail" if takes(worst, wanted) else "warn"
    return HostFinding(id=check, status=status, evidence=evidence, fix=find_fix("", check))


def judge_forward(rules: tuple[str, ...] | None, bridge: str) -> HostFinding:
    """Docker sets the policy of FORWARD to DROP, and then nodes lose the outside."""
    if rules is None:
        evidence = "only root can read the FORWARD policy"
        return HostFinding(id="forward", status="info", evidence=evidence, fix=find_fix("not-root", "forward"))
    if not any(rule.split() == ["-P", "FORWARD", "DROP"] for rule in rules):
        return HostFinding(id="forward", status="ok", evidence="the FORWARD policy allows traffic from nodes")
    if not is_dropped(rules, bridge):
        return HostFinding(
            id="forward", status="ok", evidence=f"the FORWARD policy is DROP, with rules that accept {bridge}"
        )
    chain = DOCKERS if any(DOCKERS in rule for rule in rules) else "FORWARD"
    evidence = "the FORWARD policy is DROP (Docker sets it): nodes cannot reach the outside"
    fix = find_fix("", "forward", chain=chain, bridge=bridge)
    return HostFinding(id="forward", status="warn", evidence=evidence, fix=fix)


def judge_loose_pairs(pairs: Sequence[tuple[str, str]] | None) -> HostFinding:
    """An engine that is killed while it makes a pair of links for a node has not noted yet whose they are."""
    if pairs is None:
        evidence = "the host's links cannot be listed: the command ip is missing, or it failed"
        return HostFinding(id="loose-links", status="info", evidence=evidence, fix=find_fix("no-ip", "loose-links"))
    if not pairs:
        return HostFinding(id="loose-links", status="ok", evidence="no killed engine has left links")
    evidence = f"pairs of links that nothing uses: {', '.join(' and '.join(pair) for pair in pairs)}"
    fix = " && ".join(find_fix("", "loose-links", link=one) for one, _ in pairs)
    return HostFinding(id="loose-links", status="warn", evidence=evidence, fix=fix)


def judge_isolation(facts: HostFacts, engine: Engine) -> HostFinding:
    """The host refuses connections from one cluster to another and to itself; its rules do not survive a reboot."""
    seen = facts.engine
    open_ones = sorted(network for network, isolated in seen.isolated.items() if not isolated)
    unguarded = sorted(network for network, guarded in seen.guarded.items() if not guarded)
    if open_ones or unguarded:
        words = {
            "nodes of other clusters on this host can reach those on": open_ones,
            "every service of the host can be reached by nodes on": unguarded,
        }
        evidence = "; ".join(f"{what} {', '.join(networks)}" for what, networks in words.items() if networks)
        fix = find_fix("", "isolation", engine=engine)
        return HostFinding(id="isolation", status="warn", evidence=evidence, fix=fix)
    if seen.own_networks and not seen.isolated and facts.uid != 0:
        evidence = "only root can read the firewall's rules"
        return HostFinding(id="isolation", status="info", evidence=evidence, fix=find_fix("not-root", "isolation"))
    if seen.own_networks and not seen.isolated:
        evidence = "nodes of other clusters on this host can reach those of a cluster: the command nft is missing"
        return HostFinding(id="isolation", status="warn", evidence=evidence, fix=find_fix("no-nft", "isolation"))
    refused = [f"{count} from nodes on {network}" for network, count in sorted(seen.refused.items()) if count]
    told = f"; packets to the host that were refused: {', '.join(refused)}" if refused else ""
    evidence = f"clusters of this host cannot reach each other's nodes{told}"
    return HostFinding(id="isolation", status="ok", evidence=evidence)


def takes(link: Link, wanted: IPv4Network) -> bool:
    """Whether it uses addresses of ours; a wider route, such as a VPN's, only loses those to the cluster."""
    if link.address is not None and link.address.ip in wanted:
        return True
    return link.network.subnet_of(wanted)


def _names(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _judge_room(check: str, free_bytes: int, where: str) -> HostFinding:
    status: FindingStatus = "ok"
    if free_bytes < ROOM_FOR_IMAGE_BYTES:
        status = "fail" if free_bytes < ROOM_LEAST_BYTES else "warn"
    return HostFinding(
        id=check,
        status=status,
        evidence=f"{free_bytes / GIB:.1f} GiB free in {where}",
        fix="" if status == "ok" else find_fix("", check),
    )
