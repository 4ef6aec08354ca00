"""The runtime under podman and under containerd without Docker: leases beside those of Docker's containers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.waiting import Wait
from gpuprov.machine.runtime_program import program_for
from gpuprov.runtime.records import read_records
from tests.own_docker import own_docker, write_image

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.own_docker import OwnDocker

IMAGE = "gpte-elsewhere"
GPUS = 4
LIMIT_S = 60.0
# Rights of this machine's root may be less than podman's defaults.
LIMITS = ("--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000")
Run = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def gate(docker: object) -> Iterator[OwnDocker]:  # noqa: ARG001 - it is installed
    """A Docker whose runtime the others use."""
    with own_docker() as one:
        one.load_image(IMAGE)
        one.gpuprov("gate", "up")
        one.only_itself()
        yield one


@pytest.fixture(scope="module")
def podman(gate: OwnDocker) -> Iterator[Callable[..., Run]]:
    """Its own images and containers, with the runtime."""
    if shutil.which("podman") is None:
        assert not os.environ.get("CI"), "CI must have podman (make podman)"
        pytest.skip("needs podman (make podman)")
    rootfs = write_image(gate.folder / "for-podman")
    archive = gate.folder / "podman.tar"
    subprocess.run(["tar", "-C", str(rootfs), "-cf", str(archive), "."], check=True)
    places = ("--root", f"{gate.folder}/podman", "--runroot", f"{gate.folder}/podman-run", "--events-backend", "none")
    runtime = ("--cgroup-manager", "cgroupfs", "--runtime", program_for(gate.socket).places["gpuprov"])

    def run(*argv: str) -> Run:
        return inside(gate, "podman", *places, *runtime, *argv)

    assert run("import", str(archive), IMAGE).returncode == 0
    yield run
    run("rm", "-af", "-t", "0")


def inside(one: OwnDocker, *command: str) -> Run:
    enter = ("nsenter", "--target", str(one.spaces), "--net", "--mount")
    return subprocess.run([*enter, *command], capture_output=True, text=True, check=False, timeout=LIMIT_S)


def held(one: OwnDocker) -> dict[str, int]:
    """How many GPUs containers of an engine hold."""
    records = read_records(root=one.root)
    return {
        engine: sum(len(one.gpus) for one in records if one.engine == engine) for engine in {r.engine for r in records}
    }


def devices(text: str) -> list[str]:
    return [name for name in text.split() if "nvidia" in name and name != "nvidiactl"]


def test_podman_s_containers_lease_gpus(gate: OwnDocker, podman: Callable[..., Run]) -> None:
    assert podman("run", "-d", "--name", "pone", *LIMITS, "-e", "GPUPROV_GPUS=3", IMAGE, "sleep", "100").returncode == 0
    assert held(gate) == {"podman": 3}
    assert devices(podman("exec", "pone", "ls", "/dev").stdout) == ["nvidia0", "nvidia1", "nvidia2"]
    refused = podman("run", "--rm", *LIMITS, "-e", "GPUPROV_GPUS=2", IMAGE, "true")
    assert "not enough GPUs" in refused.stderr
    asked = podman("run", "--rm", *LIMITS, "--annotation", "gpuprov.gpus=1", IMAGE, "ls", "/dev")
    assert devices(asked.stdout) == ["nvidia3"]
    of_docker = ("run", "-d", "--name", "dock", "--network", "none", "--runtime", "gpuprov", "-e", "GPUPROV_GPUS=1")
    assert gate.docker(*of_docker, IMAGE, "sleep", "100").returncode == 0
    assert podman("restart", "-t", "0", "pone").returncode == 0
    assert held(gate) == {"podman": 3, "docker": 1}
    told = gate.told("gpus")
    engines = [one["engine"] for gpu in told["gpus"] for one in gpu["holders"] if one["cluster"] == "(containers)"]
    assert sorted(engines) == ["docker", *["podman"] * 3]
    podman("rm", "-f", "-t", "0", "pone")
    assert held(gate) == {"docker": 1}
    gate.docker("rm", "-f", "dock")


CRUN = """\
#!/bin/sh
export LD_LIBRARY_PATH={folder}/usr/lib/x86_64-linux-gnu
exec {folder}/usr/bin/crun "$@"
"""


@pytest.fixture
def crun(gate: OwnDocker) -> Iterator[None]:
    """Debian's crun below the runtime, in place of runc. It is not installed: podman would take it for others too."""
    folder = gate.folder / "crun"
    folder.mkdir()
    subprocess.run(["apt-get", "-qq", "download", "crun", "libyajl2"], cwd=folder, check=True, timeout=LIMIT_S)
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "--extract", str(package), str(folder)], check=True)
    program = folder / "crun"
    program.write_text(CRUN.format(folder=folder))
    program.chmod(0o755)
    inside(gate, "umount", "--lazy", "/sys/fs/cgroup/unified")  # it runs with one version of cgroups, not with both
    front = Path(program_for(gate.socket).places["gpuprov"])
    text = front.read_text()
    front.write_text(re.sub("^RUNC=.*", f"RUNC={program}", text, flags=re.MULTILINE))
    yield
    front.write_text(text)


@pytest.mark.long
def test_with_crun_below_gpus_are_held_as_well(gate: OwnDocker, podman: Callable[..., Run], crun: None) -> None:  # noqa: ARG001
    """It keeps its state in another place and form, and podman does not say where."""
    asking = ("run", "-d", *LIMITS, "-e", "GPUPROV_GPUS=3", "--name")
    assert podman(*asking, "pone", IMAGE, "sleep", "100").returncode == 0
    assert held(gate) == {"podman": 3}
    assert "not enough GPUs" in podman(*asking, "ptwo", IMAGE, "sleep", "100").stderr
    assert gate.begin("dock", "-e", "GPUPROV_GPUS=1").returncode == 0
    assert podman("restart", "-t", "0", "pone").returncode == 0
    assert held(gate) == {"podman": 3, "docker": 1}
    assert devices(podman("exec", "pone", "ls", "/dev").stdout) == ["nvidia0", "nvidia1", "nvidia2"]
    podman("rm", "-af", "-t", "0")
    gate.docker("rm", "-f", "dock")
    assert held(gate) == {}


def test_containerd_s_containers_lease_gpus(gate: OwnDocker) -> None:
    rootfs = write_image(gate.folder / "for-containerd")
    ctr = ("ctr", "--address", f"{gate.folder}/c.sock", "run", "--rootfs")
    runtime = ("--runc-binary", program_for(gate.socket).places["gpuprov"], "--env")
    done = inside(gate, *ctr, "--rm", *runtime, "GPUPROV_GPUS=1", str(rootfs), "cone", "/bin/ls", "/dev")
    assert devices(done.stdout) == ["nvidia0"], done.stderr
    detached = inside(
        gate, *ctr, "-d", "--null-io", *runtime, f"GPUPROV_GPUS={GPUS}", str(rootfs), "ctwo", "/bin/sleep", "100"
    )
    assert detached.returncode == 0, detached.stderr
    assert held(gate) == {"container": GPUS}
    refused = inside(gate, *ctr, "--rm", *runtime, "GPUPROV_GPUS=1", str(rootfs), "cthree", "/bin/true")
    assert "not enough GPUs" in refused.stderr
    inside(gate, *ctr[:3], "task", "rm", "-f", "ctwo")
    inside(gate, *ctr[:3], "container", "rm", "ctwo")
    Wait(what="the lease to end", timeout_s=LIMIT_S, fix="ls /run/gpuprov/leases").until(
        lambda: held(gate), lambda seen: not seen
    )
