"""What an error suggests helps: each command of ours in a fix is run in the state in which it is suggested."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cli.main import main
from gpuprov.cluster.build_image import BUILDER, OWNER
from gpuprov.cluster.known_hosts import parse_host_key
from gpuprov.cluster.node_order import NodeOrder
from gpuprov.core.catalogue import load_catalogue
from gpuprov.core.errors import EngineError, GpuprovError
from gpuprov.documents.bundle_nodes import cluster_parts, node_parts
from gpuprov.documents.inventory import build_inventory
from gpuprov.drivers.base import (
    LABEL_ADDRESS,
    LABEL_CLUSTER,
    LABEL_FINGERPRINT,
    LABEL_PRIVATE_ADDRESS,
    LABEL_ROLE,
    LABEL_SPEC,
    ROLE_BUILDER,
    ExecResult,
    require_capability,
)
from gpuprov.drivers.calls import Call, Output
from gpuprov.drivers.foreign import name_taken
from gpuprov.host.survey import EngineDoor
from gpuprov.planes.slurm import daemons
from gpuprov.workflows.ensure_node import ensure_node
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeNode
from tests.fakes.slurm import CONF, said
from tests.suggestions import Site, commands, find_sites, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.conftest import Ledger
    from tests.fakes.engine import Command
    from tests.fakes.world import World
    from tests.unit.cli.conftest import Typed

Argv = tuple[str, ...]
HOST_KEY = b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tr\n"
LAB: tuple[Argv, ...] = (
    ("cluster", "up", "-f", "{file}", "--no-verify"),
    ("create-node", "web", "--role", "plain", "--gpu-mode", "simulated"),
)
ONE: tuple[Argv, ...] = (("create-node", "web", "--role", "plain", "--gpu-mode", "simulated", "--gpus", "3"),)
PLAIN = ("--role", "plain", "--gpu-mode", "simulated")
# Verbs that tests of their own run: here their commands are parsed only
PARSED = {
    "doctor": "examines this machine",
    "host": "changes this machine",
    "smoke": "runs kernels on this machine or in nodes",
    "bundle": "collects what this machine has",
    "play": "runs Ansible",
    "run": "leases GPUs for a command",
}


class Stage:
    """A machine whose one engine is the fake one, and what is typed there."""

    def __init__(self, typed: Typed, capsys: pytest.CaptureFixture[str], file: Path) -> None:
        self.world: World = typed.world
        self._capsys = capsys
        self._file = str(file)

    def type(self, argv: Sequence[str]) -> tuple[int, str, str]:
        """The exit code, what failed, and the fix; all that was printed where nothing failed."""
        words = [word.replace("{file}", self._file).replace("FILE", self._file) for word in argv]
        words = [self._file if word == "SPEC" else word for word in words]
        self._capsys.readouterr()
        code = main(words, host=self.world.host)
        out = self._capsys.readouterr()
        assert code != 70, f"{words}: {out.err}"
        failed = re.search(r"^error: (.*?)(?:^fix: (.*))?\Z", out.err, re.MULTILINE | re.DOTALL)
        if failed:
            return code, failed[1].split("\n")[0], (failed[2] or "").strip()
        return code, "", out.out + out.err

    def follow(self, argv: Sequence[str]) -> tuple[int, str, str]:
        """The same of a command that was suggested; what nodes say to `verify` is none of this test's business."""
        if argv[0] == "create-node":
            argv = [argv[0], "new", *argv[2:], *PLAIN]
        if list(argv[:2]) == ["cluster", "up"]:
            argv = [*argv, "--no-verify"]
        code, what, fix = self.type(argv)
        return 0 if argv[0] == "verify" and not what else code, what, fix


