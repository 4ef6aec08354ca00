"""Accounting in a cluster's life: what it adds, what stays when the cluster goes, and nodes from before it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import UsageError
from gpuprov.core.reporter import Silent
from gpuprov.lifecycle.cluster_down import cluster_down, foresee_losses
from gpuprov.lifecycle.cluster_up import UpOrder, preview_changes
from gpuprov.lifecycle.leaving import SPARE_JOBS, JobsPolicy
from gpuprov.lifecycle.replace_older import replace_older
from gpuprov.machine.folders import FolderLook
from gpuprov.spec.shared_folder import ACCOUNTS
from tests.fakes.accounting import accounting_spec
from tests.fakes.slurm import CONF

if TYPE_CHECKING:
    from gpuprov.drivers.base import ExecResult
    from tests.fakes.engine import Command
    from tests.fakes.world import World

pytestmark = pytest.mark.slow

FOLDER = "/srv/gpuprov/lab.accounting"
SLURMDBD = "/etc/slurm/slurmdbd.conf"
TYPE = "AccountingStorageType=accounting_storage/slurmdbd\n"


def recording(world: World) -> list[str]:
    return [name for name, node in sorted(world.engine.nodes.items()) if SLURMDBD in node.files]


def mounting(world: World) -> list[str]:
    nodes = sorted(world.engine.nodes.items())
    return [name for name, node in nodes if (FOLDER, ACCOUNTS) in [(one.source, one.target) for one in node.mounts]]


def test_the_controller_records_and_has_the_folder(world: World) -> None:
    spec = accounting_spec(world)
    done = world.up(spec=spec)
    assert f"create folder {FOLDER} for the figures of Slurm's accounting" in done.changed
    assert (world.host.folders.look(FOLDER).owner, world.host.folders.modes[FOLDER]) == (64030, 0o700)
    assert recording(world) == mounting(world) == ["c000"]
    file = world.engine.nodes["c000"].files[SLURMDBD]
    assert (file.mode, file.uid, file.gid) == (0o600, 64030, 64030)
    assert b"StoragePass" not in file.content
    for node in ("c000", "c001"):
        assert TYPE in world.file(node, CONF)
        assert "AccountingStorageHost=10.0.3.2\n" in world.file(node, CONF)
    assert world.engine.nodes["c001"].labels["gpuprov.image"] == "counting"
    assert preview_changes(world.driver, spec, world.host, reporter=Silent()) == ()
    assert world.up(spec=spec).changed == ()


def test_without_it_all_is_as_before(world: World) -> None:
    world.begin_with(2)
    assert recording(world) == mounting(world) == []
    assert "Accounting" not in world.file("c000", CONF)
    assert world.host.folders.look(FOLDER).kind == "absent"


def test_figures_stay_when_the_cluster_goes_and_the_next_one_has_them(world: World) -> None:
    spec = accounting_spec(world)
    world.up(spec=spec)
    world.host.folders.there[FOLDER] = replace(world.host.folders.there[FOLDER], empty=False)
    done = world.down()
    assert not any(FOLDER in line for line in done.changed)
    (line,) = (line for line in world.reporter.lines if f"kept {FOLDER}" in line)
    assert "the figures of Slurm's accounting" in line
    assert line.endswith("gpuprov cluster down lab --purge")
    done = world.up(spec=spec)
    assert not any(FOLDER in line for line in done.changed)
    assert mounting(world) == ["c000"]


def test_purge_says_that_it_removes_them_and_does(world: World) -> None:
    world.up(spec=accounting_spec(world))
    losses = foresee_losses(world.driver, "lab", world.host, SPARE_JOBS, purge=True)
    assert f"{FOLDER} with all its contents, the figures of Slurm's accounting" in losses.lines
    assert FOLDER not in "\n".join(foresee_losses(world.driver, "lab", world.host, SPARE_JOBS).lines)
    assert f"removed the folder {FOLDER}" in world.down(purge=True).changed
    assert world.host.folders.look(FOLDER).kind == "absent"


def test_purge_also_finds_what_a_cluster_left_that_is_gone(world: World) -> None:
    world.up(spec=accounting_spec(world))
    world.down()
    assert f"removed the folder {FOLDER}" in world.down(purge=True).changed


def test_a_folder_of_somebody_else_is_not_removed(world: World) -> None:
    world.up(spec=accounting_spec(world))
    world.host.folders.there[FOLDER] = FolderLook(kind="folder", at=FOLDER, owner=1000, empty=False, can_give=True)
    with pytest.raises(UsageError, match=f"the folder {FOLDER} is not removed"):
        world.down(purge=True)
    assert world.names == ["c000", "c001"]


def test_a_cluster_from_before_goes_on_without_until_its_nodes_are_replaced(world: World) -> None:
    world.begin_with(2)
    spec = accounting_spec(world)
    world.up(spec=spec)
    assert recording(world) == []
    assert TYPE not in world.file("c000", CONF)
    told = "\n".join(world.reporter.lines)
    assert "c[000-001]: image is older: lacks mariadb-client, mariadb-server-core, slurmdbd" in told
    assert "gpuprov cluster up --renew" in told
    assert world.up(spec=spec).changed == ()
    replace_older(world.driver, UpOrder(spec=spec), world.host, reporter=world.reporter)
    assert recording(world) == mounting(world) == ["c000"]
    assert all(TYPE in world.file(node, CONF) for node in ("c000", "c001"))


def test_what_is_switched_off_is_stopped(world: World) -> None:
    world.up(spec=accounting_spec(world))
    spec = world.spec(2, share=True)
    answer, told = world.engine.answer, []

    def hear(command: Command) -> ExecResult:
        told.append(" ".join(command.argv))
        return answer(command)

    world.engine.answer = hear
    world.up(spec=spec)
    assert all(TYPE not in world.file(node, CONF) for node in ("c000", "c001"))
    assert any(f"rm -f {SLURMDBD}; systemctl stop slurmdbd" in line for line in told)
    assert world.host.folders.look(FOLDER).kind == "folder"


@pytest.mark.parametrize("counts", [True, False])
def test_the_end_of_jobs_is_recorded_before_a_cluster_goes(world: World, *, counts: bool) -> None:
    world.up(spec=accounting_spec(world, accounting=counts))
    world.slurm.jobs["c001"] = "17"
    answer, told = world.engine.answer, []

    def hear(command: Command) -> ExecResult:
        told.append((command.node.name, " ".join(command.argv)))
        return answer(command)

    world.engine.answer = hear
    cluster_down(world.driver, "lab", world.host, reporter=world.reporter, policy=JobsPolicy(force=True))
    assert [name for name, line in told if "scancel --quiet --state" in line] == ["c000"] * counts
    assert world.names == []


def test_a_node_that_is_added_records_nothing(world: World) -> None:
    world.up(spec=accounting_spec(world))
    world.up(spec=accounting_spec(world, 3))
    assert recording(world) == ["c000"]
    assert observe_cluster(world.driver, "lab").node("c002") is not None
