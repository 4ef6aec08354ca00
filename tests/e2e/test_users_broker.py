"""Workers whose broker is one of the user's (`worker.broker`): a real Redis, on the host and reached by NAT."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.waiting import Wait
from tests.e2e.conftest import output

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

PORT = 26379
PACKAGES = (
    "redis-tools", "liblzf1", "libjemalloc2", "liblua5.1-0", "lua-bitop", "lua-cjson", "libhiredis0.14", "libatomic1",
)  # fmt: skip
PASSWORD = secrets.token_hex(16)


class Redis:
    """Debian's, unpacked and not installed; it keeps what it has when it is killed."""

    def __init__(self, folder: Path) -> None:
        for package in PACKAGES:
            subprocess.run(["apt-get", "download", "--quiet", package], cwd=folder, check=True)
        for file in folder.glob("*.deb"):
            output("dpkg", "-x", str(file), str(folder / "root"))
        # the same program, by the name that it is called
        shutil.copy(folder / "root/usr/bin/redis-check-rdb", folder / "redis-server")
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        (libraries,) = (self.folder / "root/usr/lib").glob("*-linux-gnu")
        options = {"port": str(PORT), "bind": "0.0.0.0", "requirepass": PASSWORD, "dir": str(self.folder)}
        options |= {"appendonly": "yes", "appendfsync": "always", "save": ""}
        argv = [word for name, value in options.items() for word in (f"--{name}", value)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.folder / "redis-server", *argv], env={"LD_LIBRARY_PATH": str(libraries)}, stdout=log, stderr=log
            )

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    server = Redis(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def cluster(gpuprov: Gpuprov, place: Place, redis: Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    assert redis.process is not None
    assert redis.process.poll() is None, (redis.folder / "log").read_text()
    spec = tmp_path_factory.mktemp("broker") / "spec.yaml"
    url = f"redis://:{PASSWORD}@{place.address(0, 1)}:{PORT}/0"
    spec.write_text(place.spec(nodes="role: worker", share="true") + f"worker: {{broker: '{url}'}}\n")
    finished = gpuprov("cluster", "up", "-f", str(spec))
    assert PASSWORD not in finished.all
    yield place.cluster
    gpuprov("cluster", "down", place.cluster, "--force", "--purge", "--yes")


def test_work_and_its_checks_go_by_the_user_s_broker(gpuprov: Gpuprov, place: Place, cluster: str) -> None:
    job = gpuprov("submit", "--cluster", cluster, "--no-project", "--", "hostname").stdout.strip()
    gpuprov("jobs", "wait", "--cluster", cluster, job)
    assert gpuprov("jobs", "logs", "--cluster", cluster, job).stdout.split()[-1] in {place.node(0), place.node(1)}
    report = gpuprov.json("verify", "--cluster", cluster)
    checks = {check["id"]: check["status"] for node in report["nodes"] for check in node["checks"]}
    assert [checks[name] for name in ("broker-answers", "worker-alive", "worker-gpu")] == ["pass"] * 3
    refused = gpuprov("queue", "page", "--cluster", cluster, expect=2)
    assert "its broker is one of yours" in refused.stderr
    running = gpuprov.in_node(place.node(0), "ps", "-eo", "args")
    assert PASSWORD not in running
    assert "beam.smp" not in running


def test_a_job_ends_once_though_its_worker_and_the_broker_are_killed(
    gpuprov: Gpuprov, place: Place, cluster: str, redis: Redis
) -> None:
    job = gpuprov("submit", "--cluster", cluster, "--no-project", "--", "sleep", "5").stdout.strip()

    def state() -> str:
        (row,) = gpuprov.json("jobs", "show", "--cluster", cluster, job)["jobs"]
        return str(row["state"])

    Wait(what="the job to run", timeout_s=60, fix="look at the queue").until(state, lambda word: word == "running")
    redis.kill()
    for number in range(2):
        gpuprov("exec", place.node(number), "--", "sh", "-c", "pkill -KILL -f gpuwork[.]worker || true")
    redis.start()
    gpuprov("jobs", "wait", "--cluster", cluster, job)
    (row,) = gpuprov.json("jobs", "show", "--cluster", cluster, job)["jobs"]
    assert (row["state"], row["tries"]) == ("done", 2)
