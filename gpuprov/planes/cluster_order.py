"""The spec that is asked for: a file, else what is recorded with the cluster, changed by what else is said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from gpuprov.cluster.find_engine import engine_of_cluster
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.names import check_cluster_name
from gpuprov.planes.registry import load_spec
from gpuprov.spec.models import ClusterSpec

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host
    from gpuprov.spec.models import Engine, GpuMode, Role, Sharing

DEFAULT_CLUSTER = "lab"


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What is said of a cluster; None leaves it as the file or the recorded spec has it.

    Attributes:
        verify: Whether its nodes are to be proven once they are up; no part of the spec.
    """

    file: Path | None = None
    name: str | None = None
    count: int | None = None
    role: Role | None = None
    gpus_per_node: int | None = None
    sharing: Sharing | None = None
    gpu_mode: GpuMode | None = None
    verify: bool = False


def wanted_engine(host: Host, engine: str | None, wishes: Wishes) -> Driver:
    """The engine of that name, else the file's, else the one that has the cluster, else the default one.

    Raises:
        SpecError: The file is no spec.
        HostNotReady: The engine does not answer.
    """
    if engine is not None:
        return host.open(engine)
    if wishes.file is not None:
        return host.open(load_spec(wishes.file).engine)
    return engine_of_cluster(wanted_name(wishes), host.engines, creates=True)


def wanted_name(wishes: Wishes) -> str:
    """The cluster that is meant: the one said, else the file's, else the default one.

    Raises:
        UsageError: It is no cluster's name, such as an empty one.
        SpecError: The file is no spec.
    """
    if wishes.name is not None:
        return check_cluster_name(wishes.name)
    return DEFAULT_CLUSTER if wishes.file is None else load_spec(wishes.file).name


def wanted_spec(driver: Driver, wishes: Wishes) -> ClusterSpec:
    """The file's spec, or the one recorded with the cluster, or the default one; then the wishes.

    Raises:
        SpecError: The file is no spec.
    """
    if wishes.file is not None:
        spec = replace(load_spec(wishes.file), name=wanted_name(wishes))
    else:
        name = wanted_name(wishes)
        spec = observe_cluster(driver, name).spec or ClusterSpec(name=name)
    nodes, gpus = spec.nodes, spec.gpus
    if wishes.count is not None:
        nodes = replace(nodes, count=wishes.count)
    if wishes.role is not None:
        nodes = replace(nodes, role=wishes.role)
    if wishes.gpus_per_node is not None:
        gpus = replace(gpus, per_node=wishes.gpus_per_node)
    if wishes.sharing is not None:
        gpus = replace(gpus, sharing=wishes.sharing)
    if wishes.gpu_mode is not None:
        gpus = replace(gpus, mode=wishes.gpu_mode)
    return replace(spec, engine=cast("Engine", driver.name), nodes=nodes, gpus=gpus)
