"""Labels are the engine's, and whoever may talk to it can change them: what is damaged there stops no way out."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from gpuprov.cli.main import main
from gpuprov.cluster.order_label import read_label, read_order, write_order
from gpuprov.core.report_file import ReportFile
from gpuprov.drivers import base
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_ORDER, LABEL_SPEC, NodeState
from gpuprov.roles.slurm.munge import LABEL_MUNGE_OWNER
from gpuprov.shapes.base import changed
from gpuprov.shapes.node_order import NodeOrder
from gpuprov.spec.serialize import dump_spec
from gpuprov.stories.bundle import Sources, make_bundle
from tests.fakes.orders import node_order

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.world import World
    from tests.unit.cli.conftest import Typed

pytestmark = pytest.mark.slow

LABELS = sorted({value for name, value in vars(base).items() if name.startswith("LABEL_")} | {LABEL_MUNGE_OWNER})
DAMAGED_SPECS = {
    "newer": '{"version":"gpuprov/v2","name":"lab","racks":[]}',
    "not-json": "version: gpuprov/v1\nname: lab\n",
    "cut-off": '{"version":"gpuprov/v1","name":"lab","nodes":{"cou',
    "wrong-types": '{"version":"gpuprov/v1","name":7,"nodes":[],"gpus":{"per_node":"two"},"engine":null}',
    "another-cluster": '{"version":"gpuprov/v1","name":"other"}',
    "a-list": "[]",
    "deep": "[" * 50_000,
    "huge": json.dumps({f"key{number}": number for number in range(2_000)}),
    "unprintable": '{"version":"gpuprov/v1","\\ud800\\u001b[31m\\u0000":"\\udfff"}',
}
READING: tuple[tuple[str, ...], ...] = (
    ("list",),
    ("list", "--all"),
    ("cluster", "status", "lab"),
    ("show", "c001"),
    ("logs", "c001"),
    ("inventory",),
    ("inventory", "--graph"),
    ("gpus", "--gpu-mode", "simulated"),
    ("image", "list"),
)
PLANNING: tuple[tuple[str, ...], ...] = (
    ("cluster", "plan", "--name", "lab"),
    ("verify", "--cluster", "lab"),
    ("cluster", "up", "--name", "lab", "--no-verify"),
    ("create-node", "extra", "--cluster", "lab", "--role", "plain", "--gpu-mode", "simulated"),
)
VALUES = (
    "", " ", "x", "0", "-1", "9" * 5_000, "null", "[]", "{}", '{"a":', "[" * 20_000, '"\\ud800"', "\x1b[2J\x07\n\t",
    "GPU-1,,GPU-2", ",", "::", "1:2", "999999999999:1", "10.0.3.2", "10.0.3.999", "300.1.1.1/99", "exclusive", "shared",
    "plain", "slurm", "no-such-role", "é\u202e", "../../etc", "x" * 200_000,
    json.dumps({"name": 1, "cluster": [], "mounts": [{"source": 3, "target": {}}], "environment": [5]}),
    json.dumps({"name": "c001", "cluster": "lab", "environment": ["no equals sign"], "network": "all"}),
    json.dumps({"name": "c001", "cluster": "lab", "mounts": 7}),
)  # fmt: skip


@pytest.fixture
def lab(typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    """A cluster of two Slurm nodes and one from create-node; ssh and exec only say what they would run."""
    for place in ("gpuprov.stories.enter_node", "tests.fakes.driver"):
        monkeypatch.setattr(f"{place}.run_attached", lambda argv: int(not argv))
    (tmp_path / "lab.yaml").write_text("version: gpuprov/v1\nname: lab\nnodes: {count: 2}\ngpus: {mode: simulated}\n")
    typed(("cluster", "up", "-f", str(tmp_path / "lab.yaml"), "--no-verify"), capsys)
    typed(("create-node", "web", "--role", "plain", "--gpu-mode", "simulated"), capsys)
    return typed


def damage_spec(world: World, text: str) -> None:
    network = world.engine.networks["gpbr0"]
    world.engine.networks["gpbr0"] = changed(network, labels={**network.labels, LABEL_SPEC: text})


@pytest.mark.parametrize("damage", DAMAGED_SPECS)
def test_with_an_unreadable_spec_labels_are_enough(lab: Typed, capsys: pytest.CaptureFixture[str], damage: str) -> None:
    damage_spec(lab.world, DAMAGED_SPECS[damage])
    for argv in (
        *READING,
        ("exec", "c000", "--", "true"),
        ("shell", "c000"),
        ("stop", "c001"),
        ("start", "c001"),
        ("snapshot", "c001", "kept"),
        ("expose", "c001", "80", "--port", "18080"),
        ("unexpose", "c001", "18080"),
        ("rm", "c001", "web"),
        ("cluster", "down", "lab", "--yes"),
    ):
        lab(argv, capsys)
    assert lab.world.names == []
    assert lab.world.engine.networks == {}


@pytest.mark.parametrize("damage", DAMAGED_SPECS)
def test_who_needs_an_unreadable_spec_says_what_helps_and_that_helps(
    lab: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    damage_spec(lab.world, DAMAGED_SPECS[damage])
    before = lab.world.engine.dump()
    for argv in (
        ("cluster", "up", "--name", "lab", "-n", "3"),
        ("cluster", "plan"),
        ("create-node", "extra", "--gpu-mode", "simulated"),
    ):
        capsys.readouterr()
        assert main(argv, host=lab.world.host) == 2
        said = capsys.readouterr().err
        assert "error: the spec recorded with cluster lab cannot be read\nevidence: " in said
        assert "fix: record it again from a file: gpuprov cluster up --name lab -f FILE; or remove" in said
        assert len(said) < 3_000
    assert lab.world.engine.dump() == before
    lab(("cluster", "up", "--name", "lab", "-f", str(tmp_path / "lab.yaml"), "--no-verify"), capsys)
    lab(("cluster", "plan"), capsys)
    assert "unchanged" in lab(("cluster", "up", "--no-verify"), capsys)


def test_other_nodes_files_are_not_written_from_a_guess(lab: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    damage_spec(lab.world, DAMAGED_SPECS["newer"])
    before = lab.world.file("c000", "/etc/hosts")
    lab.world.engine.faults.clear()
    capsys.readouterr()
    assert main(("rm", "web"), host=lab.world.host) == 0
    assert "the nodes' files are not updated: the spec recorded with cluster lab" in capsys.readouterr().err
    assert lab.world.file("c000", "/etc/hosts") == before
    assert ("delete_node", "web") in lab.world.steps()


def test_a_job_on_a_node_is_still_seen(lab: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    damage_spec(lab.world, DAMAGED_SPECS["newer"])
    lab.world.slurm.jobs["c001"] = "12"
    capsys.readouterr()
    assert main(("rm", "c001"), host=lab.world.host) == 2
    assert "job 12 of alice (train) on c001" in capsys.readouterr().err
    assert "idle" in lab(("cluster", "status", "lab"), capsys)


@pytest.mark.parametrize(
    "seed",
    [
        *range(4),
        *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 40)),
    ],
)
def test_random_labels_break_no_way_out(
    lab: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    monkeypatch.setenv("LXD_DIR", str(tmp_path / "no-lxd"))  # bundle asks the engines of this machine
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-docker.socket")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('PRETTY_NAME="Debian 12"\n')
    for node in lab.world.engine.nodes.values():
        for label in chance.sample([label for label in LABELS if label != LABEL_CLUSTER], k=chance.randint(0, 4)):
            node.labels[label] = chance.choice(VALUES)
    for image in lab.world.engine.images.values():
        image.labels = {**image.labels, chance.choice(LABELS): chance.choice(VALUES)}
    if chance.random() < 0.5:
        damage_spec(lab.world, chance.choice((*VALUES, *DAMAGED_SPECS.values())))
    for argv in READING:
        lab(argv, capsys)
        lab(("--json", *argv), capsys)
    if chance.random() < 0.5:
        for argv in PLANNING:
            lab(argv, capsys, codes=range(7))
    bundle = make_bundle(
        ReportFile(str(tmp_path / "b.tar.gz"), option="FILE", kind="bundle", new=True),
        Sources(engines=("lxd",), host=lab.world.host, root=tmp_path, run_logs=tmp_path, environment={}),
        reporter=lab.world.reporter,
    )
    assert not [reason for reason in bundle.missing.values() if reason.startswith("unexpected")]
    lab(("rm", "web"), capsys)
    lab(("cluster", "down", "lab", "--yes"), capsys)
    assert lab.world.names == []


@pytest.mark.parametrize("commands", [1, pytest.param(len(READING), marks=pytest.mark.long)])
def test_a_damaged_cluster_label_hides_no_other_cluster(
    lab: Typed, capsys: pytest.CaptureFixture[str], commands: int
) -> None:
    chance = random.Random(0)
    for value in VALUES:
        lab.world.engine.nodes["web"].labels[LABEL_CLUSTER] = value or "x"
        for argv in chance.sample(READING, commands):
            lab(argv, capsys)
    lab(("rm", "web"), capsys)
    lab(("cluster", "down", "lab", "--yes"), capsys)
    assert lab.world.names == []


def test_what_create_node_was_asked_for_is_read_back_or_is_nothing() -> None:
    order = node_order("web", gpus="2", memory_gib=0.5, environment=("A=b",), network="nat")
    node = NodeState(name="web", status="running", labels={LABEL_ORDER: write_order(order)})
    assert read_order(node) == order
    whole = json.loads(write_order(order))
    for field in structs.fields(NodeOrder):
        for wrong in (7, [7], {"a": 1}, "\x00"):
            text = json.dumps({**whole, field.name: wrong})
            read = read_label(changed(node, labels={LABEL_ORDER: text}))
            known = read.order is None or getattr(read.order, field.name) == wrong
            assert known or read.unknown[0].startswith(field.name)
    for value in VALUES:
        read_order(changed(node, labels={LABEL_ORDER: value}))


def test_options_of_a_later_version_stop_up_and_a_file_frees_with_a_word(
    lab: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "disk").mkdir()
    mount = f"{tmp_path}/disk:/data"
    lab(("create-node", "disk", "--role", "plain", "--mount", mount, "--gpu-mode", "simulated"), capsys)
    node = lab.world.engine.nodes["disk"]
    mine = node.labels[LABEL_ORDER]
    node.labels[LABEL_ORDER] = mine.replace('"target"', '"shift":true,"target"')
    before = lab.world.engine.dump()
    of_file = ("--name", "lab", "-f", str(tmp_path / "lab.yaml"))
    for argv in (
        ("cluster", "up", "--name", "lab"),
        ("cluster", "plan", "--name", "lab"),
        ("cluster", "up", *of_file),
    ):
        capsys.readouterr()
        assert main(argv, host=lab.world.host) == 2
        assert "disk: unknown options (mounts[0].shift)" in capsys.readouterr().err
    assert lab.world.engine.dump() == before
    assert "repair node disk: gives up unknown options (mounts[0].shift)" in lab(("cluster", "plan", *of_file), capsys)
    lab(("cluster", "up", *of_file, "--yes", "--no-verify"), capsys)
    assert [each.target for each in lab.world.engine.nodes["disk"].mounts] == ["/data"]
    assert lab.world.engine.nodes["disk"].labels[LABEL_ORDER] == mine
    assert "unchanged" in lab(("cluster", "up", "--no-verify"), capsys)


def test_what_each_gpu_has_may_be_typed_for_a_cluster(lab: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    lab(("cluster", "up", "--gpu-model", "H100", "--gpu-memory", "20GiB", "--no-verify"), capsys)
    recorded = json.loads(lab.world.engine.networks["gpbr0"].labels[LABEL_SPEC])
    assert (recorded["gpus"]["model"], recorded["gpus"]["memory_gib"]) == ("H100", 20)
    assert main(("cluster", "plan", "--gpu-memory", "1.5GiB"), host=lab.world.host) == 2
    assert "gpus.memory_gib: is 1.5" in capsys.readouterr().err
    assert main(("cluster", "plan", "-n", "3", "--gpu-model", "A100"), host=lab.world.host) == 2
    assert (
        "there is no GPU with at least 20 GiB of memory and a model name that contains 'A100'"
        in capsys.readouterr().err
    )


def test_a_recorded_spec_of_this_version_is_not_damaged(lab: Typed) -> None:
    recorded = lab.world.engine.networks["gpbr0"].labels[LABEL_SPEC]
    assert dump_spec(changed(lab.world.spec(2), name="lab"))[:20] == recorded[:20]


def test_a_damaged_record_on_a_network_of_before_does_not_come_back(
    lab: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage_spec(lab.world, DAMAGED_SPECS["newer"])
    with (tmp_path / "lab.yaml").open("a") as file:
        file.write("network: {bridge: other0, subnet: 10.0.9.0/24}\n")
    up = ("cluster", "up", "--name", "lab", "-f", str(tmp_path / "lab.yaml"), "--no-verify")
    lab(("rm", "web"), capsys)
    lab(up, capsys)
    assert "unchanged" in lab(up[:4] + up[-1:], capsys)
