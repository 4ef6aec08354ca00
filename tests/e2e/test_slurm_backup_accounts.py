"""A controller with accounting and its backup change places: people go on, and all that ran is on record afterwards."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.waiting import Wait
from tests.e2e.test_slurm_in_full import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

pytestmark = pytest.mark.long
LIMIT_S = 150
WRITTEN_S = 6  # Slurm writes its queue every 5 s
GPUS = "env | grep ^CUDA_VISIBLE_DEVICES >/tmp/job-$SLURM_JOB_ID; sleep 2"
UNREACHED = """\
table inet unreached {
    chain out { type filter hook output priority 0
        tcp dport 6817 drop
    }
}
"""
ACCOUNTS = """\
accounting: on
people: [{{name: ann, uid: 10001, account: vision, gpus: 1}}, {{name: bob, uid: 10002}}{more}]
slurm:
  backup: {backup}
  qos: [{{name: long, max_time: 12h}}]
  partitions: [{{name: gpu}}, {{name: short, max_time: 10m, nodes: [{worker}]}}]
  rest: {rest}
"""
PACKAGES = "image: {packages: [slurmrestd, slurm-wlm-jwt-plugin]}\n"
PORT = 26823
INSIDE = {"lxd": ("lxc", "exec", "{}", "--"), "docker": ("docker", "exec", "{}")}
KILLED = {"lxd": ("lxc", "stop", "--force"), "docker": ("docker", "kill")}


class Pair:
    """A cluster of three nodes: the controller with slurmdbd, its backup, and one on which jobs run."""

    def __init__(self, gpuprov: Gpuprov, place: Place, engine: str) -> None:
        self.gpuprov, self.place, self.engine = gpuprov, place, engine
        self.controller, self.backup, self.worker = (place.node(number) for number in range(3))
        self.file = gpuprov.folder / "accounts.yaml"

    def up(self, *options: str, more: str = "", accounts: bool = True, rest: bool = False) -> str:
        names = {"backup": self.backup, "worker": self.worker, "more": more, "rest": str(rest).lower()}
        tail = (PACKAGES if rest else "") + (ACCOUNTS.format(**names) if accounts else "")
        spec = self.place.spec(count=3, gpus="per_node: 1", share="true", engine=self.engine)
        self.file.write_text(spec + tail)
        return self.gpuprov("cluster", "up", "-f", str(self.file), "--no-verify", *options).all

    def inside(self, node: str) -> list[str]:
        return [word.format(node) for word in INSIDE[self.engine]]

    def run(self, *argv: str, at: str = "", code: int = 0) -> str:
        command = [*self.inside(at or self.backup), *argv]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == code, done.stdout + done.stderr
        return (done.stdout + done.stderr).strip()

    def batch(self, person: str, script: str, *options: str, code: int = 0) -> str:
        """The id of a job on the node that is not killed, with its GPU."""
        command = ("runuser", "-u", person, "--", "sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp")
        asked = (f"--nodelist={self.worker}", "--gres=gpu:1", *options, "--wrap", script)
        return self.run(*command, *asked, code=code)

    def wait_for(self, job: str, word: str) -> None:
        wait = Wait(what=f"job {job} to be {word}", timeout_s=LIMIT_S, fix="squeue", interval_s=0.5)
        asked = ("squeue", "-h", "-t", "all", "-j", job, "-o", "%T")
        wait.until(lambda: self.run(*asked), lambda said: said == word)

    def kill(self) -> None:
        """The controller's node; returns once the backup has taken over."""
        time.sleep(WRITTEN_S)
        subprocess.run([*KILLED[self.engine], self.controller], check=True, timeout=120)
        asked = [*self.inside(self.backup), "timeout", "20", "squeue", "-h"]
        wait = Wait(what="the backup to take over", timeout_s=LIMIT_S, fix="scontrol ping", interval_s=1)
        run = lambda: subprocess.run(asked, check=False, capture_output=True, timeout=LIMIT_S).returncode  # noqa: E731
        wait.until(run, lambda code: not code)

    def wait_until_recorded(self, *jobs: str) -> dict[str, dict[str, Any]]:
        """The rows of `usage`, by job, once none of these runs any more."""
        argv = ("--json", "usage", "--cluster", self.place.cluster, "--by", "job")

        def rows() -> dict[str, dict[str, Any]]:
            return {row["name"]: row for row in json.loads(self.gpuprov(*argv).stdout)["rows"]}

        wait = Wait(what="jobs to be on record", timeout_s=LIMIT_S, fix="sacct -a", interval_s=1)
        return wait.until(rows, lambda found: all(job in found and not found[job]["running"] for job in jobs))


@pytest.fixture
def pair(request: pytest.FixtureRequest, gpuprov: Gpuprov, place: Place) -> Iterator[Pair]:
    engine = getattr(request, "param", "lxd")
    request.getfixturevalue("docker" if engine == "docker" else "lxc")
    yield Pair(gpuprov, place, engine)
    gpuprov("cluster", "down", place.cluster, "--force", "--purge", "--yes")


