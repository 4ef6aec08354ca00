"""The cluster that a person orders: a file, else what is recorded with the cluster, changed by what else is said."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from gpuprov.cluster.find_engine import engine_of_cluster
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import UsageError
from gpuprov.core.names import check_cluster_name, name_cluster
from gpuprov.lifecycle.leaving import SPARE_JOBS, JobsPolicy
from gpuprov.machine.survey import default_engine
from gpuprov.roles.registry import check_spec, load_draft
from gpuprov.shapes.base import changed
from gpuprov.shapes.choices import DEFAULT_CLUSTER
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.shapes.gpu_order import GpuOrder
from gpuprov.spec.draft import CHOOSABLE, NETWORK_VALUES, SHARE, Draft

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host
    from gpuprov.shapes.choices import Engine, GpuMode, RoleName
    from gpuprov.shapes.cluster_spec import PersonSpec


@dataclass(frozen=True, kw_only=True)
class ClusterOrder:
    """A cluster as a person ordered it; None leaves it as the file or the recorded spec has it.

    Attributes:
        gpus: What its nodes are to have of GPUs.
        bridge: Of its NAT network.
        subnet: Of its NAT network.
        moved: Whether bridges and subnets of the file that something else has by now give way to free ones.
        share: The folder that its nodes share; True for a place of the cluster's own.
        verify: Whether its nodes are to be proven once they are up; no part of the spec.
        prune: Whether nodes from create-node and clone that the spec does not have are removed; no part of the spec.
        renew: Whether nodes that have an older image are replaced; no part of the spec.
        keep_on_failure: Whether what a run made that fails is left for a look; no part of the spec.
        engine: Which is to have it; over hosts, on those for which the spec names none.
        policy: What becomes of jobs on nodes that have to leave; no part of the spec either.
        people: Makes the cluster's people from those that it has; raises where that cannot be.
    """

    file: Path | None = None
    name: str | None = None
    count: int | None = None
    role: RoleName | None = None
    gpus: GpuOrder = field(default_factory=GpuOrder)
    gpu_mode: GpuMode | None = None
    bridge: str | None = None
    subnet: str | None = None
    moved: bool = False
    share: bool | str | None = None
    verify: bool = False
    prune: bool = False
    renew: bool = False
    keep_on_failure: bool = False
    engine: str | None = None
    policy: JobsPolicy = SPARE_JOBS
    people: Callable[[Sequence[PersonSpec]], tuple[PersonSpec, ...]] | None = None


def resolve_engine(
    host: Host, engine: str | None, order: ClusterOrder, *, reporter: Reporter, creates: bool = True
) -> Driver:
    """The engine of that name, else the file's, else the one that has the cluster, else the default one.

    Args:
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
        draft = load_draft(order.file)
        return host.open(default_engine(host.engines) if draft.engine_open else draft.spec.engine)
    return engine_of_cluster(resolve_name(order), host.engines, creates=creates, reporter=reporter)


def resolve_name(order: ClusterOrder) -> str:
    """The cluster that is meant: the one said, else the file's, else the default one.

    Raises:
        UsageError: It is no cluster's name, such as an empty one.
        SpecError: The file is no spec.
    """
    if order.name is not None:
        return check_cluster_name(order.name)
    return DEFAULT_CLUSTER if order.file is None else load_draft(order.file).spec.name


def resolve_spec(driver: Driver, order: ClusterOrder) -> tuple[Draft, ClusterState]:
    """The file's spec, or the one recorded with the cluster, or the default one; then what else is ordered.

    Returns:
        It, and the cluster as it is.

    Raises:
        SpecError: The file is no spec.
        UsageError: Another bridge or subnet is ordered for a cluster that has its own, or it names hosts.
    """
    name = resolve_name(order)
    state = observe_cluster(driver, name)
    if order.file is not None:
        draft = load_draft(order.file)
        left = draft.left | (NETWORK_VALUES if order.moved else frozenset())
        draft = replace(draft, spec=changed(draft.spec, name=name), left=left)
    else:
        recorded = state.spec
        draft = Draft(spec=recorded) if recorded else Draft(spec=ClusterSpec(name=name), left=CHOOSABLE)
    asked: dict[str, Any] = {
        key: said for key, said in {"bridge": order.bridge, "subnet": order.subnet}.items() if said is not None
    }
    if asked:
        _refuse_other_networks(state, asked)
    draft = _with_order(draft, order, asked)
    draft = replace(draft, spec=changed(draft.spec, engine=cast("Engine", driver.name)))
    _refuse_hosts(draft.spec)
    return draft, state


