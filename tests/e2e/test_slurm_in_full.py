"""Slurm's partitions, shards of GPUs, REST API, and ssh from node to node, on one cluster of two nodes."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.waiting import Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

INTERRUPTED = 130
TOO_LONG = "Requested time limit is invalid (missing or exceeds some limit)"
SLURM = """slurm:
  rest: true
  qos: [{{name: brief, max_time: 30m, gpus: 1}}]
  shards_per_gpu: 2
  partitions:
    - {{name: short, max_time: {most}, nodes: [{first}]}}
    - {{name: long, nodes: [{first}, {second}], oversubscribe: yes, default: yes}}
"""
IMAGE = """image: {packages: [slurmrestd, slurm-wlm-jwt-plugin]}
accounting: on
jobs: {submit_as: true}
people: [{name: ann, uid: 10001}]
"""
LESS = "slurm: {partitions: [{name: long, oversubscribe: yes}]}\n"


class Pair:
    """A cluster of two nodes."""

    def __init__(self, gpuprov: Gpuprov, place: Place) -> None:
        self.gpuprov, self.place = gpuprov, place
        self.first, self.second = place.node(0), place.node(1)
        self.file = gpuprov.folder / "slurm-in-full.yaml"

    def write(self, slurm: str) -> None:
        self.file.write_text(self.place.spec(gpus="per_node: 1", share="true") + IMAGE + slurm)

    def full(self, most: str) -> str:
        return SLURM.format(first=self.first, second=self.second, most=most)

    def up(self, slurm: str, *argv: str, expect: int = 0) -> str:
        self.write(slurm)
        return self.gpuprov("cluster", "up", "-f", str(self.file), *argv, expect=expect).all

    def srun(self, *argv: str) -> str:
        return self.gpuprov.in_node(self.first, "srun", *argv).strip()

    def batch(self, *argv: str, wrap: str) -> str:
        command = ("sbatch", "--parsable", "--output=/dev/null", *argv, f"--wrap={wrap}")
        return self.gpuprov.in_node(self.first, *command).strip()

    def words(self, jobs: list[str]) -> list[str]:
        said = self.gpuprov.in_node(self.first, "squeue", "-h", "--array", "-t", "all", "-o", "%i %T").splitlines()
        words = dict(line.split() for line in said)
        return [words[job] for job in jobs]

    def wait_for(self, jobs: list[str], wanted: list[str]) -> None:
        wait = Wait(what="jobs", timeout_s=60, fix="squeue", interval_s=0.5)
        wait.until(lambda: self.words(jobs), lambda found: found == wanted)


@pytest.fixture(scope="module")
def pair(gpuprov: Gpuprov, place: Place, lxc: object) -> Iterator[Pair]:  # noqa: ARG001
    made = Pair(gpuprov, place)
    said = made.up(made.full("1h"))
    assert "Slurm counts shards, and fences nothing" in said
    yield made
    gpuprov("cluster", "down", place.cluster, "--force", "--purge", "--yes")


def test_jobs_go_to_their_partition_and_one_that_is_too_long_is_refused(pair: Pair) -> None:
    assert pair.srun("-p", "short", "hostname") == pair.first
    assert sorted(pair.srun("-N2", "hostname").split()) == [pair.first, pair.second]
    refused = pair.gpuprov("exec", pair.first, "--", "srun", "-p", "short", "-t", "2:00:00", "hostname", expect=1)
    assert TOO_LONG in refused.stderr
    submit = ("submit", "--cluster", pair.place.cluster, "--no-project")
    pair.gpuprov(*submit, "--partition", "short", "--time", "1h", "--wait", "--", "hostname")
    refused = pair.gpuprov(*submit, "--partition", "short", "--time", "3h", "--", "true", expect=2)
    assert TOO_LONG in refused.stderr
    assert "fix: --time 1h, the most that partition short allows; or another --partition" in refused.stderr
    lacking = pair.gpuprov(*submit, "--partition", "none", "--", "true", expect=2)
    assert "its partitions: long, short" in lacking.stderr


def test_a_job_is_held_to_the_limits_of_its_qos(pair: Pair) -> None:
    assert pair.srun("--qos", "brief", "hostname") == pair.first
    for argv in (("-t", "1:00:00"), ("--gres=gpu:1", "-N2")):
        refused = pair.gpuprov("exec", pair.first, "--", "srun", "--qos", "brief", *argv, "hostname", expect=1)
        assert "Job violates accounting/QOS policy" in refused.stderr
    submit = ("submit", "--cluster", pair.place.cluster, "--no-project", "--qos", "brief", "--wait", "--")
    pair.gpuprov(*submit, "hostname")
    lacking = pair.gpuprov(*submit[:-3], "none", "--", "true", expect=2)
    assert "Invalid qos specification" in lacking.stderr
    assert "--qos NAME, one of these, or omit it: brief, normal" in lacking.stderr
    beyond = pair.gpuprov(*submit[:-2], "--time", "1h", "--", "true", expect=2)
    assert "fix: --time 30m, the most that the QOS brief allows" in beyond.stderr
    wait = Wait(what="the job on record", timeout_s=60, fix="sacct", interval_s=0.5)
    sacct = ("sacct", "-X", "-n", "-P", "-o", "User,QOS")
    wait.until(lambda: pair.gpuprov.in_node(pair.first, *sacct).splitlines(), lambda found: "work|brief" in found)


def test_a_person_who_is_over_the_limit_of_a_qos_waits_and_is_told_why(pair: Pair) -> None:
    here = ("--cluster", pair.place.cluster, "--as", "ann")
    submit = ("submit", *here, "--no-project", "--qos", "brief", "--", "sleep", "600")
    runs, waits = (pair.gpuprov(*submit).stdout.strip() for _ in range(2))

    def states() -> list[tuple[str, str | None]]:
        jobs = json.loads(pair.gpuprov("--json", "jobs", *here).stdout)["jobs"]
        return sorted((job["state"], job["reason"]) for job in jobs)

    wait = Wait(what="ann's jobs", timeout_s=60, fix="squeue", interval_s=0.5)
    wait.until(states, lambda found: found == [("running", None), ("waiting", "QOSMaxGRESPerUser")])
    said = pair.gpuprov.in_node(pair.first, "squeue", "-h", "-u", "ann", "-t", "pending", "-o", "%u %q %r").split()
    assert said == ["ann", "brief", "QOSMaxGRESPerUser"]
    free = pair.gpuprov.in_node(pair.first, "sinfo", "-h", "-N", "-p", "long", "-o", "%N %t")
    assert "idle" in free, "there is room"
    assert "wait" in pair.gpuprov("explain", "(QOSMaxGRESPerUser)").stdout
    assert f"{waits} waits: QOSMaxGRESPerUser (this person has as" in pair.gpuprov("jobs", "logs", *here, waits).stderr
    pair.gpuprov("jobs", "cancel", *here, runs)
    wait.until(states, lambda found: ("running", None) in found)
    pair.gpuprov("jobs", "cancel", *here, waits)


def test_slurm_takes_jobs_of_a_person_whose_number_changes(pair: Pair) -> None:
    job = ("runuser", "-u", "ann", "--", "srun", "-Q", "--chdir=/tmp", "--qos", "brief", "id", "-u")
    assert pair.gpuprov.in_node(pair.first, *job).strip() == "10001"
    pair.file.write_text(pair.file.read_text().replace("10001", "10011"))
    told = pair.gpuprov("cluster", "up", "-f", str(pair.file), "--no-verify").all
    assert "change person ann: uid: 10011 (until now 10001), files keep the number 10001" in told
    assert pair.gpuprov.in_node(pair.first, *job).strip() == "10011"
    bob = pair.file.read_text().replace("[{name: ann, uid: 10011}]", "[{name: bob, uid: 10011}]")
    pair.file.write_text(bob)
    refused = pair.gpuprov("cluster", "up", "-f", str(pair.file), "--no-verify", "--yes", expect=2).stderr
    assert "the number 10011 of ann cannot become that of bob at once" in refused
    pair.up(pair.full("1h"), "--no-verify")


def test_a_gpu_has_a_type_and_its_node_a_feature(pair: Pair) -> None:
    assert pair.srun("-C", "h100", "--gres=gpu:h100:1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES") == "0"
    submit = ("submit", "--cluster", pair.place.cluster, "--no-project")
    pair.gpuprov(*submit, "--gpus", "h100:1", "--wait", "--", "sh", "-c", 'test "$CUDA_VISIBLE_DEVICES"')
    refused = pair.gpuprov(*submit, "--gpus", "b200", "--", "true", expect=2).stderr
    assert "its types: h100" in refused


def test_what_scancel_ends_is_cancelled(pair: Pair) -> None:
    here = ("--cluster", pair.place.cluster)
    job = pair.gpuprov("submit", *here, "--no-project", "--count", "6", "--", "sleep", "600").stdout.strip()

    def jobs() -> dict[str, str]:
        rows = json.loads(pair.gpuprov("--json", "jobs", "show", *here, job).stdout)["jobs"]
        return {row["id"]: row["state"] for row in rows}

    wait = Wait(what="the runs", timeout_s=90, fix="squeue", interval_s=0.5)
    wait.until(lambda: [*jobs().values()], lambda found: "running" in found and "waiting" in found)
    shown = json.loads(pair.gpuprov("--json", "jobs", "show", *here, job).stdout)
    (array,) = shown["submissions"][0]["slurm"]
    pair.gpuprov.in_node(pair.first, "scancel", str(array))
    wait.until(lambda: set(jobs().values()), lambda found: found == {"cancelled"})


def test_verify_tells_that_a_job_opens_a_gpu_that_it_did_not_ask_for(pair: Pair) -> None:
    document = json.loads(pair.gpuprov("--json", "verify", "--cluster", pair.place.cluster).stdout)
    nodes = [node for node in document["nodes"] if node["node"] == pair.first]
    (check,) = (check for check in nodes[0]["checks"] if check["id"] == "slurm-devices")
    assert check["status"] == "pass"
    assert check["evidence"].startswith(
        "not fenced, only hidden by variables: a job without a GPU can open /dev/nvidia"
    )


def test_so_many_jobs_run_on_a_gpu_as_it_has_shards(pair: Pair) -> None:
    shard, gpu = (
        ["--oversubscribe", f"--nodelist={pair.first}", f"--gres={kind}:1", "--mem=10"] for kind in ("shard", "gpu")
    )
    jobs = [pair.batch(*shard, wrap="sleep 600") for _ in range(3)]
    jobs += [pair.batch(*gpu, wrap="sleep 600")]
    pair.wait_for(jobs, ["RUNNING", "RUNNING", "PENDING", "PENDING"])
    pair.gpuprov.in_node(pair.first, "scancel", jobs[0])
    pair.wait_for(jobs[1:], ["RUNNING", "RUNNING", "PENDING"])
    pair.gpuprov.in_node(pair.first, "scancel", jobs[1], jobs[2])
    pair.wait_for(jobs[3:], ["RUNNING"])
    pair.gpuprov.in_node(pair.first, "scancel", jobs[3])


def test_a_partition_is_not_taken_from_under_jobs(pair: Pair) -> None:
    job = pair.batch("-p", "short", wrap="sleep 600")
    pair.wait_for([job], ["RUNNING"])
    assert f"job {job} of root" in pair.up(LESS, "--no-verify", expect=2)
    assert pair.words([job]) == ["RUNNING"]
    pair.gpuprov.in_node(pair.first, "scancel", job)


def test_a_long_job_does_not_notice_that_partitions_change(pair: Pair) -> None:
    job = pair.batch("-p", "short", wrap="sleep 600")
    pair.wait_for([job], ["RUNNING"])
    look = ("scontrol", "-o", "show", "job", job)
    before = pair.gpuprov.in_node(pair.first, *look)
    extra = "    - {name: night, max_time: 8h}\n"
    pair.up(f"{pair.full('2h')}{extra}  network: private\n", "--no-verify")
    after = pair.gpuprov.in_node(pair.first, *look)
    for word in ("JobState=RUNNING", "Restarts=0", "Partition=short", "TimeLimit=01:00:00"):
        assert word in before
        assert word in after
    assert set(pair.gpuprov.in_node(pair.first, "sinfo", "-h", "-o", "%R|%l").split()) == {
        "short|2:00:00",
        "long|infinite",
        "night|8:00:00",
    }
    shown = pair.gpuprov.in_node(pair.first, "scontrol", "-o", "show", "node", pair.second)
    assert f" NodeAddr={pair.place.address(1, 2)} " in shown
    assert sorted(pair.srun("-p", "long", "-N2", "hostname").split()) == [pair.first, pair.second]
    pair.gpuprov.in_node(pair.first, "scancel", job)
    pair.up(pair.full("1h"), "--no-verify")


def test_accounts_get_from_node_to_node_and_root_does_not(pair: Pair) -> None:
    ssh = "ssh -o BatchMode=yes"
    as_work = ("runuser", "-u", "work", "--", "sh", "-c")
    for name in (pair.second, f"{pair.second}-private", pair.place.address(0, 3)):
        assert pair.gpuprov.in_node(pair.first, *as_work, f"{ssh} {name} 'id -un; hostname'").split() == [
            "work",
            pair.second,
        ]
    for command in (f"{ssh} {pair.second} true", f"runuser -u work -- {ssh} root@{pair.second} true"):
        assert "Permission denied" in pair.gpuprov("exec", pair.first, "--", "sh", "-c", command, expect=255).stderr
    address = pair.place.address(0, 3)
    unknown = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")
    outside = pair.gpuprov.start("--version", before=(*ssh.split(), *unknown, f"work@{address}"))
    assert "Permission denied" in outside.communicate(timeout=60)[1]


def test_what_a_job_starts_by_ssh_ends_with_it(pair: Pair) -> None:
    left = "pgrep -u work -f '^sleep 6789'"
    script = f"ssh -o BatchMode=yes {pair.second} 'setsid sleep 6789 >/dev/null 2>&1 </dev/null & sleep 1'; sleep 600"
    submit = ("runuser", "-u", "work", "--", "sbatch", "--parsable", "-N2", "--chdir=/tmp", "--output=/dev/null")
    job = pair.gpuprov.in_node(pair.first, *submit, "--wrap", script).strip()
    wait = Wait(what="the process", timeout_s=60, fix="look at the node", interval_s=0.5)
    look = ("exec", pair.second, "--", "sh", "-c", f"{left} || true")
    wait.until(lambda: pair.gpuprov(*look).stdout, bool)
    pair.gpuprov.in_node(pair.first, "scancel", job)
    wait.until(lambda: pair.gpuprov(*look).stdout, lambda found: not found)


def test_a_program_on_the_host_submits_a_job_by_the_rest_api(pair: Pair) -> None:
    cluster = ("--cluster", pair.place.cluster)
    token = pair.gpuprov("token", *cluster).stdout.strip()
    port = 26820
    with pair.gpuprov.start("rest", *cluster, "--port", str(port)) as relay:
        assert relay.stdout is not None
        assert relay.stdout.readline() == f"address: http://127.0.0.1:{port}/\n"
        job = {"name": "by-rest", "current_working_directory": "/tmp", "environment": {"PATH": "/usr/bin:/bin"}}
        url = f"http://127.0.0.1:{port}/slurm/v0.0.38"
        with ask(f"{url}/job/submit", token, {"job": job, "script": "#!/bin/sh\nid -un >/shared/by-rest\n"}) as answer:
            number = json.load(answer)["job_id"]
        pair.wait_for([str(number)], ["COMPLETED"])
        with pytest.raises(urllib.error.HTTPError):
            ask(f"{url}/jobs", f"{token[:-4]}AAAA")
        relay.send_signal(signal.SIGINT)
        relay.communicate(timeout=60)
    assert relay.returncode == INTERRUPTED
    assert pair.gpuprov.in_node(pair.second, "cat", "/shared/by-rest") == "work\n"
    listening = pair.gpuprov.in_node(pair.first, "sh", "-c", "ss -Hltn 2>/dev/null || true")
    assert ":6820 " not in listening


def ask(url: str, token: str, content: dict[str, object] | None = None) -> Any:
    headers = {"X-SLURM-USER-NAME": "work", "X-SLURM-USER-TOKEN": token, "Content-Type": "application/json"}
    data = None if content is None else json.dumps(content).encode()
    return urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60)


def test_partitions_and_shards_go_as_they_came(pair: Pair) -> None:
    assert "/etc/slurm/slurm.conf" in pair.up(LESS)
    assert pair.gpuprov.in_node(pair.first, "sinfo", "-h", "-o", "%R %G").split() == ["long", "gpu:h100:1"]
    assert "unchanged" in pair.up(LESS)
    submit = ("submit", "--cluster", pair.place.cluster, "--no-project", "--qos", "brief", "--", "true")
    assert "its spec has no slurm.qos" in pair.gpuprov(*submit, expect=2).stderr