def _change_places(pair: Pair, *also: str, while_away: Callable[[], object] = lambda: None) -> None:
    """The backup takes over with people, limits and partitions, and the controller's node comes back."""
    runs = pair.batch("work", "sleep 50")
    pair.wait_for(runs, "RUNNING")
    pair.kill()
    late = [pair.batch(person, "sleep 2") for person in ("work", *also)]
    late.append(pair.batch("ann", "sleep 2", "--qos=long", "--partition=short", "--time=5"))
    assert "QOSMaxWallDurationPerJobLimit" in pair.batch("bob", "true", "--qos=long", "--time=13:00:00", code=1)
    said = pair.gpuprov("usage", "--cluster", pair.place.cluster, expect=4).all
    assert "evidence: slurmdbd is on the node with the address" in said
    assert "; jobs go on, and " in said
    told = pair.gpuprov("--json", "verify", "--cluster", pair.place.cluster, expect=1).stdout
    assert "slurmdbd does not answer; it is on the node with the address" in told
    while_away()
    for job in (runs, *late):
        pair.wait_for(job, "COMPLETED")
    pair.gpuprov("start", pair.controller)
    assert pair.run("scontrol", "ping", at=pair.controller).count(" is UP") == 2
    found = pair.wait_until_recorded(runs, *late)
    assert found[runs]["gpu_seconds"] >= 50
    assert [found[job]["gpu_seconds"] >= 2 for job in late] == [True] * len(late)
    _has_its_gpu(pair, pair.batch("ann", GPUS))


def _has_its_gpu(pair: Pair, job: str) -> None:
    """A job that began while a controller took control, perhaps before its node had registered."""
    again = 60 + LIMIT_S  # 30 s in which jobs go back, then what is next in the queue
    wait = Wait(what=f"job {job} to end", timeout_s=again, fix="squeue", interval_s=1)
    asked = ("scontrol", "--oneliner", "show", "job", job)
    wait.until(lambda: pair.run(*asked), lambda said: " JobState=COMPLETED " in said)
    assert pair.run("cat", f"/tmp/job-{job}", at=pair.worker) == "CUDA_VISIBLE_DEVICES=0"
    assert pair.wait_until_recorded(job)[job]["gpu_seconds"] >= 2
    assert "gres/gpu" not in pair.run("scontrol", "show", "node", pair.worker).partition("AllocTRES=")[2]


def _begin_before_its_node_has_registered(pair: Pair) -> str:
    """A job on a node that answers slurmctld, but does not reach it: what Slurm 22.05 starts there gets no GPU."""
    job = pair.batch("ann", GPUS, "--hold")
    time.sleep(WRITTEN_S)
    query = ["lxc", "query", f"/1.0/instances/{pair.worker}/state"]
    told = json.loads(subprocess.run(query, check=True, capture_output=True).stdout)
    nft = ["nsenter", "--target", str(told["pid"]), "--net", "nft"]
    subprocess.run([*nft, "-f", "-"], check=True, input=UNREACHED, text=True)
    try:
        pair.run("systemctl", "restart", "slurmctld", at=pair.controller)
        pair.run("sh", "-c", f"until scontrol release {job}; do sleep 0.2; done", at=pair.controller)
        wait = Wait(what="a job without its GPU", timeout_s=LIMIT_S, fix="scontrol -d show job", interval_s=0.2)
        asked = ("scontrol", "--details", "--oneliner", "show", "job", job)
        wait.until(lambda: pair.run(*asked, at=pair.controller), lambda said: ":0(IDX:)" in said)
    finally:
        subprocess.run([*nft, "delete", "table", "inet", "unreached"], check=True)
    return job


def test_a_new_cluster_s_backup_takes_over_with_everybody_in_it(pair: Pair) -> None:
    pair.up()
    assert "unchanged" in pair.up()
    pair.up(more=", {name: eve, uid: 10003, gpus: 1}")
    _change_places(pair, "eve")
    _has_its_gpu(pair, _begin_before_its_node_has_registered(pair))


@pytest.mark.parametrize("pair", ["docker"], indirect=True)
def test_a_backup_takes_over_with_everybody_on_docker(pair: Pair) -> None:
    pair.up()
    assert "unchanged" in pair.up()
    _change_places(pair)


def test_a_cluster_from_before_gets_accounting_a_backup_and_tokens(pair: Pair) -> None:
    """What has a token goes on with the backup, as do people."""
    pair.up(accounts=False)
    pair.up("--renew", "--yes", rest=True)
    assert "unchanged" in pair.up(rest=True)
    token = pair.gpuprov("token", "--cluster", pair.place.cluster).stdout.strip()
    _change_places(pair, while_away=lambda: _lists_jobs(pair, token))


def _lists_jobs(pair: Pair, token: str) -> None:
    """By the REST API of the backup, with a token of the controller and with one of its own."""
    here = ("--cluster", pair.place.cluster)
    tokens = (token, pair.gpuprov("token", *here).stdout.strip())
    with pair.gpuprov.start("rest", *here, "--port", str(PORT)) as relay:
        assert relay.stdout is not None
        assert relay.stdout.readline() == f"address: http://127.0.0.1:{PORT}/\n"
        for one in tokens:
            with ask(f"http://127.0.0.1:{PORT}/slurm/v0.0.38/jobs", one) as answer:
                assert "work" in {job["user_name"] for job in json.load(answer)["jobs"]}
        relay.send_signal(signal.SIGINT)
        relay.communicate(timeout=60)
