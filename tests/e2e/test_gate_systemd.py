"""The runtime where systemd makes the cgroups: a machine of Debian 12 with cgroup v2, Docker and runc 1.1.5."""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.machine import namespaced
from tests.own_docker import write_image

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.machine import Machine
    from tests.e2e.places import Place

pytestmark = pytest.mark.long
IMAGE = "gpte-systemd"
NAME = "train"
# There is no driver behind the device: who may open it is told so, and who may not is refused.
OPENED = "No such device or address"
OPEN_AGAIN = "while :; do head -c1 /dev/nvidia0; head -c1 /dev/nvidiactl; sleep 0.1; done"


@pytest.fixture(scope="module")
def machine(
    gpuprov: Gpuprov,  # noqa: ARG001 - root
    place: Place,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("machine")
    with namespaced(place, folder, "docker.io") as made:
        prepare(made, folder)
        yield made
    shutil.rmtree(folder)


def prepare(machine: Machine, folder: Path) -> None:
    """With an image, and the runtime as its Docker's default."""
    packed = shutil.make_archive(str(folder / "image"), "tar", write_image(folder / IMAGE))
    machine.run("docker", "import", "-", IMAGE, stdin=Path(packed).read_bytes())
    machine.run("gpuprov", "gate", "up", "--default")
    machine.run("systemctl", "restart", "docker")


def logs(machine: Machine) -> list[str]:
    return machine.run("sh", "-c", f"docker logs {NAME} 2>&1").splitlines()


def has_said(machine: Machine, lines: int) -> bool:
    return len(logs(machine)) > lines


def test_a_gpu_stays_when_systemd_reads_its_units_again(machine: Machine) -> None:
    """runc before 1.1.7 does not tell systemd of devices that are not below /dev/char, as those of NVIDIA."""
    assert "systemd 2" in machine.run("docker", "info", "--format", "{{.CgroupDriver}} {{.CgroupVersion}}")
    machine.run("docker", "run", "-d", "--name", NAME, "--gpus", "1", IMAGE, "sh", "-c", OPEN_AGAIN)
    number = machine.run("docker", "inspect", "--format", "{{.Id}}", NAME).strip()
    scope = f"docker-{number}.scope"
    allowed = machine.run("systemctl", "show", "--property", "DeviceAllow", scope)
    assert re.findall(r"/dev/char/195:.*", allowed) == ["/dev/char/195:255 rw", "/dev/char/195:0 rw"]
    for command in (
        ("daemon-reload",),
        ("restart", "systemd-journald"),
        ("set-property", "--runtime", scope, "TasksMax=100"),
        ("daemon-reexec",),
    ):
        machine.run("systemctl", *command)
        before = len(logs(machine))
        machine.wait_for(partial(has_said, machine, before + 4), within_s=20)
    said = logs(machine)
    assert {line.rpartition(": ")[2] for line in said} == {OPENED}
    machine.run("docker", "rm", "-f", NAME)
