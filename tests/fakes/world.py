"""A host with simulated GPUs and a fake engine: what unit tests of whole stories run in."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuprov.cluster.images import node_recipe
from gpuprov.cluster.node_order import NodeOrder
from gpuprov.drivers.base import LABEL_FINGERPRINT, ExecResult
from gpuprov.gpu.observe import observe
from gpuprov.planes.registry import PLANES, ROLES
from gpuprov.planes.slurm.munge import LABEL_MUNGE_OWNER
from gpuprov.spec.models import ClusterSpec, GpuSpec, NodesSpec
from gpuprov.workflows.cluster_down import cluster_down
from gpuprov.workflows.cluster_up import UpOrder, cluster_up
from gpuprov.workflows.create_node import create_node
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import Command, FakeEngine, FakeImage, FakeNode
from tests.fakes.host import FakeHost

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from gpuprov.core.outcome import Outcome
    from gpuprov.spec.models import Sharing
    from gpuprov.workflows.cluster_up import UpResult
    from tests.conftest import Recording

CONF = "/etc/slurm/slurm.conf"
READS = {"facts", "list_nodes", "find_node", "list_networks", "list_images", "find_image", "pull", "run", "logs"}


class SlurmInNodes:
    """What a node's commands say: checksums of its files, and a Slurm that knows the nodes of its configuration."""

    def __init__(self, engine: FakeEngine) -> None:
        self.jobs: dict[str, str] = {}  # node to job
        self.silent: set[str] = set()  # nodes whose slurmd does not respond
        self.restarted: list[tuple[str, str]] = []
        self.read: dict[str, bytes] = {}  # the configuration that the daemons of a node have read
        self._engine = engine

    def __call__(self, command: Command) -> ExecResult:
        argv = command.argv
        if argv[:2] == ("sh", "-c") and argv[2].startswith("sha256sum"):
            present = [(path, command.node.files.get(path)) for path in argv[4:]]
            sums = [f"{hashlib.sha256(file.content).hexdigest()}  {path}" for path, file in present if file]
            sums += [f"{file.mode:o} {file.uid}:{file.gid} {path}" for path, file in present if file]
            return said("\n".join(sums), exit_code=int(len(sums) < 2 * len(present)))
        if argv[0] == "sh" and "sinfo" in argv[2]:
            states = [f"{name} {self._state(command, name)}" for name in self._configured(command)]
            return said("\n".join(states))
        if argv[0] == "squeue":
            asked = argv[argv.index("-w") + 1].split(",")
            return said("\n".join(f"{job} on {name}" for name, job in self.jobs.items() if name in asked))
        if argv[:2] == ("systemctl", "restart"):
            self.restarted.append((command.node.name, argv[2]))
            self.start(command.node)
            return said("")
        if argv[0] == "sh":
            return said("")
        return said(f"{argv[0]}: not found", exit_code=127)

    def _configured(self, command: Command) -> list[str]:
        return re.findall(r"^NodeName=(\S+)", self.read[command.node.name].decode(), re.MULTILINE)

    def start(self, node: FakeNode) -> None:
        """The daemons of a node start: they read what is there now."""
        if CONF in node.files:
            self.read[node.name] = node.files[CONF].content

    def _state(self, command: Command, name: str) -> str:
        node = self._engine.nodes.get(name)
        if node is None or node.status != "running" or name in self.silent:
            return "down*"
        return "idle" if self.read.get(name) == self.read[command.node.name] else "drained"


class BootingDriver(FakeDriver):
    """Starts Slurm's daemons with a node."""

    def __init__(self, engine: FakeEngine, slurm: SlurmInNodes) -> None:
        super().__init__(engine)
        self._slurm = slurm

    def start_node(self, name: str) -> None:
        self._slurm.start(self.engine.nodes[name])
        super().start_node(name)


def said(text: str, *, exit_code: int = 0) -> ExecResult:
    return ExecResult(exit_code=exit_code, stdout=f"{text}\n" if text else "", stderr="")


class World:
    """A host with simulated GPUs and a fake engine that has the images already."""

    def __init__(self, root: Path, reporter: Recording) -> None:
        self.engine = FakeEngine()
        self.slurm = SlurmInNodes(self.engine)
        self.engine.answer = self.slurm
        self.gpus = observe(root=root, mode="simulated", simulated_count=4)
        self.host = FakeHost(folder=root, observe=lambda _mode: self.gpus)
        self.reporter = reporter
        for role in ROLES:
            self.engine.images[role] = FakeImage(
                id=role,
                name=f"gpuprov-image-{role}",
                labels={
                    LABEL_FINGERPRINT: node_recipe(
                        ClusterSpec(), PLANES[role].recipe, self.gpus, init="systemd"
                    ).fingerprint,
                    LABEL_MUNGE_OWNER: "101:102",
                },
            )

    def empty(self) -> None:
        """Take away all but the images."""
        self.engine.nodes.clear()
        self.engine.networks.clear()

    @property
    def driver(self) -> FakeDriver:
        """A new process's."""
        return BootingDriver(self.engine, self.slurm)

    def spec(self, count: int = 3, *, sharing: Sharing = "shared", per_node: int = 1, **more: Any) -> ClusterSpec:
        nodes = NodesSpec(count=count)
        return replace(ClusterSpec(nodes=nodes, gpus=GpuSpec(per_node=per_node, sharing=sharing)), **more)

    def up(self, count: int = 3, *, keep: bool = False, spec: ClusterSpec | None = None) -> UpResult:
        order = UpOrder(spec=spec or self.spec(count), keep_on_failure=keep)
        return cluster_up(self.driver, order, self.host, reporter=self.reporter)

    def down(self) -> Outcome:
        return cluster_down(self.driver, "lab", self.host, reporter=self.reporter)

    def create(self, name: str, **order: Any) -> Outcome:
        wanted = NodeOrder(**{"name": name, "cluster": "lab", **order})
        return create_node(self.driver, wanted, self.host, reporter=self.reporter)

    @property
    def names(self) -> list[str]:
        return sorted(self.engine.nodes)

    def file(self, node: str, path: str) -> str:
        return self.engine.nodes[node].files[path].content.decode()

    def steps(self) -> list[tuple[str, str]]:
        """The changes that were begun since the last `faults.clear()`."""
        return [step for step in self.engine.faults.passed if step[0].partition(":")[0] not in READS]


def make_world(folder: Path, monkeypatch: pytest.MonkeyPatch, reporter: Recording) -> World:
    """A world whose cluster `lab` has an ssh key already, below the folder."""
    keys = folder / "data" / "gpuprov" / "lab"
    keys.mkdir(parents=True)
    (keys / "id_ed25519").write_text("private\n")
    (keys / "id_ed25519.pub").write_text("ssh-ed25519 AAAA gpuprov-lab\n")
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    return World(folder, reporter)
