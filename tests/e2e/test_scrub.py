"""GPUs, and parts of one, that Slurm or a worker scrubs before somebody else has a job on them; SIMULATED."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from gpuprov.core.waiting import Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Finished, Gpuprov
    from tests.e2e.places import Place

PEOPLE = "people: [{name: ann, uid: 10001}, {name: bob, uid: 10002}]\n"
LAST = "/run/gpuprov-scrubbed/"
MANY = {"GPUPROV_SIMULATED_GPUS": "16"}
CUT = 15  # the index of a GPU that no other test has
MODELS = (9, 10, 11, 12)  # indices of an h100, an a100, a t4 and an h100 of a host with the profile `mixed`
MIG = f"""\
version: v1
mig-configs:
  mixed: [{{devices: [{CUT}], mig-enabled: true, mig-devices: {{1g.5gb: 2, 2g.10gb: 1}}}}]
  off: [{{devices: [{CUT}], mig-enabled: false}}]
"""
OUTPUT = "/tmp/part-"
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

    def submit_behind(self, person: str, *argv: str) -> str:
        """A job that both workers begin later: one that begins as it is being submitted is nobody's yet."""
        for _ in range(2):
            self.submit(person, "sleep", "4")
        return self.submit(person, *argv)

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
    asks = queue.submit_behind("ann", "python3", "-c", ASK)
    first = queue.wait_for(asks, "done")
    assert queue.last(first) == "ann"
    said = queue.gpuprov("jobs", "logs", asks, *queue.here).stdout
    assert said == "a process of a job may not ask\n"
    peek = queue.submit_behind("ann", "sh", "-c", f"ls {LAST}; echo bob >{LAST}x; true")
    first = queue.wait_for(peek, "done")
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
    Wait(what="verify to say why", timeout_s=30, fix="gpuprov verify", interval_s=0.5).until(  # the worker tries again
        lambda: str(queue.gpuprov.json("verify", bad, "--cluster", queue.place.cluster, expect=1)),
        lambda said: "was not scrubbed (status 1): " in said,
    )
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
    gpuprov("cluster", "up", "-f", str(file), variables=MANY)  # verified: a job of root sees its GPUs
    yield Lab(gpuprov, place)
    gpuprov("cluster", "down", place.cluster, "--force", "--purge", "--yes")


def test_each_gpu_is_scrubbed_where_the_person_changes(lab: Lab) -> None:
    lab.wait_for_job(lab.submit("ann", gpus=2), "COMPLETED")
    assert lab.last().splitlines() == ["0:10001", "1:10001"], "as CUDA counts the GPUs of a node"
    lab.wait_for_job(lab.submit("bob"), "COMPLETED")
    assert lab.last().splitlines() == ["0:10002", "1:10001"]


