"""Whether any node of a cluster has what a job asks for; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from gpuprov.core.all_faults import AllFaults
from gpuprov.core.errors import UsageError
from gpuprov.core.names import name_cluster
from gpuprov.core.nearest import ask_back, find_nearest
from gpuprov.core.units import GIB, MIB
from gpuprov.shapes.base import changed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpuprov.shapes.job_order import JobOrder

NOTHING: Final = "nothing was submitted"
_WHOLE: Final = 2 * GIB  # from here on, memory is told in GiB


@dataclass(frozen=True, kw_only=True)
class NodeRoom:
    """What a job can have of a node that is empty; one that is down or drained counts too, as it may come back.

    Attributes:
        gpus: How many.
        types: Of each of them, by which jobs ask for it; none where that is unknown.
        memory_bytes: How much.
        partitions: That have it; none where there are none.
        shards: Of each of its GPUs; a job has those of one.
    """

    gpus: int
    types: tuple[str, ...] = ()
    memory_bytes: int = 0
    partitions: tuple[str, ...] = ()
    shards: int = 0

    def gpus_of(self, type_: str | None) -> int:
        """How many of a type; None for all."""
        return self.gpus if type_ is None else self.types.count(type_)


@dataclass(frozen=True, kw_only=True)
class JobRoom:
    """What jobs of a cluster can have.

    Attributes:
        cluster: Its name.
        nodes: Of each node, or worker.
        unit: Which of both a job gets.
        has_memory: Whether they can be asked for memory.
        partitions: The names of all, first that of jobs that name none; empty where there are none.
        has_qos: Whether a job can name a QOS: Slurm keeps to none where the spec has none.
    """

    cluster: str
    nodes: tuple[NodeRoom, ...]
    unit: str = "node"
    has_memory: bool = True
    partitions: tuple[str, ...] = ()
    has_qos: bool = False

    def require(self, order: JobOrder) -> None:
        """Refuse what no node has.

        Raises:
            UsageError: With all of it, and how much there is at most.
        """
        faults = AllFaults()
        named = None if order.partition is UNSET else order.partition
        if named is not None and named not in self.partitions:
            faults.add(self._no_partition(named))
        if order.qos is not UNSET and not self.has_qos:
            faults.add(self._no_qos(order.qos))
        types = list(dict.fromkeys(type_ for node in self.nodes for type_ in node.types))
        if order.gpu_type is not UNSET and order.gpu_type not in types:
            faults.add(self._no_type(order.gpu_type, order.gpus, types))
            order = changed(order, gpu_type=UNSET)
        nodes = self._nodes_of(named)
        for fault in self._find_faults(order, nodes or self.nodes):
            faults.add(fault)
        faults.tell(NOTHING)

    def _find_faults(self, order: JobOrder, nodes: Sequence[NodeRoom]) -> Iterator[UsageError]:
        if order.memory_bytes is not None and not self.has_memory:
            yield UsageError(
                f"jobs of {self.cluster} cannot ask for memory; {NOTHING}",
                evidence=f"its jobs run on workers, which do not look at memory; asked: {_words(order.memory_bytes)}",
                fix="omit --memory, and jobs.memory in the spec",
            )
        type_ = None if order.gpu_type is UNSET else order.gpu_type
        gpus = max((node.gpus_of(type_) for node in nodes), default=0)
        wanted = (f"{order.gpus} GPUs" if order.gpus > 1 else "a GPU") + (f" of type {type_}" if type_ else "")
        if type_ and not gpus:  # the nodes of another partition have them
            there = next(name for node in self.nodes if node.gpus_of(type_) for name in node.partitions)
            yield self._lacks(wanted, "0", f"--partition {there}, or GPUs of any type: --gpus {order.gpus}")
        elif order.gpus > gpus:
            few = "--gpus 0" if not gpus else f"--gpus {type_}:{gpus}" if type_ else f"--gpus {gpus}"
            more = f"gpuprov cluster up --gpus-per-node {order.gpus}"
            other = "" if self.unit != "node" else f"; or give the nodes more: {name_cluster(more, self.cluster)}"
            yield self._lacks(wanted, str(gpus), f"ask for less: {few}{other}")
        shards = max((node.shards for node in nodes), default=0)
        if order.shards is not UNSET and order.shards > shards:
            less = f"--shards {shards}" if shards else "--gpus 1, or set slurm.shards_per_gpu in the spec"
            yield self._lacks(f"{order.shards} shards of a GPU", str(shards), f"ask for less: {less}")
        memory = max((node.memory_bytes for node in nodes), default=0)
        asked = order.memory_bytes or 0 if self.has_memory else 0
        if asked > memory:
            yield self._lacks(
                f"{_words(asked)} of memory", _words(memory), "ask for less, with --memory or jobs.memory in the spec"
            )
        with_both = [node.memory_bytes for node in nodes if node.gpus_of(type_) >= order.gpus]
        if memory >= asked > max(with_both, default=asked):
            gpu = f"{order.gpus} GPU{'s' if order.gpus > 1 else ''}"
            most = f"{_words(max(with_both))} with {gpu}"
            yield self._lacks(f"{_words(asked)} of memory and {gpu}", most, "ask for less, with --memory or --gpus")

    def require_side_by_side(self, runs: int) -> None:
        """Refuse more runs with a GPU each than the nodes can have at once, where they wait for each other.

        Raises:
            UsageError: And how many they can have.
        """
        gpus = sum(node.gpus for node in self._nodes_of(None))
        if runs > gpus:
            raise UsageError(
                f"{self.cluster} cannot have {runs:,} workers of a program at once (most: {gpus}); {NOTHING}",
                evidence=f"each has a GPU for itself, and the nodes hold {gpus}",
                fix=f"--workers {gpus}, or omit it",
            )

    def _nodes_of(self, named: str | None) -> tuple[NodeRoom, ...]:
        """The nodes of a partition; None for that of jobs that name none."""
        name = named or next(iter(self.partitions), None)
        return tuple(node for node in self.nodes if name is None or name in node.partitions)

    def _no_partition(self, named: str) -> UsageError:
        return UsageError(
            f"{self.cluster} has no partition {named}; {NOTHING}",
            evidence=f"its partitions: {', '.join(self.partitions)}{ask_back([named], self.partitions)}"
            if self.partitions
            else "its jobs run on workers, which have none",
            fix=f"--partition {find_nearest(named, self.partitions) or self.partitions[0]}, or omit it"
            if self.partitions
            else "omit --partition",
        )

    def _no_qos(self, named: str) -> UsageError:
        of_slurm = self.unit == "node"
        return UsageError(
            f"{self.cluster} has no QOS {named}; {NOTHING}",
            evidence="its spec has no slurm.qos" if of_slurm else "its jobs run on workers, which have none",
            fix=f"omit --qos{'; or set accounting: on and slurm.qos in the spec' if of_slurm else ''}",
        )

    def _no_type(self, named: str, gpus: int, types: Sequence[str]) -> UsageError:
        of_slurm = self.unit == "node"
        unknown = "the types of its GPUs are unknown" if of_slurm else "its jobs run on workers, which have no types"
        near = find_nearest(named.lower(), types)
        return UsageError(
            f"{self.cluster} has no GPUs of type {named}; {NOTHING}",
            evidence=f"its types: {', '.join(types)}" if types else unknown,
            fix=f"--gpus {near or types[0]}:{gpus}, or any: --gpus {gpus}" if types else f"--gpus {gpus}",
        )

    def _lacks(self, wanted: str, most: str, fix: str) -> UsageError:
        many = f"{len(self.nodes)} {self.unit}{'' if len(self.nodes) == 1 else 's'}"
        return UsageError(
            f"no {self.unit} of {self.cluster} has {wanted} (most: {most})",
            evidence=f"all {many} were looked at; {NOTHING}",
            fix=fix,
        )


def _words(number: int) -> str:
    """So much memory, rounded down: what is told as the most can be asked for."""
    return f"{number // GIB} GiB" if number >= _WHOLE or number % GIB == 0 else f"{number // MIB} MiB"
