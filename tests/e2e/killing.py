"""Stop gpuprov, or the engine under it, at a step that it has just told, and look at what there is; no hook is needed.

A step is a line of `--verbose`: a phase that begins or ends, or a node's state.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tests.e2e.conftest import lxd, output
from tests.e2e.remains import find_folders, find_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.e2e.conftest import Gpuprov

How = Literal["SIGKILL", "SIGTERM", "SIGINT", "engine", "host"]
SIGNALS: tuple[How, ...] = ("SIGKILL", "SIGTERM", "SIGINT")
ENDINGS = {"SIGKILL": (-9, 0), "SIGTERM": (130, 0), "SIGINT": (130, 0), "engine": (3, 4, 5, 0), "host": (7, 0)}
UNITS = {"lxd": "lxd.service", "incus": "incus.service", "docker": "docker.service"}
PID_FILES = {name: Path(f"/run/gpuprov/{name}.pid") for name in UNITS}  # of daemons that `host prepare` started
PID_FILE = PID_FILES["lxd"]
BUDGET_S = 300.0
_STEP = re.compile(r"^(\S.* \.\.\.|\S.* (?:done|failed)|  \S+: .*?)(?: \(\d+\.\d s\))?$")
_NUMBER = re.compile(r', "uid": "\w+"')  # each container has its own
_ASKED = 3  # times: `lxc exec` of LXD 5.0 now and then says nothing of what a short command said
_FILES = ("/etc/hosts", "/etc/slurm/slurm.conf", "/etc/slurm/gres.conf", "/etc/slurm/applied", "/etc/munge/munge.key")


@dataclass(frozen=True, kw_only=True)
class Blow:
    """Where a run is stopped: at a step, or some time after its first word; `step` then says when, in words."""

    how: How
    step: str = ""
    after_s: float | None = None

    def __str__(self) -> str:
        return f"{self.how} at {self.step!r}" if self.after_s is None else f"{self.how} after {self.after_s:.2f} s"


@dataclass(kw_only=True)
class Stopped:
    """How a run ended that was, or was to be, stopped; its seconds are those since its first word."""

    exit_code: int
    stderr: str
    reached: bool
    seconds: float

    @property
    def steps(self) -> list[str]:
        """Those that it told, each once, in their order."""
        return list(dict.fromkeys(step for line in self.stderr.splitlines() if (step := step_of(line))))


def step_of(line: str) -> str | None:
    """The step that a line of stderr tells, without its duration."""
    found = _STEP.match(line.rstrip("\n"))
    return found[1].strip() if found else None


def watch_steps(gpuprov: Gpuprov, argv: Iterable[str]) -> list[str]:
    """The steps of an undisturbed run."""
    return leave_alone(gpuprov, argv).steps


def leave_alone(gpuprov: Gpuprov, argv: Iterable[str]) -> Stopped:
    """An undisturbed run."""
    undisturbed = strike(gpuprov, argv, Blow(how="SIGKILL", step="never"))
    assert undisturbed.exit_code == 0, undisturbed.stderr
    return undisturbed


def strike(
    gpuprov: Gpuprov,
    argv: Iterable[str],
    blow: Blow,
    *,
    engine: str = "lxd",
    on_host: Callable[[], object] | None = None,
) -> Stopped:
    """Run it and deliver the blow; `on_host` delivers one to what serves it on another host."""
    lines: list[str] = []
    reached = threading.Event()
    began_s = time.monotonic()
    with gpuprov.start("--verbose", *argv) as process:
        deliver = on_host or partial(_deliver, blow, process, engine)

        def act() -> None:
            if process.poll() is None:
                reached.set()
                deliver()

        timer = threading.Timer(blow.after_s, act) if blow.after_s is not None else None
        guard = threading.Timer(BUDGET_S, process.kill)
        guard.start()
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if not lines:  # before its first word a run has not begun, and Python itself would end
                    began_s = time.monotonic()
                    if timer:
                        timer.start()
                lines.append(line)
                if timer is None and not reached.is_set() and step_of(line) == blow.step:
                    act()
            process.wait()
        except BaseException:
            process.kill()  # which leaving the block would wait for
            raise
        finally:
            for clock in (timer, guard):
                if clock:
                    clock.cancel()
    stderr = "".join(lines)
    assert "Traceback" not in stderr, stderr
    assert process.returncode in ENDINGS[blow.how], f"{blow}: exit code {process.returncode}\n{stderr}"
    seconds = time.monotonic() - began_s
    return Stopped(exit_code=process.returncode, stderr=stderr, reached=reached.is_set(), seconds=seconds)


def _deliver(blow: Blow, process: subprocess.Popen[str], engine: str) -> None:
    if blow.how == "engine":
        kill_engine(engine)
    else:
        process.send_signal(getattr(signal, blow.how))


@contextmanager
def hung_engine(engine: str) -> Iterator[None]:
    """The engine's daemon takes connections and says nothing for the block."""

    def send(name: str) -> None:
        if PID_FILES[engine].exists():
            os.kill(int(PID_FILES[engine].read_text()), getattr(signal, f"SIG{name}"))
        else:
            output("systemctl", "kill", f"--signal=SIG{name}", UNITS[engine])

    send("STOP")
    try:
        yield
    finally:
        send("CONT")


