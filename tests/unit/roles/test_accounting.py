"""Slurm's accounting: what a spec may say, and the files that follow from it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import ExecResult
from gpuprov.provision.recipe import image_recipe
from gpuprov.roles.registry import ROLES, check_spec
from gpuprov.roles.slurm.accounting import (
    PACKAGES,
    accounts_folder,
    render_slurmdbd,
    restart_accounting,
    save_figures,
    stop_script,
)
from gpuprov.roles.slurm.facts import slurm_facts
from gpuprov.roles.slurm.files import Machine, render_slurm
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, ImageSpec, MountSpec, NodesSpec, SlurmSpec
from gpuprov.shapes.whole import Member
from gpuprov.spec.load import read_draft
from gpuprov.spec.serialize import dump_spec, load_spec_json
from gpuprov.spec.shared_folder import ACCOUNTS, KEPT
from gpuprov.spec.spec_error import SpecError

ON = ClusterSpec(accounting=True)


def problems(**spec: Any) -> list[str]:
    with pytest.raises(SpecError) as caught:
        check_spec(changed(ON, **spec))
    return [f"{problem.where} {problem.message}; {problem.allowed}" for problem in caught.value.problems]


@pytest.mark.parametrize(("word", "value"), [("on", True), ("true", True), ("off", False), ("false", False)])
def test_a_file_may_say_on(word: str, value: bool) -> None:
    text = f"version: gpuprov/v1\naccounting: {word}\n"
    assert read_draft(text, name="x", roles=tuple(ROLES)).spec.accounting is value


@pytest.mark.parametrize("role", ["worker", "plain"])
def test_only_slurm_has_it(role: Any) -> None:
    assert problems(nodes=NodesSpec(role=role)) == [
        f"accounting nodes with the role {role} have none; false, or nodes.role: slurm"
    ]


def test_ubuntu_22_is_refused() -> None:
    (problem,) = problems(image=ImageSpec(base="jammy"))
    assert problem == ("accounting is not supported with image.base: jammy; another base: bookworm, trixie, noble")
    check_spec(changed(ON, image=ImageSpec(base="noble")))


def test_a_mount_in_its_place_is_refused() -> None:
    (problem,) = problems(nodes=NodesSpec(mounts=(MountSpec(source="/", target=f"/{ACCOUNTS}/"),)))
    assert problem.startswith(f"nodes.mounts[0].target {ACCOUNTS} is where Slurm's accounting is")


def test_a_spec_without_it_is_recorded_as_before() -> None:
    assert "accounting" not in dump_spec(ClusterSpec())
    assert load_spec_json(dump_spec(ON), cluster="lab") == ON


def test_its_folder_has_the_name_of_the_cluster_wherever_the_shared_one_is() -> None:
    for share in (False, True, "/data/lab"):
        (folder,) = ROLES.service_folders(changed(ON, share=share))
        assert (folder.source, folder.target, folder.nodes) == ("/srv/gpuprov/lab.accounting", ACCOUNTS, ("c000",))
    spec = changed(ON, share=True, slurm=SlurmSpec(backup="c001", controller=2))
    mounts = ROLES.mounts(spec)
    assert [mount.target for mount in mounts["slurm", "c002"]] == [KEPT, ACCOUNTS]
    assert [mount.target for mount in mounts["slurm", "c001"]] == [KEPT]
    assert ROLES.outliving_folders("lab") == (accounts_folder("lab"),)


def test_only_its_images_have_its_packages() -> None:
    def packages(spec: ClusterSpec) -> set[str]:
        from gpuprov.assets import get_asset

        recipe = image_recipe(
            spec.image,
            role=ROLES["slurm"].recipe_of(spec),
            wheels="none",
            init="systemd",
            roles_path=get_asset("roles"),
            smoke_kernels=get_asset("smoke_kernels"),
        )
        return {*recipe.packages, *recipe.rootfs.packages, *recipe.roles}

    assert {*PACKAGES, "accounting"} <= packages(ON)
    assert not {*PACKAGES, "accounting"} & packages(ClusterSpec())


def member(name: str, *types: str, address: str = "10.0.3.2") -> Member:
    devices = tuple(f"/dev/nvidia{number}" for number in range(max(1, len(types))))
    return Member(
        name=name, role="slurm", address=address, private_address="10.0.5.1", devices=devices, gpu_types=types
    )


def conf(*members: Member, accounting: bool = True) -> list[str]:
    machine = Machine(cpus=2, memory_bytes=1 << 30)
    files = render_slurm(ON, members, machine, accounting=accounting)
    return [line for line in files[0].content.decode().splitlines() if line.startswith("Account")]


def test_slurm_counts_gpus_of_every_type() -> None:
    assert conf(member("c000")) == [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=10.0.3.2",
        "AccountingStorageTRES=gres/gpu",
    ]
    lines = conf(member("c000", "h100", "h100"), member("c001", "a100"))
    assert lines[-1] == "AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:h100"
    assert conf(member("c000", address=""))[1] == "AccountingStorageHost=10.0.5.1"
    assert conf(member("c000"), accounting=False) == []


def test_slurmdbd_s_file_has_no_password_and_is_slurm_s_alone() -> None:
    file = render_slurmdbd(ON, "10.0.3.2")
    uid = slurm_facts()["uid"]
    assert (file.path, file.mode, file.uid, file.gid) == ("/etc/slurm/slurmdbd.conf", 0o600, uid, uid)
    lines = file.content.decode().splitlines()
    assert not any(line.startswith("StoragePass") for line in lines)
    for line in ("DbdHost=c000", "StorageHost=localhost", "ArchiveJobs=yes", "PurgeJobAfter=13months"):
        assert line in lines
    assert f"ArchiveDir={ACCOUNTS}/archive" in lines


@pytest.mark.parametrize(("init", "stop"), [("systemd", "systemctl stop"), ("runit", "sv -w 50 down")])
def test_it_is_stopped_in_the_other_order(init: Any, stop: str) -> None:
    assert f"{stop} slurmdbd slurm-database" in stop_script(init)


@pytest.mark.parametrize(
    ("said", "words", "fix"),
    [
        ("why newer its files are of MariaDB 11.4.2\n", "its files are of MariaDB 11.4.2\n", "nothing was changed; in"),
        (
            "why \n[x] error: no socket\n[x] done\n",
            "slurmdbd: [x] error: no socket\n",
            "gpuprov exec c000 -- systemctl",
        ),
        ("", '"it failed', "gpuprov exec c000 -- systemctl"),
    ],
)
def test_a_slurmdbd_that_does_not_start_says_why(said: str, words: str, fix: str) -> None:
    def run(_node: str, argv: list[str], **_: Any) -> ExecResult:
        if argv[0] == "sh":
            return ExecResult(exit_code=0, stdout=said, stderr="")
        return ExecResult(exit_code=1, stdout="", stderr="it failed")

    driver = cast("Any", SimpleNamespace(run=run, capabilities={"systemd"}))
    with pytest.raises(EngineError, match="slurm-database did not restart on c000") as caught:
        restart_accounting(driver, "c000", {"c000": frozenset({"/etc/slurm/slurmdbd.conf"})}, wanted=True)
    assert caught.value.evidence.startswith(words)
    assert "it failed" in caught.value.evidence
    assert caught.value.fix.startswith(fix)


def test_a_database_that_does_not_answer_is_an_error_of_saving() -> None:
    asked = []

    def run(node: str, argv: list[str], **_: Any) -> ExecResult:
        asked.append((node, argv[:4], argv[-1]))
        return ExecResult(exit_code=1, stdout="", stderr="mariadb-dump: Can't connect\n")

    with pytest.raises(EngineError, match="cannot be saved") as caught:
        save_figures(cast("Any", SimpleNamespace(run=run)), "c000")
    assert caught.value.evidence == "mariadb-dump: Can't connect"
    assert asked == [("c000", ["runuser", "-u", "slurm", "--"], "save")]