@dataclass(frozen=True, kw_only=True)
class Case:
    """A state, and what is typed in it.

    Attributes:
        site: How the fix begins in the source, with its file.
        before: Commands that make the state, and functions that do what others do to it.
        argv: What fails, or shows the suggestion.
        told: Instead of `argv`: what shows the suggestion without a command of ours.
        cures: Whether `argv` succeeds once the suggestion was followed.
    """

    site: str
    before: tuple[Argv | Callable[[Stage], object], ...] = LAB
    argv: Argv = ()
    told: Callable[[Stage], str] | None = None
    cures: bool = False

    def __str__(self) -> str:
        return self.site


def stop(*names: str) -> Callable[[Stage], object]:
    def act(stage: Stage) -> None:
        for name in names:
            stage.world.driver.stop_node(name)

    return act


def label(name: str, **labels: str) -> Callable[[Stage], object]:
    keys = {key.replace("_", "-"): value for key, value in labels.items()}
    return lambda stage: stage.world.engine.nodes[name].labels.update({f"gpuprov.{k}": v for k, v in keys.items()})


def unfinish(stage: Stage) -> None:
    del stage.world.engine.nodes["c001"].labels[LABEL_FINGERPRINT]


def lose_address(stage: Stage) -> None:
    node = stage.world.engine.nodes["web"]
    node.attachments = ()
    node.labels |= {LABEL_ADDRESS: "", LABEL_PRIVATE_ADDRESS: ""}


def lose_gpus(stage: Stage) -> None:
    stage.world.gpus = replace(stage.world.gpus, gpus=stage.world.gpus.gpus[:3])


def fill_disk(stage: Stage) -> None:
    stage.world.engine.free_bytes = 1 << 20


def damage_spec(stage: Stage) -> None:
    network = stage.world.engine.networks["gpbr0"]
    stage.world.engine.networks["gpbr0"] = replace(network, labels={**network.labels, LABEL_SPEC: "{"})


def alike_images(stage: Stage) -> None:
    for number, image in enumerate(stage.world.engine.images.values()):
        image.labels = {**image.labels, LABEL_FINGERPRINT: f"feed{number}"}


def failing_services(stage: Stage) -> None:
    answer = stage.world.engine.answer

    def refuse(command: Command) -> ExecResult:
        return said("no", exit_code=1) if command.argv[:2] == ("systemctl", "restart") else answer(command)

    stage.world.engine.answer = refuse


def silent_docker(stage: Stage) -> None:
    def refuse() -> Any:
        raise EngineError("docker does not respond", evidence="e", fix="gpuprov doctor --engine docker")

    docker = EngineDoor(name="docker", open=refuse, installed=lambda: True)
    stage.world.host.engines = (*stage.world.host.engines, docker)


def small_subnet(stage: Stage) -> None:
    spec = replace(stage.world.spec(2), network=replace(stage.world.spec(2).network, subnet="10.0.3.0/29"))
    stage.world.up(spec=spec)


def other_subnet(stage: Stage) -> None:
    with open(stage._file, "a") as file:  # noqa: PTH123
        file.write("network: {subnet: 10.9.0.0/24}\n")


def usual_bridge(stage: Stage) -> None:
    with open(stage._file, "a") as file:  # noqa: PTH123
        file.write("network: {bridge: gpbr0}\n")


def foreign(name: str) -> Callable[[Stage], object]:
    return lambda stage: stage.world.engine.add_foreign_node(name)


def share_address(of: str, name: str) -> Callable[[Stage], object]:
    """Give another instance the addresses of a node as well."""

    def act(stage: Stage) -> None:
        nodes = stage.world.engine.nodes
        nodes.setdefault(name, FakeNode(name=name, status="running")).attachments = nodes[of].attachments

    return act


def leave_builder(stage: Stage) -> None:
    labels = {LABEL_CLUSTER: OWNER, LABEL_ROLE: ROLE_BUILDER}
    stage.world.engine.nodes[BUILDER] = FakeNode(name=BUILDER, labels=labels, status="running")


def raised(attempt: Callable[[], object]) -> str:
    with pytest.raises(GpuprovError) as caught:
        attempt()
    return caught.value.fix


