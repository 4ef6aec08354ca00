from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuprov.core.errors import EngineError, HostNotReady
from gpuprov.drivers.docker import devices, files
from gpuprov.drivers.docker.api import DockerApi
from gpuprov.drivers.docker.frames import read_frames
from gpuprov.shapes.node import CharDevice

GPU = CharDevice(path="/dev/nvidia0", major=195, minor=0)


def test_what_docker_mounts_is_kept_by_node() -> None:
    script = files.apply_kept("u1")
    for path in ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf"):
        assert f"cat /var/lib/gpuprov/u1{path} > {path}" in script


def test_a_job_s_streams_are_told_apart() -> None:
    pieces = b"\1\0\0\0\0\0\0\3out\2\0\0\0\0\0\0\2er\1\0\0\0\0\0\0\1!\1\0"
    assert list(read_frames(io.BytesIO(pieces).read)) == [("stdout", b"out"), ("stderr", b"er"), ("stdout", b"!")]


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes devices")
def test_a_device_that_the_host_has_not_got_is_made_where_root_alone_looks(tmp_path: Path) -> None:
    paths = devices.ensure_host_devices([GPU], root=tmp_path)
    made = Path(paths["/dev/nvidia0"])
    assert made == tmp_path / "var/lib/gpuprov/devices/195-0-0666"
    assert made.stat().st_rdev == os.makedev(195, 0)
    assert stat.S_IMODE(made.stat().st_mode) == 0o666
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700
    before = made.stat().st_ino
    assert devices.ensure_host_devices([GPU], root=tmp_path) == paths
    assert made.stat().st_ino == before


def test_a_device_that_the_host_has_is_passed_itself() -> None:
    null = CharDevice(path="/dev/null", major=1, minor=3)
    assert devices.ensure_host_devices([null]) == {"/dev/null": "/dev/null"}


def test_a_device_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "var").write_text("no folder")
    with pytest.raises(HostNotReady) as caught:
        devices.ensure_host_devices([GPU], root=tmp_path)
    assert "/dev/nvidia0" in caught.value.what
    assert caught.value.fix


def test_errors_call_a_container_by_its_node_s_name() -> None:
    class Refusing:
        base_url, api_version = "http+docker://localhost", "1.41"

        def post(self, url: str, **_: object) -> SimpleNamespace:
            del url
            return SimpleNamespace(status_code=500, json=lambda: {"message": "no space left on device"})

    api = DockerApi(Refusing(), address="unix:///docker.sock")  # type: ignore[arg-type]
    identity = "ab" * 32
    with pytest.raises(EngineError, match="post /containers/abababababab/start"):
        api.post(f"/containers/{identity}/start")
    api.remember(identity, "c000")
    with pytest.raises(EngineError, match="post /containers/c000/start") as caught:
        api.post(f"/containers/{identity}/start")
    assert "docker system df" in caught.value.fix
