"""This machine."""

from __future__ import annotations

import os
import platform
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import UsageError
from gpuprov.core.group_files import Gates
from gpuprov.core.lock import host_lock, image_lock, image_lock_if_free
from gpuprov.core.queue import Queue
from gpuprov.drivers.registry import glance_at_nodes, is_installed, load_driver, open_driver
from gpuprov.drivers.sockets import engine_group, engine_groups
from gpuprov.machine.folders import LocalFolders
from gpuprov.machine.kernel_limits import LIMITS
from gpuprov.machine.survey import EngineDoor, open_in_time
from gpuprov.runtime.records import read_container_leases
from gpuprov.shapes.choices import ENGINES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.allocate import Lease
    from gpuprov.gpu.models import HostGpus
    from gpuprov.machine.links import Link
    from gpuprov.machine.overlay.end import LocalOverlays
    from gpuprov.machine.run_records import RunRecords
    from gpuprov.shapes.choices import GpuMode
    from gpuprov.verify.models import Observation

COUNT_VARIABLE = "GPUPROV_SIMULATED_GPUS"
SEED_VARIABLE = "GPUPROV_SIMULATED_SEED"
PROFILE_VARIABLE = "GPUPROV_GPU_PROFILE"
_SEED_DIGITS = 8


@dataclass(frozen=True, kw_only=True)
class LocalHost:
    """The machine that this process runs on.

    Attributes:
        root: Where /proc, /sys, /dev, /etc and /usr are looked up.
        environment: Says which simulated GPUs there are, how many, and what their UUIDs are made from.
        gpu_profile: Which simulated GPUs there are, where a user typed it.
        check: Called under the lock where another run had to be waited for, or always where `stale`.
        stale: Whether what was found before may be elsewhere by now.
        given_name: By which another machine knows it; its host name where empty.
    """

    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    check: Callable[[], object] = lambda: None
    stale: bool = False
    given_name: str = ""
    gpu_profile: str = ""

    @property
    def name(self) -> str:
        """Its host name, or what it is called."""
        return self.given_name or platform.node() or "localhost"

    @property
    def engines(self) -> tuple[EngineDoor, ...]:
        """Every engine that gpuprov drives."""
        return tuple(
            EngineDoor(
                name=name,
                open=partial(open_driver, name, host=self.name),
                installed=partial(is_installed, name),
                names=partial(glance_at_nodes, name),
                load=partial(load_driver, name),
            )
            for name in ENGINES
        )

    @property
    def queue(self) -> Queue:
        """Beside the lock."""
        return Queue(self._gates())

    @property
    def run_records(self) -> RunRecords:
        """For those who may use Docker, which alone has such containers."""
        from gpuprov.machine.run_records import RunRecords

        return RunRecords(group=engine_group("docker"))

    def container_leases(self) -> tuple[Lease, ...]:
        """From the records of the runtime."""
        return read_container_leases(root=self.root)

    @property
    def folders(self) -> LocalFolders:
        """Below its root."""
        return LocalFolders(self.root)

    @property
    def overlays(self) -> LocalOverlays:
        """As `ip` makes them."""
        from gpuprov.machine.overlay.end import LocalOverlays

        return LocalOverlays()

    def open(self, engine: str) -> Driver:
        """Connect to an engine of this machine."""
        for door in self.engines:
            if door.name == engine:
                return open_in_time(door)
        return open_driver(engine, host=self.name)  # which names those there are

    def gpus(self, mode: GpuMode) -> HostGpus:
        """As this user asks for them: GPUPROV_SIMULATED_GPUS says how many, where they are simulated."""
        found = self._observe(mode, self._simulated_count())
        if self.gpu_profile and not found.simulated:
            raise UsageError(
                f"--gpu-profile {self.gpu_profile} is about simulated GPUs, and those of this host are real",
                evidence=found.reason,
                fix=f"add --gpu-mode simulated, or omit --gpu-profile {self.gpu_profile}",
            )
        return found

    def all_gpus(self, mode: GpuMode) -> HostGpus:
        """With every simulated GPU there can be."""
        from gpuprov.gpu.simulated_hosts import SIMULATED_MAX

        return self._observe(mode, SIMULATED_MAX)

    def _observe(self, mode: GpuMode, count: int | None) -> HostGpus:
        from gpuprov.gpu.observe import observe

        profile = self.gpu_profile or self.environment.get(PROFILE_VARIABLE, "")
        return observe(root=self.root, mode=mode, simulated_count=count, profile=profile, seed=self._seed())

    def links(self) -> tuple[Link, ...] | None:
        """As `ip` shows them."""
        from gpuprov.machine.links import find_links

        return find_links()

    def interfaces(self) -> tuple[str, ...]:
        """As the kernel shows them."""
        from gpuprov.machine.links import find_interfaces

        return find_interfaces(self.root)

    def limits(self) -> Mapping[str, int | None]:
        """As /proc/sys shows them."""
        return {check: self._read_limit(limit.key) for check, limit in LIMITS.items()}

    def answers(self, address: str, bridge: str) -> bool:
        """Whether a neighbour on a bridge has an address."""
        from gpuprov.machine.links import answers

        return answers(address, bridge)

    def listener(self, address: str, port: int) -> str | None:
        """As the kernel's tables show it."""
        from gpuprov.machine.listeners import find_listener

        return find_listener(self.root, address, port)

    def look(self, simulation: Mapping[str, Any] | None) -> Observation:
        """At its driver, devices, libraries, NVML, kernel log and addresses."""
        from gpuprov.machine.look import look_at_host

        return look_at_host(simulation, root=self.root)

    def called(self, name: str) -> LocalHost:
        """Under another name; the seed of its simulated GPUs is that of its machine id."""
        return replace(self, given_name=name)

    @contextmanager
    def lock(self, reporter: Reporter) -> Iterator[None]:
        """One writer at a time."""
        with host_lock(reporter, gates=self._gates()) as waited:
            if waited or self.stale:
                self.check()
            yield

    @contextmanager
    def image_lock(self, reporter: Reporter) -> Iterator[None]:
        """One build at a time."""
        with image_lock(reporter, gates=self._gates()):
            yield

    def image_lock_if_free(self) -> AbstractContextManager[bool]:
        """For what a killed build left."""
        return image_lock_if_free(self._gates())

    def afresh(self) -> LocalHost:
        """With a check in each lock."""
        return replace(self, stale=True)

    def checked(self, check: Callable[[], object]) -> LocalHost:
        """With a check after each wait."""
        return replace(self, check=check)

    def _read_limit(self, key: str) -> int | None:
        """A limit by its name for sysctl; None where the kernel shows none."""
        try:
            text = (self.root / "proc/sys" / key.replace(".", "/")).read_text(encoding="ascii", errors="replace")
        except OSError:
            return None
        return int(text) if text.strip().isdigit() else None

    def _gates(self) -> Gates:
        return Gates(groups=engine_groups())

    def _simulated_count(self) -> int | None:
        text = self.environment.get(COUNT_VARIABLE, "")
        if not text:
            return None
        if not text.isdecimal():
            raise UsageError(
                f"{COUNT_VARIABLE}={text!r} is not a number of GPUs",
                evidence="allowed: a whole number",
                fix=f"unset {COUNT_VARIABLE}",
            )
        return int(text)

    def _seed(self) -> str:
        """What simulated UUIDs begin with, so that those of two hosts differ: from the machine's id."""
        given = self.environment.get(SEED_VARIABLE, "")
        if given:
            if len(given) != _SEED_DIGITS or not set(given) <= set("0123456789abcdef"):
                raise UsageError(
                    f"{SEED_VARIABLE}={given!r} cannot begin a UUID",
                    evidence=f"{_SEED_DIGITS} hexadecimal digits are needed, in lower case",
                    fix=f"unset {SEED_VARIABLE}",
                )
            return given
        from gpuprov.gpu.observe import read_seed

        return read_seed(self.root, name=platform.node())