def lack(capability: str) -> Callable[[Stage], str]:
    def told(stage: Stage) -> str:
        driver = stage.world.driver
        driver.capabilities = frozenset()
        return raised(lambda: require_capability(driver, capability))  # type: ignore[arg-type]

    return told


def ensure(name: str, **order: Any) -> Callable[[Stage], str]:
    def told(stage: Stage) -> str:
        wanted = NodeOrder(name=name, cluster="lab", **order)
        world = stage.world
        return raised(lambda: ensure_node(world.driver, wanted, "present", world.host, reporter=world.reporter))

    return told


def told_by_run(_stage: Stage) -> str:
    call, late = Call(argv=["sleep", "9"], timeout_s=1.0), Output(exit_code=137, stdout=b"", stderr=b"")
    return raised(lambda: call.judged(late, node="c001", elapsed_s=2.0))


def told_by_file(stage: Stage) -> str:
    return raised(lambda: stage.world.driver.pull("c001", "/no/such/file"))


def told_by_foreign_node(stage: Stage) -> str:
    return raised(lambda: stage.world.driver.stop_node("other"))


def told_by_used_network(stage: Stage) -> str:
    return raised(lambda: stage.world.driver.delete_network("gpbr0"))


def told_by_name(stage: Stage) -> str:
    return name_taken(stage.world.engine.nodes["c001"].state(), "lxc").fix


def told_by_host_key(_stage: Stage) -> str:
    return raised(lambda: parse_host_key(b"* ssh-ed25519 AAAA", "c001"))


def told_by_bundle_of_node(stage: Stage) -> str:
    node = stage.world.driver.find_node("c001")
    assert node is not None
    return raised(node_parts(stage.world.driver, node)["fake/nodes/c001/devices.txt"])


def told_by_bundle_of_cluster(stage: Stage) -> str:
    parts = cluster_parts(stage.world.driver, "lab", lambda _spec: (), host="here")
    return raised(parts["fake/clusters/lab/plan.txt"])


def told_by_diagnosis(stage: Stage) -> str:
    parts = cluster_parts(stage.world.driver, "lab", lambda _spec: (), host="here")
    return raised(parts["fake/clusters/lab/slurm.txt"])


def told_by_inventory(stage: Stage) -> str:
    node = stage.world.engine.nodes["web"].state()
    return build_inventory([("docker", node), ("lxd", node)], lambda _mode: stage.world.gpus, host="here").warnings[0]


