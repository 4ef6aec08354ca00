"""Machines as people have them: Debian 12 or 13 with systemd as PID 1, and nothing that gpuprov needs installed.

`container` is one in LXD, as fast as this machine; it is privileged, as a machine is: LXD and Docker run in it, and it
attaches loop devices. `namespaced` needs no engine, has cgroup v2 alone, and no network.
`virtual_machine` has a kernel of its own and cgroup v2 alone; emulated, it is some ten times slower.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.drivers.forward_rules import end_passage, let_through
from tests.e2e.conftest import output
from tests.own_docker import QUIET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.e2e.places import Place

ROOT = Path(__file__).parents[2]
HOME = "/root/gpuprov"
PACKAGES = ("systemd-sysv", "dbus", "ifupdown", "iproute2", "procps", "ca-certificates", "git", "make")
FOR_A_KERNEL = ("kmod", "udev", "openssh-server")
# Debian 13's 6.12 panics in the emulator.
KERNEL = ("--include=linux-image-cloud-amd64,initramfs-tools", "bookworm")
TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")  # with a certificate authority of the site's own, maybe
LOOPS = 64
RAW_LXC = """\
lxc.apparmor.profile = unconfined
lxc.cgroup.devices.allow = a
lxc.cgroup2.devices.allow = a
"""
# systemd wants cpu and cpuacct as one hierarchy, and LXC fails where this kernel has two.
CGROUPS_UNIT = """\
[Unit]
DefaultDependencies=no
Before=sysinit.target
ConditionPathIsReadWrite=!/sys/fs/cgroup
ConditionPathIsMountPoint=!/sys/fs/cgroup/cpu,cpuacct

[Service]
Type=oneshot
WorkingDirectory=/sys/fs/cgroup
ExecStart=mount -o remount,rw .
ExecStart=sh -c 'rm cpu cpuacct && rmdir cpu,cpuacct && mkdir cpu cpuacct'
ExecStart=mount -t cgroup -o cpu cgroup cpu
ExecStart=mount -t cgroup -o cpuacct cgroup cpuacct

[Install]
WantedBy=sysinit.target
"""
# Its first words make the cgroup that is the machine's root; those of PIVOT run in its namespaces.
NAMESPACED = """\
mkdir -p "$FOLDER/cgroups"
mount -t cgroup2 cgroup2 "$FOLDER/cgroups"
mkdir -p "$FOLDER/cgroups/$NAME"
echo $$ >"$FOLDER/cgroups/$NAME/cgroup.procs"
exec unshare --cgroup --pid --uts --ipc --net --mount --fork --kill-child sh -ec "$PIVOT"
"""
PIVOT = """\
cd "$ROOT"
mount --bind . .
cd "$ROOT"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs dev
for name in null zero full random urandom tty; do cp -a /dev/$name dev/; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
pivot_root . mnt
umount --lazy /mnt
exec env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin /sbin/init systemd.unified_cgroup_hierarchy=1
"""
SWEEP_CGROUPS = """\
unshare --mount sh -ec 'mount -t cgroup2 cgroup2 "$FOLDER/cgroups"
while [ -e "$FOLDER/cgroups/$NAME" ]; do
    find "$FOLDER/cgroups/$NAME" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
done'
"""
DISK_BYTES = 20 * 10**9
MEMORY_MIB = 6144
SLIRP = ("10.0.2.15/24", "10.0.2.2", "10.0.2.3")  # address, gateway and name server of qemu's network for users
NOWHERE = ("192.0.2.2/24", "192.0.2.1")  # of a machine without a network
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_STEP_S = 0.2
_BEGUN_S = 30


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine to be used as root.

    Attributes:
        enter: What a command line begins with that runs there.
        quote: Whether the words of that command pass another shell on the way.
        switch_on: Boots it.
        lose_power: Ends it, without a word to anything in it.
        slower: How many times longer than on this machine everything may take.
    """

    enter: tuple[str, ...]
    switch_on: Callable[[], object]
    lose_power: Callable[[], object]
    quote: bool = False
    slower: int = 1

    def run(self, *argv: str, stdin: bytes = b"", within_s: float = 600.0) -> str:
        """What a command says that somebody types in the project's folder."""
        line = f"mkdir -p {HOME} && cd {HOME} && export PIP_CERT={TRUSTED} LANG=C.UTF-8 && exec {shlex.join(argv)}"
        words = ("sh", "-c", shlex.quote(line) if self.quote else line)
        done = subprocess.run(
            [*self.enter, *words], check=False, capture_output=True, timeout=within_s * self.slower, input=stdin
        )
        said = f"{done.stdout.decode(errors='replace')}\n{done.stderr.decode(errors='replace')}"
        assert done.returncode == 0, f"{' '.join(argv)}: exit code {done.returncode}\n{said}"
        return done.stdout.decode()

    def boot(self) -> None:
        """Switch it on, and wait until systemd has started what is enabled."""
        self.switch_on()
        self.wait_for(lambda: self._state() in {"running", "degraded"}, within_s=60)  # some units cannot run there

    def wait_for(self, found: Callable[[], object], *, within_s: float) -> None:
        """Ask until it is so."""
        end_s = time.monotonic() + within_s * self.slower
        while not found():
            assert time.monotonic() < end_s, f"not so after {within_s * self.slower:.0f} s"
            time.sleep(_STEP_S)

    def check_out(self) -> None:
        """Give it what git knows of this checkout, as a clone has it."""
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
        pack = ["tar", "--create", "--null", "--files-from=-", "--ignore-failed-read"]
        packed = subprocess.run(pack, cwd=ROOT, input=listed, check=True, capture_output=True).stdout
        self.run("tar", "--extract", "--no-same-owner", "--directory", HOME, stdin=packed)

    def _state(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            argv = (*self.enter, "systemctl", "is-system-running")
            return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60).stdout.strip()
        return ""


