"""Least privilege on every engine: what root in a node is refused, where secrets are, and who listens on the host."""

from __future__ import annotations

import base64
import ctypes
import json
import os
import re
import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.group_files import LOCK_NAME, Gates
from tests.e2e.conftest import lxd
from tests.e2e.places import PLACES, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.conftest import Finished, Gpuprov
    from tests.e2e.places import Place

HERE = Path(__file__).parent
ATTEMPTS: dict[str, tuple[str, list[str], list[str]]] = json.loads((HERE / "data" / "attempts.json").read_text())
NAME_TO_HANDLE_AT = 303  # x86_64
ABSTRACT = "gpte2e-abstract"


@dataclass(frozen=True, kw_only=True)
class Ground:
    """A cluster on an engine: one of its nodes, another one, the gateway, and where the other's files are on the host.

    Attributes:
        read_engine: Everything the engine shows of its objects, as text.
    """

    engine: str
    cluster: str
    node: str
    peer: str
    gateway: str
    files: Path | None
    read_engine: Callable[[], str]


@contextmanager
def own_cluster(gpuprov: Gpuprov, folder: Path, name: str, spec: str) -> Iterator[None]:
    """A cluster for as long as the block runs."""
    path = folder / f"{name}.yaml"
    path.write_text(spec)
    try:
        gpuprov("cluster", "up", "-f", str(path), "--no-verify")
        yield
    finally:
        gpuprov("cluster", "down", name, "--yes")


@pytest.fixture(scope="module")
def on_lxd(cluster: Finished) -> Ground:  # noqa: ARG001 - its nodes
    pools = sorted(Path("/var/lib/lxd/storage-pools").glob("*/containers/e002/rootfs"))

    def read_engine() -> str:
        return json.dumps([lxd(f"{kind}?recursion=1") for kind in ("instances", "networks", "images")])

    return Ground(
        engine="lxd",
        cluster="gpte2e",
        node="e001",
        peer="e002",
        gateway="10.78.3.1",
        files=pools[0] if pools else None,
        read_engine=read_engine,
    )


