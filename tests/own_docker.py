"""A Docker of one's own beside the machine's, which can be killed and started again: for tests and benchmarks.

Its leases and locks are its own as well, so that it and the machine's nodes do not take GPUs from each other.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gpuprov.core.waiting import Wait
from gpuprov.machine.runtime_program import HOOK, program_for, write_hook
from gpuprov.runtime.records import read_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Done = subprocess.CompletedProcess[str]
QUIET: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
GPUPROV = Path(sys.executable).with_name("gpuprov")
OWN_PLACES = ("/run/gpuprov", "/var/lib/gpuprov/lock", "/var/lib/gpuprov/runs")
PROGRAMS = ("dash", "sleep", "ls", "head", "env", "true")
_LIMIT_S = 30.0
_CONTAINERD = """\
version = 2
root = "{folder}/containerd"
state = "{folder}/run/containerd"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "{folder}/c.sock"
"""


class _Line(http.client.HTTPConnection):
    def __init__(self, place: Path) -> None:
        super().__init__("localhost", timeout=_LIMIT_S)
        self._place = place

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_LIMIT_S)
        self.sock.connect(str(self._place))


@dataclass
class OwnDocker:
    """A dockerd with a network and mounts of its own: one without a bridge removes the host's docker0.

    Attributes:
        folder: Of all that is its own.
        spaces: The process that keeps its namespaces.
        flags: Of dockerd, beside those that keep it apart.
        path: Its folders of programs.
    """

    folder: Path
    spaces: int
    flags: tuple[str, ...] = ()
    path: str = "/usr/sbin:/usr/bin:/sbin:/bin"
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    containerd: subprocess.Popen[bytes] | None = field(default=None, init=False)
    image: str = field(default="", init=False)

    @property
    def socket(self) -> Path:
        """Where it answers."""
        return self.folder / "sock"

    @property
    def environment(self) -> dict[str, str]:
        """For programs that talk to it."""
        return {**os.environ, "DOCKER_HOST": f"unix://{self.socket}"}

    @property
    def root(self) -> Path:
        """The root of the file system as its programs see it."""
        return Path(f"/proc/{self.spaces}/root")

    @property
    def _enter(self) -> tuple[str, ...]:
        return ("nsenter", "--target", str(self.spaces), "--net", "--mount")

    def start_containerd(self) -> None:
        """Begin the daemon behind dockerd; as on Debian, it is no child of dockerd's."""
        settings = self.folder / "containerd.toml"
        settings.write_text(_CONTAINERD.format(folder=self.folder))
        self.containerd = self._spawn("containerd", "--config", str(settings))
        self._await((self.folder / "c.sock").exists)

    def start(self) -> None:
        """Begin dockerd, and wait until it answers; in the namespaces of the one before."""
        places = ("--data-root", f"{self.folder}/data", "--exec-root", f"{self.folder}/run")
        config = ("--pidfile", f"{self.folder}/pid", "--config-file", f"{self.folder}/daemon.json")
        alone = ("--bridge", "none", "--iptables=false", "--ip-forward=false", "--host", f"unix://{self.socket}")
        behind = ("--containerd", f"{self.folder}/c.sock")
        self.process = self._spawn("dockerd", *places, *config, *alone, *behind, *self.flags)
        self._await(self._answers)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End dockerd and, unless it is killed or restores live, its containers."""
        _end(self.process, how)
        self.process = None

    def stop_containerd(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it; containers go on."""
        _end(self.containerd, how)
        self.containerd = None
        (self.folder / "c.sock").unlink(missing_ok=True)

    def cut_power(self) -> None:
        """End all processes, and empty /run; `start_containerd` and `start` are the boot."""
        states = [json.loads(path.read_text()) for path in (self.folder / "run").glob("runtime-runc/moby/*/state.json")]
        self.stop(signal.SIGKILL)
        self.stop_containerd(signal.SIGKILL)
        for pid in (*find_processes(f"{self.folder}/run"), *(state["init_process_pid"] for state in states)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        unmount = f"for place in $(grep -o '{self.folder}/run/[^ ]*' /proc/mounts); do umount --lazy $place; done"
        subprocess.run([*self._enter, "sh", "-c", unmount], check=True)
        shutil.rmtree(self.folder / "run")
        shutil.rmtree(self.folder / "own/run/gpuprov/leases", ignore_errors=True)

    def docker(self, *argv: str, timeout_s: float = _LIMIT_S) -> Done:
        """What the client says."""
        return subprocess.run(
            ["docker", *argv],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
        )

    def run(self, *argv: str, runtime: str = "gpuprov", image: str = "") -> Done:
        """`docker run` without a network, up to the image: that which was loaded first, unless it is named.

        Args:
            argv: Options, and after `--` what a shell is to do; it sleeps without.
            runtime: Empty for the default one.
            image: Its name.
        """
        own, _, inner = " ".join(argv).partition(" -- ")
        named = ("--runtime", runtime) if runtime else ()
        words = ("run", "--network", "none", *named, *own.split(), image or self.image)
        return self.docker(*words, "sh", "-c", inner or "sleep 1000")

    def begin(self, name: str, *argv: str, **more: str) -> Done:
        """The same in the background."""
        return self.run("-d", "--name", name, *argv, **more)

    def clear(self) -> None:
        """No container, and no lease."""
        if names := self.docker("ps", "-aq").stdout.split():
            self.docker("rm", "-f", *names)
        gone = Wait(what="all leases to end", timeout_s=_LIMIT_S, fix="ls /run/gpuprov/leases", interval_s=0.05)
        gone.until(lambda: read_records(root=self.root), lambda seen: not seen)

    def gpuprov(self, *argv: str, expect: int = 0) -> Done:
        """What gpuprov says, where it is the machine's Docker."""
        command = [*self._enter, str(GPUPROV), *argv]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=_LIMIT_S
        )
        assert (done.returncode, "Traceback" in done.stdout + done.stderr) == (expect, False), done
        return done

    def told(self, *argv: str) -> dict[str, Any]:
        """The document that it prints."""
        return dict(json.loads(self.gpuprov("--json", *argv).stdout))

    def holders(self) -> dict[str, int]:
        """Names of containers to how many GPUs they hold, as `gpus` tells."""
        gpus = self.told("gpus")["gpus"]
        names = [one["node"] for gpu in gpus for one in gpu["holders"] if one["cluster"] == "(containers)"]
        return {name: names.count(name) for name in names}

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """What it answers without the client: the document, or the error's text."""
        with contextlib.closing(_Line(self.socket)) as line:
            line.request(method, path, json.dumps(body or {}), {"Content-Type": "application/json"})
            content = line.getresponse().read()
        return json.loads(content) if content.strip() else None

    def load_image(self, name: str, *, link: str = "") -> None:
        """Have an image with a shell; with `link`, its folder of programs leads there."""
        rootfs = write_image(self.folder / name, link=link)
        archive = self.folder / "image.tar"
        subprocess.run(["tar", "-C", str(rootfs), "-cf", str(archive), "."], check=True)
        done = self.docker("import", str(archive), name)
        assert done.returncode == 0, done.stderr
        shutil.rmtree(rootfs)
        archive.unlink()
        self.image = self.image or name

    def only_itself(self) -> None:
        """As on a machine without other engines, whose nodes would hold some of the simulated GPUs."""
        policy = program_for(self.socket).folder / "settings.json"
        said = json.loads(policy.read_text())
        own = [place for place in said["engines"] if place["sockets"] == [str(self.socket)]]
        policy.write_text(json.dumps({**said, "engines": own}))

    def _spawn(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*self._enter, *command],
                env={**os.environ, "PATH": self.path},
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _await(self, seen: Callable[[], bool]) -> None:
        wait = Wait(what="the second Docker", timeout_s=_LIMIT_S, fix=f"cat {self.folder}/log", interval_s=0.1)
        wait.until(seen, bool)

    def _answers(self) -> bool:
        if self.process and self.process.poll() is not None:
            raise AssertionError((self.folder / "log").read_text()[-2000:])
        with suppress(OSError, ValueError, http.client.HTTPException):
            return "ID" in self.ask("GET", "/info")
        return False


