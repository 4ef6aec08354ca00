"""The engines under test, and what their tests must do behind a driver's back.

Objects of these tests are called `gpt-*` (nodes, images) and `gptbr*` (networks), carry the cluster label `gpt` and
live in 10.77.0.0/16; sweeping removes those, whoever made them, and nothing else. Where engines are tested side by
side, each process has networks, addresses and MACs of its own: 10.77.0.0/16, 10.78.0.0/16 and so on.
"""

from __future__ import annotations

import io
import os
import tarfile
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from gpuprov.assets import get_asset
from gpuprov.cluster.services import init_of
from gpuprov.core.execution import CommandMissing, run
from gpuprov.core.waiting import Wait
from gpuprov.drivers.base import (
    LABEL_CLUSTER,
    LABEL_FINGERPRINT,
    LABEL_ROLE,
    LABEL_VERSION,
    ROLE_BUILDER,
    Driver,
    ExecResult,
    NodeRequest,
)
from gpuprov.drivers.lxd.ending import remove_instance
from gpuprov.drivers.lxd.members import pool_of_nodes
from gpuprov.drivers.networks import NetworkRequest
from gpuprov.drivers.registry import open_driver
from gpuprov.provision.kept_bases import import_name
from gpuprov.provision.recipe import image_recipe
from gpuprov.provision.rootfs import default_cache, ensure_rootfs
from gpuprov.roles.registry import PLAIN
from gpuprov.shapes.cluster_spec import ImageSpec
from gpuprov.shapes.node import Attachment
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import Command, FakeEngine, FakeImage
from tests.only_run import one_at_a_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuprov.core.errors import GpuprovError
    from gpuprov.drivers.capabilities import Capability
    from gpuprov.drivers.docker.driver import DockerDriver
    from gpuprov.drivers.lxd.driver import LxdDriver

CLUSTER = "gpt"
NODES = "gpt-"
NETWORKS = "gptbr"
PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
PREFIX_LENGTH = 24


def bridge(network: int) -> str:
    """The name of a network of this process."""
    return f"{NETWORKS}{PROCESS}{network}"


def ipv4(network: int, host: int) -> str:
    """An address on it."""
    return f"10.{77 + PROCESS}.{network}.{host}"


def mac(network: int, host: int) -> str:
    """The MAC that goes with the address."""
    return f"00:16:3e:{77 + PROCESS}:{network:02x}:{host:02x}"


NAT, PRIVATE = bridge(0), bridge(1)
NAT_ROUTER = ipv4(0, 1)

# Counts the processes that are `sleep` for that many seconds.
FIND_PROCESS = """
import pathlib
wanted = b"sleep\\0" + b"{seconds}\\0"
def cmdline(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""
print(sum(cmdline(path) == wanted for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")))
"""


@contextmanager
def refused(kind: type[GpuprovError]) -> Iterator[None]:
    """The block ends with this error, and it has all three parts."""
    with pytest.raises(kind) as caught:
        yield
    error = caught.value
    assert error.what
    assert error.evidence
    assert error.fix


class Site(Protocol):
    """One engine; `real` says whether nodes have a kernel, a network and a file system, not only a record of them."""

    driver: Driver
    real: bool

    def base_image(self) -> str:
        """Identity of a small base; imported if the engine does not have it."""

    def add_foreign_node(self, name: str) -> None:
        """Make an instance without our labels."""

    def add_foreign_network(self, name: str) -> None:
        """Make a network without our labels."""

    def foreign(self, name: str) -> object:
        """Everything the engine holds of that instance or network, to compare."""

    def copy(self, name: str, copy: str) -> None:
        """Make a stopped copy of an instance as people do: `lxc copy`, or `docker commit` and `docker run`."""

    def rename(self, name: str, other: str) -> None:
        """Rename a stopped instance, as `lxc rename` and `docker rename` do."""

    def copy_image(self, name: str, copy: str) -> None:
        """Give an image of ours a second name, as `lxc copy` and `docker tag` do."""

    def freeze(self, name: str) -> None:
        """Halt all processes of a running node, as `lxc pause` and `docker pause` do."""

    def no_image(self, name: str) -> str | None:
        """What an image's identity would be that is that instance, and no image of ours; None if none can be."""

    def take_image_name(self, name: str) -> None:
        """Make something foreign that has the name which an image of ours would get."""

    def sweep(self) -> None:
        """Remove every object of these tests."""


