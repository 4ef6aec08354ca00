"""The folder that all nodes of a cluster share, and the account to which it belongs in the nodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.node import Mount

if TYPE_CHECKING:
    from gpuprov.shapes.cluster_spec import ClusterSpec

SHARED: Final = "/shared"  # in nodes
KEPT: Final = "/var/lib/gpuprov-state"  # in the nodes that have a service's folder
ACCOUNTS: Final = "/var/lib/gpuprov-accounts"  # in the node that records what people used
MAPPED: Final = (SHARED, KEPT, ACCOUNTS)  # what belongs to a user of the nodes, and not to the host's root
PLACE: Final = "/srv/gpuprov"  # on the host: a cluster's own folder is below it

JOBS, GRIDS, ANNEALS, PROGRAMS = (f"{SHARED}/{name}" for name in ("jobs", "grids", "anneal", "programs"))

ACCOUNT: Final = "work"  # that jobs run as
# The same number in every image, as user and as group. Debian gives 100 to 999 to packages and 1000 to 59999 to people,
# from the lower end; systemd takes 60001 to 60513 and 61184 to 65519, and Debian again 60000 to 64999. Directory
# services number people from the lower end too. It must be less than 65536, the ids that an unprivileged node has.
ACCOUNT_UID: Final = 59400

# Not to be given to an account, with all that is in them.
_CLOSED: Final = (
    *(
        "/bin",
        "/boot",
        "/dev",
        "/etc",
        "/lib",
        "/lib32",
        "/lib64",
        "/libx32",
        "/proc",
        "/root",
        "/run",
        "/sbin",
        "/sys",
    ),
    *("/tmp", "/usr", "/var/cache", "/var/lib", "/var/log", "/var/run", "/var/spool"),  # noqa: S108 - refused
)
# The same, but folders in them can be.
_KEPT: Final = frozenset(
    {"/", "/home", "/media", "/mnt", "/opt", "/srv", "/var", "/var/tmp", PLACE}  # noqa: S108 - refused
)


@dataclass(frozen=True, kw_only=True)
class ServiceFolder:
    """A folder of the host in which a service keeps what it knows, for the nodes that can run it.

    Attributes:
        source: On the host.
        uid: Of the service's user, in the nodes.
        account: Name of that user.
        nodes: Which have it; the first of them is the one that usually uses it.
        title: What is in it, in words.
        target: Where these nodes have it.
        outlives: Whether it stays when its cluster goes, and serves the next one of that name.
    """

    source: str
    uid: int
    account: str
    nodes: tuple[str, ...]
    title: str
    target: str = KEPT
    outlives: bool = False

    @property
    def mount(self) -> Mount:
        """How it gets into these nodes."""
        return Mount(source=self.source, target=self.target, read_only=False)


def own_place(cluster: str) -> str:
    """The folder of the host that is a cluster's own."""
    return f"{PLACE}/{cluster}"


def folder_of(spec: ClusterSpec) -> str:
    """The folder of the host that the nodes of a cluster share; empty for none."""
    return spec.share if isinstance(spec.share, str) else own_place(spec.name) if spec.share else ""


def share_mount(spec: ClusterSpec) -> tuple[Mount, ...]:
    """How it gets into a node."""
    folder = folder_of(spec)
    return (Mount(source=folder, target=SHARED, read_only=False),) if folder else ()


def find_folder_problem(folder: str, cluster: str) -> str:
    """What is wrong with the path of a folder to share, without a look at the host; empty if nothing is."""
    path = PurePosixPath(folder)
    if not folder.startswith("/"):
        return "is not an absolute path"
    if ".." in path.parts or not folder.isprintable():
        return "contains `..`, or characters that cannot be printed"
    if str(path) != folder or folder.startswith("//"):
        return (
            f"must be written as /{folder.strip('/')}" if f"/{folder.strip('/')}" != folder else "is not a plain path"
        )
    if folder in _KEPT or str(path.parent) == "/home" or any(path.is_relative_to(closed) for closed in _CLOSED):
        return "is a system folder or a home directory"
    if path.is_relative_to(PLACE) and folder != own_place(cluster):
        return f"is in {PLACE}, where each cluster has a folder of its own name"
    return ""


def overlaps(one: str, other: str) -> bool:
    """Whether one of two folders is the other, or in it."""
    first, second = PurePosixPath(one), PurePosixPath(other)
    return first.is_relative_to(second) or second.is_relative_to(first)
