"""The machine on which what errors suggest is tried, and what brings it into the states in which they do."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cli.main import main
from gpuprov.cluster.build_image import OWNER
from gpuprov.cluster.known_hosts import parse_host_key
from gpuprov.core.errors import EngineError, GpuprovError, TimedOut
from gpuprov.drivers.base import (
    BUILDER,
    LABEL_ADDRESS,
    LABEL_CLUSTER,
    LABEL_FINGERPRINT,
    LABEL_PRIVATE_ADDRESS,
    LABEL_ROLE,
    LABEL_SPEC,
    ROLE_BUILDER,
    ExecResult,
)
from gpuprov.drivers.calls import Call, Output
from gpuprov.drivers.capabilities import require_capability
from gpuprov.drivers.foreign import name_taken
from gpuprov.lifecycle.bundle import cluster_parts, node_parts
from gpuprov.lifecycle.ensure import ensure_node
from gpuprov.lifecycle.inventory import tell_nodes
from gpuprov.machine.survey import EngineDoor
from gpuprov.shapes.base import changed
from tests.fakes.engine import FakeNode
from tests.fakes.orders import node_order
from tests.fakes.slurm import said

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.fakes.engine import Command
    from tests.fakes.world import World
    from tests.unit.cli.conftest import Typed

Argv = tuple[str, ...]
LAB: tuple[Argv, ...] = (
    ("cluster", "up", "-f", "{file}", "--no-verify"),
    ("create-node", "web", "--role", "plain", "--gpu-mode", "simulated"),
)
ONE: tuple[Argv, ...] = (("create-node", "web", "--role", "plain", "--gpu-mode", "simulated", "--gpus", "3"),)
PLAIN = ("--role", "plain", "--gpu-mode", "simulated")


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
        if list(argv[:2]) == ["cluster", "down"]:
            argv = [*argv, "--yes"]  # as somebody at a terminal would answer
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


def take_devices(stage: Stage) -> None:
    stage.world.engine.nodes["c001"].devices = ()


def silence(name: str) -> Callable[[Stage], object]:
    """No command in the node ends, until it is started anew."""

    def act(stage: Stage) -> None:
        engine = stage.world.engine
        answer = engine.answer

        def hang(command: Command) -> ExecResult:
            if command.node.name == name:
                raise TimedOut("it did not finish", evidence="no output", fix=f"gpuprov shell {name}")
            return answer(command)

        engine.answer = hang
        engine.faults.at("start_node", subject=name, act=lambda: setattr(engine, "answer", answer))

    return act


def break_slurm(stage: Stage) -> None:
    stage.world.slurm.broken = True


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
    stage.world.engine.networks["gpbr0"] = changed(network, labels={**network.labels, LABEL_SPEC: "{"})


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
    spec = changed(stage.world.spec(2), network=changed(stage.world.spec(2).network, subnet="10.0.3.0/29"))
    stage.world.up(spec=spec)


def other_subnet(stage: Stage) -> None:
    with open(stage._file, "a") as file:  # noqa: PTH123
        file.write("network: {subnet: 10.9.0.0/24}\n")


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
        wanted = node_order(name, **order)
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
    return tell_nodes([("docker", node), ("lxd", node)], lambda _mode: stage.world.gpus).warnings[0]