class FakeSite:
    """The engine in memory; commands in its nodes run on this machine, which is enough for their streams and status."""

    real = False

    def __init__(self) -> None:
        self.engine = FakeEngine(answer=run_here)
        self.driver: Driver = FakeDriver(self.engine)

    def base_image(self) -> str:
        self.engine.images["base"] = FakeImage(id="base", name="base", ours=False)
        return "base"

    def add_foreign_node(self, name: str) -> None:
        self.engine.add_foreign_node(name)

    def add_foreign_network(self, name: str) -> None:
        self.engine.add_foreign_network(name)

    def foreign(self, name: str) -> object:
        dump = self.engine.dump()
        return dump["nodes"].get(name), dump["networks"].get(name)

    def copy(self, name: str, copy: str) -> None:
        self.engine.copy(name, copy)

    def rename(self, name: str, other: str) -> None:
        self.engine.rename(name, other)

    def copy_image(self, name: str, copy: str) -> None:
        image = self.engine.images[f"instance:{name}"]
        self.engine.images[copy] = replace(image, id=copy, name=copy, ours=False)

    def freeze(self, name: str) -> None:
        self.engine.nodes[name].status = "frozen"

    def no_image(self, name: str) -> str | None:  # noqa: ARG002 - an identity is looked up among images only
        return None

    def take_image_name(self, name: str) -> None:
        self.engine.add_foreign_node(f"gpuprov-image-{name}")

    def sweep(self) -> None:
        self.engine.nodes.clear()
        self.engine.networks.clear()
        self.engine.images.clear()


def run_here(command: Command) -> ExecResult:
    limit_s = command.timeout_s or 60.0
    try:
        done = run(
            command.argv,
            timeout_s=limit_s,
            environment=command.environment,
            cwd=command.cwd or "/",
            stdin=command.stdin.decode(),
            check=False,
        )
    except CommandMissing as missing:
        return ExecResult(exit_code=127, stdout="", stderr=missing.evidence)
    return ExecResult(exit_code=done.exit_code, stdout=done.stdout, stderr=done.stderr)


def import_plain_base(driver: Driver) -> str:
    """The base that `gpuprov image build` imports for plain nodes, so that nobody builds it twice."""
    roles, kernels = get_asset("roles"), get_asset("smoke_kernels")
    init = init_of(driver)
    recipe = image_recipe(
        ImageSpec(), role=PLAIN.recipe, wheels="none", init=init, roles_path=roles, smoke_kernels=kernels
    )
    with one_at_a_time():
        rootfs = ensure_rootfs(recipe.rootfs, cache=default_cache())
    return driver.import_rootfs(import_name(rootfs), str(rootfs), {LABEL_VERSION: "test"})


class LxdSite:
    """A real LXD, or a real Incus."""

    real = True

    def __init__(self, engine: str = "lxd") -> None:
        self._lxd: LxdDriver = open_driver(engine)  # type: ignore[assignment]
        self.driver: Driver = self._lxd
        self._client: Any = self._lxd._api.client

    def base_image(self) -> str:
        return import_plain_base(self.driver)

    def add_foreign_node(self, name: str) -> None:
        root = {"type": "disk", "path": "/", "pool": pool_of_nodes(self._lxd._api)}
        wanted = {"name": name, "source": {"type": "none"}, "profiles": [], "devices": {"root": root}}
        self._client.instances.create(wanted, wait=True)

    def add_foreign_network(self, name: str) -> None:
        config = {"ipv4.address": "none", "ipv6.address": "none"}
        self._client.networks.create(name, type="bridge", config=config)

    def foreign(self, name: str) -> object:
        nodes = [instance for instance in self._client.instances.all(recursion=1) if instance.name == name]
        networks = [network for network in self._client.networks.all() if network.name == name]
        return [(node.status, dict(node.config), dict(node.devices)) for node in nodes], [
            dict(network.config) for network in networks
        ]

    def copy(self, name: str, copy: str) -> None:
        source = {"type": "copy", "source": name}
        self._client.instances.create({"name": copy, "source": source}, wait=True)

    def rename(self, name: str, other: str) -> None:
        self._client.instances.get(name).rename(other, wait=True)

    def copy_image(self, name: str, copy: str) -> None:
        self.copy(name, copy)

    def freeze(self, name: str) -> None:
        self._client.instances.get(name).freeze(wait=True)

    def no_image(self, name: str) -> str | None:
        return f"instance:{name}"

    def take_image_name(self, name: str) -> None:
        self.add_foreign_node(f"gpuprov-image-{name}")

    def sweep(self) -> None:
        for instance in self._client.instances.all(recursion=1):
            owner = instance.config.get("user.gpuprov.cluster")
            if owner == CLUSTER or instance.name.removeprefix("gpuprov-image-").startswith(NODES):
                remove_instance(self._lxd._api, instance.name)  # also if LXD waits for one that a test made hostile
        for network in self._client.networks.all():
            if network.name.startswith(NETWORKS) and network.managed:  # Docker's bridges are listed as well
                sweep_network(network)
        for image in self._client.images.all():
            if image.properties.get("description", "").startswith(NODES):
                image.delete(wait=True)


