"""What a controller asks of other hosts, each by its verb: the gpuprov there serves it by a story of that host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Raw

from gpuprov.shapes.base import Shape
from gpuprov.shapes.members import NOTHING
from gpuprov.shapes.node import Exposure
from gpuprov.shapes.whole import WholeCluster
from gpuprov.shapes.words import Seconds, Word

Texts = tuple[str, ...]
Names = tuple[Word, ...]
ShareAct = Literal["leave", "take", "remove", ""]
Act = Literal["start", "stop", "rm", "snapshot", "restore"]


class Order(Shape, frozen=True, kw_only=True):
    """What a host is asked.

    Attributes:
        verb: By which it is asked.
    """

    verb: ClassVar[str]

    def __repr__(self) -> str:
        """Without what nodes share, which some have."""
        return f"{type(self).__name__}(...)"


class LookOrder(Order, frozen=True, kw_only=True):
    """The host itself."""

    verb: ClassVar[str] = "look"


class ListOrder(Order, frozen=True, kw_only=True):
    """The nodes of all clusters.

    Attributes:
        everything: Also instances that gpuprov did not create.
        engine: Only those of this one; empty for all.
    """

    verb: ClassVar[str] = "list"
    everything: bool = False
    engine: Word = ""


class GpusOrder(Order, frozen=True, kw_only=True):
    """All GPUs of the host and their holders, on all engines.

    Attributes:
        mode: Whether GPUs are simulated.
    """

    verb: ClassVar[str] = "gpus"
    mode: Literal["auto", "real", "simulated"] = "auto"


class PrepareOrder(Order, frozen=True, kw_only=True):
    """What `host prepare` does.

    Attributes:
        engine: Empty for the default one of that host.
    """

    verb: ClassVar[str] = "prepare"
    engine: Word = ""


class InventoryOrder(Order, frozen=True, kw_only=True):
    """The nodes of one cluster, or of all where it is empty, as Ansible's inventory has them."""

    verb: ClassVar[str] = "inventory"
    cluster: Word = ""


class FindOrder(Order, frozen=True, kw_only=True):
    """What the host has of the clusters that have one of these nodes, here or on another host."""

    verb: ClassVar[str] = "find"
    nodes: Names


class OneNodeOrder(Order, frozen=True, kw_only=True):
    """Something about one node.

    Attributes:
        engine: Which has it; empty for whichever has.
    """

    node: Word
    engine: Word = ""


class ShowOrder(OneNodeOrder, frozen=True, kw_only=True):
    """All that its engine knows of it."""

    verb: ClassVar[str] = "show"


class LogsOrder(OneNodeOrder, frozen=True, kw_only=True):
    """What its console said."""

    verb: ClassVar[str] = "logs"


class ExposeOrder(OneNodeOrder, frozen=True, kw_only=True):
    """Forward a port of the host into it."""

    verb: ClassVar[str] = "expose"
    exposure: Exposure


class UnexposeOrder(OneNodeOrder, frozen=True, kw_only=True):
    """Forward that port of the host no longer."""

    verb: ClassVar[str] = "unexpose"
    host_port: int


class ClusterOrder(Order, frozen=True, kw_only=True):
    """Something about one cluster."""

    cluster: Word


class KeyOrder(ClusterOrder, frozen=True, kw_only=True):
    """The host's public key for a cluster's encrypted overlay; it is made if there is none."""

    verb: ClassVar[str] = "key"


class HardwareOrder(ClusterOrder, frozen=True, kw_only=True):
    """The processors and GPUs of the host, and of its running nodes of a cluster.

    Attributes:
        engine: Which one has the cluster; empty for whichever has.
    """

    verb: ClassVar[str] = "hardware"
    engine: Word = ""


class PartOrder(ClusterOrder, frozen=True, kw_only=True):
    """A host's part of a cluster that spans hosts.

    Attributes:
        spec: What is asked for, where the host is to say what it offers to more nodes; null where not.
        engine: Which is to have it; empty for the one that has it, or else the default one.
        internal_ip: The host's address on the network between the hosts, where the spec says it.
        disks: Whether the host is to say which disks are nearly full.
    """

    verb: ClassVar[str] = "part"
    spec: Raw = NOTHING
    engine: Word = ""
    internal_ip: Word = ""
    disks: bool = False


