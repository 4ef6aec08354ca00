"""The parts of a bundle that come from the host: versions, facts, findings and logs; none needs an engine."""

from __future__ import annotations

import platform
import re
import sys
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING

from gpuprov import __version__
from gpuprov.core.bundle_parts import as_json, read_end
from gpuprov.core.reporter import Silent
from gpuprov.drivers.registry import REGISTRY
from gpuprov.machine.examine import examine_host
from gpuprov.machine.record import take_record
from gpuprov.machine.system_logs import read_kernel_lines, read_unit_journal
from gpuprov.shapes.base import write
from gpuprov.shapes.bundle import Versions
from gpuprov.shapes.cluster_spec import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from gpuprov.machine.base import Host
    from gpuprov.shapes.choices import Engine

RUN_LOGS = 50
PACKAGES = ("pylxd", "docker", "ansible-core", "ansible-runner", "click", "jinja2", "msgspec", "pyyaml", "nvidia-ml-py")
# Lines of the kernel's log that tell of GPUs, nodes and what they run out of.
KERNEL_LINES = re.compile(
    "|".join(["NVRM|nvidia|oom|out of memory|lxc|apparmor|btrfs|neighbou?r|overlay", *REGISTRY]), re.IGNORECASE
)


def host_parts(host: Host, engines: Iterable[Engine], *, root: Path, run_logs: Path) -> dict[str, Callable[[], str]]:
    """Each part's name and how to collect it; the findings are those for these engines."""
    parts: dict[str, Callable[[], str]] = {
        "versions.json": lambda: as_json(write(_versions(_system(root), host=host.name))),
        "record.json": lambda: as_json(take_record(root)),
        "host/kernel.txt": lambda: pick_kernel_lines(read_kernel_lines(root)),
    }
    for engine in engines:
        parts[f"doctor-{engine}.json"] = partial(_findings, host, engine)
    if (root / "run/systemd/system").is_dir():
        parts["host/journal.txt"] = _journal
    for log in (root / name for entry in REGISTRY.values() for name in entry.logs):
        if _may_be_there(log):
            parts[f"host/{log.name}"] = partial(read_end, log)
    for log in sorted(run_logs.glob("*.log"))[-RUN_LOGS:]:
        parts[f"runs/{log.name}"] = partial(read_end, log)
    return parts


def _may_be_there(path: Path) -> bool:
    """Whether a file is there; one in a folder that this user may not enter is named as missing."""
    try:
        return path.exists()
    except OSError:
        return True


def pick_kernel_lines(text: str) -> str:
    """The lines of the kernel's log that concern GPUs and nodes; what else the machine does stays out."""
    return "".join(f"{line}\n" for line in text.splitlines() if KERNEL_LINES.search(line))


def _findings(host: Host, engine: Engine) -> str:
    return as_json(write(examine_host(host, Silent(), spec=ClusterSpec(engine=engine))))


def _versions(system: str | None, *, host: str) -> Versions:
    """What runs here; `system` is what the host's release calls itself."""
    return Versions(
        host=host,
        gpuprov=__version__,
        python=sys.version,
        packages={package: _version(package) for package in PACKAGES},
        kernel=platform.release(),
        machine=platform.machine(),
        system=system,
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _system(root: Path) -> str | None:
    release = (root / "etc/os-release").read_text(encoding="utf-8", errors="replace")
    name = re.search(r'^PRETTY_NAME="?([^"\n]*)', release, re.MULTILINE)
    return name[1] if name else None


def _journal() -> str:
    return read_unit_journal([unit for entry in REGISTRY.values() for unit in entry.units])
