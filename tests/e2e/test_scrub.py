"""A GPU whose memory is scrubbed before it has a job of somebody else, by Slurm itself; SIMULATED, as the GPU is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.waiting import Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

PEOPLE = "people: [{name: ann, uid: 10001}, {name: bob, uid: 10002}]\n"
LAST = "/run/gpuprov-scrubbed/"
FIND = "import smoke_kernels.scrub; print(smoke_kernels.scrub.__file__)"


class Lab:
    """A cluster of two nodes with two GPUs each; people have jobs on the second, whose GPUs are not the first ones."""

    def __init__(self, gpuprov: Gpuprov, place: Place) -> None:
        self.gpuprov, self.node = gpuprov, place.node(1)

    def run(self, *argv: str) -> str:
        return self.gpuprov.in_node(self.node, *argv).strip()

    def submit(self, name: str, *, gpus: int = 1) -> str:
        command = f"cd /tmp && sbatch --parsable --output=/dev/null --gres=gpu:{gpus} -w {self.node} --wrap=true"
        return self.run("runuser", "-u", name, "--", "sh", "-c", command)

    def wait_for_job(self, job: str, *words: str) -> None:
        wait = Wait(what=f"job {job}", timeout_s=60, fix="squeue", interval_s=0.5)
        wait.until(lambda: self.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T"), lambda found: found in words)

    def last(self) -> str:
        """Who had each GPU last."""
        return self.run("sh", "-c", f"cd {LAST} && grep . *")


@pytest.fixture(scope="module")
def lab(gpuprov: Gpuprov, place: Place, lxc: object) -> Iterator[Lab]:  # noqa: ARG001
    file = gpuprov.folder / "scrub.yaml"
    file.write_text(place.spec(count=2, gpus="per_node: 2, sharing: exclusive, scrub: true", share="true") + PEOPLE)
    gpuprov("cluster", "up", "-f", str(file))  # verified: a job of root sees its GPUs
    yield Lab(gpuprov, place)
    gpuprov("cluster", "down", place.cluster, "--force", "--purge", "--yes")


def test_each_gpu_is_scrubbed_where_the_person_changes(lab: Lab) -> None:
    lab.wait_for_job(lab.submit("ann", gpus=2), "COMPLETED")
    assert lab.last().splitlines() == ["0:10001", "1:10001"], "as CUDA counts the GPUs of a node"
    lab.wait_for_job(lab.submit("bob"), "COMPLETED")
    assert lab.last().splitlines() == ["0:10002", "1:10001"]


def test_a_gpu_that_is_not_scrubbed_is_given_to_nobody(lab: Lab) -> None:
    kernel = lab.run("python3", "-I", "-c", f"import os; os.environ['NUMBA_ENABLE_CUDASIM'] = '1'; {FIND}")
    lab.run("mv", kernel, "/root/scrub.py")
    lab.wait_for_job(lab.submit("ann", gpus=2), "PENDING")
    state = Wait(what="the node to be drained", timeout_s=60, fix="sinfo -R", interval_s=0.5).until(
        lambda: lab.run("scontrol", "-o", "show", "node", lab.node), lambda said: "DRAIN" in said
    )
    assert "Reason=gpuprov: GPU " in state
    assert "was not scrubbed (status 1): " in state
    job = lab.run("squeue", "-h", "-o", "%i")
    lab.wait_for_job(job, "PENDING")
    lab.run("mv", "/root/scrub.py", kernel)
    lab.run("scontrol", "update", f"NodeName={lab.node}", "State=RESUME")
    lab.run("scontrol", "release", job)
    lab.run("scontrol", "update", f"JobId={job}", "StartTime=now")  # Slurm waits two minutes
    lab.wait_for_job(job, "COMPLETED")
