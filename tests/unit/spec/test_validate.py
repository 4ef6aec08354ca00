from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.roles.registry import ROLE_NAMES
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, GpuSpec, ImageSpec, MountSpec, NetworkSpec, NodesSpec, SlurmSpec
from gpuprov.spec.spec_error import SpecError
from gpuprov.spec.validate import check_spec, find_problems

if TYPE_CHECKING:
    from collections.abc import Mapping


def paths(spec: ClusterSpec, root: Path = Path("/")) -> list[str]:
    return [problem.where for problem in find_problems(spec, root=root, roles=ROLE_NAMES)]


def with_values(section: str, **values: Any) -> ClusterSpec:
    spec = ClusterSpec()
    if not section:
        return changed(spec, **values)
    part: Mapping[str, Any] = {section: changed(getattr(spec, section), **values)}
    return changed(spec, **part)


def test_the_defaults_are_right() -> None:
    check_spec(ClusterSpec(), roles=ROLE_NAMES)


@pytest.mark.parametrize(
    "spec",
    [
        with_values("nodes", count=1),
        with_values("nodes", count=253),
        with_values("nodes", prefix="gpu-"),
        with_values("nodes", cpus=1, memory_gib=1),
        with_values("gpus", per_node=0),
        with_values("gpus", per_node=8, sharing="exclusive", mode="real"),
        with_values("network", subnet="172.16.0.0/16", private_subnet="192.168.7.0/24"),
        with_values("image", base="image:my/own-1.2", packages=("g++", "python3.11")),
        with_values("image", python=("torch==2.*", "submitit")),
        with_values("slurm", controller=3, partition="Big_1"),
        with_values("jobs", time="8760h", memory="1MiB"),
        with_values("jobs", time="1", memory="1024TiB"),
        with_values("", name="a"),
        with_values("", share=True),
        with_values("", share="/data/results"),
        with_values("", share="/home/alice/results"),
        with_values("", share="/srv/gpuprov/lab"),
        with_values("", share="/srv/other"),
        with_values("", share="/var/scratch"),
        changed(with_values("nodes", mounts=(MountSpec(source="/usr", target="/shared"),)), share=False),
    ],
)
def test_what_can_be_passes(spec: ClusterSpec) -> None:
    check_spec(spec, roles=ROLE_NAMES)


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        ("nodes.count", with_values("nodes", count=0)),
        ("nodes.count", with_values("nodes", count=-1)),
        ("nodes.count", with_values("nodes", count=254)),
        ("nodes.count", with_values("nodes", count=300)),
        ("nodes.prefix", with_values("nodes", prefix="")),
        ("nodes.prefix", with_values("nodes", prefix="C")),
        ("nodes.prefix", with_values("nodes", prefix="../x")),
        ("nodes.prefix", with_values("nodes", prefix="x" * 61)),
        ("nodes.prefix", with_values("nodes", prefix="c\n")),
        ("nodes.cpus", with_values("nodes", cpus=0)),
        ("nodes.memory_gib", with_values("nodes", memory_gib=-4)),
        ("gpus.per_node", with_values("gpus", per_node=-1)),
        ("share", with_values("", share="data/results")),
        ("share", with_values("", share="")),
        ("share", with_values("", share="yes")),
        ("share", with_values("", share="/")),
        ("share", with_values("", share="//data")),
        ("share", with_values("", share="/data/")),
        ("share", with_values("", share="/data/./results")),
        ("share", with_values("", share="/data/../etc")),
        ("share", with_values("", share="/data/a\nb")),
        ("share", with_values("", share="/etc")),
        ("share", with_values("", share="/etc/slurm")),
        ("share", with_values("", share="/usr/local/share")),
        ("share", with_values("", share="/var/lib/docker")),
        ("share", with_values("", share="/var")),
        ("share", with_values("", share="/home")),
        ("share", with_values("", share="/home/alice")),
        ("share", with_values("", share="/root/results")),
        ("share", with_values("", share="/srv")),
        ("share", with_values("", share="/srv/gpuprov")),
        ("share", with_values("", share="/srv/gpuprov/other")),
        ("share", with_values("", share="/srv/gpuprov/lab/part")),
        (
            "nodes.mounts[0].target",
            changed(with_values("nodes", mounts=(MountSpec(source="/usr", target="/shared/"),)), share=True),
        ),
        ("name", with_values("", name="")),
        ("name", with_values("", name="../lab")),
        ("name", with_values("", name="Lab")),
        ("network.bridge", with_values("network", bridge="a-bridge-too-long")),
        ("network.bridge", with_values("network", bridge="br 0")),
        ("network.private_bridge", with_values("network", private_bridge="")),
        ("network.private_bridge", with_values("network", private_bridge="gpbr0")),
        ("network.subnet", with_values("network", subnet="10.0.3.0")),
        ("network.subnet", with_values("network", subnet="10.0.3.1/24")),
        ("network.subnet", with_values("network", subnet="10.0.3.0/255.255.255.0")),
        ("network.subnet", with_values("network", subnet="not/24")),
        ("network.subnet", with_values("network", subnet="8.8.8.0/24")),
        ("network.subnet", with_values("network", subnet="127.0.0.0/24")),
        ("network.subnet", with_values("network", subnet="fd00::/64")),
        ("network.private_subnet", with_values("network", private_subnet="10.0.5.0/30")),
        ("network.private_subnet", with_values("network", private_subnet="10.0.3.0/25")),
        ("image.base", with_values("image", base="stretch")),
        ("image.base", with_values("image", base="image:")),
        ("image.packages[1]", with_values("image", packages=("vim", "--force"))),
        ("image.python[1]", with_values("image", python=("torch", "--force"))),
        ("image.python", with_values("image", python=("torch",) * 201)),
        ("image.requirements", with_values("image", requirements="requirements.txt")),
        ("image.roles[0]", with_values("image", roles=("roles/motd",))),
        ("image.roles[0]", with_values("image", roles=("/nowhere/../motd",))),
        ("image.roles[0]", with_values("image", roles=("/nowhere/motd",))),
        ("image.roles[0]", with_values("image", roles=("/motd\0",))),
        ("image.roles", with_values("image", roles=("/nowhere/motd",) * 21)),
        ("slurm.controller", with_values("slurm", controller=4)),
        ("slurm.controller", with_values("slurm", controller=-1)),
        ("slurm.partition", with_values("slurm", partition="a b")),
        ("slurm.partition", with_values("slurm", partition="")),
        ("jobs.time", with_values("jobs", time="")),
        ("jobs.time", with_values("jobs", time="0")),
        ("jobs.time", with_values("jobs", time="8761h")),
        ("jobs.time", with_values("jobs", time="12:00:00")),
        ("jobs.memory", with_values("jobs", memory="")),
        ("jobs.memory", with_values("jobs", memory="4")),
        ("jobs.memory", with_values("jobs", memory="1023KiB")),
        ("jobs.memory", with_values("jobs", memory="1025TiB")),
        ("jobs.keep", with_values("jobs", keep="30d")),
        ("jobs.keep", with_values("jobs", keep="59m")),
        ("jobs.keep", with_values("jobs", keep="87601h")),
    ],
)
def test_what_cannot_be_is_refused_under_its_path(path: str, spec: ClusterSpec) -> None:
    found = find_problems(spec, roles=ROLE_NAMES)
    assert path in [problem.where for problem in found]
    assert all(problem.allowed for problem in found)