CASES = (
    Case(site="cli/cluster_status.py: create them", before=(), argv=("cluster", "status"), cures=True),
    Case(site="cli/list.py: no nodes", before=(), argv=("list",), cures=True),
    *(
        Case(site=f"cli/next_steps.py:   gpuprov {verb}", argv=("cluster", "up", "--no-verify"))
        for verb in ("shell", "cluster status", "cluster down")
    ),
    Case(site="planes/slurm/plane.py: gpuprov exec {} -- srun {}", argv=("cluster", "up", "--no-verify")),
    Case(site="cli/inventory.py: gpuprov inventory --graph", argv=("inventory", "--host", "nobody")),
    Case(site="cli/smoke.py: gpuprov smoke {kernel} --local", argv=("smoke", "matmul", "c000", "--local")),
    Case(site="cli/smoke.py: gpuprov smoke {kernel}", argv=("smoke", "matmul", "--gpu-mode", "simulated")),
    Case(site="cli/verify.py: gpuprov verify", argv=("verify", "--junit", "x", "--html", "x")),
    Case(site="cluster/build_image.py: an image build", before=(leave_builder,), argv=("list",)),
    Case(
        site="cluster/build_image.py: gpuprov image list",
        before=(alike_images,),
        argv=("image", "rm", "feed"),
    ),
    Case(
        site="cluster/build_image.py: gpuprov image list  # then",
        before=(lambda stage: stage.world.engine.images.clear(), fill_disk),
        argv=("image", "build", *PLAIN),
    ),
    Case(site="cluster/find_node.py: list the nodes", argv=("show", "nobody")),
    Case(
        site="cluster/find_node.py: gpuprov start", before=(*LAB, stop("c001")), argv=("exec", "c001", "x"), cures=True
    ),
    Case(site="cluster/images.py: gpuprov image list", argv=("create-node", "x", *PLAIN, "--image", "none")),
    Case(
        site="cluster/choice.py: choose other bridges for cluster",
        before=(*LAB, usual_bridge),
        argv=("cluster", "up", "-f", "{file}", "--name", "other", "--no-verify"),
        cures=True,
    ),
    Case(
        site="cluster/networks.py: gpuprov cluster down {spec.name}, then",
        before=(*LAB, other_subnet),
        argv=("cluster", "up", "-f", "{file}", "--no-verify"),
        cures=True,
    ),
    Case(
        site="cluster/plan.py: gpuprov rm {name}",
        before=(*LAB, lose_address),
        argv=("cluster", "up", "--no-verify"),
        cures=True,
    ),
    Case(
        site="cluster/plan.py: set another nodes.prefix",
        before=(*LAB, foreign("c002")),
        argv=("cluster", "up", "-n", "3", "--no-verify"),
    ),
    Case(
        site="cluster/plan.py: stop or change that instance",
        before=(*LAB, share_address("c001", "other"), ("rm", "c001")),
        argv=("cluster", "up", "--no-verify"),
    ),
    Case(site="cluster/room.py: free some space", before=(*LAB, fill_disk), argv=("create-node", "x", *PLAIN)),
    Case(
        site="cluster/services.py: gpuprov exec {name} -- {' '",
        before=(*LAB, failing_services),
        argv=("cluster", "up", "-n", "3", "--no-verify"),
    ),
    Case(
        site="cluster/shared_addresses.py: gpuprov stop",
        before=(*LAB, stop("c001"), share_address("c001", "web")),
        argv=("start", "c001"),
        cures=True,
    ),
    Case(site="cluster/state.py: gpuprov list", before=(), argv=("verify", "c001")),
    Case(site="cluster/state.py: gpuprov cluster up -n 4", before=(), argv=("verify",)),
    Case(site="documents/bundle_nodes.py: gpuprov start", before=(*LAB, stop("c001")), told=told_by_bundle_of_node),
    Case(site="documents/bundle_nodes.py: gpuprov cluster up", before=ONE, told=told_by_bundle_of_cluster),
    Case(site="documents/inventory.py: the inventory omits", told=told_by_inventory),
    Case(site="drivers/base.py: copy the node", told=lack("snapshot")),
    Case(site="drivers/base.py: stop the node first: gpuprov stop NODE; then", told=lack("expose-live")),
    Case(site="drivers/base.py: stop the node first: gpuprov stop NODE", told=lack("devices-live")),
    Case(site="drivers/base.py: use --engine docker, or", told=lack("jobs")),
    Case(site="drivers/calls.py: inspect the node", told=told_by_run),
    Case(site="drivers/foreign.py: list what exists", before=(foreign("other"),), told=told_by_foreign_node),
    Case(site="drivers/foreign.py: gpuprov rm", told=told_by_name),
    Case(site="drivers/foreign.py: remove its nodes", told=told_by_used_network),
    Case(site="drivers/node_files.py: inspect the node", told=told_by_file),
    Case(site="cluster/known_hosts.py: inspect the node", told=told_by_host_key),
    Case(
        site="gpu/allocate.py: free a GPU",
        before=(("create-node", "web", *PLAIN, "--gpus", "all", "--exclusive"),),
        argv=("create-node", "x", *PLAIN),
        cures=True,
    ),
    Case(
        site="gpu/allocate.py: gpuprov rm {lease.node}",
        before=(*LAB, ("create-node", "old", *PLAIN, "--gpus", "0,3"), lose_gpus),
        argv=("cluster", "up", "--no-verify"),
        cures=True,
    ),
    Case(site="gpu/order.py: list the GPUs", argv=("create-node", "x", *PLAIN, "--gpu-model", "none such")),
    Case(
        site="host/kernel_limits.py: sudo gpuprov",
        before=(*LAB, lambda stage: stage.world.host.kernel.update(keys=1)),
        argv=("create-node", "x", *PLAIN),
    ),
    Case(site="planes/rows.py: {node.status}", before=(*LAB, stop("c001")), argv=("cluster", "status")),
    Case(site="planes/rows.py: unfinished", before=(*LAB, unfinish), argv=("cluster", "status")),
    Case(
        site="planes/rows.py: {plane.title} reports",
        before=(*LAB, lambda stage: stage.world.slurm.read.update(c001=b"")),
        argv=("cluster", "status"),
    ),
    Case(
        site="planes/slurm/daemons.py: gpuprov exec {controller} -- sinfo",
        before=(*LAB, lambda stage: stage.world.slurm.silent.add("c001")),
        argv=("cluster", "up", "-n", "3", "--no-verify"),
    ),
    Case(
        site="planes/slurm/munge.py: gpuprov cluster down",
        before=(
            *LAB,
            lambda stage: [node.files.pop("/etc/munge/munge.key", 0) for node in stage.world.engine.nodes.values()],
        ),
        argv=("cluster", "up", "--no-verify"),
        cures=True,
    ),
    Case(
        site="planes/slurm/plane.py: gpuprov cluster up{'' if",
        before=(),
        argv=("create-node", "c009", "--role", "slurm", "--gpu-mode", "simulated"),
        cures=True,
    ),
    Case(
        site="planes/slurm/plane.py: gpuprov start",
        before=(*LAB, stop("c000")),
        argv=("create-node", "c009", "--gpu-mode", "simulated"),
        cures=True,
    ),
    Case(
        site="planes/cluster_order.py: omit {' and '.join",
        before=LAB,
        argv=("cluster", "up", "--subnet", "10.9.3.0/24", "--no-verify"),
        cures=True,
    ),
    Case(site="planes/slurm/plane.py: remove the whole cluster", argv=("rm", "c000"), cures=True),
    Case(
        site="planes/slurm/plane.py: {f'gpuprov rm",
        before=(*LAB, label("c000", role="plain")),
        argv=("cluster", "up", "--no-verify"),
        cures=True,
    ),
    Case(
        site="planes/slurm/plane.py: gpuprov cluster up",
        before=(*LAB, lambda stage: stage.world.engine.nodes.pop("c000")),
        told=told_by_diagnosis,
    ),
    Case(site="core/names.py: list the clusters", argv=("cluster", "down", "")),
    Case(site="spec/addressing.py: list the addresses in use", argv=("create-node", "x", *PLAIN, "--addr", "1.2.3.4")),
    Case(
        site="spec/addressing.py: list the nodes",
        before=(small_subnet, *(("create-node", f"x{n}", *PLAIN) for n in range(2))),
        argv=("create-node", "y", *PLAIN),
    ),
    Case(site="spec/mounts.py: gpuprov create-node", argv=("create-node", "x", *PLAIN, "--mount", "nothing")),
    Case(
        site="spec/serialize.py: record it again",
        before=(*LAB, damage_spec),
        argv=("cluster", "up", "--no-verify"),
        cures=True,
    ),
    Case(site="spec/validate.py: change the options", argv=("cluster", "up", "-n", "0")),
    Case(site="verify/smoke_result.py: gpuprov smoke {self.kernel}", argv=("smoke", "matmul", "--seconds", "1e9")),
    Case(
        site="workflows/cluster_down.py: gpuprov cluster down",
        before=(*LAB, silent_docker),
        argv=("cluster", "down", "--engine", "lxd"),
    ),
    Case(
        site="workflows/cluster_down.py: gpuprov cluster down {network",
        before=(*LAB, lambda stage: stage.world.engine.copy("c001", "backup")),
        argv=("cluster", "down"),
    ),
    Case(site="workflows/clone_node.py: gpuprov stop", argv=("clone", "web", "copy", "--gpu-mode", "simulated")),
    Case(
        site="workflows/create_node.py: choose another address",
        before=(*LAB, lambda stage: stage.world.host.answering.add("10.0.3.77")),
        argv=("create-node", "x", *PLAIN, "--addr", "10.0.3.77"),
    ),
    Case(
        site="workflows/create_node.py: choose another --addr",
        before=(("create-node", "far", *PLAIN, "--network", "private"),),
        argv=("create-node", "x", *PLAIN, "--addr", "10.0.3.253"),
    ),
    Case(
        site="workflows/create_node.py: choose another name; about",
        before=(foreign("x"),),
        argv=("create-node", "x", *PLAIN),
    ),
    Case(
        site="workflows/create_node.py: choose another name, or remove it",
        argv=("create-node", "web", *PLAIN, "--gpus", "2"),
        cures=True,
    ),
    Case(
        site="workflows/ensure_node.py: choose another name",
        before=(foreign("web"),),
        told=ensure("web"),
    ),
    Case(site="workflows/ensure_node.py: gpuprov rm {order.name}", told=ensure("web", role="slurm")),
    Case(
        site="workflows/enter_node.py: gpuprov shell",
        before=(("create-node", "far", *PLAIN, "--network", "private"),),
        argv=("ssh", "far"),
    ),
    Case(site="workflows/explain.py: gpuprov explain 'gres", argv=("explain", " ")),
    Case(site="workflows/explain.py: gpuprov explain {near[0]}", argv=("explain", "no such thing")),
    Case(
        site="workflows/expose.py: choose another --port",
        before=(*LAB, ("expose", "web", "80", "--port", "8080")),
        argv=("expose", "c001", "80", "--port", "8080"),
        cures=True,
    ),
    Case(
        site="workflows/expose.py: use another port of the host",
        before=(*LAB, lambda stage: stage.world.host.listening.update({22: "sshd listens on port 22 of 0.0.0.0"})),
        argv=("expose", "c001", "22"),
    ),
    Case(
        site="workflows/smoke.py: choose a node", before=(*LAB, label("web", gpus="")), argv=("smoke", "matmul", "web")
    ),
    Case(
        site="workflows/smoke.py: gpuprov cluster up",
        before=(("create-node", "x", *PLAIN, "--gpus", "none"),),
        argv=("smoke", "matmul"),
    ),
    Case(
        site="workflows/smoke.py: gpuprov start {holders}",
        before=(*LAB, stop("c000", "c001", "web")),
        argv=("smoke", "matmul"),
    ),
    Case(
        site="workflows/smoke.py: {way}    # or", before=(*LAB, stop("c000", "c001", "web")), argv=("smoke", "matmul")
    ),
    Case(
        site="workflows/smoke.py: gpuprov start {node.name}",
        before=(*LAB, stop("c001")),
        argv=("smoke", "matmul", "c001"),
    ),
    Case(site="workflows/snapshots.py: create one", argv=("restore", "c001", "kept"), cures=True),
)