def kill_engine(engine: str = "lxd") -> None:
    """SIGKILL to the engine's daemon, and wait until it is gone."""
    if not PID_FILES[engine].exists():
        output("systemctl", "kill", "--signal=SIGKILL", UNITS[engine])
        return
    pid = int(PID_FILES[engine].read_text())
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    with suppress(FileNotFoundError):
        while "State:\tZ" not in Path(f"/proc/{pid}/status").read_text():
            assert time.monotonic() < deadline, f"process {pid} outlives SIGKILL"
            time.sleep(0.02)


def engines() -> int:
    """How many daemons of LXD's own data folder run."""
    found = 0
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdecimal() and (folder / "comm").read_text() == "lxd\n":
                argv = (folder / "cmdline").read_bytes().split(b"\0")
                ours = b"LXD_DIR=/tmp" not in (folder / "environ").read_bytes()
                found += argv[0].endswith(b"lxd") and b"--logfile" in argv and ours
    return found


@dataclass(frozen=True, kw_only=True)
class Dump:
    """All that a cluster is: objects of the engine, links and rules of the host, keys, and files in its nodes."""

    parts: dict[str, object] = field(default_factory=dict)

    def differences(self, other: Dump) -> list[str]:
        return [
            f"{key}: {self.parts.get(key)!r} and then {other.parts.get(key)!r}"
            for key in sorted({*self.parts, *other.parts})
            if self.parts.get(key) != other.parts.get(key)
        ]


def dump_cluster(cluster: str, mark: str, keys: Path, *, client: str = "lxc") -> Dump:
    """Look at everything in LXD or Incus that has the cluster's label, or `mark` in its name on the host."""
    parts: dict[str, object] = {}
    for item in lxd("instances?recursion=1", client=client):
        if item["config"].get("user.gpuprov.cluster") == cluster:
            name = item["name"]
            parts[f"instance {name}"] = (_stable(item["config"]), item["devices"], item["status"])
            if item["status"] == "Running":
                parts[f"files {name}"] = _files(client, name, "--")
    for item in lxd("networks?recursion=1", client=client):
        if item["config"].get("user.gpuprov.cluster") == cluster:
            parts[f"network {item['name']}"] = item["config"]
    pools = [pool.removeprefix("/1.0/") for pool in lxd("storage-pools", client=client)]
    volumes = [url for pool in pools for url in lxd(f"{pool}/volumes", client=client)]
    found = {
        "volumes": sorted(url for url in volumes if mark in url),
        "folders": [str(path) for path in find_folders(mark)],
        "processes": sorted(find_processes(mark).values()),
    }
    parts |= {key: value for key, value in found.items() if value}
    return _with_host(parts, mark, keys / "gpuprov" / cluster)


