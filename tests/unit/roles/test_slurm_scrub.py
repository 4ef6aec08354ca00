"""GPUs that are scrubbed between people: what a spec may say, what Slurm is told, and what it runs before a job."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from gpuprov.assets import get_asset
from gpuprov.cluster.ordered_node import with_order
from gpuprov.roles.registry import check_spec
from gpuprov.roles.slurm.files import Machine, render_slurm
from gpuprov.roles.slurm.scrub import scrub_programs
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, GpuSpec, NodesSpec, SlurmSpec
from gpuprov.shapes.gpu_order import GpuOrder
from gpuprov.shapes.node_order import NodeOrder
from gpuprov.shapes.whole import Member
from gpuprov.spec.serialize import dump_spec, load_spec_json
from gpuprov.spec.spec_error import SpecError

if TYPE_CHECKING:
    from pathlib import Path

SCRUB = GpuSpec(scrub=True, sharing="exclusive")
SPEC = ClusterSpec(gpus=SCRUB)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (ClusterSpec(gpus=GpuSpec(scrub=True)), "GPUs are shared with other nodes"),
        (ClusterSpec(gpus=SCRUB, nodes=NodesSpec(role="plain")), "nodes with the role plain have no jobs before which"),
        (ClusterSpec(gpus=SCRUB, slurm=SlurmSpec(shards_per_gpu=2)), "on a GPU at once by shards"),
    ],
    ids=["shared", "plain", "shards"],
)
def test_what_could_not_be_scrubbed_is_refused(wanted: ClusterSpec, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        check_spec(wanted)


def test_a_spec_without_it_is_recorded_as_before() -> None:
    for role in ("slurm", "worker"):
        check_spec(changed(SPEC, nodes=NodesSpec(role=role)))
    assert "scrub" not in dump_spec(ClusterSpec())
    assert load_spec_json(dump_spec(SPEC), cluster="lab") == SPEC


def test_a_plain_node_of_such_a_cluster_is_none_of_slurms() -> None:
    check_spec(with_order(SPEC, "plain", None))


def test_a_node_with_shared_gpus_is_refused_in_such_a_cluster() -> None:
    check_spec(with_order(SPEC, "slurm", NodeOrder(name="c002", cluster="lab")))
    with pytest.raises(SpecError, match="GPUs are shared"):
        check_spec(with_order(SPEC, "slurm", NodeOrder(name="c002", cluster="lab", gpus=GpuOrder(sharing="shared"))))


def test_slurm_runs_it_before_jobs_where_the_spec_wants_it() -> None:
    members = [Member(name="c000", address="10.0.3.2", private_address="", role="slurm")]
    for spec, count in ((SPEC, 1), (ClusterSpec(), 0)):
        conf = render_slurm(spec, members, Machine(cpus=1, memory_bytes=1 << 30))[0].content.decode()
        assert conf.count("\nProlog=/etc/slurm/prolog\nPrologFlags=Alloc\n") == count
        assert [(file.path, file.mode) for file in scrub_programs(spec)] == [("/etc/slurm/prolog", 0o755)] * count


class Node:
    """A node as the prolog sees it: what it runs is told to a file."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.kept = folder / "kept"
        programs = folder / "programs"
        programs.mkdir()
        (programs / "python3").write_text(
            f'#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES ${{NUMBA_ENABLE_CUDASIM-real}} $*" >>{self.log}\n'
            f"cat {folder}/says 2>/dev/null && exit 1\nexit 0\n"
        )
        (programs / "scontrol").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >>{self.log}\n')
        (folder / "environment").write_text("HOME=/x\nNUMBA_ENABLE_CUDASIM=1\n")
        self.says = folder / "says"
        for program in programs.iterdir():
            program.chmod(0o755)
        text = (get_asset("templates") / "slurm/prolog.sh").read_text()
        text = text.replace("PATH=/usr/local/sbin", f"PATH={programs}:/usr/local/sbin")
        text = text.replace("/run/gpuprov-scrubbed", str(self.kept))
        self.script = text.replace("/etc/gpuprov/environment", str(folder / "environment"))

    def begin(self, uid: int, gpus: str | None) -> tuple[int, list[str]]:
        """Status, and what was run."""
        self.log.write_text("")
        own = {} if gpus is None else {"SLURM_JOB_GPUS": gpus}
        done = subprocess.run(
            ["sh", "-c", self.script],
            env={"SLURM_JOB_UID": str(uid), "SLURMD_NODENAME": "c001", **own},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return done.returncode, self.log.read_text().splitlines()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_gpu_is_scrubbed_where_the_person_changes_and_only_there(node: Node) -> None:
    run = "1 -I -m smoke_kernels.scrub"
    assert node.begin(10001, "0,1") == (0, [f"0 {run}", f"1 {run}"]), "nobody knows who had them"
    assert node.begin(10001, "0") == (0, [])
    assert node.begin(10002, "1") == (0, [f"1 {run}"])
    assert node.begin(10002, "0,1") == (0, [f"0 {run}"])
    assert node.begin(10003, None) == (0, []), "a job without a GPU"
    (node.kept / "started").write_text("another boot\n")
    assert node.begin(10002, "0") == (0, [f"0 {run}"]), "a copy of another node's disk says nothing"
    assert node.begin(10002, "0") == (0, [])


def test_one_that_is_not_scrubbed_is_given_to_nobody(node: Node) -> None:
    node.begin(10001, "0")
    node.says.write_text("first\nmemory of the GPU is not zero; $(reboot) `x` \x1b[31m\n")
    code, ran = node.begin(10002, "0")
    assert code == 1
    assert ran[1:4] == ["update", "NodeName=c001", "State=DRAIN"]
    assert ran[4] == "Reason=gpuprov: GPU 0 was not scrubbed (status 1): memory of the GPU is not zero; reboot x 31m"
    assert node.begin(10001, "0")[0] == 1, "not to whom it was before either: half of it may be overwritten"
    node.says.unlink()
    assert node.begin(10001, "0")[0] == 0


def test_what_is_no_number_is_refused(node: Node) -> None:
    assert node.begin(10001, "0,../x")[0] == 1
