"""Whatever fails below gpuprov, the words of who failed reach the user: a status alone is no evidence.

Each row of the table is a failure as an engine or a tool reports it, and words of the cause that the error must have.
tests/contract/test_provoked.py provokes some of them on real engines.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuprov.cluster import build_image
from gpuprov.core.errors import EngineError, GpuprovError
from gpuprov.core.reporter import Silent
from gpuprov.drivers import isolation
from gpuprov.drivers.base import BUILDER, ExecResult
from gpuprov.drivers.docker.api import Conflict, error_from
from gpuprov.drivers.docker.last_words import describe_end
from gpuprov.drivers.docker.last_words import last_words_of as last_words_of_container
from gpuprov.drivers.lxd.api import LxdApi
from gpuprov.drivers.lxd.family import KIN, Kin
from gpuprov.drivers.lxd.start_log import explain_start, last_words_of, parse_lxc_errors
from gpuprov.provision.events import parse_event
from gpuprov.provision.kept_bases import Base
from gpuprov.provision.playbook import TaskFailed
from gpuprov.provision.rootfs import ensure_rootfs
from gpuprov.provision.wheels import ensure_wheels
from gpuprov.roles.slurm import daemons

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_LINES = 20  # of evidence that somebody reads
FORKSTART = (
    "Failed to run: /usr/bin/lxd forkstart c000 /var/lib/lxd/containers /var/log/lxd/c000/lxc.conf: exit status 1"
)
STAMP = "lxc c000 20260101120000.123 ERROR    start - ../src/lxc/start.c:start:2197 - "
NO_INIT = f"""lxc c000 20260101120000.120 WARN     cgfsng - ../src/lxc/cgfsng.c:f:1619 - Failed to fchownat(34)
{STAMP}No such file or directory - Failed to exec "/sbin/init"
{STAMP}An error occurred in another process (expected sequence number 7)
{STAMP}Received container state "ABORTING" instead of "RUNNING"
lxc 20260101120006.647 ERROR    af_unix - ../src/lxc/af_unix.c:f:218 - Connection reset by peer - Failed to receive
"""
TAR = "Failed creating instance from image: Unpack failed: tar: ./a: Cannot write: No space left on device\n"
FULL = TAR + "tar: ./b: Cannot write: No space left on device\n" * 500 + "tar: Exiting with failure status"
DNSMASQ = (
    'The DNS and DHCP service exited prematurely: Process exited with non-zero value 2 ("dnsmasq: failed to create'
)
DNSMASQ += ' listening socket for 10.0.3.1: Address already in use")'


@dataclass
class CannedLxd(LxdApi):
    """An LXD that answers every request with one error, and has logs of its instances."""

    reason: str
    log: str = ""
    console: str = ""
    engine: str = "lxd"
    kin: Kin = KIN["lxd"]
    pool: str | None = "gpuprov"
    socket: Path = field(default_factory=Path)

    def begin(self, _method: str, *_path: str, body: Any, target: str = "", unless_not: str = "") -> Any:
        assert isinstance(body, dict)
        assert not target
        assert not unless_not
        return {"operation": "/1.0/operations/1"}

    def finished(self, _answer: Any, path: tuple[str, ...], _timeout_s: float | None = None, *, deed: str = "") -> Any:
        raise self._error(self.reason, deed, path)

    def read(self, *path: str, take: Callable[[bytes], object], **_limits: object) -> None:
        take((self.log if path[-1] == "lxc.log" else self.console).encode())


def lxd_fails(reason: str, *path: str, **body: object) -> None:
    CannedLxd(reason).send("post", *path, body=body)


def lxd_does_not_start(log: str, *, reason: str = FORKSTART) -> None:
    api = CannedLxd(reason, log)
    try:
        api.send("put", "instances", "c000", "state", body={"action": "start"})
    except EngineError as error:
        raise explain_start(api, "c000", error) from error


def lxd_does_not_run(*, log: str = "", console: str = "") -> None:
    api = CannedLxd("Instance is not running", log, console)
    with last_words_of(api, "c000"):
        api.send("post", "instances", "c000", "exec", body={"command": ["true"]})


def docker_fails(status: int, reason: str) -> None:
    raise error_from(status, reason, "post /containers/c000/start")


class CannedDocker:
    """A Docker with one container that has ended."""

    def __init__(self, state: dict[str, object], log: bytes) -> None:
        self.state, self.log = state, log

    def get(self, _path: str) -> object:
        return {"State": {"StartedAt": "2026-01-01T12:00:00Z", **self.state}}

    @contextmanager
    def reading(self, _path: str, **_options: object) -> Iterator[BytesIO]:
        yield BytesIO(b"\x02\0\0\0" + len(self.log).to_bytes(4, "big") + self.log)


def docker_died(log: bytes = b"", **state: object) -> None:
    with last_words_of_container(cast("Any", CannedDocker(state, log)), "5a51", "c000"):
        raise Conflict("docker refused", evidence="Container 5a51 is not running", fix="look")


def ansible_fails(**result: object) -> None:
    data = {"host": "localhost", "role": "host", "task": "Create the pool", "res": result}
    event = parse_event({"event": "runner_on_failed", "event_data": data})
    assert event
    raise TaskFailed(event, folder=Path("/tmp/play"))


def mmdebstrap_fails(folder: Path, said: str) -> None:
    program(folder, "mmdebstrap", said, 25)
    ensure_rootfs(Base(suite="bookworm", packages=("python3",)), cache=folder / "cache")


def pip_fails(folder: Path) -> None:
    ensure_wheels(["gpuprov-no-such-package"], python="3.11", cache=folder)


class CannedNodes:
    """Nodes that never finish to boot, in which Slurm never gets ready, and has logged why."""

    capabilities = frozenset({"systemd"})
    builder = BUILDER

    def create_node(self, _request: object) -> None: ...

    def delete_node(self, _name: str) -> None: ...

    def start_node(self, _name: str) -> None: ...

    def run(self, name: str, argv: list[str], **_limits: object) -> ExecResult:
        if "list-jobs" in argv:
            return ExecResult(exit_code=0, stdout="12 systemd-networkd-wait-online.service start running\n", stderr="")
        log = f"[2026-01-01T12:00:00] error: {name}: Munge decode failed: Invalid credential\n[...] debug: nothing\n"
        return ExecResult(exit_code=1, stdout=log if argv[0] == "tail" else "", stderr="")


def slurm_is_never_ready() -> None:
    daemons.wait_ready(cast("Any", CannedNodes()), "c000", ["c000", "c001"], Silent())


def builder_never_boots() -> None:
    build_image._start_builder(cast("Any", CannedNodes()), "base", build_image.BuildSite(attachments=()))


def nft_fails(folder: Path, said: str) -> None:
    program(folder, "nft", said, 1)
    raise EngineError("nft", evidence=isolation.isolate("gpbr0", {}), fix="look")


def program(folder: Path, name: str, said: str, status: int) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat >/dev/null\ncat >&2 <<'END'\n{said}\nEND\nexit {status}\n")
    path.chmod(0o755)


def pip_says(folder: Path, said: str) -> None:
    python = folder / "python"
    program(folder, "python", said, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.executable", str(python))
        ensure_wheels(["numpy"], python="3.11", cache=folder / "cache")


UNPACK = "dpkg: error processing archive /var/cache/apt/archives/p{0}.deb (--unpack):\n cannot copy extracted data for "
UNPACK += "'./usr/lib/p{0}' to '/usr/lib/p{0}.dpkg-new': failed to write (No space left on device)\n"
NAMES = "Errors were encountered while processing:\n" + "".join(f" /var/cache/apt/p{n}.deb\n" for n in range(60))
DPKG_FULL = (
    "".join(UNPACK.format(n) for n in range(60)) + NAMES + "E: Sub-process /usr/bin/dpkg returned an error code (1)"
)
POSTINST = "slurmd.postinst: line 3: /etc/slurm: Read-only file system\n" + NAMES
LOCKED = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 999 (unattended-upgr)\n"
LOCKED += "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?"
HASHES = (
    """E: Failed to fetch http://deb.example/p.deb  Hash Sum mismatch
   Hashes of expected file:
    - SHA256:aaaa
   Hashes of received file:
    - SHA256:bbbb
   Last modification reported: Mon, 01 Jan 2026 00:00:00 +0000
