"""Single nodes: made with every option, copied, kept, brought back, logged in to."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.conftest import Gpuprov, World

SIMULATED = ("--cluster", "gpte2e", "--gpu-mode", "simulated")
pytestmark = pytest.mark.usefixtures("cluster")


@contextmanager
def node(gpuprov: Gpuprov, name: str, *options: str) -> Iterator[dict[str, Any]]:
    """One more node while the block lasts; what `show` says of it."""
    gpuprov("create-node", name, *SIMULATED, *options)
    try:
        yield gpuprov.json("show", name)["node"]
    finally:
        gpuprov("rm", name)


def gpu_devices(shown: dict[str, Any]) -> list[str]:
    paths = [device["path"] for device in shown["devices"]]
    return sorted(path for path in paths if path.removeprefix("/dev/nvidia").isdecimal())


def test_a_node_joins_slurm_with_the_address_asked_for(gpuprov: Gpuprov) -> None:
    with node(gpuprov, "extra", "--addr", "10.78.3.60") as shown:
        assert shown["addresses"] == {"eth0": "10.78.3.60/24", "eth1": "10.78.5.59/24"}
        assert gpuprov.slurm_states()["extra"] == "idle"
        assert gpuprov.in_node("e000", "srun", "-w", "extra", "--gres=gpu:1", "hostname") == "extra\n"
        assert "(10.78.3.60)" in gpuprov.in_node("e002", "ping", "-c", "1", "-W", "3", "extra")
        assert gpuprov.json("cluster", "plan", "--name", "gpte2e")["plan"] == []  # it belongs to the cluster
    assert "extra" not in gpuprov.in_node("e000", "sinfo", "-h", "-N", "-o", "%N").split()
    assert "extra" not in gpuprov.in_node("e002", "cat", "/etc/hosts")
    assert set(gpuprov.slurm_states().values()) == {"idle"}


def test_a_plain_node_has_just_what_was_asked_for(gpuprov: Gpuprov, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("from the host")
    tmp_path.chmod(0o755)  # the node's root is nobody on the host
    mount = f"{tmp_path}:/srv/data:ro"
    options = ("--role", "plain", "--gpus", "2,3", "--mount", mount, "--network", "nat")
    with node(gpuprov, "plain", *options) as shown:
        assert gpu_devices(shown) == ["/dev/nvidia2", "/dev/nvidia3"]
        assert list(shown["addresses"]) == ["eth0"]
        assert gpuprov.in_node("plain", "cat", "/srv/data/data") == "from the host"
        written = gpuprov("exec", "plain", "--", "touch", "/srv/data/other", expect=1)
        assert "Read-only file system" in written.stderr
        gpuprov("exec", "plain", "--", "test", "-e", "/sys/class/net/eth1", expect=1)
        assert gpuprov.in_node("plain", "cat", "/proc/self/uid_map").split()[1] != "0"  # unprivileged
        assert gpuprov.rows()["plain"]["slurm"] == ""


def test_a_private_node_without_gpus(gpuprov: Gpuprov) -> None:
    with node(gpuprov, "hidden", "--role", "plain", "--gpus", "none", "--network", "private") as shown:
        assert gpu_devices(shown) == []
        assert list(shown["addresses"]) == ["eth1"]
        assert gpuprov.in_node("hidden", "sh", "-c", "ls /dev | grep -c nvidia || true") == "0\n"
        gpuprov.in_node("hidden", "ping", "-c", "1", "-W", "3", "e001-private")


def test_a_node_opens_its_own_gpu_and_cannot_make_another(gpuprov: Gpuprov) -> None:
    # ENXIO: the node may open it, and no driver is behind it; a device that is not its own could not even be made
    with node(gpuprov, "leased", "--role", "plain", "--gpus", "gpu0") as shown:
        assert gpu_devices(shown) == ["/dev/nvidia0"]
        own = gpuprov("exec", "leased", "--", "python3", "-c", open_says("/dev/nvidia0")).stdout
        assert own in ("ENXIO\n", "opened\n")  # opened: a machine with a GPU
        assert gpuprov.in_node("leased", "python3", "-c", open_says("/dev/nvidia1")) == "ENOENT\n"
        for minor in ("0", "1"):
            refused = gpuprov("exec", "leased", "--", "mknod", f"/root/gpu{minor}", "c", "195", minor, expect=1)
            assert "Operation not permitted" in refused.stderr


def test_a_privileged_node_cannot_open_the_gpu_of_another(gpuprov: Gpuprov) -> None:
    # here mknod works, and the device rules alone stand between the node and the host's other GPUs
    with node(gpuprov, "mighty", "--role", "plain", "--gpus", "gpu0", "--privileged"):
        gpuprov.in_node("mighty", "mknod", "/root/gpu1", "c", "195", "1")
        assert gpuprov.in_node("mighty", "python3", "-c", open_says("/root/gpu1")) == "EPERM\n"
        assert gpuprov.in_node("mighty", "python3", "-c", open_says("/dev/nvidia0")) in ("ENXIO\n", "opened\n")


def open_says(path: str) -> str:
    return f"""