def sweep_network(network: Any) -> None:
    """Remove it, also where Incus loses its way because some link of the host went while it looked at all."""
    for _ in range(4):
        with suppress(Exception):  # pylxd's, of many kinds
            network.delete(wait=True)
            return
        time.sleep(0.2)
    network.delete(wait=True)


class DockerSite:
    """A real dockerd."""

    real = True

    def __init__(self) -> None:
        self._docker: DockerDriver = open_driver("docker")  # type: ignore[assignment]
        self.driver: Driver = self._docker
        self._client: Any = self._docker._api.client

    def base_image(self) -> str:
        return import_plain_base(self.driver)

    def add_foreign_node(self, name: str) -> None:
        self._client.create_container_from_config({"Image": self.base_image(), "Cmd": ["sleep", "60"]}, name)

    def add_foreign_network(self, name: str) -> None:
        self._client.create_network(name, driver="bridge", options={"com.docker.network.bridge.name": name})

    def foreign(self, name: str) -> object:
        nodes = [node for node in self._client.containers(all=True) if f"/{name}" in node["Names"]]
        networks = [network for network in self._client.networks() if network["Name"] == name]
        keys = ("Id", "State", "Labels", "Mounts")
        return [{key: node[key] for key in keys} for node in nodes], networks

    def copy(self, name: str, copy: str) -> None:
        self._client.commit(name, repository=copy, tag="copy")
        self._client.create_container_from_config({"Image": f"{copy}:copy"}, copy)

    def rename(self, name: str, other: str) -> None:
        self._client.rename(name, other)

    def copy_image(self, name: str, copy: str) -> None:
        self._client.tag(name.replace("gpuprov-image-", "gpuprov-image:"), "gpuprov-image", copy)

    def freeze(self, name: str) -> None:
        self._client.pause(name)

    def no_image(self, name: str) -> str | None:
        """Docker's containers and images have names of their own each; a foreign image stands for the instance."""
        if not name.endswith("-foreign"):
            return None
        tag = f"{name.lower()}:foreign"
        self._client.import_image_from_data(rootfs_of(b"foreign"), repository=name.lower(), tag="foreign")
        return tag

    def take_image_name(self, name: str) -> None:
        self._client.import_image_from_data(rootfs_of(b"foreign"), repository="gpuprov-image", tag=name)

    def sweep(self) -> None:
        for node in self._client.containers(all=True):
            ours = node["Labels"].get(LABEL_CLUSTER) == CLUSTER
            if ours or any(name.startswith(f"/{NODES}") for name in node["Names"]):
                self._client.remove_container(node["Id"], force=True, v=True)
        for image in self._client.images():
            for tag in image["RepoTags"] or ():
                if tag.startswith(NODES) or f":{NODES}" in tag:
                    self._client.remove_image(tag)
        networks = sorted(self._client.networks(), key=lambda network: network["Driver"] == "bridge")
        for network in networks:
            if network["Name"].startswith(NETWORKS) or network["Labels"].get(LABEL_CLUSTER) == CLUSTER:
                self._client.remove_network(network["Id"])


def make_network(driver: Driver, request: NetworkRequest) -> None:
    """A whole one."""
    driver.create_network(request)
    driver.complete_network(request)