@contextmanager
def own_docker(*flags: str, settings: str = "{}") -> Iterator[OwnDocker]:
    """One that runs, until the end of the block; then nothing is left of it.

    Args:
        flags: Of dockerd.
        settings: Its daemon.json.
    """
    with ExitStack() as stack:
        name = stack.enter_context(TemporaryDirectory(prefix="gpte"))  # paths of sockets are short
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "bin").mkdir()
        write_hook(f"{folder}/bin")
        os.utime(folder / "bin" / HOOK, (0, 0))  # as after a restart of Docker
        (folder / "daemon.json").write_text(settings)
        own = f'mkdir -p "$place" "{folder}/own$place"; mount --bind "{folder}/own$place" "$place"'
        script = f"for place in {' '.join(OWN_PLACES)}; do {own}; done; ip link set lo up; exec sleep infinity"
        up = ("sh", "-ec", script)
        spaces = stack.enter_context(subprocess.Popen(["unshare", "--net", "--mount", *up], **QUIET))
        stack.callback(spaces.kill)
        path = f"{folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        one = OwnDocker(folder=folder, spaces=spaces.pid, flags=flags, path=path)
        stack.callback(program_for(one.socket).remove)
        stack.callback(_end_all, folder)
        wait = Wait(what="its namespaces", timeout_s=10, fix="unshare --net --mount true", interval_s=0.02)
        wait.until(lambda: _words(spaces.pid)[0], lambda seen: seen == "sleep")
        stack.callback(one.stop_containerd)
        stack.callback(one.stop)
        one.start_containerd()
        one.start()
        stack.callback(_remove_containers, one)
        yield one


