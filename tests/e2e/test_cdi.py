"""`cdi --write` with podman: a container gets the GPUs that it names, and can open no other one.

Docker reads such files from 25 on; that of Debian 12 is 20.10.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.conftest import Gpuprov

FILE = Path("/etc/cdi/gpuprov.json")
PROGRAMS = ("dash", "mknod", "ls")
PROFILE = ("--gpu-mode", "simulated", "--gpu-profile", "t4x2")
# Rights of this machine's root may be less than podman's defaults.
PODMAN = ("podman", "run", "--rm", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000")


@pytest.fixture
def names(gpuprov: Gpuprov) -> Iterator[list[str]]:
    """What can be asked for, while the file is there; one of this machine's own is put back."""
    if shutil.which("podman") is None:
        assert not os.environ.get("CI"), "CI must have podman (make podman)"
        pytest.skip("needs podman (make podman)")
    before = FILE.read_bytes() if FILE.exists() else None
    document = gpuprov("--json", "cdi", *PROFILE).document
    assert gpuprov("cdi", "--write", *PROFILE).stdout.startswith(f"wrote {FILE}")
    assert gpuprov("cdi", "--write", *PROFILE).stdout == "unchanged\n"
    try:
        yield [device["name"] for device in document["spec"]["devices"]]
    finally:
        FILE.unlink()
        if before is not None:
            FILE.write_bytes(before)


@pytest.fixture
def root(tmp_path: Path, host: Callable[..., str]) -> Path:
    """A file system with three programs."""
    for folder in ("bin", "dev", "etc", "proc", "run", "sys", "tmp"):
        (tmp_path / folder).mkdir()
    for program in PROGRAMS:
        shutil.copy(f"/bin/{program}", tmp_path / "bin")
        for library in re.findall(r"(/\S+) \(0x", host("ldd", f"/bin/{program}")):
            there = tmp_path / library.lstrip("/")
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, there)
    return tmp_path


def test_a_container_opens_the_gpus_that_it_names_and_no_other(
    names: list[str], root: Path, host: Callable[..., str]
) -> None:
    def run(device: str, script: str) -> str:
        capability = ("--cap-add", "MKNOD")  # the devices' rights alone are to keep it from others
        argv = (*PODMAN, *capability, "--device", f"gpuprov.sim/gpu={device}", "--rootfs", str(root))
        return host(*argv, "/bin/dash", "-c", f"exec 2>&1; {script}; :")

    assert [name for name in names if not name.startswith("GPU-")] == ["0", "1", "all"]
    for name, devices in {"0": [0], "1": [1], names[2]: [0], names[3]: [1], "all": [0, 1]}.items():
        seen = run(name, "ls /dev").split()
        assert [path for path in seen if re.fullmatch(r"nvidia\d+", path)] == [f"nvidia{n}" for n in devices]
        assert "nvidiactl" in seen
    opened = run("1", "(: <>/dev/nvidia1); (: <>/dev/nvidiactl); mknod /tmp/other c 195 0 && (: <>/tmp/other)")
    assert opened.count("No such device or address") == 2, "the kernel lets it open them, and no driver is behind them"
    assert opened.count("Operation not permitted") == 1
    assert run("0", "echo $NVIDIA_VISIBLE_DEVICES") == "void\n"