E: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?
"""
    + "I: removing tempdir /tmp/mmdebstrap.x...\n" * 20
)
PIP_HASHES = """ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.
    numpy from https://pypi.example/numpy.whl:
        Expected sha256 aaaa
             Got        bbbb
"""
PIP_FULL = (
    "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n" + "[notice] x\n" * 20
)
LINUX = "OCI runtime create failed: runc create failed: unable to start container process: "
TABLE: dict[str, tuple[Callable[..., None], str]] = {
    "lxd: an image without init": (partial(lxd_does_not_start, NO_INIT), 'Failed to exec "/sbin/init"'),
    "lxd: a start without a log": (partial(lxd_does_not_start, ""), "forkstart"),
    "lxd: a start with consequences only": (
        partial(lxd_does_not_start, f"{STAMP}Failed to spawn container"),
        "Failed to spawn container",
    ),
    "lxd: a full pool": (partial(lxd_fails, FULL, "instances", name="c000"), "No space left on device"),
    "lxd: an address in use": (partial(lxd_fails, DNSMASQ, "networks", name="gpbr0"), "Address already in use"),
    "lxd: a bridge that is gone": (
        partial(lxd_fails, 'Failed to start device "eth0": Parent device "gone" doesn\'t exist', "instances"),
        'Parent device "gone" doesn\'t exist',
    ),
    "lxd: a device that is not there": (
        partial(lxd_fails, 'Failed to start device "x": The required device path doesn\'t exist', "instances"),
        "device path doesn't exist",
    ),
    "lxd: a key that it does not know": (
        partial(lxd_fails, "Unknown configuration key: security.devlxd", "instances"),
        "security.devlxd",
    ),
    "lxd: an operation without a reason": (partial(lxd_fails, "no reason given", "instances"), "no reason given"),
    "lxd: a node that died": (partial(lxd_does_not_run, console="init: the disk is on fire\n"), "disk is on fire"),
    "lxd: a node whose log says why": (partial(lxd_does_not_run, log=NO_INIT), "Failed to exec"),
    "docker: an image without a shell": (
        partial(docker_fails, 400, f'{LINUX}exec: "/bin/sh": stat /bin/sh: no such file or directory'),
        '"/bin/sh": stat /bin/sh: no such file',
    ),
    "docker: a network that is gone": (partial(docker_fails, 404, "network gpbr0 not found"), "gpbr0 not found"),
    "docker: an address in use": (partial(docker_fails, 403, "Address already in use"), "Address already in use"),
    "docker: a device that is not there": (
        partial(docker_fails, 500, 'error gathering device information while adding custom device "/dev/nvidia7"'),
        "/dev/nvidia7",
    ),
    "docker: a full disk": (partial(docker_fails, 500, FULL), "No space left on device"),
    "docker: an answer without words": (partial(docker_fails, 500, ""), "status 500"),
    "docker: a container that died at once": (
        partial(docker_died, b"begun\nthe disk is on fire\n", ExitCode=3),
        "status 3\ndocker logs: begun\ndocker logs: the disk is on fire",
    ),
    "docker: a container without memory": (partial(docker_died, ExitCode=137, OOMKilled=True), "ran out of memory"),
    "ansible: LXD refuses": (
        partial(
            ansible_fails,
            msg="Status code was 500 and not [200, 201]: HTTP Error 500: Internal Server Error",
            status=500,
            json={"type": "error", "error": "Failed to run: mkfs.btrfs -L gpuprov: exit status 1 (not enough space)"},
        ),
        "mkfs.btrfs -L gpuprov: exit status 1 (not enough space)",
    ),
    "ansible: Docker refuses": (
        partial(ansible_fails, msg="HTTP Error 409: Conflict", status=409, json={"message": "image is in use"}),
        "image is in use",
    ),
    "ansible: a server answers with a page": (
        partial(ansible_fails, msg="HTTP Error 502: Bad Gateway", status=502, content="proxy: no route to LXD"),
        "proxy: no route to LXD",
    ),
    "ansible: a command fails": (
        partial(ansible_fails, msg="non-zero return code", rc=1, stderr="mount: /pool: wrong fs type, bad option"),
        "wrong fs type",
    ),
    "ansible: a module dies": (
        partial(ansible_fails, msg="MODULE FAILURE\nSee stdout/stderr", module_stderr="ImportError: no module apt"),
        "no module apt",
    ),
    "ansible: apt fails": (
        partial(ansible_fails, msg="'apt-get install' failed: E: Unable to fetch"),
        "Unable to fetch",
    ),
    "mmdebstrap: a mirror that is unreachable": (
        partial(mmdebstrap_fails, said="I: chroot\nE: Failed to fetch http://deb.example/: Connection refused"),
        "Connection refused",
    ),
    "mmdebstrap: mount fails": (partial(mmdebstrap_fails, said="E: mount /proc failed: EPERM"), "mount /proc failed"),
    "mmdebstrap: a package that arrives broken": (partial(mmdebstrap_fails, said=HASHES), "Hash Sum mismatch"),
    "mmdebstrap: a disk that is full": (partial(mmdebstrap_fails, said=DPKG_FULL), "No space left on device"),
    "mmdebstrap: a script of a package that fails": (partial(mmdebstrap_fails, said=POSTINST), "Read-only file system"),
    "pip: a wheel that arrives broken": (partial(pip_says, said=PIP_HASHES), "DO NOT MATCH THE HASHES"),
    "pip: a disk that is full": (partial(pip_says, said=PIP_FULL), "No space left on device"),
    "ansible: apt waits for its lock": (
        partial(ansible_fails, msg=f"'/usr/bin/apt-get -y install x' failed: {LOCKED}", stderr=LOCKED),
        "held by process 999 (unattended-upgr)",
    ),
    "ansible: apt's lists are locked": (
        partial(
            ansible_fails, msg="Failed to lock apt for exclusive operation: E:Could not get lock /var/lib/apt/lists"
        ),
        "Could not get lock /var/lib/apt/lists",
    ),
    "ansible: a package that arrives broken": (
        partial(ansible_fails, msg="'apt-get install' failed: E: Unable to fetch some archives", stderr=HASHES),
        "Hash Sum mismatch",
    ),
    "ansible: a disk that is full under dpkg": (
        partial(ansible_fails, msg="'apt-get install' failed: E: Sub-process dpkg", stdout=DPKG_FULL),
        "No space left on device",
    ),
    "ansible: a service that does not start": (
        partial(
            ansible_fails,
            msg="Unable to start service lxd: Job for lxd.service failed because the control process exited with error "
            'code.\nSee "systemctl status lxd.service" and "journalctl -xeu lxd.service" for details.',
        ),
        "control process exited",
    ),
    "mmdebstrap: apt counts that the disk is too small": (
        partial(mmdebstrap_fails, said="E: You don't have enough free space in /var/cache/apt/archives/."),
        "enough free space",
    ),
    "ansible: pip finds a full disk": (partial(ansible_fails, msg="non-zero return code", stderr=PIP_FULL), "Errno 28"),
    "pip: a package that no index has": (pip_fails, "No matching distribution found"),
    "slurm: a node with another key": (
        slurm_is_never_ready,
        "slurmd on c001: [2026-01-01T12:00:00] error: c001: Munge",
    ),
    "systemd: a boot that does not end": (builder_never_boots, "networkd-wait-online.service start running"),
    "nft: a kernel without it": (
        partial(nft_fails, said="Error: Could not process rule: Operation not supported\nadd table inet gpuprov"),
        "Operation not supported",
    ),
}
OF_TOOLS = ("mmdebstrap", "pip", "nft")


@pytest.mark.slow
@pytest.mark.parametrize("failure", TABLE)
def test_the_cause_is_in_the_message(failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provoke, words = TABLE[failure]
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(build_image, "BOOT_TIMEOUT_S", 0.0)
    monkeypatch.setattr(daemons, "_READY_BUDGET_S", 0.0)
    with pytest.raises(GpuprovError) as caught:
        provoke(*([tmp_path] if failure.startswith(OF_TOOLS) else []))
    error = caught.value
    assert words in error.evidence
    assert len(error.evidence.splitlines()) <= MOST_LINES
    if failure.startswith(("mmdebstrap", "pip")) and any(said in error.evidence for said in ("No space", "free space")):
        assert error.fix.startswith("df -h ")
    assert error.fix


@pytest.mark.parametrize(
    ("failure", "fix"),
    [
        ("mmdebstrap: a mirror that is unreachable", "check whether this machine can reach the mirror: apt-get update"),
        ("mmdebstrap: a package that arrives broken", "check whether this machine can reach the mirror"),
        ("mmdebstrap: mount fails", "the mirror answers; check this machine: gpuprov doctor"),
        ("mmdebstrap: a script of a package that fails", "the mirror answers"),
    ],
)
def test_a_mirror_that_has_answered_is_not_blamed(
    failure: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(GpuprovError) as caught:
        TABLE[failure][0](tmp_path)
    assert caught.value.fix.startswith(fix)


def test_what_a_node_wrote_is_short_and_printable() -> None:
    """An instance's lxc.log quotes the node's own paths, and root in it writes to its console what it likes."""
    hostile = "\x1b]0;owned\x07 " + "x" * 5000
    for provoke in (
        partial(lxd_does_not_start, f"{STAMP}{hostile}\n" * 100),
        partial(lxd_does_not_run, log=f"{STAMP}{hostile}\n" * 100, console=f"{hostile}\n" * 100),
        partial(docker_died, f"{hostile}\n".encode() * 100, ExitCode=3),
    ):
        with pytest.raises(EngineError) as caught:
            provoke()
        assert "\x1b" not in caught.value.evidence
        assert len(caught.value.evidence) < 3000
        assert r"\x1b]0;owned" in caught.value.evidence


def test_the_log_of_an_earlier_start_is_not_told() -> None:
    with pytest.raises(EngineError) as caught:
        lxd_does_not_start(NO_INIT, reason='Failed to start device "eth0"')
    assert caught.value.evidence == 'Failed to start device "eth0"'


def test_errors_of_lxc_are_told_without_what_follows_from_them() -> None:
    assert parse_lxc_errors(NO_INIT) == ['No such file or directory - Failed to exec "/sbin/init"']
    assert parse_lxc_errors("") == []


def test_a_container_that_was_never_started_has_not_ended() -> None:
    assert describe_end({"StartedAt": "0001-01-01T00:00:00Z", "ExitCode": 0}) == ""
