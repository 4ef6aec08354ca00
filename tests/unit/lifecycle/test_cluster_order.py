from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.core.reporter import Silent
from gpuprov.lifecycle.cluster_order import ClusterOrder, resolve_engine, resolve_spec
from tests.fakes.doors import door_of, door_without
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeEngine
from tests.fakes.host import FakeHost

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.gpu.models import HostGpus
    from gpuprov.shapes.choices import GpuMode


def no_gpus(_mode: GpuMode) -> HostGpus:
    raise AssertionError("nobody asks for GPUs here")


@pytest.mark.parametrize(
    ("said", "present", "chosen"),
    [
        ("", ("lxd", "incus", "docker"), "lxd"),
        ("", ("incus", "docker"), "incus"),
        ("engine: docker\n", ("incus", "docker"), "docker"),
        ("engine: incus\n", ("lxd", "incus"), "incus"),
    ],
)
def test_a_spec_that_does_not_say_its_engine_is_for_the_host_s_default_one(
    tmp_path: Path, said: str, present: tuple[str, ...], chosen: str
) -> None:
    doors = [door_without(name, installed=False) for name in ("lxd", "incus", "docker") if name not in present]
    for name in present:
        driver = FakeDriver(FakeEngine())
        driver.name = name
        doors.append(door_of(driver))
    host = FakeHost(folder=tmp_path, observe=no_gpus, engines=tuple(doors))
    file = tmp_path / "lab.yaml"
    file.write_text(f"version: gpuprov/v1\n{said}")
    assert resolve_engine(host, None, ClusterOrder(file=file), reporter=Silent()).name == chosen


def test_a_spec_with_hosts_is_refused_instead_of_made_here(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text("version: gpuprov/v1\nhosts: [{name: hoff}]\n")
    with pytest.raises(UsageError, match="works on one host only"):
        resolve_spec(FakeDriver(FakeEngine()), ClusterOrder(file=file))