class RecordOrder(ClusterOrder, frozen=True, kw_only=True):
    """What a host has recorded of the whole cluster, of which `part` tells a fingerprint.

    Attributes:
        engine: Which has the cluster.
    """

    verb: ClassVar[str] = "record"
    engine: Word


class MemberUpOrder(ClusterOrder, frozen=True, kw_only=True):
    """`up`: what is asked of a host.

    Attributes:
        cluster: The name in the spec.
        spec: What is asked of this host; of a cluster that spans hosts, the whole one.
        left: Paths of values that are not set.
        nodes: Of a cluster that spans hosts, those of the spec's nodes that this host is to have.
        whole: Of a cluster that spans hosts, the nodes of all hosts; null of others.
        record: Fingerprint of spec and whole, in place of them, where the host has recorded just these; else empty.
        secret: Of a cluster that spans hosts, what all its nodes share; empty where nothing or to be read.
        sssd: Of a cluster that spans hosts, the site's sssd.conf that its spec names; empty for none.
        drain_s: How long jobs on nodes that have to leave are waited for; null not at all.
    """

    verb: ClassVar[str] = "up"
    spec: Raw = NOTHING
    record: Word = ""
    left: Texts = ()
    nodes: Names = ()
    whole: WholeCluster | None = None
    secret: bytes = b""
    sssd: str = ""
    keep_on_failure: bool = False
    verify: bool = False
    prune: bool = False
    force: bool = False
    drain_s: Seconds | None = None


class MemberPlanOrder(MemberUpOrder, frozen=True, kw_only=True):
    """What `up` would change."""

    verb: ClassVar[str] = "plan"


class LossesOrder(ClusterOrder, frozen=True, kw_only=True):
    """What `down` would remove and end; changes nothing.

    Attributes:
        drain_s: How long jobs are waited for; null not at all.
        agreed: Whether the host that knows the jobs of all nodes has agreed, or is asked for these itself.
        look_inside: Whether nodes are asked for programs of people.
    """

    verb: ClassVar[str] = "losses"
    force: bool = False
    drain_s: Seconds | None = None
    agreed: bool = False
    look_inside: bool = False


class DownOrder(ClusterOrder, frozen=True, kw_only=True):
    """Remove a cluster.

    Attributes:
        drain_s: How long jobs are waited for; null not at all.
        agreed: Whether the host that knows the jobs of all nodes has agreed.
        goes_on: Whether the cluster does, on other hosts.
    """

    verb: ClassVar[str] = "down"
    purge: bool = False
    force: bool = False
    drain_s: Seconds | None = None
    agreed: bool = False
    goes_on: bool = False


class VerifyOrder(ClusterOrder, frozen=True, kw_only=True):
    """Prove nodes.

    Attributes:
        nodes: Names of those to check; none for all.
        seconds: How long each kernel is kept busy; null for the usual time.
        beside: Running nodes on other hosts, which each of these tries to reach.
        away: Hosts that are known not to answer.
    """

    verb: ClassVar[str] = "verify"
    nodes: Names
    level: Literal["quick", "full"] = "quick"
    seconds: Seconds | None = None
    beside: Names = ()
    away: Names = ()


class ReadyOrder(ClusterOrder, frozen=True, kw_only=True):
    """Wait until the nodes of all hosts take work; asked of the host of the node that gives it.

    Attributes:
        nodes: Names of those to wait for; the others are known to be away.
    """

    verb: ClassVar[str] = "ready"
    nodes: Names


class UnreachableOrder(ClusterOrder, frozen=True, kw_only=True):
    """Tell the service that gives work which hosts are unreachable, and which nodes are back.

    Attributes:
        away: Hosts that do not answer, each with the moment since when, in UTC.
        back: Nodes of hosts that answer again.
    """

    verb: ClassVar[str] = "unreachable"
    away: Mapping[Word, Word] = {}
    back: Names = ()