# Sites without a case; their commands are parsed
REASONS = {
    "cluster/build_image.py: use a base": "a builder that does not boot: tests/unit/cluster/test_build_image.py",
    "cluster/expected_nodes.py": "shown by verify: see the catalogue's node-lease below",
    "cli/cluster_down.py": "a terminal, on which somebody says no: tests/unit/cli",
    "cluster/networks.py: sudo gpuprov doctor": "a host that cannot set rules: tests/unit/cluster/test_networks.py",
    "cluster/services.py: gpuprov exec {name} -- journalctl": "a part of what planes/slurm/daemons.py says",
    "cluster/services.py: gpuprov logs": "Docker's nodes, in place of journalctl",
    "core/execution.py": "a program is missing: tests/unit/core/test_execution.py",
    "core/report_file.py": "of a bundle: tests/unit/core/test_report_file.py",
    "drivers/docker/": "Docker has to say it: tests/e2e/test_docker.py",
    "drivers/lxd/": "LXD has to say it: tests/e2e/test_exhaustion.py, tests/contract",
    "drivers/registry.py": "prepares this machine: tests/e2e/test_bare_host.py",
    "host/survey.py": "an engine is silent: tests/unit/cli/test_hung_engine.py",
    "planes/leaving.py": "a drain that cannot be undone, jobs that have ended and do not go away",
    "planes/slurm/daemons.py: {name} is": "a node that somebody drained: tests/unit/workflows",
    "workflows/remove_nodes.py": "what could not be done after rm --force: tests/unit/workflows",
    "planes/slurm/plane.py: gpuprov rm {controller}": "a part of the fix that has a case",
    "planes/base.py": "no plane of the registry has a line for the cluster and no node to run it in",
    "provision/rootfs.py": "builds a base",
    "spec/validate.py: gpuprov cluster up": "a part of the fix that has a case",
    "verify/junit.py": "the name of a test suite",
    "verify/smoke_result.py: gpuprov smoke {order.kernel}": "a kernel that fails: tests/unit/workflows/test_smoke.py",
    "workflows/cluster_up.py: run the same command": "of an undo: tests/unit/workflows/test_cluster_up_fake.py",
    "workflows/create_node.py: run the same command": "of an undo: tests/unit/core/test_rollback.py",
    "workflows/create_node.py: gpuprov cluster up": "a note: tests/unit/workflows/test_create_node.py",
    "workflows/expose.py: gpuprov expose": "a part of the note below",
    "workflows/expose.py: only this host": "a note: tests/unit/workflows/test_verbs_on_nodes.py",
    "cluster/steady.py": "another run changes the cluster again and again: tests/unit/cluster/test_steady.py",
    "workflows/bundle.py": "the first line of a bundle",
    "workflows/prepare_host.py": "prepares this machine: tests/unit/workflows/test_prepare_host.py",
    "workflows/smoke.py: gpuprov smoke {kernel}": "the verb of what cluster/state.py says",
    "workflows/smoke.py: nvidia-smi": "CUDA has no device: tests/unit/workflows/test_smoke.py",
    "workflows/verify.py: gpuprov verify": "the verb of what cluster/state.py says",
}