def test_the_nodes_must_fit_into_both_subnets() -> None:
    spec = ClusterSpec(nodes=NodesSpec(count=6), network=NetworkSpec(subnet="10.0.3.0/29"))
    assert paths(spec) == ["nodes.count"]
    assert paths(changed(spec, nodes=NodesSpec(count=5))) == []
    spec = ClusterSpec(nodes=NodesSpec(count=14), network=NetworkSpec(private_subnet="10.0.5.0/28"))
    assert paths(spec) == ["nodes.count"]
    assert paths(changed(spec, nodes=NodesSpec(count=13))) == []


def test_a_name_that_is_none_is_told_without_the_value() -> None:
    (problem,) = find_problems(with_values("nodes", environment=("DB-PASSWORD=two words",)), roles=ROLE_NAMES)
    assert (problem.where, problem.message) == ("nodes.environment[0]", "'DB-PASSWORD' is not a valid variable")


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
    assert paths(with_values("image", roles=("/a/motd",)), tmp_path) == []
    (problem,) = find_problems(with_values("image", roles=("/a/motd", "/b/motd")), root=tmp_path, roles=ROLE_NAMES)
    assert (problem.where, problem.message) == ("image.roles[1]", "'/b/motd' has the name of image.roles[0]")


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
        check_spec(spec, roles=ROLE_NAMES)
    found = [problem.where for problem in caught.value.problems]
    assert sorted(found) == [
        "gpus.per_node", "image.base", "name", "nodes.count", "nodes.prefix", "slurm.controller", "slurm.partition",
    ]  # fmt: skip
    assert caught.value.fix
