from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.gpu.device_nodes import NodeStat
from gpuprov.gpu.nvml import read_nvml
from gpuprov.gpu.observe import observe
from gpuprov.gpu.simulate import SimulatedNvml

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.gpu.models import HostGpus
    from gpuprov.gpu.nvml import NvmlReading
    from gpuprov.shapes.choices import GpuMode

VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs)\n"
HOSTS = Path(__file__).parents[2] / "data" / "hosts"


@dataclass(frozen=True)
class RecordedHost:
    """A folder of tests/data/hosts."""

    name: str

    @property
    def root(self) -> Path:
        return HOSTS / self.name / "root"

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((HOSTS / self.name / "nvml.json").read_text())
        return document

    @property
    def device_stats(self) -> dict[str, NodeStat]:
        found = json.loads((HOSTS / self.name / "dev.json").read_text())
        return {path: NodeStat(kind=kind, major=major, minor=minor) for path, (kind, major, minor) in found.items()}

    def read(self) -> NvmlReading:
        return read_nvml(SimulatedNvml(self.document))

    def observe(self, mode: GpuMode = "auto", read: Callable[[], NvmlReading] | None = None) -> HostGpus:
        return observe(root=self.root, mode=mode, read=read or self.read)


@pytest.fixture
def hung(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a host whose driver does not let go of who reads about its GPU."""
    monkeypatch.setattr("gpuprov.gpu.information.ANSWER_S", 0.3)
    folder = tmp_path / "hung/proc/driver/nvidia/gpus/0000:01:00.0"
    folder.mkdir(parents=True)
    (folder.parents[1] / "version").write_text(VERSION)
    os.mkfifo(folder / "information")
    return tmp_path / "hung"


@pytest.fixture
def recorded() -> Callable[[str], RecordedHost]:
    return RecordedHost
