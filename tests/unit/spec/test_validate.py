from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import SpecError
from gpuprov.planes.registry import ROLES
from gpuprov.spec.models import ClusterSpec, GpuSpec, ImageSpec, MountSpec, NetworkSpec, NodesSpec, SlurmSpec
from gpuprov.spec.validate import check_spec, find_problems

if TYPE_CHECKING:
    from collections.abc import Mapping


def paths(spec: ClusterSpec, root: Path = Path("/")) -> list[str]:
    return [problem.path for problem in find_problems(spec, root=root, roles=ROLES)]


def changed(section: str, **values: Any) -> ClusterSpec:
    spec = ClusterSpec()
    if not section:
        return replace(spec, **values)
    part: Mapping[str, Any] = {section: replace(getattr(spec, section), **values)}
    return replace(spec, **part)


def test_the_defaults_are_right() -> None:
    check_spec(ClusterSpec(), roles=ROLES)


@pytest.mark.parametrize(
    "spec",
    [
        changed("nodes", count=1),
        changed("nodes", count=253),
        changed("nodes", prefix="gpu-"),
        changed("nodes", cpus=1, memory_gib=1),
        changed("gpus", per_node=0),
        changed("gpus", per_node=8, sharing="exclusive", mode="real"),
        changed("network", subnet="172.16.0.0/16", private_subnet="192.168.7.0/24"),
        changed("image", base="image:my/own-1.2", packages=("g++", "python3.11")),
        changed("image", python=("torch==2.*", "submitit")),
        changed("slurm", controller=3, partition="Big_1"),
        changed("jobs", time="8760h", memory="1MiB"),
        changed("jobs", time="1", memory="1024TiB"),
        changed("", name="a"),
        changed("", share=True),
        changed("", share="/data/results"),
        changed("", share="/home/alice/results"),
        changed("", share="/srv/gpuprov/lab"),
        changed("", share="/srv/other"),
        changed("", share="/var/scratch"),
        replace(changed("nodes", mounts=(MountSpec(source="/usr", target="/shared"),)), share=False),
    ],
)
def test_what_can_be_passes(spec: ClusterSpec) -> None:
    check_spec(spec, roles=ROLES)


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        ("nodes.count", changed("nodes", count=0)),
        ("nodes.count", changed("nodes", count=-1)),
        ("nodes.count", changed("nodes", count=254)),
        ("nodes.count", changed("nodes", count=300)),
        ("nodes.prefix", changed("nodes", prefix="")),
        ("nodes.prefix", changed("nodes", prefix="C")),
        ("nodes.prefix", changed("nodes", prefix="../x")),
        ("nodes.prefix", changed("nodes", prefix="x" * 61)),
        ("nodes.prefix", changed("nodes", prefix="c\n")),
        ("nodes.cpus", changed("nodes", cpus=0)),
        ("nodes.memory_gib", changed("nodes", memory_gib=-4)),
        ("gpus.per_node", changed("gpus", per_node=-1)),
        ("share", changed("", share="data/results")),
        ("share", changed("", share="")),
        ("share", changed("", share="yes")),
        ("share", changed("", share="/")),
        ("share", changed("", share="//data")),
        ("share", changed("", share="/data/")),
        ("share", changed("", share="/data/./results")),
        ("share", changed("", share="/data/../etc")),
        ("share", changed("", share="/data/a\nb")),
        ("share", changed("", share="/etc")),
        ("share", changed("", share="/etc/slurm")),
        ("share", changed("", share="/usr/local/share")),
        ("share", changed("", share="/var/lib/docker")),
        ("share", changed("", share="/var")),
        ("share", changed("", share="/home")),
        ("share", changed("", share="/home/alice")),
        ("share", changed("", share="/root/results")),
        ("share", changed("", share="/srv")),
        ("share", changed("", share="/srv/gpuprov")),
        ("share", changed("", share="/srv/gpuprov/other")),
        ("share", changed("", share="/srv/gpuprov/lab/part")),
        (
            "nodes.mounts[0].target",
            replace(changed("nodes", mounts=(MountSpec(source="/usr", target="/shared/"),)), share=True),
        ),
        ("name", changed("", name="")),
        ("name", changed("", name="../lab")),
        ("name", changed("", name="Lab")),
        ("network.bridge", changed("network", bridge="a-bridge-too-long")),
        ("network.bridge", changed("network", bridge="br 0")),
        ("network.private_bridge", changed("network", private_bridge="")),
        ("network.private_bridge", changed("network", private_bridge="gpbr0")),
        ("network.subnet", changed("network", subnet="10.0.3.0")),
        ("network.subnet", changed("network", subnet="10.0.3.1/24")),
        ("network.subnet", changed("network", subnet="10.0.3.0/255.255.255.0")),
        ("network.subnet", changed("network", subnet="not/24")),
        ("network.subnet", changed("network", subnet="8.8.8.0/24")),
        ("network.subnet", changed("network", subnet="127.0.0.0/24")),
        ("network.subnet", changed("network", subnet="fd00::/64")),
        ("network.private_subnet", changed("network", private_subnet="10.0.5.0/30")),
        ("network.private_subnet", changed("network", private_subnet="10.0.3.0/25")),
        ("image.base", changed("image", base="stretch")),
        ("image.base", changed("image", base="image:")),
        ("image.packages[1]", changed("image", packages=("vim", "--force"))),
        ("image.python[1]", changed("image", python=("torch", "--force"))),
        ("image.python", changed("image", python=("torch",) * 201)),
        ("image.requirements", changed("image", requirements="requirements.txt")),
        ("image.roles[0]", changed("image", roles=("roles/motd",))),
        ("image.roles[0]", changed("image", roles=("/nowhere/../motd",))),
        ("image.roles[0]", changed("image", roles=("/nowhere/motd",))),
        ("image.roles[0]", changed("image", roles=("/motd\0",))),
        ("image.roles", changed("image", roles=("/nowhere/motd",) * 21)),
        ("slurm.controller", changed("slurm", controller=4)),
        ("slurm.controller", changed("slurm", controller=-1)),
        ("slurm.partition", changed("slurm", partition="a b")),
        ("slurm.partition", changed("slurm", partition="")),
        ("jobs.time", changed("jobs", time="")),
        ("jobs.time", changed("jobs", time="0")),
        ("jobs.time", changed("jobs", time="8761h")),
        ("jobs.time", changed("jobs", time="12:00:00")),
        ("jobs.memory", changed("jobs", memory="")),
        ("jobs.memory", changed("jobs", memory="4")),
        ("jobs.memory", changed("jobs", memory="1023KiB")),
        ("jobs.memory", changed("jobs", memory="1025TiB")),
        ("jobs.keep", changed("jobs", keep="30d")),
        ("jobs.keep", changed("jobs", keep="59m")),
        ("jobs.keep", changed("jobs", keep="87601h")),
    ],
)
def test_what_cannot_be_is_refused_under_its_path(path: str, spec: ClusterSpec) -> None:
    found = find_problems(spec, roles=ROLES)
    assert path in [problem.path for problem in found]
    assert all(problem.allowed for problem in found)


