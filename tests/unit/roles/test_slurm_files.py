"""Each case of data/slurm is a cluster in JSON, with the files that it must give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import convert

from gpuprov.cluster.files import present_member, render_hosts
from gpuprov.drivers.base import LABEL_ROLE
from gpuprov.roles.slurm.facts import slurm_path
from gpuprov.roles.slurm.files import Machine, render_slurm
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec, SlurmSpec
from gpuprov.shapes.node import Attachment, CharDevice
from gpuprov.shapes.whole import Member
from tests.fakes.engine import FakeNode

CASES = sorted((Path(__file__).parent / "data" / "slurm").iterdir())


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_files_are_as_recorded(case: Path) -> None:
    given = json.loads((case / "cluster.json").read_text())
    members = [
        Member(**{**member, **{key: tuple(member.get(key, ())) for key in ("devices", "gpu_types", "gpu_cores")}})
        for member in given["members"]
    ]
    workers = [member for member in members if member.role == "slurm"]
    spec = ClusterSpec(
        name=given["name"],
        nodes=NodesSpec(**given["nodes"]),
        slurm=convert(given["slurm"], SlurmSpec),
        share=given.get("share", False),
    )
    machine = Machine(**given["machine"])
    *files, applied = [render_hosts(spec.name, members), *render_slurm(spec, workers, machine)]
    assert applied.path == slurm_path("applied_mark")
    assert applied.content
    assert [file.path for file in files] == ["/etc/hosts", "/etc/slurm/slurm.conf", "/etc/slurm/gres.conf"]
    assert all((file.mode, file.uid, file.gid) == (0o644, 0, 0) for file in files)
    for file in files:
        recorded = case / Path(file.path).name
        assert file.content.decode() == recorded.read_text()


def test_memory_is_less_than_the_machine_s() -> None:
    assert Machine(cpus=1, memory_bytes=1000 << 20).memory_mib == 950


def test_a_node_of_the_engine_is_the_member_it_was_planned_as() -> None:
    node = FakeNode(
        name="c000",
        labels={LABEL_ROLE: "slurm"},
        attachments=(
            Attachment(network="a", interface="eth0", kind="veth", address="10.0.3.2/24", mac=""),
            Attachment(network="b", interface="eth1", kind="macvlan", address="10.0.5.1/24", mac=""),
        ),
        devices=tuple(
            CharDevice(path=path, major=195, minor=minor)
            for path, minor in (("/dev/nvidia10", 10), ("/dev/nvidiactl", 255), ("/dev/nvidia2", 2))
        ),
    )
    member = Member(
        name="c000",
        address="10.0.3.2",
        private_address="10.0.5.1",
        role="slurm",
        devices=("/dev/nvidia2", "/dev/nvidia10"),
    )
    assert present_member(node.state()) == member
    node.labels, node.attachments = {LABEL_ROLE: "plain"}, node.attachments[1:]
    assert present_member(node.state()) == changed(member, role="plain", address="")
