"""Slurm's REST API: what a spec may say, when Slurm is told of it, and the key of its tokens."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.roles.registry import check_spec
from gpuprov.roles.slurm.files import Machine, render_slurm
from gpuprov.roles.slurm.rest import HAS_REST, LABEL_REST, PACKAGES, can_serve, find_rest, token_key_file
from gpuprov.shapes.cluster_spec import ClusterSpec, HostSpec, ImageSpec, NodesSpec, SlurmSpec
from gpuprov.shapes.whole import Member
from gpuprov.spec.serialize import dump_spec, load_spec_json
from gpuprov.spec.spec_error import SpecError
from tests.fakes.engine import FakeNode

if TYPE_CHECKING:
    from pathlib import Path

REST = SlurmSpec(rest=True)
IMAGE = ImageSpec(packages=PACKAGES)
SPEC = ClusterSpec(slurm=REST, image=IMAGE)
NEW = FakeNode(name="c000", labels={LABEL_REST: "yes"}).state()
OLD = FakeNode(name="c001", labels={LABEL_REST: "no"}).state()


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (ClusterSpec(slurm=REST), "needs slurm-wlm-jwt-plugin and slurmrestd in the image"),
        (ClusterSpec(slurm=REST, image=ImageSpec(packages=PACKAGES[:1])), "needs slurmrestd in the image"),
        (ClusterSpec(slurm=REST, image=IMAGE, nodes=NodesSpec(role="worker")), "the role worker have no Slurm"),
        (
            ClusterSpec(slurm=REST, image=IMAGE, hosts=(HostSpec(name="hoff"),)),
            "not possible with hosts",
        ),
    ],
    ids=["no packages", "one package", "workers", "hosts"],
)
def test_what_cannot_be_is_refused(wanted: ClusterSpec, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        check_spec(wanted)


def test_a_spec_without_it_is_recorded_as_before() -> None:
    check_spec(SPEC)
    check_spec(ClusterSpec(slurm=REST, image=ImageSpec(base="image:mine")))
    assert "rest" not in dump_spec(ClusterSpec(share=False)).replace("restart", "")
    assert load_spec_json(dump_spec(SPEC), cluster="lab") == SPEC


def test_slurm_is_told_only_where_all_nodes_have_the_packages() -> None:
    assert can_serve(SPEC, [NEW], None)
    assert not can_serve(SPEC, [NEW, OLD], None)
    assert not can_serve(ClusterSpec(), [NEW], None)


@pytest.mark.parametrize(
    ("files", "said"),
    [([], "no"), (["usr/sbin/slurmrestd"], "no"), (["usr/sbin/slurmrestd", "usr/lib/x/slurm-wlm/auth_jwt.so"], "yes")],
    ids=["neither", "no plugin", "both"],
)
def test_an_image_says_whether_it_has_both_packages(tmp_path: Path, files: list[str], said: str) -> None:
    for name in files:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o755)
    script = HAS_REST.replace(" /usr/", f" {tmp_path}/usr/")
    assert subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True).stdout.strip() == said


def test_it_is_asked_on_the_controllers_node() -> None:
    service = find_rest(SPEC, [NEW], asked=NEW)
    assert (service.node, service.account) == ("c000", "work")
    assert service.relay_argv[:4] == ["runuser", "-u", "nobody", "--"]
    assert "SLURMRESTD_SECURITY=disable_unshare_sysv,disable_unshare_files" in service.relay_argv, "Docker forbids that"
    assert service.token_argv(60) == ["scontrol", "token", "username=work", "lifespan=60"]
    with pytest.raises(UsageError, match="has no REST API yet") as caught:
        find_rest(SPEC, [NEW, OLD], asked=NEW)
    assert caught.value.evidence == "the image of c001 lacks slurm-wlm-jwt-plugin or slurmrestd"
    assert caught.value.fix == "replace these nodes: gpuprov cluster up --renew"


def test_the_key_follows_from_the_munge_key_and_slurm_alone_reads_it() -> None:
    file = token_key_file(b"x" * 128)
    assert file == token_key_file(b"x" * 128)
    assert file.content != token_key_file(b"y" * 128).content
    assert (file.mode, file.uid) == (0o400, 64030)


def test_the_daemons_are_told_where_the_key_is() -> None:
    members = [Member(name="c000", address="10.0.3.2", private_address="", role="slurm")]
    machine = Machine(cpus=2, memory_bytes=1 << 30)
    with_it, without = (render_slurm(SPEC, members, machine, rest=rest)[0].content.decode() for rest in (True, False))
    assert "AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key=/etc/slurm/tokens.key\n" in with_it
    assert "AuthAlt" not in without
