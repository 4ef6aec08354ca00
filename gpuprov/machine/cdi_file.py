"""The file by which CDI's engines know this host's GPUs: written, and written anew once they have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import GpuprovError, HostNotReady
from gpuprov.core.whole_file import replace_file
from gpuprov.gpu.access import CDI_FILE, CDI_KIND
from gpuprov.gpu.cdi_files import FOLDERS, read_cdi_files
from gpuprov.gpu.cdi_spec import SIMULATED_KIND, make_cdi_spec, render_cdi_spec

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.core.reporter import Reporter
    from gpuprov.gpu.models import HostGpus
    from gpuprov.machine.base import Host
    from gpuprov.shapes.cdi import CdiSpec
    from gpuprov.shapes.choices import GpuMode

WRITE: Final = "sudo gpuprov cdi --write"


def write_cdi_file(root: Path, spec: CdiSpec) -> tuple[str, ...]:
    """Make or replace the file in one step; returns a line for what changed.

    Raises:
        HostNotReady: Another file describes devices of the same kind, or it cannot be written.
    """
    path = root / CDI_FILE
    others = [other for other in read_cdi_files((root / folder for folder in FOLDERS), spec.kind) if other != path]
    if others:
        named = ", ".join(f"/{other.relative_to(root)}" for other in others)
        raise HostNotReady(
            f"another CDI file describes {spec.kind}: engines refuse a device that two files describe",
            evidence=named,
            fix=f"use that file, or remove it and what writes it: sudo systemctl disable --now nvidia-cdi-refresh.path "
            f"nvidia-cdi-refresh.service; sudo rm {' '.join(named.split(', '))}; {WRITE}",
        )
    text = render_cdi_spec(spec)
    if _read(path) == text:
        return ()
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        replace_file(path, text, mode=0o644)  # by a draft whose name no engine reads
    except OSError as error:
        raise HostNotReady(f"/{CDI_FILE} cannot be written", evidence=str(error), fix=WRITE) from error
    return (f"wrote /{CDI_FILE} with {len(spec.devices)} names of {spec.kind}",)


def renew_cdi_file(host: Host, *, reporter: Reporter, mode: GpuMode = "real") -> tuple[str, ...]:
    """Write the file anew where one for such GPUs is there and they have changed, say after a driver's upgrade.

    What cannot be told of the GPUs (yet) is a warning, and the file stays as it is.
    """
    there = _read(host.root / CDI_FILE) or ""
    if not any(kind in there for kind in ((CDI_KIND,) if mode == "real" else (CDI_KIND, SIMULATED_KIND))):
        return ()
    try:
        spec = make_cdi_spec(host.gpus(mode))
        return write_cdi_file(host.root, spec) if spec.kind in there else ()
    except GpuprovError as error:
        reporter.warn(f"/{CDI_FILE} stays as it is: {error.what}: {error.evidence}; {error.fix}")
        return ()


def is_outdated(root: Path, gpus: HostGpus) -> bool:
    """Whether the file is there and describes other GPUs, or another driver, than there are."""
    there = _read(root / CDI_FILE)
    if there is None or CDI_KIND not in there or gpus.simulated:
        return False
    try:
        return there != render_cdi_spec(make_cdi_spec(gpus))
    except GpuprovError:  # other findings say what is missing
        return False


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
