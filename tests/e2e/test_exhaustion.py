"""What runs out: disks, addresses, limits, mirrors. A clear error in bounded time, and then recovery."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.request import build_opener

import pytest

from gpuprov.core.errors import EngineError, GpuprovError, HostNotReady
from gpuprov.core.waiting import Wait
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_FINGERPRINT, LABEL_VERSION, File, NodeRequest
from gpuprov.drivers.registry import open_driver
from gpuprov.provision.kept_bases import Base
from gpuprov.provision.kept_packages import kept_packages
from gpuprov.provision.rootfs import ensure_rootfs
from gpuprov.provision.wheels import ensure_wheels
from tests.contract.engines import write_rootfs
from tests.e2e.conftest import output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuprov.drivers.base import Driver
    from tests.e2e.conftest import Finished, Gpuprov
    from tests.e2e.places import Place

MIB = 1024**2
BASE = Base(suite="bookworm", packages=("systemd",))
QUICK_S = 20.0  # what "bounded" means where nothing has to be waited for


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of that size, mounted there."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def mounted_over(path: str, size: str) -> tuple[str, ...]:
    """A command's beginning: it alone sees a small disk at that path."""
    line = f'mount -t tmpfs -o size={size} none {path} && exec "$@"'
    return ("unshare", "--mount", "sh", "-c", line, "sh")


def has_three_parts(finished: Finished, started: float) -> None:
    assert time.monotonic() - started < QUICK_S
    for mark in ("error: ", "evidence: ", "fix: "):
        assert f"\n{mark}" in f"\n{finished.stderr}", finished.all


# --- disks


def test_a_full_folder_of_temporary_files(gpuprov: Gpuprov, tmp_path: Path) -> None:
    started = time.monotonic()
    with small_disk(tmp_path / "tmp", "64k") as folder:
        refused = gpuprov("host", "prepare", expect=3, variables={"TMPDIR": str(folder)})
        assert "a disk of this machine is full" in refused.stderr
        assert f"df -h {folder}" in refused.stderr
        assert list(folder.iterdir()) == []
    has_three_parts(refused, started)
    gpuprov("host", "prepare")


def test_no_room_for_what_an_image_is_built_from(gpuprov: Gpuprov, cluster: Finished) -> None:  # noqa: ARG001
    build = ("image", "build", "--role", "plain", "--package", "tree", "--gpu-mode", "simulated")
    started = time.monotonic()
    refused = gpuprov(*build, expect=3, before=mounted_over("/var/cache/gpuprov", "1M"))
    assert "not enough disk space to build an image" in refused.stderr
    assert "df -h /var/cache/gpuprov" in refused.stderr
    has_three_parts(refused, started)


@contextmanager
def daemon(*argv: str, **variables: str) -> Iterator[None]:
    """An engine of the tests' own, beside the machine's."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, **variables}
    with subprocess.Popen(argv, env=environment, start_new_session=True, **quiet) as process:  # type: ignore[call-overload]
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=30)


@pytest.fixture
def small_lxd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """A second LXD whose only pool has 400 MiB."""
    folder = tmp_path / "lxd"
    folder.mkdir()
    monkeypatch.setenv("LXD_DIR", str(folder))
    with daemon("lxd", "--group", "root", "--logfile", str(tmp_path / "lxd.log"), LXD_DIR=str(folder)):
        output("lxd", "waitready", "--timeout", "30")
        output("lxc", "storage", "create", "small", "btrfs", "size=400MiB")
        yield open_driver("lxd")
    for place in ("devlxd", "shmounts", "storage-pools/small"):
        subprocess.run(["umount", "--lazy", str(folder / place)], check=False, capture_output=True)


@pytest.fixture
def small_docker(docker: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:  # noqa: ARG001 - it is installed
    """A second Docker whose only disk has 100 MiB, and which leaves the host's network alone."""
    with TemporaryDirectory(prefix="gpuprov") as name:  # paths of sockets are short
        folder = Path(name)
        places = ("--data-root", f"{folder}/disk", "--exec-root", f"{folder}/run", "--pidfile", f"{folder}/pid")
        alone = ("--bridge", "none", "--iptables=false", "--ip-forward=false")
        argv = ("unshare", "--net", "dockerd", *alone, *places)  # a Docker without a bridge removes the host's docker0
        with small_disk(folder / "disk", "100M"), daemon(*argv, "--host", f"unix://{folder}/sock"):
            monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/sock")
            there = Wait(what="the second Docker's socket", timeout_s=30, fix="start it by hand")
            there.until((folder / "sock").exists, bool)
            yield open_driver("docker")