# The state in which verify or doctor says it, where it is not one in which all is well
STATES: dict[str, tuple[Argv | Callable[[Stage], object], ...]] = {
    "node-running": (stop("c001"),),
    "node-complete": (unfinish,),
    "node-lease": (label("c001", gpus="GPU-1,GPU-2"),),
    "device-nodes": (lambda stage: setattr(stage.world.engine.nodes["c001"], "devices", ()),),
    "device-strangers": (lambda stage: setattr(stage.world.engine.nodes["c001"], "privileged", True),),
    "driver-libraries": (label("c001", driver="1.2.3"),),
    "host-network": (lambda stage: stage.world.engine.networks.pop("gpbr1"),),
    "network-private": (lambda stage: setattr(stage.world.engine.nodes["c001"], "attachments", ()),),
    "nvml-uuids": (label("c001", gpus=""),),
    "slurm-state": (lambda stage: stage.world.engine.nodes["c001"].files.pop("/etc/slurm/gres.conf"),),
    "slurm-gres": (lambda stage: stage.world.engine.nodes["c001"].files.pop(CONF),),
    "leftovers": (unfinish,),
    "ansible-node-gone": (lambda stage: stage.world.engine.nodes.pop("c001"),),
    "recorded-spec": (damage_spec,),
    "munge-credential": (lambda stage: stage.world.engine.nodes["c001"].files.pop("/etc/munge/munge.key"),),
}


