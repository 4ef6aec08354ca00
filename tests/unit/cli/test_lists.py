"""What lists say: who uses an image, a row a cluster, and nothing that a terminal of 80 columns has to wrap."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.gpus import render_boards, render_hardware
from gpuprov.cli.image import render_images
from gpuprov.cli.list import render_nodes
from gpuprov.cli.main import main
from gpuprov.cli.tables import Screen
from gpuprov.cluster.gpu_board import GpuBoard
from gpuprov.core.units import age_of, describe_age
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_IMAGE
from gpuprov.fleet.clusters import group_clusters
from gpuprov.gpu.allocate import Lease
from gpuprov.lifecycle.list_images import find_users
from gpuprov.roles.registry import ROLES, role_of_image
from gpuprov.shapes.base import changed
from gpuprov.shapes.nodes import NodeRow
from gpuprov.stories.hosts import still_has_nodes
from tests.fakes.engine import FakeNode
from tests.unit.cluster.test_gpu_board import HOST

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Typed

NARROW = Screen(columns=80)
RTX = "NVIDIA RTX 6000 Ada Generation"
NODE = NodeRow(
    name="c000",
    host="rack-7-gpu-12",
    cluster="lab",
    engine="lxd",
    role="slurm",
    status="running",
    address="10.178.160.212",
    private_address="10.178.161.212",
    gpus=("GPU-1",),
    devices=("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia3"),
    sharing="exclusive",
    simulated=True,
    work="idle",
    health="ok",
    image="i",
)


def widest(table: str) -> int:
    return max(len(line) for line in table.splitlines() if not line.startswith("not shown"))


def test_gpus_of_real_names_fit_with_their_holders() -> None:
    host = replace(HOST, gpus=tuple(replace(gpu, model=RTX) for gpu in HOST.gpus), simulated=False)
    leases = tuple(
        Lease(
            node=f"node-{n}",
            gpus=(host.gpus[0].uuid,),
            sharing="shared",
            engine="docker",
            cluster="e2e",
            status="running",
        )
        for n in range(6)
    )
    board = GpuBoard(host=host, leases=leases)
    table = render_boards({"rack-7-gpu-12": board, "b": board}, screen=NARROW)
    assert widest(table) <= 80
    assert "NVIDIA RTX 6000 Ada" in table
    assert table.splitlines()[0].split()[:3] == ["HOST", "GPU", "MODEL"]
    assert "node-[0-5]" in table
    assert "not shown: UUID, PCI" in table


def test_a_reason_that_all_machines_have_is_said_once_at_a_terminal() -> None:
    reason = "CUDA's driver: libcuda.so.1: cannot open shared object file: No such file or directory"
    rows = [(f"c{n:03d}", "Intel(R) Xeon(R) Platinum 8480C", 208, None, None, None, None, reason) for n in range(4)]
    rows.append(("c004", "Intel(R) Xeon(R) Platinum 8480C", 208, "NVIDIA H100 80GB HBM3", "9.0", 132, 256, None))  # type: ignore[arg-type]
    assert render_hardware(rows).count(reason) == 4
    table = render_hardware(rows, screen=NARROW)
    *lines, said = table.splitlines()
    assert said == f"c[000-003]: {reason}"
    assert widest("\n".join(lines)) <= 80
    assert "NVIDIA H100 80GB HBM3" in table


@pytest.mark.parametrize("spans", [False, True])
def test_nodes_fit(spans: bool) -> None:
    table = render_nodes([NODE, changed(NODE, health="stopped: gpuprov start c000")], screen=NARROW, spans=spans)
    assert widest(table) <= 80
    assert "GPU" in table.splitlines()[0]
    assert "HEALTH" in table.splitlines()[0]


def test_a_row_a_cluster() -> None:
    rows = [
        ("a", NODE),
        ("a", changed(NODE, name="c001", status="stopped")),
        ("b", changed(NODE, name="c002", engine="docker", role="plain", gpus=("GPU-1", "GPU-2"))),
        ("b", changed(NODE, name="x", cluster="(foreign)")),
        ("b", changed(NODE, name="gpuprov-build", cluster="(gpuprov)", role="builder")),
    ]
    (lab,) = group_clusters(rows)
    assert (lab.name, lab.hosts, lab.engines, lab.roles) == ("lab", ("a", "b"), ("lxd", "docker"), ("slurm", "plain"))
    assert (lab.nodes, lab.running, lab.gpus) == (3, 2, 3)  # c000 and c001 share one


def test_clusters_are_listed_and_one_that_is_not_there_is_an_error(
    typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    world = typed.world
    world.begin_with(2)
    assert main(["cluster", "list"], host=world.host) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["CLUSTER", "HOSTS", "ENGINE"]
    assert row.split()[0] == "lab"
    assert main(["cluster", "status", "lap"], host=world.host) == 2
    assert capsys.readouterr().err.splitlines()[-3:] == [
        "error: there is no cluster lap; did you mean lab?",
        "evidence: clusters with nodes: lab",
        "fix: gpuprov cluster status lab",
    ]
    assert main(["--json", "cluster", "status", "nope"], host=world.host) == 2
    document = json.loads(capsys.readouterr().out)
    assert (document["nodes"], document["error"]["exit_code"]) == ([], 2)
    assert main(["hardware", "--cluster", "lap"], host=world.host) == 0
    assert "warning: there is no cluster lap; did you mean lab?" in capsys.readouterr().err


def test_a_fault_in_the_inventory_of_hosts_keeps_nothing_of_this_machine_away(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed.world.begin_with(2)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    inventory = tmp_path / "config/gpuprov/hosts.yml"
    inventory.parent.mkdir(parents=True)
    inventory.write_text("all: {hosts: {a: {ansible_port: x}}}\n")
    for argv in (["show", "c000"], ["cluster", "status"], ["stop", "c001"]):  # no other host is needed
        assert main(argv, host=typed.world.host) == 0, capsys.readouterr().err
    for argv in (["list"], ["cluster", "list"], ["gpus"]):  # others might have more
        capsys.readouterr()
        assert main(argv, host=typed.world.host) == 7
        said = capsys.readouterr()
        assert "lab" in said.out
        assert "cannot read the hosts" in said.err
        assert f"fix: correct or move {inventory}" in said.err
    assert main(["show", "c009"], host=typed.world.host) == 2
    assert "cannot read the hosts" in capsys.readouterr().err


def test_a_host_with_nodes_names_the_way_out_of_each_cluster() -> None:
    error = still_has_nodes("hoff", [changed(NODE, name=f"{name}0", cluster=name) for name in ("c", "a", "b")])
    assert error.evidence == "a0 of a, b0 of b, c0 of c"
    assert error.fix.endswith("on hoff: gpuprov cluster down a; gpuprov cluster down b; gpuprov cluster down c")


def test_images_say_who_uses_them_and_what_they_are_for() -> None:
    nodes = [
        FakeNode(name=name, labels={LABEL_CLUSTER: cluster, LABEL_IMAGE: image})
        for name, cluster, image in (("c001", "lab", "a"), ("c000", "lab", "a"), ("w", "two", "a"), ("x", "lab", "b"))
    ]
    users = find_users("a", [node.state() for node in nodes])
    assert [(user.cluster, user.nodes) for user in users] == [("lab", ("c000", "c001")), ("two", ("w",))]
    for name, role in ROLES.items():
        assert role_of_image({**dict.fromkeys(role.recipe.labels, "x"), "gpuprov.image": "bookworm"}) == name
    earlier = dict.fromkeys(ROLES["slurm"].recipe.labels.keys() - {"gpuprov.slurm-rest"}, "x")
    assert role_of_image(earlier) == "slurm"


def test_a_terminal_shows_of_an_image_what_helps_to_choose() -> None:
    row = (
        *("gpuprov-image-2a0a5931acaf", "docker", "bookworm", "355 MiB", "2026-11-27T19:20:33Z", "0.1.0", "lacks 12"),
        *("worker", "12 min", "git, htop", "lab c[000-003], two w0"),
    )
    table = render_images([row], screen=NARROW)
    assert widest(table) <= 80
    assert table.splitlines()[0].split() == ["IMAGE", "ENGINE", "ROLE", "SIZE", "AGE", "USERS"]
    piped = render_images([row]).splitlines()[0].split()
    assert piped[:7] == ["IMAGE", "ENGINE", "BASE", "SIZE", "CREATED", "GPUPROV", "SECURITY"]  # as scripts know them


@pytest.mark.parametrize(
    ("seconds", "words"), [(-5, "0 s"), (59, "59 s"), (60, "1 min"), (7199, "1 h"), (86400 * 3 + 5, "3 d")]
)
def test_an_age_has_one_unit(seconds: float, words: str) -> None:
    assert describe_age(seconds) == words


def test_an_age_is_that_of_a_moment_of_any_engine() -> None:
    assert age_of("1970-01-01T00:01:00.857320718Z", 180) == "2 min"
    assert age_of("unknown", 180) == ""