@pytest.mark.parametrize("engine", ["lxd", pytest.param("docker", marks=pytest.mark.long)])
def test_an_engine_s_disk_that_fills_up_under_a_node(
    request: pytest.FixtureRequest, tmp_path: Path, engine: str
) -> None:
    driver: Driver = request.getfixturevalue(f"small_{engine}")
    rootfs = write_rootfs(tmp_path / "rootfs.tar", b"small")
    image = driver.import_rootfs("small", rootfs, {LABEL_VERSION: "test"})

    def make(name: str, size: int) -> None:
        labels = {LABEL_CLUSTER: "full", LABEL_FINGERPRINT: "f"}
        content = os.urandom(size)  # it would be compressed else
        driver.create_node(
            NodeRequest(name=name, image=image, labels=labels, files=(File(path="/etc/data", content=content),))
        )

    make("small", 1 * MIB)
    error, seconds = failure(lambda: make("large", {"lxd": 500, "docker": 150}[engine] * MIB))
    assert isinstance(error, EngineError)
    assert "large" in error.what
    assert "no space left" in error.evidence.lower()
    assert {"lxd": "free some space in the storage pool: lxc storage info small", "docker": "docker system df"}[
        engine
    ] in error.fix
    assert seconds < QUICK_S
    assert [node.name for node in driver.list_nodes()] == ["small"]  # what was made of it is gone
    assert len(driver.pull("small", "/etc/data")) == MIB
    if engine == "lxd":
        for wait in (("filesystem", "sync"), ("subvolume", "sync")):  # the next commit only frees what was removed
            output("btrfs", *wait, str(tmp_path / "lxd/storage-pools/small"))
    make("again", 1 * MIB)
    for name in ("small", "again"):
        driver.delete_node(name)
    driver.delete_image(image)


def test_a_host_is_prepared_for_the_lxd_that_the_environment_names(gpuprov: Gpuprov, tmp_path: Path) -> None:
    folder = tmp_path / "lxd"
    variables = {"LXD_DIR": str(folder)}
    before = Path("/run/gpuprov/lxd.pid").read_bytes() if Path("/run/gpuprov/lxd.pid").exists() else b""
    prepare = ("host", "prepare", "--pool-size", "5")
    try:
        assert "Create the pool" in gpuprov(*prepare, variables=variables).stdout
        assert gpuprov(*prepare, variables=variables).stdout == "unchanged\n"
        assert gpuprov("--json", "list", "--engine", "lxd", variables=variables).document["nodes"] == []
        assert (Path("/run/gpuprov/lxd.pid").read_bytes() if before else b"") == before
    finally:
        os.kill(int((folder / "lxd.pid").read_text()), signal.SIGTERM)
        for place in ("devlxd", "shmounts", "storage-pools/gpuprov"):
            subprocess.run(["umount", "--lazy", str(folder / place)], check=False, capture_output=True)


# --- addresses and limits


def test_a_subnet_that_is_full(gpuprov: Gpuprov, place: Place, tmp_path: Path) -> None:
    spec = tmp_path / "tiny.yaml"
    subnets = {"subnet": f"{place.address(0, 0)}/29", "private_subnet": f"{place.address(1, 0)}/29"}
    spec.write_text(place.spec(count=4, nodes="role: plain", **subnets))
    more = ("create-node", f"{place.mark}-more", "--cluster", place.cluster, "--gpu-mode", "simulated")
    too_many = gpuprov("cluster", "up", "-f", str(spec), "-n", "6", expect=2)
    assert subnets["subnet"] in too_many.stderr
    gpuprov("cluster", "up", "-f", str(spec), "--no-verify")
    started = time.monotonic()
    refused = gpuprov(*more, expect=2)
    has_three_parts(refused, started)
    assert subnets["subnet"] in refused.stderr
    gpuprov("rm", place.node(3))
    gpuprov(*more)
    gpuprov("cluster", "down", place.cluster, "--yes")


@pytest.mark.parametrize(
    ("path", "value"), [("fs/inotify/max_user_instances", "8"), ("kernel/keys/maxkeys", "20")], ids=["inotify", "keys"]
)
def test_a_limit_of_the_kernel_that_nodes_share(
    gpuprov: Gpuprov, cluster: Finished, spec: str, tmp_path: Path, path: str, value: str
) -> None:
    del cluster
    (tmp_path / "value").write_text(f"{value}\n")
    line = f'mount --bind {tmp_path}/value /proc/sys/{path} && exec "$@"'
    before = ("unshare", "--mount", "sh", "-c", line, "sh")
    started = time.monotonic()
    refused = gpuprov("cluster", "up", "-f", spec, "-n", "8", "--no-verify", expect=3, before=before)
    has_three_parts(refused, started)
    assert path.replace("/", ".") in refused.stderr
    assert "sudo gpuprov host prepare" in refused.stderr
    assert len(gpuprov.rows()) == 4
    assert path.replace("/", ".") in gpuprov("doctor", before=before).stdout


# --- mirrors


class Mirror(BaseHTTPRequestHandler):
    """A package mirror or index that answers with garbage, a byte a second, or never; also as a proxy."""

    manner = "garbage"
    ended = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        if self.manner == "garbage":
            self.wfile.write(b"\x00garbage" * 100)
            return
        with suppress(OSError):
            while not self.ended.wait(1.0):
                if self.manner == "slow":
                    self.wfile.write(b"x")
                    self.wfile.flush()

    do_CONNECT = do_GET  # noqa: N815 - the base class's naming

    def log_message(self, *_: object) -> None:
        pass