@pytest.fixture
def stage(typed: Typed, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr("gpuprov.workflows.enter_node.run_attached", lambda argv: int(not argv))
    monkeypatch.setattr("gpuprov.workflows.enter_node.ensure_ssh_key", lambda _cluster: "ssh-ed25519 AAAA x")
    monkeypatch.setattr(daemons, "_READY_BUDGET_S", 0.1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/gpuprov/lab").mkdir(parents=True, exist_ok=True)
    pull = FakeDriver.pull
    monkeypatch.setattr(
        FakeDriver,
        "pull",
        lambda driver, name, path, **limits: HOST_KEY if "ssh_host" in path else pull(driver, name, path, **limits),
    )
    file = tmp_path / "lab.yaml"
    file.write_text("version: gpuprov/v1\nname: lab\nnodes: {count: 2}\ngpus: {mode: simulated}\n")
    return Stage(typed, capsys, file)


def act(stage: Stage, steps: Sequence[Argv | Callable[[Stage], object]]) -> None:
    for step in steps:
        if callable(step):
            step(stage)
        else:
            code, what, _ = stage.type(step)
            assert code == 0, f"{step}: {what}"


def site_of(case: Case) -> Site:
    found = [site for site in find_sites() if str(site).startswith(case.site)]
    assert found, f"nothing in the source begins so: {case.site}"
    return min(found, key=lambda site: len(str(site)))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_suggested_helps(case: Case, stage: Stage, ledger: Ledger) -> None:
    act(stage, case.before)
    if case.told:
        what, fix = "", case.told(stage)
    else:
        _, what, fix = stage.type(case.argv)
    assert site_of(case).covers(fix), fix
    suggested = commands(fix)
    assert suggested
    for argv in suggested:
        parse(argv)
        if argv[0] not in PARSED:
            code, new, _ = stage.follow(argv)
            helped = code == 0 or bool(new and new != what)
            ledger.add("suggestion", error=case.site, command=shown(argv), helped=helped)
            assert helped, f"{argv}: {new}"
    if case.cures:
        code, new, _ = stage.type(case.argv)
        assert code == 0, new


def shown(argv: Sequence[str]) -> str:
    return f"gpuprov {' '.join(argv)}"


def test_every_suggestion_has_a_case_or_a_reason_why_not() -> None:
    tried = {site_of(case) for case in CASES}
    here = [site for site in find_sites() if not site.file.startswith("core/catalogue.json") and commands(site.sample)]
    left = [str(site) for site in here if site not in tried]
    left = [text for text in left if not text.startswith(tuple(REASONS))]
    assert left == []
    assert [prefix for prefix in REASONS if not any(str(site).startswith(prefix) for site in find_sites())] == []


def test_every_command_that_is_suggested_parses() -> None:
    found = [(site, argv) for site in find_sites() for argv in commands(site.sample)]
    assert len(found) > 200
    for _, argv in found:
        parse(argv)


@pytest.mark.parametrize("wrong", ["gpuprov lst", "gpuprov cluster plan with other values", "x: gpuprov rm --all"])
def test_a_command_that_there_is_not_is_noticed(wrong: str) -> None:
    with pytest.raises(Exception, match=r"verb|unexpected|option|argument"):
        for argv in commands(wrong):
            parse(argv)


def entries() -> Iterator[tuple[str, str]]:
    for name, entry in load_catalogue().items():
        for situation in ("", *entry.fixes):
            if commands(entry.advise(situation)):
                yield name, situation


@pytest.mark.parametrize(("name", "situation"), [*entries()])
def test_what_the_catalogue_says_helps(name: str, situation: str, stage: Stage, ledger: Ledger) -> None:
    act(stage, (*LAB, *STATES.get(name, ())))
    uuid = stage.world.gpus.gpus[0].uuid
    fix = load_catalogue()[name].advise(situation, node="c001", uuid=uuid, xid=79).replace("GPU-...", uuid)
    for argv in commands(fix):
        parse(argv)
        if argv[0] in PARSED:
            continue
        code, what, _ = stage.follow(argv)
        ledger.add("suggestion", error=f"{name} {situation}".strip(), command=shown(argv), helped=code == 0)
        assert code == 0, f"{argv}: {what}"
