"""A GPU whose memory is scrubbed before it has a job of somebody else, by Slurm or a worker; SIMULATED, as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.waiting import Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

PEOPLE = "people: [{name: ann, uid: 10001}, {name: bob, uid: 10002}]\n"
LAST = "/run/gpuprov-scrubbed/"
FIND = "import smoke_kernels.scrub; print(smoke_kernels.scrub.__file__)"
ASK = """\
import os, socket
asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asked.connect("/run/gpuwork-scrub/socket")
asked.send(f"{os.environ['CUDA_VISIBLE_DEVICES']} bob".encode())
print(asked.recv(1000).decode())
"""


class Queue:
    """A cluster of two workers, and jobs of people."""

    def __init__(self, gpuprov: Gpuprov, place: Place) -> None:
        self.gpuprov, self.place = gpuprov, place
        self.here = ("--cluster", place.cluster)

    def submit(self, person: str, *command: str) -> str:
        return self.gpuprov("submit", *self.here, "--as", person, "--no-project", "--", *command).stdout.strip()

    def job(self, number: str) -> dict[str, Any]:
        found: dict[str, Any] = self.gpuprov.json("jobs", "show", number, *self.here)["jobs"][0]
        return found

    def wait_for(self, number: str, state: str) -> str:
        """The node on which a job came to be so."""
        wait = Wait(what=f"job {number} to be {state}", timeout_s=90, fix="gpuprov jobs", interval_s=0.5)
        job = wait.until(lambda: self.job(number), lambda job: job["state"] in (state, "failed"))
        assert job["state"] == state, job
        return str(job["node"])

    def last(self, node: str) -> str:
        """Who had the GPU of a node last; empty where nobody knows."""
        return self.gpuprov.in_node(node, "sh", "-c", f"cat {LAST}GPU-* 2>/dev/null || true").strip()

    def wait_for_word(self, node: str, word: str) -> None:
        def look() -> str:
            rows = self.gpuprov.json("cluster", "status", self.place.cluster)["nodes"]
            return str(next(row["work"] for row in rows if row["name"] == node))

        wait = Wait(what=f"{node} to be {word}", timeout_s=90, fix="gpuprov cluster status", interval_s=1)
        wait.until(look, lambda found: found == word)


@pytest.fixture
def queue(gpuprov: Gpuprov, place: Place, lxc: object) -> Iterator[Queue]:  # noqa: ARG001
    file = gpuprov.folder / "queue.yaml"
    spec = place.spec(count=2, nodes="role: worker", gpus="sharing: exclusive, scrub: true", share="true")
    file.write_text(f"{spec}{PEOPLE}jobs: {{submit_as: true}}\n")
    gpuprov("cluster", "up", "-f", str(file), "--no-verify")
    yield Queue(gpuprov, place)
    gpuprov("cluster", "down", place.cluster, "--force", "--purge", "--yes")


def test_workers_scrub_where_the_person_changes_and_take_no_work_where_they_cannot(queue: Queue) -> None:
    run = queue.gpuprov.in_node
    asks = queue.submit("ann", "python3", "-c", ASK)
    first = queue.wait_for(asks, "done")
    assert queue.last(first) == "ann"
    said = queue.gpuprov("jobs", "logs", asks, *queue.here).stdout
    assert said == "a process of a job may not ask\n"
    peek = queue.submit("ann", "sh", "-c", f"ls {LAST}; echo bob >{LAST}x; true")
    queue.wait_for(peek, "done")
    assert queue.gpuprov("jobs", "logs", peek, *queue.here).stdout.count("Permission denied") == 2
    bad, good = queue.place.node(0), queue.place.node(1)
    run(bad, "systemctl", "restart", "gpuwork-scrub", "gpuwork")
    assert queue.last(first) == "ann", "kept when the programs start again"
    kernel = run(bad, "python3", "-I", "-c", f"import os; os.environ['NUMBA_ENABLE_CUDASIM'] = '1'; {FIND}").strip()
    run(bad, "mv", kernel, "/root/scrub.py")
    hold = f"mkdir -p /shared/jobs/.held && cd /shared/jobs/.held && touch {good}"
    run(good, "runuser", "-u", "work", "--", "sh", "-c", hold)
    job = queue.submit("bob", "true")
    queue.wait_for_word(bad, "0 of 1 workers, GPU not scrubbed")
    assert (queue.job(job)["state"], queue.job(job)["tries"], queue.last(bad)) == ("waiting", 0, "")
    run(good, "rm", f"/shared/jobs/.held/{good}")
    assert queue.wait_for(job, "done") == good
    report = queue.gpuprov.json("verify", bad, "--cluster", queue.place.cluster, expect=1)
    assert "was not scrubbed (status 1): " in str(report)
    run(bad, "mv", "/root/scrub.py", kernel)
    queue.wait_for_word(bad, "idle")  # it is tried again


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
        return self.run("sh", "-c", f"cd {LAST} && grep . [0-9]*")


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
