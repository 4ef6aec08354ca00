"""Several machines as `container` makes them, with sshd and nothing of gpuprov's, on one network of LXD's."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.e2e.conftest import output
from tests.e2e.machine import Machine, make_image, make_machine, remove_machines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.places import Place

SHARED = "/mnt/lab"  # in all machines the same folder of this one, as a file server's would be
BESIDE = f"{SHARED}.slurm"  # another one
PACKAGES = ("openssh-server", "python3", "python3-venv")


@dataclass(frozen=True, kw_only=True)
class Lab:
    """Machines by name, the key that opens them for root, and the folder that all have at SHARED."""

    machines: dict[str, Machine]
    instances: dict[str, str]
    addresses: dict[str, str]
    key: Path
    shared: Path

    @contextmanager
    def cut_off(self, name: str) -> Iterator[None]:
        """Nothing comes to that machine or from it during the block."""
        told = json.loads(output("lxc", "query", f"/1.0/instances/{self.instances[name]}"))["config"]
        link = next(value for key, value in told.items() if key.endswith("eth0.host_name"))
        output("ip", "link", "set", "dev", link, "down")
        try:
            yield
        finally:
            output("ip", "link", "set", "dev", link, "up")


@contextmanager
def several_machines(
    place: Place, folder: Path, names: tuple[str, ...], suite: str = "bookworm", *, more: tuple[str, ...] = ()
) -> Iterator[Lab]:
    """They run, have `more` packages, and know nobody but the owner of the key."""
    key = folder / "key"
    output("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))

    def with_key(root: Path) -> None:
        (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
        shutil.copy(key.with_suffix(".pub"), root / "root/.ssh/authorized_keys")

    shared, beside = folder / "shared", folder / "beside"
    shared.mkdir()
    beside.mkdir()
    machines: dict[str, Machine] = {}
    addresses = {name: place.address(0, 2 + number) for number, name in enumerate(names)}
    instances = {name: place.node(number) for number, name in enumerate(names)}
    remove_machines(place, instances.values())
    try:
        make_image(place, folder, suite, *PACKAGES, *more, change=with_key)
        for name, instance in instances.items():
            machines[name] = make_machine(place, instance, addresses[name])
            for device, source, path in (("shared", shared, SHARED), ("beside", beside, BESIDE)):
                disk = (instance, device, "disk", f"source={source}", f"path={path}")
                output("lxc", "config", "device", "add", *disk)
            machines[name].boot()
            # each has a name and a key of its own
            own = f"hostname {name} && echo {name} >/etc/hostname && rm /etc/ssh/ssh_host_* && ssh-keygen -A"
            machines[name].run("sh", "-c", f"{own} && systemctl restart ssh")
        yield Lab(machines=machines, instances=instances, addresses=addresses, key=key, shared=shared)
    finally:
        remove_machines(place, instances.values())