class Cut:
    """One more node, which holds three parts of a GPU that nobody else has; of a model that others do not simulate."""

    variables: ClassVar = {"GPUPROV_GPU_PROFILE": "a100x4", **MANY}

    def __init__(self, gpuprov: Gpuprov, place: Place) -> None:
        self.gpuprov, self.place, self.node = gpuprov, place, place.node(2)
        self.file = gpuprov.folder / "mig.yaml"
        self.file.write_text(MIG)

    def __call__(self, *argv: str) -> Finished:
        return self.gpuprov(*argv, variables=self.variables)

    def apply(self, config: str) -> None:
        self("host", "mig", "apply", str(self.file), "-c", config)

    def parts(self) -> dict[str, list[str]]:
        """By profile the UUIDs of the parts."""
        found: dict[str, list[str]] = {}
        for gpu in self("--json", "gpus").document["gpus"]:
            if gpu["index"] == CUT:
                found.setdefault(gpu["mig"]["profile"], []).append(gpu["uuid"])
        return found

    def run(self, *argv: str) -> str:
        return self.gpuprov.in_node(self.node, *argv).strip()

    def srun(self, gres: str) -> str:
        return self.run("srun", "-w", self.node, f"--gres=gpu:{gres}", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")

    def begin(self) -> str:
        """A job that has a 1g.5gb until it is cancelled."""
        wrap = "--wrap=echo $CUDA_VISIBLE_DEVICES; exec sleep 600"
        what = ("-n1", "--mem=10", f"--output={OUTPUT}%j", "--gres=gpu:1g.5gb:1", "-w", self.node)
        return self.run("sbatch", "--parsable", *what, wrap)

    def wait_for(self, job: str, word: str) -> None:
        wait = Wait(what=f"job {job}", timeout_s=60, fix="squeue", interval_s=0.5)
        wait.until(lambda: self.run("squeue", "-h", "-j", job, "-o", "%T %r"), lambda found: found == word)

    def visible(self, job: str) -> str:
        """What it has written."""
        look = ("sh", "-c", f"head -n 1 {OUTPUT}{job} || true")
        wait = Wait(what=f"output of job {job}", timeout_s=60, fix="squeue", interval_s=0.5)
        return wait.until(lambda: self.run(*look), bool)


@pytest.fixture
def cut(lab: Lab, gpuprov: Gpuprov, place: Place) -> Iterator[Cut]:  # noqa: ARG001
    made = Cut(gpuprov, place)
    made.apply("mixed")
    try:
        made("create-node", made.node, "--cluster", place.cluster, "--gpus", f"{CUT}:0,{CUT}:1,{CUT}:2")
        yield made
    finally:
        made("rm", made.node, "--force")
        made.apply("off")


def test_each_part_of_a_gpu_is_one_of_its_own_for_slurm(cut: Cut) -> None:
    parts = cut.parts()
    assert {profile: len(uuids) for profile, uuids in parts.items()} == {"2g.10gb": 1, "1g.5gb": 2}
    assert cut.run("sinfo", "-n", cut.node, "-h", "-o", "%G") == "gpu:2g.10gb:1,gpu:1g.5gb:2"
    assert [cut.srun("2g.10gb:1")] == parts["2g.10gb"]
    assert cut.srun("1g.5gb:2").split(",") == parts["1g.5gb"]
    assert cut.run("sh", "-c", f"cd {LAST} && grep . [0-9]*").splitlines() == ["0:0", "1:0", "2:0"], "all are scrubbed"
    first, second, third = (cut.begin() for _ in range(3))
    for job in (first, second):
        cut.wait_for(job, "RUNNING None")
    cut.wait_for(third, "PENDING Resources")
    assert sorted(map(cut.visible, (first, second))) == sorted(parts["1g.5gb"])
    cut.run("scancel", first)
    assert cut.visible(third) == cut.visible(first), "the part that became free"
    cut.run("scancel", second, third)
    cut("verify", "--cluster", cut.place.cluster, cut.node)


def test_a_job_has_a_gpu_of_its_type_where_models_differ(lab: Lab, gpuprov: Gpuprov, place: Place) -> None:
    """Slurm numbers the GPUs h100, a100, t4, h100 type by type: 2 is its a100, and the t4 of the node."""
    node, variables = place.node(2), {"GPUPROV_GPU_PROFILE": "mixed", **MANY}
    gpus = gpuprov("--json", "gpus", variables=variables).document["gpus"]
    first, a100, t4, second = (gpus[index]["uuid"] for index in MODELS)
    here = ("--cluster", place.cluster)
    gpuprov("create-node", node, *here, "--gpus", ",".join(map(str, MODELS)), variables=variables)
    try:
        assert lab.run("sinfo", "-n", node, "-h", "-o", "%G") == "gpu:h100:2,gpu:a100:1,gpu:t4:1"
        for number, (gres, uuids) in enumerate((("h100:2", [first, second]), ("a100:1", [a100]), ("t4:1", [t4]))):
            srun = ("srun", "-Q", "-w", node, f"--gres=gpu:{gres}", "sh", "-c")
            assert lab.run(*srun, "echo $CUDA_VISIBLE_DEVICES").split(",") == uuids
            scrubbed = gpuprov.in_node(node, "sh", "-c", f"cd {LAST} && ls [0-9]*").split()
            assert scrubbed == [str(one) for one in range(number + 2)], "by Slurm's numbers"
        gpuprov("verify", *here, node, variables=variables)
    finally:
        gpuprov("rm", node, "--force", variables=variables)


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
