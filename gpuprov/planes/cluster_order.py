"""The cluster that a person orders: a file, else what is recorded with the cluster, changed by what else is said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from gpuprov.cluster.find_engine import engine_of_cluster
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.names import DEFAULT_CLUSTER, check_cluster_name
from gpuprov.planes.leaving import SPARE_JOBS, JobsPolicy
from gpuprov.planes.registry import load_spec
from gpuprov.spec.models import ClusterSpec

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host
    from gpuprov.spec.models import Engine, GpuMode, Role, Sharing


@dataclass(frozen=True, kw_only=True)
class ClusterOrder:
    """A cluster as a person ordered it; None leaves it as the file or the recorded spec has it.

    Attributes:
        verify: Whether its nodes are to be proven once they are up; no part of the spec.
        prune: Whether nodes from create-node and clone that the spec does not have are removed; no part of the spec.
        policy: What becomes of jobs on nodes that have to leave; no part of the spec either.
    """

    file: Path | None = None
    name: str | None = None
    count: int | None = None
    role: Role | None = None
    gpus_per_node: int | None = None
    sharing: Sharing | None = None
    gpu_mode: GpuMode | None = None
    verify: bool = False
    prune: bool = False
    policy: JobsPolicy = SPARE_JOBS


def resolve_engine(
    host: Host, engine: str | None, order: ClusterOrder, *, reporter: Reporter, creates: bool = True
) -> Driver:
    """The engine of that name, else the file's, else the one that has the cluster, else the default one.

    Args:
        host: The machine.
        engine: Its name, where it is given.
        order: What is ordered.
        reporter: Is told of engines that are installed and do not answer.
        creates: Whether the cluster is to be made where no engine has it.

    Raises:
        SpecError: The file is no spec.
        HostNotReady: The engine does not answer.
    """
    if engine is not None:
        return host.open(engine)
    if order.file is not None:
        return host.open(load_spec(order.file).engine)
    return engine_of_cluster(resolve_name(order), host.engines, creates=creates, reporter=reporter)


def resolve_name(order: ClusterOrder) -> str:
    """The cluster that is meant: the one said, else the file's, else the default one.

    Raises:
        UsageError: It is no cluster's name, such as an empty one.
        SpecError: The file is no spec.
    """
    if order.name is not None:
        return check_cluster_name(order.name)
    return DEFAULT_CLUSTER if order.file is None else load_spec(order.file).name


def resolve_spec(driver: Driver, order: ClusterOrder) -> ClusterSpec:
    """The file's spec, or the one recorded with the cluster, or the default one; then what else is ordered.

    Raises:
        SpecError: The file is no spec.
    """
    if order.file is not None:
        spec = replace(load_spec(order.file), name=resolve_name(order))
    else:
        name = resolve_name(order)
        spec = observe_cluster(driver, name).spec or ClusterSpec(name=name)
    nodes, gpus = spec.nodes, spec.gpus
    if order.count is not None:
        nodes = replace(nodes, count=order.count)
    if order.role is not None:
        nodes = replace(nodes, role=order.role)
    if order.gpus_per_node is not None:
        gpus = replace(gpus, per_node=order.gpus_per_node)
    if order.sharing is not None:
        gpus = replace(gpus, sharing=order.sharing)
    if order.gpu_mode is not None:
        gpus = replace(gpus, mode=order.gpu_mode)
    return replace(spec, engine=cast("Engine", driver.name), nodes=nodes, gpus=gpus)