def dump_docker(cluster: str, mark: str, keys: Path) -> Dump:
    """The same of Docker."""
    import docker  # type: ignore[import-untyped,unused-ignore]

    client = docker.APIClient()
    parts: dict[str, object] = {}
    mine = {"label": f"gpuprov.cluster={cluster}"}
    names = {
        "containers": [name for item in client.containers(all=True) for name in item["Names"]],
        "volumes": [item["Name"] for item in client.volumes()["Volumes"] or ()],
        "images": [tag for item in client.images() for tag in item["RepoTags"] or ()],
    }
    parts |= {kind: found for kind, listed in names.items() if (found := sorted(one for one in listed if mark in one))}
    for item in client.containers(all=True, filters=mine):
        found = client.inspect_container(item["Id"])
        name, host = found["Name"][1:], found["HostConfig"]
        places = {
            key: (place["IPAMConfig"], place["MacAddress"] if found["State"]["Running"] else "")
            for key, place in found["NetworkSettings"]["Networks"].items()
        }
        rights = (host["Privileged"], host["CapAdd"], host["DeviceCgroupRules"], host["Binds"], host["RestartPolicy"])
        labels = {key: _NUMBER.sub("", value) for key, value in found["Config"]["Labels"].items()}
        parts[f"instance {name}"] = (labels, found["Config"]["Image"], places, rights, found["State"]["Status"])
        if found["State"]["Running"]:
            parts[f"files {name}"] = _files("docker", name)
    for item in client.networks(filters=mine):
        parts[f"network {item['Name']}"] = (item["Labels"], item["IPAM"], item["Options"])
    return _with_host(parts, mark, keys / "gpuprov" / cluster)


DUMPS: dict[str, Callable[[str, str, Path], Dump]] = {
    "lxd": dump_cluster,
    "incus": partial(dump_cluster, client="incus"),
    "docker": dump_docker,
}


def state_images() -> set[str]:
    """What containers of Docker stand on that were made anew; no cluster's name is in theirs."""
    import docker  # type: ignore[import-untyped,unused-ignore]

    images = docker.APIClient().images()
    return {tag for item in images for tag in item["RepoTags"] or () if tag.startswith("gpuprov-state:")}


def loose_links() -> set[str]:
    """Links of the kinds that nodes get with no end in a node, such as an engine that is killed leaves."""
    links = json.loads(output("ip", "-j", "-d", "link"))
    kinds = ("veth", "macvlan")
    return {
        link["ifname"]
        for link in links
        if link.get("linkinfo", {}).get("info_kind") in kinds and "link_netnsid" not in link
    }


def _with_host(parts: dict[str, object], mark: str, folder: Path) -> Dump:
    links = [link["ifname"] for link in json.loads(output("ip", "-j", "link")) if mark in link["ifname"]]
    rules = [line.strip() for line in output("nft", "--stateless", "list", "ruleset").splitlines() if mark in line]
    kept = {"links": sorted(links), "rules": sorted(rules), "keys": sorted(p.name for p in folder.glob("*"))}
    parts |= {key: value for key, value in kept.items() if value}
    sums = {key: value for key, value in parts.items() if key.startswith("files ") and isinstance(value, list)}
    munge = {line for lines in sums.values() for line in lines if line.endswith(_FILES[-1])}
    assert len(munge) <= 1, "the nodes have different munge keys"
    return Dump(parts={**parts, **{key: [line for line in sums[key] if line not in munge] for key in sums}})


def _stable(config: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in config.items() if not key.startswith(("volatile.", "image."))}
    return {key: value.split()[0] if key == "user.gpuprov.self" else value for key, value in kept.items()}  # no uuid


def _files(client: str, name: str, *options: str) -> list[str]:
    """Checksums, or the words for files that are not there; the last is the munge key's, of each cluster another."""
    argv = [client, "exec", name, *options, "sha256sum", *_FILES]
    for _ in range(_ASKED):
        look = subprocess.run(argv, check=False, capture_output=True, text=True)
        if look.stdout or look.stderr:
            break
    return look.stdout.splitlines() or [look.stderr]