def _end(process: subprocess.Popen[bytes] | None, how: signal.Signals) -> None:
    if process:
        process.send_signal(how)
        process.wait(timeout=_LIMIT_S)


def write_image(folder: Path, *, link: str = "") -> Path:
    """A root file system with a shell; with `link`, its folder of programs leads there."""
    rootfs = folder / "rootfs"
    for name in ("bin", "usr/bin", "tmp", "dev", "proc", "etc"):
        (rootfs / name).mkdir(parents=True)
    for program in PROGRAMS:
        path = Path(shutil.which(program) or "").resolve()
        shutil.copy(path, rootfs / "bin" / program)
        linked = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"(/\S+) \(0x", linked):
            target = rootfs / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(library).resolve(), target)
    (rootfs / "bin/sh").symlink_to("dash")
    if link:
        shutil.rmtree(rootfs / "usr/bin")
        (rootfs / "usr/bin").symlink_to(link)
    return rootfs


def processes() -> Iterator[tuple[int, list[str]]]:
    """Those of this machine, each with its command line."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            yield int(entry.name), _words(int(entry.name))


def find_processes(*words: str) -> list[int]:
    """Those whose command line has all of these words in it."""
    return [pid for pid, line in processes() if all(word in " ".join(line) for word in words)]


def _words(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    return [""]


def _remove_containers(one: OwnDocker) -> None:
    if one.process and (names := one.docker("ps", "-aq").stdout.split()):
        one.docker("rm", "-f", *names)


def _end_all(folder: Path) -> None:
    """What a killed dockerd has left: its containerd, shims and containers."""
    states = [json.loads(path.read_text()) for path in (folder / "run").glob("runtime-runc/moby/*/state.json")]
    for pid in (*find_processes(f"{folder}/"), *(int(state["init_process_pid"]) for state in states)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