class Bench:
    """A site with an image and two networks, on which tests make nodes with names and addresses of their own."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.driver = site.driver
        self.real = site.real
        self._numbers = count(10)
        self.labels = {LABEL_CLUSTER: CLUSTER, LABEL_VERSION: "test"}
        make_network(self.driver, NetworkRequest(name=NAT, labels=self.labels, address=f"{NAT_ROUTER}/{PREFIX_LENGTH}"))
        private = NetworkRequest(name=PRIVATE, labels=self.labels, subnet=f"{ipv4(1, 0)}/{PREFIX_LENGTH}", beside=NAT)
        make_network(self.driver, private)
        self.base = site.base_image()
        self.image = self.publish("gpt-base")

    def publish(self, name: str) -> str:
        """Make an image from the base, as a build does; returns its identity."""
        builder = self.builder()
        self.driver.start_node(builder)
        self.await_boot(builder)
        return self.driver.publish_image(builder, name, {LABEL_FINGERPRINT: f"test {name}"}).id

    def builder(self) -> str:
        """A stopped node in which an image is to be made."""
        name = self.new_name()
        self.driver.create_node(
            NodeRequest(name=name, image=self.base, labels={**self.labels, LABEL_ROLE: ROLE_BUILDER})
        )
        return name

    def need(self, capability: Capability) -> None:
        """Skip the test where the engine says that it has not got this."""
        if capability not in self.driver.capabilities:
            pytest.skip(f"{self.driver.name} has no capability {capability}")

    def new_name(self) -> str:
        """A name that nothing has."""
        return f"{NODES}n{next(self._numbers)}"

    def request(self, **wanted: Any) -> NodeRequest:
        """A node of ours on both networks."""
        number = next(self._numbers)
        request: dict[str, Any] = {
            "name": f"{NODES}n{number}",
            "image": self.image,
            "labels": {**self.labels, LABEL_ROLE: "plain", LABEL_FINGERPRINT: "test"},
            "attachments": (
                Attachment(
                    network=NAT,
                    interface="eth0",
                    kind="veth",
                    address=f"{ipv4(0, number)}/{PREFIX_LENGTH}",
                    mac=mac(0, number),
                    gateway=NAT_ROUTER,
                ),
                Attachment(
                    network=PRIVATE,
                    interface="eth1",
                    kind="macvlan",
                    address=f"{ipv4(1, number)}/{PREFIX_LENGTH}",
                    mac=mac(1, number),
                ),
            ),
        }
        return NodeRequest(**{**request, **wanted})

    def create(self, *, start: bool = False, **wanted: Any) -> str:
        """Make a node; returns its name."""
        request = self.request(**wanted)
        self.driver.create_node(request)
        if start:
            self.driver.start_node(request.name)
        return request.name

    def await_boot(self, name: str) -> None:
        """Wait until the node's init listens: before that, it does not hear that it shall stop."""
        if self.real and "systemd" in self.driver.capabilities:
            Wait(what=f"{name} to boot", timeout_s=60, fix="look at its console").until(
                lambda: self.driver.run(name, ["systemctl", "is-system-running"]).stdout.strip(),  # noqa: PLW0108 - asks anew
                lambda state: state in {"running", "degraded"},
            )

    def status(self, name: str) -> str:
        """As the engine says now; `absent` if it has no such instance."""
        node = self.driver.find_node(name)
        return node.status if node else "absent"

    def names(self) -> set[str]:
        """Of the nodes of these tests."""
        return {node.name for node in self.driver.list_nodes() if node.name.startswith(NODES)}

    def sh(self, name: str, line: str) -> str:
        """What a shell line in the node prints; it must end well."""
        result = self.driver.run(name, ["sh", "-c", line])
        assert result.exit_code == 0, result
        return result.stdout.strip()

    def python(self, name: str, text: str) -> str:
        """What a Python program in the node prints; it must end well."""
        result = self.driver.run(name, ["python3", "-c", text])
        assert result.exit_code == 0, result
        return result.stdout.strip()


def rootfs_of(content: bytes) -> bytes:
    """A root file system of one file, as a tar."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        member = tarfile.TarInfo("etc/marker")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def write_rootfs(path: Path, content: bytes) -> str:
    """A root file system of one file."""
    path.write_bytes(rootfs_of(content))
    return str(path)