def resolve_spanning(order: ClusterOrder, engine: str | None, recorded: ClusterSpec | None) -> Draft | None:
    """The same of a cluster that spans hosts; None where neither the file nor the recorded spec names hosts.

    Args:
        order: What is ordered.
        engine: That of hosts for which the spec names none, where it is given.
        recorded: What hosts have recorded.

    Raises:
        SpecError: The file is no spec, or what else is ordered makes it none.
        UsageError: Another bridge or subnet is ordered for a cluster that has its own.
    """
    if order.file is not None:
        draft = load_draft(order.file)
        draft = replace(draft, spec=changed(draft.spec, name=resolve_name(order)))
    elif recorded is not None:
        draft = Draft(spec=recorded)
    else:
        return None
    if not draft.spec.hosts:
        return None
    asked = {key: said for key, said in {"bridge": order.bridge, "subnet": order.subnet}.items() if said is not None}
    if asked and recorded is not None:
        _refuse_differing(recorded, asked)
    draft = _with_order(draft, order, asked)
    if engine is not None:
        draft = replace(draft, spec=changed(draft.spec, engine=cast("Engine", engine)), engine_open=False)
    check_spec(draft.spec, left=draft.left)  # before hosts are asked, which would take it for a record of theirs
    return draft


def _with_order(draft: Draft, order: ClusterOrder, asked: Mapping[str, Any]) -> Draft:
    """A draft with what else is ordered; `asked` of its network."""
    spec = draft.spec
    nodes, network = spec.nodes, changed(spec.network, **asked)
    if order.count is not None:
        nodes = changed(nodes, count=order.count)
    if order.role is not None:
        nodes = changed(nodes, role=order.role)
    gpus = changed(spec.gpus, **order.gpus.said)
    if order.gpu_mode is not None:
        gpus = changed(gpus, mode=order.gpu_mode)
    share = spec.share if order.share is None else order.share
    people = spec.people if order.people is None else order.people(spec.people)
    spec = changed(spec, nodes=nodes, gpus=gpus, network=network, share=share, people=people)
    said = {f"network.{key}" for key in asked} | ({SHARE} if order.share is not None else set())
    return replace(draft, spec=spec, left=draft.left - said)


def read_share(said: str | None) -> bool | str | None:
    """The folder to share, as the spec writes it: true, false or a path."""
    return {"true": True, "false": False}.get(said.lower(), said) if said is not None else None


def _refuse_hosts(spec: ClusterSpec) -> None:
    if spec.hosts:
        raise UsageError(
            f"cluster {spec.name} spans hosts, and this command works on one host only",
            evidence=f"hosts names {', '.join(host.name for host in spec.hosts[:5])}",
            fix=name_cluster("on the machine that knows the hosts: gpuprov cluster up", spec.name),
        )


def _refuse_other_networks(state: ClusterState, asked: Mapping[str, Any]) -> None:
    if state.settled is not None:
        _refuse_differing(state.settled, asked)


def _refuse_differing(settled: ClusterSpec, asked: Mapping[str, Any]) -> None:
    name = settled.name
    if changed(settled.network, **asked) == settled.network:
        return
    has = ", ".join(f"{key} {getattr(settled.network, key)}" for key in asked)
    raise UsageError(
        f"the networks of cluster {name} cannot be changed while it exists",
        evidence=f"it has {has}; {', '.join(f'--{key} {said}' for key, said in asked.items())} is requested",
        fix=f"omit {' and '.join(f'--{key}' for key in asked)}; or remove the cluster first: "
        f"gpuprov cluster down {name}",
    )