class Relay(Mirror):
    """A proxy that hands on so many packages, and garbage after them."""

    left = 0
    given: list[str]

    def do_GET(self) -> None:
        if self.path.endswith(".deb"):
            type(self).left -= 1
            if self.left < 0:
                super().do_GET()
                return
            self.given.append(self.path)
        with OPENER.open(self.path, timeout=30) as answer:
            content = answer.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(content)


OPENER = build_opener()  # by the proxy that this machine has, and not by the test's


@contextmanager
def mirror(manner: str, monkeypatch: pytest.MonkeyPatch, kind: type[Mirror] = Mirror) -> Iterator[None]:
    """Every program started in the block asks this mirror and no other."""
    handler = type("Handler", (kind,), {"manner": manner, "ended": threading.Event()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        with monkeypatch.context() as patch:
            for name in ("http_proxy", "https_proxy"):
                patch.setenv(name, address)
            patch.setenv("PIP_INDEX_URL", f"{address}/simple")
            patch.setenv("PIP_CONFIG_FILE", os.devnull)  # it may name another index
            for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "PIP_EXTRA_INDEX_URL"):
                patch.delenv(name, raising=False)
            yield
    finally:
        handler.ended.set()  # type: ignore[attr-defined]
        server.shutdown()
        server.server_close()
        thread.join()


def failure(act: Callable[[], object]) -> tuple[GpuprovError, float]:
    started = time.monotonic()
    with pytest.raises(GpuprovError) as caught:
        act()
    assert caught.value.what
    assert caught.value.evidence
    assert caught.value.fix
    return caught.value, time.monotonic() - started


LIMITS = {"garbage": 15.0, "slow": 15.0, "hangs": 15.0}


@pytest.mark.parametrize(
    "manner", [pytest.param(one, marks=() if one == "garbage" else pytest.mark.long) for one in LIMITS]
)
def test_an_index_of_wheels_that_does_not_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manner: str) -> None:
    with mirror(manner, monkeypatch):
        error, seconds = failure(lambda: ensure_wheels(["numpy"], python="3.11", cache=tmp_path, silence_s=4.0))
    assert "could not download the Python packages of the image (numpy)" in error.what
    assert "pip download" in error.fix
    assert seconds < LIMITS[manner]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("manner", ["garbage", pytest.param("slow", marks=pytest.mark.long)])
def test_a_mirror_that_does_not_serve(
    gpuprov: Gpuprov,  # noqa: ARG001 - root, and mmdebstrap
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    manner: str,
) -> None:
    with mirror(manner, monkeypatch):
        error, seconds = failure(lambda: ensure_rootfs(BASE, cache=tmp_path, silence_s=10.0))
    assert "the base root file system bookworm could not be built" in error.what
    assert "apt-get update" in error.fix
    assert seconds < QUICK_S
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_mirror_that_breaks_half_way(
    gpuprov: Gpuprov,  # noqa: ARG001 - root, and mmdebstrap
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next run does not ask again for what it was given."""
    given: list[str] = []
    for _ in range(2):
        relay = type("HalfWay", (Relay,), {"left": 30, "given": given})
        with mirror("garbage", monkeypatch, relay):
            error, _ = failure(lambda: ensure_rootfs(BASE, cache=tmp_path, silence_s=60.0))
        assert "Hash Sum mismatch" in error.evidence
    assert len(given) == len(set(given)) == 60
    kept = kept_packages(tmp_path)
    assert kept is not None
    assert list(tmp_path.iterdir()) == [kept]
    assert len(list(kept.glob("*.deb"))) == 60


@pytest.mark.long
def test_a_mirror_that_hangs_and_then_serves(
    gpuprov: Gpuprov,  # noqa: ARG001 - root, and mmdebstrap
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with mirror("hangs", monkeypatch):
        error, seconds = failure(lambda: ensure_rootfs(BASE, cache=tmp_path))
    assert "the base root file system bookworm could not be built" in error.what
    assert seconds < 300
    assert list(tmp_path.iterdir()) == []
    assert ensure_rootfs(BASE, cache=tmp_path).stat().st_size > MIB


@pytest.mark.long
def test_a_disk_that_fills_up_while_the_base_is_built(
    gpuprov: Gpuprov,  # noqa: ARG001 - root, and mmdebstrap
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = tmp_path / "cache"
    with small_disk(tmp_path / "tmp", "60M") as folder:
        monkeypatch.setenv("TMPDIR", str(folder))
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        error, _ = failure(lambda: ensure_rootfs(BASE, cache=cache))
        assert isinstance(error, HostNotReady)
        assert error.fix.startswith(f"df -h {folder}")
        assert list(folder.iterdir()) == []
    assert [path for path in cache.iterdir() if path != kept_packages(cache)] == []