@pytest.fixture(scope="module")
def on_docker(
    gpuprov: Gpuprov, place: Place, docker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    with own_cluster(gpuprov, tmp_path_factory.mktemp("spec"), place.cluster, place.spec(engine="docker")):
        files = docker.inspect_container(place.node(0))["GraphDriver"]["Data"].get("UpperDir")

        def read_engine() -> str:
            nodes = [docker.inspect_container(item["Id"]) for item in docker.containers(all=True)]
            images = [docker.inspect_image(item["Id"]) for item in docker.images()]
            return json.dumps([nodes, images, docker.networks()])

        yield Ground(
            engine="docker",
            cluster=place.cluster,
            node=place.node(1),
            peer=place.node(0),
            gateway=place.address(0, 1),
            files=Path(files) if files else None,
            read_engine=read_engine,
        )


@pytest.fixture(scope="module", params=["lxd", "docker"])
def ground(request: pytest.FixtureRequest) -> Ground:
    found = request.getfixturevalue(f"on_{request.param}")
    assert isinstance(found, Ground)
    return found


def find_disk() -> dict[str, str]:
    """Name and numbers of a block device of the host, of its disk where that can be told."""
    device = Path("/").stat().st_dev
    for line in Path("/proc/partitions").read_text().splitlines()[2:]:
        major, minor, _, name = line.split()
        if (int(major), int(minor)) == (os.major(device), os.minor(device)) or os.major(device) == 0:
            return {"disk_name": name, "disk_major": major, "disk_minor": minor}
    raise AssertionError("this host has no block device")


def handle_of(path: Path) -> dict[str, str]:
    """The kernel's handle of a file that no node may open."""
    packed = ctypes.create_string_buffer((128).to_bytes(4, "little") + bytes(4 + 128))
    mount = ctypes.c_int()
    result = ctypes.CDLL(None).syscall(NAME_TO_HANDLE_AT, -100, str(path).encode(), packed, ctypes.byref(mount), 0)
    assert result == 0, f"no handle of {path}"
    length, kind = int.from_bytes(packed.raw[:4], "little"), int.from_bytes(packed.raw[4:8], "little", signed=True)
    return {"handle_kind": str(kind), "handle": packed.raw[8 : 8 + length].hex()}


@pytest.fixture(scope="module")
def said(gpuprov: Gpuprov, ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the kernel said to each attempt, made by root in the node."""
    marker = tmp_path_factory.mktemp("host") / "marker"
    marker.write_text("of the host")
    own = gpuprov.json("show", ground.node)["node"]["devices"]
    minors = {device["path"].removeprefix("/dev/nvidia") for device in own}
    facts = {
        **find_disk(),
        **handle_of(ground.files / "etc/munge/munge.key" if ground.files else marker),
        "marker": str(marker),
        "abstract": ABSTRACT,
        "gateway": ground.gateway,
        "host_pid": str(os.getpid()),
        "own_gpu": next(minor for minor in minors if minor.isdecimal()),
        "other_gpu": next(minor for minor in "0123" if minor not in minors),
    }
    source = (HERE / "attempts.py").read_text()
    with socket.create_server(("0.0.0.0", 0)) as server, socket.socket(socket.AF_UNIX) as listener:
        facts["server_port"] = str(server.getsockname()[1])
        table = {
            name: (act, [re.sub(r"\{(\w+)\}", lambda found: facts[found[1]], argument) for argument in arguments])
            for name, (act, arguments, _) in ATTEMPTS.items()
        }
        listener.bind(f"\0{ABSTRACT}")
        listener.listen()
        answers: dict[str, str] = json.loads(gpuprov.in_node(ground.node, "python3", "-c", source, json.dumps(table)))
    return answers


@pytest.mark.parametrize("name", ATTEMPTS)
def test_root_in_a_node_is_refused(said: dict[str, str], name: str) -> None:
    assert said[name] in ATTEMPTS[name][2]


def listeners(host: Callable[..., str]) -> set[tuple[str, str]]:
    """Addresses and ports of the host at which something waits for the outside or for other machines."""
    found = set()
    for line in host("ss", "--no-header", "--numeric", "--listening", "--tcp", "--udp").splitlines():
        kind, _, _, _, local, *_ = line.split()
        address, _, port = local.rpartition(":")
        if not address.startswith(("127.", "[::1]")):
            found.add((f"{kind} {address.partition('%')[0]}", port))
    return found


@pytest.mark.alone  # what listens on the whole machine
@pytest.mark.parametrize("engine", ["lxd", pytest.param("docker", marks=pytest.mark.long)])
def test_nothing_listens_outside_unless_exposed(
    gpuprov: Gpuprov, host: Callable[..., str], request: pytest.FixtureRequest, tmp_path: Path, engine: str
) -> None:
    request.getfixturevalue(f"on_{engine}")  # its image is there
    before = listeners(host)
    place = PLACES["privilege_listens"]
    sweep(place)
    with own_cluster(gpuprov, tmp_path, place.cluster, place.spec(count=1, engine=engine)):
        made = listeners(host) - before
        gateway, node = place.address(0, 1), place.node(0)
        assert {where for where, _ in made} <= {f"tcp {gateway}", f"udp {gateway}"}  # the engine's name server
        if engine == "docker":  # it forwards ports into stopped nodes only
            gpuprov("stop", node)
        gpuprov("expose", node, "8080", "--port", "17001", "--listen", "0.0.0.0")
        gpuprov("expose", node, "8080", "--port", "17003")
        gpuprov("start", node)
        assert {port for _, port in listeners(host) - before - made} == {"17001"}
        if engine == "docker":
            gpuprov("stop", node)
        for port in ("17001", "17003"):
            gpuprov("unexpose", node, port)
        assert listeners(host) - before <= made
    deadline = time.monotonic() + 10
    while listeners(host) != before:  # LXD does not wait for its name server's end
        assert time.monotonic() < deadline, listeners(host) ^ before
        time.sleep(0.1)


def command_lines(seen: set[bytes], ended: threading.Event) -> None:
    while not ended.is_set():
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # it has ended
                seen.add(path.read_bytes())
        time.sleep(0.01)


@pytest.mark.parametrize("ground", ["lxd", pytest.param("docker", marks=pytest.mark.long)], indirect=True)
def test_secrets_are_in_their_places_only(gpuprov: Gpuprov, ground: Ground) -> None:
    seen: set[bytes] = set()
    ended = threading.Event()
    watcher = threading.Thread(target=command_lines, args=(seen, ended))
    watcher.start()
    logs = set(Path("/var/log/gpuprov").glob("*.log"))
    said = []
    cluster = ("--cluster", ground.cluster, "--engine", ground.engine)
    variable = ("-e", "GPTE2E_COLOUR=gpte2e-4711")
    try:
        said.append(
            gpuprov("--json", "-v", "create-node", "keeper", *cluster, *variable, "--gpu-mode", "simulated").all
        )
        said += [
            gpuprov("--json", *argv).all
            for argv in (("show", "keeper"), ("cluster", "status", ground.cluster), ("list",), ("logs", "keeper"))
        ]
        encoded = gpuprov.in_node("keeper", "base64", "-w0", "/etc/munge/munge.key")
        host_key = gpuprov.in_node("keeper", "cat", "/etc/ssh/ssh_host_ed25519_key")
        modes = gpuprov.in_node(
            "keeper",
            *("stat", "-c", "%a %U %n"),
            *("/etc/munge/munge.key", "/etc/ssh/ssh_host_ed25519_key", "/root/.ssh/authorized_keys"),
        )
        said += [ground.read_engine(), (lock := Gates().file(LOCK_NAME).read_text(errors="replace"))]
    finally:
        ended.set()
        watcher.join()
        gpuprov("rm", "keeper")
    assert "gpte2e-4711" not in lock
    assert modes.splitlines() == [
        "400 munge /etc/munge/munge.key",
        "600 root /etc/ssh/ssh_host_ed25519_key",
        "600 root /root/.ssh/authorized_keys",
    ]
    (private,) = (gpuprov.folder / "data/gpuprov" / ground.cluster).rglob("id_ed25519")
    assert [path.stat().st_mode & 0o777 for path in (private, private.parent)] == [0o600, 0o700]
    key = base64.b64decode(encoded)
    secrets = [key, key.hex().encode(), encoded.encode()]
    for text in (host_key, private.read_text()):
        secrets += [line.encode() for line in text.splitlines() if len(line) > 20 and not line.startswith("-----")]
    written = [path.read_bytes() for path in set(Path("/var/log/gpuprov").glob("*.log")) - logs]
    assert written
    assert len(seen) > 10
    for secret in secrets:
        assert not [line for line in seen if secret in line]
        assert not [text for text in said if secret in text.encode()]
        assert not [text for text in written if secret in text]
    assert {path.stat().st_mode & 0o777 for path in set(Path("/var/log/gpuprov").glob("*.log")) - logs} == {0o600}