@contextmanager
def container(place: Place, folder: Path, suite: str, *, disk: Path | None = None) -> Iterator[Machine]:
    """A machine in LXD; its disk is the file system of that empty folder, else this machine's."""
    name = place.node(0)
    remove_machines(place, [name])
    try:
        make_image(place, folder, suite, disk=disk)
        machine = make_machine(place, name, place.address(0, 2))
        machine.boot()
        machine.check_out()
        yield machine
    finally:
        remove_machines(place, [name])


@contextmanager
def namespaced(place: Place, folder: Path, *packages: str) -> Iterator[Machine]:
    """A machine of Debian 12 in namespaces of its own, with gpuprov and these packages."""
    root = _install(folder, "bookworm", "python3-venv", *packages, address=NOWHERE[0], gateway=NOWHERE[1])
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    inside = Machine(enter=("chroot", str(root)), switch_on=lambda: None, lose_power=lambda: None)
    inside.check_out()
    inside.run("sh", "-ec", "python3 -m venv .venv; .venv/bin/pip -q install .; ln -s $PWD/.venv/bin/gpuprov /usr/bin")
    told = {"FOLDER": str(folder), "ROOT": str(root), "NAME": place.mark, "PIVOT": PIVOT}
    command = ("unshare", "--mount", "sh", "-ec", NAMESPACED)
    with subprocess.Popen(command, env={**os.environ, **told}, **QUIET) as outside:
        try:
            yield _boot_namespaced(outside)
        finally:
            outside.kill()
    subprocess.run(["sh", "-ec", SWEEP_CGROUPS], env={**os.environ, **told}, check=True)


def _boot_namespaced(outside: subprocess.Popen[bytes]) -> Machine:
    find = ("pgrep", "--parent", str(outside.pid), "--exact", "systemd")
    end_s = time.monotonic() + _BEGUN_S
    while not (first := subprocess.run(find, check=False, capture_output=True, text=True).stdout.strip()):
        assert time.monotonic() < end_s, f"there is no systemd; exit code {outside.poll()}"
        time.sleep(_STEP_S)
    enter = ("nsenter", "--target", first, "--all", "--root", "--wd=/", "env", "-i", f"PATH={PATH}", "HOME=/root")
    machine = Machine(enter=enter, switch_on=lambda: None, lose_power=outside.kill)
    machine.boot()
    return machine


def make_image(
    place: Place,
    folder: Path,
    suite: str,
    *more: str,
    disk: Path | None = None,
    change: Callable[[Path], object] = lambda _root: None,
) -> None:
    """An image of LXD for such machines, with their network and their pool, which have its name."""
    image = _image(place)  # the pool's own: mkfs.btrfs takes a file for mounted if the root's is one of the same path
    root = _install(folder, suite, *more, address=f"{place.address(0, 2)}/24", gateway=place.address(0, 1))
    (root / "etc/tmpfiles.d/loop.conf").write_text(_loop_devices())
    (root / "etc/systemd/system/cgroups.service").write_text(CGROUPS_UNIT)
    output("systemctl", "--quiet", "--root", str(root), "enable", "cgroups.service")
    change(root)
    (folder / "metadata.yaml").write_text('{"architecture": "x86_64", "creation_date": 1}\n')
    output("lxc", "image", "import", str(_pack(folder)), "--alias", image, timeout_s=600)
    output("lxc", "storage", "create", image, "dir", *([f"source={disk}"] if disk else []))
    address = ("ipv4.dhcp=false", f"ipv4.address={place.address(0, 1)}/24", "ipv4.nat=true", "ipv6.address=none")
    output("lxc", "network", "create", _network(place), *address)
    let_through(_network(place))


def make_machine(place: Place, name: str, address: str) -> Machine:
    """A machine from that image, switched off."""
    keys = ("security.privileged=true", "security.nesting=true", f"raw.lxc={RAW_LXC}")
    options = ("--no-profiles", "--storage", _image(place), "--network", _network(place))
    output("lxc", "init", _image(place), name, *options, *(word for key in keys for word in ("--config", key)))
    with tempfile.NamedTemporaryFile("w") as interfaces:
        interfaces.write(_interfaces(f"{address}/24", place.address(0, 1)))
        interfaces.flush()
        output("lxc", "file", "push", interfaces.name, f"{name}/etc/network/interfaces")
    return Machine(
        enter=("lxc", "exec", name, "--env", "HOME=/root", "--"),
        switch_on=lambda: output("lxc", "start", name),
        lose_power=lambda: output("lxc", "stop", "--force", name),
    )


