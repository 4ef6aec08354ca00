"""One machine as a value: what it is, what it has, and what it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from gpuprov.core.disk import Disk, Usage
    from gpuprov.core.queue import Queue
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.allocate import Lease
    from gpuprov.gpu.models import HostGpus
    from gpuprov.machine.folders import FolderLook
    from gpuprov.machine.links import Link
    from gpuprov.machine.overlay.plan import OverlayRequest
    from gpuprov.machine.run_records import RunRecords
    from gpuprov.machine.survey import EngineDoor
    from gpuprov.shapes.choices import GpuMode
    from gpuprov.verify.models import Observation


class HostFolders(Protocol):
    """The folders of a machine that nodes mount."""

    def look(self, path: str) -> FolderLook:
        """What stands at an absolute path; follows no link and changes nothing."""

    def disk(self, path: str) -> Disk | None:
        """How full the disk of a folder is; None if unknown in time."""

    def usage(self, path: str) -> Usage:
        """Who uses the most of a folder that nodes share, as far as can be counted in a few seconds."""

    def make(self, path: str, *, owner: int, mode: int = 0o750) -> None:
        """Make a folder, and those above it that are missing, and give it to a user; an empty one of root is taken.

        Raises:
            HostNotReady: It cannot be made.
        """

    def drop(self, path: str) -> None:
        """Remove a folder in which there is nothing; no change if it is absent.

        Raises:
            HostNotReady: It has content, or cannot be removed.
        """

    def empty(self, path: str, *, owner: int) -> None:
        """Remove all that is in a folder, as the user to whom it belongs; no link is followed.

        Raises:
            GpuprovError: Something could not be removed.
        """

    def set_aside(self, path: str) -> None:
        """Take a folder out of the way, with all that is in it, in one step; `clear` removes it.

        Raises:
            HostNotReady: It cannot be.
        """

    def clear(self, path: str) -> None:
        """Remove what was set aside from this path, also by a run that was killed.

        Raises:
            GpuprovError: Something could not be removed.
        """

    def leave_marks(self, path: str, texts: Mapping[str, str]) -> None:
        """Leave small files in a folder, as the user to whom the folder belongs: by name what is in each.

        Raises:
            HostNotReady: That user cannot write there.
        """

    def read_mark(self, path: str, name: str) -> str:
        """What was left under a name, read as that user; empty where there is no such file.

        Raises:
            HostNotReady: That user cannot read there.
        """

    def remove_mark(self, path: str, name: str) -> None:
        """Remove what was left under a name; no change where there is no such file.

        Raises:
            HostNotReady: It cannot be.
        """


class HostOverlays(Protocol):
    """A machine's ends of overlays, which carry private networks from host to host."""

    def preview(self, request: OverlayRequest) -> tuple[str, ...]:
        """What `ensure` would do, one line for each change; raises what it would refuse."""

    def ensure(self, request: OverlayRequest) -> tuple[str, ...]:
        """Bring an end to the request; returns one line for each change.

        Raises:
            GpuprovError: The number or a name is taken, the bridge is missing, or the host refuses.
        """

    def remove(self, cluster: str) -> tuple[str, ...]:
        """Remove a cluster's end; returns one line for each link, none where there is none."""

    def look(
        self, request: OverlayRequest, hosts: Mapping[str, str], *, overhead: int, untried: Collection[str]
    ) -> dict[str, Any]:
        """What `verify` looks at of an end, and of the way to the other hosts, by name; `untried` get no ping."""

    def find_key(self, cluster: str) -> str:
        """The host's public key for a cluster's encrypted overlay; empty where it has none."""

    def ensure_key(self, cluster: str) -> str:
        """The same; a key is made if there is none.

        Raises:
            HostNotReady: The host cannot encrypt.
        """

    def underlay_mtu(self, local: str) -> int:
        """The MTU of the link that has an address.

        Raises:
            HostNotReady: The host does not have it.
        """


class Host(Protocol):
    """A machine that runs nodes. LocalHost (local.py) is this one; tests have one of their own."""

    @property
    def name(self) -> str:
        """By which leases, nodes, rows, reports and documents name it."""

    @property
    def root(self) -> Path:
        """Where its /proc, /sys, /dev, /etc and /usr are looked up."""

    @property
    def engines(self) -> tuple[EngineDoor, ...]:
        """How each engine that gpuprov drives is reached there, installed or not."""

    @property
    def queue(self) -> Queue:
        """Who waits for its GPUs."""

    @property
    def run_records(self) -> RunRecords:
        """What containers of `gpuprov run` had there."""

    def container_leases(self) -> tuple[Lease, ...]:
        """What containers hold there that are no nodes and run by gpuprov's OCI runtime."""

    @property
    def folders(self) -> HostFolders:
        """Its folders that nodes mount."""

    @property
    def overlays(self) -> HostOverlays:
        """Its ends of overlays."""

    def open(self, engine: str) -> Driver:
        """Connect to one of its engines.

        Raises:
            UsageError: There is no engine of that name.
            HostNotReady: It is not installed, not running, or this user may not use it.
        """

    def gpus(self, mode: GpuMode) -> HostGpus:
        """Its GPUs, real or simulated.

        Raises:
            HostNotReady: Mode `real` finds none, or the driver does not work.
            UsageError: GPUPROV_SIMULATED_GPUS is not a number of GPUs.
        """

    def all_gpus(self, mode: GpuMode) -> HostGpus:
        """The same, with every simulated GPU there can be: a node may hold one that this user does not count."""

    def links(self) -> tuple[Link, ...] | None:
        """The IPv4 networks in use there; None if unknown."""

    def interfaces(self) -> tuple[str, ...]:
        """Names of its network interfaces, those without an address too."""

    def limits(self) -> Mapping[str, int | None]:
        """The kernel's limits that all nodes share, by check; None where one cannot be read."""

    def answers(self, address: str, bridge: str) -> bool:
        """Whether something on a bridge answers at an address."""

    def listener(self, address: str, port: int) -> str | None:
        """Who listens on a TCP port at an address of its own, in words; None where the port is free there."""

    def look(self, simulation: Mapping[str, Any] | None) -> Observation:
        """What `verify` looks at on the host itself; `simulation` is what its simulated NVML answers, if it has one."""

    def called(self, name: str) -> Host:
        """The same host under the name by which another machine knows it."""

    def lock(self, reporter: Reporter) -> AbstractContextManager[None]:
        """Hold the lock that every writer on this host takes."""

    def image_lock(self, reporter: Reporter) -> AbstractContextManager[None]:
        """Hold the lock that every image build on this host takes; never to be waited for under the other one."""

    def image_lock_if_free(self) -> AbstractContextManager[bool]:
        """Hold it for the block unless another run has it; tells which."""

    def afresh(self) -> Host:
        """The same host after minutes without its lock: the lock calls `check` in any case."""

    def checked(self, check: Callable[[], object]) -> Host:
        """The same host, whose lock calls `check` first where another run had to be waited for."""