def test_the_nodes_must_fit_into_both_subnets() -> None:
    spec = ClusterSpec(nodes=NodesSpec(count=6), network=NetworkSpec(subnet="10.0.3.0/29"))
    assert paths(spec) == ["nodes.count"]
    assert paths(replace(spec, nodes=NodesSpec(count=5))) == []
    spec = ClusterSpec(nodes=NodesSpec(count=14), network=NetworkSpec(private_subnet="10.0.5.0/28"))
    assert paths(spec) == ["nodes.count"]
    assert paths(replace(spec, nodes=NodesSpec(count=13))) == []


def test_a_name_that_is_none_is_told_without_the_value() -> None:
    (problem,) = find_problems(changed("nodes", environment=("DB-PASSWORD=two words",)), roles=ROLES)
    assert (problem.path, problem.message) == ("nodes.environment[0]", "'DB-PASSWORD' is not a valid variable")


def test_mounts(tmp_path: Path) -> None:
    (tmp_path / "srv").mkdir()

    def of(source: str, target: str) -> list[str]:
        mounts = (MountSpec(source=source, target=target),)
        return paths(ClusterSpec(nodes=NodesSpec(mounts=mounts)), tmp_path)

    assert of("/srv", "/data") == []
    assert of("/srv", "/devices") == []
    for source in ("srv", "/absent", "/srv\x00", ""):
        assert of(source, "/data") == ["nodes.mounts[0].source"]
    assert of("/srv", "//data") == []
    nowhere = ("", "data", "/", "//", "//.", "/a/../dev", "//a/../dev", "/a\nb")
    system = ("/proc", "/proc/self", "/sys", "/dev/x", "/./dev", "//dev", "//proc/self", "///sys", "//./dev", "/dev/.")
    for target in (*nowhere, *system):
        assert of("/srv", target) == ["nodes.mounts[0].target"]


def test_a_role_is_looked_up_on_the_host_and_no_two_have_one_name(tmp_path: Path) -> None:
    for folder in ("a/motd", "b/motd"):
        (tmp_path / folder / "tasks").mkdir(parents=True)
        (tmp_path / folder / "tasks/main.yml").touch()
    assert paths(changed("image", roles=("/a/motd",)), tmp_path) == []
    (problem,) = find_problems(changed("image", roles=("/a/motd", "/b/motd")), root=tmp_path, roles=ROLES)
    assert (problem.path, problem.message) == ("image.roles[1]", "'/b/motd' has the name of image.roles[0]")


@pytest.mark.parametrize("again", ["/data", "//data", "/data/", "/./data"])
def test_a_target_is_mounted_once(tmp_path: Path, again: str) -> None:
    mounts = (MountSpec(source="/", target="/data"), MountSpec(source="/", target=again))
    assert paths(ClusterSpec(nodes=NodesSpec(mounts=mounts)), tmp_path) == ["nodes.mounts[1].target"]


def test_every_problem_is_reported_at_once() -> None:
    spec = ClusterSpec(
        name="",
        nodes=NodesSpec(count=300, prefix="_"),
        gpus=GpuSpec(per_node=-1),
        image=ImageSpec(base="x"),
        slurm=SlurmSpec(partition="", controller=301),
    )
    with pytest.raises(SpecError) as caught:
        check_spec(spec, roles=ROLES)
    found = [problem.path for problem in caught.value.problems]
    assert sorted(found) == [
        "gpus.per_node", "image.base", "name", "nodes.count", "nodes.prefix", "slurm.controller", "slurm.partition",
    ]  # fmt: skip
    assert caught.value.fix