def remove_machines(place: Place, names: Iterable[str]) -> None:
    """Also what a killed run left."""
    parts = (("image", "delete", _image(place)), ("storage", "delete", _image(place)))
    for argv in (*(("delete", "--force", name) for name in names), *parts, ("network", "delete", _network(place))):
        subprocess.run(["lxc", *argv], check=False, capture_output=True)
    end_passage(_network(place))


def _image(place: Place) -> str:
    return f"{place.mark}-machine"


def _network(place: Place) -> str:
    return f"{place.mark}0"


@contextmanager
def virtual_machine(_place: Place, folder: Path, suite: str) -> Iterator[Machine]:
    """A machine in qemu, emulated, with a disk of 20 GB."""
    address, gateway, names = SLIRP
    root = _install(folder, suite, *FOR_A_KERNEL, address=address, gateway=gateway)
    key = folder / "key"
    output("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
    (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    (root / "root/.ssh/authorized_keys").write_text(key.with_suffix(".pub").read_text())
    (root / "etc/resolv.conf").write_text(f"nameserver {names}\n")
    (root / "etc/fstab").write_text("/dev/vda / ext4 defaults 0 1\n")
    boot = _install_kernel(folder, root)
    disk = folder / "disk"
    output("truncate", "--size", str(DISK_BYTES), str(disk))
    output("mkfs.ext4", "-q", "-d", str(root), str(disk), timeout_s=600)
    shutil.rmtree(root)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    argv = [
        "qemu-system-x86_64",
        *("-accel", "tcg,thread=multi", "-smp", "2", "-m", str(MEMORY_MIB), "-cpu", "max"),
        *("-kernel", boot["vmlinuz"], "-initrd", boot["initrd"]),
        *("-append", "root=/dev/vda rw console=ttyS0 net.ifnames=0"),
        *("-drive", f"file={disk},format=raw,if=virtio"),
        *("-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{port}-:22", "-device", "virtio-net-pci,netdev=net"),
        *("-display", "none", "-serial", f"file:{folder / 'console'}"),
    ]
    running: list[subprocess.Popen[bytes]] = []

    def lose_power() -> None:
        qemu = running.pop()
        qemu.send_signal(signal.SIGKILL)
        qemu.wait()

    options = ("BatchMode=yes", "StrictHostKeyChecking=no", f"UserKnownHostsFile={folder}/known", "ConnectTimeout=20")
    machine = Machine(
        enter=("ssh", "-q", "-i", str(key), "-p", str(port), *(f"-o{one}" for one in options), "root@127.0.0.1"),
        switch_on=lambda: running.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL)),
        lose_power=lose_power,
        quote=True,
        slower=20,
    )
    try:
        machine.boot()
        machine.check_out()
        yield machine
    finally:
        while running:
            lose_power()


def _install(folder: Path, suite: str, *more: str, address: str, gateway: str) -> Path:
    """Debian as its installer leaves it, in a folder, with an address and what this machine trusts."""
    root = folder / "rootfs"
    packages = ",".join((*PACKAGES, *more))
    output("mmdebstrap", "--quiet", "--variant=apt", f"--include={packages}", suite, str(root), timeout_s=900)
    (root / "etc/network/interfaces").write_text(_interfaces(address, gateway))
    (root / "etc/hostname").write_text("fresh\n")
    (root / "etc/machine-id").write_text("")
    shutil.copy(TRUSTED, root / TRUSTED.relative_to("/"))
    return root


def _install_kernel(folder: Path, root: Path) -> dict[str, str]:
    """Put a kernel's modules into a machine, and its own files beside it: their paths."""
    whole = folder / "kernel"
    output("mmdebstrap", "--quiet", "--variant=apt", *KERNEL, str(whole), timeout_s=900)
    shutil.move(whole / "usr/lib/modules", root / "usr/lib/modules")
    boot = {name: str(shutil.copy(next((whole / "boot").glob(f"{name}*")), folder)) for name in ("vmlinuz", "initrd")}
    shutil.rmtree(whole)
    return boot


def _interfaces(address: str, gateway: str) -> str:
    lines = ("auto lo eth0", "iface lo inet loopback", "iface eth0 inet static")
    return "\n".join((*lines, f"address {address}", f"gateway {gateway}", ""))


def _pack(folder: Path) -> Path:
    """An image of LXD: its metadata, and the root file system beside it."""
    image = folder / "image.tar"
    argv = ("tar", "--create", "--numeric-owner", "--directory", str(folder), "--file", str(image))
    output(*argv, "metadata.yaml", "rootfs", timeout_s=600)
    shutil.rmtree(folder / "rootfs")
    return image


def _loop_devices() -> str:
    """What udev would make, which no container has."""
    loops = (f"b /dev/loop{number} 0660 root disk - 7:{number}" for number in range(LOOPS))
    return "\n".join(("c /dev/loop-control 0660 root disk - 10:237", *loops, ""))