class OutOfServiceOrder(ClusterOrder, frozen=True, kw_only=True):
    """Take nodes that are about to leave out of service; asked of the host of the node that gives work.

    Attributes:
        nodes: All of them, also those on this host.
        lost: Those of them whose disk goes as well.
        elsewhere: Those of them that are on other hosts, and run.
        force: Whether jobs end.
        drain_s: How long jobs are waited for; null not at all.
    """

    verb: ClassVar[str] = "out-of-service"
    nodes: Names
    lost: Names
    elsewhere: Names
    force: bool = False
    drain_s: Seconds | None = None


class InServiceOrder(ClusterOrder, frozen=True, kw_only=True):
    """Put nodes of other hosts back in service.

    Attributes:
        running: Those that run.
        stopped: Those that do not.
    """

    verb: ClassVar[str] = "in-service"
    running: Names
    stopped: Names


class NodesOrder(Order, frozen=True, kw_only=True):
    """What is done with nodes of this host.

    Attributes:
        act: What; by the story of the verb of that name.
        cluster: Theirs; empty where nothing is to be recorded.
        engine: Which has them; empty for whichever has.
        label: Of a snapshot.
        whole: The nodes of all hosts as they are to be recorded before; null where that stays as it is.
        force: Whether jobs end.
        drain_s: How long jobs are waited for; null not at all.
    """

    verb: ClassVar[str] = "nodes"
    act: Act
    nodes: Names
    cluster: Word = ""
    engine: Word = ""
    label: Word = ""
    whole: WholeCluster | None = None
    force: bool = False
    drain_s: Seconds | None = None


class TellOrder(ClusterOrder, frozen=True, kw_only=True):
    """Record the nodes of all hosts, and bring the nodes of this one to their files."""

    verb: ClassVar[str] = "tell"
    whole: WholeCluster


class SeekOrder(Order, frozen=True, kw_only=True):
    """What the host has of the cluster of an ordered node, and offers to that.

    Attributes:
        order: The node, as its label has it.
        gpu_mode: Whether its GPUs are real.
    """

    verb: ClassVar[str] = "seek"
    order: Raw
    gpu_mode: Literal["auto", "real", "simulated"] = "auto"


class CreateOrder(SeekOrder, frozen=True, kw_only=True):
    """Make a node.

    Attributes:
        engine: For a cluster that is not there yet; empty for the default one.
        secret: What the nodes of a cluster over hosts share.
        sssd: The site's sssd.conf that the spec of such a cluster names; empty for none.
        wait_s: How long to wait for GPUs; null not at all.
    """

    verb: ClassVar[str] = "create"
    engine: Word = ""
    secret: bytes = b""
    sssd: str = ""
    wait_s: Seconds | None = None


class ShareOrder(ClusterOrder, frozen=True, kw_only=True):
    """What a host sees of a folder that the nodes of all hosts are to share.

    Attributes:
        spec: Of the cluster.
        engine: Which has the nodes there.
        act: What to do with marks: `leave` or `remove` them, or `take` one, which is then gone; empty for nothing.
        marks: Hexadecimal digits of each, which are in it and in its name.
        folder: Of the host: the one that nodes share, or one beside it for a service of theirs.
        uid: The user of the nodes to whom it belongs.
    """

    verb: ClassVar[str] = "share"
    spec: Raw
    engine: Word
    marks: Annotated[tuple[Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")], ...], Meta(min_length=1)]
    folder: Annotated[str, Meta(max_length=4096)]
    uid: Annotated[int, Meta(ge=0, le=2**32)]
    act: ShareAct = ""

    def __post_init__(self) -> None:
        """Refuse to take more marks than one."""
        if self.act == "take" and len(self.marks) != 1:
            raise ValueError(f"`take` with {len(self.marks)} marks")


class ClusterNodesOrder(ClusterOrder, frozen=True, kw_only=True):
    """What an engine has of a cluster."""

    verb: ClassVar[str] = "cluster-nodes"
    engine: Word


class NodeRunOrder(Order, frozen=True, kw_only=True):
    """A command in a node, as `Driver.run` takes it.

    Attributes:
        cwd: Null for the node's own.
        timeout_s: How long it may take; null for as long as it takes.
        stdin: What it reads, compressed by zlib.
    """

    verb: ClassVar[str] = "node-run"
    engine: Word
    node: Word
    argv: Texts
    environment: Mapping[str, str] = {}
    cwd: str | None = None
    timeout_s: Seconds | None = None
    stdin: bytes = b""
