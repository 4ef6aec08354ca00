"""A backup for Slurm's controller: what a spec may say, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from gpuprov.cluster.ordered_node import with_order
from gpuprov.core.errors import UsageError
from gpuprov.roles.crew import Crew
from gpuprov.roles.registry import ROLES, check_spec, role_of
from gpuprov.roles.slurm.backup import controller_names, state_folder
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, HostSpec, MountSpec, NodesSpec, SlurmSpec
from gpuprov.shapes.whole import Member
from gpuprov.spec.serialize import dump_spec, load_spec_json
from gpuprov.spec.shared_folder import KEPT
from gpuprov.spec.spec_error import SpecError

SLURM = role_of("slurm")


def spec(backup: str | None = "c001", *, controller: int = 0, share: bool | str = True, **nodes: Any) -> ClusterSpec:
    slurm = SlurmSpec(backup=backup, controller=controller)
    return ClusterSpec(nodes=NodesSpec(**{"count": 3, **nodes}), slurm=slurm, share=share)


def problems(wanted: ClusterSpec) -> list[str]:
    with pytest.raises(SpecError) as caught:
        check_spec(wanted)
    return [f"{problem.where} {problem.message}; {problem.allowed}" for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (spec("c000"), "c000 is the node of slurm.controller; another node, c000 to c002; or null"),
        (spec("c001", controller=1), "c001 is the node of slurm.controller"),
        (spec("c003"), "there is no node 'c003'"),
        (spec("gpu1"), "there is no node 'gpu1'"),
        (spec("c001", count=1), "there is no node 'c001'"),
        (spec("c001\n"), "there is no node 'c001\\n'"),
        (spec("c001", share=False), "needs a folder beside that of `share`, which is false"),
        (spec("c001", role="worker"), "nodes with the role worker have no controller; null, or nodes.role: slurm"),
        (spec("c001", role="plain"), "nodes with the role plain have no controller"),
    ],
    ids=str,
)
def test_a_backup_that_could_not_be_one_is_refused(wanted: ClusterSpec, words: str) -> None:
    (problem,) = problems(wanted)
    assert problem.startswith(f"slurm.backup {words}")


def test_a_mount_in_the_place_of_the_state_is_refused() -> None:
    mounts = (MountSpec(source="/", target=f"/{KEPT}/"),)
    (problem,) = problems(spec(mounts=mounts))
    assert problem.startswith(f"nodes.mounts[0].target {KEPT} is where Slurm's controller keeps its state")
    check_spec(spec(None, mounts=mounts))


def test_what_is_left_open_is_not_judged() -> None:
    check_spec(spec("c001", share=False), left=frozenset({"share"}))
    check_spec(spec("x001"), left=frozenset({"nodes.prefix"}))


def test_the_state_is_in_a_folder_beside_the_shared_one_for_two_nodes() -> None:
    folder = state_folder(spec("c002", controller=1))
    assert folder is not None
    assert (folder.source, folder.nodes, folder.uid) == ("/srv/gpuprov/lab.slurm", ("c001", "c002"), 64030)
    found = state_folder(spec(share="/data/lab"))
    assert found is not None
    assert found.source == "/data/lab.slurm"
    assert state_folder(spec(None)) is None
    assert ROLES.service_folders(spec(None)) == ()
    mounts = ROLES.mounts(spec())
    assert {key for key in mounts if isinstance(key, tuple)} == {("slurm", "c000"), ("slurm", "c001")}


def test_a_spec_without_a_backup_is_recorded_as_before() -> None:
    assert "backup" not in dump_spec(spec(None))
    assert load_spec_json(dump_spec(spec()), cluster="lab") == spec()
    assert load_spec_json(dump_spec(spec(None)), cluster="lab") == spec(None)


def test_a_node_of_another_role_has_no_backup() -> None:
    check_spec(with_order(spec(), "plain", None))
    assert with_order(spec(), "slurm", None) == spec()


@pytest.mark.parametrize(
    ("after", "lost"),
    [
        (spec(), False),
        (spec("c002"), False),
        (spec("c000", controller=1), False),
        (spec(count=8), False),
        (spec(None), True),
        (spec(share="/data/lab"), True),
    ],
    ids=str,
)
def test_the_queue_is_lost_where_its_place_changes(after: ClusterSpec, *, lost: bool) -> None:
    assert SLURM.forgets(spec(), after) is lost
    assert SLURM.forgets(after, spec()) is lost


def test_a_controller_on_another_node_without_a_backup_loses_the_queue() -> None:
    assert SLURM.forgets(spec(None), spec(None, controller=1))
    assert not SLURM.forgets(spec(None), spec(None, share=False))


def member(name: str, host: str = "", role: str = "slurm") -> Member:
    return Member(name=name, address="", private_address="", role=role, host=host)


def crew(*members: Member) -> Crew:
    hosts = tuple(HostSpec(name=name) for name in ("hoff", "hinton"))
    return Crew(spec=changed(spec(), hosts=hosts), members=members)


def test_a_backup_on_the_controllers_host_is_refused_with_one_that_could_be_it() -> None:
    near = (member("c000", "hoff"), member("c001", "hoff"))
    with pytest.raises(UsageError, match="c001 cannot be the backup of Slurm's controller c000") as caught:
        SLURM.refuse_crew(crew(*near, member("c002", "hinton")))
    assert "both are on the host hoff" in caught.value.evidence
    assert "slurm.backup: c002, which is on hinton" in caught.value.fix
    with pytest.raises(UsageError) as caught:
        SLURM.refuse_crew(crew(*near))
    assert "slurm.backup: null" in caught.value.fix
    SLURM.refuse_crew(crew(member("c000", "hoff"), member("c001", "hinton")))
    SLURM.refuse_crew(crew(member("c000"), member("c001")))  # on one host, the node alone can be lost


def test_a_crew_without_its_backup_is_refused() -> None:
    with pytest.raises(UsageError, match="no backup controller"):
        SLURM.refuse_crew(crew(member("c000")))
    with pytest.raises(UsageError) as caught:
        SLURM.refuse_crew(crew(member("c000"), member("c001", role="plain")))
    assert "has role 'plain'" in caught.value.evidence


def test_other_roles_have_no_more_controllers_than_before() -> None:
    assert role_of("plain").controller_names(spec(None)) == ()
    assert role_of("worker").controller_names(spec(None, role="worker")) == ("c000",)
    assert SLURM.controller_names(spec(None)) == controller_names(spec(None)) == ("c000",)
    assert SLURM.controller_names(spec("c002", controller=1)) == ("c001", "c002")
