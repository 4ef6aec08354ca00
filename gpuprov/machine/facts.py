"""What can be seen of the host without changing it; findings.py judges it."""

from __future__ import annotations

import os
import platform
import re
import shutil
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from gpuprov.core.disk import NEARLY_FULL, Usage, rank_usage
from gpuprov.core.errors import GpuprovError
from gpuprov.drivers.base import LABEL_CLUSTER
from gpuprov.drivers.forward_rules import read_forward_rules
from gpuprov.gpu.cdi_files import find_cdi_versions
from gpuprov.gpu.device_nodes import plan_device_nodes
from gpuprov.gpu.driver_files import find_nvidia_cards, loaded_version
from gpuprov.gpu.host_device_nodes import find_missing_links, stat_nodes
from gpuprov.machine.cdi_file import is_outdated
from gpuprov.machine.judged_versions import find_judged_versions
from gpuprov.machine.links import find_loose_pairs
from gpuprov.machine.lxcfs import find_lxcfs, is_container
from gpuprov.machine.survey import EngineDoor, survey
from gpuprov.spec.shared_folder import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from gpuprov.core.advisories import Installed
    from gpuprov.core.disk import Disk
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.device_nodes import NodeStat
    from gpuprov.gpu.models import HostGpus
    from gpuprov.machine.base import Host
    from gpuprov.machine.links import Link
    from gpuprov.machine.lxcfs import LxcfsMount
    from gpuprov.shapes.choices import GpuMode
    from gpuprov.shapes.engine import EngineFacts
    from gpuprov.shapes.node import CharDevice, NodeLimits

CACHE_FOLDER = "var"  # images are built from what lies in a cache below it

# Debian package to a program of it that gpuprov runs on the host.
PROGRAMS = {"iproute2": "ip", "mmdebstrap": "mmdebstrap", "openssh-client": "ssh-keygen"}

CgroupVersion = Literal["v1", "v2", "hybrid", "none"]


@dataclass(frozen=True, kw_only=True)
class EngineView:
    """The engine as this user sees it, or the error that says why not.

    Attributes:
        isolated: Of our networks, whether the host refuses connections from elsewhere, if known.
        guarded: The same of whether their nodes reach no more of the host than they may.
        refused: Packets of their nodes to the host that were refused.
        node_limits: What each of our nodes may use of the host.
        disk: The space of its storage; None if it is not reported.
        usage: Who uses the most of that, where it is scarce.
        shared_folders: Folders of the host that our nodes share, each with its cluster.
    """

    facts: EngineFacts | None = None
    error: GpuprovError | None = None
    own_networks: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    isolated: Mapping[str, bool] = field(default_factory=dict)
    guarded: Mapping[str, bool] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    node_limits: Mapping[str, NodeLimits] = field(default_factory=dict)
    disk: Disk | None = None
    usage: Usage = field(default_factory=Usage)
    shared_folders: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """Everything the findings are made from.

    Attributes:
        links: IPv4 networks in use; None where `ip` is missing.
        loose_pairs: Pairs of links that a killed engine left, and nobody uses; None where `ip` is missing or fails.
        lxcfs: Where it is mounted for nodes; None if unknown.
        contained: Whether this machine is a container itself.
        forward_rules: What `iptables -S` says of FORWARD and DOCKER-USER; None where it cannot be read.
        limits: The kernel's limits that nodes share, by check; None where one cannot be read.
        subuid: Lines of /etc/subuid; None where there is no such file.
        disk_free_bytes: Where images are built.
        missing_packages: Debian packages whose programs gpuprov runs on the host and does not find.
        shared_disks: How full the disk of each folder is that nodes share, and who uses the most of one that is nearly
            full.
        gpus: Real or simulated ones; None where there is a `gpu_error`.
        gpu_error: Why a driver that is there does not work.
        gpu_cards: PCI addresses of NVIDIA GPUs, with or without driver.
        gpu_nodes: What stat() says of each device node that the GPUs call for; absent ones are left out.
        gpu_unlinked: Those without a link in /dev/char.
        cdi_versions: CDI's files for NVIDIA GPUs, and the version of libcuda that each mounts.
        cdi_outdated: Whether gpuprov's own describes other GPUs, or another driver, than there are.
        versions: What is installed of what the table of advisories is about.
    """

    kernel: str
    cgroup: CgroupVersion
    uid: int
    engine: EngineView
    links: tuple[Link, ...] | None = ()
    loose_pairs: tuple[tuple[str, str], ...] | None = ()
    lxcfs: tuple[LxcfsMount, ...] | None = None
    contained: bool = False
    forward_rules: tuple[str, ...] | None = ()
    limits: Mapping[str, int | None] = field(default_factory=dict)
    subuid: tuple[str, ...] | None = None
    disk_free_bytes: int = 0
    shared_disks: Mapping[str, tuple[Disk, Usage]] = field(default_factory=dict)
    missing_packages: tuple[str, ...] = ()
    gpus: HostGpus | None = None
    gpu_error: GpuprovError | None = None
    gpu_cards: tuple[str, ...] = ()
    gpu_nodes: Mapping[str, NodeStat] = field(default_factory=dict)
    gpu_unlinked: tuple[CharDevice, ...] = ()
    cdi_versions: Mapping[str, str] = field(default_factory=dict)
    cdi_outdated: bool = False
    versions: tuple[Installed, ...] = ()