import errno, os
try:
    os.open({path!r}, os.O_RDWR)
    print("opened")
except OSError as error:
    print(errno.errorcode[error.errno])
"""


def test_exclusive_leases_exclude(gpuprov: Gpuprov, world: World) -> None:
    before = world.look()
    held = gpuprov.rows()["e000"]["devices"][0].removeprefix("/dev/nvidia")
    wanted = ("--role", "plain", "--gpus", f"gpu{held}", "--exclusive")
    refused = gpuprov("create-node", "greedy", *SIMULATED, *wanted, expect=2)
    assert "e000 (cluster gpte2e, shared" in refused.stderr
    assert world.look() == before


def test_a_clone_has_the_disk_and_nothing_else_of_its_source(gpuprov: Gpuprov) -> None:
    with node(gpuprov, "source", "--role", "plain"):
        gpuprov.in_node("source", "touch", "/root/kept")
        refused = gpuprov("clone", "source", "copy", "--gpu-mode", "simulated", expect=2)
        assert "gpuprov stop source" in refused.stderr
        identity = gpuprov.in_node("source", "cat", "/etc/machine-id", "/etc/ssh/ssh_host_ed25519_key.pub")
        gpuprov("stop", "source")
        gpuprov("clone", "source", "copy", "--gpu-mode", "simulated")
        try:
            gpuprov.in_node("copy", "test", "-e", "/root/kept")
            assert gpuprov.in_node("copy", "hostname") == "copy\n"
            other = gpuprov.in_node("copy", "cat", "/etc/machine-id", "/etc/ssh/ssh_host_ed25519_key.pub")
            assert set(identity.split()) & set(other.split()) <= {"ssh-ed25519"}
            rows = gpuprov.rows()
            assert rows["copy"]["address"] != rows["source"]["address"]
        finally:
            gpuprov("rm", "copy")


def test_a_snapshot_brings_a_running_node_back(gpuprov: Gpuprov) -> None:
    gpuprov.in_node("e003", "touch", "/root/kept")
    gpuprov("snapshot", "e003", "good")
    gpuprov.in_node("e003", "rm", "/root/kept")
    assert gpuprov("snapshot", "e003", "good").stdout == "unchanged\n"
    gpuprov("restore", "e003", "bad", expect=2)
    gpuprov("restore", "e003", "good")
    gpuprov.in_node("e003", "test", "-e", "/root/kept")
    assert gpuprov.slurm_states()["e003"] == "idle"


def test_ssh_by_key_and_by_nothing_else(gpuprov: Gpuprov) -> None:
    assert gpuprov("ssh", "e001", "hostname").stdout == "e001\n"
    gpuprov("ssh", "e001", "exit", "7", expect=7)
    options = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "PubkeyAuthentication=no"]
    argv = ["ssh", *(part for option in options for part in ("-o", option)), "root@10.78.3.3", "true"]
    refused = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert refused.returncode == 255
    assert "Permission denied (publickey,hostbased)" in refused.stderr


def test_files_are_copied_both_ways(gpuprov: Gpuprov, tmp_path: Path) -> None:
    top = tmp_path / "tree"
    (top / "in").mkdir(parents=True)
    (top / "in/large").write_bytes(b"0123456789abcdef" * 2_000_000)
    (top / "empty").touch()
    sent = gpuprov("cp", str(top), "e001:/srv/")
    assert sent.stdout == f"copied {top} to e001:/srv/tree: 2 files, 32000000 bytes\n"
    gpuprov.in_node("e001", "ln", "-s", "/etc/passwd", "/srv/tree/link")
    fetched = gpuprov("cp", "e001:/srv/tree", str(tmp_path / "back"))
    assert "link (a link)" in fetched.stderr
    assert sorted(path.name for path in (tmp_path / "back").rglob("*")) == ["empty", "in", "large"]
    assert (tmp_path / "back/in/large").read_bytes() == (top / "in/large").read_bytes()
    again = gpuprov("cp", "e001:/srv/tree", str(tmp_path / "back/in"), "--json").document["changed"]
    assert again == [f"copied e001:/srv/tree to {tmp_path}/back/in/tree: 2 files, 32000000 bytes"]
    for argv, what in (
        ((str(top), "e001:/srv"), "exists on e001"),
        (("e001:/none", str(tmp_path)), "no /none on e001"),
        ((str(tmp_path / "none"), "e001:/srv"), "on this host"),
        ((str(top / "empty"), "e001:/dev/shm/none/"), "no folder"),
    ):
        assert what in gpuprov("cp", *argv, expect=2).stderr
    assert "gpuprov-cp" not in gpuprov.in_node("e001", "ls", "-A", "/srv")
    gpuprov.in_node("e001", "rm", "-r", "/srv/tree")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "tree"]


def test_the_exit_code_of_a_command_is_handed_on(gpuprov: Gpuprov) -> None:
    gpuprov("exec", "e001", "--", "sh", "-c", "exit 23", expect=23)
    assert "e001" in gpuprov("list").stdout
    assert gpuprov("logs", "e001").exit_code == 0
