"""What is expected of a node, what was seen in it, and how a check judges it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuprov.shapes.choices import DEFAULT_CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.shapes.node import CharDevice
    from gpuprov.shapes.verify import CheckStatus, Level, Severity


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Another running node of the cluster."""

    name: str
    address: str
    private_address: str


@dataclass(frozen=True, kw_only=True)
class HostProblem:
    """Why the host's own GPUs could not be told."""

    evidence: str
    fix: str


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What a node must be, from its labels and the host.

    Attributes:
        status: What the engine says: `running`, `stopped`, ...
        complete: Whether its creation ran to the end.
        access: How its GPUs get in: `none`, `raw`, `simulated`, `cdi` or `nvidia-runtime`.
        access_reason: Why so, as it was decided when the node was made.
        role: Of its label; empty where it has none.
        gpus: UUIDs of the GPUs or MIG instances that it holds.
        sharing: `exclusive` where no other node may use them.
        devices: The device nodes that this lease needs.
        capability: The lowest compute capability of its GPUs, such as (7, 0); None where it is not known.
        denied: Minors of NVIDIA's major that it must not be able to open.
        driver_version: Of the host's kernel module; None where it has none.
        host_problem: Set where the lease cannot be compared with the host.
        simulation: What the simulated NVML answers in this node; None where the GPU is real.
        cluster: It is part of.
        gateway: The host's address on the NAT network; None where there is no such network, or it is not on it.
        host: Name of the host that the node is on.
        host_gpus: Number of GPUs on the host's PCI bus when the node was made; 0 where nobody noted it.
        shards_per_gpu: In how many shards Slurm is to count each of its GPUs; 0 for none.
        people: Numbers of those who have an account in it, by name; None where it takes no accounts of people.
        people_keys: SHA-256 of the file with their keys.
        of_directory: Names of the people of the spec whom the directory is to know.
        sssd: Whether its image has what reads a site's sssd.conf; None where its cluster has none.
    """

    node: str
    status: str
    complete: bool = True
    role: str = ""
    access: str = "none"
    access_reason: str = ""
    gpus: tuple[str, ...] = ()
    sharing: str = "shared"
    devices: tuple[CharDevice, ...] = ()
    capability: tuple[int, int] | None = None
    denied: tuple[int, ...] = ()
    driver_version: str | None = None
    host_problem: HostProblem | None = None
    simulation: Mapping[str, Any] | None = None
    peers: tuple[Peer, ...] = ()
    cluster: str = DEFAULT_CLUSTER
    gateway: str | None = None
    host: str = ""
    host_gpus: int = 0
    shards_per_gpu: int = 0
    people: Mapping[str, int] | None = None
    people_keys: str = ""
    of_directory: tuple[str, ...] = ()
    sssd: bool | None = None

    @property
    def simulated(self) -> bool:
        """Whether its GPUs are."""
        return self.access == "simulated"

    @property
    def gpu_paths(self) -> tuple[str, ...]:
        """Paths of its GPUs, without the control devices."""
        return tuple(item.path for item in self.devices if item.path.removeprefix("/dev/nvidia").isdecimal())

    @property
    def has_parts(self) -> bool:
        """Whether it holds parts of GPUs (MIG)."""
        return any(uuid.startswith("MIG-") for uuid in self.gpus)

    @property
    def gpu_count(self) -> int:
        """How many GPUs and parts of GPUs it holds."""
        return len(self.gpus) if self.has_parts else len(self.gpu_paths)


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What came back from a node: facts, or why there are none.

    Attributes:
        facts: What verify.probe printed.
        problem: Why there are no facts.
        timed_out: Whether it did not answer in time.
        unasked: Whether the engine could not ask it, so that nothing is known of it.
    """

    facts: Mapping[str, Any] | None = None
    problem: str = ""
    timed_out: bool = False
    unasked: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a check says.

    Attributes:
        fix: Which fix of the catalogue fits: a situation of the check's entry, `id/situation` of another one's, or
            empty for the entry's own.
        known: What the fix leaves open besides the node's name.
    """

    status: CheckStatus
    evidence: str
    fix: str = ""
    known: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One check of the chain: what it asks, and on which earlier ones it rests.

    Attributes:
        needs: Ids of the checks whose failure is the cause of this one's, so that it is then skipped.
        host: The same, for checks of the host.
        fact: The part of the facts that it reads; where the probe could not gather it, the check is unknown.
        level: The least level that asks it; `full` means that it looks at the GPU under load.
    """

    id: str
    layer: str
    needs: tuple[str, ...]
    judge: Callable[[Expectation, Observation], Finding]
    fact: str = ""
    severity: Severity = "critical"
    level: Level = "quick"
    host: tuple[str, ...] = ()