def gather_facts(host: Host, engine: str, *, gpu_mode: GpuMode) -> HostFacts:
    """Look at everything of a host and one of its engines; nothing that is missing or broken is an error here."""
    root = host.root
    gpus: HostGpus | None = None
    gpu_error: GpuprovError | None = None
    try:
        gpus = host.gpus(gpu_mode)
    except GpuprovError as error:
        gpu_error = error
    devices = _gpu_devices(gpus)
    door = EngineDoor(name=engine, open=partial(host.open, engine), installed=lambda: True)
    seen = _view_engine(door)
    if seen.disk is not None and seen.disk.is_scarce:
        counted = survey([door], lambda driver: rank_usage(driver.usage())).answers  # apart, for it takes seconds
        seen = replace(seen, usage=counted.get(engine, Usage()))
    return HostFacts(
        kernel=platform.release(),
        cgroup=parse_cgroup(_read(root / "proc/self/mountinfo") or ""),
        uid=os.getuid(),
        engine=seen,
        shared_disks=_look_at_disks(host, seen.shared_folders),
        links=host.links(),
        loose_pairs=find_loose_pairs(),
        lxcfs=find_lxcfs(root),
        contained=is_container(root),
        forward_rules=read_forward_rules(),
        limits=host.limits(),
        subuid=_lines(_read(root / "etc/subuid")),
        disk_free_bytes=free_bytes(root / CACHE_FOLDER),
        missing_packages=tuple(package for package, program in PROGRAMS.items() if shutil.which(program) is None),
        gpus=gpus,
        gpu_error=gpu_error,
        gpu_cards=find_nvidia_cards(root),
        gpu_nodes=stat_nodes(root, devices),
        gpu_unlinked=find_missing_links(root, devices),
        cdi_versions=find_cdi_versions(root),
        cdi_outdated=gpus is not None and is_outdated(root, gpus),
        versions=find_judged_versions(root, driver=loaded_version(root) or ""),
    )


def _look_at_disks(host: Host, folders: Iterable[str]) -> dict[str, tuple[Disk, Usage]]:
    """What is used is only counted where a disk is nearly full: that takes seconds."""
    disks = {folder: disk for folder in folders if (disk := host.folders.disk(folder)) is not None}
    return {
        folder: (disk, host.folders.usage(folder) if disk.percent >= NEARLY_FULL else Usage())
        for folder, disk in disks.items()
    }


def free_bytes(folder: Path) -> int:
    """On the disk of a folder, or on that where it would be made."""
    return shutil.disk_usage(nearest_folder(folder)).free


def nearest_folder(folder: Path) -> Path:
    """The folder, or that above it which exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def parse_cgroup(mountinfo: str) -> CgroupVersion:
    """Which cgroup hierarchy /proc/self/mountinfo shows."""
    kinds = set(re.findall(r" /sys/fs/cgroup\S* .*? - (cgroup2?) ", mountinfo))
    if kinds == {"cgroup", "cgroup2"}:
        return "hybrid"
    return "v2" if "cgroup2" in kinds else "v1" if "cgroup" in kinds else "none"


def _view_engine(door: EngineDoor) -> EngineView:
    seen = survey([door], _look)
    return seen.answers[door.name] if seen.answers else EngineView(error=seen.errors[door.name])


def _look(driver: Driver) -> EngineView:
    networks = driver.list_networks()
    names = tuple(network.name for network in networks)
    own = tuple(network.name for network in networks if network.ours)
    isolated = {network.name: network.isolated for network in networks if network.isolated is not None}
    guarded = {network.name: network.guarded for network in networks if network.guarded is not None}
    refused = {network.name: network.refused for network in networks if network.refused is not None}
    nodes = [node for node in driver.list_nodes() if node.ours]
    view = EngineView(
        networks=names,
        own_networks=own,
        isolated=isolated,
        guarded=guarded,
        refused=refused,
        node_limits={node.name: node.limits for node in nodes},
        shared_folders={
            mount.source: node.labels[LABEL_CLUSTER]
            for node in nodes
            for mount in node.mounts
            if mount.target == SHARED
        },
    )
    try:
        return replace(view, facts=driver.facts(), disk=driver.disk())
    except GpuprovError as error:
        return replace(view, error=error)


def _gpu_devices(gpus: HostGpus | None) -> tuple[CharDevice, ...]:
    if gpus is None or gpus.simulated or gpus.driver is None:
        return ()
    try:
        return plan_device_nodes(gpus.units, gpus.driver)
    except GpuprovError:  # there is no telling which; the findings say why
        return ()


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _lines(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(line for line in text.splitlines() if line.strip())
