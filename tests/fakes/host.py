"""A host for tests: what LocalHost reads from this machine is said here."""

from __future__ import annotations

from base64 import b64encode
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from random import randbytes
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import HostNotReady
from gpuprov.core.group_files import Gates
from gpuprov.core.lock import host_lock, image_lock, image_lock_if_free
from gpuprov.core.queue import Queue
from gpuprov.core.reporter import Silent
from gpuprov.fleet.fleet import Fleet
from gpuprov.machine.kernel_limits import LIMITS
from gpuprov.machine.overlay.links import alias_of
from gpuprov.machine.run_records import RunRecords
from gpuprov.verify.models import Observation
from tests.fakes.doors import door_of
from tests.fakes.folders import FakeFolders
from tests.fakes.places import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.allocate import Lease
    from gpuprov.gpu.models import HostGpus
    from gpuprov.link.hosts import Hosts
    from gpuprov.machine.base import Host
    from gpuprov.machine.links import Link
    from gpuprov.machine.overlay.plan import OverlayRequest
    from gpuprov.machine.survey import EngineDoor
    from gpuprov.shapes.choices import GpuMode
    from tests.fakes.world import World


@dataclass
class FakeOverlays:
    """Ends of overlays, by cluster.

    Attributes:
        whole: Whether what other hosts are sent reaches them in one piece.
    """

    there: dict[str, OverlayRequest] = field(default_factory=dict)
    mtu: int = 1500
    whole: bool = True
    keys: dict[str, str] = field(default_factory=dict)

    def preview(self, request: OverlayRequest) -> tuple[str, ...]:
        return () if self.there.get(request.cluster) == request else (f"set overlay {request.device}",)

    def ensure(self, request: OverlayRequest) -> tuple[str, ...]:
        lines = self.preview(request)
        self.there[request.cluster] = request
        return lines

    def remove(self, cluster: str) -> tuple[str, ...]:
        self.keys.pop(cluster, None)
        found = self.there.pop(cluster, None)
        return (f"remove overlay {found.device}",) if found else ()

    def look(
        self, request: OverlayRequest, hosts: Mapping[str, str], *, overhead: int, untried: Collection[str]
    ) -> dict[str, Any]:
        found = self.there.get(request.cluster)
        wanted = {
            **{name: getattr(request, name) for name in ("device", "parent", "vni", "port", "local", "mtu")},
            "alias": alias_of(request.cluster),
            "overhead": overhead,
            "peers": dict(hosts),
        }
        link = {"alias": alias_of(request.cluster), "up": True, "mtu": request.mtu}
        device = {**link, "vni": request.vni, "port": request.port, "local": request.local, "master": request.parent}
        full = "answers" if self.whole else "silent"
        return {
            "wanted": wanted,
            "device": device if found else None,
            "parent": link,
            "underlay_mtu": self.mtu,
            "peers": list(found.peers) if found else [],
            "echoes": {host: {"small": "answers", "full": full} for host in hosts if host not in untried},
        }

    def find_key(self, cluster: str) -> str:
        return self.keys.get(cluster, "")

    def ensure_key(self, cluster: str) -> str:
        return self.keys.setdefault(cluster, b64encode(randbytes(32)).decode())

    def underlay_mtu(self, local: str) -> int:
        assert local
        return self.mtu


@dataclass(kw_only=True)
class FakeHost:
    """A host that is what its attributes say.

    Attributes:
        folder: For its lock and its queue.
        observe: Tells its GPUs.
        network: The links that `links` tells.
        more_interfaces: Names beside those of the links.
        answering: Addresses at which something answers.
        listening: Who listens on a port.
        kernel: Limits other than plenty, by check.
        check: Called under the lock where another run had to be waited for, or always where `stale`.
        stale: Whether what was found before may be elsewhere by now.
        folders: Those that nodes mount.
        overlays: Its ends of overlays.
        looks: What `verify` sees of it.
        containers: What containers hold that are no nodes.
    """

    folder: Path
    observe: Callable[[GpuMode], HostGpus]
    name: str = "here"
    root: Path = NOWHERE
    engines: tuple[EngineDoor, ...] = ()
    network: list[Link] = field(default_factory=list)
    more_interfaces: list[str] = field(default_factory=list)
    answering: set[str] = field(default_factory=set)
    listening: dict[int, str] = field(default_factory=dict)
    kernel: dict[str, int | None] = field(default_factory=dict)
    check: Callable[[], object] = lambda: None
    stale: bool = False
    folders: FakeFolders = field(default_factory=FakeFolders)
    overlays: FakeOverlays = field(default_factory=FakeOverlays)
    looks: Callable[[Mapping[str, Any] | None], Observation] = lambda _document: Observation(problem="not looked at")
    containers: tuple[Lease, ...] = ()

    @property
    def queue(self) -> Queue:
        return Queue(Gates(folder=self.folder))

    @property
    def run_records(self) -> RunRecords:
        return RunRecords(folder=self.folder / "runs")

    def open(self, engine: str) -> Driver:
        for door in self.engines:
            if door.name == engine:
                return door.open()
        raise HostNotReady(f"{engine} is not installed", evidence="a fake host", fix="sudo gpuprov host prepare")

    def gpus(self, mode: GpuMode) -> HostGpus:
        return self.observe(mode)

    def all_gpus(self, mode: GpuMode) -> HostGpus:
        return self.observe(mode)

    def links(self) -> tuple[Link, ...]:
        return tuple(self.network)

    def interfaces(self) -> tuple[str, ...]:
        return (*(link.interface for link in self.network), *self.more_interfaces)

    def limits(self) -> dict[str, int | None]:
        return {check: limit.least for check, limit in LIMITS.items()} | self.kernel

    def answers(self, address: str, bridge: str) -> bool:
        assert bridge
        return address in self.answering

    def listener(self, address: str, port: int) -> str | None:
        assert address
        return self.listening.get(port)

    def look(self, simulation: Mapping[str, Any] | None) -> Observation:
        return self.looks(simulation)

    def called(self, name: str) -> FakeHost:
        def connect(door: EngineDoor) -> Any:
            driver: Any = door.open()
            driver.host = name
            return driver

        doors = tuple(replace(door, open=partial(connect, door)) for door in self.engines)
        return replace(self, name=name, engines=doors)

    def container_leases(self) -> tuple[Lease, ...]:
        return self.containers

    @contextmanager
    def lock(self, reporter: Reporter) -> Iterator[None]:
        with host_lock(reporter, gates=Gates(folder=self.folder)) as waited:
            if waited or self.stale:
                self.check()
            yield

    @contextmanager
    def image_lock(self, reporter: Reporter) -> Iterator[None]:
        with image_lock(reporter, gates=Gates(folder=self.folder)):
            yield

    def image_lock_if_free(self) -> AbstractContextManager[bool]:
        return image_lock_if_free(Gates(folder=self.folder))

    def afresh(self) -> FakeHost:
        return replace(self, stale=True)

    def checked(self, check: Callable[[], object]) -> FakeHost:
        return replace(self, check=check)


def fleet_of(host: Host) -> Fleet:
    """A machine to which no other one was added."""
    return Fleet(here=host, others={}, connect=_connect_nowhere, reporter=Silent())


def one_host(world: World, driver: Driver) -> Fleet:
    """The machine of a world, whose engine is reached by this driver."""
    host = replace(world.host, engines=(door_of(driver),))
    return replace(fleet_of(host), reporter=world.reporter)


def _connect_nowhere() -> Hosts:
    raise AssertionError("no host was added")
