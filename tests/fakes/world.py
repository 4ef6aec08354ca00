"""A host with simulated GPUs and a fake engine: what unit tests of whole stories run in."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from gpuprov.cluster.images import node_recipe
from gpuprov.drivers.base import LABEL_ACCOUNT, LABEL_FINGERPRINT, LABEL_PEOPLE, LABEL_RECIPE, LABEL_SPEC
from gpuprov.gpu.observe import observe
from gpuprov.lifecycle.cluster_down import cluster_down
from gpuprov.lifecycle.cluster_up import UpOrder, cluster_up
from gpuprov.lifecycle.create_node import create_node
from gpuprov.provision.recipe_record import dump_recipe_record, record_recipe
from gpuprov.roles.registry import ROLE_NAMES, ROLES
from gpuprov.roles.slurm.munge import LABEL_MUNGE_OWNER
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, GpuSpec, NodesSpec
from gpuprov.spec.serialize import dump_spec, load_spec_json
from gpuprov.spec.shared_folder import ACCOUNT_UID
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeEngine, FakeImage
from tests.fakes.host import FakeHost
from tests.fakes.orders import node_order
from tests.fakes.slurm import SlurmInNodes
from tests.fakes.workers import WorkersInNodes

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from gpuprov.core.outcome import Outcome
    from gpuprov.drivers.base import ExecResult
    from gpuprov.gpu.models import HostGpus
    from gpuprov.lifecycle.cluster_up import UpResult
    from gpuprov.shapes.choices import Sharing
    from gpuprov.shapes.records import RecipeRecord
    from tests.conftest import Recording
    from tests.fakes.engine import Command

READS = {
    *(
        "facts",
        "disk",
        "usage",
        "owner_on_host",
        "list_nodes",
        "find_node",
        "list_networks",
        "list_images",
        "find_image",
    ),
    *("pull", "look", "read_tree", "run", "logs"),
}


_BEGINNINGS: dict[tuple[object, ...], bytes] = {}  # by number of nodes and GPUs
_GPUS: list[bytes] = []  # of a host without a driver, which each world has for its own
_RECORDS: dict[str, RecipeRecord] = {}  # of the image of each role, for those GPUs


def simulated_gpus(root: Path) -> HostGpus:
    """Four; they are made once in a process, and so are the fingerprints of their images."""
    if not _GPUS:
        gpus = observe(root=root, mode="simulated", simulated_count=4)
        _GPUS.append(pickle.dumps(gpus))
        for role in ROLE_NAMES:
            recipe = node_recipe(ClusterSpec(), ROLES[role].recipe, gpus, init="systemd")
            _RECORDS[role] = record_recipe(recipe, recipe.hash_contents())
    found: HostGpus = pickle.loads(_GPUS[0])
    return found


class BootingDriver(FakeDriver):
    """Starts Slurm's daemons with a node."""

    def __init__(self, engine: FakeEngine, slurm: SlurmInNodes) -> None:
        super().__init__(engine)
        self._slurm = slurm

    def start_node(self, name: str) -> None:
        self._slurm.start(self.engine.nodes[name])
        super().start_node(name)


class World:
    """A host with simulated GPUs and a fake engine that has the images already."""

    def __init__(self, root: Path, reporter: Recording) -> None:
        self.engine = FakeEngine()
        self.slurm = SlurmInNodes(self.engine)
        self.workers = WorkersInNodes(self.engine, root / "jobs-of-workers")
        self.engine.answer = self._answer
        self.gpus = simulated_gpus(root)
        self.host = FakeHost(folder=root, observe=lambda _mode: self.gpus)
        self.reporter = reporter
        for role in ROLE_NAMES:
            self.engine.images[role] = FakeImage(
                id=role,
                name=f"gpuprov-image-{role}",
                labels={
                    LABEL_FINGERPRINT: _RECORDS[role].fingerprint,
                    LABEL_RECIPE: dump_recipe_record(_RECORDS[role]),
                    LABEL_MUNGE_OWNER: "101:102",
                    LABEL_ACCOUNT: str(ACCOUNT_UID),
                    LABEL_PEOPLE: "files",
                },
            )

    def _answer(self, command: Command) -> ExecResult:
        return (self.workers if self.workers.knows(command) else self.slurm)(command)

    def empty(self) -> None:
        """Take away all but the images, also of the host's folders."""
        self.engine.nodes.clear()
        self.engine.networks.clear()
        self.host.folders.there.clear()
        self.host.folders.aside.clear()

    def forget_isolation(self) -> None:
        """What a reboot does to the host's rules."""
        networks = self.engine.networks
        for name, network in networks.items():
            networks[name] = changed(network, isolated=False, guarded=False)

    @property
    def driver(self) -> FakeDriver:
        """A new process's."""
        driver = BootingDriver(self.engine, self.slurm)
        self.host.folders.reach = driver.reach  # what the same process does to the host
        return driver

    def spec(self, count: int = 3, *, sharing: Sharing = "shared", per_node: int = 1, **more: Any) -> ClusterSpec:
        nodes = NodesSpec(count=count)
        return changed(ClusterSpec(nodes=nodes, gpus=GpuSpec(per_node=per_node, sharing=sharing)), **more)

    def up(self, count: int = 3, *, keep: bool = False, spec: ClusterSpec | None = None) -> UpResult:
        order = UpOrder(spec=spec or self.spec(count), keep_on_failure=keep)
        return cluster_up(self.driver, order, self.host, reporter=self.reporter)

    def begin_with(self, count: int = 3) -> None:
        """As `up` where there is nothing yet, for tests of what comes next: it runs once in a process."""
        assert not self.engine.nodes, "this is no beginning"
        assert not self.engine.networks, "this is no beginning"
        key = (count, *(gpu.uuid for gpu in self.gpus.gpus))
        if key not in _BEGINNINGS:
            first = World(self.host.folder, type(self.reporter)())  # this one's engine, say, may be another
            first.up(count)
            seen = (first.engine.faults.passed, first.reporter.lines)
            _BEGINNINGS[key] = pickle.dumps((first.engine.nodes, first.engine.networks, first.slurm.read, seen))
        self.engine.nodes, self.engine.networks, self.slurm.read, seen = pickle.loads(_BEGINNINGS[key])
        self.engine.faults.passed += seen[0]
        self.reporter.lines += seen[1]

    def record(self, **values: Any) -> None:
        """Have the recorded spec of the cluster say something else."""
        network = next(one for one in self.engine.networks.values() if LABEL_SPEC in one.labels)
        text = dump_spec(changed(load_spec_json(network.labels[LABEL_SPEC], cluster="lab"), **values))
        self.engine.networks[network.name] = changed(network, labels={**network.labels, LABEL_SPEC: text})

    def down(self, *, purge: bool = False) -> Outcome:
        return cluster_down(self.driver, "lab", self.host, reporter=self.reporter, purge=purge)

    def create(self, name: str, **order: Any) -> Outcome:
        return create_node(self.driver, node_order(name, **order), self.host, reporter=self.reporter)

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
